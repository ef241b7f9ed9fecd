"""A timeline as values: scenes (a step, or one pass through a loop) of spans on rows.

The same values hold a predicted step, whose rows are a chip and its links, and a trace, whose rows
are devices.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Stretch = tuple[float, float]  # from, to


def joined(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """The union of stretches, as disjoint stretches in order.

    >>> joined([(3, 4), (0, 2), (1, 2.5)])
    ((0, 2.5), (3, 4))
    """
    merged: list[Stretch] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return tuple(merged)


def outside(stretches: Iterable[Stretch], others: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """The stretches minus `others`, which are disjoint.

    >>> outside([(0, 10)], ((2, 3), (5, 12)))
    ((0, 2), (3, 5))
    """
    rest: list[Stretch] = []
    for start, end in stretches:
        for low, high in others:
            if high <= start or low >= end:
                continue
            if low > start:
                rest.append((start, low))
            start = max(start, high)
        if end > start:
            rest.append((start, end))
    return tuple(rest)


def covered_s(stretches: Iterable[Stretch]) -> float:
    """The total length of disjoint stretches, seconds."""
    return sum(end - start for start, end in stretches)


WAIT, EXPOSED, LOOP = "wait", "exposed", "loop"  # a chip waits for copies; for a collective
# Kinds of spans in which a chip is busy; other kinds are collectives, by their own names
AT_WORK = ("matmul", "kernel", "memory", "compute", LOOP)
COPIES = ("copy", "host")
BESIDE = ", beside"  # in the name of a row: of what runs on a device while another operation does


@dataclass(frozen=True, slots=True)
class Span:
    """Something that takes time: from `start_s`, for `length_s`, on the row of that number.

    `exposed` are the stretches (start, end) within it in which the chip waits for it; `exposed_s`
    is the total, including waits outside it. `needs` are numbers of spans of the same scene, as
    are, of a wait, `waits_for` and `waiter`. `inside` is the scene that a loop opens.
    """

    name: str  # the instruction's, or the event's
    kind: str
    row: int
    start_s: float
    length_s: float
    op: str = ""  # path of the operation in the traced program
    source: str = ""  # file:line function
    line: str = ""  # the instruction, as text
    nbytes: int | None = None  # per device: of a collective what it carries, else HBM traffic
    flops: int | None = None
    exposed: tuple[tuple[float, float], ...] = ()
    exposed_s: float = 0.0
    waits_for: int | None = None
    waiter: int | None = None
    needs: tuple[int, ...] = ()
    inside: int | None = None

    @property
    def end_s(self) -> float:
        """When it ends."""
        return self.start_s + self.length_s

    @property
    def is_communication(self) -> bool:
        """Whether it is a collective or a transfer, which may overlap with compute."""
        return self.kind not in (*AT_WORK, WAIT, EXPOSED, *COPIES)


@dataclass(frozen=True, slots=True)
class TimelineScene:
    """Spans that are shown together: of the step, or of one pass through a loop.

    `times` is how often it comes in a step; `length_s` one pass. `left_out` counts spans too short
    to be kept, and `left_out_s` is their total. `exposed_s` of a predicted step is how long the
    chip waits for communication in all passes of all loops.
    """

    name: str  # the loop's; "" for the step
    rows: tuple[str, ...]
    spans: tuple[Span, ...]
    length_s: float
    times: int = 1
    parent: int | None = None
    left_out: int = 0
    left_out_s: float = 0.0
    exposed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Scenes, the step first. `predicted`: by a cost model, not traced."""

    scenes: tuple[TimelineScene, ...]
    predicted: bool = True


def mix(timeline: Timeline, number: int) -> dict[str, float]:
    """Seconds by kind of one pass through a scene's first row, with loops expanded."""
    scene, by_kind = timeline.scenes[number], dict[str, float]()
    for span in scene.spans:
        if span.row != 0:
            continue
        inner = {span.kind: 1.0} if span.inside is None else mix(timeline, span.inside)
        total = sum(inner.values()) or 1.0
        for kind, seconds in inner.items():
            by_kind[kind] = by_kind.get(kind, 0.0) + span.length_s * seconds / total
    return by_kind
