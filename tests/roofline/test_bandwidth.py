"""Points, fits and ceilings: definitions against numbers worked out by hand."""

import numpy as np
import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.roofline import busy_facts, cases, ceiling, fits, on_topology
from spmd_core.terms import counted, fit_words, half_points, rate_words, sweep_words
from spmd_core.words import fact_words


def sweep(target="cpu:8", mesh=None, dtype="float32", **options):
    return parse_experiment(
        {
            "workload": "collectives",
            "target": target,
            "dtype": dtype,
            "mesh": mesh or {"x": 2, "y": 4},
            "options": options,
        }
    )


def test_every_axis_every_pair_and_all_of_them_are_measured():
    found = cases(sweep(mesh={"x": 2, "y": 2, "z": 2}, kinds="all-reduce"))
    assert [case.axes for case in found] == [
        ("x",),
        ("y",),
        ("z",),
        ("x", "y"),
        ("x", "z"),
        ("y", "z"),
        ("x", "y", "z"),
    ]
    assert [case.devices for case in found] == [2, 2, 2, 4, 4, 4, 8]


def test_sizes_have_equal_ratios_and_are_shared_evenly_by_a_group():
    case = cases(sweep(kinds="all-gather", axes="y", smallest=1000, largest=1_000_000, points=4))[0]
    assert case.sizes == (992, 10_000, 100_000, 1_000_000)
    assert all(size % (4 * 4) == 0 for size in case.sizes)


def test_equal_sweeps_have_one_form_and_one_id():
    asked = sweep(kinds=" collective-permute, all-reduce ", axes="y+x , x", smallest=1024)
    assert dict(asked.options)["kinds"] == "all-reduce,collective-permute"
    assert dict(asked.options)["axes"] == "x+y,x"
    assert sweep(kinds="all").id == sweep().id == sweep(axes="x,y,x+y").id


@pytest.mark.parametrize(
    ("options", "mesh", "words"),
    [
        ({"kinds": "all-reduce,scatter"}, None, "kind 'scatter' is not measured: use all, or"),
        ({"axes": "x,q"}, None, "axes 'q' are not axes of the mesh: use all, or some of x, y such"),
        ({"smallest": 0}, None, "smallest=0 is not a whole number from 1"),
        ({"smallest": 4096, "largest": 1024}, None, "smallest=4096 is more than largest=1024"),
        ({}, {"x": 1}, "mesh x=1 has no axis of two devices to communicate over"),
        ({"points": 65}, None, "points=65 is not a whole number from 1 to 64"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_a_sentence(options, mesh, words):
    with pytest.raises(RequestError) as refused:
        sweep(mesh=mesh, **options)
    assert words in str(refused.value)


def test_a_mesh_that_does_not_fill_a_topology_is_refused_before_it_is_queued():
    with pytest.raises(RequestError, match="does not fill v5e:4x4"):
        sweep("tpu:v5e:4x4", {"x": 8})


@pytest.mark.parametrize(
    ("kind", "devices", "factor"),
    [
        ("all-reduce", 4, 1.5),
        ("all-gather", 4, 0.75),
        ("reduce-scatter", 8, 0.875),
        ("all-to-all", 2, 0.5),
        ("collective-permute", 8, 1.0),
        ("host-to-device", 1, 1.0),
    ],
)
def test_bus_bandwidth_is_what_nccl_tests_prints(kind, devices, factor):
    mesh = {"x": max(2, devices)}
    case = cases(sweep(mesh=mesh, kinds=kind))[0]
    point = case.point(8_000_000, 2e-3)
    assert case.devices == devices
    assert point.algbw == pytest.approx(4e9) and point.busbw == pytest.approx(4e9 * factor)


def test_a_fit_finds_the_latency_and_bandwidth_that_made_the_points():
    case = cases(sweep(kinds="all-reduce", axes="y"))[0]
    noise = np.random.default_rng(1).normal(1, 0.01, len(case.sizes))
    points = [
        case.point(size, (5e-5 + 1.5 * size / 2e9) * by)
        for size, by in zip(case.sizes, noise, strict=True)
    ]
    (fit,) = fits(points)
    assert fit.latency_s == pytest.approx(5e-5, rel=0.03)
    assert fit.bandwidth == pytest.approx(2e9, rel=0.03)
    assert fit.latency_ci95_s[0] < 5e-5 < fit.latency_ci95_s[1]
    assert fit.knee_bytes == pytest.approx(5e-5 * 2e9 / 1.5, rel=0.05)


def test_times_that_do_not_grow_with_bytes_have_no_bandwidth_in_words():
    case = cases(sweep(kinds="all-reduce", axes="y"))[0]
    (fit,) = fits([case.point(size, 1e-4) for size in case.sizes])
    assert "over y: 100 µs, whatever its bytes" in fit_words(fit)
    assert rate_words(fit.bandwidth) == "–"


def test_wrong_points_and_too_few_make_no_fit():
    case = cases(sweep(kinds="all-reduce", axes="y"))[0]
    assert fits([case.point(size, 1e-4) for size in case.sizes[:2]]) == ()
    assert fits([case.point(size, 1e-4, correct=False) for size in case.sizes]) == ()


def test_an_absent_topology_is_predicted_by_the_formulas_of_its_links():
    experiment = sweep(
        "tpu:v5e:4x4",
        {"x": 4, "y": 4},
        kinds="all-gather",
        axes="y",
        smallest=2**26,
        largest=2**26,
        points=1,
    )
    (point,) = on_topology(experiment)
    # a line of 4 chips: (n-1)/n of 64 MiB through one link of 45 GB/s, launch and hops besides
    assert point.predicted_s == pytest.approx(2**26 * 0.75 / 45e9, rel=0.02)
    assert point.time_s is None
    assert sweep_words([point])[0].startswith("Predicted: All-gather reaches ")


@pytest.mark.parametrize(
    ("relative", "words"),
    [
        ((0.1, 0.6, 1.0, 0.9), "Half of that is reached over y from about 14 KiB on."),
        (
            (0.1, 0.6, 1.0, 0.3),
            "Half of that is reached over y from about 14 KiB to about 94 KiB.",
        ),
        ((0.6, 0.7, 0.9, 1.0), "Half of that is reached over y from about 4 KiB on."),
    ],
)
def test_the_sizes_that_reach_half_of_the_highest_bandwidth(relative, words):
    """A bandwidth that falls again, as caches end, is not said to go on."""
    (case,) = cases(sweep(kinds="all-reduce", axes="y", smallest=2**12, largest=2**18, points=4))
    points = [
        case.point(size, size / (rate * 1e9))
        for size, rate in zip(case.sizes, relative, strict=True)
    ]
    assert sweep_words(points)[1] == words


@pytest.mark.parametrize("points", [2, 3, 11])
def test_half_of_the_bandwidth_is_reached_at_a_size_that_no_point_has_to_have(points):
    """Of latency + bytes / bandwidth, for every number of points between the same ends."""
    (case,) = cases(
        sweep(kinds="all-reduce", axes="y", smallest=2**10, largest=2**30, points=points)
    )
    latency_s, rate = 8e-6, 45e9
    timed = [case.point(size, latency_s + size / rate) for size in case.sizes]
    first, last = half_points(timed)
    assert first.bytes == pytest.approx(latency_s * rate, rel=0.001)
    assert first.bytes / first.time_s == pytest.approx(rate / 2, rel=0.001)
    assert last.bytes == 2**30 and half_points(timed[:1]) is None
    slower = [case.point(size, 3 * (latency_s + size / rate)) for size in case.sizes]
    assert half_points([*timed, *slower]) == (first, last), "a size that was measured twice"


def test_the_highest_bandwidth_is_a_measured_one_where_any_point_was():
    (case,) = cases(sweep(kinds="all-reduce", axes="y", smallest=2**12, largest=2**18, points=2))
    small, large = case.sizes
    failed = case.point(large).model_copy(update={"predicted_s": 1e-6})
    assert counted([failed]) == [failed]
    points = [case.point(small, 1e-3), failed]
    assert counted(points) == points[:1]
    assert "(4.0 KiB)" in sweep_words(points)[0] and "Predicted" not in sweep_words(points)[0]


def test_a_ceiling_is_what_the_fastest_reach_and_a_busy_machine_is_named():
    calm = ceiling("copy", "Copy bandwidth", "B/s", 1e9, [0.1, 0.101, 0.102, 0.1, 0.103])
    assert calm.value == pytest.approx(1e10, rel=0.01)
    assert calm.interval[0] <= calm.value <= calm.interval[1]
    busy = ceiling("copy", "Copy bandwidth", "B/s", 1e9, [0.1, 0.2, 0.15, 0.3, 0.12])
    assert busy_facts([calm]) == ()
    (fact,) = busy_facts([calm, busy])
    assert fact_words(fact).startswith("1 of 2 ceilings spread by up to")


def test_a_repeat_faster_than_its_dispatch_is_left_out():
    found = ceiling("copy", "Copy bandwidth", "B/s", 1e9, [0.1, -0.01, -0.02, 0.11, 0.12])
    assert 0 < found.interval[0] <= found.value <= found.interval[1]
