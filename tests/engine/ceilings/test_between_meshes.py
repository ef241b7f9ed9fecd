"""Data between two meshes: what passes between which devices, that all of it arrives, and what is refused."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.script.programs import collectives
from spmd_core.workloads import TRANSFERS

KINDS = tuple(name for name, each in TRANSFERS.items() if each.between_meshes)
MESHES = {"x": 8}, {"x": 2, "y": 4}, {"x": 4, "y": 2}
COUNT = 64


def of_eight(sizes):
    return Mesh(np.array(jax.devices()).reshape(tuple(sizes.values())), tuple(sizes))


def groups(sizes):
    return [(name,) for name in sizes] + [tuple(sizes)] * (len(sizes) > 1)


@pytest.mark.parametrize("sizes", MESHES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_device_of_the_other_half_has_what_passes_to_it(kind, sizes):
    mesh = of_eight(sizes)
    for axes in groups(sizes):
        argument = collectives.operand(kind, mesh, COUNT, "float32")
        found = collectives.transfer(kind, mesh, axes)(argument)
        assert collectives.is_right(kind, mesh, axes, found, COUNT, "float32")
        assert not argument.sharding.device_set & found.sharding.device_set
        assert np.array_equal(found, argument)


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_what_passes_to_a_device_is_what_it_wants_once(sizes):
    mesh = of_eight(sizes)
    for axes in groups(sizes):
        _, wanted = collectives.ends(mesh, axes)
        pairs = collectives.passed(mesh, axes, (4, COUNT))
        for device, index in wanted.devices_indices_map((4, COUNT)).items():
            seen = np.zeros((4, COUNT), int)
            for (_, to), (rows, columns) in pairs.items():
                seen[slice(*rows), slice(*columns)] += to == device
            asked = np.zeros((4, COUNT), int)
            asked[index] = 1
            assert np.array_equal(seen, asked)


def test_a_wrong_value_and_a_wrong_device_are_seen():
    mesh, (kind, *_) = of_eight({"x": 8}), KINDS
    argument = collectives.operand(kind, mesh, COUNT, "float32")
    found = collectives.transfer(kind, mesh, ("x",))(argument)
    for wrong in (
        found.at[3, COUNT - 1].add(1),
        argument,
        jax.device_put(found, argument.sharding),
    ):
        assert not collectives.is_right(kind, mesh, ("x",), wrong, COUNT, "float32")


def test_each_way_is_timed_and_its_pairs_are_counted(run):
    options = {"kinds": ",".join(KINDS), "points": 1, "smallest": 4096, "largest": 4096}
    finished = run(workload="collectives", mesh={"x": 2, "y": 4}, options=options)
    found = finished.result.strategies["as_written"]
    assert [each.kind for each in found.points] == [kind for kind in KINDS for _ in range(3)]
    assert all(each.correct and each.time_s for each in found.points)
    counted = {each.values["axes"]: each.values for each in found.facts}
    assert (counted["y"]["count"], counted["y"]["share"]) == (16, 0.25)
    assert (counted["x"]["count"], counted["x"]["share"]) == (16, 1.0)


@pytest.mark.parametrize(
    ("target", "mesh", "rule"),
    [
        ("tpu:v5e:2x4", {"x": 8}, "has no estimate: use an attached target"),
        ("cpu:3", {"x": 3}, "has no axis of an even size"),
    ],
)
def test_what_has_no_two_halves_is_refused(target, mesh, rule):
    asked = {"workload": "collectives", "target": target, "mesh": mesh}
    with pytest.raises(RequestError, match=rule):
        parse_experiment(asked | {"options": {"kinds": KINDS[0]}})
