"""The collectives of a compiled module: where each begins, what it is, and how often it runs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from spmd_core.program.hlo.module import Computation, HloError, Instruction, Module, Shape
from spmd_core.program.hlo.replica_groups import parse_groups, parse_pairs
from spmd_core.program.hlo.trip_counts import trip_count

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
BETWEEN_SLICES = "send"  # a transfer through the data center network: send and recv, by the hosts
_WRAPPERS = ("fusion", "async-start", "call-start")  # the last is offloaded to the sparse cores
_RENDEZVOUS = re.compile(r'_xla_host_transfer_rendezvous="([^"]*)"')
_TRANSFER = re.compile(r'_xla_megascale_transfer_type="([A-Z_]+)"')
_MAX_DEPTH = 64
Caller = tuple[Computation, Instruction]


# On GPUs a start and its done may run back to back, which the start is marked with
_IS_SYNC = re.compile(r'"is_sync":\s*true')


@dataclass(frozen=True, slots=True)
class StartOp:
    """A collective at the instruction that starts it (start and done at once if synchronous).

    `outer` is that instruction. `inner`, in `computation`, has the groups and operands: the same
    instruction, or one inside the computation that `outer` calls.
    """

    kind: str
    outer: Instruction
    inner: Instruction
    computation: Computation
    asynchronous: bool

    @property
    def operand_bytes(self) -> int:
        """Operand bytes of one device."""
        names = self.inner.operands[:1] if self.kind == BETWEEN_SLICES else self.inner.operands
        return sum(self.computation.by_name[name].shape.bytes for name in names)

    @property
    def bytes(self) -> int:
        """Bytes per device and execution, of the larger of operand and result."""
        return max(self.operand_bytes, _result_shape(self.computation, self.inner).bytes)


@dataclass(frozen=True, slots=True)
class Site:
    """A collective in its context: its computation, its callers from the entry, its execution
    count.

    `count` is None where a loop's length or the choice of a branch is unknown.
    """

    start: StartOp
    computation: Computation
    callers: tuple[Caller, ...]
    count: int | None


def kind_of(opcode: str) -> str | None:
    """The kind of collective that an opcode is or starts; None for any other, `-done` included."""
    name = opcode.removesuffix("-start")
    return name if name in KINDS else None


def start_of(module: Module, computation: Computation, instruction: Instruction) -> StartOp | None:
    """The collective that starts at this instruction, or None.

    A step fusion repeats the text of an asynchronous collective that it continues; it does not
    count.
    """
    if kind := kind_of(instruction.opcode):
        attributes = instruction.attributes.get("frontend_attributes", "")
        apart = instruction.opcode.endswith("-start") or "async_collective_name" in attributes
        apart = apart and not _IS_SYNC.search(instruction.attributes.get("backend_config", ""))
        return StartOp(kind, instruction, instruction, computation, apart)
    if instruction.opcode == "send" and transfer_of(instruction) is not None:
        return StartOp(BETWEEN_SLICES, instruction, instruction, computation, True)
    if instruction.opcode not in _WRAPPERS or is_done(module, instruction):
        return None
    start = inside(module, instruction)
    if start is None or _is_carried(module, instruction, start[1]):
        return None
    holder, inner = start
    apart = instruction.opcode != "fusion" or _calls_target(holder, "AsyncCollectiveStart")
    return StartOp(_fused_kind(instruction, holder, inner), instruction, inner, holder, apart)


def end_of_carried(module: Module, computation: Computation, start: StartOp) -> Instruction | None:
    """The instruction that waits for a collective which other fusions carry on beside work of their
    own; None where none does.
    """
    waiting, seen, is_carried = [start.outer], {start.outer.name}, False
    while waiting and start.asynchronous:
        at = waiting.pop()
        for user in computation.users[at.name]:
            if is_carried and is_done(module, user):
                return user
            carries = (
                user.opcode == "fusion"
                and (within := inside(module, user)) is not None
                and _is_carried(module, user, within[1])
            )
            if user.name not in seen and (carries or user.opcode == "get-tuple-element"):
                seen.add(user.name)
                waiting.append(user)
                is_carried |= carries
    return None


def _is_carried(module: Module, fusion: Instruction, inner: Instruction) -> bool:
    """Whether a fusion continues a collective that another fusion started."""
    if fusion.opcode != "fusion" or fusion.attributes.get("kind") == "kCustom":
        return False
    return (inner.channel, inner.opcode) in module.started


def _fused_kind(outer: Instruction, holder: Computation, inner: Instruction) -> str:
    """The kind of a fused collective: an all-reduce whose result is smaller than its operand is a
    reduce-scatter.
    """
    kind = kind_of(inner.opcode) or ""
    if kind != "all-reduce" or outer.opcode != "fusion":
        return kind
    put_in = sum(array.elements for name in inner.operands for array in holder.by_name[name].arrays)
    left = sum(array.elements for array in outer.arrays)
    return "reduce-scatter" if left < put_in else kind


def inside(module: Module, instruction: Instruction) -> Caller | None:
    """The first collective in the computations that an instruction calls, at any depth, and its
    computation.
    """
    for name in instruction.called():
        for each in module.computation(name, instruction).instructions:
            if kind_of(each.opcode):
                return module.by_name[name], each
            if deeper := inside(module, each):
                return deeper
    return None


def is_done(module: Module, instruction: Instruction) -> bool:
    """Whether this only waits for a collective that another instruction started."""
    opcode = instruction.opcode
    if opcode in ("async-done", "async-update", "call-done"):
        return True
    if opcode.endswith("-done") and kind_of(opcode.removesuffix("-done")):
        return True
    callee = module.callee(instruction) if opcode == "fusion" else None
    return callee is not None and _calls_target(callee, "AsyncCollectiveDone")


def _calls_target(computation: Computation, target: str) -> bool:
    return any(
        each.attributes.get("custom_call_target") == f'"{target}"'
        for each in computation.instructions
    )


def transfer_of(instruction: Instruction) -> str | None:
    """The collective that a transfer between slices implements, e.g. `all-reduce`; None for any
    other.
    """
    attributes = instruction.attributes.get("frontend_attributes", "")
    if "megascale" not in attributes or instruction.opcode not in ("send", "recv"):
        return None
    match = _TRANSFER.search(attributes)
    return match[1].lower().replace("_", "-") if match else ""


def rendezvous(instruction: Instruction) -> str | None:
    """The key that a send shares with its recv."""
    match = _RENDEZVOUS.search(instruction.attributes.get("frontend_attributes", ""))
    return match[1] if match else None


def sites(module: Module) -> tuple[Site, ...]:
    """Every collective that the entry reaches, once, in the order in which it is written.

    HloError where the program calls what it does not contain.
    """
    merged: dict[tuple[str, str], Site] = {}
    for site in _walk(module, module.entry, (), 1):
        key = (site.computation.name, site.start.outer.name)
        if (before := merged.get(key)) is not None:  # reached from several callers
            known = before.count is not None and site.count is not None
            site = replace(before, count=(before.count or 0) + (site.count or 0) if known else None)
        merged[key] = site
    return tuple(merged.values())


def _walk(
    module: Module,
    computation: Computation,
    callers: tuple[Caller, ...],
    count: int | None,
) -> Iterator[Site]:
    if len(callers) > _MAX_DEPTH:
        raise HloError(
            f"computations of {module.name!r} call one another more than {_MAX_DEPTH} deep"
        )
    for instruction in computation.instructions:
        if start := start_of(module, computation, instruction):
            yield Site(start, computation, callers, count)
        elif instruction.opcode not in _WRAPPERS and not is_done(module, instruction):
            # (the start was searched in the computation that a wrapper calls)
            for name, times in _calls(module, computation, instruction, count):
                inner = module.computation(name, instruction)
                yield from _walk(module, inner, (*callers, (computation, instruction)), times)


def _calls(
    module: Module,
    computation: Computation,
    instruction: Instruction,
    count: int | None,
) -> Iterator[tuple[str, int | None]]:
    """(computation, how often it runs) of what an instruction calls."""
    if instruction.opcode != "while":
        # Which branch of a conditional runs is known only at run time.
        times = None if instruction.opcode == "conditional" else count
        yield from ((name, times) for name in instruction.called())
        return
    trips = trip_count(module, computation, instruction)
    known = count is not None and trips is not None
    for name in instruction.called():
        condition = name == instruction.attributes.get("condition", "").lstrip("%")
        # A condition runs one time more than its body: when it ends the loop.
        yield name, (count or 0) * ((trips or 0) + condition) if known else None


def groups_of(instruction: Instruction, device_count: int) -> np.ndarray:
    """Groups of devices, int64 [groups, members], as positions in the program's device order.

    Of a permute, its pairs of source and target. HloError where there are none to be read.
    """
    pairs = instruction.attributes.get("source_target_pairs")
    if pairs is not None:
        return parse_pairs(pairs)
    groups = instruction.attributes.get("replica_groups")
    if groups is None:
        raise HloError(f"collective {instruction.name!r} of a compiled program names no groups")
    return parse_groups(groups, device_count)


def reduction_of(module: Module, start: StartOp) -> str | None:
    """How a collective combines values, as HLO writes it: add, maximum, ...; None for others."""
    called = module.callee(start.inner, "to_apply")
    return called.root.opcode if called is not None else None


def _result_shape(computation: Computation, instruction: Instruction) -> Shape:
    """The result's shape; of the start of an asynchronous pair, that of its `-done`."""
    if instruction.opcode == "send":
        name = rendezvous(instruction)
        for each in computation.instructions:
            if each.opcode == "recv" and rendezvous(each) == name:
                return each.shape.parts[0]
        return computation.by_name[instruction.operands[0]].shape
    if not instruction.opcode.endswith("-start"):
        return instruction.shape
    for user in computation.users[instruction.name]:
        if user.opcode.endswith("-done"):
            return user.shape
    parts = instruction.shape.parts
    return parts[1] if len(parts) > 1 else instruction.shape
