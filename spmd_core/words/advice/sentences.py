"""What to try next, in words: the number first."""

from collections.abc import Mapping, Sequence

from spmd_core.base import bytes_text, seconds_text
from spmd_core.results import Next, Remedy, StrategyResult
from spmd_core.words.names import listed, title


def dispatch_words(share: float, floor_s: float, sizes: Mapping[str, int]) -> str:
    """Most of the time is dispatch overhead."""
    return (
        f"{share:.0%} of the time is the dispatch floor, {seconds_text(floor_s)} a call: try "
        f"{_sizes(sizes)}, where more of it is computation."
    )


def one_device_words(ratio: float, best: str, sizes: Mapping[str, int]) -> str:
    """Sharding does not pay at this size."""
    return (
        f"Sharding takes {ratio:.3g}× as long as {title(best)} here: try whether it still does at "
        f"{_sizes(sizes)}."
    )


def idle_words(axis: str, size: int, dim: str) -> str:
    """A mesh axis shards nothing."""
    return (
        f"{size} devices compute the same, since nothing is sharded over `{axis}`: try {dim} "
        f"sharded over `{axis}`."
    )


def replicated_words(array: str, nbytes: int, axes: Sequence[str], left: int) -> str:
    """A replicated operand fills memory that sharding would free."""
    over = listed([f"`{axis}`" for axis in axes])
    return (
        f"{bytes_text(nbytes)} of `{array}` on every device: try it sharded over {over}, "
        f"{bytes_text(left)} each."
    )


def sum_words(kind: str, nbytes: int, dim: str, other: str, axes: Sequence[str]) -> str:
    """The largest collective adds partial sums over a sharded dim; `other`: the dim to shard in its
    place, "" to leave it replicated.
    """
    over = listed([f"`{axis}`" for axis in axes])
    change = f"{other} sharded over {over} in place of {dim}" if other else f"{dim} replicated"
    return (
        f"{bytes_text(nbytes)} per device in each {kind} over {over}: try {change}, which leaves "
        f"no partial sums of {dim} to add."
    )


def noisy_words(spread: float, samples: int) -> str:
    """The samples scatter."""
    return (
        f"The middle half of the samples spreads over {spread:.0%} of the median: try {samples} "
        "samples on an idle machine."
    )


def larger_words(median_s: float, sizes: Mapping[str, int]) -> str:
    """No other rule applies: how does it scale?"""
    return f"{seconds_text(median_s)} at this size: try {_sizes(sizes)} to see how it grows."


def fit_words(missing: int, change: str) -> str:
    """It does not fit; names the nearest plan that should."""
    return f"{bytes_text(missing)} per device too much: try {change}, which should fit."


def plan_words(
    share: float, change: str, before_s: float, after_s: float, compiled_s: float
) -> str:
    """A neighbor of a plan takes less time per token, by the instant estimates of both: seconds for
    as many tokens; `compiled_s` is what compiling the plan predicted.
    """
    off = compiled_s / before_s - 1
    side = "above" if off > 0 else "below"
    beside = (
        f" Compiled, this one takes {seconds_text(compiled_s)}, {abs(off):.0%} {side} its estimate."
    )
    if abs(off) < 0.005:  # the screen's headline is the compiled time: no second figure beside it
        before_s, after_s, beside = compiled_s, after_s * compiled_s / before_s, ""
    return (
        f"{share:.1%} less time per token by the estimates of both, {seconds_text(before_s)} -> "
        f"{seconds_text(after_s)} for as many tokens. It needs {change}.{beside}"
    )


def more_chips_words(share: float, what: str, target: str) -> str:
    """Where the step's time goes, if no neighbor is better: only more chips help."""
    return (
        f"{share:.0%} of the step is {what}, and no change of one axis or policy takes less "
        f"time per token: try {target}."
    )


def _sizes(sizes: Mapping[str, int]) -> str:
    return listed([f"{dim}={size}" for dim, size in sizes.items()])


def remedied(outcome: StrategyResult) -> Next | None:
    """The remedy that saves the largest share of a program's time; None where nothing was tried, or
    nothing helps.
    """
    remedies = [
        each.remove for each in outcome.collectives or () if isinstance(each.remove, Remedy)
    ]
    if not remedies:
        return None
    best = max(remedies, key=_saved)
    return Next(
        rule="remedy",
        number=_saved(best),
        experiment=best.experiment,
        sentence=f"{_saved(best):.0%} less time, {'measured' if best.measured_s else 'predicted'}: {best.sentence}.",
    )


def _saved(remedy: Remedy) -> float:
    seconds = remedy.measured_s or remedy.predicted_s
    return 1 - seconds.after / seconds.before
