"""What came out of a stored run, and why what failed did."""

from collections.abc import Mapping

import streamlit as st

from spmd_core.answers import strategies_table
from spmd_core.base import seconds_text
from spmd_core.facts import Prediction
from spmd_core.recipes import differences_of
from spmd_core.reports import Compared
from spmd_core.results import Result
from spmd_core.runs import RunSummary
from spmd_core.words import outcome_words, parts, row_title, runs as words, studies, title
from spmd_lab.ui.charts.by_strategy import side_by_side_chart
from spmd_lab.ui.charts.shares import shares_chart
from spmd_lab.ui.charts.times import times_alt, times_chart
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_table, failure, refusal, reported


def draw(run: RunSummary, result: Result | None) -> None:
    """What came out of a stored run, and why what failed did."""
    answer = words.headline_parts(result, differences_of(result))[0] if result else None
    st.markdown(f"**{plain(answer or outcome_words(run))}**")
    reasons(run, result)


def reasons(run: RunSummary, result: Result | None) -> None:
    """Draws the failures of a stored run."""
    if result:
        failed(result)
    elif run.error:
        reported(run.error.message)


def times(result: Result) -> None:
    """The chart of a run's times, or of where a predicted step's time goes, above its numbers."""
    predicted = {
        row_title(result, name): each.prediction
        for name, each in result.ordered
        if each.prediction and each.predicted_s
    }
    if spec := times_chart(result):
        st.vega_lite_chart(spec, key=f"times:{result.run}", alt=times_alt(result))
    elif predicted:
        words = "Seconds of a step by what they go to, by strategy."
        st.vega_lite_chart(shares_chart(predicted), key=f"shares:{result.run}", alt=words)
    if (table := strategies_table(result, "screen")).rows:
        with st.expander("Details"):
            draw_table(table)


def side_by_side(compared: Compared) -> None:
    """Draws the times of runs in one chart; of predicted steps, where the time of each goes and which
    part differs most.
    """
    results = [(each.letter, each.result) for each in compared.subjects if each.result]
    steps = {
        letter: step
        for letter, result in results
        if len(result.strategies) == 1
        and (step := next(iter(result.strategies.values())).prediction)
        and step.predicted_s
    }
    key = f"side-by-side:{compared.baseline.run}"
    if 1 < len(steps) == len(results):
        words = _differs(steps)
        st.vega_lite_chart(shares_chart(steps), alt=words, key=key)
        st.markdown(plain(words))
    elif chart := side_by_side_chart(results):
        words = "Time by strategy of each run; the numbers are in the table below"
        st.vega_lite_chart(chart, alt=words, key=key)


def _differs(steps: Mapping[str, Prediction]) -> str:
    named = {letter: parts(step) for letter, step in steps.items()}
    times = {
        part: [each.get(part, 0.0) for each in named.values()]
        for part in dict.fromkeys(part for each in named.values() for part in each)
    }
    most = max(times, key=lambda part: max(times[part]) - min(times[part]))
    each = (f"{letter} {seconds_text(s)}" for letter, s in zip(named, times[most], strict=True))
    return f"Largest difference: {most}, {', '.join(each)}."


def failed(result: Result) -> None:
    """Why strategies failed, and which values are wrong."""
    for message, names in words.failures(result).items():
        whose = (
            studies.as_subject(studies.whose(names, result))
            if result.experiment.variants
            else ", ".join(map(title, names))
        )
        failure(f"{whose} failed.", message)
    for name, strategy in result.strategies.items():
        if strategy.correct is False:
            refusal(words.wrong_words(name, strategy))
