"""A study on Compare before it is run: its variants, and the last answer while fields are edited."""

from collections.abc import Sequence
from html import escape

import pandas as pd
import streamlit as st

from spmd_core.answers import strategies_table, strategy_rows
from spmd_core.base import capital, numbered
from spmd_core.experiment import Experiment, Variant
from spmd_core.facts import MOST_PROCESSES
from spmd_core.plan import Plan
from spmd_core.sheets import NONE
from spmd_core.surveys import studies
from spmd_core.terms import in_quotes, listed, marker, mesh_words, sharding_words, title, titles
from spmd_core.words import runs as words
from spmd_lab.ui import cards, choices, run_tables, state
from spmd_lab.ui.charts import colors, glimpse
from spmd_lab.ui.compare import view as views
from spmd_lab.ui.lab import find
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_table

_ROW = ".st-key-rows tr:nth-child({}) td:first-child p"  # of the table of rows
BEST = "best"  # of the choices of a strategy: each variant by its fastest


def before(experiment: Experiment, is_stored: bool) -> None:
    """What a press of Run will measure: a line for each variant."""
    if experiment.place.is_absent:
        verb = "predict"
    elif experiment.is_mixed:
        verb = "measure and predict"
    else:
        verb = "measure"
    if not is_stored:
        nothing_yet(f"{verb} {cost_words(experiment)}")
    pictures(experiment)
    draw_table(_members(experiment.members))


def cost_words(experiment: Experiment) -> str:
    """Returns how many programs a run times side by side, and about how long that takes by the last
    run of the same workload and target, where there is one.
    """
    words = f"{numbered(len(experiment.rows_once), 'program')} side by side"
    least_s = cards.usually_takes_s(experiment, lambda each: len(each.rows_once) * each.processes)
    if least_s is None or experiment.place.is_absent:
        return words
    words = f"{words}: {cards.roughly(least_s)}"
    if not experiment.takes_more:
        return words
    most_s = least_s * MOST_PROCESSES / experiment.processes
    return (
        f"{words}, up to {cards.roughly(most_s).removeprefix('about ')} while a verdict stays open"
    )


def nothing_yet(does: str) -> None:
    """Draws that there is no answer yet, and what Run does."""
    words = plain(f"Nothing has been computed yet. Press Run to {does}.")
    st.caption(f":material/play_circle: {words}")


def pictures(experiment: Experiment) -> None:
    """Draw who holds what in each variant, small, by the markers of its rows."""
    marked = {
        variant: "".join(
            f'<b style="color: {colors.css(experiment, row)}">{marker(experiment, row)}</b> '
            for row in rows
        )
        for variant, rows in colors.of_variants(experiment).items()
    }
    figures = (
        f"<figure>{glimpse.html(each.experiment)}"
        f"<figcaption>{marked[each.name]}{escape(each.name)}</figcaption></figure>"
        for each in experiment.variants
    )
    st.html(f'<div class="variants">{"".join(figures)}</div>')


def choose(experiment: Experiment, names: Sequence[str]) -> str:
    """Draws a choice of rows, each after its marker; returns the chosen, or the only one."""
    if len(names) == 1:
        return names[0]
    with st.container(key="of-rows", gap=None):
        st.html(colors.before(".st-key-of-rows button:nth-of-type({}) p", experiment, names))
        return choices.one_of("Strategy", names, choices.STRATEGY, title)


def ranked(view: views.View) -> None:
    """The table of the rows; of several strategies, a choice of the one by which the variants are
    ranked, with the answer of its rows alone.
    """
    table, offered = view.times_table, studies.strategies_shared(view.result)
    shown = view.result
    if offered:
        chosen = choices.one_of(
            "Variants by",
            [BEST, *offered],
            choices.RANKED,
            lambda name: "Variants by their best" if name == BEST else f"by {title(name)}",
        )
        if chosen != BEST:
            shown = studies.of_strategy(view.result, chosen)
            st.markdown(f"**{colors.sentence(words.headline_parts(shown)[0], shown.experiment)}**")
            table = strategies_table(shown, "study")
    names = [row.name for row in strategy_rows(shown)]
    st.html(colors.before(_ROW, view.result.experiment, names))
    draw_table(table)


def _differences(before: Experiment, now: Experiment) -> None:
    changed = run_tables.differences_table(
        [before, now], ("In the answer below", "In the fields now")
    )
    draw_table(changed)
    if not before.variants and not now.variants:
        return
    measured = {each.experiment.id for each in before.members}
    new = [each for each in now.members if each.experiment.id not in measured]
    present = {each.experiment.id for each in now.members}
    gone = [each.name for each in before.variants if each.experiment.id not in present]
    if gone and gone == [each.name for each in new]:
        st.caption(
            plain(f"{capital(listed([*map(in_quotes, gone)]))} changed since the answer below.")
        )
        return
    missing = f"{len(new)} of {len(now.members)} variants are not in the answer below"
    only_there = (
        f"; it has {listed([*map(in_quotes, gone)])}, which these fields do not" if gone else ""
    )
    st.caption(plain(f"{missing}{only_there}."))


def _members(variants: Sequence[Variant]) -> pd.DataFrame:
    frame = pd.DataFrame(
        [
            {
                "Variant": each.name,
                "Target": each.experiment.target,
                "Mesh": mesh_words(each.experiment.mesh),
                **_cells(each.experiment, each.experiment.plan),
            }
            for each in variants
        ]
    )
    rows = frame.to_dict("records")
    alike = [
        column
        for column in ("Target", "Saved", "Offloaded")
        if column in frame and len({row[column] for row in rows}) == 1
    ]
    return frame.drop(columns=alike)


def _cells(experiment: Experiment, plan: Plan | None) -> dict[str, str]:
    if plan is None:
        return {
            "Sharding": sharding_words(experiment),
            "Strategies": titles(experiment.strategies),
        }
    return {
        "Sequences per device": f"{plan.batch_per_device:g}",
        "Remat": plan.remat,
        "Saved": ", ".join(plan.save) or NONE,
        "Offloaded": ", ".join(plan.offload) or NONE,
    }


def last_answer(experiment: Experiment) -> bool:
    """The answer that the screen showed before its fields were edited, greyed, below what differs;
    False where there is none of this workload, or the fields have a stored answer of their own.
    """
    run = None if cards.stored_runs(experiment) else state.aside("compare", "edited")
    status = find(run) if run else None
    if status is None or status.experiment.workload != experiment.workload:
        return False
    shown = views.view(status.run)
    if shown is None or experiment.what.is_small_program:
        return False
    st.info(
        plain(
            f"The answer below is of the fields as they were. Run times {cost_words(experiment)}."
        ),
        icon=":material/edit:",
    )
    _differences(status.experiment, experiment)
    with st.container(key="stale"):
        st.subheader(
            colors.sentence(words.headline_parts(shown.result)[0], shown.result.experiment),
            anchor=False,
        )
        for at, (chart, alt) in enumerate(shown.times):
            st.vega_lite_chart(chart, alt=alt, key=f"stale-times:{at}")
        draw_table(shown.times_table)
    return True
