"""Sentences about the collectives and ceilings of a machine."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spmd_core.base import (
    about_bytes,
    between,
    by_key,
    bytes_text,
    capital,
    scaled_text,
    seconds_text,
)
from spmd_core.fields import Axes
from spmd_core.machine import Target
from spmd_core.results import Ceiling, Fit, Point, Result, Roofline
from spmd_core.roofline import PUBLISHED, Spans, expected_spans
from spmd_core.terms.names import listed
from spmd_core.workloads import TRANSFERS

TOO_HIGH = 1.05  # of a ceiling: more is a fault of the ceiling


OFF = 3  # times the line's time, or a third of it: worth a sentence
NO_LIMIT = 1e14  # bytes per second: a straight line without a slope
NO_POINTS = "No point was measured."
DEFINITIONS = (
    "Algorithm bandwidth: bytes over time. Bus bandwidth is what a device moves over all its "
    "links, as nccl-tests counts it. It is the algorithm bandwidth times 2(n-1)/n for an all-reduce "
    "among n devices. The factor is (n-1)/n for an all-gather, reduce-scatter and all-to-all, and 1 "
    "for the rest."
)


def headline(result: Result) -> str:
    """The answer of a run that measures its machine."""
    outcome = next(iter(result.strategies.values()))
    if result.experiment.what.has_formula:
        place = result.experiment.place
        return " ".join(filter(None, sweep_words(outcome.points, outcome.fits, place)))
    return calibration_words(outcome.ceilings)


def sweep_words(
    points: Sequence[Point], fits: Iterable[Fit] = (), target: Target | None = None
) -> tuple[str, str]:
    """The highest bus bandwidth of the first kind over each group of axes; and the sizes around it
    that reach half of that and the points that are off the line, "" where there are none.

    Rates that are predicted for a `target` are ranges, where such a range is known.
    """
    timed = [point for point in counted(points) if _bus(point)]
    if not timed:
        return NO_POINTS, ""
    kind, spans = timed[0].kind, expected_spans(target) if target else {}
    groups = by_key((point.axes, point) for point in timed if point.kind == kind)
    peaks, halves, rises = [], [], True  # to the end of each
    for axes, listed_points in groups.items():
        peak, where = max(listed_points, key=lambda point: _bus(point) or 0.0), axes_words(axes)
        rises &= peak.bytes == max(point.bytes for point in listed_points)
        rate = predicted_rate(_bus(peak), span_at(peak, ranges_of(listed_points, spans)))
        peaks.append(f"{rate} over {where} ({bytes_text(peak.bytes)})")
        if (half := half_points(listed_points)) is not None:
            first, last = (about_bytes(each.bytes) for each in half)
            end = "on" if half[1] in listed_points else f"to {last}"
            halves.append(f"over {where} from {first} {end}")
    text = "Predicted: " if all(point.time_s is None for point in timed) else ""
    reached = f"Half of that is reached {listed(halves)}." if halves else ""
    more = " ".join(filter(None, (reached, off_line_words(points, fits))))
    verb = "reaches" if rises else "peaks at"
    return f"{text}{kind_title(kind)} {verb} {listed(peaks)}.", more


def counted(points: Iterable[Point]) -> list[Point]:
    """Returns the points with a measured time; where none was measured, those with a predicted."""
    known = [point for point in points if point.time_s or point.predicted_s]
    return [point for point in known if point.time_s] or known


def off_line_words(points: Iterable[Point], fits: Iterable[Fit]) -> str:
    """Which measured points are `OFF` times off the line of the model, or of their own fit where
    there is no model, the farthest first; "" of none."""
    lines = {(fit.kind, fit.axes): fit for fit in fits}
    far: list[tuple[float, Point, float]] = []
    for point in points:
        line = point.predicted_s or fitted_s(point, lines.get((point.kind, point.axes)))
        if point.time_s and line and not 1 / OFF < (times := point.time_s / line) < OFF:
            far.append((max(times, 1 / times), point, line))
    if not far:
        return ""
    _, point, line = max(far, key=lambda each: each[0])
    are = "point is" if len(far) == 1 else "points are"
    return (
        f"{len(far)} {are} {OFF:g} times off the line or more: {point.kind} of "
        f"{bytes_text(point.bytes)} over {axes_words(point.axes)} took {seconds_text(point.time_s)}, "
        f"where the line has {seconds_text(line)}."
    )


def fitted_s(point: Point, fit: Fit | None) -> float | None:
    """Returns the seconds that the fit of a collective has for a point; None without one."""
    if fit is None:
        return None
    moved = point.bytes * TRANSFERS[point.kind].bus_factor(point.devices)
    return fit.latency_s + moved / fit.bandwidth


def half_points(points: Iterable[Point]) -> tuple[Point, Point] | None:
    """Returns where the bus bandwidth is half of its highest, on either side of it: between two
    points, with time on the line through them; the first or last point where it stays above. None
    of fewer than two sizes. The points are of one collective over the same axes; of several of one
    size the fastest counts.
    """
    fastest = {point.bytes: point for point in sorted(filter(_bus, points), key=_bus)}
    sizes = [fastest[size] for size in sorted(fastest)]
    if len(sizes) < 2:
        return None
    at = sizes.index(max(sizes, key=_bus))
    least = _bus(sizes[at]) / 2
    return _crossing(sizes[at::-1], least), _crossing(sizes[at:], least)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """How many times as long as predicted a collective may take, by published runs whose time was
    that of their bytes; of fewer than `least_bytes` latency is most of the time, and nothing is
    known.

    Attributes:
      runs: of each published run bytes, ascending, and how many times as long it took.
    """

    runs: tuple[tuple[tuple[int, float], ...], ...]
    least_bytes: int = 0

    def at(self, nbytes: float) -> tuple[float, float] | None:
        """Returns both ends for that many bytes, between the published sizes on a line over their
        logarithm; None where nothing is known.
        """
        if nbytes < self.least_bytes:
            return None
        logs = [
            ([math.log2(size) for size, _ in run], [each for _, each in run]) for run in self.runs
        ]
        times = [float(np.interp(math.log2(nbytes), *ends)) for ends in logs]
        return min(1.0, *times), max(1.0, *times)


Ranges = Mapping[tuple[str, Axes], TimeRange]  # by kind and axes


def ranges_of(points: Iterable[Point], spans: Spans) -> Ranges:
    """Returns the range of what is predicted of each kind over each group of axes; none of kinds
    without a span.
    """
    groups = by_key(((each.kind, each.axes), each) for each in points if each.kind in spans)
    runs = by_key((each.kind, each.ratios()) for each in PUBLISHED)
    return {
        (kind, axes): TimeRange(
            tuple(runs[kind]), half[0].bytes if (half := half_points(listed)) else 0
        )
        for (kind, axes), listed in groups.items()
    }


def span_at(point: Point, ranges: Ranges) -> tuple[float, float] | None:
    """Returns in times as long the range of a point that is predicted; None of a measured one."""
    known = ranges.get((point.kind, point.axes))
    return known.at(point.bytes) if known and not point.time_s else None


def _crossing(points: Sequence[Point], least: float) -> Point:
    for near, far in pairwise(points):
        if _bus(far) < least:
            slope = (_seconds(near) - _seconds(far)) / (near.bytes - far.bytes)
            factor = TRANSFERS[near.kind].bus_factor(near.devices)
            start = _seconds(far) - slope * far.bytes
            size = least * start / (factor - least * slope)
            known = "time_s" if near.time_s else "predicted_s"
            crossed = {"bytes": round(size), known: size * factor / least}
            return near.model_copy(update=crossed | {"algbw": None, "busbw": None})
    return points[-1]


def _seconds(point: Point) -> float:
    return point.time_s or point.predicted_s or float("inf")


def _bus(point: Point) -> float:
    return point.bytes / _seconds(point) * TRANSFERS[point.kind].bus_factor(point.devices)


def kind_title(kind: str) -> str:
    """`All-reduce` for `all-reduce`."""
    return TRANSFERS[kind].title if kind in TRANSFERS else capital(kind)


def axes_words(axes: Sequence[str]) -> str:
    """`x and y`; `every device` for copies, which use no axis."""
    return listed(list(axes)) if axes else "every device"


def rate_words(rate: float | None) -> str:
    """Bytes per second with a decimal prefix: `12.3 GB/s`."""
    return "–" if rate is None or rate >= NO_LIMIT else scaled_text(rate, "B/s")


def predicted_rate(rate: float, span: tuple[float, float] | None) -> str:
    """Returns a rate whose time takes `span` times as long: `57.3 to 86.5 GB/s`; one number of None."""
    return between(*(rate_words(rate / each) for each in reversed(span or (1.0, 1.0))))


def fit_words(fit: Fit) -> str:
    """A fit in a line: latency, bandwidth, knee."""
    latency = f"{kind_title(fit.kind)} over {axes_words(fit.axes)}: {seconds_text(fit.latency_s)}"
    if fit.bandwidth >= NO_LIMIT:
        return f"{latency}, whatever its bytes: measure larger ones, or when nothing else runs"
    return (
        f"{latency} + bytes at {rate_words(fit.bandwidth)}; both are equal at "
        f"{bytes_text(fit.knee_bytes)}"
    )


_ROOFS = {
    "compute": "this machine's matmul rate",
    "memory": "this machine's copy bandwidth",
    "communication": "what its collectives are expected to take",
    "dispatch": "its dispatch floor",
}


def roofline_words(roofline: Roofline) -> str | None:
    """Which roof binds, and how near a measured time is to it; None if nothing was timed."""
    if roofline.share is None:
        return None
    text = f"{roofline.share:.0%} of {_ROOFS[roofline.binds]}, which binds"
    if roofline.share > TOO_HIGH:
        return f"{text}: more than there is, so that the ceiling is wrong; calibrate again"
    if roofline.mfu:
        text += f"; MFU {roofline.mfu:.1%}, by the matmul rate that was measured"
    elif roofline.ideal_s:
        text += "; no MFU: more than the matmul rate that was measured, so that FLOPs or this rate "
        text += "are counted wrong"
    return text


def calibration_words(ceilings: Iterable[Ceiling]) -> str:
    """The rates that a device of this machine reaches: copies, matmuls, dispatch."""
    known = {each.name: each for each in ceilings}
    words = {
        "copy": "{} of copies",
        "matmul_float32": "{} of float32 matmuls",
        "matmul_bfloat16": "{} in bfloat16",
        "dispatch_mesh": "{} per call",
    }
    parts = [text.format(value_words(known[name])) for name, text in words.items() if name in known]
    return f"A device reaches {listed(parts)}." if parts else "Nothing was measured."


def bandwidths(point: Point) -> tuple[float | None, float | None]:
    """Returns algorithm and bus bandwidth in bytes per second, measured, else predicted."""
    seconds = point.time_s or point.predicted_s
    return (point.algbw or (point.bytes / seconds if seconds else None), point.busbw or _bus(point))


def value_words(ceiling: Ceiling) -> str:
    """A ceiling's value in its unit."""
    if ceiling.unit == "s":
        return seconds_text(ceiling.value)
    return scaled_text(ceiling.value, ceiling.unit)
