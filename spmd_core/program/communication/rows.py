"""Groups collectives into rows of a table: equal ones share a row, those that take little time share the last."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from spmd_core.base import between, by_key, bytes_text, numbered
from spmd_core.facts import Collective, CollectiveKind

SMALL = 0.01  # rows that together take less than this share of the communication are merged
# the number of a repeated layer in the path of an array: `blocks/3/up`, `block_3/up`
_LAYER = re.compile(r"(?<=[/_])\d+(?=/)")
RING = ("all-gather", "reduce-scatter")  # what a ring of permutes beside a matmul implements


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """Collectives that share a row; `members` are all of them, in order.

    `rest` marks the last row, which merges those that take little time.
    """

    members: tuple[Collective, ...]
    rest: bool = False

    @property
    def first(self) -> Collective:
        """The first member, as a representative."""
        return self.members[0]

    @property
    def named(self) -> Collective:
        """The first member; its reason has `*` for the layer where members are of several."""
        if len({each.reason for each in self.members}) == 1 or self.first.reason is None:
            return self.first
        return self.first.model_copy(update={"reason": without_layers(self.first.reason)})

    @property
    def key(self) -> tuple[object, ...]:
        """What its members have in common: rows of several programs with equal keys are alike."""
        return _key(self.first)

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
        """Estimated seconds in total."""
        return sum(each.total_s for each in self.members)

    @property
    def exposed_s(self) -> float:
        """Estimated exposed seconds in total."""
        return sum(each.exposed_in_all_s for each in self.members)

    @property
    def what(self) -> str:
        """Kind as compiled and, if different, as requested."""
        return numbered(len(self.members), "other") if self.rest else kind_words(self.first)

    @property
    def size(self) -> str:
        """Bytes of one execution in words, or from the smallest to the largest."""
        sizes = sorted({each.bytes for each in self.members})
        return between(bytes_text(sizes[0]), bytes_text(sizes[-1]))


def is_ring(collective: CollectiveKind) -> bool:
    """Whether this is a step of a collective matmul: a gather or scattered sum, in permutes."""
    return collective.kind == "collective-permute" and collective.asked in RING


def kind_words(collective: CollectiveKind) -> str:
    """E.g. `all-reduce`; with the requested kind if that is different."""
    if is_ring(collective):
        return f"{collective.asked} as a ring of collective-permutes"
    if collective.asked is None:
        return collective.kind
    return f"{collective.asked} requested, {collective.kind} compiled"


def without_layers(text: str) -> str:
    """A text with `*` for the number of a layer in the paths of arrays."""
    return _LAYER.sub("*", text)


def rows(collectives: Sequence[Collective]) -> tuple[CollectiveRow, ...]:
    """Rows of equal kind, axes, bytes, route and reason, the longest total first; the layers of a
    model have one reason.

    All steps of collective matmuls that implement the same collective over the same axes share a
    row. Rows that together take less than 1 % of the communication are merged into the last.
    """
    alike = by_key((_key(each), each) for each in collectives)
    by_seconds = sorted(
        (CollectiveRow(tuple(group)) for group in alike.values()), key=lambda row: -row.seconds
    )
    return _folded(by_seconds)


def _key(each: Collective) -> tuple[object, ...]:
    key = (each.kind, each.asked, each.axes, each.count is None)
    if is_ring(each):
        return key
    reason = each.reason and without_layers(each.reason)
    return (*key, each.bytes, each.route, reason, each.warning)


def _folded(rows: list[CollectiveRow]) -> tuple[CollectiveRow, ...]:
    total = sum(row.seconds for row in rows)
    kept, rest = list(rows), 0.0
    while kept and rest + kept[-1].seconds < SMALL * total:
        rest += kept.pop().seconds
    small = rows[len(kept) :]
    if len(small) < 2:
        return tuple(rows)
    return (*kept, CollectiveRow(tuple(each for row in small for each in row.members), rest=True))
