"""The sentences about a sweep of collectives: before it, while it runs, and of the ceilings."""

from collections.abc import Iterable

from spmd_core.base import bytes_text, count_text, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.runs import RunStatus
from spmd_core.time import Case, cases

NOT_CALIBRATED = "Measure this machine's ceilings, to predict each point beside it"
CEILINGS = (
    "Calibrate times copies, matmuls, dispatch and every collective: under 20 s. "
    "Predictions for this machine come from these ceilings."
)
# of each collective: the function of jax.lax, and what a device has after it
COLLECTIVE_EFFECTS = {
    "all-reduce": ("psum", "Every device gets the sum of what all of them hold."),
    "all-gather": ("all_gather", "Every device gets the shards of all devices."),
    "reduce-scatter": ("psum_scatter", "Each device gets its shard of the sum."),
    "all-to-all": ("all_to_all", "Each device sends a different block to each other one."),
    "collective-permute": ("ppermute", "Each device sends its shard to the next one."),
}


def devices_drawn(drawn: int, devices: int) -> str:
    """The caption of what collectives do: how the pictures are read."""
    of = "" if drawn == devices else f", drawn for {drawn} of {devices} devices"
    return (
        f"Before → after, a row for each device{of}. Numbers and colors: the device that had the "
        "block before. Letters: parts of an array. Σ: a sum over all devices."
    )


def plan_words(
    experiment: Experiment, before: RunStatus | None = None, is_example: bool = False
) -> str:
    """Returns how many points a sweep will measure, and how long that takes at the pace of the one
    `before`.
    """
    asked = cases(experiment)
    points = _count(asked)
    low, high = min(case.sizes[0] for case in asked), max(case.sizes[-1] for case in asked)
    sizes = f"{count_text(points)} points from {bytes_text(low)} to {bytes_text(high)}"
    text = f"Measure times {sizes} on {experiment.target}"
    if before is None or not before.elapsed_s or not (timed := _count(cases(before.experiment))):
        return f"{text}."
    takes = seconds_text(before.elapsed_s / timed * points)
    return f"{text}: about {takes}, as {'the example' if is_example else 'the last sweep'}."


def _count(cases: Iterable[Case]) -> int:
    return sum(len(case.sizes) for case in cases)
