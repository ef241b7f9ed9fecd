"""The answer of a training run: a headline, five figures of a plan, sheets of chips and of kinds of
attention over `context`, JSON.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from spmd_core.base import (
    between,
    by_key,
    bytes_text,
    capital,
    count_text,
    mesh_text,
    number_text,
    numbered,
    seconds_text,
    span_text,
    three_digits,
)
from spmd_core.facts import LONGER, TOOK_LONGER, Prediction
from spmd_core.machine import Topology
from spmd_core.plan import EXPERTS_COMPARED, Plan, batch_shards, option_words, remat_words
from spmd_core.sheets import NONE, Cell, Column, Sheet, Table, count, seconds, size, text
from spmd_core.surveys import step_tokens
from spmd_core.sweeps import (
    COUNTED,
    NO_PRICE,
    ContextRow,
    TrainingAnswer,
    TrainingCost,
    TrainingRow,
    fastest_kinds,
    measure,
)
from spmd_core.terms import chip_title, listed, money_text
from spmd_core.words import (
    ABOUT_EVEN,
    CANNOT_TELL,
    RANGE,
    apart_words,
    bound_cell,
    bound_parts,
    days_span,
    days_text,
    deadline_text,
    even_words,
    fact_words,
    mark_of,
    tokens_text,
)

_BEST = {  # of the best row, of one that needs so many times as much, and of one that needs as much
    "chips": ("fewest", "× the chips", "as few"),
    "days": ("fastest", "× as long", "as fast"),
    "dollars": ("cheapest", "× the dollars", "as cheap"),
}
_MISSES = "misses"
_UNPRICED, _MAY_NOT_FIT = "no price", ", may not fit"


class Figure(NamedTuple):
    """A large figure: its title, its value, and a line of what it rests on."""

    title: str
    value: str
    more: str = ""
    filled: float = 0.0  # share of what there is, drawn as a gauge
    fit: str = "fits"  # the verdict on these, as a prediction has it


def five_figures(
    plan: Plan, step: Prediction, run: TrainingCost | None, price: float | None = None
) -> tuple[Figure, ...]:
    """Returns chips, mesh, step, days, dollars where there is a price, and what binds, of a plan that is
    estimated or compiled.
    """
    topology, (value, share) = plan.topology, bound_parts(step.shares_by_axis)
    causal = f"{step.mfu_causal:.1%} causal MFU" if step.mfu_causal else ""
    binds = f"{share} of the step" if share else causal
    days = days_span(run.days) if run else ""
    span = f"{days}, {run.chip_hours:,.0f} chip-hours" if run else ""
    hourly = f"{_money_span(run)}at {money_text(price)} a chip-hour"
    dollars = [Figure("Dollars", money_text(run.money if run else None), hourly)] if price else []
    time, ends = step.predicted_s, f"{plan.tokens:,} tokens"
    if time:
        ends = f"{RANGE} {span_text(time.low, time.high)}, {ends}"
    return (
        Figure("Chips", count_text(topology.chips), _where(topology)),
        Figure("Mesh", mesh_text(plan.mesh, " "), f"remat {plan_policy(plan)}"),
        Figure("Step", seconds_text(time.estimate) if time else NONE, ends),
        Figure("Time", days_text(run.days.estimate) if run else NONE, span),
        *dollars,
        Figure("Bound by", value, binds),
    )


def _where(topology: Topology) -> str:
    """Returns the name of a topology, with the devices of a chip that has several."""
    name, each = topology.name.removeprefix("gpu:"), topology.chip.devices_per_chip
    return f"{name}, {each} devices a chip" if each > 1 else name


def devices_words(answer: TrainingAnswer) -> str:
    """Returns which kinds have several devices a chip, which their meshes count, in a sentence; "" of
    none.
    """
    chips = [row.plan.topology.chip for row in answer.rows if row.plan and row.run]
    named = [
        f"{chip_title(each.generation)} has {each.devices_per_chip}"
        for each in chips
        if each.devices_per_chip > 1
    ]
    return f"Meshes count devices: a chip of {listed(named)}." if named else ""


def _money_span(run: TrainingCost | None) -> str:
    if run is None or run.money is None:
        return ""
    ends = (run.money * each / run.days.estimate for each in (run.days.low, run.days.high))
    return f"{between(*map(money_text, ends))} "


def plan_policy(plan: Plan) -> str:
    """Returns what a plan saves of the forward pass, its microbatches, and how its stages work."""
    saved = remat_words(plan.remat, plan.save, plan.offload)
    if plan.stages == 1:
        options = {"microbatches": plan.microbatches, "compiler_flags": plan.compiler_flags}
        return ", ".join([saved, *option_words(options)])
    runs = f" × {plan.repeats}" if plan.repeats > 1 else ""
    sharded = ", ZeRO-1" if plan.shard_optimizer_over_data else ""
    return f"{saved}, {plan.schedule}{runs}{sharded}"


def training_headline(answer: TrainingAnswer) -> str:
    """Returns the answer in one sentence; of a number of chips with the cheapest that has a price."""
    paid = [row for row in answer.ordered if row.run and row.run.money is not None]
    words = f"{_headline(answer).removesuffix('.')}{_experts_words(answer)}."
    if answer.question.chips is None or len(paid) < 2:
        return words
    least = min(paid, key=lambda row: measure(row, "dollars"))
    assert least.run
    cheapest = f"{chip_title(least.kind)} is cheapest, {money_text(least.run.money)}"
    return f"{words.removesuffix('.')}; {cheapest}."


def _experts_words(answer: TrainingAnswer) -> str:
    """Returns on which kinds steps of experts were compared with published ones, where others are
    among the rows; "" of a model without experts.
    """
    timed = [row for row in answer.rows if row.run and row.plan and row.plan.size.experts > 1]
    if all(row.kind in EXPERTS_COMPARED for row in timed):
        return ""
    known = listed([chip_title(each) for each in EXPERTS_COMPARED])
    return f"; steps with experts were compared with published ones on {known} alone"


def _headline(answer: TrainingAnswer) -> str:
    question, best = answer.question, answer.best
    if best is None or best.plan is None or best.run is None:
        return _not_met(answer)
    name = chip_title(best.kind)
    takes = days_text(best.run.days.estimate)
    chips = best.plan.topology.chips
    names = [chip_title(row.kind) for row in answer.even if row is not best]
    others = listed(names) if names else ""
    is_alike = even_mark(answer) == ABOUT_EVEN
    beside = even_words(even_mark(answer), others)
    if question.budget and not question.days:
        first = "About fastest" if others or _is_near_thrifty(best) else "Fastest"
        paid = f"{chips:,} {name}, {takes}, {money_text(best.run.money)}{_doubt(answer, best)}"
        more = f", {beside}" if others else thrifty_words(best)
        return f"{first} within {money_text(question.budget)}: {paid}{more}."
    of = _of_chips(answer, chips)
    if question.days is None and others:
        last = answer.even[-1].run
        ends = takes, days_text(last.days.estimate) if last else takes
        span = between(*ends)
        kinds = listed([chip_title(row.kind) for row in answer.even])
        if not is_alike:
            return f"{of}, cannot tell which of {kinds} is fastest: {span}{_doubts(answer.even)}."
        return f"{of}, {kinds} are about even: {span}{_doubts(answer.even)}."
    if question.days is None:
        if len(answer.rows) == 1:
            return f"{numbered(chips, 'chip')} of {name}: {takes}{_doubts((best,))}."
        return f"{of}, {name} is fastest: {takes}{_doubts((best,))}."
    return _within(answer, best, f", {beside}" if others else "")


def _doubts(rows: Sequence[TrainingRow]) -> str:
    """Returns which rows may not fit, and that their steps have other numbers of tokens."""
    unsure = [chip_title(row.kind) for row in rows if not row.is_sure]
    parts = []
    if unsure:
        every = {1: "", 2: "both "}.get(len(rows), "all ")
        names = every if len(unsure) == len(rows) else f"{listed(unsure)} "
        parts = [f"{names}may not fit"]
    if len({row.plan.tokens for row in rows if row.plan}) > 1:
        parts.append("at other tokens a step")
    return "".join(f", {part}" for part in parts)


def thrifty_words(row: TrainingRow) -> str:
    """Returns what fewer chips take where the row's own wait for most of their dollars, else ""."""
    if row.thrifty is None:
        return ""
    chips, run = row.thrifty.chips, row.thrifty.run
    takes = f"{days_text(run.days.estimate)} for {money_text(run.money)}"
    if row.run and _is_near_thrifty(row):
        mark = mark_of(row.run.days.estimate, run.days.estimate)
        beside = even_words(mark, f"{chips:,}")
        return f"; {beside}, {takes}"
    return f"; {chips:,} take {takes}"


def _is_near_thrifty(row: TrainingRow) -> bool:
    """Returns True if the ranges of days of a row and of its thrifty number of chips meet."""
    return bool(row.run and row.thrifty and row.thrifty.run.days.low <= row.run.days.high)


def _doubt(answer: TrainingAnswer, row: TrainingRow) -> str:
    doubt = answer.question.doubt(row.run) if row.run and row.meets else ""
    return f", {doubt}" * bool(doubt)


def _of_chips(answer: TrainingAnswer, chips: int) -> str:
    """Returns how many chips of each kind are compared: the nearest to the question, where no slice
    of some kind has as many.
    """
    counts = {row.plan.topology.chips for row in answer.rows if row.plan and row.run}
    if len(counts) == 1:
        return f"Of {numbered(chips, 'chip')} each"
    ends = numbered(max(counts, default=chips), "chip")
    return f"Of {min(counts, default=chips):,} to {ends} a kind"


def _within(answer: TrainingAnswer, best: TrainingRow, beside: str) -> str:
    """Returns the answer of a deadline that is kept."""
    assert best.run and best.plan and answer.question.days
    first = ("About cheapest" if beside else "Cheapest") if answer.by == "dollars" else "Fewest"
    chips = f"{best.plan.topology.chips:,} {chip_title(best.kind)}"
    takes = days_text(best.run.days.estimate) + _doubt(answer, best)
    paid = f", {money_text(best.run.money)}" if best.run.money is not None else ""
    of = f"{best.plan.tokens:,} tokens a step"
    within = deadline_text(answer.question.days)
    return f"{first} within {within}: {chips}, {takes}{paid}, {of}{beside}."


def _not_met(answer: TrainingAnswer) -> str:
    timed = [row for row in answer.rows if row.run and row.plan]
    if not timed:
        if answer.question.chips:  # it was tried with offload, and with fewer sequences
            return "Nothing here holds one sequence a chip, even with offload: use more chips."
        without = "" if answer.question.form.get("offload") else " without offload"
        return f"Nothing here holds this step{without}: use more chips, or a smaller batch."
    question = answer.question
    wanted = deadline_text(question.days) if question.days else money_text(question.budget)
    least, by = ("cheapest", "dollars") if question.budget else ("fastest", "days")
    nearest = min(timed, key=lambda row: measure(row, by))
    assert nearest.run and nearest.plan
    takes, chips = days_text(nearest.run.days.estimate), nearest.plan.topology.chips
    paid = f", {money_text(nearest.run.money)}" if nearest.run.money is not None else ""
    fastest = f"the {least} is {chips:,} {chip_title(nearest.kind)}, {takes}{paid}"
    paid_of = _paid_tokens(nearest.run, question.budget) if question.budget else ""
    fewer = f"; {wanted} pays for {paid_of}" if paid_of else ""
    at_peak = [row.least_money or 0.0 for row in timed]
    if question.budget and min(at_peak) > question.budget:  # on any number of chips
        return f"Nothing keeps {wanted}, even at 100% MFU ({money_text(min(at_peak))}): {fastest}{fewer}."
    most = numbered(max(row.most for row in timed), "chip")
    at = f"{nearest.plan.tokens:,} tokens a step"
    return f"Nothing up to {most} keeps {wanted} at {at}: {fastest}{fewer}."


def batch_words(plan: Plan, sequences: float) -> str:
    """Returns why a step has another batch than the question's `sequences`, in a sentence; "" of the
    same.
    """
    chips, asked = plan.topology.chips, int(sequences * plan.sequence)
    if plan.tokens == asked:
        return ""
    is_odd = sequences % (chips // (chips & -chips)) != 0
    why = f"{chips:,} chips do not divide these" if is_odd else "these do not fit"
    return f"{plan.tokens:,} tokens a step in place of {asked:,}: {why}."


def budget_words(run: TrainingCost, budget: float) -> str:
    """Returns the tokens that a budget pays for of a run that costs more, in a sentence; "" of one that
    it pays.
    """
    paid = _paid_tokens(run, budget)
    return f"{money_text(budget)} pays for {paid}." if paid else ""


def _paid_tokens(run: TrainingCost, budget: float) -> str:
    if run.money is None or run.money <= budget:
        return ""
    return tokens_text(run.tokens * budget / run.money)


def tried_words(answer: TrainingAnswer) -> str:
    """Returns what was compared: plans, pipelines among them, numbers of chips, at which batch; kinds
    that have another number of chips than the question, and why others are refused.
    """
    counts, plans, staged = (
        sum(getattr(row, name) for row in answer.rows) for name in ("counts", "plans", "pipelines")
    )
    kinds = numbered(len(answer.rows), "kind")
    pipelines = f", {numbered(staged, 'pipeline')} among them" if staged else ""
    plan = next((row.plan for row in answer.rows if row.plan), None)
    at = f", {plan.batch:,} sequences of {plan.sequence:,} tokens a step" if plan else ""
    compared = (
        f"Compared: {numbered(plans, 'plan')}{pipelines}, "
        f"on {numbered(counts, 'number')} of chips of {kinds}{at}."
    )
    asked = answer.question.chips
    tried = f"Numbers of chips: {COUNTED}." if asked is None else ""
    others = [
        chip_title(row.kind)
        for row in answer.rows
        if row.plan and asked not in (None, row.plan.topology.chips)
    ]
    moved = f"{asked:,} chips form no slice of {listed(others)}." if others else ""
    why = (
        f"{chip_title(row.kind)}: {reason}."
        for row in answer.rows
        if (reason := row.refusal.partition(": ")[2])
    )
    return " ".join(filter(None, (compared, tried, moved, unpriced_words(answer), *why)))


def batch_figure(plan: Plan) -> Figure:
    """Returns the sequences of a step that a device has, and of each so many tokens; of how many."""
    held = plan.batch // batch_shards(plan), plan.sequence // plan.length_shards
    every = f"of {plan.batch:,} × {plan.sequence:,} sequences × tokens"
    return Figure("Batch per device", "{:,} × {:,}".format(*held), every)


def even_mark(answer: TrainingAnswer) -> str:
    """Returns the verdict of rows whose intervals meet that of the best.

    `about even`, or `cannot tell` where their estimates are far apart, or published steps took longer
    on some of their chips.
    """
    facts = [each.kind for row in answer.even if row.step for each in row.step.facts or ()]
    if TOOK_LONGER in facts:
        return CANNOT_TELL
    runs = [row.run for row in answer.even if row.run]
    paid = answer.by == "dollars"
    values = [run.money or 0.0 if paid else run.days.estimate for run in runs]
    return mark_of(values[0], values[-1]) if values else ABOUT_EVEN


def even_verdict(answer: TrainingAnswer, row: TrainingRow) -> str:
    """Returns the verdict of a row whose interval meets that of the best, and how far apart they are."""
    mark = even_mark(answer)
    if row is answer.best or answer.best is None:
        return mark
    by = "dollars" if answer.by == "dollars" else "days"
    return f"{mark}, {apart_words(measure(answer.best, by), measure(row, by))}"


def _mark(answer: TrainingAnswer, row: TrainingRow) -> str:
    return (
        _verdict(answer, row)
        + _doubt(answer, row)
        + _MAY_NOT_FIT * bool(row.run and not row.is_sure)
    )


def _verdict(answer: TrainingAnswer, row: TrainingRow) -> str:
    if row in answer.even:
        return even_verdict(answer, row)
    best, (is_best, more, alike) = answer.best, _BEST[answer.by]
    if row is best and row.run and row.thrifty and _is_near_thrifty(row) and answer.question.budget:
        return mark_of(row.run.days.estimate, row.thrifty.run.days.estimate)
    if row is best:
        return is_best
    if row.run is None:
        return row.refusal.partition(": ")[0] + _too_much(row.step)
    if best is None or not row.meets:
        return _MISSES
    if answer.by == "dollars" and not row.price:
        return _UNPRICED
    times = number_text(measure(row, answer.by) / measure(best, answer.by))
    return alike if times == "1" else f"{times}{more}"


def _too_much(step: Prediction | None) -> str:
    """Returns the bytes that a plan needs of those there are, where these are too few."""
    held = step.memory_bytes if step else None
    if held is None or not held.peak or held.peak <= held.capacity:
        return ""
    return f": {bytes_text(held.peak)} of {bytes_text(held.capacity)} per device"


def days_range(run: TrainingCost, each: float = 1.0) -> str:
    """Returns the ends of the days of a run, or of other units of time with so many in a day."""
    return between(*(three_digits(each * end) for end in (run.days.low, run.days.high)))


def range_words(named: Iterable[tuple[str, Prediction | None]]) -> str:
    """Returns why the ranges of named plans reach far, in a sentence; "" of none."""
    reasons = by_key(
        (fact_words(fact).partition(":")[0], name)
        for name, step in named
        for fact in (step.facts if step else None) or ()
        if fact.kind in LONGER
    )
    return " ".join(
        f"Far ends of {listed([*dict.fromkeys(names)])}: {why}." for why, names in reasons.items()
    )


class _Marked(NamedTuple):
    mark: str
    row: TrainingRow
    tokens: str | None  # of a step, where rows differ


def _sheet(unit: str, each: float) -> Sheet[_Marked]:
    """Returns the columns; `each`: so many of a unit of time in a day."""
    return Sheet(
        (
            text("On", lambda row: chip_title(row.row.kind)),
            text("Verdict", lambda row: row.mark),
            count("Chips", lambda row: row.row.plan.topology.chips if row.row.plan else None),
            text("Tokens a step", lambda row: row.tokens),
            Column(
                unit,
                lambda row: each * row.row.run.days.estimate if row.row.run else None,
                three_digits,
            ),
            text(
                f"Range of {unit.lower()}",
                lambda row: days_range(row.row.run, each) if row.row.run else None,
            ),
            Column("$ a chip-hour", lambda row: row.row.price, money_text),
            Column(
                "Dollars", lambda row: row.row.run and row.row.run.money, money_text, is_kept=True
            ),
            *_OF_PLAN,
        )
    )


def _held(row: _Marked) -> Cell | None:
    if row.row.held is None or (peak := row.row.held.memory_bytes.peak) is None:
        return None
    return Cell(bytes_text(peak) + ", compiled" * (row.row.compiled is not None), peak)


_OF_PLAN: tuple[Column[_Marked], ...] = (
    text(
        "Mesh",
        lambda row: mesh_text(row.row.plan.mesh, " ") if row.row.plan and row.row.run else None,
    ),
    text("Remat", lambda row: plan_policy(row.row.plan) if row.row.run and row.row.plan else None),
    text(
        "Bound by",
        lambda row: (
            bound_cell(row.row.step.shares_by_axis) if row.row.step and row.row.run else None
        ),
    ),
    Column(
        "Causal MFU",
        lambda row: row.row.step.mfu_causal if row.row.step and row.row.run else None,
        "{:.1%}".format,
    ),
    Column("Memory", _held),
)


def time_unit(answer: TrainingAnswer) -> tuple[str, float]:
    """Returns the unit in which the runs of an answer are shown, that of its headline, and how many of
    it are in a day.
    """
    is_short = answer.best and answer.best.run and answer.best.run.days.estimate < 1
    return ("hours", 24.0) if is_short else ("days", 1.0)


def training_table(answer: TrainingAnswer) -> Table:
    """Returns a row for each kind of chip, the best first: its best plan, days and dollars. Of kinds
    without the price that a budget needs `unpriced_words` has the names.
    """
    alike = len({row.plan.tokens for row in answer.rows if row.plan}) < 2
    rows = [_Marked(_mark(answer, row), row, _tokens(row.plan, alike)) for row in answer.ordered]
    unit, each = time_unit(answer)
    priced = [row for row in rows if row.row.refusal != NO_PRICE]
    return _sheet(capital(unit), each).table(priced, "screen")


_OF_TRADE = (  # columns of the numbers of chips of one answer
    *("On", "Chips", "Verdict", "Tokens a step", "Days", "Hours", "Range of days"),
    *("Range of hours", "Dollars", "Mesh", "Causal MFU"),
)
_ANSWER = "the answer"


def trade_table(answer: TrainingAnswer) -> Table | None:
    """Returns a row for each number of chips of `trade`: days against dollars; None without any."""
    if not (rows := answer.trade):
        return None
    alike = len({row.plan.tokens for row in rows if row.plan}) < 2
    unit, each = time_unit(answer)
    kept = {column.title: column for column in _sheet(capital(unit), each).columns}
    if len({row.kind for row in answer.rows if row.refusal != NO_PRICE}) < 2:
        del kept["On"]
    marked = [_Marked(_trade_verdict(answer, row), row, _tokens(row.plan, alike)) for row in rows]
    return Sheet(tuple(kept[title] for title in _OF_TRADE if title in kept)).table(marked, "screen")


def _trade_verdict(answer: TrainingAnswer, row: TrainingRow) -> str:
    """Returns what a number of chips is to the answer: itself, too slow, too dear, or so many times
    as long.
    """
    best = answer.best
    if row is best:
        verdict = _ANSWER
    elif best is None or best.run is None or row.run is None or not row.meets:
        verdict = _MISSES
    else:
        own, others = measure(best, "days"), measure(row, "days")
        is_apart = row.run.days.low > best.run.days.high or row.run.days.high < best.run.days.low
        long = f"{number_text(others / own)}{_BEST['days'][1]}"
        verdict = long if is_apart else f"{mark_of(own, others)}, {apart_words(own, others)}"
    return verdict + _doubt(answer, row) + _MAY_NOT_FIT * (not row.is_sure)


def training_tables(answer: TrainingAnswer) -> tuple[Table, ...]:
    """Returns the tables of an answer: the kinds of chip, unless these are one, which the trade has;
    then days against dollars, where numbers of chips are a trade.
    """
    trade, kinds = trade_table(answer), training_table(answer)
    if trade is None:
        return (kinds,)
    return (kinds, trade) if len(kinds.rows) > 1 else (trade,)


def unpriced_words(answer: TrainingAnswer) -> str:
    """Returns the kinds of chip that a budget leaves out for want of a price, in a sentence; "" of none."""
    kinds = [chip_title(row.kind) for row in answer.rows if row.refusal == NO_PRICE]
    return f"Without a price per chip-hour: {listed(kinds)}." if kinds else ""


def _tokens(plan: Plan | None, alike: bool) -> str | None:
    return step_tokens(plan).removesuffix(" tokens a step") if plan and not alike else None


CONTEXT_ROWS = Sheet[ContextRow](
    (
        count("Tokens of a sequence", lambda row: row.tokens),
        text("Attention over context", lambda row: row.kind),
        seconds("Step", lambda row: row.seconds),
        seconds("Exposed", lambda row: row.exposed_s),
        size("Memory", lambda row: row.step and row.step.memory_bytes.peak),
        text("Fits", lambda row: row.step and ("no", "yes")[row.step.fits]),
        text(
            "Mesh",
            lambda row: row.plan and mesh_text(row.plan.mesh, " "),
            "terminal",
            "document",
        ),
        text("Refused", lambda row: row.refusal),
    )
)


def context_headline(rows: Sequence[ContextRow]) -> str:
    """Returns the fastest kind that fits at each length, in a sentence; "" without rows."""
    parts = []
    for kind, alike in groupby(fastest_kinds(rows).items(), lambda each: each[1]):
        lengths = [count_text(tokens) for tokens, _ in alike]
        parts.append(f"{kind} at {' to '.join(dict.fromkeys((lengths[0], lengths[-1])))} tokens")
    return f"Fastest that fits: {', '.join(parts)}." if parts else ""
