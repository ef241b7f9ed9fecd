"""The collectives of a program that is partitioned without code, beside those of its compile."""

import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from bench import exported_steps
from bench.exported import abstract_mesh, written
from bench.exported_steps import STEPS
from bench.lost_batches import PLANTED, taken
from bench.pasted_constraints import LINES, SOURCE, exported_source
from spmd_core.base import RequestError
from spmd_core.engine import codeless, partitioned as partition
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import memory_account
from spmd_core.engine.partitioned import lowered, partitioned, propagated
from spmd_core.facts import PredictedMemory, Prediction, StoredFact
from spmd_core.program import read_collectives
from spmd_core.results import StrategyResult

pytestmark = pytest.mark.usefixtures("read_here")
SIZES = {"data": 2, "tensor": 4}
MESH = abstract_mesh(SIZES)


def _array(shape, *spec, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P(*spec)))


def _experiment(step, **arguments):
    return taken(written(step, arguments))


def _requested(experiment):
    found = partitioned(experiment, "auto").collectives
    return [(each.kind, each.axes, each.dim, each.bytes, each.count) for each in found]


def _compiled(experiment):
    compiled = lowered(experiment, "auto").compile()
    return read_collectives(read_module(compiled), experiment.mesh)


def _facts(found):
    return Counter((each.kind, each.asked, each.axes, each.bytes, each.count) for each in found)


def test_a_contracted_dim_is_summed_and_a_sharded_weight_gathered():
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", "data")
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)
    assert _requested(experiment) == [
        ("all-gather", ("data",), 1, 8 * 16 * 4, 1),
        ("all-reduce", ("tensor",), None, 32 * 16 * 4, 1),
    ]


def test_propagation_names_the_types_of_values_within_scans_and_calls():
    def step(x, w):
        return jax.lax.scan(lambda x, _: (jax.jit(jnp.matmul)(x, w), None), x, None, length=5)[0]

    experiment = _experiment(step, x=_array((64, 32), "data"), w=_array((32, 32)))
    answer = propagated(experiment, "auto")
    assert not answer.collectives and answer.values
    assert "f32[64@data,32]" in {of for _, of, _ in answer.values}
    replicated = propagated(experiment.vary(specs={"x": [None, None]}), "auto")
    assert {of for _, of, _ in replicated.values if "@" in of} == set()


def test_another_spec_is_answered_from_the_same_module():
    x, w = _array((64, 32), "data", None), _array((32, 16), None, "tensor")
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)
    assert _requested(experiment) == []
    changed = experiment.vary(specs={"w": ["tensor", None], "x": ["data", "tensor"]})
    assert [each[:2] for each in _requested(changed)] == [("all-reduce", ("tensor",))]
    assert _requested(experiment) == []


def test_the_size_of_an_axis_changes_bytes():
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)
    other = experiment.vary(mesh={"data": 4, "tensor": 2})
    assert [each[3] for each in (*_requested(experiment), *_requested(other))] == [2048, 1024]


def test_an_axis_of_size_one_communicates_nothing():
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)
    whole = experiment.vary(mesh={"data": 8, "tensor": 1})
    assert _requested(whole) == []
    assert [of for _, of, _ in propagated(whole, "auto").values] == ["f32[64@data,16]"]


def test_a_scan_counts_its_steps():
    def step(x, w):
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)[0]

    x, w = _array((64, 32), "data", None), _array((6, 32, 32), None, "tensor", None)
    experiment = _experiment(step, x=x, w=w)
    found = _requested(experiment)
    assert {each[4] for each in found} == {6}
    assert _facts(partitioned(experiment, "auto").collectives) == _facts(_compiled(experiment))


def test_a_loop_of_unknown_length_has_no_count():
    def step(x, w):
        return jax.lax.while_loop(lambda h: h.sum() < 9, lambda h: jnp.tanh(h @ w), x)

    experiment = _experiment(step, x=_array((64, 32), "data"), w=_array((32, 32), "tensor", None))
    assert None in {each[4] for each in _requested(experiment)}
    types = {of for _, of, _ in propagated(experiment, "auto").values}
    assert {"f32[64@data,32@tensor]", "bool[]"} <= types


def test_a_custom_call_is_sharded_over_its_batch_alone():
    experiment = _experiment(lambda x: jnp.linalg.qr(x)[0], x=_array((8, 64, 32), "data"))
    moved = experiment.vary(specs={"x": ["tensor", None, None]})
    types = {of for _, of, _ in propagated(moved, "auto").values}
    assert "f32[8@tensor,64,32]" in types and not _requested(moved)


def test_collectives_of_a_shard_map_are_read_on_their_local_arrays():
    experiment = taken(STEPS["plain, shard_map"]())
    weight = 4 * exported_steps.WIDTH**2  # bench.clean_findings widens it for its process
    assert _requested(experiment) == [
        ("all-gather", ("fsdp",), 0, weight, 1),
        ("reduce-scatter", ("fsdp",), 0, weight, 1),
        ("all-reduce", ("fsdp",), None, 4, 1),
    ]


@pytest.mark.parametrize(("line", "name"), LINES.items())
def test_a_constraint_of_a_gradient_is_two_as_the_pasted_line_is(line, name, tmp_path):
    rows = SOURCE.splitlines(keepends=True)
    held = "NamedSharding(MESH, P('data', None))"
    rows.insert(line, f"    {name} = jax.lax.with_sharding_constraint({name}, {held})\n")
    base = exported_source(SOURCE, tmp_path, True)
    inserted = base.vary(specs={f"@model.py:{line}": ["data", None]})
    pasted = exported_source("".join(rows), tmp_path, True)
    ours, theirs = (
        sorted(re.sub(r"%\w+", "%", lowered(each, "auto").as_text()).splitlines())
        for each in (inserted, pasted)
    )
    assert ours == theirs and sum("sdy.sharding_constraint" in each for each in ours) == 2


def test_a_constraint_on_a_line_changes_what_is_requested():
    experiment = taken(PLANTED["plain"].exported())
    line = next(
        each.source
        for each in partitioned(experiment, "auto").collectives
        if each.source is not None
    )
    constrained = experiment.vary(specs={f"@{line}": ["data", None, None]})
    assert _requested(constrained) != _requested(experiment)


def test_no_sharding_communicates_nothing():
    experiment = _experiment(lambda x: x @ x.T, x=_array((64, 32)))
    assert _requested(experiment) == []


@pytest.mark.parametrize("name", ["plain, shard_map", "plain, scan, adamw"])
def test_a_step_has_the_collectives_of_its_compile(name):
    experiment = taken(STEPS[name]())
    assert (
        _facts(partitioned(experiment, "auto").collectives)
        == _facts(_compiled(experiment))
        != Counter()
    )


def test_the_lowered_program_stays_as_it_is():
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    program = lowered(_experiment(lambda x, w: x @ w, x=x, w=w), "auto")
    before, compiled = program.as_text(), None
    with codeless.without_code(program):
        compiled = program.compile()
    assert compiled is None
    assert program.as_text() == before
    assert codeless._CALL not in program.compile().as_text()


def test_other_errors_of_the_compiler_are_raised():
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    program = lowered(_experiment(lambda x, w: x @ w, x=x, w=w), "auto")
    with (
        pytest.raises(jax.errors.JaxRuntimeError, match="of tomorrow"),
        codeless.without_code(program),
    ):
        raise jax.errors.JaxRuntimeError("of tomorrow")


def test_memory_is_that_of_the_compile_without_the_result_that_ends_it():
    experiment = taken(STEPS["plain, scan, adamw"]())
    memory = memory_account(lowered(experiment, "auto").compile())
    held = memory["argument"] + memory["temp"] + memory["output"] - memory["alias"]
    assert partitioned(experiment, "auto").peak_bytes == pytest.approx(held, rel=0.02)


def test_a_program_that_the_compiler_refuses_ends_in_a_sentence(monkeypatch):
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)

    def refuse(given, strategy):
        raise jax.errors.JaxRuntimeError("INTERNAL: of\ntomorrow")

    monkeypatch.setattr(partition, "lowered", refuse)
    words = r"partitioning this program fails \(INTERNAL: of tomorrow"
    with pytest.raises(RequestError, match=words):
        _requested(experiment)


def test_a_program_that_does_not_fit_ends_in_the_words_of_the_compiler(monkeypatch):
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w).vary(target="tpu:v5e:2x4")
    fact = StoredFact(kind="compiler", values={"words": "RESOURCE_EXHAUSTED: Used 64G of 16G hbm"})
    memory = PredictedMemory(peak=64 * 2**30, capacity=16 * 2**30, missing=48 * 2**30)
    refused = Prediction(fits=False, memory_bytes=memory, facts=(fact,))
    outcome = StrategyResult(status="ok", prediction=refused)
    finished = SimpleNamespace(result=SimpleNamespace(strategies={"auto": outcome}))
    monkeypatch.setattr(partition, "describe", lambda target: None)
    monkeypatch.setattr(partition, "predict_experiment", lambda *given: finished)
    with pytest.raises(RequestError, match="fails \\(RESOURCE_EXHAUSTED: Used 64G of 16G hbm"):
        partitioned(experiment, "auto")


def test_a_program_that_no_result_can_be_added_to_stays_as_it_is(monkeypatch):
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    program = lowered(_experiment(lambda x, w: x @ w, x=x, w=w), "auto")
    before = program.as_text()

    def fail(main):
        main.entry_block.operations[0].erase()
        raise ValueError("of tomorrow")

    monkeypatch.setattr(codeless, "_append_call", fail)
    with pytest.raises(ValueError, match="of tomorrow"), codeless.without_code(program):
        pass
    assert program.as_text() == before


@pytest.mark.parametrize("paths", [("w",), ("m",), ("w", "m")])
def test_a_donated_argument_takes_another_spec_than_the_result_in_its_place(paths):
    """JAX lets the first result of its shape replace it, which is here that of the other array."""
    w, m = _array((64, 32)), _array((64, 32))

    def step(w, m):
        return {"a": m * 0.9 + w, "b": w * 2}

    kept = {"a": NamedSharding(MESH, P()), "b": NamedSharding(MESH, P())}
    given = {"w": w, "m": m}
    experiment = taken(written(step, given, donated=("w",), outputs=kept))
    changed = experiment.vary(specs={path: ["data", None] for path in paths})
    before, after = (
        memory_account(lowered(each, "auto").compile())["argument"]
        for each in (experiment, changed)
    )
    assert after == before * (4 - len(paths)) // 4


def test_propagation_answers_what_outputs_follow_that_no_sharding_names():
    """As `jax.jit` without out_shardings: another spec of one argument moves the output of another."""
    x, w, v = _array((64, 32), "data"), _array((32, 16), None, "tensor"), _array((16, 32))
    experiment = _experiment(lambda x, w, v: ((x @ w).T @ x, v), x=x, w=w, v=v)
    assert experiment.exported
    outputs = [each.path for each in experiment.exported.described.outputs]
    first, _ = propagated(experiment, "auto").outputs
    assert first[0] == ("tensor",), "the dim that it has of `w`"
    moved = experiment.vary(specs={"w": [None, None]})
    first, second = propagated(moved, "auto").outputs
    assert not any(first) and not any(second)
    program = replace(moved.exported, followed=dict(zip(outputs, (first, second), strict=True)))
    assert program.outputs()[0].copies == 8
    assert experiment.exported.outputs()[0].copies == 2
