"""What came out of a stored run, and why what failed did."""

import streamlit as st

from spmd_core.recipes import differences_of
from spmd_core.results import Result, RunSummary
from spmd_core.words import outcome_words, runs as words, studies, title
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import failure, refusal, reported


def draw(run: RunSummary, result: Result | None) -> None:
    """What came out of a stored run, and why what failed did."""
    answer = words.headline_parts(result, differences_of(result))[0] if result else None
    st.markdown(f"**{plain(answer or outcome_words(run))}**")
    if result:
        failed(result)
    elif run.error:
        reported(run.error.message)


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
