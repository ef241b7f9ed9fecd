"""The front of time against memory, as a Vega-Lite specification."""

from collections.abc import Sequence

from spmd_core.search.candidate import Candidate
from spmd_core.search.ranking import Ranked
from spmd_core.units import bytes_text, seconds_text
from ui.charts.base import BYTES, CONFIG, SECONDS, Spec, unit

MOST_POINTS = 400
_FRONT, _REST, _WINNER = "front", "others", "winner"


def front_chart(entries: Sequence[Ranked], front: Sequence[Candidate]) -> Spec | None:
    """Time against memory per device: the best candidates, with the front as a line; None where
    there are fewer than two.
    """
    on_front = {each.number for each in front}
    shown = [entry.candidate for entry in entries[:MOST_POINTS]
             if entry.candidate.number not in on_front] + list(front)
    known = front[0].fate if front else ""  # what was measured is not set beside estimates
    shown = [each for each in shown if each.seconds and each.memory_bytes and each.fate == known]
    if len(shown) < 2:
        return None
    size, name = unit([each.seconds or 0.0 for each in shown], SECONDS)
    byte, byte_name = unit([float(each.memory_bytes or 0) for each in shown], BYTES)
    first = entries[0].candidate.number
    rows = [{"x": (each.memory_bytes or 0) / byte, "y": (each.seconds or 0.0) / size,
             "kind": _WINNER if each.number == first else _FRONT if each.number in on_front
             else _REST, "name": each.name, "time": seconds_text(each.seconds),
             "memory": bytes_text(each.memory_bytes)} for each in shown]
    x = {"field": "x", "type": "quantitative", "title": f"Memory per device ({byte_name})",
         "scale": {"zero": False}}
    y = {"field": "y", "type": "quantitative", "title": f"Time ({name})", "scale": {"zero": False}}
    color = {"field": "kind", "type": "nominal", "title": None,
             "scale": {"domain": [_WINNER, _FRONT, _REST]}, "legend": {"orient": "top"}}
    tooltip = [{"field": "name", "title": "candidate"}, {"field": "time"}, {"field": "memory"}]
    line = [row for row in rows if row["kind"] != _REST and row["name"] in
            {each.name for each in front}]
    layers = [{"mark": {"type": "point", "filled": True, "size": 60},
               "data": {"values": rows},
               "encoding": {"x": x, "y": y, "color": color, "tooltip": tooltip}},
              {"mark": {"type": "line", "interpolate": "step-after", "opacity": 0.5},
               "data": {"values": line}, "encoding": {"x": x, "y": y}}]
    return {"layer": layers, "height": 280, "config": CONFIG}


def front_alt(front: Sequence[Candidate]) -> str:
    """The front in words."""
    return "Time against memory per device; on the front: " + "; ".join(
        f"{seconds_text(each.seconds)} with {bytes_text(each.memory_bytes)}" for each in front[:6])
