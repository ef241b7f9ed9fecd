"""What a user adds to a prediction: a time measured on real chips, the length of a training run,
and a baseline to check against.
"""

import shlex

import pandas as pd
import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import Plan
from spmd_core.results import Prediction, Result
from spmd_core.time import baseline as baselines
from spmd_core.words import gap_sentence, gap_table, predictions
from spmd_lab.ui import exports, price, state
from spmd_lab.ui.choices import LinkNumber
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_table, refusal

SCREEN = "predict"
_LONGEST_S = 1e6
_MOST_TOKENS_E9 = 1e7
_IN_CI = (
    "**Check it in CI.** This compiles the plan again, reports which collective, byte or buffer "
    "changed, and ends with code 1 if any did:"
)


def number(text: str, most: float) -> float | None:
    """A positive number of a query string; None for anything else.

    >>> number("0.25", 10), number("nan", 10), number("1e9", 10), number("<b>", 10)
    (0.25, None, None, None)
    """
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value <= most else None


MEASURED = LinkNumber(SCREEN, "measured", lambda text: number(text, _LONGEST_S))
_TOKENS = LinkNumber(SCREEN, "tokens", lambda text: number(text, _MOST_TOKENS_E9))


def from_query() -> None:
    """Take a measured time and a number of tokens out of a link, once; what is no such number is
    left out.
    """
    MEASURED.from_query()
    _TOKENS.from_query()


def training_run(plan: Plan, prediction: Prediction) -> None:
    """How many tokens are to be trained on, and what that takes."""
    with st.container(
        horizontal=True, vertical_alignment="bottom", gap="medium", key="training-run"
    ):
        key = state.seed(state.key(SCREEN, "aside.tokens"), _TOKENS.now())
        tokens = st.number_input(
            "A training run of (billion tokens)",
            value=None,
            min_value=0.0,
            max_value=_MOST_TOKENS_E9,
            step=100.0,
            format="%g",
            key=key,
            placeholder="e.g. 1000",
            width=230,
        )
        _TOKENS.keep(tokens)
        words = predictions.run_words(prediction, plan, (tokens or 0) * 1e9, price.now())
        st.markdown(
            plain(f"takes {words}.")
            if words
            else ":gray[shows how many days and chip-hours it takes.]",
            width="stretch",
        )


def own_time(prediction: Prediction) -> None:
    """A time measured elsewhere, against the estimate and its interval; and where to look for the
    gap.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="own-time"):
        measured = st.number_input(
            "My run takes (seconds a step)",
            value=None,
            min_value=0.0,
            max_value=_LONGEST_S,
            step=0.001,
            format="%g",
            key=state.seed(state.key(SCREEN, "aside.measured"), MEASURED.now()),
            placeholder="e.g. 0.25",
            width=230,
            help="Measured on real chips. It stays with the link of this page.",
        )
        before = MEASURED.now()
        MEASURED.keep(measured)
        if MEASURED.now() != before:
            st.rerun()  # the interval above shows it too
        words = predictions.measured_words(prediction, measured or 0.0)
        gap = gap_sentence(prediction, measured or 0.0) or ""
        st.markdown(
            f"**{plain(words)}** {plain(gap)}"
            if words
            else ":gray[shows how far off the estimate is, and where to look for the gap.]",
            width="stretch",
        )
    if words and (rows := gap_table(prediction, measured or 0.0)):
        draw_table(pd.DataFrame(rows))


def baseline(result: Result, prediction: Prediction) -> None:
    """Keep this prediction as a file that a CI job checks a new compile against; and see what
    changed since such a file.
    """
    plan = result.experiment.plan
    if plan is None:
        st.caption("Baselines are kept of a transformer's training step.")
        return
    now = baselines.baseline_of(plan, prediction)
    file = f"baseline-{result.experiment.id}.json"
    st.markdown(
        "**Keep it.** A baseline holds the plan, its memory, time, collectives and buffers."
    )
    exports.download(
        "Download the baseline", lambda: baselines.to_text(now), file, "application/json"
    )
    st.markdown(_IN_CI)
    command = shlex.join(["python", "-m", "spmd_core", "predict", "--baseline", file])
    st.code(command, language="bash")
    st.markdown(
        "**Compare with it here.** What this prediction changes against a baseline of before:"
    )
    uploaded = st.file_uploader(
        "A baseline file",
        "json",
        key="baseline:upload",
        label_visibility="collapsed",
        max_upload_size=1,
    )
    if uploaded is not None:
        _against(uploaded.getvalue(), now)


def _against(content: bytes, now: baselines.Baseline) -> None:
    try:
        differences = changes(content, now)
    except RequestError as error:
        refusal(str(error))
        return
    if differences:
        st.warning(
            "  \n".join(plain(f"{each[0].upper()}{each[1:]}.") for each in differences),
            icon=":material/difference:",
        )
    else:
        st.success("Nothing changed against this baseline.", icon=":material/check_circle:")


def changes(content: bytes, now: baselines.Baseline) -> list[str]:
    """What differs from an uploaded baseline, plan first; RequestError where it is none."""
    before = baselines.read_baseline(content)
    plan = now.plan.to_json()
    fields = [
        f"the plan's {field} was {value}, and is {plan[field]}"
        for field, value in before.plan.to_json().items()
        if value != plan[field]
    ]
    return fields + baselines.changes(before, now)
