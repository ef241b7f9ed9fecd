"""Predicted against measured: a point for each timed program, both axes logarithmic."""

from collections.abc import Sequence

from spmd_core.base import seconds_text
from spmd_core.time import Pair
from spmd_lab.ui.charts.base import SECONDS, Row, Spec, hover, layer, layered, quantity, unit

_HEIGHT_PX, _ROOM = 360, 1.25
_BAND = 1.25  # the dotted lines: predicted that many times too long, or too short
_LINE: Spec = {"type": "line", "clip": True, "strokeWidth": 1.5, "opacity": 0.6}
_POINT: Spec = {"type": "point", "filled": True, "size": 55, "opacity": 0.75}


def beside_chart(pairs: Sequence[Pair]) -> Spec:
    """On the line where predicted is as measured; dotted, 25 % off."""
    both = [seconds for each in pairs for seconds in (each.predicted_s, each.measured_s)]
    size, name = unit(both, SECONDS)
    ends = min(both) / size / _ROOM, max(both) / size * _ROOM
    axes = {
        channel: quantity(
            field,
            title=f"{field} ({name})",
            scale={"type": "log", "domain": list(ends), "nice": False},
            axis={"format": "~g", "tickCount": 5},
        )
        for channel, field in (("x", "measured"), ("y", "predicted"))
    }
    lines = [
        layer(
            [{"measured": end, "predicted": end * factor} for end in ends],
            _LINE | {"strokeDash": dash},
            **axes,
        )
        for factor, dash in ((1.0, [1, 0]), (_BAND, [3, 4]), (1 / _BAND, [3, 4]))
    ]
    tooltip = hover(
        name="program",
        measured_text="measured",
        predicted_text="predicted",
        error="error",
        run="run",
    )
    points = layer([_point(each, size) for each in pairs], _POINT, **axes, tooltip=tooltip)
    return layered([*lines, points], _HEIGHT_PX)


def _point(pair: Pair, size: float) -> Row:
    """A timed program, in units of `size` seconds."""
    return {
        "measured": pair.measured_s / size,
        "predicted": pair.predicted_s / size,
        "name": pair.name,
        "run": pair.run,
        "measured_text": seconds_text(pair.measured_s),
        "predicted_text": seconds_text(pair.predicted_s),
        "error": f"{pair.error:+.0%}",
    }
