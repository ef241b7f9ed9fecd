"""The sentences about a sweep of collectives: before it, while it runs, and of the ceilings."""

from collections.abc import Iterable, Sequence

from spmd_core.base import bytes_text, count_text, seconds_text
from spmd_core.runs import RunStatus
from spmd_core.time import Case, cases
from spmd_core.words import axes_words, kind_title, listed

NOT_CALIBRATED = "Measure the ceilings of this machine: then each point has a prediction beside it"
KNEES = "Dotted lines: the knee, where latency and bandwidth take equally long."
CEILINGS = (
    "Copies, matmuls, dispatch, and latency and bandwidth of every collective: under 20 s. "
    "What is expected of this machine elsewhere comes from these."
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


def plan_words(asked: Sequence[Case]) -> str:
    """What a sweep will measure, before it does."""
    kinds = list(dict.fromkeys(kind_title(case.kind).lower() for case in asked))
    groups = list(dict.fromkeys(axes_words(case.axes) for case in asked))
    count = _count(asked)
    low, high = min(case.sizes[0] for case in asked), max(case.sizes[-1] for case in asked)
    where = listed([f"over {group}" for group in groups])
    return (
        f"Measure times {listed(kinds)} {where}, from {bytes_text(low)} to {bytes_text(high)}: "
        f"{count_text(count)} points."
    )


def _count(cases: Iterable[Case]) -> int:
    return sum(len(case.sizes) for case in cases)


def sweep_time_words(asked: Sequence[Case], before: RunStatus | None, is_example: bool) -> str:
    """How long a sweep will take at the pace of one `before`, and what makes it shorter; "" where
    there was none.
    """
    count = _count(cases(before.experiment)) if before else 0
    if before is None or not before.elapsed_s or not count:
        return ""
    each_s = before.elapsed_s / count
    whose = "the example" if is_example else "the last sweep"
    return (
        f"About {seconds_text(each_s * _count(asked))}: {whose}, on {before.experiment.target}, took "
        f"{seconds_text(each_s)} a point. Fewer collectives, axes or sizes take less."
    )
