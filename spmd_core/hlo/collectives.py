"""The communication ops of a compiled module, where they stand."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spmd_core.hlo.module import Computation, HloError, Instruction, Module, Shape
from spmd_core.hlo.replica_groups import parse_groups, parse_pairs
from spmd_core.hlo.trip_counts import trip_count

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute", "collective-broadcast")

_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Site:
    """A communication op where it stands: the chain of callers from the entry, itself last, and how often it runs."""

    kind: str
    computation: Computation
    instruction: Instruction
    callers: tuple[tuple[Computation, Instruction], ...]
    count: int | None


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
