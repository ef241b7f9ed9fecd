"""A study of training plans on Compare: every row at once by its instant estimate, then compiled
row by row; what is compiled stays.
"""

from collections.abc import Mapping, Sequence

import streamlit as st

from spmd_core.answers import points_table
from spmd_core.base import RequestError, seconds_text
from spmd_core.experiment import MAX_VARIANTS, Experiment
from spmd_core.facts import Estimate
from spmd_core.machine import get_topology
from spmd_core.results import Comparison, compare_predicted
from spmd_core.search import read_chips
from spmd_core.surveys import row_cost
from spmd_core.sweeps import SweepRow, curves, estimated, members
from spmd_core.terms import listed, money_text
from spmd_core.words import LISTED, headline_ratio
from spmd_lab.ui import links, price, state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import compiling, drafts
from spmd_lab.ui.shell import refusal
from spmd_lab.ui.state import VariantForm
from spmd_lab.ui.tables import sheet, table_frame


def ranked_rows(rows: Sequence[SweepRow]) -> tuple[SweepRow, ...]:
    """The fastest per token first; then those that do not fit, failed or cannot be."""

    def order(row: SweepRow) -> tuple[bool, float]:
        plan = row.point.experiment.plan if row.point.experiment else None
        token_s = row.numbers.step_s / plan.tokens if plan and row.numbers.step_s else None
        return not (token_s and _fits(row)), token_s or 0.0

    return tuple(sorted(rows, key=order))


def grid_headline(rows: Sequence[SweepRow], prices: Mapping[str, float]) -> str:
    """Which plan is fastest per token, which may be as fast, and the cheapest where another is.
    `prices`: dollars per chip-hour, by generation; without one for each, chip-hours are compared.
    """
    fitting = [row for row in ranked_rows(rows) if _fits(row) and row.numbers.step_s]
    # a copy that nothing was changed in yet competes with nobody
    timed = list({row.point.experiment: row for row in reversed(fitting)}.values())[::-1]
    if not timed:
        return "None of these plans has a time yet." if rows else ""
    best = timed[0]
    known = "estimated" if best.is_estimated else "compiled"
    compared = _compared(timed)
    tied = compared.tied if compared else ()
    is_what = "has the lowest time" if tied else "is the fastest"
    takes = f"{seconds_text(best.numbers.step_s)} a step, {known}"
    words = [f"{best.point.label} {is_what} per token: {takes}."]
    if tied:
        others = f"{len(tied)} others" if len(tied) > LISTED else listed(tied)
        words.append(f"{others} may be as fast: the intervals overlap.")
    elif compared and compared.ratios:
        next_ = compared.ratios[0]
        words.append(f"Next is {next_.strategy}, {headline_ratio(next_, 'as long')}.")
    if (cheapest := _cheapest(timed, prices)) is not best:
        words.append(f"{cheapest.point.label} is the cheapest: {_cost(cheapest, prices)}.")
    if 0 < (guessed := sum(row.is_estimated for row in timed)) < len(timed):
        words.append(f"{guessed} of {len(timed)} are estimates, not compiled.")
    return " ".join(words)


def _cheapest(timed: Sequence[SweepRow], prices: Mapping[str, float]) -> SweepRow:
    """By money where every row has a price, else by chip-hours."""
    costs = [row_cost(row, prices) for row in timed]
    money = [each.money_per_billion_tokens or 0.0 for each in costs]
    hours = [each.chip_hours_per_billion_tokens or 0.0 for each in costs]
    by = money if all(money) else hours
    return timed[by.index(min(by))]


def _cost(row: SweepRow, prices: Mapping[str, float]) -> str:
    spent = row_cost(row, prices)
    if spent.money_per_billion_tokens:
        return f"{money_text(spent.money_per_billion_tokens)} a billion tokens"
    return f"{spent.chip_hours_per_billion_tokens or 0:,.0f} chip-hours a billion tokens"


def _fits(row: SweepRow) -> bool:
    return row.numbers.fits and row.outcome.state not in ("too large", "does not fit", "failed")


def _compared(timed: Sequence[SweepRow]) -> Comparison | None:
    """Plans beside the fastest, per token, by the intervals of those that have one."""
    times = {}
    for row in timed:
        numbers, plan = row.numbers, row.point.experiment and row.point.experiment.plan
        if plan and numbers.low_s and numbers.step_s and numbers.high_s:
            ends = numbers.low_s, numbers.step_s, numbers.high_s
            low, middle, high = (seconds / plan.tokens for seconds in ends)
            times[row.point.label] = Estimate(low=low, estimate=middle, high=high)
    return compare_predicted(times)


SCREEN = "compare"


def is_of_plans(experiment: Experiment) -> bool:
    """Whether all variants of a study are training steps of models."""
    return bool(experiment.variants) and all(each.experiment.plan for each in experiment.members)


def show(experiment: Experiment) -> None:
    """The headline and the rows; below them other targets and prices, by which both are made."""
    points = members(experiment)
    outcomes = compiling.outcomes_of(points)
    answer = st.container()
    _times_targets(experiment)
    price.field()
    prices = price.by_kind()
    with answer:
        rows = ranked_rows(curves(points, list(map(estimated, points, outcomes))))
        st.subheader(plain(grid_headline(rows, prices)), anchor=False)
        compiling.controls(points, outcomes, lambda point: point.label, "plan")
        _table(rows, prices)
        for row in rows:
            if row.outcome.state == "failed" and row.outcome.words:
                st.caption(plain(f"{row.point.label}: {row.outcome.words}"))


def _times_targets(experiment: Experiment) -> None:
    generation = get_topology(experiment.target).chip.generation
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input(
            "Other targets",
            key="plans:targets",
            max_chars=200,
            placeholder=f"{generation}:16, {generation}:32",
            help="`v5p:64` is 64 chips, `v5e:4x4` one topology. Commas between several.",
        )
        pressed = st.button(
            "Each plan on each of these", key="plans:spread", icon=":material/grid_on:"
        )
    if not pressed:
        return
    try:
        _spread([part for part in text.split(",") if part.strip()])
    except RequestError as error:
        refusal(str(error))
        return
    st.rerun()


def _spread(words: Sequence[str]) -> None:
    """Make the study plans x targets; RequestError where a word is no target."""
    targets = [read_chips(each)[0].target for each in words]
    listed = state.variants(SCREEN)
    new: list[VariantForm] = []
    for target in targets:
        for name, form in listed:
            moved = drafts.on_target(form, target)
            if all(moved != other for _, other in new):
                new.append((None if len(targets) > 1 else name, moved))
    if new:
        state.set_variants(SCREEN, new[:MAX_VARIANTS])
        state.replace_draft(SCREEN, new[0][1])


def _table(rows: Sequence[SweepRow], prices: Mapping[str, float]) -> None:
    base = links.base_address(SCREEN)
    table = table_frame(points_table(rows, "study", prices))
    table["Open"] = [
        base + links.path(row.point.experiment, row.outcome.run, "predict") for row in rows
    ]
    st.dataframe(
        sheet(table),
        hide_index=True,
        key="plans:table",
        column_config={
            "Open": st.column_config.LinkColumn("Open", display_text="open", width="small"),
            "Plan": st.column_config.TextColumn(pinned=True),
        },
    )
