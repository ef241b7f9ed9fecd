"""The answer to the question of a training run: five figures, where the time goes, other chips."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import nearest_words
from spmd_core.answers import (
    CONTEXT_ROWS,
    Figure,
    batch_figure,
    batch_words,
    budget_words,
    context_headline,
    devices_words,
    five_figures,
    plan_policy,
    range_words,
    trade_table,
    training_headline,
    training_table,
    training_tables,
    tried_words,
    unpriced_words,
    way_words,
    ways_headline,
    ways_table,
)
from spmd_core.base import RequestError, between, bytes_text, mesh_text, seconds_text, three_digits
from spmd_core.experiment import experiment_of
from spmd_core.facts import LONGER, Prediction
from spmd_core.plan import Plan
from spmd_core.reports import Document, Paragraph, html_text
from spmd_core.search import link, question_for, read_prices
from spmd_core.sheets import Table
from spmd_core.sweeps import (
    COSTS_OVER,
    MAY_EXCEED,
    TrainingAnswer,
    TrainingCost,
    TrainingRow,
    budget_verdict,
    context_rows,
    deadline_verdict,
    training_run,
    ways_out,
)
from spmd_core.terms import chip_title, experiment_words, money_text
from spmd_core.time import estimate_step
from spmd_core.words import (
    bound_cell,
    days_text,
    deadline_text,
    fact_words,
    predictions,
    tokens_text,
)
from spmd_lab.ui import cards, exports, price, state
from spmd_lab.ui.charts import shares
from spmd_lab.ui.charts.over_context import context_chart
from spmd_lab.ui.markdown import as_sentence, plain
from spmd_lab.ui.predict import charts, question
from spmd_lab.ui.shell import draw_figures, draw_table
from spmd_lab.ui.tables import table_frame

ESTIMATE, COMPILED = "Estimate", "Compiled"
_DOUBTS = (
    *LONGER,
    "mostly attention",
    "routed by matmuls",
)  # facts of an estimate that its figures do not show
_SEEN = 0.001  # of a host's memory


def card(plan: Plan, shown: Prediction) -> DeltaGenerator:
    """Draws the answer of a plan that has a time: whether it fits, its memory, step and days, what
    they are of, and the bar of shares. Returns the row of its badge.
    """
    kind = plan.topology.chip.generation
    each = price.by_kind().get(kind)
    run = training_run(shown, plan, question.tokens(), each)
    assert run is not None
    verdict, is_kept, more = _verdict(plan, shown, run)
    answer = plain(f"{verdict}.")
    headline = answer if is_kept else f":red[{answer}]"
    row = cards.headline(headline, "Compiled" if shown.compiled else "Estimated")
    if question.chosen_words() == question.SEARCHED:
        more = " ".join(filter(None, (more, batch_words(plan, question.asked_of(plan).sequences))))
    if more:
        st.markdown(plain(more))
    for fact in [] if shown.compiled else shown.facts or ():
        if fact.kind in _DOUBTS:
            st.markdown(f":orange[{plain(as_sentence(fact_words(fact)))}]")
    where, mesh, step, time, *dollars, bound = five_figures(plan, shown, run, each)
    time = time._replace(title=f"For {tokens_text(question.tokens())}")
    mesh = mesh._replace(title=question.chosen_words(), more=f"on {where.more}")
    of = [mesh, batch_figure(plan), Figure("Remat", plan_policy(plan)), bound]
    if shown.mfu_causal and "MFU" not in bound.more:
        of.append(Figure("Causal MFU", f"{shown.mfu_causal:.1%}"))
    draw_figures([time, *dollars, step, held_figure(shown)], of)
    st.html(shares.split_bar(predictions.parts(shown), "Time of a step"))
    _held_bar(shown)
    return row


def misfit_card(plan: Plan, estimate: Prediction) -> DeltaGenerator:
    """Draws the answer of a plan that does not fit by its estimate: the first reason, its memory, and
    what that is of. Returns the row of its badge.
    """
    where, mesh, *_ = five_figures(plan, estimate, None)
    chips = f"{plan.topology.chips:,} {chip_title(plan.topology.chip.generation)}"
    row = cards.headline(f":red[{plain(f'Does not fit on {chips}.')}]", "Estimated")
    why = predictions.why_not(estimate, plan) or [f"{predictions.held_words(estimate)}."]
    st.markdown(plain(" ".join(why)))
    chosen = question.chosen_words()
    near = "Nearest to fitting" if chosen == question.SEARCHED else chosen
    mesh = mesh._replace(title=near, more=f"on {where.more}")
    of = [mesh, batch_figure(plan), Figure("Remat", plan_policy(plan))]
    draw_figures([held_figure(estimate)], of)
    _held_bar(estimate)
    return row


def _held_bar(shown: Prediction) -> None:
    if held := predictions.memory_parts(shown):
        st.html(shares.memory_bar(held, shown.memory_bytes.capacity))


def ways(plan: Plan) -> None:
    """Draws what fits near a plan that does not, and a button that opens each of these."""
    try:
        shown = ways_out(question.asked_of(plan), plan)
    except RequestError:
        shown = ()
    if not shown:
        st.markdown(f":material/lightbulb: {plain(nearest_words(plan, None))}")
        return
    st.markdown(f":material/lightbulb: **{plain(ways_headline(plan, shown))}**")
    draw_table(ways_table(shown))
    titled = [(way_words(way, plan), way.step) for way in shown]
    if why := range_words(titled):
        st.caption(plain(why))
    with _opens("ways"):
        named = [way_words(way, plan) for way in shown]
        for at, way in enumerate(shown):
            mesh = f", {mesh_text(way.plan.mesh, ' ')}" * (named.count(named[at]) > 1)
            if st.button(plain(f"{named[at]}{mesh}"), key=f"way:{at}"):
                _open(way.plan)


def find_best(plan: Plan) -> None:
    """A link to the search for the best plan of the same step, at the same price."""
    kind = plan.topology.chip.generation
    with contextlib.suppress(RequestError):  # a search knows neither every option nor every size
        asked = question_for(plan, read_prices(price.text_of([kind])))
        st.page_link(
            "pages/search.py",
            label="Find the best plan",
            icon=":material/travel_explore:",
            query_params=link.opened(asked.to_json())[1],
            width="content",
        )


def held_figure(shown: Prediction) -> Figure:
    """Returns the memory of a device as a figure, with the host's where something is there."""
    memory, room = shown.memory_bytes, shown.host_capacity_bytes
    over = f"{bytes_text(memory.missing)} too much, " * (memory.missing > 1)
    host = f", {predictions.host_words(memory.host, room)}"
    low, high = (bytes_text(shown.before_compiling.get(end)) for end in ("low", "high"))
    span = f"{between(low, high)} " * (not shown.compiled and "low" in shown.before_compiling)
    is_seen = bool(memory.host and room and memory.host > _SEEN * room)
    return Figure(
        "Memory",
        bytes_text(memory.peak) if memory.peak else "too much",
        f"{over}{span}of {bytes_text(memory.capacity)} per device{host * is_seen}",
        (memory.peak or 0) / memory.capacity,
        shown.fit,
    )


def _verdict(plan: Plan, shown: Prediction, run: TrainingCost) -> tuple[str, bool, str]:
    """Returns the headline of a plan that has a time, False where it may not fit or misses its limit,
    and what a reader has to know of the limit beside it.
    """
    chips = f"on {plan.topology.chips:,} {chip_title(plan.topology.chip.generation)}"
    by, value = question.limit()
    answer, is_kept, more = f"Fits {chips}", True, ""
    if value is not None and by == "days":
        verdict = deadline_verdict(run, value)
        answer = f"{verdict.capitalize()} {deadline_text(value)} {chips}"
        is_kept = verdict != "misses"
    elif value is not None and run.money is None:
        answer += f". Enter a price per chip-hour to see what {money_text(value)} pays for"
    elif value is not None:
        verdict = budget_verdict(run, value)
        is_kept, over = verdict != COSTS_OVER, f"{verdict.capitalize()} {money_text(value)} {chips}"
        if not is_kept:
            answer, more = over, budget_words(run, value)
        elif verdict == MAY_EXCEED:
            answer = over
        else:
            answer += f" within {money_text(value)}"
    if shown.fit == "may not fit":
        more = f"{answer} if it fits." if value is not None else ""
        answer, is_kept = f"May not fit {chips}, by the range of its memory", False
    return answer, is_kept, more


def known_by(plan: Plan, compiled: Prediction) -> None:
    """Draws the same figures for what is compiled and what is estimated."""
    estimate, each = estimate_step(plan), price.by_kind().get(plan.topology.chip.generation)
    rows = {COMPILED: compiled} | ({ESTIMATE: estimate} if estimate.is_timed else {})
    runs = [training_run(step, plan, question.tokens(), each) for step in rows.values()]
    columns = {
        "": list(rows),
        "Step": [
            seconds_text(s.predicted_s.estimate) if s.predicted_s else "–" for s in rows.values()
        ],
        "Days": [three_digits(run.days.estimate) if run else "–" for run in runs],
        "Dollars": [money_text(run.money if run else None) for run in runs],
        "Bound by": [bound_cell(step.shares_by_axis) for step in rows.values()],
        "Causal MFU": [f"{s.mfu_causal:.1%}" if s.mfu_causal else "–" for s in rows.values()],
        "Memory": [bytes_text(step.memory_bytes.peak) for step in rows.values()],
    }
    draw_filled(columns)


def draw_filled(table: Table | Mapping[str, Sequence[str]]) -> None:
    """Draws the columns of a table that have a value in some row."""
    frame = table_frame(table) if isinstance(table, Table) else pd.DataFrame(table)
    draw_table(frame.loc[:, [bool({*frame[name]} - {"–", ""}) for name in frame]])


def others(plan: Plan, compiled: Prediction | None = None) -> Callable[[str], None] | None:
    """Draws the question with other attention over `context`, then on other chips, all estimated: the
    answer, a picture, a table, a button for each; beside them what the plan `compiled` to. Returns
    what draws the button of its file, for who sends it.
    """
    _over_context(plan)
    with st.container(key="other-chips"):
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        with right:
            if not question.has_price():
                price.field(plan.topology.chip.generation)
        with left:
            answer = _compared(plan, compiled)
        if answer is None:
            return None
        _kinds(answer, plan)
        _trade(answer, plan)
        if unpriced := unpriced_words(answer):
            st.caption(plain(unpriced))
    step, name = predictions.step_estimate(estimate_step(plan)), "estimate.html"
    blocks = (Paragraph(training_headline(answer)), Paragraph(step), *training_tables(answer))
    page = Document(experiment_words(experiment_of(plan)), blocks)
    return lambda sender: exports.download(
        "HTML report", lambda: html_text(page), name, "To read.", f"{name} from {sender}"
    )


def _compared(plan: Plan, compiled: Prediction | None) -> TrainingAnswer | None:
    """Draws the headline of the comparison of chips, and what the plan compiled to; None without one."""
    kind = plan.topology.chip.generation
    try:
        with st.spinner("Comparing kinds of chip…"):
            answer = question.answer_of(plan)
    except RequestError as error:
        if not _is_unpriced(kind):  # which the card has
            st.caption(plain(as_sentence(str(error))))
        return None
    if compiled:
        rows = [replace(r, compiled=compiled) if r.plan == plan else r for r in answer.rows]
        answer = replace(answer, rows=tuple(rows))
    row = cards.headline(plain(training_headline(answer)), "Estimated")
    with cards.how_sure(row, "kinds"):
        st.caption(plain(tried_words(answer)))
    own = next((row for row in answer.rows if row.kind == kind), None)
    is_other = own and own.plan and own.run and own.plan != plan
    mine = training_run(compiled or estimate_step(plan), plan, question.tokens())
    if is_other and mine:
        takes = days_text(mine.days.estimate)
        st.caption(plain(f"The best plan of each kind. Yours on {chip_title(kind)} takes {takes}."))
    price_of = price.by_kind().get(kind)
    run = training_run(compiled, plan, question.tokens(), price_of) if compiled else None
    if compiled and run:
        name, takes = chip_title(kind), days_text(run.days.estimate)
        st.caption(plain(f"Days estimated of all, to compare. {name} compiled to {takes}."))
    return answer


def _is_unpriced(kind: str) -> bool:
    return question.has_price() and price.by_kind().get(kind) is None


def _over_context(plan: Plan) -> None:
    if not (rows := context_rows(plan)):
        return
    st.subheader(plain(context_headline(rows)), anchor=False)
    table = CONTEXT_ROWS.table(rows, "terminal")
    words = "; ".join(", ".join(cell.text for cell in row) for row in table.rows)
    st.vega_lite_chart(context_chart(rows), alt=words, key="over-context")
    with st.expander("Every kind and length", key="context-rows"):
        draw_table(table_frame(table))


def _trade(answer: TrainingAnswer, plan: Plan) -> None:
    """Draws days against dollars of numbers of chips, and a button for each plan."""
    if (table := trade_table(answer)) is None:
        return
    if not _has_kinds(answer):
        words = (", ".join(cell.text for cell in row) for row in table.rows)
        st.vega_lite_chart(charts.trade_chart(answer), alt="; ".join(words), key="trade-chart")
    draw_filled(table)
    has_kinds = "On" in table.columns
    with _opens("trade"):
        for row in answer.trade:
            if row.plan is None or row.plan == plan:
                continue
            chips = f"{row.plan.topology.chips:,}"
            name = f"{chips} {chip_title(row.kind)}" if has_kinds else chips
            if st.button(plain(name), key=f"trade:{row.plan.target}"):
                _open(row.plan)


def _has_kinds(answer: TrainingAnswer) -> bool:
    """Returns True if an answer compares kinds of chip, or has no numbers of chips to compare."""
    return training_table(answer) in training_tables(answer)


def _kinds(answer: TrainingAnswer, plan: Plan) -> None:
    """Draws the kinds of chip: a picture, a table, a button for each plan, what a reader has to know."""
    timed = [row for row in answer.ordered if row.run]
    if len(timed) > 1:
        alt = (
            f"{chip_title(row.kind)} {days_text(row.run.days.estimate)}" for row in timed if row.run
        )
        chart = charts.training_chart(answer)
        st.vega_lite_chart(chart, alt="; ".join(alt), key="other-chips-chart")
    if _has_kinds(answer):
        draw_filled(training_table(answer))
    why = range_words((chip_title(row.kind), row.step) for row in timed)
    if notes := " ".join(filter(None, (why, devices_words(answer)))):
        st.caption(plain(notes))
    if any(row.plan != plan for row in timed):
        _use(timed, plan)


def _use(timed: Sequence[TrainingRow], plan: Plan) -> None:
    with _opens("use-plan"):
        for row in timed:
            is_shown, name = row.plan == plan, plain(chip_title(row.kind))
            if st.button(name, key=f"use:{row.kind}", disabled=is_shown) and row.plan:
                _open(row.plan)


@contextlib.contextmanager
def _opens(key: str) -> Iterator[None]:
    """Draws buttons that open plans, in a row."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=key):
        st.caption("Open the plan of", width="content")
        yield


def _open(plan: Plan) -> None:
    state.set_aside(question.SCREEN, "offer", True)
    question.fill(plan)


def steps_words(plan: Plan, prediction: Prediction) -> str:
    """Returns steps, days and chip-hours of the run, in words."""
    each = price.by_kind().get(plan.topology.chip.generation)
    return predictions.run_words(prediction, plan, question.tokens(), each) or ""
