"""Predictions to charts: the interval, where the time goes, memory against what there is."""

from collections.abc import Mapping
from typing import Any

from spmd_core.base import bytes_text, seconds_text
from spmd_core.results import Estimate, PredictedMemory, Prediction
from spmd_core.words import KINDS, part_kind, parts
from ui.charts import colors
from ui.charts.base import BYTES, CONFIG, INK, SECONDS, Spec, rows_axis, unit


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
            "span": f"{seconds_text(time.low)} to {seconds_text(time.high)}",
        }
        for row, time in rows.items()
    ]
    top = max([value["high"] for value in values] + ([measured_s / size] if measured_s else []))
    x = {
        "type": "quantitative",
        "title": f"predicted time ({name})",
        "scale": {"domain": [0, 1.12 * top], "nice": False},
    }
    y = (
        rows_axis(list(rows))
        if len(rows) > 1
        else {"field": "row", "type": "nominal", "axis": None}
    )
    hover = [
        {"field": "row", "title": "what"},
        {"field": "label", "title": "estimate"},
        {"field": "span", "title": "between"},
    ]
    data = {"values": values}
    layers: list[dict[str, Any]] = [
        {
            "data": data,
            "mark": {
                "type": "bar",
                "height": 18,
                "opacity": 0.35,
                "cornerRadius": 4,
                "color": "#3b76c4",
            },
            "encoding": {
                "x": x | {"field": "low"},
                "x2": {"field": "high"},
                "y": y,
                "tooltip": hover,
            },
        },
        {
            "data": data,
            "mark": {"type": "tick", "thickness": 4, "height": 26, "color": "#5b93e0"},
            "encoding": {"x": x | {"field": "at"}, "y": y, "tooltip": hover},
        },
        {
            "data": data,
            "mark": {"type": "text", "dy": -22, "fontWeight": 600, **INK},
            "encoding": {"x": x | {"field": "at"}, "y": y, "text": {"field": "label"}},
        },
        *(_end(data, x, y, field, side) for field, side in (("low", "right"), ("high", "left"))),
    ]
    if measured_s:
        line = {
            "values": [{"x": measured_s / size, "label": f"measured {seconds_text(measured_s)}"}]
        }
        layers.append(
            {
                "data": line,
                "mark": {
                    "type": "rule",
                    "strokeDash": [5, 4],
                    "strokeWidth": 2,
                    "color": "#d9730d",
                },
                "encoding": {
                    "x": x | {"field": "x"},
                    "tooltip": [{"field": "label", "title": "your time"}],
                },
            }
        )
    return {"layer": layers, "height": {"step": 62}, "config": CONFIG}


def _end(
    data: dict[str, Any], x: dict[str, Any], y: dict[str, Any], field: str, align: str
) -> dict[str, Any]:
    """The number at an end of the bar."""
    values = [row | {"end": row["span"].split(" to ")[field == "high"]} for row in data["values"]]
    mark = {
        "type": "text",
        "align": align,
        "dx": -6 if align == "right" else 6,
        **INK,
        "opacity": 0.8,
    }
    return {
        "data": {"values": values},
        "mark": mark,
        "encoding": {"x": x | {"field": field}, "y": y, "text": {"field": "end"}},
    }


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
    shown = [KINDS[kind] for kind in kinds]
    encoding: dict[str, Any] = {
        "x": {"field": "x", "type": "quantitative", "title": f"estimate ({name})", "stack": True},
        "y": rows_axis(list(rows))
        if len(rows) > 1
        else {"field": "row", "type": "nominal", "axis": None},
        "color": {
            "field": "kind",
            "type": "nominal",
            "sort": shown,
            "scale": {"domain": shown, "range": [colors.KINDS[kind] for kind in kinds]},
            "legend": {
                "orient": "top",
                "title": None,
                "columns": {"expr": "width < 380 ? 2 : 3"},
                "labelLimit": 260,
                "symbolStrokeWidth": 0,
            },
        },
        "order": {"field": "at", "type": "quantitative"},
        "tooltip": [
            {"field": "part", "title": "part"},
            {"field": "time", "title": "time"},
            {"field": "share", "title": "share"},
        ],
    }
    bar = {"type": "bar", "height": 26, "stroke": "#80808066"}  # parts of one color stay apart
    layer = {
        "data": {"values": values},
        "mark": bar,
        "encoding": encoding | {"detail": {"field": "part"}},
    }
    return {"layer": [layer], "height": {"step": 46}, "config": CONFIG}


def memory_chart(rows: Mapping[str, PredictedMemory]) -> Spec:
    """The peak of each row against what a program may use of the device."""
    capacity = max(row.capacity for row in rows.values())
    size, name = unit([capacity], BYTES)
    values = [
        {
            "row": row,
            "x": (held.peak or 0) / size,
            "peak": bytes_text(held.peak),
            "fits": "more than there is" if held.missing else "fits",
            "of": f"{(held.peak or 0) / held.capacity:.0%} of {bytes_text(held.capacity)}",
        }
        for row, held in rows.items()
    ]
    top = 1.15 * max([capacity / size] + [value["x"] for value in values])
    x = {
        "type": "quantitative",
        "title": f"peak memory per device ({name})",
        "scale": {"domain": [0, top], "nice": False},
    }
    y = (
        rows_axis(list(rows))
        if len(rows) > 1
        else {"field": "row", "type": "nominal", "axis": None}
    )
    color = {
        "field": "fits",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": ["fits", "more than there is"], "range": ["#3b76c4", "#c9485b"]},
    }
    limits = sorted({held.capacity for held in rows.values()})
    ends = [
        {"limit": limit / size, "words": f"{bytes_text(limit)} may be used"} for limit in limits
    ]
    return {
        "layer": [
            {
                "data": {"values": values},
                "mark": {"type": "bar", "height": 20, "cornerRadiusEnd": 3},
                "encoding": {
                    "x": x | {"field": "x"},
                    "y": y,
                    "color": color,
                    "tooltip": [
                        {"field": "peak", "title": "peak"},
                        {"field": "of", "title": "that is"},
                    ],
                },
            },
            {
                "data": {"values": ends},
                "mark": {"type": "text", "dy": -22, "dx": -6, "align": "right", **INK},
                "encoding": {"x": x | {"field": "limit"}, "text": {"field": "words"}},
            },
            {
                "data": {"values": ends},
                "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2, **INK},
                "encoding": {"x": x | {"field": "limit"}, "tooltip": [{"field": "words"}]},
            },
            {
                "data": {"values": values},
                "mark": {"type": "text", "align": "left", "dx": 6, **INK},
                "encoding": {"x": x | {"field": "x"}, "y": y, "text": {"field": "peak"}},
            },
        ],
        "height": {"step": 56},
        "config": CONFIG,
    }
