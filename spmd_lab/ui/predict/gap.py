"""Why a real step takes longer than predicted, in a sentence and a table."""

from spmd_core.base import seconds_text
from spmd_core.results import Prediction
from spmd_core.time import gap_parts, unexplained_s

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
    time = prediction.predicted_s
    if time is None or not gap_parts(prediction, measured_s):
        return None
    gap = measured_s - time.estimate
    left = unexplained_s(prediction, measured_s)
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
        left = unexplained_s(prediction, measured_s)
        most = min(gap, each.most_s) if each.most_s is not None else gap
        words = f"at most {seconds_text(most)}"
        if each.most_s is None and left > 0:
            words = f"at least {seconds_text(left)}"
        rows.append({"Cause": title, "Explains": words, "Look in a trace for": look})
    return rows
