"""The list of collectives as rows for a reader: what is alike is one row, what is small the last."""

from collections.abc import Sequence
from dataclasses import dataclass

from spmd_core.base import bytes_text
from spmd_core.results import Collective

SMALL = 0.01  # rows that together take less than this share of the communication are one row
SMALL_WORDS = "together under 1 % of the communication"
RING = ("all-gather", "reduce-scatter")  # what a ring of permutes beside a matmul implements


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """Collectives that a reader cannot tell apart; `members` are all of them, in the list's order.

    `rest` marks the last row, of all that is small.
    """

    members: tuple[Collective, ...]
    rest: bool = False

    @property
    def first(self) -> Collective:
        """One that stands for all."""
        return self.members[0]

    @property
    def axes(self) -> tuple[str, ...]:
        """Mesh axes of all."""
        return tuple(dict.fromkeys(axis for each in self.members for axis in each.axes))

    @property
    def count(self) -> int | None:
        """Executions of all; None where one is unknown."""
        counts = [each.count for each in self.members]
        return None if None in counts else sum(filter(None, counts))

    @property
    def bytes_total(self) -> int | None:
        """Bytes per device in all; None where a count is unknown."""
        sizes = [each.bytes_total for each in self.members]
        return None if None in sizes else sum(filter(None, sizes))

    @property
    def seconds(self) -> float:
        """Seconds in all, as the estimate counts them."""
        return sum(each.total_s for each in self.members)

    @property
    def exposed_s(self) -> float:
        """Seconds in all that the chip waits, as the estimate counts them."""
        return sum(each.exposed_in_all_s for each in self.members)

    @property
    def what(self) -> str:
        """Kind as compiled and, where it is another, as asked."""
        if self.rest:
            return f"{len(self.members)} small ones"
        return kind_words(self.first)

    @property
    def size(self) -> str:
        """Bytes of one execution in words, or from the smallest to the largest."""
        sizes = sorted({each.bytes for each in self.members})
        few = [bytes_text(size) for size in (sizes[0], sizes[-1])]
        return few[0] if few[0] == few[1] else f"{few[0]} to {few[1]}"


def is_ring(collective: Collective) -> bool:
    """Whether this is a step of a collective matmul: a gather or scattered sum, in permutes."""
    return collective.kind == "collective-permute" and collective.asked in RING


def kind_words(collective: Collective) -> str:
    """E.g. `all-reduce`; with what was asked for where that is another."""
    if is_ring(collective):
        return f"{collective.asked} as a ring of collective-permutes"
    if collective.asked is None:
        return collective.kind
    return f"{collective.asked} requested, {collective.kind} compiled"


def rows(collectives: Sequence[Collective]) -> tuple[CollectiveRow, ...]:
    """What is alike in kind, axes, bytes, route and reason is one row; the longest in all first.

    All steps of collective matmuls that implement the same over the same axes are one row, of
    whatever bytes. Priced rows that together take less than 1 % of the communication are the last.
    """
    alike: dict[tuple[object, ...], list[Collective]] = {}
    for each in collectives:
        key = (each.kind, each.asked, each.axes)
        if not is_ring(each):
            key = (*key, each.bytes, each.route, each.reason, each.warning)
        alike.setdefault(key, []).append(each)
    found = sorted(
        (CollectiveRow(tuple(group)) for group in alike.values()), key=lambda row: -row.seconds
    )
    return _folded(found)


def _folded(found: list[CollectiveRow]) -> tuple[CollectiveRow, ...]:
    whole = sum(row.seconds for row in found)
    kept, rest = list(found), 0.0
    while kept and rest + kept[-1].seconds < SMALL * whole:
        rest += kept.pop().seconds
    small = found[len(kept) :]
    if len(small) < 2:
        return tuple(found)
    return (*kept, CollectiveRow(tuple(each for row in small for each in row.members), rest=True))
