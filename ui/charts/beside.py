"""Predicted against measured: a point for each timed program, both axes logarithmic."""

from collections.abc import Sequence

from spmd_core.base import seconds_text
from spmd_core.time import Pair
from ui.charts.base import CONFIG, SECONDS, Spec, unit

_HEIGHT_PX, _ROOM = 360, 1.25
_BAND = 1.25  # the dotted lines: predicted that many times too long, or too short


def beside_chart(pairs: Sequence[Pair]) -> Spec:
    """On the line where predicted is as measured; dotted, 25 % off."""
    both = [seconds for each in pairs for seconds in (each.predicted_s, each.measured_s)]
    size, name = unit(both, SECONDS)
    low, high = min(both) / size / _ROOM, max(both) / size * _ROOM
    scale = {"type": "log", "domain": [low, high], "nice": False}
    x, y = (
        {
            "field": field,
            "type": "quantitative",
            "title": f"{field} ({name})",
            "scale": scale,
            "axis": {"format": "~g", "tickCount": 5},
        }
        for field in ("measured", "predicted")
    )
    rows = [
        {
            "measured": each.measured_s / size,
            "predicted": each.predicted_s / size,
            "name": each.name,
            "run": each.run,
            "is": seconds_text(each.measured_s),
            "said": seconds_text(each.predicted_s),
            "off": f"{each.error:+.0%}",
        }
        for each in pairs
    ]
    lines = [
        {
            "data": {"values": [{"measured": at, "predicted": at * factor} for at in (low, high)]},
            "mark": {
                "type": "line",
                "clip": True,
                "strokeWidth": 1.5,
                "opacity": 0.6,
                "strokeDash": dash,
            },
            "encoding": {"x": x, "y": y},
        }
        for factor, dash in ((1.0, [1, 0]), (_BAND, [3, 4]), (1 / _BAND, [3, 4]))
    ]
    points = {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "size": 55, "opacity": 0.75},
        "encoding": {
            "x": x,
            "y": y,
            "tooltip": [
                {"field": field, "title": title}
                for field, title in (
                    ("name", "program"),
                    ("is", "measured"),
                    ("said", "predicted"),
                    ("off", "error"),
                    ("run", "run"),
                )
            ],
        },
    }
    return {"layer": [*lines, points], "height": _HEIGHT_PX, "config": CONFIG}
