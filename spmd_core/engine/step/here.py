"""Compiles a traced step once, in the caller's process, on the devices that are here. Nothing of
that process is changed: options are the compile's own, and its persistent cache is left alone.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from jax._src import compilation_cache
from jax.sharding import Mesh as DeviceMesh, NamedSharding

from spmd_core.base import refuse
from spmd_core.engine.exported.continued import continued
from spmd_core.engine.exported.describe import manual_axes, mesh_of, named_axes
from spmd_core.engine.exported.leaves import paths_tree, written_leaves
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import compile_with
from spmd_core.engine.measured.prepare import memory_bytes, places_of
from spmd_core.engine.shardings import (
    blamed,
    compiler_options,
    forget,
    judged_in,
    of_folder,
    program_names,
)
from spmd_core.engine.stderr import captured, compiler_warnings
from spmd_core.engine.step.capture import instead
from spmd_core.engine.step.equations import callbacks_of
from spmd_core.engine.step.step_collectives import files_of, step_collectives
from spmd_core.engine.step.tracing import TracedStep
from spmd_core.facts import Judged
from spmd_core.fields import Mesh, Spec, axes_of
from spmd_core.machine import dump_folder
from spmd_core.program import Reasons, read_collectives, with_specs, with_warnings
from spmd_core.results import CompiledStep
from spmd_core.workloads import Described, Leaf, Program, ProgramLayout, with_replaced

_FIX = 'pass a target such as "tpu:v5e:4x4"'
_HELD = re.compile(r"already in use by process with pid \d+")


@dataclass(frozen=True, slots=True)
class _Signature:
    in_tree: Any
    out_tree: Any
    in_avals: Sequence[Any]
    out_avals: Sequence[Any]
    module_kept_var_idx: Sequence[int]


@dataclass(frozen=True, slots=True)
class Made:
    """A compiled program, its devices in the order of its mesh, the types of the mesh's axes, the
    folder that the compiler wrote to, and what it warned of.
    """

    compiled: Any
    order: list[Any]
    axis_types: tuple[str, ...]
    folder: Path
    warnings: tuple[str, ...]


def compiled_step(step: TracedStep) -> CompiledStep:
    """The facts of a step, compiled for its own devices.

    Raises:
        RequestError: several processes take part, or another one holds the TPU.
    """
    if (count := _processes()) > 1:
        raise refuse(f"{count} processes", "cannot be explained from within one of them", _FIX)
    with _lowered(step) as (lowered, words), compiling(lowered, words) as made:
        described = _described(step, lowered, made)
        facts = facts_of(made, Program(described, described.mesh))
    return facts.model_copy(update={"callbacks": callbacks_of(step.traced.jaxpr)})


def _processes() -> int:
    try:
        return jax.process_count()
    except RuntimeError as error:
        if (holder := _HELD.search(str(error))) is None:
            raise
        raise refuse(
            "the TPU of this machine", f"is {holder[0]}", f"end that, or {_FIX}"
        ) from error


@contextmanager
def _lowered(step: TracedStep) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The lowered step, and what JAX warns of meanwhile, such as donations that nothing can use."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        lowered = step.traced.lower()
    yield lowered, tuple(" ".join(str(each.message).split())[:600] for each in noted)


@contextmanager
def compiling(lowered: Any, words: tuple[str, ...] = ()) -> Iterator[Made]:
    """A lowered program, compiled; what the compiler wrote is there meanwhile."""
    with dump_folder() as folder:
        is_single = int(lowered._lowering.compile_args["num_devices"]) == 1
        with captured() as log, outside_cache():
            options = None if is_single else compiler_options(folder)
            compiled = compile_with(lowered, options)
        used = list(compiled.runtime_executable().local_devices())
        mesh, types = _mesh_of(compiled)
        order = list(mesh.devices.flat) if mesh is not None and mesh.size == len(used) else used
        try:
            yield Made(compiled, order, types, folder, (*words, *compiler_warnings(log[0])))
        finally:
            forget()


def outside_cache() -> AbstractContextManager[None]:
    """Compiles of this thread neither read nor write the persistent compilation cache: a cached
    program is not compiled, so that nothing is dumped. JAX keeps for the life of a process whether
    it is used: its flag, changed for a moment, would stay.
    """
    return instead(compilation_cache, "is_cache_used", lambda *_: False)


def facts_of(made: Made, program: Program) -> CompiledStep:
    """What a compiled program communicates and holds."""
    module = read_module(made.compiled)
    files, mesh, order = files_of(module), program.mesh, made.order
    used = made.compiled.runtime_executable().local_devices()
    collectives = read_collectives(
        module,
        mesh,
        file=files,
        positions=tuple(map(order.index, used)),
        devices=tuple(device.id for device in order),
        places=places_of(order),
        reasons=Reasons(ProgramLayout(program), "auto", module) if mesh else None,
    )
    collectives = with_warnings(collectives, made.warnings, mesh)
    judged = Judged()
    if len(order) > 1:
        names = program_names(program.described, files)
        steps = of_folder(made.folder, mesh, collectives, names, has_origins=False)
        collectives = with_specs(collectives, steps)
        collectives = blamed(collectives, module, mesh, made.folder, names)
        judged = judged_in(made.folder, program, files)
    return CompiledStep(
        described=program.described,
        mesh=mesh,
        axis_types=made.axis_types,
        specs=program.specs,
        target=order[0].platform,
        collectives=step_collectives(module, collectives, files),
        memory_bytes=memory_bytes(made.compiled),
        **dict(judged.against),
        warnings=made.warnings,
    )


def _mesh_of(compiled: Any) -> tuple[DeviceMesh | None, tuple[str, ...]]:
    for sharding in jax.tree.leaves((compiled.input_shardings, compiled.output_shardings)):
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, DeviceMesh):
            return sharding.mesh, tuple(str(each.name) for each in sharding.mesh.axis_types)
    return None, ()


def _described(step: TracedStep, lowered: Any, made: Made) -> Described:
    arguments = lowered._lowering.compile_args
    kept = tuple(sorted(arguments["kept_var_idx"]))
    given = _Signature(
        paths_tree(step.arguments, True),
        paths_tree(step.outputs),
        tuple(jax.tree.leaves(lowered.in_avals)),
        tuple(arguments["global_out_avals"]),
        kept,
    )
    module = lowered.compiler_ir("stablehlo")
    with module.context:
        mesh = mesh_of(module, len(made.order))
        taken, results = written_leaves(given, module, mesh)
        mapped, named = manual_axes(module, mesh), named_axes(module, mesh)
        ways = continued(module, [each.path for each in taken if each.is_kept])
    inputs, outputs = (
        jax.tree.leaves(each)
        for each in (made.compiled.input_shardings, made.compiled.output_shardings)
    )
    placed = iter(inputs)
    taken = tuple(
        _placed(each, next(placed, None), mesh) if each.is_kept else each for each in taken
    )
    results = tuple(
        _placed(each, sharding, mesh) for each, sharding in zip(results, outputs, strict=True)
    )
    return Described(
        program="",
        name=step.function,
        function=step.function,
        platforms=(made.order[0].platform,),
        mesh=mesh,
        devices=len(made.order),
        manual_axes=mapped,
        named_axes=named,
        arguments=taken,
        outputs=with_replaced(taken, results, ways),
        bytes=0,
    )


def _placed(leaf: Leaf, sharding: Any, mesh: Mesh) -> Leaf:
    return leaf.model_copy(update={"propagated": _spec(sharding, len(leaf.sizes), mesh)})


def _spec(sharding: Any, rank: int, mesh: Mesh) -> Spec | None:
    if not isinstance(sharding, NamedSharding):
        return None
    known = {name for name, _ in mesh}
    dims = [axes_of(dim) for dim in (*sharding.spec, *[None] * (rank - len(sharding.spec)))]
    return tuple(dims) if all(axis in known for dim in dims for axis in dim) else None
