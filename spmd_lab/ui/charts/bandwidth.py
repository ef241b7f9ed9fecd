"""A sweep of collectives as a chart: bandwidth or time over bytes, both logarithmic."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from spmd_core.base import about_bytes, between, by_key, bytes_text, seconds_text, span_text
from spmd_core.results import Point
from spmd_core.terms import Ranges, TimeRange, half_points, kind_title, rate_words, span_at
from spmd_core.workloads import TRANSFERS
from spmd_lab.ui.charts import base
from spmd_lab.ui.charts.base import (
    INK,
    TOP,
    Row,
    Spec,
    as_is,
    category,
    hover,
    layer,
    layered,
    rows_axis,
)
from spmd_lab.ui.charts.colors import BEST

TIME, BUS, ALGORITHM = QUANTITIES = ("Time", "Bus bandwidth", "Algorithm bandwidth")
_TITLES = {BUS: "bus bandwidth (GB/s)", ALGORITHM: "algorithm bandwidth (GB/s)", TIME: "time"}
_UNITS = {BUS: 1e9, ALGORITHM: 1e9, TIME: 1e-6}
MEASURED, PREDICTED, FITTED = "measured", "predicted", "fitted line"
_HEIGHT_PX, _WIDE_PX = 220, 400  # of a chart; from which width on a label has room beside a line
_CHARACTER_PX, _GAP_PX = 6.2, 20  # of the text at the end of a bar
Points = Sequence[Point]
Span = tuple[float, float] | None  # of predicted times, in times as long
Spans = Mapping[str, tuple[float, float]]  # the same by kind
_SUM = kind_title("all-reduce")
_NONE_PUBLISHED = "no published run"  # where a range would be


def sweep_chart(
    points: Points,
    beside: Points,
    quantity: str,
    other: str = "",
    size: int = 0,
    span: TimeRange | None = None,
    other_span: TimeRange | None = None,
    is_complete: bool = True,
    fitted: Points = (),
) -> Spec:
    """Returns a line for each kind: measured with points, predicted dashed, `fitted` and those of the
    `other` one dotted; of a complete sweep a rule from which size on half of the highest bandwidth is
    reached. Each is named where it has that `size`, and has its `span` or `other_span`, in times as
    long.
    """
    lead = MEASURED if any(each.time_s for each in points) else PREDICTED
    span = span if lead == PREDICTED else None
    drawn = {MEASURED: points, PREDICTED: points, other: beside, FITTED: fitted}
    rows = _lines(drawn, quantity, lead, {PREDICTED: span, MEASURED: span, other: other_span})
    band = _band(rows, PREDICTED, quantity, span)
    other_band = _band(rows, other, quantity, other_span)
    pointed = [row for row in rows if row["line"] in (lead, other)]
    halves = _halves(points if is_complete else (), quantity)
    kinds, dashes = {row["kind"]: None for row in rows}, _dashes(rows, other)
    x, y = _axes([*points, *beside, *fitted], quantity, [*band, *other_band])
    color = category("kind", list(kinds), legend=_KINDS if len(kinds) > _NAMED else None)
    shown = as_is("ink") if len(kinds) == 1 and len(dashes) > 1 else color
    stroke = _dash(dashes, len(kinds) > _NAMED)
    layers = [*_bands(band, other_band, x, y)]
    layers.append(layer(rows, _LINE, x=x, y=y, color=shown, strokeDash=stroke))
    layers += _marks(pointed, halves, quantity, size, x=x, y=y, color=shown)
    if len(kinds) <= _NAMED:
        layers += _names(rows, quantity, size, -30 if band else -12, x=x, y=y, color=shown)
        layers.append(_half_label(halves, quantity, x=x, color=shown))
    return layered(layers, _HEIGHT_PX)


def _lines(
    drawn: Mapping[str, Points], quantity: str, lead: str, spans: Mapping[str, TimeRange | None]
) -> list[Row]:
    """Returns the rows of each line, labeled with their spans."""
    return [
        row
        for line, points in drawn.items()
        for row in _spanned(_rows(points, line, quantity, lead), quantity, spans.get(line))
    ]


def _marks(
    pointed: Sequence[Row], halves: Sequence[Row], quantity: str, size: int, **channels: Spec
) -> Iterator[Spec]:
    """Yields the points, where half of the highest bandwidth is reached, and the points of `size`."""
    yield layer(pointed, _POINT, **channels, tooltip=_HOVER)
    yield layer(halves, _half_rule(quantity), **channels, tooltip=_HALF_HOVER)
    chosen = [row for row in pointed if row["bytes"] == size]
    yield layer(chosen, _CHOSEN, **channels, tooltip=_HOVER)


def _dashes(rows: Iterable[Row], other: str) -> dict[str, list[int]]:
    """Returns the dashes of the lines that are drawn."""
    drawn, known = {row["line"] for row in rows}, _DASHES | {other: [2, 2], FITTED: [2, 4]}
    return {name: each for name, each in known.items() if name in drawn}


def _bands(own: Sequence[Row], other: Sequence[Row], x: Spec, y: Spec) -> Iterator[Spec]:
    """The ranges of what is predicted, and of what it is compared with."""
    ends = {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}}
    yield layer(own, _BAND, **ends)
    yield layer(other, _BAND | {"color": _OTHER}, **ends)


def _dash(dashes: Mapping[str, list[int]], has_legend: bool) -> Spec:
    legend = TOP if len(dashes) > 1 and has_legend else None
    return category("line", list(dashes), legend=legend, colors=list(dashes.values()))


def _half_end(quantity: str, inset: int = 0) -> Spec:
    """Where the rule of half a bandwidth ends, away from the line: a time rises to the right, so above
    its low part; of a bandwidth, and where the name of the line would be there, the axis.
    """
    up, down = f"width < {_WIDE_PX} ? height / 2 : height / 4", f"height - {inset}"
    return {"expr": f"datum.is_late ? {down} : {up}" if quantity == TIME else down}


def _half_rule(quantity: str) -> Spec:
    return _HALF | {"y2": _half_end(quantity)}


def _half_label(halves: Sequence[Row], quantity: str, **channels: Spec) -> Spec:
    is_over_line = f"datum.is_late && width < {_WIDE_PX}"
    mark = _HALF_LABEL | {"y": _half_end(quantity, 12)}
    mark |= {"opacity": {"expr": f"{is_over_line} ? 0 : 1"}}
    return layer(halves, mark, **channels, text={"field": "label"})


def _band(rows: Sequence[Row], line: str, quantity: str, span: TimeRange | None) -> list[Row]:
    return [
        {"bytes": row["bytes"], **_ends(row, quantity, ends)}
        for row in rows
        if span and row["line"] == line and (ends := span.at(cast(int, row["bytes"])))
    ]


def _ends(row: Row, quantity: str, span: tuple[float, float]) -> Row:
    """Returns the low and the high end of what a bar is, in its unit."""
    low, high = span if quantity == TIME else (1 / span[1], 1 / span[0])
    value = cast(float, row["y"])
    return {"low": low * value, "high": high * value}


def _spans(bars: Sequence[Row], x: Spec, y: Spec) -> list[Spec]:
    low, high = (x | {"field": at} for at in ("low", "high"))
    line = layer(bars, _SPAN, x=low, x2={"field": "high"}, y=y)
    return [line, *(layer(bars, _CAP, x=each, y=y) for each in (low, high))] if bars else []


def _spanned(rows: Sequence[Row], quantity: str, span: TimeRange | None) -> list[Row]:
    return [
        {**row, "shown": _reach(row, quantity, span.at(cast(int, row["bytes"])) if span else None)}
        for row in rows
    ]


def _reach(row: Row, quantity: str, span: Span) -> str:
    """Returns what a label of a row shows: both ends of its range, where it has one."""
    if span is None:
        return str(row["shown"])
    value = cast(float, row["y"]) * _UNITS[quantity]
    if quantity == TIME:
        return span_text(value * span[0], value * span[1])
    return between(rate_words(value / span[1]), rate_words(value / span[0]))


def _axes(points: Points, quantity: str, bands: Sequence[Row]) -> tuple[Spec, Spec]:
    """Bytes, and values up to the ends of the bands at least."""
    reach = max((cast(float, row["high"]) for row in bands), default=0.0)
    rows = [
        (float(point.bytes), _value(point, seconds, quantity) / _UNITS[quantity])
        for point in points
        if (seconds := point.time_s or point.predicted_s)
    ]
    across, up = zip(*rows, strict=True) if rows else ((1.0,), (1.0,))
    x_scale = _BYTES_SCALE | {"domain": [min(across), max(across)]}
    x = base.quantity(
        "bytes",
        title="bytes per device, the larger of operand and result; log scale",
        scale=x_scale,
        axis=_BYTES_AXIS,
    )
    steps = _steps(min(up), max(up))
    lowest = max(each for each in steps if each <= min(up))
    most = max(reach, *up)
    highest = min(each for each in steps if each >= max(up))
    y_scale = {
        "type": "log",
        "domain": [lowest, max(highest, (1.6 if reach else 1.4) * most)],
    }  # room for a label
    axis = {"format": ",.3~r", "values": steps}
    if quantity == TIME:
        axis |= {"labelExpr": _TIME_LABELS}
    return x, base.quantity("y", title=f"{_TITLES[quantity]}, log", scale=y_scale, axis=axis)


def _common(points: Points, size: int) -> int:
    """The `size`, where every kind has a time of it, else the largest of which that holds; of no common
    one the largest of all.
    """
    timed = [(each.kind, each.bytes) for each in points if each.time_s or each.predicted_s]
    sizes = [set(each) for each in by_key(timed).values()]
    common = set.intersection(*sizes) if sizes else set[int]()
    return size if size in common else max(common or [0, *(each for _, each in timed)])


def rank_chart(
    points: Points,
    beside: Points,
    quantity: str,
    kind: str,
    other: str = "",
    why: Mapping[str, str] | None = None,
    size: int = 0,
    ranges: Ranges | None = None,
) -> Spec:
    """Returns a bar for each kind at that size, or the largest that all have, the best first, that of `kind`
    dark: measured where it is, with a tick for what is predicted, and for the `other` one. `why`
    is on bars that are longer than that of an all-reduce. A line on each bar of what is predicted
    spans its range, in times as long, where `ranges` has one; beside these no run is published.
    """
    most = _common(points, size)
    lead = MEASURED if any(each.time_s for each in points) else PREDICTED
    own, others = ([e for e in row if e.bytes == most] for row in (points, beside))
    lines = {line: _rows(own, line, quantity, lead) for line in (lead, PREDICTED)}
    known = {each.kind: span_at(each, ranges or {}) for each in own}
    spanned = {kind: span for kind, span in known.items() if span}
    bars = _bars(lines[lead], quantity, spanned, why or {})
    ticks = [] if lead == PREDICTED else lines[PREDICTED]
    ticks = [{**row, "row": row["kind"]} for row in (*ticks, *_rows(others, other, quantity, lead))]
    x = _across([*(row["high"] for row in bars), *(row["y"] for row in ticks)], bars)
    y = rows_axis([str(row["row"]) for row in bars])
    faint = {"condition": {"test": f"datum.row == '{kind_title(kind)}'", "value": 1}, "value": 0.5}
    layers = [
        layer(bars, _BAR, x=x, y=y, opacity=faint, tooltip=_HOVER),
        *_spans([row for row in bars if row["name"] in spanned], x, y),
        layer(ticks, _TICK, x=x, y=y, tooltip=_HOVER),
        *(
            layer(bars, _AT_END, x=x | {"field": "high"}, y=y, text={"field": field})
            | {"transform": [{"filter": f"width {at} {_WIDE_PX}"}]}
            for field, at in (("label", ">="), ("brief", "<"))
        ),
    ]
    by = ", ├─┤ range" if spanned else ", by the data sheet" * (lead == PREDICTED)
    title = _HEADING | {"text": _ranked(quantity, most, not spanned) + by + _ticked(others, other)}
    return layered(layers, {"step": 26}, title=title)


def _ticked(others: Points, other: str) -> str:
    return f", ┃ on {other.removesuffix(f', {PREDICTED}')}" if others else ""


def _bars(rows: Sequence[Row], quantity: str, spans: Spans, why: Mapping[str, str]) -> list[Row]:
    """Returns rows in order, with their ends and labels: of what has a span both ends; where none has
    one also the other quantity.
    """
    ordered = sorted(rows, key=lambda row: (row["y"], row["kind"]), reverse=quantity != TIME)
    second = "" if spans else {TIME: "bus"}.get(quantity, "time")
    shown = [
        {
            **row,
            "shown": _reach(row, quantity, span),
            "without": "" if span or not spans else f", {_NONE_PUBLISHED}",
            **_ends(row, quantity, span or (1.0, 1.0)),
        }
        for row in ordered
        for span in [spans.get(str(row["name"]))]
    ]
    return _labeled(shown, second, why)


def _across(ends: Sequence[object], bars: Sequence[Row]) -> Spec:
    """Returns the x axis of bars up to these ends, with room for their labels."""
    top = max((cast(float, end) for end in ends), default=1.0)
    brief, label = (
        round(_CHARACTER_PX * max((len(str(row[field])) for row in bars), default=0) + _GAP_PX)
        for field in ("brief", "label")
    )
    labels = f"(width < {_WIDE_PX} ? {brief} : {label})"
    room = {"expr": f"{top} * width / max(width - {labels}, 60)"}
    return base.quantity("y", title=None, scale={"domainMin": 0, "domainMax": room}, axis=None)


def _ranked(quantity: str, size: int, has_second: bool) -> str:
    too = "bus bandwidth" if quantity == TIME else "time"
    return f"{quantity}{f' and {too}' * has_second} at {bytes_text(size)} per device"


def _labeled(bars: Sequence[Row], second: str, why: Mapping[str, str]) -> list[Row]:
    times = {str(row["kind"]): cast(float, row["seconds"]) for row in bars}
    slow = {kind for kind, seconds in times.items() if seconds > times.get(_SUM, math.inf)}
    return [
        {
            **row,
            "row": kind,
            "label": f"{brief}{row['without']}" + f" · {more}" * bool(more),
            "brief": brief,
        }
        for row, kind in zip(bars, times, strict=True)
        for brief in [f"{row['shown']} · {row[second]}" if second else str(row["shown"])]
        for more in [why.get(kind, "") if kind in slow else ""]
    ]


def _steps(least: float, most: float) -> list[float]:
    """Decades; over less than two of them with 2 and 5 between."""
    first, last = (math.floor(math.log10(each)) for each in (least, most))
    within = (1.0, 2.0, 5.0) if most < 100 * least else (1.0,)
    return [each * 10.0**power for power in range(first - 1, last + 2) for each in within]


def _names(
    rows: Sequence[Row], quantity: str, size: int, above: int, **channels: Spec
) -> list[Spec]:
    placed: dict[tuple[bool, str], list[Row]] = {}
    sizes = [cast(int, row["bytes"]) for row in rows]
    first, last = min(sizes, default=0), max(sizes, default=0)
    is_one = len({row["kind"] for row in rows}) == 1
    labels = sorted(_labels(rows, quantity, size), key=lambda row: -cast(float, row["y"]))
    for at, row in enumerate(labels):
        here = cast(int, row["bytes"])
        ends = {"right": _NEAR * here > last, "left": here < _NEAR * first, "center": True}
        align = next(name for name, is_there in ends.items() if is_there)
        placed.setdefault((at > 0, align), []).append(row)
    low = _BELOW[quantity == TIME]
    return [
        layer(
            listed,
            _END | {"dy": low if below else above, "align": align},
            **channels,
            text={"field": "of_one" if is_one else "label"},
        )
        for (below, align), listed in placed.items()
    ]


def _labels(rows: Iterable[Row], quantity: str, size: int) -> list[Row]:
    lines: dict[tuple[object, object], list[Row]] = {}
    for row in rows:
        lines.setdefault((row["kind"], row["line"]), []).append(row)
    return [
        {**top, "of_one": of_one, "label": f"{top['kind']}, {of_one}"}
        for line in lines.values()
        for top in [max(line, key=lambda row: (row["bytes"] == size, _far(row, quantity)))]
        for name, elsewhere, _ in [str(top["line"]).partition(",")]
        for of_one in [f"{name} {top['shown']}" + f" at {top['size']}" * (not elsewhere)]
    ]


def _far(row: Row, quantity: str) -> float:
    return cast(float, row["bytes" if quantity == TIME else "y"])


_BAND = {"type": "area", "opacity": 0.14, "color": BEST}
_LINE = {"type": "line", "strokeWidth": 2, "opacity": 0.85}
_POINT = {"type": "point", "filled": True, "size": 45}
_CHOSEN = _POINT | {"size": 130, "opacity": 1}
_BAR = {"type": "bar", "height": 18, "color": BEST}
_TICK = {"type": "tick", "thickness": 2, "size": 22, **INK}
_SPAN = {"type": "rule", "strokeWidth": 1.5, **INK}
_CAP = {"type": "tick", "orient": "vertical", "size": 8, "thickness": 1.5, **INK}
_AT_END = {"type": "text", "align": "left", "dx": 8, "fontWeight": 600, **INK}
_KINDS = TOP | {"columns": 2, "symbolStrokeWidth": 3}
_HEADING = {"anchor": "start", "fontSize": 13, "fontWeight": 600, "offset": 14}
_HALF = {"type": "rule", "strokeDash": [2, 3], "opacity": 0.6}
BYTES_LABELS = (  # of an axis
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : "
    "datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : "
    "datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)
_TIME_LABELS = (  # of microseconds
    "datum.value >= 1e6 ? datum.value / 1e6 + ' s' : "
    "datum.value >= 1e3 ? datum.value / 1e3 + ' ms' : datum.value + ' µs'"
)
_BYTES_SCALE = {"type": "log", "base": 2, "nice": False}
_BYTES_AXIS = {"labelExpr": BYTES_LABELS, "tickCount": 8}
_NAMED = 2  # kinds that are named at the ends of their lines, in place of a legend
_BELOW = (16, 46)  # pixels below the end of a line: of a bandwidth, which is flat there; of a time
_END = {"type": "text", "fontWeight": 600}
_LATE = 8  # times a size that is beyond the last one: the name of the line is above it
_NEAR = 32  # times a size that is beyond the last one: its name would leave the chart
_LEFT = "scale('x', datum.bytes) < width - 190"  # whether the label has room to the right
_HALF_LABEL = {"type": "text"} | {
    "align": {"expr": f"{_LEFT} ? 'left' : 'right'"},
    "dx": {"expr": f"{_LEFT} ? 5 : -5"},
}
_HOVER = hover(kind="collective", line="is", size="bytes", time="time", bus="bus bandwidth")
_HALF_HOVER = hover(kind="half of the peak of", size="from")
_OWN, _OTHER = "light-dark(#1f5fbf, #6aa5ff)", "light-dark(#5b6675, #a3adba)"
_DASHES = {MEASURED: [1, 0], PREDICTED: [6, 4]}


def _rows(points: Iterable[Point], line: str, quantity: str, lead: str) -> list[Row]:
    rows = []
    for point in points:
        seconds = point.predicted_s if line == PREDICTED else point.time_s
        if line not in _DASHES:
            seconds = seconds or point.predicted_s
        if not seconds:
            continue
        rows.append(
            {
                "name": point.kind,
                "kind": kind_title(point.kind),
                "line": line,
                "seconds": seconds,
                "ink": _OWN if line == lead else _OTHER,
                "bytes": point.bytes,
                "y": _value(point, seconds, quantity) / _UNITS[quantity],
                "size": bytes_text(point.bytes),
                "time": seconds_text(seconds),
                "shown": seconds_text(seconds)
                if quantity == TIME
                else rate_words(_value(point, seconds, quantity)),
                "bus": rate_words(_value(point, seconds, BUS)),
            }
        )
    return rows  # pyrefly: ignore[bad-return]


def _value(point: Point, seconds: float, quantity: str) -> float:
    if quantity == TIME:
        return seconds
    factor = TRANSFERS[point.kind].bus_factor(point.devices) if quantity == BUS else 1.0
    return point.bytes / seconds * factor


def _halves(points: Sequence[Point], quantity: str) -> list[Row]:
    return [
        {
            "kind": kind_title(kind),
            "bytes": half[0].bytes,
            "y": _value(half[0], half[0].time_s or half[0].predicted_s or 0.0, quantity)
            / _UNITS[quantity],
            "size": bytes_text(half[0].bytes),
            "label": f"latency-bound below {about_bytes(half[0].bytes)}",
            "is_late": _LATE * half[0].bytes > max(each.bytes for each in listed),
            "ink": _OWN,
        }
        for kind, listed in by_key((point.kind, point) for point in points).items()
        if (half := half_points(listed)) is not None
    ]


def rank_alt(ranked: Spec) -> str:
    """Returns a ranking in words: what its bars are, and each with its values."""
    bars = ranked["layer"][0]["data"]["values"]
    listed = "; ".join(f"{bar['row']} {bar['label']}" for bar in bars)
    return f"{ranked['title']['text']}: {listed}"


def sweep_alt(points: Sequence[Point], quantity: str) -> str:
    """The chart in words: of each kind its smallest and its largest size."""
    text = seconds_text if quantity == TIME else rate_words
    sentences = []
    for kind in dict.fromkeys(point.kind for point in points):
        ends = [
            f"{text(_value(point, seconds, quantity))} at {bytes_text(point.bytes)}"
            for point in points
            if point.kind == kind and (seconds := point.time_s or point.predicted_s)
        ]
        if ends:
            sentences.append(f"{kind_title(kind)} {ends[0]}, {ends[-1]}")
    source = ", predicted" * all(point.time_s is None for point in points)
    return f"{quantity} by bytes{source}: {'; '.join(sentences)}"
