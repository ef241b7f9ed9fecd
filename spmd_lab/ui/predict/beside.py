"""Two predictions beside one another: another one that is stored, and numbers with the differences in
percent.
"""

from collections.abc import Sequence

import streamlit as st

from spmd_core.base import RequestError, bytes_text, capital, seconds_text
from spmd_core.experiment import Experiment, study_of
from spmd_core.facts import Prediction
from spmd_core.results import Result
from spmd_core.runs import RunSummary
from spmd_core.terms import ago, cost_of, experiment_words, money_text
from spmd_core.words import parts
from spmd_lab.ui import choices, state
from spmd_lab.ui.lab import lab
from spmd_lab.ui.predict.tables import NONE, nowrap, percent

_OFFERED = 100
_KEY = "with"  # of the query string: the run that is beside


def show(result: Result) -> None:
    """A choice of stored predictions, and what shows the one chosen beside this one."""
    offered = {
        run.run: run
        for run in lab().history(state="succeeded", limit=_OFFERED, source="examples")
        if run.experiment.place.is_absent and run.run != result.run
    }
    if not offered:
        st.caption(
            "No other prediction is stored yet. Change the fields, predict that too, and both can "
            "be seen side by side here."
        )
        return
    choices.offered(_KEY, offered)
    now = state.aside("predict", _KEY)
    now = now if now in offered else st.query_params.get(_KEY, "")
    at = list(offered).index(now) if now in offered else None
    chosen = st.selectbox(
        "Beside",
        list(offered),
        index=at,
        placeholder="another stored prediction",
        format_func=lambda run: run_words(offered[run], result.experiment),
        key=f"beside:{len(offered)}",
    )
    state.set_aside("predict", _KEY, chosen)
    if chosen is None:
        st.query_params.pop(_KEY, None)
        return
    st.query_params[_KEY] = chosen
    with st.container(horizontal=True):
        st.page_link(
            "pages/history.py",
            label="**Both side by side**",
            icon=":material/arrow_forward:",
            query_params={"runs": f"{result.run},{chosen}"},
        )
        study(result.experiment, offered[chosen].experiment, "beside")


def run_words(run: RunSummary, beside: Experiment) -> str:
    """A stored prediction in a line: what differs from the one that is shown, and when."""
    same = "the same experiment" if run.experiment == beside else ""
    parts = (run.labels.name, experiment_words(run.experiment), ago(run.submitted_at), same)
    return " · ".join(part for part in parts if part)


def study(one: Experiment, other: Experiment, key: str) -> None:
    """A button that makes a study of two experiments; none where they cannot be compared."""
    try:
        both = study_of([(None, one), (None, other)])
    except RequestError:
        return
    words = "Both as a study on Compare"
    if not st.button(words, icon=":material/speed:", key=f"{key}:both", type="tertiary"):
        return
    state.replace("compare", both)
    state.set_run("compare", None)
    state.set_notice("compare", None)
    st.switch_page("pages/compare.py")


def numbers_table(
    here: Prediction, there: Prediction, dollars: Sequence[float | None] = (None, None)
) -> dict[str, list[str]]:
    """Time, MFU, costs (money at the `dollars` per chip-hour of each), memory and each share of both,
    with the change from A to B."""
    rows: list[tuple[str, float | None, float | None, str]] = []

    def add(label: str, first: float | None, second: float | None, kind: str) -> None:
        if first is not None or second is not None:
            rows.append((label, first, second, kind))

    a, b = here.predicted_s, there.predicted_s
    for label, field in (("Time", "estimate"), ("at least", "low"), ("at most", "high")):
        add(label, getattr(a, field, None), getattr(b, field, None), "s")
    add("Causal MFU", here.mfu_causal, there.mfu_causal, "%")
    add("MFU", here.mfu, there.mfu, "%")
    add("Tokens per second and chip", here.tokens_per_s_per_chip, there.tokens_per_s_per_chip, "n")
    spent, other = map(cost_of, (here, there), dollars)
    for label, field, kind in (
        ("Chip-seconds", "chip_seconds", "n"),
        ("Cost", "money_per_step", "$"),
        ("Chip-hours per billion tokens", "chip_hours_per_billion_tokens", "n"),
        ("Cost per billion tokens", "money_per_billion_tokens", "$"),
    ):
        add(label, getattr(spent, field), getattr(other, field), kind)
    add("Peak memory per device", here.memory_bytes.peak, there.memory_bytes.peak, "B")
    ours, theirs = parts(here), parts(there)
    for part in dict.fromkeys((*ours, *theirs)):
        add(
            capital(part),
            ours.get(part, 0.0 if a else None),
            theirs.get(part, 0.0 if b else None),
            "s",
        )
    return {
        "": [row[0] for row in rows],
        "A": [_value(row[1], row[3]) for row in rows],
        "B": [_value(row[2], row[3]) for row in rows],
        "B against A": [percent(row[2], row[1]) for row in rows],
    }


def _value(value: float | None, kind: str) -> str:
    if value is None:
        return NONE
    if kind == "n":
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    text = {
        "s": seconds_text,
        "B": bytes_text,
        "%": lambda share: f"{share:.1%}",
        "$": money_text,
    }[kind](value)
    return nowrap(text)
