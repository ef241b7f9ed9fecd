"""Assigns a compiler warning to the collective that it is about."""

import re
from collections.abc import Sequence

from spmd_core.results import Collective

REPLICATES = (
    "full rematerialization: the compiler found no efficient way from one sharding to "
    "the next, and replicates the array in between"
)
_WARNS = re.compile(r"Involuntary full rematerialization", re.IGNORECASE)
_OP = re.compile(r'op_name="([^"]*)"')


def with_warnings(
    collectives: Sequence[Collective], warnings: Sequence[str]
) -> tuple[Collective, ...]:
    """The collectives, with the warning attached to those that it is about: the all-gathers of the
    operation that it names, else any collective of that operation, else the largest all-gather.
    """
    marked: set[int] = set()
    for warning in warnings:
        if _WARNS.search(warning):
            op = _OP.search(warning)
            marked |= _of(collectives, op[1] if op else None)
    return tuple(
        each.model_copy(update={"warning": REPLICATES}) if number in marked else each
        for number, each in enumerate(collectives)
    )


def _of(collectives: Sequence[Collective], op: str | None) -> set[int]:
    gathers = [
        number for number, each in enumerate(collectives) if "all-gather" in (each.kind, each.asked)
    ]
    same = {number for number, each in enumerate(collectives) if op and each.op == op}
    largest = max(gathers, key=lambda number: collectives[number].bytes, default=None)
    return (same & set(gathers)) or same or (set() if largest is None else {largest})
