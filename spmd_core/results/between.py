"""Compares rows of different runs: by their samples, which no rounds pair, or by their predictions."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import numpy as np

from spmd_core.base import Frozen
from spmd_core.experiment import MARGIN
from spmd_core.facts import Estimate, Verdict, over_processes, verdict
from spmd_core.results.machine import Environment
from spmd_core.results.ranking import best_rows
from spmd_core.results.result import Result, StrategyResult
from spmd_core.results.stats import Rounds, corrected, standard_error
from spmd_core.workloads import STRATEGIES

Basis = Literal["measured", "predicted"]
QUARTILES = 1.349  # of the normal distribution: their distance in standard deviations
OTHER_WORK = "of different work"  # of two rows that do not compute the same
FEWEST_ROUNDS = 5  # of each run: the spread of fewer is not known


class Between(Frozen):
    """Time of a row over that of the baseline's row, with its interval and verdict, or why there is
    none. Training steps of different batches are compared per token.

    `apart`: what else differs than the experiments, such as the machine: a verdict is never
    reported without it.
    """

    run: str
    row: str
    baseline: str
    baseline_row: str
    basis: Basis | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None
    faster: str | None = None  # the run that is, where the verdict is `faster`
    per_token: bool = False
    rounds: tuple[int, int] | None = None  # of the run, and of the baseline
    is_few: bool = False  # rounds of one of them are too few to judge by
    processes: int | None = None  # of each, by which measured ones are compared
    why_none: str | None = None
    apart: tuple[str, ...] = ()


def fastest_row(result: Result) -> str | None:
    """The row that answers for a result: the fastest with right values, of a study that of its best
    variant; else the fastest predicted, else the fastest that was timed.
    """
    if result.comparison:
        return best_rows(result)[0]
    if predicted := result.only_predicted_s:
        return min(predicted, key=lambda name: predicted[name] / result.tokens(name))
    timed = {name: each for name, each in result.medians_s.items() if each is not None}
    return min(timed, key=lambda name: timed[name]) if timed else None


def fastest_sharded_row(result: Result) -> str | None:
    """Returns the fastest timed row with right values that is not of a single device; None without
    any.
    """
    timed = {
        name: each.median_s
        for name, each in result.strategies.items()
        if each.median_s is not None and each.correct is not False
        if not STRATEGIES[result.row(name).strategy].is_single_device
    }
    return min(timed, key=lambda name: timed[name], default=None)


def between(
    result: Result,
    row: str,
    baseline: Result,
    baseline_row: str,
    count: int,
    apart: Sequence[str] = (),
) -> Between:
    """How a row of a run compares with a row of the baseline; `count` runs are compared."""
    named = Between(
        run=result.run,
        row=row,
        baseline=baseline.run,
        baseline_row=baseline_row,
        apart=tuple(apart),
    )
    one, other = result.strategies[row], baseline.strategies[baseline_row]
    tokens = (result.row(row).experiment.tokens, baseline.row(baseline_row).experiment.tokens)
    shift = math.log(tokens[1] / tokens[0])  # of the ratio per token; 0 where there are none
    if one.correct is False or other.correct is False:
        return named.model_copy(update={"why_none": "the values of one are wrong"})
    judged: dict[str, object]
    if one.median_s is not None and other.median_s is not None:
        judged = _measured(one, other, count, shift)
    elif one.median_s is None and other.median_s is None and one.predicted_s and other.predicted_s:
        judged = _predicted(one.predicted_s, other.predicted_s, shift)
    else:
        judged = {"why_none": _why_none(one, other)}
    return _judged(named, judged, tokens)


def between_estimates(
    named: Between, one: Estimate, other: Estimate, tokens: tuple[int, int]
) -> Between:
    """How two predictions compare, per token where their steps have different numbers of them."""
    return _judged(named, _predicted(one, other, math.log(tokens[1] / tokens[0])), tokens)


def _judged(named: Between, judged: dict[str, object], tokens: tuple[int, int]) -> Between:
    if OTHER_WORK in named.apart:  # whose times have no ratio that means anything
        return named.model_copy(update={"why_none": OTHER_WORK})
    ratio = judged.get("ratio")
    if judged.get("verdict") == "faster" and isinstance(ratio, float):
        judged["faster"] = named.run if ratio < 1 else named.baseline
    return named.model_copy(update={**judged, "per_token": tokens[0] != tokens[1]})


def _why_none(one: StrategyResult, other: StrategyResult) -> str:
    timed = [each.median_s is not None for each in (one, other)]
    if any(timed) and (one.predicted_s or one.median_s) and (other.predicted_s or other.median_s):
        return "one was measured, and the other only predicted"
    return "one has no time"


def _measured(
    one: StrategyResult, other: StrategyResult, count: int, shift: float
) -> dict[str, object]:
    """By the samples: each pair of processes gives one ratio, whose error has that of both. The
    ratio itself is that of the medians, which are shown beside it: of all processes, where one run
    has more of them than the other.
    """
    pairs = list(zip(_processes(one), _processes(other), strict=False))
    known = []
    for mine, theirs in pairs:
        a_error, b_error = standard_error(mine)[1], standard_error(theirs)[1]
        if len(pairs) == 1:  # a machine drifts between two runs about as it does inside them
            a_error, b_error = _spread(mine), _spread(theirs)
        ratio = float(np.median(mine) - np.median(theirs))
        known.append((ratio + shift, math.hypot(a_error, b_error)))
    rounds = tuple(sum(map(len, _processes(each))) for each in (one, other))
    _, low, high = over_processes(known, corrected(count))
    ratio = (one.median_s or math.nan) / (other.median_s or math.nan) * math.exp(shift)
    interval = (min(math.exp(low), ratio), max(math.exp(high), ratio))
    judged = verdict(interval, MARGIN)
    if is_few := min(rounds) < FEWEST_ROUNDS:
        judged = "cannot tell"
    return {
        "basis": "measured",
        "ratio": ratio,
        "interval": interval,
        "verdict": judged,
        "rounds": rounds,
        "is_few": is_few,
        "processes": len(pairs),
    }


def _spread(logs: np.ndarray) -> float:
    """Standard deviation of rounds, by their quartiles."""
    return float(np.subtract(*np.percentile(logs, [75, 25]))) / QUARTILES


def _processes(outcome: StrategyResult) -> list[np.ndarray]:
    """Of each process, the log of the seconds of its rounds; of before, of the samples."""
    every: list[Rounds] = [outcome.turns_s, *outcome.again_s] if outcome.turns_s else []
    rounds = [[float(np.median(turns)) for turns in each] for each in every if each]
    if not rounds:
        rounds = [list(outcome.samples_s) or [outcome.median_s or math.nan]]
    return [np.log(np.array(each)) for each in rounds]


def _predicted(one: Estimate, other: Estimate, shift: float) -> dict[str, object]:
    scale = math.exp(shift)
    low, high = one.over(other)
    interval = (low * scale, high * scale)
    return {
        "basis": "predicted",
        "ratio": one.estimate / other.estimate * scale,
        "interval": interval,
        "verdict": verdict(interval, MARGIN),
    }


def apart(
    one: Environment,
    other: Environment,
    moments: tuple[float, float],
    places: tuple[str, str],
    is_timed: bool = True,
) -> tuple[str, ...]:
    """What differs between two runs beside their experiments, in a few words each.

    `moments`: seconds since the epoch; `places`: the installations that they ran on. Where nothing
    was timed (`is_timed`), machine and day make no difference.
    """
    reasons = []
    if is_timed and (places[0] != places[1] or _machine(one, other) != _machine(other, one)):
        reasons.append("on different machines")
    days = [datetime.fromtimestamp(moment).strftime("%Y-%m-%d") for moment in moments]
    if is_timed and days[0] != days[1]:
        reasons.append(f"on different days ({days[0]} and {days[1]})")
    for label, name in (("JAX", "jax"), ("jaxlib", "jaxlib"), ("libtpu", "libtpu")):
        versions = [getattr(each, name) for each in (one, other)]
        if versions[0] != versions[1] and not (name == "jaxlib" and one.jax != other.jax):
            shown = " and ".join(each or "none" for each in versions)
            reasons.append(f"with different versions of {label} ({shown})")
    if (one.xla_flags, one.libtpu_init_args) != (other.xla_flags, other.libtpu_init_args):
        reasons.append("with different compiler flags of the environment")
    return tuple(reasons)


def _machine(one: Environment, other: Environment) -> tuple[object, ...]:
    """What two runs on one machine have in common: its processor and memory, and the kind of its
    devices where both used the same platform.
    """
    kind = one.device_kind if one.platform == other.platform else None
    return (one.cores, one.host_memory_bytes, kind)
