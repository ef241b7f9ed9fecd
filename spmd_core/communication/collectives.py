"""The communication of a compiled program: what kind, over which mesh axes, how many bytes, how often, and why."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spmd_core.communication.reasons import Reasons
from spmd_core.hlo.module import Computation, HloError, Instruction, Module, Shape
from spmd_core.hlo.replica_groups import axes_of, parse_groups, parse_pairs
from spmd_core.hlo.trip_counts import trip_count
from spmd_core.results.result import Collective

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute", "collective-broadcast")
_MAX_DEPTH = 64
Mesh = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Site:
    """A communication op where it stands: the chain of callers from the entry, itself last, and how often it runs."""

    kind: str
    computation: Computation
    instruction: Instruction
    callers: tuple[tuple[Computation, Instruction], ...]
    count: int | None


def read_collectives(
    module: Module, mesh: Mesh, *, file: str, positions: tuple[int, ...] | None = None, reasons: Reasons | None = None,
) -> tuple[Collective, ...]:
    """Every collective of a program, in the order in which it is written.

    `file` is the name of the program text that `source` quotes lines of; `positions[i]` the mesh position of the
    program's device i. HloError where the groups of one cannot be read.
    """
    merged: dict[tuple[str, str], Site] = {}
    for site in sites(module):
        key = (site.computation.name, site.instruction.name)
        if key in merged:  # reached from several callers
            counts = (merged[key].count, site.count)
            site = Site(site.kind, site.computation, site.instruction, merged[key].callers, None if None in counts else sum(filter(None, counts)))
        merged[key] = site
    return tuple(_describe(site, module, mesh, file, positions, reasons) for site in merged.values())


def kind_of(instruction: Instruction) -> str | None:
    """The kind of collective that an instruction is or starts; None for any other, the `-done` of a pair included."""
    opcode = instruction.opcode.removesuffix("-start")
    return opcode if opcode in KINDS else None


def sites(module: Module) -> Iterator[Site]:
    """Communication ops reached from the entry, each once per caller."""
    yield from _walk(module, module.entry, (), 1)


def _walk(module: Module, computation: Computation, callers: tuple[tuple[Computation, Instruction], ...], count: int | None) -> Iterator[Site]:
    if len(callers) > _MAX_DEPTH:
        raise HloError(f"computations of {module.name!r} call one another more than {_MAX_DEPTH} deep")
    for instruction in computation.instructions:
        if kind := kind_of(instruction):
            yield Site(_fused_kind(kind, computation, callers), computation, instruction, callers, count)
            continue  # to_apply of a collective is its arithmetic
        if instruction.opcode.endswith(("-done", "-update")):
            continue  # an async pair runs once
        times = count
        if instruction.opcode == "while":
            trips = trip_count(module, computation, instruction)
            times = None if count is None or trips is None else count * trips
        elif instruction.opcode == "conditional":
            times = None  # which branch runs is known only at run time
        for name in instruction.called():
            if name not in module.by_name:
                raise HloError(f"instruction {instruction.name!r} calls {name!r}, which the compiled program does not contain")
            yield from _walk(module, module.by_name[name], (*callers, (computation, instruction)), times)


def _fused_kind(kind: str, computation: Computation, callers: tuple[tuple[Computation, Instruction], ...]) -> str:
    """The TPU compiler writes a reduce-scatter as a fusion of an all-reduce and the slice that each device keeps."""
    fused = kind == "all-reduce" and callers and callers[-1][1].opcode == "fusion" and computation.root.opcode == "dynamic-slice"
    return "reduce-scatter" if fused else kind


def _describe(site: Site, module: Module, mesh: Mesh, file: str, positions: tuple[int, ...] | None, reasons: Reasons | None) -> Collective:
    instruction = site.instruction
    groups = groups_of(instruction, module.device_count)
    axes = axes_of(groups, mesh, positions)
    located = _located(site, file)
    return Collective(
        kind=site.kind, axes=axes, bytes=bytes_of(site.computation, instruction), count=site.count,
        op=_op_name(located),
        source=next((f"{frame.file.rsplit('/', 1)[-1]}:{frame.line}" for place in located for frame in place.frames if _is(frame.file, file)), None),
        name=instruction.name, group_size=None if "source_target_pairs" in instruction.attributes else groups.shape[1],
        reason=reasons.why(site.kind, axes, site.computation, instruction) if reasons else None)


def _op_name(located: list[Instruction]) -> str | None:
    """The operation in the program; the bare name of an argument only where there is no other."""
    names = [place.op_name for place in located if place.op_name]
    return next((name for name in names if "/" in name), names[0] if names else None)


def _is(path: str, file: str) -> bool:
    return path == file or path.endswith(f"/{file}")


def groups_of(instruction: Instruction, device_count: int) -> np.ndarray:
    """Groups of devices, int64 [groups, members], as positions in the program's device order."""
    pairs = instruction.attributes.get("source_target_pairs")
    if pairs is not None:
        return parse_pairs(pairs)
    groups = instruction.attributes.get("replica_groups")
    if groups is None:
        raise HloError(f"collective {instruction.name!r} of a compiled program names no groups")
    return parse_groups(groups, device_count)


def bytes_of(computation: Computation, instruction: Instruction) -> int:
    """Bytes per device and execution, of the larger of operand and result."""
    operands = sum(computation.by_name[name].shape.bytes for name in instruction.operands)
    return max(operands, _result_shape(computation, instruction).bytes)


def _result_shape(computation: Computation, instruction: Instruction) -> Shape:
    """The result's shape; of the start of an async pair, that of its `-done`."""
    if not instruction.opcode.endswith("-start"):
        return instruction.shape
    for user in computation.users[instruction.name]:
        if user.opcode.endswith("-done"):
            return user.shape
    return instruction.shape.parts[1] if len(instruction.shape.parts) > 1 else instruction.shape


def _located(site: Site, file: str) -> list[Instruction]:
    """Instructions that say where a collective comes from: itself, who uses its value, its callers, then its operands."""
    found = [site.instruction]
    if not any(_is(frame.file, file) for frame in site.instruction.frames):
        found += _nearby(site.computation, site.instruction, forward=True)
        found += [caller for _, caller in reversed(site.callers)]
        found += _nearby(site.computation, site.instruction, forward=False)
    return found


def _nearby(computation: Computation, start: Instruction, *, forward: bool, limit: int = 16) -> list[Instruction]:
    """The next instructions that carry a source line, breadth first over users or operands."""
    queue, seen, found = [start], {start.name}, []
    while queue and len(seen) < limit:
        at = queue.pop(0)
        near = computation.users[at.name] if forward else [computation.by_name[name] for name in at.operands]
        for instruction in near:
            if instruction.name in seen:
                continue
            seen.add(instruction.name)
            if instruction.frames:
                found.append(instruction)
            else:
                queue.append(instruction)
    return found
