"""What a change of workload, topology or mesh makes of the Predict screen's fields."""

import math

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.machine import TPUS, get_topology, legal_shapes
from spmd_core.plan import AXES
from spmd_lab.ui.predict import drafts

MODEL = parse_experiment(
    {
        "workload": "decoder",
        "target": "tpu:v5e:4x4",
        "mesh": {"fsdp": 4, "tensor": 4},
        "dims": {"batch": 32, "sequence": 2048},
        "options": {"model": "scaled:1"},
    }
).to_json()
LAYER = parse_experiment(
    {
        "workload": "layer",
        "target": "tpu:v5e:4x4",
        "mesh": {"x": 4, "y": 4},
        "dims": {"batch": 64, "in": 64, "out": 64},
        "sharding": {"in": "y", "batch": ["x"]},
        "strategies": ["auto"],
    }
).to_json()


@pytest.mark.parametrize("draft", [MODEL, LAYER], ids=["model", "layer"])
@pytest.mark.parametrize(
    "target",
    [
        "tpu:v5e:1x1",
        "tpu:v5e:16x16",
        "tpu:v5p:4x4x12",
        "tpu:v3:4x4",
        "tpu:v6e:8x8*3",
        "tpu:tpu7x:2x2x4*2",
    ],
)
def test_the_mesh_fills_whatever_topology_is_chosen(draft, target):
    moved = drafts.moved(draft, target)
    assert math.prod(size for _, size in moved["mesh"]) == get_topology(target).devices
    # 64 does not divide over 3, which the screen says
    if draft is MODEL or not any(size % 3 == 0 for _, size in moved["mesh"]):
        assert parse_experiment(moved).target == target


def test_a_model_keeps_its_sequences_per_device_and_puts_slices_outermost():
    moved = drafts.moved(MODEL, "tpu:v5e:8x8*2")
    assert moved["mesh"] == [["data", 2], ["fsdp", 16], ["tensor", 4]]
    assert moved["dims"]["batch"] == 2 * 128
    assert drafts.moved(moved, "tpu:v5e:8x8")["mesh"] == [["fsdp", 16], ["tensor", 4]]


def test_dims_cut_over_an_axis_that_is_gone_are_cut_over_the_first():
    new = drafts.with_mesh(LAYER, [["x", 16]], 16)
    assert new["sharding"] == {"batch": "x"}  # which was there first
    # one array is not cut twice over one axis
    assert drafts.with_mesh(LAYER, [["z", 16]], 16)["sharding"] == {"batch": "z"}


@pytest.mark.parametrize("generation", TPUS)
def test_presets_fill_every_topology(generation):
    for shape in legal_shapes(generation):
        for slices in ("", "*2"):
            topology = get_topology(f"tpu:{generation}:{'x'.join(map(str, shape))}{slices}")
            for workload, mesh in (("decoder", [["fsdp", 4]]), ("layer", [["x", 4]])):
                found = drafts.presets(workload, topology, mesh)
                assert found
                for axes in found.values():
                    assert math.prod(size for _, size in axes) == topology.devices
                    assert workload != "decoder" or {name for name, _ in axes} <= set(AXES)


@pytest.mark.parametrize("name", drafts.workloads())
def test_every_workload_that_is_offered_is_valid_when_chosen(name):
    for draft in (MODEL, LAYER):
        if draft["workload"] != name:
            found = parse_experiment(drafts.switched(draft, name))
            assert (found.target, found.device_count, found.workload) == ("tpu:v5e:4x4", 16, name)
            assert "single" not in found.strategies


def test_models_come_first():
    assert drafts.workloads()[:2] == ("decoder", "transformer_block")
    assert not {"array", "program", "transfer"} & set(drafts.workloads())


@pytest.mark.parametrize(
    ("spec", "target", "mesh"),
    [
        ({"target": "cpu:8", "mesh": {"x": 8}}, "tpu:v5e:2x4", (("x", 8),)),
        ({"target": "tpu:v5e:4x5", "mesh": {"x": 8}}, "tpu:v5e:4x4", (("x", 16),)),
        ({"target": "tpu:v5e:4x4", "mesh": {"x": 2, "y": 4}}, "tpu:v5e:4x4", (("x", 4), ("y", 4))),
        ({"target": "tpu:v9:4x4*9999", "mesh": {"x": 16}}, "tpu:v5e:4x4", (("x", 16),)),
        ({"target": "tpu:v5e:4x4*9999", "mesh": {"x": 16}}, "tpu:v5e:4x4*256", (("x", 4096),)),
    ],
)
def test_the_nearest_that_can_be_predicted(spec, target, mesh):
    experiment = parse_experiment(
        {
            "workload": "layer",
            "dims": {"batch": 8192, "in": 4096, "out": 4096},
            "sharding": {"in": "x"},
        }
        | spec
    )
    nearest = drafts.nearest(experiment)
    assert nearest is not None
    assert (nearest.target, nearest.mesh) == (target, mesh)
