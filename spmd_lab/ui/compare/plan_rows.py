"""A study of training plans on Compare: every row at once by its instant estimate, then compiled
row by row; what is compiled stays.
"""

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import MAX_VARIANTS, Experiment
from spmd_core.machine import get_topology
from spmd_core.search import price_example, read_chips, read_prices
from spmd_core.sweeps import SweepRow, curves, estimated, members
from spmd_lab.ui import links, state
from spmd_lab.ui.compare.plan_words import grid_headline, grid_row, ranked_rows
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import compiling, drafts
from spmd_lab.ui.shell import refusal
from spmd_lab.ui.state import VariantForm
from spmd_lab.ui.tables import sheet

SCREEN = "compare"
_OPTIONAL = ("Price per billion tokens", "Causal MFU", "Chip-hours per billion tokens")


def is_of_plans(experiment: Experiment) -> bool:
    """Whether all variants of a study are training steps of models."""
    return bool(experiment.variants) and all(each.experiment.plan for each in experiment.members)


def show(experiment: Experiment) -> None:
    """The headline and the rows; below them other targets and prices, by which both are made."""
    points = members(experiment)
    outcomes = compiling.outcomes_of(points)
    answer = st.container()
    _times_targets(experiment)
    prices = _prices(experiment)
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


def _prices(experiment: Experiment) -> dict[str, float]:
    """Dollars per chip and hour of each generation; none where none is typed."""
    kinds = sorted({get_topology(e.experiment.target).chip.generation for e in experiment.members})
    text = st.text_input(
        "Price per chip-hour ($)",
        max_chars=200,
        key="plans:price",
        placeholder=price_example(kinds),
    )
    try:
        return dict(read_prices(text, kinds))
    except RequestError as error:
        refusal(str(error))
        return {}


def _table(rows: Sequence[SweepRow], prices: Mapping[str, float]) -> None:
    """A row for each plan, the fastest per token first; empty columns are left out."""
    base = links.base_address(SCREEN)
    table = pd.DataFrame(
        [
            {
                "Plan": row.point.label,
                "State": compiling.state_words(row),
                **grid_row(row, prices),
                "Open": base + links.path(row.point.experiment, row.outcome.run, "predict"),
            }
            for row in rows
        ]
    )
    empty = [name for name in _OPTIONAL if name in table and set(table[name]) <= {"–"}]
    if prices:
        empty.append("Chip-hours per billion tokens")
    table = table.drop(columns=list(dict.fromkeys(empty)))
    st.dataframe(
        sheet(table),
        hide_index=True,
        key="plans:table",
        column_config={
            "Open": st.column_config.LinkColumn("Open", display_text="open", width="small"),
            "Plan": st.column_config.TextColumn(pinned=True),
        },
    )
