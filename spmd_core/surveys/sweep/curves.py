"""The answer of a sweep in a sentence, and what else it shows."""

import re
from collections.abc import Iterator, Mapping, Sequence

from spmd_core.base import bytes_text, capital, numbered, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.machine import get_topology
from spmd_core.results import predicted_verdict
from spmd_core.surveys.sweep.scaling import fell_most, knee_words, scaling_notes
from spmd_core.sweeps import (
    SizePoint,
    Sweep,
    SweepPoint,
    SweepRow,
    TrainingCost,
    begins,
    run_of,
)
from spmd_core.terms import StepCost, cost, mfu_words, title
from spmd_core.words import bound_words, fact_words, paired_words, ratio_words, share_words

_PLURAL = re.compile(r"s\b")
NOTABLE = 0.05  # of the step: exposed communication worth a word
_ALIKE = 0.02  # closer than this, two estimates are equal


Price = float | Mapping[str, float] | None  # dollars per chip-hour, or by kind of chip


def row_cost(row: SweepRow, price: Price = None) -> StepCost:
    """What the step of a point costs; `price` in dollars per chip-hour, or by kind of chip."""
    numbers = row.numbers
    each = _price_of(row, price)
    return cost(numbers.chip_seconds, numbers.tokens_per_s_per_chip, each, numbers.mfu)


def row_run(row: SweepRow, tokens: float | None, price: Price = None) -> TrainingCost | None:
    """Returns what training the plan of a point on so many tokens takes; None of what is no plan, and
    of a point without a time.
    """
    plan = row.point.experiment.plan if row.point.experiment else None
    if plan is None or not row.numbers.low_s or not row.numbers.high_s:
        return None
    return run_of(row.numbers.time, plan, tokens, _price_of(row, price))


def run_cells(row: SweepRow, tokens: float | None, price: Price = None) -> dict[str, float | None]:
    """Returns the numbers of `row_run` by name, each None where it is unknown."""
    run = row_run(row, tokens, price)
    days = run.days if run else None
    return {
        "tokens": run.tokens if run else None,
        "days_low": days.low if days else None,
        "days": days.estimate if days else None,
        "days_high": days.high if days else None,
        "chip_hours": run.chip_hours if run else None,
        "money": run.money if run else None,
    }


def _price_of(row: SweepRow, price: Price) -> float | None:
    if not isinstance(price, Mapping):
        return price
    experiment = row.point.experiment
    return price.get(get_topology(experiment.target).chip.generation) if experiment else None


def axis_title(sweep: Sweep) -> str:
    """What is varied, as the x axis and the table's first column call it."""
    return sweep.variable.axis(sweep.base)


def mfu_title(sweep: Sweep) -> str:
    """Returns the name of the MFU that is shown first: of a decoder without masked pairs."""
    return "Causal MFU" if sweep.base.plan else "MFU"


def sweep_headline(sweep: Sweep, rows: Sequence[SweepRow]) -> str:
    """The answer of a sweep in a sentence: what the curves show, with the points that are refused."""
    first, counted = next(_sentences(sweep, rows), ""), missing_words(sweep, rows)
    if counted and not first:
        return f"{counted.removesuffix('.')}: the table says why."
    return counted if counted.startswith(first) else f"{first} {counted}".strip()


def missing_words(sweep: Sweep, rows: Sequence[SweepRow]) -> str:
    """Returns which points an answer is not about: those that do not fit, of a scaling sweep only more
    chips than those with a time, unless just one has; and how many points are refused.
    """
    refused = sum(row.outcome.state == "refused" for row in rows)
    are = "is" if refused == 1 else "are"
    counted = f"{refused} of {numbered(len(rows), 'point')} {are} refused." * bool(refused)
    timed = [row.point.chips for row in rows if row.numbers.step_s]
    is_named = not sweep.variable.scales or len(timed) < 2
    more = [row for row in rows if is_named or row.point.chips > max(timed)]
    return " ".join(filter(None, (_too_large(sweep, more), counted)))


def _too_large(sweep: Sweep, rows: Sequence[SweepRow]) -> str:
    too_large = [row for row in rows if row.outcome.state in ("too large", "does not fit")]
    if not too_large:
        return ""
    do = "does" if sweep.is_categorical and len(too_large) == 1 else "do"
    plan = "with this plan" if sweep.base.plan and not sweep.is_tuned else "in memory"
    return f"{points_words(sweep, too_large)} {do} not fit {plan}."


def sweep_notes(
    sweep: Sweep, rows: Sequence[SweepRow], compiled: Sequence[SweepRow] = ()
) -> list[str]:
    """What else a sweep shows, what does not fit, and what it assumes, a sentence each. `compiled`
    are the points of `rows` that are known better than the estimates which these compare.
    """
    answer = sweep_headline(sweep, rows)
    sentences = list(_sentences(sweep, rows, len(compiled)))[1:]
    more = [words for words in sentences if words not in answer]
    return [*more, *scaling_notes(sweep, rows)]


def _sentences(sweep: Sweep, rows: Sequence[SweepRow], compiled: int = 0) -> Iterator[str]:
    every = [row for row in rows if row.numbers.step_s]
    timed = of_one_kind(every)
    if len(timed) > 1:
        most = max(row.point.chips for row in rows)
        yield from (bends := knee_words(sweep, timed, most))[:1]
        yield _best(sweep, timed) if sweep.is_categorical else _trend(sweep, timed)
        yield from bends[1:]
        yield from _binding(sweep, timed)
    elif timed:
        takes = seconds_text(timed[0].numbers.step_s)
        yield f"At {point_title(sweep, timed[0].point)} a step takes {takes}{_mfu(timed[0])}."
    if guessed := sum(row.is_estimated for row in every) - compiled:
        are = "is an estimate" if guessed == 1 else "are estimates"
        apart = "" if len(timed) == len(every) else ", on a curve of their own"
        apart += "; the curves compare estimates of all" * bool(compiled)
        yield f"{guessed} of {numbered(len(every), 'point')} {are}, not compiled{apart}."
    yield from doubt_words(sweep, rows)
    if too_large := _too_large(sweep, rows):
        yield too_large
    if failed := [row for row in rows if row.outcome.state == "failed"]:
        yield f"{points_words(sweep, failed)} failed to compile."


def doubt_words(sweep: Sweep, rows: Sequence[SweepRow], of: str = "") -> list[str]:
    """Returns why estimates of points, `of` a curve, may be too short, each reason once."""
    reasons: dict[str, list[SweepRow]] = {}
    for row in rows:
        if row.is_estimated and (doubt := row.numbers.doubt):
            reasons.setdefault(fact_words(doubt), []).append(row)
    of = f"{of}, " * bool(of)
    return [f"{of}{points_words(sweep, each)}: {words}." for words, each in reasons.items()]


def of_one_kind(timed: Sequence[SweepRow]) -> list[SweepRow]:
    """Returns the compiled points or the estimated ones, whichever are more: they are not compared."""
    compiled = [row for row in timed if not row.is_estimated]
    guessed = [row for row in timed if row.is_estimated]
    return compiled if len(compiled) >= len(guessed) else guessed


_KEPT = {"weak": "batch per chip constant", "strong": "total batch constant"}


def _trend(sweep: Sweep, timed: Sequence[SweepRow]) -> str:
    first, last = timed[0], timed[-1]
    span = f"From {first.point.label} to {point_title(sweep, last.point)}"
    if first.point.slices < last.point.slices:
        span += f" ({first.point.slices} to {last.point.slices} slices)"
    if first.shown_mfu and last.shown_mfu:
        before, after = first.shown_mfu[0], last.shown_mfu[0]
        change = after / before - 1
        if abs(change) < _ALIKE:
            how = "stays near"
        elif change < 0:
            how = "falls from"
        else:
            how = "rises from"
        mfu = mfu_title(sweep).replace("Causal", "causal")
        text = f"{mfu} {how} {before:.0%}" + ("" if abs(change) < _ALIKE else f" to {after:.0%}")
    else:
        text = f"the step goes from {seconds_text(first.numbers.step_s)} to {seconds_text(last.numbers.step_s)}"
    if sweep.variable.scales and last.efficiency is not None:
        return f"{span} {text}; scaling efficiency {last.efficiency:.0%} ({sweep.scaling} scaling, {_KEPT[sweep.scaling]}{_why_above(first, last)})."
    best = max(timed, key=lambda row: row.efficiency or 0.0)
    return f"{span} {text}; most work per chip and second at {point_title(sweep, best.point)}."


def above_words(sweep: Sweep, rows: Sequence[SweepRow]) -> str:
    """Returns why a chip does more at the best point than at the first, in a sentence; "" where it does
    not, or nothing that takes less is the reason.
    """
    first, best = rows[0], max(rows, key=lambda row: row.efficiency or 0.0)
    if not (first.efficiency and best.efficiency and best.efficiency > 1.005 * first.efficiency):
        return ""
    most, before, after = fell_most(first, best)
    if not most:
        return ""
    plans = [row.point.experiment.plan for row in (first, best) if row.point.experiment]
    is_saved = len({plan and (plan.remat, plan.save, plan.offload) for plan in plans}) > 1
    at, began = (point_title(sweep, row.point) for row in (best, first))
    more = f"{best.efficiency:.0%} at {at}"
    if is_saved:
        return f"{more}: a chip has room to save more activations, and recomputes fewer."
    return (
        f"{more}: {share_words(most)} take {before:.0%} of the step at {began}, and {after:.0%} of it "
        "for the same work."
    )


def _why_above(first: SweepRow, last: SweepRow) -> str:
    """Where the scaling efficiency is above 100%: the kind of time that takes less for the same
    work, in shares of the first step; "" elsewhere.
    """
    if not first.efficiency or not last.efficiency or last.efficiency <= 1.005 * first.efficiency:
        return ""
    most, before, after = fell_most(first, last)
    if not most:
        return ""
    return (
        f"; above 100% since {share_words(most)} take {before:.0%} of the first step, and "
        f"for the same work {after:.0%} of it at the end"
    )


def _best(sweep: Sweep, timed: Sequence[SweepRow]) -> str:
    ranked = sorted(timed, key=lambda row: row.numbers.step_s or 0.0)
    best, other = ranked[0], ranked[1]
    assert best.numbers.step_s and other.numbers.step_s and best.numbers.high_s
    text = f"{point_title(sweep, best.point)} has the shortest step, {seconds_text(best.numbers.step_s)}{_mfu(best)}"
    ratio = other.numbers.step_s / best.numbers.step_s - 1
    assert other.numbers.time and best.numbers.time
    judged = predicted_verdict(other.numbers.time, best.numbers.time)
    name = point_title(sweep, other.point)
    if judged == "faster":
        return f"{text}; next is {name}, {ratio:.0%} slower."
    if judged == "the same":
        return f"{text}; {name} takes the same time."
    more = f"{ratio:.{0 if ratio > 0.01 else 1}%} more" if ratio else "as long"
    return f"{text}; {name} takes {more}, and their intervals overlap."


def _binding(sweep: Sweep, timed: Sequence[SweepRow]) -> list[str]:
    if sweep.is_categorical:
        return []
    bounds = [bound_words(row.numbers.shares_s, share=False) for row in timed]
    turned = next((at for at in range(1, len(timed)) if bounds[at] != bounds[at - 1]), None)
    worst = max(timed, key=lambda row: row.exposed_share or 0.0)
    exposed = ""
    if worst.exposed_most and (worst.exposed_share or 0.0) > NOTABLE:
        where = point_title(sweep, worst.point)
        exposed = f"exposed communication, mostly {worst.exposed_most}s, takes at most {worst.exposed_share:.0%} of the step, at {where}"
    after = f"; {exposed}." if exposed else "."
    bound = bounds[turned or 0]
    if turned is None and not any(row.numbers.shares_s for row in timed):
        return [f"{capital(exposed)}."] if exposed else []
    if turned is None:
        return [f"{capital(bound)} throughout{after}"]
    return [f"From {point_title(sweep, timed[turned].point)} on: {bound}{after}"]


def _mfu(row: SweepRow) -> str:
    words = mfu_words(row.numbers.mfu, row.mfu_causal)
    return f", {words}" if words else ""


def point_title(sweep: Sweep, point: SweepPoint) -> str:
    """A point in words: `64 chips`, `TPU v5p (v5p:4x4x4)`, `fsdp=16,tensor=4`."""
    if sweep.variable.point is not None:
        return sweep.variable.point(point.value, point.label)
    title = axis_title(sweep)
    return f"{point.label} {_PLURAL.sub('', title, 1) if point.label == '1' else title}"


def points_words(sweep: Sweep, rows: Sequence[SweepRow]) -> str:
    """Returns points in words: `64, 128 and 256 chips`."""
    *first, last = [row.point.label for row in rows]
    if not first:
        return point_title(sweep, rows[0].point)
    names = f"{', '.join(first)} and {last}"
    return names if sweep.is_categorical else f"{names} {axis_title(sweep)}"


# Sizes: one device against sharded


def point_size_words(point: SizePoint) -> str:
    """The dims of a size: `batch=1024 in=512`."""
    return " ".join(f"{dim}={size}" for dim, size in point.experiment.dims)


def size_headline(points: Sequence[SizePoint]) -> str:
    """Where sharding begins to win, or that it does not at these sizes."""
    known = [point for point in points if point.wins is not None]
    if not known:
        return "No size was computed to the end."
    first, largest = begins(points), known[-1]
    if first is None:
        size, times = point_size_words(largest), _size_times(largest)
        if largest.ratio and largest.ratio.verdict == "cannot tell":
            return f"Cannot tell whether sharding wins up to {size}: {times}."
        return f"Sharding does not win up to {size}: {times}, {wins_words(largest)}."
    if first is known[0]:
        if len(known) > 1:
            ends = [
                f"{ratio_words(each.ratio, each.quotient)} at {point_size_words(each)}"
                for each in (first, largest)
                if each.ratio
            ]
            return f"Sharding wins at each of {len(known)} sizes: {', '.join(ends)}."
        size = point_size_words(first)
        return f"Sharding wins at the one size compared: {_size_times(first)} at {size}."
    smaller = known[: known.index(first)]
    lost = [each for each in smaller if wins_words(each) != "cannot tell"]
    before = (lost or smaller)[-1]
    between = f"{point_size_words(before)} and {point_size_words(first)}"
    return f"Sharding begins to win between {between}: {_size_times(first)}."


def _size_times(point: SizePoint) -> str:
    best = f"{title(point.best or '')} {seconds_text(point.best_s)}"
    ratio = ""
    if point.ratio and point.ratio.rounds:
        ratio = f", {paired_words(point.ratio, point.quotient)}"
    return f"{best} against {seconds_text(point.alone_s)} on one device{ratio}"


def wins_words(point: SizePoint) -> str:
    """Which side of a size is faster, by the verdict; an en dash where that is not known."""
    if point.ratio is None:
        return "–"
    if point.ratio.verdict == "faster":
        return "sharding is faster" if point.wins else "one device is faster"
    return point.ratio.verdict


def sizes_offer(missing: Sequence[Experiment], known: Sequence[SizePoint] = ()) -> str:
    """What computing these sizes would do: from where to where, and on which side of those known."""
    first, last = (SizePoint(missing[at]) for at in (0, -1))
    spans = [
        f"{point_size_words(point)} ({bytes_text(point.operand_bytes)})" for point in (first, last)
    ]
    to = f" to {spans[1]}" if len(missing) > 1 else ""
    verb = "Predicts" if missing[0].place.is_absent else "Measures"
    held = [each.operand_bytes for each in known]
    are = ""
    if held and last.operand_bytes < min(held):
        are = "smaller sizes, "
    elif held and first.operand_bytes > max(held):
        are = "larger sizes, "
    return f"{verb} {are}{spans[0]}{to}."
