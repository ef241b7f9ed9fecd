"""A computation at growing sizes, on one device and sharded: where sharding begins to win."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spmd_core.base import RequestError, refuse
from spmd_core.experiment import Experiment
from spmd_core.facts import Ratio
from spmd_core.results import Result, compare_predicted, estimates
from spmd_core.workloads import STRATEGIES

POINTS, MOST_POINTS = 5, 12
# Operands of the largest size, in bytes: simulated devices share the memory and the cores of one
# machine; real ones have room, and a program of less does not fill them.
LARGEST_SIMULATED, LARGEST = 2**25, 2**30
SMALLEST = 2**14  # likewise, of the smallest, where dispatch is most of a call
MOST_SHARDED = 2  # strategies beside one device: of each point all are timed


@dataclass(frozen=True, slots=True)
class SizePoint:
    """One size: seconds on one device and of the best sharded strategy, measured else predicted;
    None where they are not known. `ratio`: the time on one device over that of the best sharded
    strategy, and the verdict on it; None while that is not known.
    """

    experiment: Experiment
    run: str | None = None
    alone_s: float | None = None
    best: str | None = None
    best_s: float | None = None
    ratio: Ratio | None = None

    @property
    def operand_bytes(self) -> int:
        """The bytes of all operands."""
        return self.experiment.what.operand_bytes(self.experiment.sizes, self.experiment.dtype)

    @property
    def quotient(self) -> float | None:
        """The time on one device over that of the best sharded strategy; None where one is not known."""
        return self.alone_s / self.best_s if self.alone_s and self.best_s else None

    @property
    def wins(self) -> bool | None:
        """Whether sharding is faster by the verdict; None while that is not known."""
        return self.ratio and self.ratio.verdict == "faster" and self.ratio.ratio > 1


def at_sizes(
    experiment: Experiment, points: int = POINTS, is_won: bool = False
) -> tuple[Experiment, ...]:
    """Returns the experiment at `points` sizes, with one device and at most two of its sharded
    strategies: from its own to one that fills its devices; where sharding has won at its own
    (`is_won`), from a small one to its own.

    Raises:
      RequestError: it cannot be varied so.
    """
    what = experiment.what
    if experiment.variants or what.kind != "computation" or "single" not in what.strategies:
        raise refuse(
            f"workload {experiment.workload}",
            "has no sizes at which sharding could begin to win",
            "use one experiment of a computation, such as layer or matmul",
        )
    if not 2 <= points <= MOST_POINTS:
        raise refuse(f"sizes={points}", f"is not 2 to {MOST_POINTS}", "use for example 5")
    asked = [name for name in experiment.strategies if not STRATEGIES[name].is_single_device] or [
        name for name in what.default_strategies if not STRATEGIES[name].is_single_device
    ]
    # whose program the compiler makes as of `auto`
    sharded = [name for name in asked if name != "constrained"] or asked
    base = experiment.vary(strategies=["single", *sharded[:MOST_SHARDED]])
    largest = LARGEST_SIMULATED if experiment.place.is_simulated else LARGEST
    own = what.operand_bytes(experiment.sizes, experiment.dtype)
    times = own / SMALLEST if is_won else largest / own
    doublings = max(points - 1, math.ceil(math.log2(max(1.0, times))))
    steps = dict.fromkeys(round(place * doublings / (points - 1)) for place in range(points))
    if is_won:
        return tuple(dict.fromkeys(_shrunk(base, count) for count in reversed(steps)))
    return tuple(_grown(base, count) for count in steps)


def _grown(base: Experiment, bytes_doublings: int) -> Experiment:
    """With dims doubled in turn until operands have 2^`bytes_doublings` times the bytes at least."""
    what, sizes, free = base.what, base.sizes, _free_dims(base)
    enough = what.operand_bytes(sizes, base.dtype) * 2**bytes_doublings
    turn = 0
    while what.operand_bytes(sizes, base.dtype) < enough and turn < 64:
        sizes[free[turn % len(free)]] *= 2
        turn += 1
    return base.vary(dims=sizes)


def _shrunk(base: Experiment, bytes_halvings: int) -> Experiment:
    """With the largest dim halved in turn, while its mesh divides it, until operands have at most
    1 / 2^`bytes_halvings` of the bytes.
    """
    what, now, free = base.what, base, _free_dims(base)
    enough = what.operand_bytes(base.sizes, base.dtype) / 2**bytes_halvings
    while free and what.operand_bytes(now.sizes, base.dtype) > enough:
        dim = max(free, key=now.sizes.__getitem__)
        try:
            now = now.vary(dims=now.sizes | {dim: now.sizes[dim] // 2})
        except RequestError:
            free.remove(dim)
    return now


def _free_dims(base: Experiment) -> list[str]:
    """Dims that follow from no other, contracted ones last, then the larger first."""
    what, sizes = base.what, base.sizes
    free = [
        dim
        for dim in sorted(sizes, key=lambda dim: (dim in what.contracted, -sizes[dim]))
        if not any(dim in (rule.dim, rule.other) for rule in what.size_rules)
    ]
    if not free:
        raise refuse(
            f"workload {base.workload}",
            "has sizes that all follow from one another",
            "use another workload",
        )
    return free


def point_of(experiment: Experiment, result: Result | None) -> SizePoint:
    """The numbers of a result at one size."""
    if result is None:
        return SizePoint(experiment)
    times = {
        name: seconds
        for name, outcome in result.strategies.items()
        if outcome.correct is not False and (seconds := outcome.time_s) is not None
    }
    sharded = {name: times[name] for name in times if not STRATEGIES[name].is_single_device}
    best = min(sharded, key=lambda name: sharded[name], default=None)
    alone = times.get("single")
    if best is None or alone is None:
        return SizePoint(experiment, result.run, alone, best, sharded.get(best or ""))
    return SizePoint(experiment, result.run, alone, best, sharded[best], _ratio(result, best))


def _ratio(result: Result, best: str) -> Ratio | None:
    """The time on one device over that of the best sharded strategy, as they were compared."""
    answer = result.comparison or compare_predicted(estimates(result))
    ratios = {each.strategy: each for each in answer.ratios} if answer else {}
    if answer and answer.fastest == best:
        return ratios.get("single")
    ratio = ratios.get(best)
    return ratio and ratio.inverse("single")


def begins(points: Sequence[SizePoint]) -> SizePoint | None:
    """The smallest size from which on sharding wins at every size that is known; None where it does
    not at the largest.
    """
    first = None
    for point in reversed([each for each in points if each.wins is not None]):
        if not point.wins:
            break
        first = point
    return first


def read_count(text: str) -> int:
    """How many sizes; RequestError where the text is no such number."""
    if not (text.isascii() and text.isdigit() and 2 <= int(text[:9]) <= MOST_POINTS):
        raise RequestError(
            f"--sizes {text[:20]!r} is not a number of sizes: use 2 to {MOST_POINTS}"
        )
    return int(text)
