"""Sentences about the collectives and ceilings of a machine."""

import math
from collections.abc import Iterable, Sequence
from itertools import takewhile

from spmd_core.base import by_key, bytes_text, count_text, scaled_text, seconds_text
from spmd_core.experiment import TRANSFERS
from spmd_core.results import Ceiling, Fit, Point, Result, Roofline, RunStatus, StrategyResult
from spmd_core.time import FEWEST_RANKED, TOO_HIGH, Case, Pair, cases, median_error, spearman
from spmd_core.words.names import listed

NOT_CALIBRATED = "Measure the ceilings of this machine: then each point has a prediction beside it"
KNEES = "Dotted lines: the knee, where latency and bandwidth take equally long."
CEILINGS = (
    "Copies, matmuls, dispatch, and latency and bandwidth of every collective: under 20 s. "
    "What is expected of this machine elsewhere comes from these."
)
OFF = 3  # times the line's time, or a third of it: worth a sentence
NO_LIMIT = 1e14  # bytes per second: a straight line without a slope
NO_POINTS = "No point was measured."
DEFINITIONS = (
    "Algorithm bandwidth: bytes over time. Bus bandwidth is what each link carries, as nccl-tests "
    "counts it. It is the algorithm bandwidth times 2(n-1)/n for an all-reduce among n devices. "
    "The factor is (n-1)/n for an all-gather, reduce-scatter and all-to-all, and 1 for the rest."
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


def headline(result: Result) -> str:
    """The answer of a run that measures its machine."""
    outcome = next(iter(result.strategies.values()))
    if result.experiment.what.has_formula:
        return " ".join(part for part in answer_parts(outcome) if part)
    return calibration_words(outcome.ceilings)


def answer_parts(outcome: StrategyResult) -> tuple[str, str]:
    """The answer of a sweep, and what else there is to it: sizes that reach half, points off the line."""
    answer, more = sweep_words(outcome.points)
    return answer, " ".join(filter(None, [more, off_line_words(outcome.points, outcome.fits)]))


def bandwidths(point: Point) -> tuple[float | None, float | None]:
    """Returns algorithm and bus bandwidth in bytes per second, measured, else predicted."""
    seconds = point.time_s or point.predicted_s
    return (point.algbw or (point.bytes / seconds if seconds else None), point.busbw or _bus(point))


def sweep_words(points: Sequence[Point]) -> tuple[str, str]:
    """The highest bus bandwidth of the first kind over each group of axes; and the sizes around it
    that reach half of that, "" where none does.
    """
    timed = [point for point in points if (point.time_s or point.predicted_s) and _bus(point)]
    if not timed:
        return NO_POINTS, ""
    kind = timed[0].kind
    groups = by_key((point.axes, point) for point in timed if point.kind == kind)
    peaks, halves = [], []
    for axes, listed_points in groups.items():
        peak, where = max(listed_points, key=lambda point: _bus(point) or 0.0), axes_words(axes)
        peaks.append(f"{rate_words(_bus(peak))} over {where} ({bytes_text(peak.bytes)})")
        if half := _half_words(listed_points, peak):
            halves.append(f"over {where} {half}")
    text = "Predicted: " if all(point.time_s is None for point in timed) else ""
    reached = f"Half of that is reached {listed(halves)}." if halves else ""
    return f"{text}{kind_title(kind)} peaks at {listed(peaks)}.", reached


def off_line_words(points: Sequence[Point], fits: Sequence[Fit]) -> str:
    """Which measured points are `OFF` times off the line of the model, or of their own fit where
    there is no model, the farthest first; "" of none."""
    lines = {(fit.kind, fit.axes): fit for fit in fits}
    far: list[tuple[float, Point, float]] = []
    for point in points:
        line = point.predicted_s or _fitted_s(point, lines.get((point.kind, point.axes)))
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


def _fitted_s(point: Point, fit: Fit | None) -> float | None:
    if fit is None:
        return None
    moved = point.bytes * TRANSFERS[point.kind].bus_factor(point.devices)
    return fit.latency_s + moved / fit.bandwidth


def _half_words(points: Sequence[Point], peak: Point) -> str:
    """At which sizes around the highest bandwidth there is half of it; empty where at no other."""
    least, sizes = (_bus(peak) or 0.0) / 2, sorted(points, key=lambda point: point.bytes)
    at = sizes.index(peak)
    before = list(takewhile(lambda point: (_bus(point) or 0.0) >= least, reversed(sizes[:at])))
    after = list(takewhile(lambda point: (_bus(point) or 0.0) >= least, sizes[at + 1 :]))
    first, last = (before or [peak])[-1], (after or [peak])[-1]
    if first is last:
        return ""
    end = "on" if last is sizes[-1] else f"to {bytes_text(last.bytes)}"
    return f"from {bytes_text(first.bytes)} {end}"


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


def left_words(status: RunStatus) -> str:
    """About how long the points take that are left of a sweep; "" before the first."""
    if not status.done or status.elapsed_s is None:
        return ""
    left_s = status.elapsed_s * (status.of - status.done) / status.done
    return f", about {left_s:.0f} s left"


def _bus(point: Point) -> float:
    """Bus bandwidth of a point, measured, else predicted."""
    seconds = point.time_s or point.predicted_s or float("inf")
    return point.bytes / seconds * TRANSFERS[point.kind].bus_factor(point.devices)


def kind_title(kind: str) -> str:
    """`All-reduce` for `all-reduce`."""
    return TRANSFERS[kind].title if kind in TRANSFERS else kind


def axes_words(axes: Sequence[str]) -> str:
    """`x and y`; `every device` for copies, which use no axis."""
    return listed(list(axes)) if axes else "every device"


def rate_words(rate: float | None) -> str:
    """Bytes per second with a decimal prefix: `12.3 GB/s`."""
    return "–" if rate is None or rate >= NO_LIMIT else scaled_text(rate, "B/s")


def rate_interval_words(interval: tuple[float, float]) -> str:
    """An interval of bytes per second; one without an upper bound is marked so."""
    low, high = interval
    if high >= NO_LIMIT:
        return f"{rate_words(low)} or more"
    return f"{rate_words(low)} to {rate_words(high)}"


def value_words(ceiling: Ceiling) -> str:
    """A ceiling's value in its unit."""
    if ceiling.unit == "s":
        return seconds_text(ceiling.value)
    return scaled_text(ceiling.value, ceiling.unit)


def interval_words(ceiling: Ceiling) -> str:
    """The 95 % interval of a ceiling."""
    low, high = (ceiling.model_copy(update={"value": value}) for value in ceiling.interval)
    return f"{value_words(low)} to {value_words(high)}"


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


def beside_words(pairs: Sequence[Pair]) -> str:
    """How well predictions of some runs match: median error, rank correlation, and number of runs."""
    if not pairs:
        return (
            "No run here has both: calibrate a target on Collectives, and its runs have a "
            "prediction beside what was measured."
        )
    text = (
        f"{median_error(pairs):.0%} median error of {count_text(len(pairs))} timed "
        f"{'program' if len(pairs) == 1 else 'programs'}"
    )
    if len(pairs) >= FEWEST_RANKED:
        text += f"; rank correlation {spearman(pairs):.2f}"
    worst = max(pairs, key=lambda each: abs(math.log(each.predicted_s / each.measured_s)))
    return (
        f"{text}. Furthest off: {worst.name}, predicted {seconds_text(worst.predicted_s)}, "
        f"measured {seconds_text(worst.measured_s)}."
    )
