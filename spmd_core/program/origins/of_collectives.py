"""Adds to each collective the origins of its axes, and of what the value is moved to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from spmd_core.base import by_key
from spmd_core.facts import AxisOrigin, Collective, NoOrigin, OriginPlace, Spec
from spmd_core.fields import Axes
from spmd_core.program.communication.generic import merged_names
from spmd_core.program.hlo.lines import line_of
from spmd_core.program.hlo.module import Computation, Frame, Instruction, Module
from spmd_core.program.hlo.requested import call_of
from spmd_core.program.ir.needed import needed_specs, summed_dims
from spmd_core.program.ir.shardings import constraint_of, sharding_of
from spmd_core.program.origins.blame import MOST_ORIGINS, Origins

_FAR = 32  # values above an operation
_SUMS = ("all-reduce", "reduce-scatter")
_At = tuple[Computation, Instruction]
_MAPS = ("shard_map", "shmap_body")


@dataclass(frozen=True, slots=True)
class _End:
    """A value whose axis a collective moves or adds; `rank` 0 is the surest reading. `reader` is what
    needs it otherwise.
    """

    rank: int
    value: Instruction
    reader: Instruction
    computation: Computation


def with_origins(
    collectives: Sequence[Collective], compiled: Module, origins: Origins
) -> tuple[Collective, ...]:
    """Returns the collectives of a program with the origins of their axes.

    Args:
      collectives: of the compiled program.
      compiled: that program.
      origins: of the program before partitioning.
    """
    written = {
        each.name: (each.frames, each.op_name)
        for computation in compiled.computations
        for each in computation.instructions
    }
    blamer = _Blamer(origins)
    return tuple(
        blamer.blamed(one, *written.get(one.name or "", ((), None))) for one in collectives
    )


def without_record(
    collectives: Sequence[Collective], why: NoOrigin, mapped: Axes | None
) -> tuple[Collective, ...]:
    """Returns the collectives of a program without a record: those that it calls itself have their
    origin all the same.
    """
    return tuple(
        called(each, mapped) or each.model_copy(update={"no_origin": why}) for each in collectives
    )


def called(one: Collective, mapped: Axes | None) -> Collective | None:
    """A collective that a shard_map of the program calls, with that as its origin; None for one of
    the compiler's, such as one over axes that no shard_map maps.
    """
    if mapped is not None and not {*one.axes} <= {*mapped}:
        return None
    if not (call := call_of(one.op)) or not any(name in (one.op or "") for name in _MAPS):
        return None
    origin = (
        AxisOrigin(axis=axis, kind="shard_map", name=call, source=one.source) for axis in one.axes
    )
    return one.model_copy(update={"origin": tuple(origin)})


class _Blamer:
    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self._known: dict[tuple[object, ...], dict[str, object]] = {}
        self._specs: dict[tuple[str, str], Spec] = {}
        file = origins.record.names.file
        named = [
            (each.op_name, (computation, each))
            for computation in origins.record.module.computations
            for each in computation.instructions
            if each.op_name
        ]
        self._named = by_key(named)
        self._on_line = by_key(((name, line_of(at[1], file)), at) for name, at in named)
        self._called = by_key(((name, at[1].frames), at) for name, at in named)

    def blamed(self, one: Collective, frames: tuple[Frame, ...], written: str | None) -> Collective:
        """A collective with its origins; `frames`, the calls that led to it, distinguish the uses of a
        function; `written` is the name that it has itself: of an argument that is moved, its path.
        """
        if (own := called(one, self.origins.record.names.mapped)) is not None:
            return own
        if not one.axes or not one.op:
            return one
        # all that an answer depends on: collectives of unrolled layers have it in common
        key = one.op, one.source, one.kind, one.asked, one.axes, one.bytes, frames, written
        if key not in self._known:
            moved = self._named.get(written or "", ()) if "/" not in (written or "/") else ()
            some = moved or self._candidates(one, frames)
            self._known[key] = self._facts(one, some)
        return one.model_copy(update=self._known[key])

    def _candidates(self, one: Collective, frames: tuple[Frame, ...]) -> list[_At]:
        names = merged_names(one.op or "")
        called = [at for name in names for at in self._called.get((name, frames), ()) if frames]
        lines = [at for name in names for at in self._on_line.get((name, one.source), ())]
        named = [at for name in names for at in self._named.get(name, ())]
        return called or lines or named or [at for name in names for at in self._calls(name)]

    def _calls(self, name: str) -> list[_At]:
        """The innermost calls that an operation is inside: inlining puts their names before its own."""
        parts = name.split("/")
        around = ("/".join(parts[:at]) for at in reversed(range(1, len(parts))))
        calls = (
            [at for at in self._named.get(one, ()) if at[1].opcode == "call"] for one in around
        )
        return next(filter(None, calls), [])

    def _facts(self, one: Collective, candidates: Sequence[_At]) -> dict[str, object]:
        """What a collective has more of than without its origins."""
        if not candidates:
            return {"no_origin": NoOrigin.NO_OPERATION}
        origin, against = list[AxisOrigin](), list[AxisOrigin]()
        for axis in one.axes:
            ends = [end for at in candidates for end in self._ends(*at, one, axis)]
            if not ends:
                ends = [end for at in candidates for end in self._above(*at, axis)]
            best = min((end.rank for end in ends), default=0)
            ends = [end for end in ends if end.rank == best]
            ends = [end for end in ends if self._fits(end, one)] or ends
            own = _distinct(self.origins.of(end.computation, end.value, axis) for end in ends)
            origin += [*own, *self._also(ends, axis, own)]
            if (one.asked or one.kind) not in _SUMS:
                against += _distinct(each for end in ends for each in self._against(end, axis))
        missing = set(one.axes) - {each.axis for each in origin if not each.also}
        # a called function is not joined: its own constraints are unknown
        is_sharded = any(
            each.opcode == "call" or self._is_sharded(inside, each, missing)
            for inside, each in candidates
        )
        why = (NoOrigin.NOT_FOLLOWED if is_sharded else NoOrigin.NO_VALUE) if missing else None
        against = [each for each in against if each not in origin]
        return {"origin": tuple(origin), "against": tuple(against), "no_origin": why}

    def _also(self, ends: Sequence[_End], axis: str, own: Sequence[AxisOrigin]) -> list[AxisOrigin]:
        """What else would put an axis on these values."""
        values = ((end.computation, end.value) for end in ends)
        named = {each.place for each in own}
        if not named:
            return []
        also = self.origins.also(values, axis, MOST_ORIGINS)
        return [each for each in also if each.place not in named]

    def _fits(self, end: _End, one: Collective) -> bool:
        is_sum, sizes = (one.asked or one.kind) in _SUMS, dict(self.origins.mesh)
        each = end.reader if is_sum else end.value
        spec = self._spec(end.computation, each)
        if len(spec) != len(each.shape.dims):
            return False
        parts = prod(sizes[axis] for axes in spec for axis in axes)
        gathered = prod(sizes[axis] for axis in one.axes) if one.kind == "all-gather" else 1
        return each.shape.bytes * gathered == one.bytes * parts

    def _is_sharded(self, inside: Computation, each: Instruction, axes: set[str]) -> bool:
        values = [each, *(inside.by_name[name] for name in each.operands)]
        return any(_has(self._spec(inside, value), axis) for value in values for axis in axes)

    def _spec(self, computation: Computation, each: Instruction) -> Spec:
        key = computation.name, each.name
        if key not in self._specs:
            sharding = sharding_of(each, computation, self.origins.own_mesh)
            self._specs[key] = self.origins.renamed(sharding.spec) if sharding else ()
        return self._specs[key]

    def _ends(
        self, computation: Computation, each: Instruction, one: Collective, axis: str
    ) -> Iterator[_End]:
        """The values over whose axis an operation adds or moves; a value that it makes may be moved
        by what reads it.
        """
        is_sum = (one.asked or one.kind) in _SUMS
        for operand, rank in self._read(computation, each, axis, is_sum):
            yield _End(rank, operand, each, computation)
        if not _has(self._spec(computation, each), axis):
            return
        yield _End(4, each, each, computation)
        if not is_sum:
            for user in computation.users[each.name]:
                if any(
                    operand is each and rank == 0
                    for operand, rank in self._read(computation, user, axis)
                ):
                    yield _End(1, each, user, computation)

    def _above(self, computation: Computation, each: Instruction, axis: str) -> Iterator[_End]:
        """The nearest values above an operation that are moved: the compiler may move one later than
        propagation has it, and add what is made of its shards.
        """
        waiting, seen = [each], {each.name}
        while waiting and len(seen) < _FAR:
            at = waiting.pop(0)
            moved = [operand for operand, rank in self._read(computation, at, axis) if not rank]
            if moved:
                yield from (_End(5, operand, at, computation) for operand in moved)
                return
            names = [name for name in at.operands if name not in seen]
            seen.update(names)
            waiting += [computation.by_name[name] for name in names]

    def _read(
        self, computation: Computation, each: Instruction, axis: str, is_sum: bool = False
    ) -> Iterator[tuple[Instruction, int]]:
        """The operands that an axis shards; 0 for one that is added or moved along it."""
        operands = [computation.by_name[name] for name in each.operands]
        specs = [self._spec(computation, operand) for operand in operands]
        result = self._spec(computation, each)
        shapes = [operand.shape for operand in operands]
        if len(result) == len(each.shape.dims):
            needed = needed_specs(each, result, shapes, specs)
        else:  # it is sharded over the axes of another mesh
            needed = [((),) * len(shape.dims) for shape in shapes]
        for at, (operand, spec) in enumerate(zip(operands, specs, strict=True)):
            if not _has(spec, axis):
                continue
            if is_sum:
                is_meant = any(axis in spec[dim] for dim in summed_dims(each, at))
            else:
                is_meant = any(
                    axis in before and axis not in after
                    for before, after in zip(spec, needed[at] or spec, strict=True)
                )
            is_kept = _has(result, axis)
            yield operand, 0 if is_meant else 2 + is_kept

    def _against(self, end: _End, axis: str) -> Iterator[AxisOrigin | None]:
        """What the reader of a moved value has instead: the same axis on another dim, or other axes;
        else the spec of a constraint.
        """
        reader, inside = end.reader, end.computation
        if reader.opcode == "call":  # an operation inside may need another sharding
            return
        result, had = self._spec(inside, reader), self._spec(inside, end.value)
        if reader is not end.value:
            others = [
                each
                for axes in result
                for each in axes
                # an axis that the reader has by this value is no other need
                if (each == axis and not self.origins.is_passed(inside, end.value, reader, axis))
                or not _has(had, each)
            ]
            known = [self.origins.of(inside, reader, each) for each in others]
            if any(known):
                yield from known
                return
        if not _has(result, axis) and (constraint := constraint_of(reader, inside)) is not None:
            line = line_of(constraint, self.origins.record.names.file)
            yield AxisOrigin(axis=axis, kind="constraint", source=line, spec=result)


def _has(spec: Spec, axis: str) -> bool:
    return any(axis in axes for axes in spec)


def _distinct(origins: Iterator[AxisOrigin | None]) -> list[AxisOrigin]:
    """The origins that differ in more than their steps; the one with the fewest steps of each."""
    known: dict[tuple[str, OriginPlace], AxisOrigin] = {}
    for each in origins:
        if each is not None:
            key = each.axis, each.place
            if key not in known or len(each.steps) < len(known[key].steps):
                known[key] = each
    return list(known.values())[:MOST_ORIGINS]
