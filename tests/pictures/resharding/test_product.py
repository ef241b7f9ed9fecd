"""The communication of a product, against the textbook's cases, its seconds and its sentences."""

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.machine import get_topology
from spmd_core.pictures import Move, is_product, product, time_of
from spmd_core.results import Point, StrategyResult
from spmd_core.roofline import Calibration, time_model
from spmd_core.roofline.duration import NOT_FILLED, Duration
from spmd_core.time.cost.links import collective_s, route_of
from spmd_core.workloads import WORKLOADS
from spmd_lab.ui.charts import layout_words as words

KIB = 1024


def step(x, weights, y, target="cpu:8", **dims):
    return parse_experiment(
        {
            "workload": "layer",
            "target": target,
            "mesh": {"x": 2, "y": 4},
            "dims": {"batch": 64, "in": 128, "out": 64} | dims,
            "overrides": {"x": x, "weights": weights, "y": y},
        }
    )


def needs(experiment):
    return product(experiment, time_model(experiment, cores=2))


def of(experiment, *points, cores=None):
    found = Calibration(StrategyResult(status="ok", points=points)) if points else None
    times = time_model(experiment, found, cores)
    return lambda move: time_of(move, experiment.mesh, times)


@pytest.mark.parametrize(
    ("x", "weights", "y", "expected"),
    [
        # data parallel: nothing
        (["x", None], [None, None], ["x", None], []),
        # weights stored in parts of `in` are gathered
        (["x", None], ["x", None], ["x", None], [("weights", "all-gather", ("x",), 32 * KIB)]),
        # the contracted dim sharded alike: partial sums over y
        ([None, "y"], ["y", None], [None, None], [("y", "all-reduce", ("y",), 16 * KIB)]),
        ([None, "y"], ["y", None], ["y", None], [("y", "reduce-scatter", ("y",), 16 * KIB)]),
        # both: two mesh axes
        (["x", "y"], ["y", None], ["x", None], [("y", "all-reduce", ("y",), 8 * KIB)]),
        (["x", None], ["x", "y"], ["x", "y"], [("weights", "all-gather", ("x",), 8 * KIB)]),
        # the result is wanted replicated
        (["x", None], [None, None], [None, None], [("y", "all-gather", ("x",), 16 * KIB)]),
    ],
)
def test_the_cases_of_the_textbook(x, weights, y, expected):
    found = needs(step(x, weights, y))
    assert [
        (move.array, move.kind, move.axes, move.nbytes) for move in found.collectives
    ] == expected


def test_partial_sums_are_said_to_be_of_the_contracted_dim():
    experiment = step([None, "y"], ["y", None], ["y", None])
    found = needs(experiment)
    assert found.partial == ("y",)
    assert words.why(experiment, found, found.collectives[0]) == (
        "the contracted dim `in` is sharded over `y`: partial sums of y are added, and each device "
        "keeps its shard"
    )
    assert (
        words.product_headline(experiment, found, of(experiment))
        == "Reduce-scatter of the result y over axis `y`"
    )


def test_seconds_are_those_of_the_cost_model():
    experiment = step(["x", None], ["x", None], ["x", None], "tpu:v5e:2x4")
    (move,) = needs(experiment).collectives
    topology = get_topology("tpu:v5e:2x4")
    where = route_of(topology, experiment.mesh, "topology", ("x",))
    found = of(experiment)(move)
    assert found.seconds == collective_s(topology, "all-gather", where, 32 * KIB)
    assert found.low < found.seconds < found.high and found.source == "nominal"


def test_seconds_on_simulated_devices_are_of_a_calibration_else_guessed():
    experiment = step(["x", None], ["x", None], ["x", None])
    move = Move("all-gather", ("x",), 32 * KIB)
    assert of(experiment, cores=2)(move).source == "guessed"
    assert "was not calibrated" in words.time_source([move], of(experiment, cores=2))
    assert words.in_all([move], of(experiment, cores=2)).endswith(", a guess")
    points = [
        Point(
            kind="all-gather",
            axes=("x",),
            devices=2,
            dtype="float32",
            bytes=nbytes,
            time_s=1e-4 + nbytes / 1e9,
        )
        for nbytes in (KIB, 1024 * KIB)
    ]
    found = of(experiment, *points)(move)
    assert found.seconds == pytest.approx(1e-4 + 32 * KIB / 1e9)
    assert found.source == "calibrated" and found.stand_in == ""
    over_y = Move("all-gather", ("y",), KIB)
    assert words.time_source([over_y], of(experiment, *points)) == (
        "Seconds by the calibration of this mesh, as measured over x, among 2 devices."
    )
    unknown = of(experiment, *points)(Move("all-to-all", ("y",), KIB))
    assert (
        unknown.reason == "The time is unknown: there is no estimate for all-to-all on this target."
    )


def test_a_mesh_that_does_not_fill_its_topology_has_no_seconds():
    here = of(step(["x", None], ["x", None], ["x", None], "tpu:v5e:4x4"))
    assert here(Move("all-gather", ("x",), KIB)) == NOT_FILLED


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_products_are_contractions_of_two_arrays(name):
    assert is_product(WORKLOADS[name]) == (name in ("layer", "dot", "product", "matmul"))


def test_a_change_of_spec_in_a_sentence():
    before, after = (("x",), ()), ((), ())
    move = Move("all-gather", ("x",), 32 * KIB, (0,))
    said = words.reshard_headline(
        before, after, [move], 16 * KIB, lambda move: Duration(2e-6, 1e-6, 3e-6, "nominal")
    )
    assert said == (
        "P('x', None) → P(None, None): each device receives at most 16.0 KiB, by "
        "all-gather over `x`: 2 µs"
    )
    assert words.reshard_headline(before, before, [], 0, lambda move: NOT_FILLED).endswith(
        "nothing is sent, every device already holds it"
    )
