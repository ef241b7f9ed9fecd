"""A real array is compared with its layout, shard by shard."""

import pytest

from spmd_core.experiment import layout_json, layout_of, link, parse_experiment
from spmd_core.results import ArrayReport, ShardReport
from spmd_lab.ui.layout.placing import difference
from tests.experiment.test_layout import ARRAY
from tests.ui import opened, said

pytestmark = pytest.mark.slow


def report(experiment, **changes):
    """What JAX reports of an array that lies as the layout says, with changes."""
    data = layout_json(experiment)
    shards = (
        tuple(ShardReport(**shard) for shard in data["shards"]) if data["devices"] <= 64 else None
    )
    return ArrayReport(
        **(
            {
                "shape": data["shape"],
                "dtype": data["dtype"],
                "spec": data["spec"],
                "memory": "device",
                "shards": shards,
            }
            | changes
        )
    )


def test_a_real_array_as_the_layout_says_differs_nowhere():
    experiment = parse_experiment(ARRAY)
    assert difference(layout_of(experiment), report(experiment)) is None


def test_an_array_that_lies_elsewhere_is_found_out():
    experiment = parse_experiment(ARRAY)
    found, right = layout_of(experiment), report(experiment)
    assert right.shards
    swapped = (
        right.shards[0].model_copy(update={"index": right.shards[1].index}),
        *right.shards[1:],
    )
    assert (
        difference(found, report(experiment, shards=swapped))
        == "device 0 holds [[0, 2], [2, 4]], the layout says [[0, 2], [0, 2]]"
    )
    assert (
        difference(found, report(experiment, shards=right.shards[:7]))
        == "device 7 holds nothing, the layout says [[2, 4], [6, 8]]"
    )
    more = (*right.shards, ShardReport(device=8, index=((0, 2), (0, 2))))
    assert (
        difference(found, report(experiment, shards=more))
        == "9 devices hold shards, the layout has 8"
    )
    assert (
        difference(found, report(experiment, shape=(8, 4)))
        == "the array has shape 8 × 4, the layout 4 × 8"
    )


def test_beyond_64_devices_the_spec_decides():
    experiment = parse_experiment(
        {
            "workload": "array",
            "mesh": {"x": 8, "y": 16},
            "dims": {"d0": 128, "d1": 4},
            "sharding": {"d0": ["y", "x"]},
        }
    )
    found = layout_of(experiment)
    assert difference(found, report(experiment)) is None
    wrong = report(experiment, spec=(["x", "y"], None))
    assert (
        difference(found, wrong)
        == "the array is sharded by [['x', 'y'], None], the layout by [['y', 'x'], None]"
    )
    assert difference(found, report(experiment, spec=None)) is not None


def test_an_array_on_the_host_says_so_in_its_answer_its_code_and_its_plan(data_folder):
    spec = {"mesh": {"x": 2, "y": 2, "z": 2}, "dims": {"d0": 12, "d1": 64, "d2": 32}}
    spec |= {"workload": "array", "sharding": {"d0": ["y", "x"]}, "data": {"array": "arange"}}
    here, host = (
        opened("layout", experiment=link.encode(parse_experiment(spec | more)), to="P('y', 'x')")
        for more in ({}, {"memory": {"array": "pinned_host"}})
    )
    assert "8 devices each hold 3\u00a0×\u00a064\u00a0×\u00a032 of\u00a012" in said(here)
    assert "8 devices each hold in pinned_host 3\u00a0×\u00a064" in said(host).replace("\\", "")
    assert "first each device copies its 24.0 KiB from the host" in said(host)
    assert "copies its" not in said(here)
    (code,) = (each.value for each in here.code if "device_put" in each.value)
    assert "np.arange(24576).reshape((12, 64, 32))" in code, "the values that are placed"
