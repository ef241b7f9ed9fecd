"""The answer of serving: a headline, five figures of a row, sheets of rows, of loads and of a sweep."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from spmd_core.answers.training_sheet import Figure
from spmd_core.base import (
    RequestError,
    bytes_text,
    count_text,
    even_seconds,
    mesh_text,
    number_text,
    numbered,
    seconds_text,
    span_text,
    three_digits,
)
from spmd_core.machine import CHIPS
from spmd_core.plan import ServedPlan
from spmd_core.search import (
    CurvePoint,
    ServingAnswer,
    ServingCurve,
    ServingQuestion,
    ServingRow,
    Split,
    missed,
    serve,
)
from spmd_core.sheets import (
    Cell,
    Column,
    Sheet,
    Table,
    chosen_columns,
    count,
    per_second,
    seconds,
    size,
    text,
)
from spmd_core.sweeps import ServedPoint
from spmd_core.terms import chip_title, listed, money_text
from spmd_core.time import Served, ServingLoad, engine_of, has_unit

PART_NAMES = {
    "weights": "reading weights",
    "cache": "reading cache",
    "matmul": "matmuls",
    "collectives": "collectives",
    "dispatch": "dispatch",
}
_LIMITS_KEPT = {
    "about even": "may miss",
    "misses ttft": "misses first token",
    "misses tpot": "misses time per token",
}
_MOST_REASONS = 6
_OVERLAP = "; the ranges overlap"
_PROMPTS = "prompts beside it"
_SEEN = 0.005  # of a step: a shorter part is not named
_MOST_WAITING = 3  # named of those whose requests wait
_MOST_ANSWERED = 4  # numbers of requests at once whose own answers are looked at
_OFFERED = 1.02  # of the tokens of an offer: what twice the chips have to make more
_TOKENS = "Tokens/s per chip"
_BEATS = 1.01  # of the tokens of a row: more than an even point


def serving_headline(answer: ServingAnswer, is_figured: bool = False) -> str:
    """Returns the answer in one sentence; `is_figured`: its output is a figure beside it."""
    question, best = answer.question, answer.best
    if best is None:
        return _not_kept(answer)
    named = _on(best)
    assert best.served is not None
    takes, cost = _takes(question, best.served), best.per_million()
    if cost is not None and not best.even:
        takes += f", {money_text(cost)} a million"
    if not within_words(question):
        each = "dollar" if question.price else "chip"
        all_run = f"where all {question.load.concurrency:,} run" * bool(waiting_rival(answer))
        if is_figured:
            return f"{named}: most tokens per {each} {all_run or load_words(question.load)}."
        return f"{named}: {served_output(best)}, the most {all_run or f'per {each}'}."
    if best.even:
        return f"{named} may keep {within_words(question)}: {takes}."
    least = "Cheapest" if question.price else "Fewest chips"
    return f"{least} within {within_words(question)}: {named}: {takes}."


def serving_rivals(answer: ServingAnswer) -> Sequence[ServingRow]:
    """Returns the other rows that may make as many tokens per chip as the best, by their ranges; of a
    question without limits.
    """
    lead = answer.best
    if lead is None or lead.served is None or within_words(answer.question):
        return ()
    return [row for row in _reaching(answer, lead) if row.keeps]


def waiting_rival(answer: ServingAnswer) -> ServingRow | None:
    """Returns the row that makes the most tokens per chip while requests wait, where that is more than
    the best makes, which holds all; None with limits or a rate, which no such row keeps.
    """
    best, question = answer.best, answer.question
    if best is None or within_words(question) or question.load.rate:
        return None
    return max(_more_while_waiting(answer, best), key=lambda row: row.per_chip, default=None)


def _more_while_waiting(answer: ServingAnswer, best: ServingRow) -> list[ServingRow]:
    """Returns the rows that make more tokens per chip than the best while requests wait."""
    more = [row for row in answer.rows if row.per_chip > _BEATS * best.per_chip]
    return [row for row in more if row.served and row.served.waiting]


def waiting_table(answer: ServingAnswer) -> Table | None:
    """Returns the lead, then the rows that pass it the longer requests wait for their first token: in
    tokens per chip; in time, where the lead misses its limits. None where no row does.
    """
    lead, rows = answer.lead, []
    for row in sorted(_passing_while_waiting(answer), key=_first_token_s):
        if not rows or _passes(answer, row, rows[-1]):
            rows.append(row)
    if lead is None or not rows:
        return None
    marked = [_Marked("the answer" if answer.best else "nearest", lead)]
    marked += [_Marked("", row) for row in rows]
    on = "On" if len({each.row.plan.target for each in marked}) > 1 else ""
    names = {on, "Mesh", _TOKENS, "Time per token", "First token, mean", "Wait"}
    gained = {_TOKENS: _gained(lead)} if answer.best else {}
    columns = (gained.get(each.title, each) for each in _ROWS.columns if each.title in names)
    return Sheet(tuple(columns)).table(marked, "screen")


def _gained(lead: ServingRow) -> "Column[_Marked]":
    """Returns the column of tokens with what each row makes more than the lead."""

    def cell(each: _Marked) -> Cell:
        more = f", {each.row.per_chip / lead.per_chip - 1:+.0%}" * (each.row is not lead)
        return Cell(f"{three_digits(each.row.per_chip)}{more}", each.row.per_chip)

    return Column(_TOKENS, cell)


def serving_open_words(answer: ServingAnswer) -> str:
    """Returns that others could be the best by their ranges, the first of them by name; "" of none."""
    first, *more = serving_rivals(answer) or (None,)
    if first is None:
        return ""
    others = f" or {numbered(len(more), 'other')}" * bool(more)
    return f"Not settled: {_on(first)}{others} could win"


def waiting_title(answer: ServingAnswer) -> str:
    """Returns what rows of `waiting_table` have more of than the lead."""
    more = "More tokens per chip" if answer.best else "Nearer to the limits"
    return f"{more} while requests wait"


def _passing_while_waiting(answer: ServingAnswer) -> list[ServingRow]:
    lead = answer.lead
    if answer.best:
        return _more_while_waiting(answer, answer.best) if waiting_rival(answer) else []
    if lead is None or lead.served is None or lead.served.waiting or answer.question.load.rate:
        return []
    waiting = [row for row in answer.rows if row.served and row.served.waiting]
    return [row for row in waiting if _passes(answer, row, lead)]


def _passes(answer: ServingAnswer, row: ServingRow, other: ServingRow) -> bool:
    """Returns True if a row makes more tokens per chip than another; of a lead that misses its limits,
    if it misses them by less and makes as many.
    """
    if answer.best:
        return row.per_chip > _BEATS * other.per_chip
    is_nearer = _BEATS * missed(answer.question, row)[1] < missed(answer.question, other)[1]
    return is_nearer and answer.lead is not None and row.per_chip >= answer.lead.per_chip


def _first_token_s(row: ServingRow) -> float:
    return row.served.ttft_s if row.served else 0.0


def beside_words(answer: ServingAnswer) -> str:
    """Returns what makes more tokens per chip than the best, in a sentence: with requests that wait, or
    without the limits; "" where nothing does.
    """
    best, row = answer.best, waiting_rival(answer)
    if best is None or row is None or row.served is None:
        return _limits_cost(answer)
    more = f"{row.per_chip / best.per_chip - 1:.0%} more"
    wait = f"{row.served.waiting:,} of {answer.question.load.concurrency:,} wait"
    takes = (
        f"{seconds_text(row.served.tpot_s)}/token, {seconds_text(row.served.ttft_s)} to the first"
    )
    return f"{_on(row)}: {more} while {wait}: {takes}."


def _limits_cost(answer: ServingAnswer) -> str:
    """What the limits cost: the most tokens per chip of a row that misses them and holds all requests."""
    best, question = answer.best, answer.question
    late = [row for row in answer.rows if row.served and not (row.keeps or row.served.waiting)]
    if best is None or question.load.rate or not late:
        return ""
    row = max(late, key=lambda row: row.per_chip)
    assert row.served is not None
    if row.per_chip <= _BEATS * best.per_chip:
        return ""
    less = f"costs {1 - best.per_chip / row.per_chip:.0%} of the tokens per chip"
    makes = f"{number_text(row.per_chip)} tokens/s, {_takes(question, row.served)}"
    return f"Keeping {within_words(question)} {less}: {_on(row)} makes {makes}."


def _reaching(answer: ServingAnswer, lead: ServingRow) -> Iterator[ServingRow]:
    """Yields the other rows whose range of tokens per chip reaches that of the best."""
    load = answer.question.load
    low = made_span(lead, load)[0]
    for row in answer.rows:
        if row is not lead and row.served is not None and made_span(row, load)[1] >= low:
            yield row


def made_span(row: ServingRow, load: ServingLoad) -> tuple[float, float]:
    """Returns the interval of the tokens that a chip makes a second; both ends alike where a rate of
    arrivals bounds them.
    """
    times = (row.served.output_times(load) if row.served else ()) or (1.0, 1.0)
    return times[0] * row.per_chip, times[-1] * row.per_chip


def serving_sure(answer: ServingAnswer) -> Iterator[str]:
    """Yields how sure the best is: who else could win, and how requests come, a sentence each."""
    lead, load = answer.lead, answer.question.load
    if lead is None or lead.served is None:
        return
    for row in serving_rivals(answer):
        assert row.served is not None
        span = (number_text(row.per_chip * times) for times in row.served.output_times(load))
        made = " to ".join(span) or number_text(row.per_chip)
        yield f"{_on(row)} could win: {made} tokens/s per chip."
    if not within_words(answer.question):
        beside = waiting_rival(answer)
        waiting = [row for row in _reaching(answer, lead) if row.served and row.served.waiting]
        waiting = [row for row in waiting if row is not beside]
        for row in waiting[:_MOST_WAITING]:
            assert row.served is not None
            wait = numbered(row.served.waiting, "request")
            yield f"{_on(row)} is not counted, though its range reaches it: {wait} would wait."
    come = "by chance" if load.rate else "as others end"
    within = seconds_text(lead.served.ttft_p99_s)
    yield f"Requests arrive {come}: 99% have their first token within {within}."


def load_words(load: ServingLoad) -> str:
    """Returns how requests come: `with 64 requests at once`, `at 8 requests a second`."""
    come = f"{numbered(load.rate, 'request')} a second" if load.rate else ""
    return f"at {come}" if come else f"with {numbered(load.concurrency, 'request')} at once"


def _not_kept(answer: ServingAnswer) -> str:
    near = answer.nearest
    if near is None or near.served is None:
        return _not_held(answer)
    named = _on(near)
    takes, rate = _takes(answer.question, near.served), answer.question.load.rate
    if near.served.waiting and rate:
        return (
            f"Nothing keeps up with {numbered(rate, 'request')} a second: nearest {named}, {takes}."
        )
    if near.served.waiting:
        held, wait = near.served.running, near.served.waiting
        return f"The cache of {named} holds {numbered(held, 'request')}: {wait:,} wait, {takes}."
    return f"Nothing keeps {within_words(answer.question)}: nearest {named}: {takes}."


def _not_held(answer: ServingAnswer) -> str:
    row = answer.emptiest
    fix = ["more chips"] if answer.would_fit_on_more() else []
    if narrower := answer.narrower():
        fix.append(f"weights in {listed(narrower, 'or')}")
    what, pool = "one request of these lengths", row.pool if row else None
    if row and pool and pool.cache <= 0:
        held, room = bytes_text(pool.weights), bytes_text(max(0.0, pool.weights + pool.cache))
        what = f"the {row.plan.weights_dtype} weights, {held} a device, in {room} of its "
        what += bytes_text(pool.capacity)
    elif len(fix) == 1:
        fix.append("shorter requests")
    return f"Nothing here holds {what}: use {listed(fix or ['other chips'], 'or')}."


def _takes(question: ServingQuestion, served: Served) -> str:
    """The time of a token; of the first one where that is missed by more, or all that there is."""
    first, each = f"{seconds_text(served.ttft_s)} first", f"{seconds_text(served.tpot_s)}/token"
    if question.load.output.high == 1:
        return first
    if not (question.ttft_s and question.tpot_s):
        return first if question.ttft_s else each
    late = served.ttft_s / question.ttft_s, served.tpot_s / question.tpot_s
    return first if late[0] > max(1, late[1]) else each


def within_words(question: ServingQuestion) -> str:
    """Returns the limits of a question: `2 s first, 40 ms each`; "" without any."""
    limits = ((question.ttft_s, "first"), (question.tpot_s, "each"))
    return ", ".join(f"{seconds_text(limit)} {what}" for limit, what in limits if limit)


def chosen_for(answer: ServingAnswer) -> Figure:
    """Returns by what the rows are ranked, and within which limits."""
    question, within = answer.question, within_words(answer.question)
    if answer.best is None and within:
        return Figure("Ranked by", "nearest to the limits", f"none is within {within}")
    spent = ("fewest chips", "cheapest")[bool(question.price)]
    most = f"tokens per {'dollar' if question.price else 'chip'}"
    return Figure(
        "Ranked by", spent if within else most, f"within {within}" if within else "no latency limit"
    )


def better_point(
    answer: ServingAnswer,
    curves: Sequence[ServingCurve],
    answered: Callable[[ServingQuestion], ServingAnswer] = serve,
) -> CurvePoint | None:
    """Returns the number of requests at once whose own answer has most tokens per chip of those that
    beat the lead, the fewest chips where several have as many: within the limits, or without limits
    for users as fast; of a lead that misses the limits, of those that keep them. Else the point with
    most of the curves that do; None where none does.
    """
    question, lead = answer.question, answer.lead
    assert lead is not None
    is_limited = bool(question.tpot_s or question.ttft_s)

    def beats(row: ServingRow | None) -> bool:
        if row is None or answer.best is None:
            return row is not None and row.keeps
        if row.per_chip <= _BEATS * lead.per_chip:
            return False
        return row.keeps if is_limited else row.speed >= lead.speed

    better: list[CurvePoint] = []
    ahead = [point for curve in curves for point in curve.points if beats(point.row)]
    top = max((point.row.per_chip for point in ahead), default=0.0)
    ahead.sort(key=lambda at: (at.row.per_chip * _OFFERED < top, at.row.chips, -at.row.per_chip))
    # half as many on half the chips make as much per chip, where curves have no such point
    tried = dict.fromkeys(many for at in ahead for many in (at.concurrency // 2, at.concurrency))
    for at_once in [*filter(None, tried)][:_MOST_ANSWERED]:
        load = replace(question.load, concurrency=at_once, rate=None, requests=None)
        with suppress(RequestError):  # more than is simulated
            row = answered(replace(question, load=load)).lead
            better += [CurvePoint(at_once, row)] if row and beats(row) else []
    points = better or ahead
    most = max((point.row.per_chip for point in points), default=0.0)
    alike = [point for point in points if _OFFERED * point.row.per_chip >= most]
    return min(alike, key=lambda point: (point.row.chips, -point.row.per_chip), default=None)


def beaten_words(
    answer: ServingAnswer,
    most: CurvePoint | None,
    front: Sequence[tuple[ServingCurve, CurvePoint]] = (),
) -> str:
    """Returns how much the better point beats the lead by, in a sentence; where there is none, that, and
    which point of the frontier misses the limits by least.
    """
    lead, limit = answer.lead, answer.question.tpot_s
    assert lead is not None
    if most is None and not (lead.keeps or lead.even):
        return f"No point on these curves keeps the limits{_nearest_words(answer, front)}."
    if most and answer.best is None:
        assert most.row.served
        within = within_words(answer.question)
        takes = f"{_takes(answer.question, most.row.served)}, {served_output(most.row)}"
        keeps = f"keeps {within}" if within else "runs all"
        return f"With {most.concurrency:,} at once, {_on(most.row)} {keeps}: {takes}."
    if most is None:
        how = "within the limits" if limit or answer.question.ttft_s else "in both"
        of = "Of those that run all, nothing" if waiting_rival(answer) else "Nothing"
        return f"{of} on these curves beats {_on(lead)} {how}."
    is_even = _is_even(lead, most.row, answer.question.load)
    ratio, faster = most.row.per_chip / lead.per_chip, most.row.speed / lead.speed - 1
    more = f"{ratio - 1:.0%} more" if ratio < 2 else f"{ratio:.2g} times the"
    speed = f"{abs(faster):.0%} {'faster' if faster >= 0 else 'slower'}"
    unsure = f" It may miss {seconds_text(limit)}." if limit and most.row.even else ""
    made = f"{more} tokens per chip, and each user is {speed}{_OVERLAP * is_even}.{unsure}"
    serves = "may serve" if is_even else "serves"
    return f"With {most.concurrency:,} at once, {_on(most.row)} {serves} {made}"


def _nearest_words(answer: ServingAnswer, front: Sequence[tuple[ServingCurve, CurvePoint]]) -> str:
    point = min(
        (point for _, point in front),
        key=lambda point: missed(answer.question, point.row),
        default=None,
    )
    if point is None or point.row.served is None:
        return ""
    takes = _takes(answer.question, point.row.served)
    return f": nearest with {point.concurrency:,} at once, {_on(point.row)}, {takes}"


def _is_even(lead: ServingRow, other: ServingRow, load: ServingLoad) -> bool:
    """Returns True if neither the tokens of a chip nor the speed of a user differ by more than their
    ranges allow.
    """
    assert lead.served and other.served
    return (
        made_span(lead, load)[1] >= made_span(other, load)[0]
        and lead.served.tpot.low <= other.served.tpot.high
        and other.served.tpot.low <= lead.served.tpot.high
    )


def served_chips(plan: ServedPlan) -> str:
    """Returns how many chips of which kind: `4 v6e`."""
    return f"{plan.topology.chips:,} {chip_title(plan.topology.chip.generation)}"


def _on(row: ServingRow) -> str:
    return f"{served_chips(row.plan)}, {served_mesh(row)}"


def served_mesh(row: ServingRow) -> str:
    """Returns the mesh of a replica, and how many there are."""
    return _replicas_text(row.plan)


def _replicas_text(plan: ServedPlan) -> str:
    times = f"{plan.replicas} × " if plan.replicas > 1 else ""
    return times + mesh_text(plan.mesh, " ")


def limits_kept(row: ServingRow) -> str:
    """Returns how a row meets the limits, as tables have it."""
    return _LIMITS_KEPT.get(row.verdict, row.verdict)


def copies_figure(plan: ServedPlan) -> Figure:
    """Returns over how many chips of a mesh one copy of the weights is sharded, and the copies; with
    `data` attention is sharded over `tensor` alone.
    """
    if plan.along("data") > 1:
        copies = numbered(plan.replicas, "copy")
        alone = f"attention over {plan.along('tensor')}, {copies}"
        return Figure("Weights", f"mlp over {numbered(plan.devices, 'chip')}", alone)
    over = f"sharded over {numbered(plan.devices, 'chip')}" if plan.devices > 1 else "on each chip"
    return Figure("Weights", over, f"{numbered(plan.replicas, 'copy')}")


def copies_words(answer: ServingAnswer) -> str:
    """Returns how meshes of several copies of the weights read, in a sentence; "" of none."""
    copied = next((row for row in answer.rows if row.served and row.plan.replicas > 1), None)
    if copied is None:
        return ""
    plan = copied.plan
    each = (
        f"{plan.replicas} copies of the weights, each sharded over {numbered(plan.devices, 'chip')}"
    )
    return f"{served_mesh(copied)}: {each}. data=… shards one copy over data too."


def served_output(row: ServingRow) -> str:
    """Returns the output tokens of a chip, and with a price what a million of them cost."""
    cost, made = row.per_million(), f"{number_text(row.per_chip)} tokens/s per chip"
    return made if cost is None else f"{made}, {money_text(cost)} a million"


def serving_figures(row: ServingRow, load: ServingLoad) -> tuple[Figure, ...]:
    """Returns chips, mesh, speed, throughput with its interval and price, and what binds."""
    served, plan = row.served, row.plan
    assert served is not None
    interval, dtypes = served.tpot, f"weights {plan.weights_dtype}, cache {plan.kv_dtype}"
    span = span_text(interval.low, interval.high)
    cost = row.per_million()
    paid = f"{money_text(cost)} a million" if cost is not None else ""
    made = " to ".join(number_text(row.per_chip * times) for times in served.output_times(load))
    return (
        Figure("Chips", count_text(row.chips), plan.topology.name.removeprefix("gpu:")),
        Figure("Mesh", served_mesh(row), dtypes),
        Figure("Time per token", seconds_text(served.tpot_s), span),
        Figure(
            "Tokens/s per chip", number_text(row.per_chip), "; ".join(filter(None, (made, paid)))
        ),
        step_figure(served),
    )


def step_figure(served: Served) -> Figure:
    """Returns the seconds of a decode step, and those of its parts, which add up to it."""
    seen = token_parts(served)
    more = seen.pop(_PROMPTS, 0.0)
    beside = f"; {_PROMPTS} add {seconds_text(more)} a token" if more else ""
    parts = listed([f"{name} {seconds_text(each)}" for name, each in seen.items()])
    return Figure("Decode step", seconds_text(served.step.seconds), f"{parts}{beside}")


def token_parts(served: Served) -> dict[str, float]:
    """Returns the seconds of an output token by what takes them, the longest part of a decode step
    first and the prompts that run beside it last.
    """
    step, more = served.step, served.tpot_s - served.step.seconds
    named = {PART_NAMES[name]: each for name, each in step.parts.items()}
    seen = [each for each in named.items() if each[1] >= _SEEN * step.seconds]
    return dict(sorted(seen, key=lambda each: -each[1])) | ({_PROMPTS: more} if more > 0 else {})


_IF_MIXED = ("Limits", "Wait", "Weights", "Cache")  # columns that are shown where rows differ
_MORE_ROWS = 3


class _Marked(NamedTuple):
    """A row with its mark: the best of an answer, or the nearest."""

    mark: str
    row: ServingRow


_ROWS: Sheet[_Marked] = Sheet(
    (
        text("On", lambda each: each.row.plan.topology.name.removeprefix("gpu:")),
        text("Mesh", lambda each: ", ".join(filter(None, (served_mesh(each.row), each.mark)))),
        text("Limits", lambda each: limits_kept(each.row)),
        seconds("Time per token", lambda each: each.row.served and each.row.served.tpot_s),
        seconds("First token, mean", lambda each: each.row.served and each.row.served.ttft_s),
        seconds("99% within", lambda each: each.row.served and each.row.served.ttft_p99_s),
        per_second(_TOKENS, lambda each: each.row.per_chip or None),
        Column("$ a million", lambda each: each.row.per_million(), money_text),
        count("Pool, tokens", lambda each: each.row.pool and each.row.pool.tokens),
        count("Wait", lambda each: each.row.served and each.row.served.waiting),
        text("Bound by", lambda each: each.row.served and PART_NAMES[each.row.served.step.binds]),
        seconds("Program's step", lambda each: each.row.compiled and each.row.compiled.seconds),
        seconds("Its estimate", lambda each: each.row.compiled and each.row.compiled.estimate),
        text("Weights", lambda each: each.row.plan.weights_dtype),
        text("Cache", lambda each: each.row.plan.kv_dtype),
    )
)


def serving_table(answer: ServingAnswer, most: int) -> Table:
    """Returns so many rows, the best first, and of the others those that make the most tokens, which
    miss a limit or let requests wait; without columns that are the same in each.
    """
    lead, mark = answer.lead, "best" if answer.best else "nearest"
    first, rest = answer.rows[:most], answer.rows[most:]
    fast = sorted(rest, key=lambda row: -(row.per_chip or 0.0))[:_MORE_ROWS]
    least = min((row.per_chip or 0.0 for row in first), default=0.0)
    rows = [*first, *(row for row in fast if (row.per_chip or 0.0) > least)]
    table = _ROWS.table((_Marked(mark if row is lead else "", row) for row in rows), "screen")
    return table if len(rows) < 2 else _mixed(table, answer.question)


def _mixed(table: Table, question: ServingQuestion, left_out: Sequence[str] = ()) -> Table:
    """The table without columns that are the same in each row, the limits of a question that has
    none, and those `left_out`.
    """
    known = [name for name in _IF_MIXED if name in table.columns]
    same = {name for name in known if len({cell.text for cell in table.column(name)}) == 1}
    same.update(left_out, () if within_words(question) else ("Limits",))
    return chosen_columns(table, [name for name in table.columns if name not in same])


_Loaded = tuple[ServingLoad, ServingRow]


SERVING_LOADS: Sheet[_Loaded] = Sheet(
    (
        text("Prompt, output", lambda each: f"{each[0].input.text}, {each[0].output.text}"),
        count("Concurrency", lambda each: each[0].concurrency),
        text(
            "Best sharding",
            lambda each: served_mesh(each[1]) if each[1].served else each[1].verdict,
        ),
        seconds("Time per token", lambda each: each[1].served and each[1].served.tpot_s),
        per_second("Tokens/s per chip", lambda each: each[1].per_chip or None),
        count("Wait", lambda each: each[1].served and (each[1].served.waiting or None)),
        text("Bound by", lambda each: each[1].served and PART_NAMES[each[1].served.step.binds]),
    )
)


def _of_lead(column: Column[_Marked]) -> Column[ServedPoint]:
    of = column.of
    return Column(
        column.title, lambda at: of(_Marked("", at.lead)) if at.lead else None, column.form
    )


_SERVED_POINTS: Sheet[ServedPoint] = Sheet(
    (
        text("Value", lambda each: each.value),
        *(_of_lead(column) for column in _ROWS.columns if column.title),
        text("Why not", lambda each: each.refusal),
    )
)


def served_points_table(points: Sequence[ServedPoint], question: ServingQuestion) -> Table:
    """Returns the best of each value, without columns that are the same in each: a compiled step is
    of one number of requests, and stands in the rows of its answer alone.
    """
    limited = next(
        (e.answer.question for e in points if e.answer and within_words(e.answer.question)),
        question,
    )
    table = _SERVED_POINTS.table(points, "screen")
    return _mixed(table, limited, ("Program's step", "Its estimate"))


def served_points_headline(points: Sequence[ServedPoint]) -> str:
    """Returns from which value on another sharding is best."""
    best = [
        (each.value, _on(each.answer.best)) for each in points if each.answer and each.answer.best
    ]
    parts = [
        (name, [value for value, _ in values]) for name, values in groupby(best, itemgetter(1))
    ]
    if not parts:
        return "Nothing keeps the limits at any of these values."
    if len(parts) == 1 and len(best) == len(points):
        return f"Best at each of these values: {parts[0][0]}.{_open_values(points)}"
    spans = (
        f"{name} at {values[0]}" + f" to {values[-1]}" * (len(values) > 1) for name, values in parts
    )
    return f"Best: {'; '.join(spans)}.{_open_values(points)}"


def _open_values(points: Sequence[ServedPoint]) -> str:
    """At which values the ranges of others reach that of the best."""
    unsure = [each.value for each in points if each.answer and serving_rivals(each.answer)]
    if not unsure:
        return ""
    every = "any of these" if len(unsure) == len(points) > 1 else listed(unsure)
    return f" Not settled at {every}: the ranges of others overlap."


SPLITS: Sheet[Split] = Sheet(
    (
        text("Prompts on", lambda each: each.prefill.topology.name.removeprefix("gpu:")),
        text("Mesh", lambda each: _replicas_text(each.prefill)),
        Column("Idle", lambda each: each.prefill_idle, "{:.0%}".format),
        text("Decode on", lambda each: each.decode.topology.name.removeprefix("gpu:")),
        text("Its mesh", lambda each: _replicas_text(each.decode)),
        Column("Its idle", lambda each: each.decode_idle, "{:.0%}".format),
        seconds("Time per token", lambda each: each.tpot_s),
        seconds("First token", lambda each: each.ttft_s),
        per_second("Tokens/s per chip", lambda each: each.tokens_per_s_per_chip),
        size("Cache passed", lambda each: int(each.passed_bytes)),
        seconds("In", lambda each: each.passed_s),
    )
)


_EVEN = 0.1  # of tokens a chip: nothing queues in the estimate of a split


def apart_headline(answer: ServingAnswer, splits: Sequence[Split]) -> str:
    """Returns the best split of the chips beside the best mesh of all, in a sentence."""
    if not splits:
        return "No two sizes of these chips serve the model apart: name a range, such as v6e:..16."
    first, together = splits[0], answer.best
    sides = (
        f"{served_chips(each)}, {_replicas_text(each)}" for each in (first.prefill, first.decode)
    )
    named = "prompts on {}; decode on {}".format(*sides)
    if not first.keeps:
        takes = f"{seconds_text(first.ttft_s)} first, {seconds_text(first.tpot_s)} a token"
        return f"No split keeps {within_words(answer.question)}: nearest has {named}: {takes}."
    made = f"{number_text(first.tokens_per_s_per_chip)} tokens/s per chip"
    if together is None or answer.question.load.rate:
        return f"Apart the limits are kept: {named}: {made}."
    more = first.tokens_per_s_per_chip / together.per_chip - 1
    than = (
        "about as many"
        if abs(more) < _EVEN
        else f"{abs(more):.0%} {'more' if more > 0 else 'fewer'}"
    )
    return f"Apart {than} tokens a chip: {named}: {made}."


def serving_assumptions(row: ServingRow) -> tuple[str, ...]:
    """Returns which engine the times of a row are of, and what they leave out, a sentence each."""
    served, engine = row.served, engine_of(row.plan)
    pages = f"A paged engine such as {engine.name}: pages of {engine.page} tokens, the pool in"
    step = (
        f" and a step of at most {engine.sequences:,} requests, "
        f"{bytes_text(round(engine.step_bytes))}"
    ) * bool(engine.step_bytes)
    lines = [f"{pages} {engine.pool_share:.0%} of the memory beside the weights{step}."]
    if served is not None:
        step, more = served.step, served.tpot_s - served.step.seconds
        beside = f", which is {seconds_text(more)} more a token" * (more > 0)
        lines += [
            f"Prompts run in chunks of {served.chunk:,} tokens, beside the requests that decode{beside}.",
            *_reading(row, served),
        ]
        if not row.plan.topology.chip.is_gpu:
            lines.append("Each sequence and each page of the cache begins with a delay of its own.")
    if row.compiled:
        lines.append(
            "The compiled step is XLA's program beside a contiguous cache. The engine's steps count "
            "as many times as long as estimated."
        )
    return (
        *lines,
        "Tokenizing, the network, shared prefixes and a draft model's time are left out.",
        "A mesh shards the weights over data times tensor; 2 × is two replicas, each with all of them.",
        "Only published runs judge these times: on v6e and TPU7x.",
    )


def _reading(row: ServingRow, served: Served) -> Iterator[str]:
    """Yields for each part that reads memory its bytes, their time at the peak rate, and its own."""
    rate, step = row.plan.topology.chip.device_hbm_bandwidth, served.step
    for name, nbytes in step.read.items():
        least, part = nbytes / rate, step.parts[name]
        if least and part:
            yield (
                f"{PART_NAMES[name].capitalize()} takes {seconds_text(part)} of a decode step: "
                f"{bytes_text(round(nbytes))} at {rate / 1e9:,.0f} GB/s take {seconds_text(least)}, "
                f"{least / part:.0%} of that rate is expected."
            )


def why_not_served(answer: ServingAnswer) -> tuple[str, ...]:
    """Returns why other meshes on the chips of the best row are not it, a sentence each."""
    lead = answer.lead
    if lead is None or lead.served is None:
        return ()
    alike = (lead.plan.target, lead.plan.weights_dtype, lead.plan.kv_dtype)
    others = [
        row
        for row in answer.rows
        if row is not lead and (row.plan.target, row.plan.weights_dtype, row.plan.kv_dtype) == alike
    ]
    others.sort(key=lambda row: row.plan.repeats <= lead.plan.repeats)  # of each kind by rank
    reasons = ((row, "; ".join(_reasons(lead, row))) for row in others)
    named = [f"{served_mesh(row)} {why}." for row, why in reasons if why]
    lost = (f"{CHIPS[kind].title} is left out: {why}." for kind, why in left_out(answer))
    return tuple([*lost, *named][:_MOST_REASONS])


def engine_words(answer: ServingAnswer) -> str:
    """Returns what a compiled step did to the times of the best row; "" where it is not compiled."""
    lead = answer.lead
    if lead is None or lead.served is None or not (step := lead.compiled):
        return ""
    times = f"{step.seconds / step.estimate:.2f}"
    return f"Compiled, a decode step takes {times} times its estimate; the time per token has it."


def _compiled_step(each: _Marked) -> str:
    step = each.row.compiled
    assert step is not None
    if step.fits:
        return even_seconds(step.seconds)
    return f"does not fit: takes {bytes_text(step.peak or 0)}"


def compiled_table(answer: ServingAnswer) -> Table | None:
    """Returns each compiled decode step beside its estimate, the best row first; None of none."""
    on, mesh = _ROWS.columns[:2]
    estimate = seconds(
        "Its estimate", lambda each: each.row.compiled and each.row.compiled.estimate
    )
    steps = Sheet((on, mesh, text("Compiled decode step", _compiled_step), estimate))
    rows = [_Marked("", row) for row in answer.rows if row.compiled]
    return steps.table(rows, "screen") if rows else None


def left_out(answer: ServingAnswer) -> Iterator[tuple[str, str]]:
    """Yields the kinds of chips of a question that have no row, and why."""
    question = answer.question
    tried = {row.plan.topology.chip.generation for row in answer.rows}
    for chip in dict.fromkeys(each.chip for each in question.topologies):
        if chip.generation in tried:
            continue
        lacks = [
            each
            for each in dict.fromkeys((*question.weights_dtypes, *question.kv_dtypes))
            if not has_unit(chip, each)
        ]
        why = f"it has no unit for {', '.join(lacks)}" if lacks else "no mesh of it divides"
        yield chip.generation, why


def _reasons(lead: ServingRow, row: ServingRow) -> Iterator[str]:
    """What a row has worse than the best, as parts of a sentence."""
    pool, best = row.pool, lead.pool
    assert pool and best and lead.served
    if row.compiled and not row.compiled.fits:
        yield f"{row.verdict}: its compiled decode step takes {bytes_text(row.compiled.peak or 0)}"
        return
    if row.served is None:
        weights, room = bytes_text(pool.weights), bytes_text(pool.weights + pool.cache)
        yield f"{row.verdict}: weights take {weights} of the {room} for them and the cache"
        return
    if row.plan.repeats > lead.plan.repeats:
        heads = (
            "the latent cache" if row.plan.size.kv_rank else f"{row.plan.size.kv_heads} key heads"
        )
        yield f"repeats {heads}: the pool holds {pool.tokens / best.tokens:.2g} times the tokens"
    elif pool.tokens < 0.9 * best.tokens:
        yield f"holds {pool.tokens / best.tokens:.0%} of the pool's tokens"
    if row.served.waiting:
        yield f"makes {row.served.waiting:,} requests wait"
    if not row.keeps and not row.served.waiting:
        yield row.verdict
    less = 1 - row.per_chip / lead.per_chip
    if less >= 0.005:
        per_token = [
            {
                name: each * one.chips / one.served.running
                for name, each in one.served.step.parts.items()
            }
            for one in (row, lead)
            if one.served
        ]
        most = PART_NAMES[
            max(per_token[0], key=lambda name: per_token[0][name] - per_token[1][name])
        ]
        yield f"makes {less:.0%} fewer tokens, most by {most}"
