"""One rule of "this mesh on another topology": a table of cases, which its three callers share."""

import math

import pytest
from hypothesis import given, strategies as st

from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.experiment.nearest import nearest
from spmd_core.experiment.resized import axes_left, on_topology, resized, taking_axis
from spmd_core.machine import (
    get_topology,
    nearest_of_chips,
    nearest_topology,
    parse_target,
    topology_of_chips,
)
from spmd_core.sweeps import parse_sweep, variants

# one of the rule's three callers is the screen: not where Streamlit is not, beside the newer JAX
pytest.importorskip("streamlit")
from spmd_lab.ui.predict import drafts

DECODER = {"workload": "decoder", "options": {"model": "scaled:1"}}
LAYER = {"workload": "layer", "sharding": {"batch": "x"}}
# workload, mesh, on, moved to, the mesh there, the other axes that did not stay
CASES = [
    (DECODER, "fsdp=2,tensor=8", "v5e:4x4", "v5e:2x2", "fsdp=1,tensor=4", ("tensor",)),
    (DECODER, "fsdp=16", "v5e:4x4", "v5e:4x4", "fsdp=16", ()),
    (DECODER, "fsdp=4,tensor=4", "v5e:4x4", "v5e:16x16", "fsdp=64,tensor=4", ()),
    (DECODER, "fsdp=4,tensor=4", "v5e:4x4", "v5e:2x4", "fsdp=2,tensor=4", ()),
    (DECODER, "tensor=4,data=4", "v5e:4x4", "v5e:8x8", "tensor=4,data=16", ()),
    (DECODER, "tensor=8,sequence=2", "v5e:4x4", "v5e:8x8", "fsdp=4,tensor=8,sequence=2", ()),
    (DECODER, "data=4,fsdp=1,tensor=4", "v5e:4x4", "v5e:2x4", "data=2,fsdp=1,tensor=4", ("data",)),
    # slices: onto data, or where they lay already
    (DECODER, "fsdp=16,tensor=16", "v5e:16x16", "v5e:16x16*4", "data=4,fsdp=16,tensor=16", ()),
    (DECODER, "data=2,fsdp=16", "v5e:4x4*2", "v5e:4x4", "fsdp=16", ()),
    (DECODER, "data=2,fsdp=16", "v5e:4x4*2", "v5e:4x4*8", "data=8,fsdp=16", ()),
    (DECODER, "fsdp=32", "v5e:4x4*2", "v5e:4x4*4", "fsdp=64", ()),
    (DECODER, "tensor=2,fsdp=16", "v5e:4x4*2", "v5e:4x4*4", "data=4,tensor=2,fsdp=8", ()),
    (DECODER, "fsdp=4,tensor=4", "v5e:4x4", "v5e:2x4*2", "data=2,fsdp=2,tensor=4", ()),
    (DECODER, "fsdp=2,tensor=8", "v5e:4x4", "v5e:2x2*4", "data=4,fsdp=1,tensor=4", ("tensor",)),
    # another workload: the axis of the batch, or the first
    (LAYER, "x=4,y=4", "v5e:4x4", "v5e:16x16", "x=64,y=4", ()),
    (LAYER, "y=4,x=4", "v5e:4x4", "v5e:16x16", "y=4,x=64", ()),
    (LAYER, "x=2,y=8", "v5e:4x4", "v5e:2x2", "x=1,y=4", ("y",)),
    (LAYER, "y=4,x=4", "v5e:4x4", "v5e:4x4*2", "x=8,y=4", ()),
    (LAYER, "y=2,x=16", "v5e:4x4*2", "v5e:4x4*4", "y=4,x=16", ()),
    (LAYER | {"sharding": {"in": "y"}}, "x=4,y=4", "v5e:4x4", "v5p:2x2x2", "x=2,y=4", ()),
]
case = pytest.mark.parametrize(("what", "mesh", "old", "new", "wanted", "changed"), CASES)


def pairs(text: str) -> list[list]:
    return [[name, int(size)] for name, size in (part.split("=") for part in text.split(","))]


def experiment_of(what: dict, mesh: str, target: str) -> Experiment:
    dims = (
        {"batch": 1024, "sequence": 4096}
        if what is DECODER
        else {"batch": 1024, "in": 1024, "out": 1024}
    )
    return parse_experiment(
        {
            **what,
            "mesh": pairs(mesh),
            "target": f"tpu:{target}",
            "dims": dims,
            "strategies": ["auto"],
        }
    )


@case
def test_the_rule(what, mesh, old, new, wanted, changed):
    found = on_topology(experiment_of(what, mesh, old), get_topology(new))
    assert (found.text, found.changed) == (wanted, changed)


@case
def test_the_screen_moves_by_the_rule(what, mesh, old, new, wanted, changed):
    del changed
    draft = experiment_of(what, mesh, old).to_json()
    assert drafts.moved(draft, f"tpu:{new}")["mesh"] == pairs(wanted)


def chosen_by_chips(old: str, new: str) -> bool:
    """Whether a sweep over chips comes from the one to the other: it chooses the shape."""
    topology = get_topology(new)
    return topology.chip is get_topology(old).chip and topology == topology_of_chips(
        topology.chip.generation, topology.chips
    )


@pytest.mark.parametrize(
    ("what", "mesh", "old", "new", "wanted", "changed"),
    [each for each in CASES if chosen_by_chips(each[2], each[3])],
)
def test_a_sweep_moves_by_the_rule_and_refuses_where_two_things_would_vary(
    what, mesh, old, new, wanted, changed
):
    base = experiment_of(what, mesh, old)
    (point,) = variants(parse_sweep(base, f"chips={get_topology(new).chips}", "strong"))
    if changed:
        assert point.experiment is None and point.refusal is not None
        assert (
            "do not divide over" in point.refusal
            and f"start the sweep from {wanted}" in point.refusal
        )
    else:
        assert point.experiment is not None, point.refusal
        assert [list(axis) for axis in point.experiment.mesh] == pairs(wanted)


@pytest.mark.parametrize(
    ("mesh", "target", "wanted"),
    [
        ("fsdp=2,tensor=8", "v5e:2x2", "fsdp=1,tensor=4"),
        ("fsdp=15", "v5e:4x4", "fsdp=16"),
        ("fsdp=4,tensor=4", "v5e:16x16", "fsdp=64,tensor=4"),
        ("data=3,fsdp=16", "v5e:4x4*2", "data=2,fsdp=16"),
        ("fsdp=16", "v5e:4x4*2", "fsdp=32"),
        ("tensor=4,data=3", "v5e:4x4", "tensor=4,data=4"),
    ],
)
def test_a_link_and_the_screen_fill_a_topology_alike(mesh, target, wanted):
    """Both know only the topology that is named: the mesh counts as lying over its slices."""
    spec = {
        **DECODER,
        "target": f"tpu:{target}",
        "mesh": pairs(mesh),
        "dims": {"batch": 1024, "sequence": 4096},
    }
    experiment, said = nearest(spec)
    assert [list(axis) for axis in experiment.mesh] == pairs(wanted)
    assert any(f"{wanted.replace(',', ', ')} is used." in sentence for sentence in said)
    draft = spec | {"sharding": {}, "overrides": {}}
    assert drafts.filled(draft, get_topology(target)) == pairs(wanted)


@given(
    st.lists(
        st.tuples(st.sampled_from(["data", "fsdp", "tensor", "sequence"]), st.integers(1, 64)),
        min_size=1,
        max_size=4,
        unique_by=lambda axis: axis[0],
    ),
    st.sampled_from(["v5e:1x1", "v5e:4x4", "v5p:4x4x12", "v3:4x4", "v6e:8x8*3", "tpu7x:2x2x4*2"]),
    st.sampled_from(["decoder", "layer"]),
    st.sampled_from([None, 1, 2, 3]),
)
def test_there_is_always_an_answer_and_asking_again_changes_nothing(mesh, name, workload, slices):
    topology = get_topology(name)
    found = resized(mesh, topology, workload=workload, slices=slices)
    assert math.prod(size for _, size in found.mesh) == topology.devices
    assert resized(found.mesh, topology, workload=workload).mesh == found.mesh
    if workload == "layer":
        assert {axis for axis, _ in found.mesh} == {
            axis for axis, _ in mesh
        }  # which its sharding may name
    kept = dict(found.others)
    assert all(
        dict(found.mesh).get(axis, 1) == kept[axis]
        for axis in kept
        if axis not in found.changed and axis != found.mesh[0][0]
    )


def test_the_axis_that_takes_the_change():
    assert taking_axis("decoder", [("data", 2), ("fsdp", 4)]) == "fsdp"
    assert taking_axis("decoder", [("tensor", 2), ("data", 4)]) == "data"
    assert taking_axis("decoder", [("tensor", 2)]) == "fsdp"
    assert taking_axis("layer", [("x", 2), ("y", 4)], ("y",)) == "y"
    assert taking_axis("layer", [("x", 2), ("y", 4)]) == "x"


def test_axes_that_a_mesh_does_not_have_leave_an_entry():
    assert axes_left(["x", "y", "z"], ["z", "x"]) == ["x", "z"]
    assert axes_left([None], []) is None


@pytest.mark.parametrize(
    ("target", "devices", "name"),
    [
        ("tpu:v5e:4x4*2", 8, "v5e:4x4*2"),
        ("tpu:v5e:4x5*2", 8, "v5e:4x4*2"),
        ("tpu:v7:2x2", 8, "tpu7x:2x2x1"),
        ("tpu:v5e:4x4*999", 8, "v5e:4x4*256"),
        ("tpu:v9:4x4", 60, "v5e:8x8"),
        ("cpu:8", 8, "v5e:2x4"),
        ("local", 512, "v5e:16x16*2"),
        (None, 1, "v5e:1x1"),
        ("cpu:8", 10**400, "v5e:16x16"),
    ],
)
def test_the_nearest_topology_of_any_target(target, devices, name):
    assert nearest_topology(parse_target(target) if target else None, devices).name == name


def test_the_nearest_of_a_number_of_chips():
    assert nearest_of_chips("v3", 8).name == "v3:2x2"
    assert nearest_of_chips("v5e", 4096).name == "v5e:16x16*16"
