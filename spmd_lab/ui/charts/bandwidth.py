"""A sweep of collectives as a chart: bandwidth or time over bytes, both logarithmic."""

import math
from collections.abc import Iterable, Sequence
from typing import cast

from spmd_core.base import by_key, bytes_text, seconds_text
from spmd_core.results import Point
from spmd_core.terms import half_sizes, kind_title, rate_words
from spmd_core.workloads import TRANSFERS
from spmd_lab.ui.charts import base
from spmd_lab.ui.charts.base import TOP, Row, Spec, as_is, category, hover, layer, layered

BUS, ALGORITHM, TIME = QUANTITIES = ("Bus bandwidth", "Algorithm bandwidth", "Time")
_TITLES = {BUS: "bus bandwidth (GB/s)", ALGORITHM: "algorithm bandwidth (GB/s)", TIME: "time (µs)"}
_UNITS = {BUS: 1e9, ALGORITHM: 1e9, TIME: 1e-6}
MEASURED, PREDICTED = "measured", "predicted"
_HEIGHT_PX = 210
Points = Sequence[Point]
Ends = tuple[tuple[float, float], tuple[float, float]]  # of the x axis, of the y axis


def ends_of(points: Points, quantity: str) -> Ends:
    """Returns the first and the last value of both axes of charts that are compared."""
    rows = [
        (float(point.bytes), _value(point, seconds, quantity) / _UNITS[quantity])
        for point in points
        if (seconds := point.time_s or point.predicted_s)
    ]
    x, y = zip(*rows, strict=True) if rows else ((1.0,), (1.0,))
    return (min(x), max(x)), (min(y), max(y))


def sweep_chart(
    points: Points,
    beside: Points,
    quantity: str,
    other: str = "",
    *,
    ends: Ends | None = None,
    is_small: bool = False,
) -> Spec:
    """Returns a line for each kind: measured with points, predicted dashed, those of the `other` one
    dotted; a rule from which size on half of the highest bandwidth is reached. `ends`: of the axes.
    """
    lead = MEASURED if any(each.time_s for each in points) else PREDICTED
    rows = [
        row
        for line, of in ((MEASURED, points), (PREDICTED, points), (other, beside))
        for row in _rows(of, line, quantity, lead)
    ]
    measured = [row for row in rows if row["line"] != PREDICTED]
    halves = [{**each, "ink": _OWN} for each in _halves(points, quantity)]
    drawn, kinds = ({row[name]: None for row in rows} for name in ("line", "kind"))
    dashes = {name: e for name, e in (_DASHES | {other: [2, 2]}).items() if name in drawn}
    legend = TOP if len(dashes) > 1 and len(kinds) > _NAMED else None
    dash = category("line", list(dashes), legend=legend, colors=list(dashes.values()))
    x, y = _axes(ends or ends_of([*points, *beside], quantity), quantity, is_small)
    color = category("kind", list(kinds), legend=_KINDS if len(kinds) > _NAMED else None)
    shown = as_is("ink") if len(kinds) == 1 and len(dashes) > 1 else color
    layers = [
        layer(rows, _LINE, x=x, y=y, color=shown, strokeDash=dash),
        layer(measured or rows, _POINT, x=x, y=y, color=shown, tooltip=_HOVER),
        *_half_marks(halves, x=x, y=y, color=shown),
    ]
    heading = _HEADING | {"text": " ".join(map(str, kinds))}
    if is_small:
        layers += _end_names(rows, lead, x=x, y=y, color=shown)
        return layered(layers, _SMALL_PX, title=heading)
    if len(kinds) <= _NAMED:
        layers += _names(rows, PREDICTED if measured else "", quantity, x=x, y=y, color=shown)
        layers.append(layer(halves, _HALF_LABEL, x=x, color=shown, text={"field": "label"}))
    return layered(layers, _HEIGHT_PX, **({"title": heading} if len(kinds) == 1 else {}))


def _half_marks(halves: Sequence[Row], **channels: Spec) -> list[Spec]:
    """A rule and a larger point from which on half of the highest bandwidth is reached."""
    rule = channels | {"y2": {"value": "height"}}
    return [
        layer(halves, _HALF, **rule, tooltip=_HALF_HOVER),
        layer(halves, _POINT | {"size": 110}, **channels, tooltip=_HALF_HOVER),
    ]


def _axes(ends: Ends, quantity: str, is_small: bool) -> tuple[Spec, Spec]:
    titles = (None, None) if is_small else ("bytes per device", _TITLES[quantity])
    of_bytes = _BYTES_AXIS | ({"tickCount": 3} if is_small else {})
    across, up = ends
    x_scale = _BYTES_SCALE | {"domain": across}
    x = base.quantity("bytes", title=titles[0], scale=x_scale, axis=of_bytes)
    decades = _decades(up)
    y_scale = {"type": "log", "domain": _around(up, decades)}
    return x, base.quantity("y", title=titles[1], scale=y_scale, axis={"format": ".3~g"} | decades)


def _end_names(rows: Sequence[Row], lead: str, **channels: Spec) -> list[Spec]:
    """The highest value of each line: above what leads, below the others."""
    lines = by_key((row["line"], row) for row in rows).values()
    tops = ((line[-1], max(line, key=lambda row: cast(float, row["y"]))) for line in lines)
    return [
        layer(
            [row],
            _END
            | {
                "dy": -10 if row["line"] == lead else 15,
                "align": "right" if row is last else "center",
            },
            **channels,
            text={"field": "shown"},
        )
        for last, row in tops
    ]


def _decades(values: Sequence[float]) -> Spec:
    if not values or max(values) < 100 * min(values):
        return {"tickCount": 6}
    first, last = (math.floor(math.log10(each)) for each in (min(values), max(values)))
    return {"values": [10.0**power for power in range(first, last + 2)]}


def _names(rows: Sequence[Row], under: str, quantity: str, **channels: Spec) -> list[Spec]:
    placed: dict[tuple[bool, bool], list[Row]] = {}
    last = max((cast(int, row["bytes"]) for row in rows), default=0)
    is_one = len({row["kind"] for row in rows}) == 1
    for row in _labels(rows, quantity):
        is_end = _NEAR * cast(int, row["bytes"]) > last
        placed.setdefault((row["line"] == under, is_end), []).append(row)
    return [
        layer(
            listed,
            _END | {"dy": 16 if below else -12, "align": "right" if is_end else "center"},
            **channels,
            text={"field": "of_one" if is_one else "label"},
        )
        for (below, is_end), listed in placed.items()
    ]


def _labels(rows: Iterable[Row], quantity: str) -> list[Row]:
    lines: dict[tuple[object, object], list[Row]] = {}
    for row in rows:
        lines.setdefault((row["kind"], row["line"]), []).append(row)
    return [
        {**top, "of_one": of_one, "label": f"{top['kind']}, {of_one}"}
        for line in lines.values()
        for top in [
            line[-1] if quantity == TIME else max(line, key=lambda row: cast(float, row["y"]))
        ]
        for of_one in [f"{top['line']} {top['shown']} at {top['size']}"]
    ]


def _around(ends: tuple[float, float], ticks: Spec) -> tuple[float, float]:
    """The ends of an axis: its outer ticks where these are decades, with room for a label."""
    decades = ticks.get("values") or (ends[0], ends[1])
    return min(decades[0], ends[0]), max(decades[-2 if ticks.get("values") else -1], 1.4 * ends[1])


_LINE = {"type": "line", "strokeWidth": 2, "opacity": 0.85}
_POINT = {"type": "point", "filled": True, "size": 45}
_SMALL_PX = 110
_KINDS = TOP | {"columns": 2, "symbolStrokeWidth": 3}
_HEADING = {"anchor": "start", "fontSize": 13, "fontWeight": 600, "offset": 14}
_HALF = {"type": "rule", "strokeDash": [2, 3], "opacity": 0.6}
BYTES_LABELS = (  # of an axis
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : "
    "datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : "
    "datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)
_BYTES_SCALE = {"type": "log", "base": 2, "nice": False}
_BYTES_AXIS = {"labelExpr": BYTES_LABELS, "tickCount": 8}
_NAMED = 2  # kinds that are named at the ends of their lines, in place of a legend
_END = {"type": "text", "fontWeight": 600}
_NEAR = 32  # times a size that is beyond the last one: its name would leave the chart
_LEFT = "scale('x', datum.bytes) < width - 190"  # whether the label has room to the right
_HALF_LABEL = {"type": "text", "y": {"expr": "height - 12"}} | {
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
                "kind": kind_title(point.kind),
                "line": line,
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
    heights = {
        (point.kind, point.bytes): _value(point, seconds, quantity) / _UNITS[quantity]
        for point in points
        if (seconds := point.time_s or point.predicted_s)
    }
    return [
        {
            "kind": kind_title(kind),
            "bytes": sizes[0],
            "y": heights[kind, sizes[0]],
            "size": bytes_text(sizes[0]),
            "label": f"half at {bytes_text(sizes[0])}",
        }
        for kind, listed in by_key((point.kind, point) for point in points).items()
        if (sizes := half_sizes(listed)) is not None
    ]


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
