"""Throughput per chip against the speed of a user: shardings at rising concurrency."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from spmd_core.search.serving import ServingAnswer, ServingRow, served_row
from spmd_core.time import ServingLoad

_CURVES = 10  # that are simulated at each doubling, about 5 ms a point
_DOUBLINGS, _COARSE = 14, 3  # of a replica's requests; of as many at a time, to choose curves
_ROUNDED = 1 + 1e-9


class CurvePoint(NamedTuple):
    """A sharding with so many requests at once, all of which run."""

    concurrency: int
    row: ServingRow


@dataclass(frozen=True, slots=True)
class ServingCurve:
    """A sharding of a replica at rising concurrency.

    Attributes:
      row: the lead, or the best row of the answer with this sharding.
      points: the fewest requests first; the last has as many as the cache holds.
    """

    row: ServingRow
    points: tuple[CurvePoint, ...]


def serving_curves(answer: ServingAnswer) -> tuple[ServingCurve, ...]:
    """Returns the curve of each sharding, the lead's first; of more than 10 beside it those that
    come nearest to the frontier at every third doubling.
    """
    first: dict[object, ServingRow] = {}
    for row in (answer.lead, *answer.rows):
        if row is None or row.served is None:
            continue
        plan = row.plan
        kind = plan.topology.chip.generation, plan.mesh, plan.weights_dtype, plan.kv_dtype
        first.setdefault(kind, row)
    rows = list(first.values())
    if len(rows) > _CURVES:
        rows = _nearest(answer, [_curve(answer, row, _COARSE) for row in rows])
    return tuple(_curve(answer, row) for row in rows)


def frontier(curves: Sequence[ServingCurve]) -> tuple[tuple[ServingCurve, CurvePoint], ...]:
    """Returns the points above which no curve passes, the fastest first, each with its curve."""
    points = [(curve, point) for curve in curves for point in curve.points]
    points.sort(key=lambda each: -each[1].row.speed)
    return tuple(
        (curve, point)
        for curve, point in points
        if max(reached(each, point.row.speed) for each in curves) <= _ROUNDED * point.row.per_chip
    )


def reached(curve: ServingCurve, speed: float) -> float:
    """Returns the most tokens per chip for users of at least that speed (tokens/s), by straight lines
    between the points of a curve; 0 where no user is as fast.
    """
    rows = [point.row for point in curve.points]
    known = [row.per_chip for row in rows if row.speed >= speed]
    for slow, fast in pairwise(sorted(rows, key=lambda row: row.speed)):
        if slow.speed < speed < fast.speed:
            share = (speed - slow.speed) / (fast.speed - slow.speed)
            known.append(slow.per_chip + share * (fast.per_chip - slow.per_chip))
    return max(known, default=0.0)


def _loads(answer: ServingAnswer, row: ServingRow, step: int) -> Iterator[ServingLoad]:
    """A request for each replica, twice as many (or 2^`step`), and so on; the question's number; as
    many as fit.
    """
    assert row.pool
    load, replicas = answer.question.load, row.plan.replicas
    most = row.pool.requests * replicas
    counts = {replicas << doubled for doubled in range(0, _DOUBLINGS, step)}
    if load.rate is None and load.concurrency >= replicas:
        counts.add(load.concurrency)
    if most <= max(counts):
        counts = {count for count in counts if count < most} | {most}
    for count in sorted(counts):
        yield replace(load, concurrency=count, rate=None, requests=None)


def _curve(answer: ServingAnswer, row: ServingRow, step: int = 1) -> ServingCurve:
    points = (
        CurvePoint(
            load.concurrency,
            served_row(replace(answer.question, load=load), row.plan, row.compiled),
        )
        for load in _loads(answer, row, step)
    )
    return ServingCurve(row, tuple(points))


def _nearest(answer: ServingAnswer, curves: Sequence[ServingCurve]) -> list[ServingRow]:
    """The rows of the lead, and of the curves that come nearest to the highest at the speed of some
    point.
    """

    def distance(curve: ServingCurve) -> float:
        return min(
            max(reached(each, row.speed) for each in curves) / row.per_chip
            for _, row in curve.points
        )

    order = sorted(curves, key=lambda curve: (curve.row is not answer.lead, distance(curve)))
    kept = [id(curve) for curve in order[:_CURVES]]
    return [curve.row for curve in curves if id(curve) in kept]
