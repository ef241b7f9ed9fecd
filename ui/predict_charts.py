"""Predictions to charts: where the time goes, the timeline of the schedule, the torus."""

from typing import Any

from spmd_core.prediction import Prediction
from spmd_core.topologies import Topology
from spmd_core.units import seconds_text
from ui.charts import CONFIG, SECONDS, Spec, unit

MAX_DRAWN = 400  # segments, and chips


def shares_chart(prediction: Prediction) -> Spec:
    """One bar of the estimate, by what takes it."""
    size, name = unit([sum(prediction.shares_s.values())], SECONDS)
    largest = sorted(prediction.shares_s.items(), key=lambda item: -item[1])
    values = [{"part": part, "x": time / size, "time": seconds_text(time)} for part, time in largest]
    order = [value["part"] for value in values]
    encoding = {
        "x": {"field": "x", "type": "quantitative", "title": f"estimate of a step ({name})", "stack": True},
        "color": {"field": "part", "type": "nominal", "sort": order, "scale": {"domain": order}, "legend": {"orient": "top", "title": None}},
        "tooltip": [{"field": "part"}, {"field": "time"}],
    }
    return {"layer": [{"data": {"values": values}, "mark": {"type": "bar", "height": 26}, "encoding": encoding}], "height": 50, "config": CONFIG}


def places(prediction: Prediction) -> list[str]:
    """Computations that the timeline can show, the longest first."""
    totals: dict[str, float] = {}
    for segment in prediction.timeline:
        if segment.kind != "loop":
            totals[segment.place] = totals.get(segment.place, 0.0) + segment.duration_s * segment.count
    return sorted(totals, key=lambda place: -totals[place])


def timeline_chart(prediction: Prediction, place: str) -> Spec:
    """One iteration of a computation: the chip and the links, each on its row."""
    found = sorted((s for s in prediction.timeline if s.place == place), key=lambda s: -s.duration_s)[:MAX_DRAWN]
    size, name = unit([max((s.start_s + s.duration_s for s in found), default=0.0)], SECONDS)
    values = [{"track": s.track, "kind": s.kind, "from": s.start_s / size, "to": (s.start_s + s.duration_s) / size, "name": s.name,
               "time": seconds_text(s.duration_s), "count": s.count, "detail": s.detail[-90:]} for s in found]
    tracks = sorted({value["track"] for value in values}, key=lambda track: (track != "chip", track))
    encoding: dict[str, Any] = {
        "x": {"field": "from", "type": "quantitative", "title": f"time within one iteration ({name})"},
        "x2": {"field": "to"},
        "y": {"field": "track", "type": "nominal", "sort": tracks, "title": None, "scale": {"domain": tracks}, "axis": {"labelLimit": 160}},
        "color": {"field": "kind", "type": "nominal", "legend": {"orient": "top", "title": None}},
        "tooltip": [{"field": each} for each in ("name", "kind", "time", "count", "detail")],
    }
    bar = {"type": "bar", "height": {"band": 0.7}, "stroke": "white", "strokeWidth": 0.3}
    return {"layer": [{"data": {"values": values}, "mark": bar, "encoding": encoding}], "height": {"step": 30}, "config": CONFIG}


def torus_chart(topology: Topology) -> Spec:
    """Chips of one slice and the links between them; wraparound links drawn as stubs beyond the edge. Layers of a cube lie side by side."""
    x, y, *rest = topology.shape
    layers = min(rest[0] if rest else 1, 4)
    chips = [{"x": i + k * (x + 1.5), "y": j, "chip": f"({i}, {j}{f', {k}' if rest else ''})"}
             for k in range(layers) for i in range(x) for j in range(y)]
    links = []
    for k in range(layers):
        shift = k * (x + 1.5)
        links += [{"x": i + shift, "y": j, "x2": i + 1 + shift, "y2": j, "kind": "link"} for i in range(x - 1) for j in range(y)]
        links += [{"x": i + shift, "y": j, "x2": i + shift, "y2": j + 1, "kind": "link"} for i in range(x) for j in range(y - 1)]
        if topology.wraps[0]:
            links += [{"x": at + shift, "y": j, "x2": at + step + shift, "y2": j, "kind": "wraparound"}
                      for j in range(y) for at, step in ((0, -0.6), (x - 1, 0.6))]
        if topology.wraps[1]:
            links += [{"x": i + shift, "y": at, "x2": i + shift, "y2": at + step, "kind": "wraparound"}
                      for i in range(x) for at, step in ((0, -0.6), (y - 1, 0.6))]
    axis = {"axis": None, "type": "quantitative", "scale": {"nice": False, "zero": False}}
    ends = {"x": {"field": "x", **axis}, "y": {"field": "y", **axis}, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
    kinds = {"field": "kind", "type": "nominal", "scale": {"domain": ["link", "wraparound"], "range": ["#8a8f98", "#d9730d"]},
             "legend": {"orient": "top", "title": None}}
    lines = {"data": {"values": links}, "mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": ends | {"color": kinds}}
    dots = {"data": {"values": chips}, "mark": {"type": "circle", "size": max(12, 160 // max(x, y)), "opacity": 1, "color": "#3b76c4"},
            "encoding": {"x": {"field": "x", **axis}, "y": {"field": "y", **axis}, "tooltip": [{"field": "chip"}]}}
    return {"layer": [lines, dots] if links else [dots], "height": min(260, 40 + 26 * y), "config": CONFIG}
