"""Two to four stored runs side by side: their answers, their times in one chart, and what differs."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.recipes import differences_of
from spmd_core.results import Result, RunSummary
from spmd_core.words import ago, experiment_words, run_headline
from ui import price, run_tables
from ui.charts import by_strategy
from ui.lab import lab
from ui.markdown import plain
from ui.tables import draw_table

FEWEST, MOST = 2, len(run_tables.NAMES)


def draw(runs: Sequence[RunSummary]) -> None:
    """The runs as cards, named A to D; then what they took; then the experiments."""
    st.subheader("Side by side", anchor=False)
    results = []
    with st.container(key="side-by-side"):
        for name, column, run in zip(run_tables.NAMES, st.columns(len(runs)), runs, strict=False):
            with column.container(border=True, height="stretch"):
                if result := _card(name, run):
                    results.append((name, result))
    _times(results)
    differences = run_tables.differences_table([run.experiment for run in runs])
    if len(differences):
        st.markdown("**What differs in the experiments**")
        draw_table(differences)
    else:
        st.caption("All of these runs are of the same experiment.")


def _card(name: str, run: RunSummary) -> Result | None:
    """A run's name, moment, experiment and answer; its result, where it left one."""
    st.markdown(
        f"**{plain(name)}: {plain(f'{ago(run.submitted_at)}, {run.run}')}**  \n"
        f"{plain(experiment_words(run.experiment))}"
    )
    result = lab().result(run.run)
    if result is None:
        st.caption("This run left no result.")
    else:
        st.markdown(plain(run_headline(result, differences_of(result))))
    return result


def _times(results: Sequence[tuple[str, Result]]) -> None:
    chart = by_strategy.side_by_side_chart(results)
    if chart is None:
        return
    alt = "Time by strategy of each run; the numbers are in the table below"
    st.vega_lite_chart(chart, alt=alt, key="times-side-by-side")
    if any(each.prediction for _, result in results for each in result.strategies.values()):
        with st.container(width=230):
            price.field()
    answers = run_tables.answers_table(results, price.now())
    draw_table(answers)
