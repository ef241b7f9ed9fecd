"""Predictions to charts: the interval, where the time goes, memory against the capacity."""

from collections.abc import Iterable, Mapping

from spmd_core.base import bytes_text, seconds_text
from spmd_core.results import Estimate, PredictedMemory, Prediction
from spmd_core.words import KINDS, part_kind, parts
from spmd_lab.ui.charts import colors
from spmd_lab.ui.charts.base import (
    BYTES,
    INK,
    SECONDS,
    TOP,
    Row,
    Spec,
    category,
    hover,
    layer,
    layered,
    quantity,
    rows_axis,
    unit,
)

_FITS = {"fits": "#3b76c4", "more than there is": "#c9485b"}
_LIMIT = {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2}
_INTERVAL = {"type": "bar", "height": 18, "opacity": 0.35, "cornerRadius": 4, "color": "#3b76c4"}
_ESTIMATE = {"type": "tick", "thickness": 4, "height": 26, "color": "#5b93e0"}
_ABOVE = {"type": "text", "dy": -22, **INK}
_SHARES_LEGEND = TOP | {
    "columns": {"expr": "width < 380 ? 2 : 3"},
    "labelLimit": 260,
    "symbolStrokeWidth": 0,
}


def interval_chart(rows: Mapping[str, Estimate], measured_s: float | None = None) -> Spec:
    """Low to high as a bar, the estimate as a tick, a row for each name; where given, the measured
    time as a dashed line.
    """
    size, name = unit([row.estimate for row in rows.values()], SECONDS)
    values = [
        {
            "row": row,
            "low": time.low / size,
            "at": time.estimate / size,
            "high": time.high / size,
            "label": seconds_text(time.estimate),
            "low_text": seconds_text(time.low),
            "high_text": seconds_text(time.high),
            "span": f"{seconds_text(time.low)} to {seconds_text(time.high)}",
        }
        for row, time in rows.items()
    ]
    top = max(max(time.high for time in rows.values()), measured_s or 0.0) / size
    x = {
        field: _axis_to(1.12 * top, f"predicted time ({name})", field)
        for field in ("low", "at", "high", "measured")
    }
    y = _row_axis(rows)
    tips = {"y": y, "tooltip": hover(row="what", label="estimate", span="between")}
    layers = [
        layer(values, _INTERVAL, x=x["low"], x2={"field": "high"}, **tips),
        layer(values, _ESTIMATE, x=x["at"], **tips),
        layer(values, _ABOVE | {"fontWeight": 600}, x=x["at"], y=y, text={"field": "label"}),
        layer(values, _beside("left"), x=x["low"], y=y, text={"field": "low_text"}),
        layer(values, _beside("right"), x=x["high"], y=y, text={"field": "high_text"}),
    ]
    if measured_s:
        line = {"measured": measured_s / size, "label": f"measured {seconds_text(measured_s)}"}
        mark = _LIMIT | {"color": "#d9730d"}
        layers.append(layer([line], mark, x=x["measured"], tooltip=hover(label="your time")))
    return layered(layers, {"step": 62})


def _axis_to(top: float, title: str, field: str) -> Spec:
    return quantity(field, title=title, scale={"domain": [0, top], "nice": False})


def _row_axis(rows: Iterable[str]) -> Spec:
    """The y axis of these rows; of a single one, no axis."""
    labels = list(rows)
    return (
        rows_axis(labels) if len(labels) > 1 else {"field": "row", "type": "nominal", "axis": None}
    )


def _beside(side: str) -> Spec:
    """Text on this side of a bar's end."""
    place = {"align": "right", "dx": -6} if side == "left" else {"align": "left", "dx": 6}
    return {"type": "text", "opacity": 0.8, **place, **INK}


def shares_chart(rows: Mapping[str, Prediction]) -> Spec:
    """The estimate of each row as a bar, by what takes it: one color for all that is exposed."""
    sums = {row: sum(prediction.shares_s.values()) for row, prediction in rows.items()}
    size, name = unit(list(sums.values()), SECONDS)
    names = list(dict.fromkeys(part for prediction in rows.values() for part in parts(prediction)))
    values = [
        {
            "row": row,
            "part": part,
            "x": time / size,
            "time": seconds_text(time),
            "share": f"{time / (sums[row] or 1):.1%}",
            "at": names.index(part),
            "kind": KINDS[part_kind(part)],
        }
        for row, prediction in rows.items()
        for part, time in parts(prediction).items()
    ]
    kinds = [kind for kind in colors.KINDS if any(part_kind(part) == kind for part in names)]
    bars = layer(
        values,
        {"type": "bar", "height": 26, "stroke": "#80808066"},  # parts of one color stay apart
        x=quantity("x", title=f"estimate ({name})", stack=True),
        y=_row_axis(rows),
        color=category(
            "kind",
            [KINDS[kind] for kind in kinds],
            legend=_SHARES_LEGEND,
            colors=[colors.KINDS[kind] for kind in kinds],
        ),
        order=quantity("at"),
        tooltip=hover(part="part", time="time", share="share"),
        detail={"field": "part"},
    )
    return layered([bars], {"step": 46})


def memory_chart(rows: Mapping[str, PredictedMemory]) -> Spec:
    """The peak of each row against what a program may use of the device."""
    limits = sorted({row.capacity for row in rows.values()})
    size, name = unit([limits[-1]], BYTES)
    values = [_memory_row(row, memory, size) for row, memory in rows.items()]
    ends: list[Row] = [
        {"limit": limit / size, "words": f"{bytes_text(limit)} may be used"} for limit in limits
    ]
    top = 1.15 * max(limits[-1], *(row.peak or 0 for row in rows.values())) / size
    title = f"peak memory per device ({name})"
    x, limit = _axis_to(top, title, "x"), _axis_to(top, title, "limit")
    y = _row_axis(rows)
    bar = {"type": "bar", "height": 20, "cornerRadiusEnd": 3}
    text = {"type": "text", "align": "left", "dx": 6, **INK}
    color = category("fits", list(_FITS), colors=list(_FITS.values()))
    above = _ABOVE | {"dx": -6, "align": "right"}
    layers = [
        layer(values, bar, x=x, y=y, color=color, tooltip=hover(peak="peak", of="that is")),
        layer(ends, above, x=limit, text={"field": "words"}),
        layer(ends, _LIMIT | INK, x=limit, tooltip=[{"field": "words"}]),
        layer(values, text, x=x, y=y, text={"field": "peak"}),
    ]
    return layered(layers, {"step": 56})


def _memory_row(row: str, memory: PredictedMemory, size: float) -> Row:
    peak = memory.peak or 0
    return {
        "row": row,
        "x": peak / size,
        "peak": bytes_text(memory.peak),
        "fits": "more than there is" if memory.missing else "fits",
        "of": f"{peak / memory.capacity:.0%} of {bytes_text(memory.capacity)}",
    }
