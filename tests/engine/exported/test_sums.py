"""Sums that a program keeps in 16 bits: right ones are a match or imprecise, others are wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.small_shapes import STEPS, of_program
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.exported.reference import program_references
from spmd_core.engine.lower import execute, structs
from spmd_core.experiment import parse_experiment
from spmd_core.script import program_text
from spmd_core.workloads import programs
from tests.cover import cover

pytestmark = [pytest.mark.this_python, pytest.mark.usefixtures("read_here")]


def array(mesh, shape, dtype, *spec):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def sgd(table, tokens, target):
    def loss(table):
        return jnp.mean((table.astype(jnp.bfloat16)[tokens] - target) ** 2)

    return table - 0.1 * jax.grad(loss)(table)


def embedding(mesh, tokens=512):
    return {
        "table": array(mesh, (16, 8), jnp.float32),
        "tokens": array(mesh, (16, tokens), jnp.int32, "x"),
        "target": array(mesh, (16, tokens, 8), jnp.bfloat16, "x"),
    }


def judged(step, arguments, devices):
    """The judgement of a function of arrays on a mesh of some devices, by that of an array with
    changed values."""
    mesh = abstract_mesh({"x": devices})
    program = programs.take(written(step, arguments(mesh))).program
    fields = {"workload": "program_file", "program": program, "target": f"cpu:{devices}"}
    experiment = parse_experiment(fields | {"mesh": {"x": devices}})
    names = complete(execute(program_text(experiment, "auto"), "f.py"), experiment)
    found = names["program"].trace(*structs(experiment, names)).lower().compile()
    drawn = names["make_operands"]()
    (right,) = program_references(experiment.exported, drawn, "cpu", 0).values()
    (given,) = found(*(jax.device_put(drawn[at], names["placed"][at]) for at in drawn))
    return right, lambda change: right.judge(change(np.asarray(given)))


def test_an_embedding_gradient_is_as_right_on_eight_devices_as_on_one():
    """One device rounds at each of 512 terms, eight at each of 64."""
    right, one = judged(sgd, embedding, 1)
    _, eight = judged(sgd, embedding, 8)
    assert right.added().terms > 400
    assert (eight(np.array).wrong, eight(np.array).imprecise) == (0, 0)
    assert one(np.array).wrong == 0 and one(np.array).imprecise > 0
    assert one(np.array).correct and eight(np.array).correct
    for wrong in (np.zeros_like, lambda each: np.roll(each, 1), lambda each: each * 1.001):
        assert eight(wrong).wrong > 60


def grouped(values, groups):
    return jax.ops.segment_sum(values, groups, 2)


def values_in_groups(mesh, dtype=jnp.bfloat16):
    return {
        "values": array(mesh, (4096, 16), dtype, "x"),
        "groups": array(mesh, (4096,), jnp.int32, "x"),
    }


def test_a_sum_that_stops_growing_is_imprecise_and_zeros_are_wrong():
    """2,048 terms of one sign in bfloat16: beyond 256 of them a term is half a unit of the sum."""
    right, one = judged(grouped, values_in_groups, 1)
    _, eight = judged(grouped, values_in_groups, 8)
    found = one(np.array)
    assert found.correct and found.imprecise == found.compared and 0.5 < found.off < 1
    assert 2000 < right.added().terms < 2200 and right.added().dtype == "bfloat16"
    assert eight(np.array).correct and eight(np.array).unjudged == 0
    scaled = lambda by: lambda each: (each.astype(np.float64) * by).astype(each.dtype)  # noqa: E731
    for judge, by in ((one, 0), (one, 0.02), (one, 4), (one, -1), (eight, 0), (eight, 1.5)):
        assert judge(scaled(by)).wrong == found.compared


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_of_sums_that_are_split_over_devices_a_lost_eighth_is_found(dtype):
    """64 terms, which one device adds up nearly right; 8 a device."""
    arguments = lambda mesh: {  # noqa: E731
        "values": array(mesh, (2048, 16), dtype, "x"),
        "groups": array(mesh, (2048,), jnp.int32, "x"),
    }
    apart = jnp.arange(2048)
    step = lambda values, groups: jax.ops.segment_sum(values, (groups + apart) % 32, 32)  # noqa: E731
    _, of = judged(step, arguments, 8)
    assert of(np.array).correct
    for kept in (0.5, 0.875):
        lost = of(lambda each, kept=kept: (each.astype(np.float64) * kept).astype(each.dtype))
        assert lost.wrong > lost.compared / 3


@pytest.mark.parametrize("axis", [0, 1])
def test_a_running_sum_is_right_whichever_way_it_is_added_up(axis):
    """XLA adds in a tree on one device, and term by term where the axis is sharded."""
    spec = (None, "x") if axis else ("x",)
    shape = (8, 1024) if axis else (1024, 8)
    arguments = lambda mesh: {"values": array(mesh, shape, jnp.bfloat16, *spec)}  # noqa: E731
    _, of = judged(lambda values: jnp.cumsum(values, axis), arguments, 8)
    assert of(np.array).correct
    assert of(np.zeros_like).wrong > 1000
    assert of(lambda each: np.roll(each, 128, axis)).wrong > 1000


def test_float32_sums_of_many_terms_are_a_match():
    _, of = judged(grouped, lambda mesh: values_in_groups(mesh, jnp.float32), 8)
    found = of(np.array)
    assert found.correct and not found.imprecise
    assert of(lambda each: each * np.float32(1.0001)).wrong == found.compared


@pytest.mark.parametrize(("name", "dtype"), cover(STEPS, ["bfloat16", "int32", "bool"]))
def test_results_of_few_elements_are_judged(name, dtype):
    """Of none, what is returned is right."""
    assert of_program(name, dtype) == (True, False)
