"""Predictions to charts: the interval, where the time goes, the timeline of the schedule, memory
against what there is.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from spmd_core.results.prediction import Estimate, PredictedMemory, Prediction, TimelineSegment
from spmd_core.units import bytes_text, seconds_text
from spmd_core.words.predictions import KINDS, parts
from ui.charts.base import BYTES, CONFIG, INK, SECONDS, Spec, rows_axis, unit

MAX_DRAWN = 500  # segments of the timeline
WORK = ("matmul", "kernel", "memory", "loop")
_COLORS = {  # on light and dark alike, in the order of the legend
    "matmul": "#3b76c4", "kernel": "#7a5cc7", "memory": "#5aa6a0", "hidden": "#a9b4c2",
    "exposed": "#d9730d", "wait": "#c9485b", "loop": "#6c7686",
}
_SHADES = {
    "exposed all-gather": "#d9730d", "exposed reduce-scatter": "#e8a15c",
    "exposed all-reduce": "#b4541a", "exposed all-to-all": "#f0c27b",
    "exposed collective-permute": "#96611f", "waiting for copies": "#c9485b",
    "waiting for the host": "#e08a96",
}


def interval_chart(rows: Mapping[str, Estimate], measured_s: float | None = None) -> Spec:
    """Low to high as a bar, the estimate as a tick, a row for each name; where given, the measured
    time as a dashed line.
    """
    size, name = unit([row.estimate for row in rows.values()], SECONDS)
    values = [{"row": row, "low": time.low / size, "at": time.estimate / size,
               "high": time.high / size, "label": seconds_text(time.estimate),
               "span": f"{seconds_text(time.low)} to {seconds_text(time.high)}"}
              for row, time in rows.items()]
    top = max([value["high"] for value in values] + ([measured_s / size] if measured_s else []))
    x = {"type": "quantitative", "title": f"predicted time ({name})",
         "scale": {"domain": [0, 1.12 * top], "nice": False}}
    y = rows_axis(list(rows)) if len(rows) > 1 else {"field": "row", "type": "nominal",
                                                     "axis": None}
    hover = [{"field": "row", "title": "what"}, {"field": "label", "title": "estimate"},
             {"field": "span", "title": "between"}]
    data = {"values": values}
    layers: list[dict[str, Any]] = [{"data": data,
                                     "mark": {"type": "bar", "height": 18, "opacity": 0.35,
                                              "cornerRadius": 4, "color": "#3b76c4"},
                                     "encoding": {"x": x | {"field": "low"},
                                                  "x2": {"field": "high"}, "y": y,
                                                  "tooltip": hover}},
                                    {"data": data,
                                     "mark": {"type": "tick", "thickness": 4, "height": 26,
                                              "color": "#5b93e0"},
                                     "encoding": {"x": x | {"field": "at"}, "y": y,
                                                  "tooltip": hover}},
                                    {"data": data,
                                     "mark": {"type": "text", "dy": -22, "fontWeight": 600, **INK},
                                     "encoding": {"x": x | {"field": "at"}, "y": y,
                                                  "text": {"field": "label"}}},
                                    *(_end(data, x, y, field, side)
                                      for field, side in (("low", "right"), ("high", "left"))),]
    if measured_s:
        line = {"values": [{"x": measured_s / size,
                            "label": f"measured {seconds_text(measured_s)}"}]}
        layers.append({"data": line,
                       "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2,
                                "color": "#d9730d"},
                       "encoding": {"x": x | {"field": "x"},
                                    "tooltip": [{"field": "label", "title": "your time"}]}})
    return {"layer": layers, "height": {"step": 62}, "config": CONFIG}


def _end(data: dict[str, Any], x: dict[str, Any], y: dict[str, Any], field: str,
         align: str) -> dict[str, Any]:
    """The number at an end of the bar."""
    values = [row | {"end": row["span"].split(" to ")[field == "high"]} for row in data["values"]]
    mark = {"type": "text", "align": align, "dx": -6 if align == "right" else 6, **INK,
            "opacity": 0.8}
    return {"data": {"values": values}, "mark": mark,
            "encoding": {"x": x | {"field": field}, "y": y, "text": {"field": "end"}}}


def _color(part: str) -> str:
    known = {words: _COLORS[kind] for kind, words in KINDS.items()}
    return known.get(part) or _SHADES.get(part, "#8a8f98")


def shares_chart(rows: Mapping[str, Prediction]) -> Spec:
    """The estimate of each row as a bar, by what takes it."""
    sums = {row: sum(prediction.shares_s.values()) for row, prediction in rows.items()}
    size, name = unit(list(sums.values()), SECONDS)
    names = list(dict.fromkeys(part for prediction in rows.values() for part in parts(prediction)))
    values = [{"row": row, "part": part, "x": time / size, "time": seconds_text(time),
               "share": f"{time / (sums[row] or 1):.1%}", "at": names.index(part)}
              for row, prediction in rows.items() for part, time in parts(prediction).items()]
    encoding: dict[str,
                   Any] = {"x": {"field": "x", "type": "quantitative",
                                 "title": f"estimate ({name})", "stack": True},
                           "y": rows_axis(list(rows)) if len(rows) > 1
                           else {"field": "row", "type": "nominal", "axis": None},
                           "color": {"field": "part", "type": "nominal", "sort": names,
                                     "scale": {"domain": names,
                                               "range": [_color(part) for part in names]},
                                     "legend": {"orient": "top", "title": None, "columns": 3,
                                                "labelLimit": 260}},
                           "order": {"field": "at", "type": "quantitative"},
                           "tooltip": [{"field": "part", "title": "part"},
                                       {"field": "time", "title": "time"},
                                       {"field": "share", "title": "share"}],}
    return {"layer": [{"data": {"values": values}, "mark": {"type": "bar", "height": 26},
                       "encoding": encoding}], "height": {"step": 46}, "config": CONFIG}


def places(prediction: Prediction) -> dict[str, str]:
    """Computations that the timeline can show, the longest first, and what to call each."""
    totals: dict[str, float] = {}
    counts: dict[str, int] = {}
    for segment in prediction.timeline:
        if segment.kind != "loop" and segment.track == "chip":
            totals[segment.place] = totals.get(segment.place,
                                               0.0) + segment.duration_s * segment.count
            counts[segment.place] = max(counts.get(segment.place, 0), segment.count)
    found = {}
    for place in sorted(totals, key=lambda place: -totals[place]):
        times = f"one iteration of a loop of {counts[place]:,}" if counts[
            place] > 1 else "outside the loops"
        found[place] = f"{times}, {seconds_text(totals[place])} in all"
    return found


def split_exposed(segments: Sequence[TimelineSegment],
                  hidden: Collection[str] = ()) -> list[tuple[TimelineSegment, str, float, float]]:
    """Stretches of a place as (segment, kind, start, end), communication cut into what the chip
    works under and what it stands still for.

    `hidden` names collectives that nothing waits for. Gaps of the chip below a hundredth of the
    whole are operations too short to be drawn.
    """
    whole = max((s.start_s + s.duration_s for s in segments), default=0.0)
    busy = sorted((s.start_s, s.start_s + s.duration_s) for s in segments
                  if s.track == "chip" and s.kind in WORK)
    still = [(low, high) for low, high in _between(busy, whole) if high - low > 0.01 * whole]
    found = []
    for segment in segments:
        start, end = segment.start_s, segment.start_s + segment.duration_s
        if segment.track == "chip":
            found.append((segment, segment.kind if segment.kind in WORK else "wait", start, end))
            continue
        at = start
        for low, high in () if segment.name in hidden else still:
            low, high = max(low, start), min(high, end)
            if high > low:
                found += [(segment, "hidden", at, low)] if low > at else []
                found.append((segment, "exposed", low, high))
                at = high
        found += [(segment, "hidden", at, end)] if at < end else []
    return found


def _between(busy: Sequence[tuple[float, float]], whole: float) -> list[tuple[float, float]]:
    """The gaps that sorted stretches leave of [0, whole]."""
    gaps, at = [], 0.0
    for low, high in busy:
        if low > at:
            gaps.append((at, low))
        at = max(at, high)
    return [*gaps, (at, whole)] if at < whole else gaps


def track_words(track: str) -> str:
    """A row of the timeline, e.g. `ici x++ici x-` is `links x`."""
    if track == "chip":
        return "chip"
    axes = [name for name in "xyz" if f"ici {name}" in track]
    named = {"dcn": "between slices", "core": "within a chip", "host in": "from the host",
             "host out": "to the host", "copy": "copies"}
    other = [words for part, words in named.items() if part in track.split("+")]
    return ", ".join(([f"links along {', '.join(axes)}"] if axes else []) + other) or track


def timeline_chart(prediction: Prediction, place: str) -> Spec:
    """One pass through a computation: the chip on one row, links on others, exposed communication
    in orange.
    """
    held = sorted((s for s in prediction.timeline if s.place == place),
                  key=lambda s: -s.duration_s)[:MAX_DRAWN]
    size, name = unit([max((s.start_s + s.duration_s for s in held), default=0.0)], SECONDS)
    details = {each.name: each for each in prediction.collectives}
    values = []
    hidden = [each.name or "" for each in prediction.collectives
              if each.exposed_in_all_s <= 0.005 * each.total_s]
    for segment, kind, start, end in split_exposed(held, hidden):
        collective = details.get(segment.name)
        over = f"over {', '.join(collective.axes)}" if collective and collective.axes else ""
        what = segment.kind if segment.track != "chip" else KINDS.get(segment.kind, segment.kind)
        values.append({"track": track_words(segment.track), "kind": KINDS[kind],
                       "from": start / size, "to": end / size,
                       "what": " ".join(part for part in (what, over) if part),
                       "name": segment.name, "time": seconds_text(segment.duration_s),
                       "times": f"{segment.count:,}",
                       "how": (collective.algorithm if collective else "") or "–",
                       "detail": ((collective.route or "") if collective
                                  else segment.detail)[-90:]})
    tracks = sorted({value["track"] for value in values},
                    key=lambda track: (track != "chip", track))
    shown = [words for words in KINDS.values() if any(value["kind"] == words for value in values)]
    encoding: dict[str,
                   Any] = {"x": {"field": "from", "type": "quantitative",
                                 "title": f"time since it begins ({name})",
                                 "scale": {"nice": False}}, "x2": {"field": "to"},
                           "y": {"field": "track", "type": "nominal", "sort": tracks, "title": None,
                                 "scale": {"domain": tracks},
                                 "axis": {"labelLimit": 150, "ticks": False, "domain": False}},
                           "color": {"field": "kind", "type": "nominal", "sort": shown,
                                     "scale": {"domain": shown,
                                               "range": [_color(words) for words in shown]},
                                     "legend": {"orient": "top", "title": None, "columns": 3,
                                                "labelLimit": 260, "symbolType": "square",
                                                "symbolStrokeWidth": 0}},
                           "tooltip": [{"field": "what"}, {"field": "name"},
                                       {"field": "time", "title": "takes"},
                                       {"field": "times", "title": "times in a step"},
                                       {"field": "how", "title": "algorithm"},
                                       {"field": "detail", "title": "over, from"}],}
    bar = {"type": "bar", "height": {"band": 0.72}}  # no stroke: the legend's boxes would get it
    return {"layer": [{"data": {"values": values}, "mark": bar, "encoding": encoding}],
            "height": {"step": 42}, "config": CONFIG}


def memory_chart(rows: Mapping[str, PredictedMemory]) -> Spec:
    """The peak of each row against what a program may use of the device."""
    capacity = max(row.capacity for row in rows.values())
    size, name = unit([capacity], BYTES)
    values = [{"row": row, "x": (held.peak or 0) / size, "peak": bytes_text(held.peak),
               "fits": "more than there is" if held.missing else "fits",
               "of": f"{(held.peak or 0) / held.capacity:.0%} of {bytes_text(held.capacity)}"}
              for row, held in rows.items()]
    top = 1.15 * max([capacity / size] + [value["x"] for value in values])
    x = {"type": "quantitative", "title": f"peak memory per device ({name})",
         "scale": {"domain": [0, top], "nice": False}}
    y = rows_axis(list(rows)) if len(rows) > 1 else {"field": "row", "type": "nominal",
                                                     "axis": None}
    color = {"field": "fits", "type": "nominal", "legend": None,
              "scale": {"domain": ["fits", "more than there is"], "range": ["#3b76c4", "#c9485b"]}}
    limits = sorted({held.capacity for held in rows.values()})
    ends = [{"limit": limit / size, "words": f"{bytes_text(limit)} may be used"}
            for limit in limits]
    return {"layer": [{"data": {"values": values},
                       "mark": {"type": "bar", "height": 20, "cornerRadiusEnd": 3},
                       "encoding": {"x": x | {"field": "x"}, "y": y, "color": color,
                                    "tooltip": [{"field": "peak", "title": "peak"},
                                                {"field": "of", "title": "that is"}]}},
                      {"data": {"values": ends},
                       "mark": {"type": "text", "dy": -22, "dx": -6, "align": "right", **INK},
                       "encoding": {"x": x | {"field": "limit"}, "text": {"field": "words"}}},
                      {"data": {"values": ends},
                       "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2, **INK},
                       "encoding": {"x": x | {"field": "limit"}, "tooltip": [{"field": "words"}]}},
                      {"data": {"values": values},
                       "mark": {"type": "text", "align": "left", "dx": 6, **INK},
                       "encoding": {"x": x | {"field": "x"}, "y": y, "text": {"field": "peak"}}},],
            "height": {"step": 56}, "config": CONFIG}
