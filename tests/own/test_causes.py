"""Causes of collectives in steps where what is named, or is nearest, is not what caused them."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import spmd_lab
from tests.own import steps

pytestmark = [pytest.mark.newer]


def collectives(step, *specs):
    """Those of a step of square arrays, by kind."""
    mesh = steps.devices()
    return spmd_lab.explain(step)(
        *(steps.place(mesh, (16, 16), *spec) for spec in specs)
    ).collectives


def reasons(step, *specs):
    """The reason of each, up to its line."""
    return [each.reason.partition(" (test_")[0] for each in collectives(step, *specs)]


def test_what_moves_over_an_axis_that_shard_map_leaves_to_the_compiler_is_no_call():
    def step(x):
        def local(x):
            return jax.lax.psum_scatter(x, "tensor", scatter_dimension=1, tiled=True)

        return jax.shard_map(
            local, mesh=steps.devices(), in_specs=P(), out_specs=P(None, "tensor"),
            axis_names={"tensor"}, check_vma=False,
        )(x)  # fmt: skip

    by_axes = {each.axes: each for each in collectives(step, ("fsdp",))}
    own, others = by_axes.pop(("tensor",)), list(by_axes.values())
    assert own.reason.startswith("the program itself calls reduce_scatter over tensor")
    assert [each.kind for each in own.origin] == ["shard_map"]
    assert [each.kind for each in others] == ["all-gather"]
    for each in others:
        assert each.asked is None
        assert "calls" not in each.reason
        assert "shard_map" not in [origin.kind for origin in each.origin]


def test_an_element_of_one_shard_is_taken_and_not_summed():
    (reason,) = reasons(lambda x: x[3], ("fsdp",))
    assert reason == "each device along fsdp holds the part of `squeeze`"


def test_a_sum_is_of_partial_sums_and_a_maximum_is_not_of_softmax():
    assert reasons(lambda x: x.sum(0), ("fsdp",)) == [
        "devices along fsdp hold partial sums of `reduce_sum`"
    ]
    (reason,) = reasons(lambda x: x.max(0), ("fsdp",))
    assert "maximum" in reason and "softmax" not in reason


@pytest.mark.parametrize("mirrored", [lambda x: (x * 2)[::-1], lambda x: jnp.flip(x + 1, 0)])
def test_mirrored_shards_pass_around_no_ring(mirrored):
    permutes = [each for each in collectives(mirrored, ("fsdp",)) if "permute" in each.kind]
    assert permutes
    assert not [each.reason for each in permutes if "ring" in each.reason]


def test_an_output_without_a_name_is_called_by_its_number():
    def step(x, y):
        return (x.sum(0), (x @ y).sum(), y * 2)

    (both,) = collectives(step, ("fsdp",), ())
    assert "`output 0`" in both.reason


def test_bytes_of_branches_are_not_called_those_of_a_step():
    def step(x):
        return jax.lax.cond(x[0, 0] > 0, lambda: x.sum(0), lambda: x.max(0))

    explained = spmd_lab.explain(step)(steps.place(steps.devices(), (16, 16), "fsdp"))
    (line,) = [each for each in str(explained).splitlines() if each.startswith("Communication")]
    assert line.endswith("a device and step, 2 of unknown count taken once")
