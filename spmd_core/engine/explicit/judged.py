"""Runs a step under Explicit axes, and judges its results by those of the step as it was."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import jax

from spmd_core.base import RequestError
from spmd_core.engine.exported.describe import describe, read
from spmd_core.engine.exported.lower import draw
from spmd_core.engine.exported.reference import program_references
from spmd_core.engine.step import capture
from spmd_core.engine.step.tracing import TracedStep
from spmd_core.workloads import Program, programs


def judge(auto: TracedStep, explicit: TracedStep, notes: list[str]) -> tuple[int | None, int]:
    """Elements that are wrong, and those that were compared; None and 0, with a note, where the
    step cannot be run on one device.
    """
    try:
        exported = read(capture.exported(auto, "cpu"))
        described, kept = describe(exported, is_own=True)
        data = bytes(replace(exported, mlir_module_serialized=kept).serialize())
        named = {"program": sha256(data).hexdigest(), "name": auto.function}
        described = described.model_copy(update=named)
        programs.hold(described, data)
        program = Program(described, described.mesh)
        operands = draw(program, 0)
        expected = program_references(program, operands, "cpu", 0)
    except RequestError as error:
        notes.append(f"results were not compared: {error}")
        return None, 0
    results = _run(explicit, operands)
    judged = [expected[path].judge(results[path]) for path in expected]
    return sum(each.wrong for each in judged), sum(each.compared for each in judged)


def _run(step: TracedStep, operands: dict[str, Any]) -> dict[str, Any]:
    compiled = step.traced.lower().compile()
    infos = jax.tree.leaves(step.traced.args_info, is_leaf=lambda leaf: hasattr(leaf, "_aval"))
    placed = []
    shardings = jax.tree.leaves(compiled.input_shardings)
    for path, info, sharding in zip(step.arguments, infos, shardings, strict=True):
        value = operands.get(path)
        if value is None:  # not used by the step
            value = jax.numpy.zeros(info.shape, info.dtype)
        placed.append(jax.device_put(value, sharding))
    args, kwargs = jax.tree.unflatten(compiled.in_tree, placed)
    outputs = jax.tree.leaves(compiled(*args, **kwargs))
    return {path: jax.device_get(each) for path, each in zip(step.outputs, outputs, strict=True)}
