"""Latency and bandwidth of a collective, fitted to its points."""

from collections.abc import Iterable, Sequence

import numpy as np

from spmd_core.base import by_key
from spmd_core.facts import StoredFact
from spmd_core.results import Ceiling, Fit, Point
from spmd_core.workloads import TRANSFERS

BUSY = 0.25  # middle half of the repeats over the value: on an idle machine it is far less
BEST = 10  # percentile of the seconds that is the value
CEILING_RESAMPLES = 1000


def ceiling(
    name: str,
    title: str,
    unit: str,
    work: float,
    seconds: Sequence[float],
    data_sheet: float | None = None,
) -> Ceiling:
    """A rate in `unit` from the work of one repeat and the seconds of each; for unit `s`, the
    seconds themselves.

    The value is what the fastest tenth reaches: what disturbs a repeat only ever slows it.
    """
    times = np.asarray(seconds, np.float64)
    if (times > 0).any():  # less than nothing is left where the dispatch taken off was disturbed
        times = times[times > 0]
    best, first, last = np.percentile(times, [BEST, 25, 75])
    draws = np.random.default_rng(0).integers(0, len(times), (CEILING_RESAMPLES, len(times)))
    low, high = np.percentile(np.percentile(times[draws], BEST, axis=1), [2.5, 97.5])
    spread = float((last - first) / np.median(times))
    if unit == "s":
        return Ceiling(
            name=name,
            title=title,
            value=float(best),
            unit=unit,
            spread=spread,
            interval=(float(low), float(high)),
        )
    return Ceiling(
        name=name,
        title=title,
        value=float(work / best),
        unit=unit,
        spread=spread,
        interval=(float(work / high), float(work / low)),
        data_sheet=data_sheet,
    )


def busy_facts(ceilings: Sequence[Ceiling]) -> tuple[StoredFact, ...]:
    """Which were measured on a busy machine, as a fact; none where none was."""
    busy = [each for each in ceilings if each.spread > BUSY]
    if not busy:
        return ()
    names = ", ".join(each.title.lower() for each in busy)
    worst = max(each.spread for each in busy)
    return (
        StoredFact(
            kind="busy machine",
            values={"count": len(busy), "of": len(ceilings), "names": names, "worst": worst},
        ),
    )


LEAST_POINTS = 3
RESAMPLES = 400


def fits(points: Iterable[Point]) -> tuple[Fit, ...]:
    """A fit for each kind and group of axes that has points enough, in their order."""
    by_case = by_key(
        ((point.kind, point.axes, point.devices), point)
        for point in points
        if point.time_s and point.correct is not False
    )
    return tuple(
        _fit(points_of_case)
        for points_of_case in by_case.values()
        if len({point.bytes for point in points_of_case}) >= LEAST_POINTS
    )


def _fit(points: Sequence[Point]) -> Fit:
    """Least squares of the relative error: each size counts alike, whatever its time.

    Intervals are those of the middle 95 % of resampled points: they show how much the
    straight line depends on which sizes were measured.
    """
    first = points[0]
    factor = TRANSFERS[first.kind].bus_factor(first.devices)
    moved = np.array([point.bytes * factor for point in points])
    times = np.array([point.time_s for point in points])
    latency, per_byte = line(moved, times)
    draws = np.random.default_rng(0).integers(0, len(points), (RESAMPLES, len(points)))
    drawn = np.array(
        [line(moved[draw], times[draw]) for draw in draws if len(set(moved[draw])) > 1]
    )
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    fitted = latency + moved * per_byte
    return Fit(
        kind=first.kind,
        axes=first.axes,
        devices=first.devices,
        latency_s=latency,
        latency_ci95_s=(min(low[0], latency), max(high[0], latency)),
        bandwidth=1 / per_byte,
        bandwidth_ci95=(min(1 / high[1], 1 / per_byte), max(1 / low[1], 1 / per_byte)),
        knee_bytes=latency / per_byte / factor,
        worst_error=float(np.abs(fitted / times - 1).max()),
    )


def line(moved: np.ndarray, times: np.ndarray) -> tuple[float, float]:
    """(seconds at no bytes, seconds per byte) of the least sum of squared relative errors, neither
    below zero.
    """
    rows = np.stack([1 / times, moved / times], axis=1)
    latency, per_byte = np.linalg.lstsq(rows, np.ones(len(times)), rcond=None)[0]
    least = 1e-15  # seconds per byte: no link is faster
    if latency < 0:
        ratio = moved / times
        return 0.0, max(least, float(ratio.sum() / (ratio**2).sum()))
    if per_byte < least:
        return float(1 / np.mean(1 / times)), least
    return float(latency), float(per_byte)
