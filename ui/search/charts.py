"""The front of time against memory, as a Vega-Lite specification."""

from collections.abc import Sequence

from spmd_core.base import bytes_text, seconds_text
from spmd_core.search import Candidate, Ranked, score
from spmd_core.words import cost_title
from ui.charts.base import BYTES, CONFIG, SECONDS, Spec, unit

MOST_POINTS = 400
ALIKE = 1.01  # costs closer than this are the same: an axis of them would show rounding
_FRONT, _REST, _WINNER = "front", "others", "winner"


def front_chart(
    entries: Sequence[Ranked], front: Sequence[Candidate], price: dict[str, float] | None = None
) -> Spec | None:
    """Time against memory per device, or price: the best candidates, with the front as a line; None
    where all of them use the same to the eye, or there are fewer than two.
    """
    on_front = {each.number for each in front}
    shown = [
        entry.candidate for entry in entries[:MOST_POINTS] if entry.candidate.number not in on_front
    ] + list(front)
    known = front[0].fate if front else ""  # what was measured is not set beside estimates
    shown = [each for each in shown if each.seconds and each.memory_bytes and each.fate == known]
    # by price per token, of steps of other batches: times are per token, too, scaled to the first's
    tokens = entries[0].candidate.tokens if entries else 1
    costs = {
        each.number: (1e9 if each.step else 1e6) * score(each, "price", price)
        if price
        else float(each.memory_bytes or 0)
        for each in shown
    }
    if len(costs) < 2 or max(costs.values()) < ALIKE * min(costs.values()):
        return None
    size, name = unit([_per(each, tokens) for each in shown], SECONDS)
    byte, byte_name = (1.0, "$") if price else unit(list(costs.values()), BYTES)
    title = cost_title(entries[0].candidate, "price") if price else "Memory per device"
    first, kinds = entries[0].candidate.number, dict.fromkeys(on_front, _FRONT)
    rows = [
        {
            "x": costs[each.number] / byte,
            "y": _per(each, tokens) / size,
            "kind": _WINNER if each.number == first else kinds.get(each.number, _REST),
            "name": each.name,
            "time": seconds_text(each.seconds),
            "memory": bytes_text(each.memory_bytes),
        }
        for each in shown
    ]
    x = {
        "field": "x",
        "type": "quantitative",
        "title": f"{title} ({byte_name})",
        "scale": {"zero": False},
    }
    y = {"field": "y", "type": "quantitative", "title": f"Time ({name})", "scale": {"zero": False}}
    color = {
        "field": "kind",
        "type": "nominal",
        "title": None,
        "scale": {"domain": [_WINNER, _FRONT, _REST]},
        "legend": {"orient": "top"},
    }
    tooltip = [{"field": "name", "title": "candidate"}, {"field": "time"}, {"field": "memory"}]
    line = [
        row for row in rows if row["kind"] != _REST and row["name"] in {each.name for each in front}
    ]
    layers = [
        {
            "mark": {"type": "point", "filled": True, "size": 60},
            "data": {"values": rows},
            "encoding": {"x": x, "y": y, "color": color, "tooltip": tooltip},
        },
        {
            "mark": {"type": "line", "interpolate": "step-after", "opacity": 0.5},
            "data": {"values": line},
            "encoding": {"x": x, "y": y},
        },
    ]
    return {"layer": layers, "height": 280, "config": CONFIG}


def _per(candidate: Candidate, tokens: int) -> float:
    """Seconds for as many tokens as the winner's step has."""
    return (candidate.seconds or 0.0) * tokens / candidate.tokens


def batch_chart(best: Sequence[Candidate]) -> Spec | None:
    """MFU against sequences per device, of the best plan of each batch; None for one batch."""
    rows = [
        {"batch": each.plan.batch_per_device, "mfu": each.mfu, "name": each.name}
        for each in best
        if each.plan is not None and each.mfu is not None
    ]
    if len(rows) < 2:
        return None
    x = {"field": "batch", "type": "quantitative", "title": "Sequences per device"}
    y = {"field": "mfu", "type": "quantitative", "title": "MFU", "axis": {"format": "%"}}
    return {
        "config": CONFIG,
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {"x": x, "y": y, "tooltip": [{"field": "name"}, {"field": "mfu"}]},
        "height": 220,
    }
