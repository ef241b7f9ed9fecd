"""What a user adds to a prediction: a time measured on real chips, and a baseline to check against."""

import shlex

import pandas as pd
import streamlit as st

from spmd_core.base import RequestError, capital, seconds_text
from spmd_core.facts import Prediction
from spmd_core.reports import Baseline
from spmd_core.results import Result
from spmd_core.time import gap_parts
from spmd_core.words import predictions
from spmd_lab.ui import exports, state
from spmd_lab.ui.choices import MOST, Linked
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_table, refusal

_CAUSES = {
    "communication": (
        "Communication that is not hidden",
        "collectives on the chip's own line, with no matmul beside them",
    ),
    "kernel": ("Kernels", "the time of attention and other kernels, and their block sizes"),
    "matmul": ("Matmuls", "fusions with a dot or convolution: MFU of each, odd shapes"),
    "memory": ("Passes over memory", "loop fusions and copies between the matmuls"),
    "host": ("Copies to and from the host", "copy-start and copy-done of offloaded arrays"),
    "slices": ("Waiting for stragglers", "the last all-reduce of each step, on every slice"),
    "input": (
        "Input, checkpoints, the host",
        "gaps between steps on the device, where the host's thread loads data or waits",
    ),
}


def gap_sentence(prediction: Prediction, measured_s: float) -> str | None:
    """How much longer than estimated a step took, and how much of that nothing here explains; None
    where it took no longer.
    """
    time, parts = prediction.predicted_s, gap_parts(prediction, measured_s)
    if time is None or not parts:
        return None
    gap, left = measured_s - time.estimate, parts[-1].least_s
    rest = (
        f"at least {seconds_text(left)} of it is outside of the compiled step"
        if left > 0
        else "the causes below can explain it"
    )
    return f"It took {seconds_text(gap)} longer than estimated: {rest}."


def gap_table(prediction: Prediction, measured_s: float) -> list[dict[str, str]]:
    """A row for each cause: how much of the gap it explains at most, and what shows it in a trace."""
    time, rows = prediction.predicted_s, []
    for each in gap_parts(prediction, measured_s):
        title, look = _CAUSES[each.cause]
        gap = measured_s - time.estimate if time else 0.0
        most = min(gap, each.most_s) if each.most_s is not None else gap
        words = f"at most {seconds_text(most)}"
        if each.least_s > 0:
            words = f"at least {seconds_text(each.least_s)}"
        rows.append({"Cause": title, "Explains": words, "Look in a trace for": look})
    return rows


SCREEN = "predict"
_IN_CI = (
    "**Check it in CI.** This compiles the plan again, reports which collective, byte or buffer "
    "changed, and ends with code 1 if any did:"
)


MEASURED = Linked(SCREEN, "measured")


def own_time(prediction: Prediction) -> None:
    """A time measured elsewhere, against the estimate and its interval; and where to look for the
    gap.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="own-time"):
        measured = st.number_input(
            "My run takes (seconds a step)",
            value=None,
            min_value=0.0,
            max_value=MOST["measured"],
            step=0.001,
            format="%g",
            key=state.seed(state.key(SCREEN, "aside.measured"), MEASURED.number()),
            placeholder="e.g. 0.25",
            width=230,
            help="On real chips: how far off the estimate is, and where to look for the gap.",
        )
        before = MEASURED.number()
        MEASURED.keep(f"{measured:.12g}" if measured else "")
        if MEASURED.number() != before:
            st.rerun()  # the interval above shows it too
        words = predictions.measured_words(prediction, measured or 0.0)
        gap = gap_sentence(prediction, measured or 0.0) or ""
        if words:
            st.markdown(f"**{plain(words)}** {plain(gap)}", width="stretch")
    if words and (rows := gap_table(prediction, measured or 0.0)):
        draw_table(pd.DataFrame(rows))


def baseline(result: Result, prediction: Prediction) -> None:
    """Keep this prediction as a file that a CI job checks a new compile against; and see what
    changed since such a file.
    """
    plan = result.experiment.plan
    if plan is None:
        st.caption("Only a transformer's training step has other plans to compare.")
        return
    now = Baseline.of(plan, prediction)
    file = f"baseline-{result.experiment.id}.json"
    st.markdown(
        "**Keep it.** A baseline holds the plan, its memory, time, collectives and buffers."
    )
    exports.download("Download the baseline", now.to_text, file)
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


def _against(content: bytes, now: Baseline) -> None:
    try:
        differences = changes(content, now)
    except RequestError as error:
        refusal(str(error))
        return
    if differences:
        st.warning(
            "  \n".join(plain(f"{capital(each)}.") for each in differences),
            icon=":material/difference:",
        )
    else:
        st.success("Nothing changed against this baseline.", icon=":material/check_circle:")


def changes(content: bytes, now: Baseline) -> list[str]:
    """What differs from an uploaded baseline, plan first; RequestError where it is none."""
    before = Baseline.read(content)
    plan = now.plan.to_json()
    fields = [
        f"the plan's {field} was {value}, and is {plan[field]}"
        for field, value in before.plan.to_json().items()
        if value != plan[field]
    ]
    return fields + before.changes(now)
