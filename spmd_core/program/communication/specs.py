"""Adds to a collective's reason what else the compile shows: specs of its value, its warnings."""

import re
from collections.abc import Sequence
from contextlib import suppress

from spmd_core.experiment import spec_code
from spmd_core.facts import Collective, Reshard, Shardings
from spmd_core.fields import Mesh
from spmd_core.program.hlo.module import HloError
from spmd_core.program.hlo.sharding_attributes import parse_sharding
from spmd_core.results import StepCollective

REPLICATES = (
    "full rematerialization: the compiler found no efficient way from one sharding to "
    "the next, and replicates the array in between"
)
_WARNS = re.compile(r"Involuntary full rematerialization", re.IGNORECASE)
_MOVE = re.compile(
    r"from sharding (.*?) to (.*?) efficiently for HLO operation \S+ = \w+\[([\d,]*)\]"
)
_OP = re.compile(r'op_name="([^"]*)"')


def with_warnings(
    collectives: Sequence[Collective], warnings: Sequence[str], mesh: Mesh = ()
) -> tuple[Collective, ...]:
    """The collectives, with the warning attached to those that it is about: the all-gathers of the
    operation that it names, else any collective of that operation, else the largest all-gather.
    """
    marked: dict[int, str] = {}
    for warning in warnings:
        if _WARNS.search(warning):
            op = _OP.search(warning)
            of = _of(collectives, op[1] if op else None)
            marked |= dict.fromkeys(of, _warning(warning, mesh))
    return tuple(
        each.model_copy(update={"warning": marked[number]}) if number in marked else each
        for number, each in enumerate(collectives)
    )


def is_covered(warning: str, collectives: Sequence[Collective | StepCollective]) -> bool:
    """Returns True if the sentence of a collective covers a compiler warning."""
    return bool(_WARNS.search(warning)) and any(each.warning for each in collectives)


def _warning(warning: str, mesh: Mesh) -> str:
    """The sentence of a warning, with both specs where mesh axes can write them."""
    if (move := _MOVE.search(warning)) is not None:
        rank = len([size for size in move[3].split(",") if size])
        with suppress(HloError, ValueError):
            before, after = (spec_code(parse_sharding(move[at], rank, mesh).spec) for at in (1, 2))
            return f"{REPLICATES}: {before} to {after}"
    return REPLICATES


def _of(collectives: Sequence[Collective], op: str | None) -> set[int]:
    gathers = [
        number for number, each in enumerate(collectives) if "all-gather" in (each.kind, each.asked)
    ]
    same = {number for number, each in enumerate(collectives) if op and each.op == op}
    largest = max(gathers, key=lambda number: collectives[number].bytes, default=None)
    return (same & set(gathers)) or same or (set() if largest is None else {largest})


_MOVES = ("all-gather", "all-to-all", "collective-permute")


def with_specs(collectives: Sequence[Collective], shardings: Shardings) -> tuple[Collective, ...]:
    """The collectives; those that move the one value that a step of the same operation and line
    reshards over their axes with its specs.
    """
    return tuple(
        each.model_copy(update={"reason": f"{each.reason} ({_words(*moved)})"})
        if each.reason and (moved := _moved(each, shardings)) is not None
        else each
        for each in collectives
    )


def _moved(each: Collective, shardings: Shardings) -> tuple[Reshard, str] | None:
    """What a collective reshards, and the line of the with_sharding_constraint that this is for;
    None where several may be meant.
    """
    if (each.asked or each.kind) not in _MOVES or not each.op:
        return None
    fitting = {
        # a constraint of the result is one of an operand that takes the same spec
        (one.before, one.after): (one, step.constraint if one.after == step.spec else "")
        for step in shardings.steps
        if step.op == each.op and (each.source is None or step.source == each.source)
        for one in step.reshards
        if not one.free and _fits(each, one)
    }
    return next(iter(fitting.values())) if len(fitting) == 1 else None


def _fits(each: Collective, one: Reshard) -> bool:
    left = {
        axis
        for had, wanted in zip(one.before, one.after, strict=True)
        for axis in had
        if axis not in wanted
    }
    gathered = (each.asked or each.kind) == "all-gather"
    return left == set(each.axes) and gathered != bool(
        left & {axis for axes in one.after for axis in axes}
    )


def _words(moved: Reshard, constraint: str) -> str:
    asked = constraint and f", as the program's with_sharding_constraint at {constraint} asks"
    return f"`{moved.operand}`: {spec_code(moved.before)} -> {spec_code(moved.after)}{asked}"
