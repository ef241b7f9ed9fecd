"""The pictures of collectives hold what JAX's own collectives leave on each device."""

import math
import re

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from spmd_core.experiment import parse_experiment
from spmd_core.script.programs.collectives import body
from spmd_core.workloads import COLLECTIVES
from spmd_lab.ui.collectives import moved
from spmd_lab.ui.collectives.moved import COLLECTIVE_EFFECTS, devices_drawn

PARTS = "abcdefgh"
PER_DEVICE = 100  # block `2c` is the number 302: no sum of others


def number(label, devices):
    """A block as a number, and a sum of blocks as theirs."""
    if label.startswith(moved._SUM):
        return sum(number(f"{at}{label[1:]}", devices) for at in range(devices))
    return PER_DEVICE * (int(label[0]) + 1) + PARTS.index(label[1] if label[1:] else "a")


@pytest.mark.parametrize("kind", COLLECTIVES)
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_a_picture_is_what_jax_computes(kind, devices):
    before, after = moved.held(kind, devices)
    mesh = jax.make_mesh(
        (devices,),
        ("x",),
        axis_types=(jax.sharding.AxisType.Auto,),
        devices=jax.devices()[:devices],
    )
    ordered = [number(label, devices) for _, _, _, label in before]
    of_device = jax.shard_map(
        body(kind, mesh, ("x",)), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False
    )
    found = np.asarray(jax.jit(of_device)(np.array(ordered, np.int32)))
    assert found.tolist() == [number(label, devices) for _, _, _, label in after]


def test_every_collective_has_its_function_and_what_it_does():
    assert tuple(COLLECTIVE_EFFECTS) == COLLECTIVES
    assert all(hasattr(jax.lax, function) for function, _ in COLLECTIVE_EFFECTS.values())


def test_a_picture_of_few_devices_says_of_how_many():
    assert ", drawn for 4 of 8 devices." in devices_drawn(4, 8)
    assert "drawn for" not in devices_drawn(4, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "12 sizes of 5 collectives over 3 groups of axes, 1.0 KiB to 16.0 MiB"),
        ({"kinds": "all-gather"}, "12 sizes of all-gather over 3 groups of axes, 1.0 KiB"),
        ({"kinds": "all-gather", "axes": "x"}, "12 sizes of all-gather, 1.0 KiB to 16.0 MiB"),
    ],
)
def test_what_will_be_measured_is_counted_in_sizes(options, words):
    asked = {"workload": "collectives", "target": "cpu:8", "mesh": {"x": 2, "y": 4}}
    experiment = parse_experiment(asked | {"options": options})
    said = moved.plan_words(experiment)
    assert said.startswith(f"To measure on cpu:8: {words}")
    sizes, *times = (int(each) for each in re.findall(r"(\d+) (?:sizes|coll|groups)", said))
    assert math.prod(times) * sizes == moved.points_of(experiment)
