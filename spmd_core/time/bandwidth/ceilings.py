"""Ceilings of a machine, from repeats: what the fastest reach, and whether something disturbed."""

from collections.abc import Sequence

import numpy as np

from spmd_core.results import Ceiling, StoredFact

BUSY = 0.25  # middle half of the repeats over the value: on an idle machine it is far less
BEST = 10  # percentile of the seconds that is the value
RESAMPLES = 1000


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
    draws = np.random.default_rng(0).integers(0, len(times), (RESAMPLES, len(times)))
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
