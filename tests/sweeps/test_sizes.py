"""Growing sizes: where sharding begins to win."""

import re

import pytest

from bench.values import ENVIRONMENT, comparison, strategy
from spmd_core.answers import SIZES
from spmd_core.base import RequestError
from spmd_core.commands.run import sizes_json
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Estimate
from spmd_core.results import Result
from spmd_core.surveys import size_headline, sizes_offer
from spmd_core.sweeps.sizes import (
    LARGEST_SIMULATED,
    SMALLEST,
    at_sizes,
    begins,
    point_of,
    read_count,
)
from spmd_core.words import sharding_verdict

LAYER = parse_experiment(
    {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8", "sharding": {"in": "x"}}
)


def measured(experiment, alone_s, sharded_s, differs=True):
    fastest, other = ("auto", "single") if sharded_s < alone_s else ("single", "auto")
    return Result.model_validate(
        {
            "run": "r",
            "experiment": experiment,
            "environment": ENVIRONMENT,
            "strategies": {"single": strategy(alone_s), "auto": strategy(sharded_s)},
            "comparison": comparison(fastest, (other, 2.0, differs)),
        }
    )


def predicted(experiment, alone, sharded):
    found = {
        name: {"status": "ok", "predicted_s": Estimate(low=low, estimate=middle, high=high)}
        for name, (low, middle, high) in (("single", alone), ("auto", sharded))
    }
    return Result.model_validate(
        {"run": "r", "experiment": experiment, "environment": ENVIRONMENT, "strategies": found}
    )


def test_sizes_grow_from_its_own_until_they_fill_the_devices():
    found = at_sizes(LAYER, 4)
    assert found[0].sizes == LAYER.sizes and len(found) == 4
    held = [each.what.operand_bytes(each.sizes, each.dtype) for each in found]
    assert held == sorted(held) and held[-1] >= LARGEST_SIMULATED
    assert all(each.strategies == ("single", "auto", "shard_map") for each in found)
    absent = at_sizes(LAYER.vary(target="tpu:v5e:2x4"), 3)[-1]
    assert absent.what.operand_bytes(absent.sizes, absent.dtype) >= 2**30


@pytest.mark.parametrize("mesh", [{"x": 8}, {"x": 2, "y": 4}])
def test_where_sharding_has_won_its_sizes_shrink_while_the_mesh_divides_them(mesh):
    sharding = {"rows": "x"} | ({"cols": "y"} if "y" in mesh else {})
    spec = {"workload": "normalize", "target": "cpu:8", "mesh": mesh, "sharding": sharding}
    large = parse_experiment(spec | {"dims": {"rows": 8192, "cols": 1024}})
    found = at_sizes(large, is_won=True)
    held = [each.what.operand_bytes(each.sizes, each.dtype) for each in found]
    assert held == sorted(set(held)) and len(found) == 5 and held[0] <= SMALLEST
    assert found[-1].sizes == large.sizes
    least = large.vary(dims={"rows": 8, "cols": 4})
    assert [each.sizes for each in at_sizes(least, is_won=True)][-1] == least.sizes


@pytest.mark.parametrize(
    "experiment",
    [
        parse_experiment({"workload": "array", "mesh": {"x": 8}, "target": "cpu:8"}),
        parse_experiment(
            {"study": [{"name": name, "experiment": LAYER.to_json()} for name in "ab"]}
        ),
    ],
)
def test_what_has_no_sizes_is_refused(experiment):
    with pytest.raises(RequestError, match="no sizes at which sharding could begin"):
        at_sizes(experiment)


@pytest.mark.parametrize("text", ["x", "1", "13", "-3", "", "9" * 5000])
def test_a_number_of_sizes_that_is_none_is_one_sentence(text):
    with pytest.raises(RequestError, match="is not a number of sizes: use 2 to 12"):
        read_count(text)


@pytest.mark.parametrize("alone_s", [1e-3, 1.8e-3, 2e-3, 3e-3])
@pytest.mark.parametrize("sharded_s", [0.9e-3, 1e-3, 1.9e-3, 4e-3])
def test_the_ratio_of_a_size_is_that_of_its_run_seen_from_one_device(alone_s, sharded_s):
    if alone_s == sharded_s:
        return
    result = measured(LAYER, alone_s, sharded_s)
    point = point_of(LAYER, result)
    ((*_, shown, _),) = ([cell.text for cell in row] for row in SIZES.table([point], "screen").rows)
    low, high = ends = _ends(shown)
    assert 0.99 * low <= alone_s / sharded_s <= 1.01 * high, "what a reader divides"
    verdict, words = sharding_verdict(result)
    of_run = _ends(words)
    expected = of_run if verdict == "faster" else (1 / of_run[1], 1 / of_run[0])
    assert ends == pytest.approx(expected, rel=0.02)
    assert _ends(size_headline([point])) == ends


def _ends(words):
    low, high = re.findall(r"([\d.]+) to ([\d.]+)", words)[-1]
    return float(low), float(high)


def test_sharding_begins_to_win_where_it_wins_at_every_larger_size():
    first, second, third, fourth = at_sizes(LAYER, 4)
    points = [
        point_of(first, measured(first, 1e-6, 3e-5)),
        point_of(second, measured(second, 2e-5, 1.9e-5, differs=False)),
        point_of(third, measured(third, 3e-3, 1e-3)),
        point_of(fourth, None),
    ]
    assert [point.wins for point in points] == [False, False, True, None]
    assert begins(points) is points[2]
    lost, won = (" ".join(f"{dim}={count}" for dim, count in of.dims) for of in (first, third))
    assert size_headline(points) == (
        f"Sharding begins to win between {lost} and {won}: Automatic 1 ms against 3 ms on one device, "
        "1.80 to 3.00× (99% interval, 20 rounds)."
    )
    untold = [points[1], points[2]]
    middle = " ".join(f"{dim}={count}" for dim, count in second.dims)
    assert f"between {middle} and {won}" in size_headline(untold), "none lost"
    rows = [[cell.text for cell in row] for row in SIZES.table(points, "screen").rows]
    assert rows[2][3:] == [
        "Automatic",
        "1.00 ms",
        "1.80 to 3.00×",
        "sharding is faster",
    ]
    assert [row[-1] for row in rows] == [
        "one device is faster",
        "cannot tell",
        "sharding is faster",
        "–",
    ]
    assert sizes_json(points)["begins"] == dict(third.dims)
    assert size_headline(points[:1]).startswith("Sharding does not win up to")
    assert size_headline(points[:2]).startswith("Cannot tell whether sharding wins up to")
    assert size_headline(points[2:3]).startswith("Sharding wins at the one size compared: ")
    assert size_headline((points[2], points[2])).startswith("Sharding wins at each of 2 sizes: ")
    for at, are in ((slice(1), "smaller sizes, "), (slice(3, 4), "larger sizes, ")):
        known = [points[2]]
        assert f" {are}" in sizes_offer([point.experiment for point in points[at]], known)
    assert "sizes, " not in sizes_offer([points[0].experiment, points[3].experiment], [points[2]])
    assert size_headline(points[3:]) == "No size was computed to the end."


def test_a_predicted_win_is_one_beyond_both_intervals():
    assert point_of(LAYER, predicted(LAYER, (9, 10, 11), (4, 5, 6))).wins
    assert not point_of(LAYER, predicted(LAYER, (9, 10, 11), (8, 9.5, 12))).wins
