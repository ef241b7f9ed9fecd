"""The collectives that a change of shardings adds to a program and removes, without a full compile."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod
from typing import Any, TypeVar

from spmd_core.answers.collective_sheet import COLLECTIVES, CommunicationRow
from spmd_core.answers.training_sheet import Figure
from spmd_core.base import (
    bytes_change,
    bytes_text,
    capital,
    change_text,
    in_one_unit,
    numbered,
    scaled_text,
    seconds_text,
    span_text,
)
from spmd_core.experiment import Experiment, dtype_of, layout_of
from spmd_core.facts import Estimate, sent_at_least
from spmd_core.machine import get_topology
from spmd_core.program import CollectiveRow
from spmd_core.results import Operation
from spmd_core.runs import Partitioned, Requested
from spmd_core.sheets import EVERYWHERE, Sheet, text

T = TypeVar("T")
# of `bench.what_if`, programs x shardings: how many, with the kinds and axes of the compiled program,
# and with its bytes within 2%; by the kind of a target
_AGREE = {"cpu": ("CPU", 126, 126, 126), "tpu": ("TPU v5e", 24, 24, 24)}

WITHIN = 0.02  # which bytes of partitioned programs are of compiled ones: less is no rise
ROOMY = 0.8  # of HBM: what is below leaves room for a faster step to hold more
WORSE_TIMED = (  # the same, of what has a time
    "A fix is worse where the step takes longer, or the peak rises: a faster step may hold more, up to "
    f"{ROOMY:.0%} of HBM."
)
WORSE = (
    f"A fix is worse where step time rises, or peak memory: not of a faster step below {ROOMY:.0%} of "
    "HBM. Where no time is known, the product of peak memory, matmul FLOPs and bytes sent decides: "
    "twice the bytes are worth half the memory or work."
)
Ends = tuple[T | None, T | None]  # before and after a change
_FROM_NONE = 2.0  # times: what sends bytes where nothing was sent counts as twice
PEAK, STEP, SENT = "Peak memory per device", "Estimated step", "Sent per device and step"
WORK = "Matmul FLOPs per device"
NO_TIME = "not compared: step time"
_VERBS = {"appears": "adds", "vanishes": "removes"}
_RANGES = "Ranges are those of compiled programs: times of partitioned ones were not compared."


def agreement_words(experiment: Experiment) -> str:
    """Returns how far to trust it on an experiment's target, as measured."""
    target = experiment.place
    if target.kind not in _AGREE:
        return f"Not compared with compiles for {target.text}."
    name, number, sets, sizes = _AGREE[target.kind]
    return (
        f"Of {number} programs compiled for {name}, {sets / number:.0%} had these kinds and axes, "
        f"{sizes / number:.0%} these bytes within 2%."
    )


@dataclass(frozen=True, slots=True)
class Changed:
    """Collectives that are alike, and how many of them there are before and after.

    Attributes:
      first: one of them.
      before: executions in a step; None where a loop's count is unknown.
      after: the same of the changed program.
    """

    first: Requested
    before: int | None
    after: int | None

    @property
    def change(self) -> str:
        """Returns what happens to them: appears, vanishes, stays, more or fewer."""
        was, now = (inf if each is None else each for each in (self.before, self.after))
        if was == now:
            return "stays"
        if not was or not now:
            return "vanishes" if was else "appears"
        return "more" if now > was else "fewer"

    @property
    def changed_bytes(self) -> int:
        """Returns the bytes on a device by which a step changes; of all of them where none does."""
        was, now = (1 if each is None else each for each in (self.before, self.after))
        return self.first.bytes * (abs(now - was) or now)


@dataclass(frozen=True)
class WhatIf:
    """An experiment on an exported program, and the same with other specs, axis sizes or constraints.

    Attributes:
      before: the experiment that is compared with.
      after: the changed one.
      programs: both, partitioned.
    """

    before: Experiment
    after: Experiment
    programs: tuple[Partitioned, Partitioned]

    @cached_property
    def rows(self) -> tuple[Changed, ...]:
        """Collectives that are alike in kind, axes, dim, bytes and place: what changes first, by the
        bytes of the change.
        """
        before, after = (each.collectives for each in self.programs)
        alike = [_alike(each) for each in (before, after)]
        firsts = {_key(each): each for each in (*after, *before)}
        rows = [Changed(firsts[key], *(each.get(key, 0) for each in alike)) for key in firsts]
        return tuple(sorted(rows, key=lambda e: (e.change == "stays", -e.changed_bytes)))

    @property
    def changed(self) -> tuple[Changed, ...]:
        """The rows that differ."""
        return tuple(each for each in self.rows if each.change != "stays")

    @property
    def argument_bytes(self) -> tuple[int, int]:
        """What the arguments take on a device, before and after."""
        return _argument_bytes(self.before), _argument_bytes(self.after)

    @property
    def sent_bytes(self) -> tuple[int, int]:
        """Bytes that a device sends in a step; a loop of unknown count counts once."""
        before, after = (sent_at_least(program.collectives) for program in self.programs)
        return before, after

    @property
    def total_bytes(self) -> tuple[int, int]:
        """The same, of the larger of operand and result of each collective."""
        before, after = (
            sum(each.bytes * each.times for each in program.collectives)
            for program in self.programs
        )
        return before, after

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Quantities before and after: bytes on a device, and the step's estimated time with its range."""
        was, now = self.programs
        moved = self.sent_bytes if any(self.sent_bytes) else (None, None)
        rows = quantities(
            (was.peak_bytes or None, now.peak_bytes or None),
            (was.predicted_s, now.predicted_s),
            moved,
        )
        if any(self.sent_bytes) and not self.is_timed:
            rows[-1] = rows[-1]._replace(more=NO_TIME)
        if not self.is_timed and (work := self.work) and any(work):
            rows.append(Figure(WORK, in_one_unit(*work, lambda each: scaled_text(each, "FLOP"))))
        held = in_one_unit(*self.argument_bytes, bytes_text)
        return (*rows, Figure("Arguments per device", held))

    @property
    def is_timed(self) -> bool:
        """Returns True if the time of both is estimated."""
        return all(each.predicted_s for each in self.programs)

    @cached_property
    def work(self) -> tuple[int, int] | None:
        """FLOPs of a device's matmuls, before and after; None where they cannot be listed."""
        was, now = (each.operations for each in self.programs)
        return None if was is None or now is None else (_flops(was), _flops(now))

    @cached_property
    def raised(self) -> tuple[str, ...]:
        """Titles of the figures that make the change worse: the rule is `WORSE`."""
        peaks = tuple(each.peak_bytes or 0 for each in self.programs)
        listed = [PEAK] if all(peaks) and _ratio(peaks) > 1 + WITHIN else []
        if self.is_timed:
            ratio = _ratio(self._times)
            if ratio < 1 - WITHIN and self._has_room:
                return ()
            return (*listed, *([STEP] if ratio > 1 + WITHIN else ()))
        ratios = {SENT: _ratio(self.sent_bytes), WORK: _ratio(self.work or (1, 1))}
        risen = [title for title, ratio in ratios.items() if ratio > 1 + WITHIN]
        is_worse = prod((_ratio(peaks), *ratios.values())) > 1 + WITHIN
        return (*listed, *(risen if is_worse else ()))

    @cached_property
    def is_no_gain(self) -> bool:
        """Returns True if neither the step nor the peak is less by over 2%."""
        if not self.is_timed:
            return False
        peaks = tuple(each.peak_bytes or 0 for each in self.programs)
        return min(_ratio(self._times), _ratio(peaks)) >= 1 - WITHIN

    @property
    def is_faster(self) -> bool:
        """Returns True if the step is shorter by over 2%."""
        return self.is_timed and _ratio(self._times) < 1 - WITHIN

    @property
    def slower(self) -> str:
        """Returns by how much the step is longer; "" where it is within 2%, and not estimated."""
        ratio = _ratio(self._times) if self.is_timed else 1.0
        return f"{ratio - 1:.0%} slower" if ratio > 1 + WITHIN else ""

    @property
    def _times(self) -> tuple[float, ...]:
        return tuple(each.predicted_s.estimate for each in self.programs if each.predicted_s)

    @property
    def _has_room(self) -> bool:
        place, peak = self.after.place, self.programs[1].peak_bytes or inf
        return (
            place.is_absent and peak < ROOMY * get_topology(self.after.target).chip.device_hbm_bytes
        )

    @property
    def costs(self) -> str:
        """What rises though it is not worse, before and after; "" where nothing does."""
        peaks = tuple(each.peak_bytes or 0 for each in self.programs)
        ends = {PEAK: peaks, STEP: self._times if self.is_timed else (0, 0), SENT: self.sent_bytes}
        ends[WORK] = self.work or (0, 0)
        values = {each.title: each.value for each in self.figures}
        risen = [
            title
            for title, each in ends.items()
            if _ratio(each) > 1 + WITHIN and "→" in values[title]
        ]
        return "; ".join(f"{small(title)} {values[title]}" for title in risen)

    def moved(self, shown: Collection[str] = ()) -> str:
        """Returns the quantities that change, before and after; `shown`: titles to leave out."""
        return "; ".join(
            f"{small(each.title)} {each.value}"
            for each in self.figures[:-1]
            if "→" in each.value and each.title not in shown
        )

    @property
    def verdict(self) -> str:
        """What is worse, before and after, then the other figures; "" where nothing is."""
        if not self.raised:
            return ""
        figures = sorted(self.figures[:-1], key=lambda each: each.title not in self.raised)
        words = [
            f"{small(each.title)} {'rises ' * (each.title in self.raised)}{each.value}"
            for each in figures
        ]
        return "; ".join([*words, *([] if self.is_timed else [NO_TIME])])

    @property
    def worse_by(self) -> str:
        """What is worse, before and after; "" where nothing is."""
        values = {each.title: each.value for each in self.figures}
        rises = [f"{small(each)} rises {values[each]}" for each in self.raised]
        is_as_long = rises and self.is_timed and abs(_ratio(self._times) - 1) <= WITHIN
        return "; ".join([*rises, *(["the step is no shorter"] if is_as_long else [])])

    @property
    def is_propagated(self) -> bool:
        """Returns True if the compiler has not answered yet: no collective is known."""
        return any(each.values is not None for each in self.programs)

    @cached_property
    def resharded(self) -> tuple[tuple[str, str, str, int], ...]:
        """Source lines whose propagated types change, those of the most values first: types before and
        after, and how many values.
        """
        before, after = (
            Counter({(line, of): number for line, of, number in each.values or ()})
            for each in self.programs
        )
        rows: dict[str, tuple[Counter[str], Counter[str]]] = {}
        for at, changed in enumerate((before - after, after - before)):
            for (line, of), number in changed.items():
                rows.setdefault(line, (Counter(), Counter()))[at][of] += number
        listed = (
            (line, _some([*was]), _some([*now]), max(was.total(), now.total()))
            for line, (was, now) in rows.items()
        )
        return tuple(sorted(listed, key=lambda row: -row[-1]))

    @property
    def made(self) -> str:
        """How far the compiler went."""
        if self.is_propagated:
            return "Propagated, not compiled"
        compiled = [each.is_compiled for each in self.programs]
        if all(compiled):
            return "Compiled to the end"
        return (
            "One of the two compiled to the end" if any(compiled) else "Partitioned, not compiled"
        )

    @property
    def agreement(self) -> str:
        """How far to trust what was not compiled to its end, as measured; "" where all was."""
        if self.is_propagated:
            return "These shardings are what the compiler begins with; it decides the collectives."
        made = all(each.is_compiled for each in self.programs)
        if made:
            return ""
        ranges = f" {_RANGES}" if any(each.predicted_s for each in self.programs) else ""
        return f"{agreement_words(self.after)}{ranges}"

    @property
    def headline(self) -> str:
        """The change in a sentence."""
        if self.is_propagated:
            number = sum(each[-1] for each in self.resharded)
            values = f"{numbered(number, 'value')} on {numbered(len(self.resharded), 'line')}"
            return (
                f"Changes the sharding of {values}." if number else "No value is sharded otherwise."
            )
        kinds = {each.change: verb for each in self.rows if (verb := _VERBS.get(each.change))}
        changes = [f"{verb} {_most(self.rows, change)}" for change, verb in kinds.items()]
        moved = in_one_unit(*self.sent_bytes, bytes_text)
        what = " and ".join(changes) or "no collective appears or vanishes"
        return f"{capital(what)}: {moved} per step and device."

    def json(self) -> dict[str, Any]:
        """The rows, bytes and memory, for machines."""
        return {
            "marked": self.made.lower(),
            "worse_by": [small(each) for each in self.raised],
            "headline": self.headline,
            "argument_bytes_per_device": dict(
                zip(("before", "after"), self.argument_bytes, strict=True)
            ),
            "peak_bytes_per_device": {
                name: each.peak_bytes
                for name, each in zip(("before", "after"), self.programs, strict=True)
            },
            "estimated_s": {
                name: each.predicted_s and each.predicted_s.model_dump()
                for name, each in zip(("before", "after"), self.programs, strict=True)
            },
            "bytes_total": dict(zip(("before", "after"), self.total_bytes, strict=True)),
            "sent_bytes": dict(zip(("before", "after"), self.sent_bytes, strict=True)),
            "collectives": [
                {
                    "change": each.change,
                    "kind": each.first.kind,
                    "axes": each.first.axes,
                    "dim": each.first.dim,
                    "bytes": each.first.bytes,
                    "before": each.before,
                    "after": each.after,
                    "source": each.first.source,
                }
                for each in self.rows
            ],
        }


def quantities(
    peaks: Ends[int], times: Ends[Estimate], sent: Ends[int], has_now_alone: bool = False
) -> list[Figure]:
    """Returns figures of a step before and after a change, of those quantities that are known of both.

    Args:
      peaks: bytes of a device.
      times: estimates of the step.
      sent: bytes that a device sends in a step.
      has_now_alone: also those that are known after the change alone.
    """
    rows: list[Figure] = []
    for title, (was, now) in ((PEAK, peaks), (STEP, times), (SENT, sent)):
        if now is None or (was is None and not has_now_alone):
            continue
        was = now if was is None else was
        if isinstance(was, Estimate) and isinstance(now, Estimate):
            ends = in_one_unit(was.estimate, now.estimate, seconds_text)
            spans = change_text(*(span_text(each.low, each.high) for each in (was, now)))
            rows.append(Figure(title, ends, f"range {spans}"))
        elif isinstance(was, int) and isinstance(now, int):
            rows.append(Figure(title, bytes_change(was, now)))
    return rows


def small(title: str) -> str:
    """Returns the title of a figure within a sentence."""
    return title[:1].lower() + title[1:]


def _flops(operations: Sequence[Operation]) -> int:
    return sum(2 * prod(each.sizes) * each.count for each in operations if each.kind == "matmul")


def _ratio(ends: Sequence[float]) -> float:
    was, now = ends
    if was:
        return now / was
    return _FROM_NONE if now else 1.0


def _argument_bytes(experiment: Experiment) -> int:
    if program := experiment.exported:
        return sum(each.bytes_per_device or 0 for each in program.arguments())
    return sum(
        layout_of(experiment, name).shard_bytes(dtype_of(experiment, name))
        for name in (each.name for each in experiment.what.operands)
    )


def _some(types: Sequence[str]) -> str:
    return ", ".join(types[:3]) + (", …" if len(types) > 3 else "") or "–"


def _key(each: Requested) -> tuple[object, ...]:
    return each.kind, each.axes, each.dim, each.bytes, each.source, each.reason


def _alike(requested: Sequence[Requested]) -> dict[tuple[object, ...], int | None]:
    counts: dict[tuple[object, ...], int | None] = {}
    for each in requested:
        key = _key(each)
        so_far = counts.get(key, 0)
        counts[key] = None if so_far is None or each.count is None else so_far + each.count
    return counts


def _most(rows: Sequence[Changed], change: str) -> str:
    """The requested kind and axes of most bytes of a change, and how many other collectives."""
    numbers, sizes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for each in rows:
        if each.change == change:
            kind = each.first.asked or each.first.kind
            key, number = (kind, ", ".join(each.first.axes)), each.before or each.after or 1
            numbers[key] += number
            sizes[key] += number * each.first.bytes
    kind, axes = key = max(sizes, key=lambda key: (sizes[key], numbers[key]))
    number, more = numbers[key], numbers.total() - numbers[key]
    return f"{numbered(number, kind)} over {axes}" + (
        f" and {numbered(more, 'other')}" if more else ""
    )


def _row(each: Changed) -> CommunicationRow:
    one = each.first.model_copy(update={"count": each.after or each.before})
    source = each.first.source  # which most reasons name
    places = (source,) if source and source not in (one.reason or "") else ()
    return CommunicationRow(CollectiveRow((one,)), places=places)


_COLUMNS = {
    column.title: column.within(_row) for column in COLLECTIVES.columns
}  # the document's last
WHAT_IF: Sheet[Changed] = Sheet(
    (
        text("Change", lambda each: each.change),
        _COLUMNS["Collective"],
        _COLUMNS["Over"],
        _COLUMNS["Bytes"],
        text(
            "Count",
            lambda each: change_text(
                *("unknown" if n is None else str(n) for n in (each.before, each.after))
            ),
        ),
        replace(_COLUMNS["Why, and where"], title="Of, and where", places=EVERYWHERE),
    )
)
