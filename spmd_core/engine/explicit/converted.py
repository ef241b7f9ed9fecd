"""Finds every sharding type error of a step, and edits its files until it traces under Explicit
axes, in a process of its own: `python -m spmd_core.engine.explicit.converted FD REQUEST`.
"""

import difflib
import json
import os
import re
import sys
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any

import jax
from jax.sharding import AxisType, PartitionSpec
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from spmd_core.base import LabError, RequestError, answer, refuse
from spmd_core.engine.explicit.loading import Loader, read_request
from spmd_core.engine.explicit.watch import Key, Watch, error_words
from spmd_core.engine.explicit.ways import Mended, Ways
from spmd_core.engine.exported.allowed import operations
from spmd_core.engine.exported.describe import describe, read
from spmd_core.engine.exported.leaves import of_sharding
from spmd_core.engine.exported.lower import draw
from spmd_core.engine.exported.reference import program_references
from spmd_core.engine.step import capture, here, tracing
from spmd_core.engine.step.tracing import TracedStep
from spmd_core.facts import ExplicitReport
from spmd_core.fields import Spec
from spmd_core.workloads import Program, programs


def reported(loader: Loader) -> ExplicitReport:
    """The errors of a step, and its patch.

    Raises:
        RequestError: the step cannot be taken.
        LabError: it does not trace under Auto axes, by JAX's own words.
    """
    auto, given, mesh = _auto(loader)
    if mesh.size == 1:
        raise refuse(f"mesh {dict(mesh.shape)}", "has one device", "give an axis a size above 1")
    ways = Ways(loader, _wanted(loader), here.compiled_step(auto).collectives or ())
    mended = ways.chosen()
    notes = _notes(auto, given, mended)
    loader.use(mended.texts)
    traced, wrong, compared = None, None, 0
    try:
        traced = loader.trace(None)[0]
    except Exception as error:  # whatever JAX raises: the report has it
        mended.unmended = mended.unmended or error_words(error)
        if not mended.is_of_sharding:
            notes.insert(0, f"the patch ends at what is no sharding type error: {mended.unmended}")
    if traced is not None:
        wrong, compared = judge(auto, traced, notes)
    return ExplicitReport(
        function=auto.function,
        mesh=tuple(mesh.shape.items()),
        errors=ways.errors(mended),
        patch=_patch(loader),
        texts={
            path: each.finished()
            for path, each in loader.sources.items()
            if each.finished() != each.original
        },
        traces=traced is not None,
        wrong=wrong,
        compared=compared,
        beyond=ways.beyond(mended),
        outputs=_outputs(traced) if traced else {},
        notes=tuple(notes),
    )


def _outputs(traced: tracing.TracedStep) -> dict[str, str]:
    types = (aval.str_short(short_dtypes=True) for aval in traced.traced.jaxpr.out_avals)
    return dict(zip(traced.outputs, types, strict=False))


def _auto(loader: Loader) -> tuple[tracing.TracedStep, Any, Any]:
    try:
        return loader.trace(Watch(AxisType.Auto))
    except LabError:
        raise
    except Exception as error:  # the step's own, or JAX's: as they are
        raise LabError(f"{type(error).__name__}: {error}") from error


def _wanted(loader: Loader) -> dict[Key, list[Any]]:
    """The specs that values have under Auto axes; none where a probe or a pass fails."""
    watch = Watch(AxisType.Auto, probes=True)
    with suppress(Exception):  # what is not known so is guessed by sizes
        return wanted_specs(loader.trace(watch)[0].traced, watch)
    return {}


def _notes(auto: tracing.TracedStep, given: Any, mended: Mended) -> list[str]:
    notes = [f"{each}: the mesh has Auto axes, and the patch makes them Explicit" for each in mended.meshes]  # fmt: skip
    text = str(auto.traced.jaxpr)
    if "shard_map" in text:
        notes.append("the bodies of shard_map have Manual axes, and stay as they are")
    shardings = (getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(given))
    if not any(any(each.spec) for each in shardings if each is not None):
        notes.append("no spec of an argument names an axis: every type is replicated")
    notes.append(
        "call the step, and what initializes it, under `with jax.set_mesh(mesh):`, by which specs "
        "find their mesh"
    )
    return notes


def _patch(loader: Loader) -> str:
    lines: list[str] = []
    for path, source in loader.sources.items():
        name = os.path.relpath(path, loader.root)
        before, after = (text.splitlines(keepends=True) for text in (source.original, source.finished()))  # fmt: skip
        lines += difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)  # fmt: skip


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


_PROBE = re.compile(r"spmd_probe_(\d+)_(\d+)_")


def wanted_specs(traced: Any, watch: Watch) -> dict[Key, list[Any]]:
    """The specs of each expression's result, as propagation leaves them; the first where it is
    evaluated several times alike. Nothing is compiled.
    """
    module = traced.lower().compiler_ir("stablehlo")
    specs: dict[tuple[int, int], PartitionSpec] = {}
    with module.context:
        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True), module.context)
        passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(
            copy.operation
        )
        for op in operations(copy.operation):  # the last first: of several alike the first stays
            if op.name == "stablehlo.optimization_barrier":
                _probed(op, specs)
    wanted: dict[Key, list[Any]] = defaultdict(list)
    for number, (key, tree, dims) in enumerate(watch.probed):
        given = [specs.get((number, at), PartitionSpec()) for at in range(len(dims))]
        with suppress(IndexError):  # a leaf has no sharding that is known
            leaves = [PartitionSpec(*(spec[dim] for dim in own)) for spec, own in zip(given, dims, strict=True)]  # fmt: skip
            made = jax.tree.unflatten(tree, leaves)
            if made not in wanted[key]:
                wanted[key].append(made)
    return wanted


def _probed(op: Any, specs: dict[tuple[int, int], PartitionSpec]) -> None:
    location = str(op.location)
    match = _PROBE.search(location)
    if match is None or "transpose(" in location[: match.start()].rpartition('"')[2]:
        return
    rank = len(ir.RankedTensorType(op.results[0].type).shape)
    spec: Spec | None = ((),) * rank
    if "sdy.sharding" in op.attributes:
        given = sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"])
        spec = of_sharding(given.shardings[0], None)
    if spec is not None:
        named = PartitionSpec(*(axes or None for axes in spec))
        specs[int(match[1]), int(match[2])] = named


if __name__ == "__main__":
    answer(lambda: reported(read_request(json.loads(sys.argv[2]))).model_dump_json())
