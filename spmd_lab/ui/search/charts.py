"""The front of time against memory, as a Vega-Lite specification."""

from collections.abc import Sequence, Set
from math import ceil, floor, log10

from spmd_core.base import by_key, bytes_text, number_text, numbered
from spmd_core.machine import get_topology
from spmd_core.search import Candidate, Ranked, score
from spmd_core.surveys import TIME_TITLE, called_words, cost_title, hours_of_tokens
from spmd_lab.ui.charts.base import (
    BYTES,
    INK,
    QUIET,
    SECONDS,
    TOP,
    Row,
    Spec,
    as_is,
    category,
    hover,
    layer,
    layered,
    quantity,
    rows_axis,
    unit,
)
from spmd_lab.ui.charts.colors import BEST, OTHER, WRONG

MOST_POINTS = 400
MOST_BARS = 12  # of the best meshes
ALIKE = 1.01  # costs closer than this are the same: an axis of them would show rounding
_FRONT, _OTHERS, _OPEN = "front", "others", "may not fit"
_COLORS = {_FRONT: BEST, _OTHERS: OTHER, _OPEN: WRONG}
_NAME = {"type": "text", "align": "left", "dx": 12, "dy": -10, "fontWeight": 600, **INK}
_LEFT = {"align": "right", "dx": -8, "dy": 14}  # below: the first is the lowest
_POINT = {"type": "point", "filled": True, "size": 60}
_STEPS = {"type": "line", "color": BEST, "interpolate": "step-after", "opacity": 0.5}


def front_chart(
    entries: Sequence[Ranked], front: Sequence[Candidate], price: dict[str, float] | None = None
) -> Spec | None:
    """Time against memory per device, or price: the best candidates, with the front as a line; None
    where all of them use the same to the eye, or there are fewer than two.
    """
    shown = _shown(entries, front)
    costs = {each.number: _cost(each, price) for each in shown}
    if len(costs) < 2 or max(costs.values()) < ALIKE * min(costs.values()):
        return None
    winner, on_front = entries[0].candidate, {each.number for each in front}
    times, called, time_name = _times(shown)
    cost_unit, cost_name = (1.0, "$") if price else unit(list(costs.values()), BYTES)
    kinds = dict.fromkeys((*on_front, winner.number), _FRONT)
    rows = {
        each.number: {
            "x": costs[each.number] / cost_unit,
            "y": times[each.number],
            "kind": kinds.get(each.number, _OPEN if each.fits != "yes" else _OTHERS),
            "time": f"{number_text(times[each.number])} {time_name}",
            "name": each.name,
            "short": _short(each, False),
            "memory": bytes_text(each.memory_bytes),
        }
        for each in shown
    }
    title = cost_title("price", of_steps=True) if price else "Memory per device"
    x = quantity("x", title=f"{title} ({cost_name})", scale={"zero": False})
    y = quantity("y", title=f"{called} ({time_name})", scale={"zero": False, "padding": 20})
    looks = {"x": x, "y": y} | _looks({str(row["kind"]) for row in rows.values()}, called)
    first = [rows[winner.number]] if winner.number in rows else []  # on top of the others
    is_right = 2 * costs.get(winner.number, 0.0) > min(costs.values()) + max(costs.values())
    layers = [
        layer(list(rows.values()), _POINT, **looks),
        layer([row for at, row in rows.items() if at in on_front], _STEPS, x=x, y=y),
        layer(first, _POINT | {"size": 160, "opacity": 1}, **looks),
        layer(first, _NAME | _LEFT if is_right else _NAME, x=x, y=y, text={"field": "short"}),
    ]
    return layered(layers, 280)


def _looks(kinds: Set[str], called: str) -> dict[str, object]:
    there = {kind: color for kind, color in _COLORS.items() if kind in kinds}
    return {
        "color": category("kind", list(there), legend=TOP, colors=list(there.values())),
        "tooltip": hover(name="candidate", time=called.lower(), memory="memory"),
    }


def _times(shown: Sequence[Candidate]) -> tuple[dict[int, float], str, str]:
    """Number -> the time that compares them, what that is called, and its unit: steps of several
    batches are no comparison.
    """
    if len({each.tokens for each in shown}) > 1:
        hours = {each.number: hours_of_tokens(each) for each in shown}
        return hours, TIME_TITLE, "h"
    seconds = {each.number: each.seconds or 0.0 for each in shown}
    size, name = unit(list(seconds.values()), SECONDS)
    called = "Time of a step" if shown[0].step else "Time"
    return {number: time / size for number, time in seconds.items()}, called, name


def _shown(entries: Sequence[Ranked], front: Sequence[Candidate]) -> list[Candidate]:
    """The best candidates, and those on the front; measured times are not shown beside estimates."""
    on_front = {each.number for each in front}
    best = [entry.candidate for entry in entries[:MOST_POINTS]]
    source = front[0].stage if front else ""
    return [
        each
        for each in (*(each for each in best if each.number not in on_front), *front)
        if each.seconds and each.memory_bytes and each.stage == source
    ]


def _cost(candidate: Candidate, price: dict[str, float] | None) -> float:
    if price:
        return (1e9 if candidate.step else 1e6) * score(candidate, "price", price)
    return float(candidate.memory_bytes or 0)


_GROUPS = ("measured", "compiled", "estimated", _OPEN)  # of rows, in order
_RIVAL, _BEHIND, _UNSURE = 0.65, 0.8, 0.85  # opacity, beside the best
_NEAR = 1.2  # times the best: what is further is drawn at the edge
_DOT = {"type": "point", "filled": True, "size": 130}
_PATH = {"type": "rule", "strokeDash": [2, 4]}
_ARROW = _DOT | {"shape": "triangle-right"}
_LONGEST = 1.3  # of an interval, in longest times: a longer one would leave the others no room
_SPAN = {"type": "rule", "strokeWidth": 3, "strokeCap": "round"}
_IS_WIDE = "containerSize()[0] > 620"  # enough for names beside the marks and a column of memory
_LETTER_PX, _TICKS = 6.3, 6
_MEMORY = {"type": "text", "align": "right", "opacity": {"expr": f"{_IS_WIDE} ? 0.85 : 0"}, **INK}
_HEAD_Y = -38
_TITLE = _MEMORY | {"fontSize": 12, "color": QUIET}
_ABOVE = {  # names, where they have no column
    "type": "text",
    "align": "left",
    "dy": {"expr": "datum.is_head ? 0 : -13"},
    "fontWeight": {"expr": "datum.is_head ? 600 : 400"},
    "opacity": {"expr": f"{_IS_WIDE} ? 0 : 1"},
    **INK,
}
_BAND = {"type": "rect", "opacity": 0.08, "color": BEST}  # the interval of the best
_KEY = {"type": "text", "align": "left", "dx": 6, "color": BEST, "text": "range of the best"}


def bars_of(groups: Sequence[Sequence[Ranked]]) -> list[Candidate]:
    """Returns the candidates that `ranked_chart` draws: the best of each of the first meshes."""
    return [group[0].candidate for group in groups if group[0].candidate.seconds][:MOST_BARS]


def ranked_chart(
    groups: Sequence[Sequence[Ranked]], rivals: Sequence[Candidate] = ()
) -> Spec | None:
    """Returns a dot for each of the best meshes with its interval, below how it is known where that
    differs: the best, lighter what may be as fast, last what may not fit. Arrows are beyond the axis.
    """
    if not (best := bars_of(groups)):
        return None
    times, called, name = _times(best)
    ends = {each.number: _ends(each, times[each.number]) for each in best}
    near = max(t for t in times.values() if t <= _NEAR * min(times.values()))
    top = min(_LONGEST * near, max(high for _, high in ends.values()))
    ticks = _ticks(min(low for low, _ in ends.values()), top)
    open_ = {each.number: each.step is not None and each.fits != "yes" for each in best}
    fills = {each.number: (BEST, _RIVAL) for each in rivals}
    fills |= {at: (OTHER, _UNSURE) for at, is_open in open_.items() if is_open}
    fills[best[0].number] = BEST, 1.0
    best[1:] = sorted(best[1:], key=lambda each: times[each.number])
    is_many = len({each.target for each in best}) > 1
    rows = [
        {"row": _short(each, is_many), "is_open": open_[each.number]}
        | {"group": _OPEN if open_[each.number] else each.stage}
        | {"memory": _memory(each, is_many)}
        | _timed(each, times[each.number], name, top)
        | dict(zip(("color", "opacity"), fills.get(each.number, (OTHER, _BEHIND)), strict=True))
        for each in best
    ]
    has = f", of {_has(best[0])}" if best[0].step and not is_many else ""
    memory = f"Memory per device{has}" if best[0].step else ""
    return _bars(rows, f"{called} ({name})", memory, ticks)


def _memory(each: Candidate, is_many: bool) -> str:
    """Returns the memory that a step needs: where it may not fit as far as it is known; of what a
    device has, where there are several.
    """
    if each.step is None:
        return ""
    span = each.memory_span if each.fits != "yes" else None
    needs = " to ".join(map(bytes_text, span or (each.memory_bytes,)))
    return f"{needs} of {_has(each)}" if is_many else needs


def _has(each: Candidate) -> str:
    return bytes_text(get_topology(each.target).chip.device_hbm_bytes)


def _timed(each: Candidate, time: float, unit_name: str, top: float) -> dict[str, object]:
    """Returns the time of a candidate with its interval, both clipped at `top`, and in words in full."""
    low, high = _ends(each, time)
    beyond = f", up to {_three(high)} {unit_name}" * (high > top)
    return {
        "x": min(time, top),
        "low": min(low, top),
        "high": min(high, top),
        "end": min(max(high, time), top),
        "label": f"{_three(time)} {unit_name}{beyond}",
        "policy": each.step.policy.words if each.step else "",
        "is_beyond": time > top,
        "is_clipped": high > top,
    }


def _three(value: float) -> str:
    """Three digits, zeros too: a column of numbers.

    >>> _three(5.2), _three(120.4), _three(2500.0)
    ('5.20', '120', '2,500')
    """
    return number_text(value) if value >= 100 else f"{value:#.3g}"


def _ticks(low: float, top: float) -> list[float]:
    """Returns ticks, of which the first is at most `low` and the last at least `top`.

    >>> _ticks(4.17, 7.1), _ticks(0.0, 0.0)
    ([4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5], [0.0])
    """
    span = (top - low) or 0.01 * top
    if not span:
        return [low]
    power = 10 ** floor(log10(span / _TICKS))
    step = power * next(each for each in (1, 2, 5, 10) if each * power * _TICKS >= span)
    return [round(at * step, 12) for at in range(floor(low / step), ceil(top / step) + 1)]


def _scale(rows: Sequence[Row], ticks: Sequence[float]) -> Spec:
    """Returns the scale of ticks, with room on the right for labels, and for memory in wide windows."""
    label, memory = (_widest(rows, name) + 20 for name in ("label", "memory"))
    room_px = f"({label} + ({_IS_WIDE} ? {memory} : 0))"
    span = ticks[-1] - ticks[0]
    end = {"expr": f"{ticks[0]} + {span} * width / max(width - {room_px}, 60)"}
    return {"domainMin": ticks[0], "domainMax": end, "nice": False, "zero": False}


def _widest(rows: Sequence[Row], name: str) -> int:
    return ceil(_LETTER_PX * max(len(str(row[name])) for row in rows))


def _bars(rows: Sequence[Row], title: str, memory: str, ticks: Sequence[float]) -> Spec:
    axis = {"orient": "top", "values": ticks, "grid": True, "titleAnchor": "start"}
    axis |= {"titleY": _HEAD_Y, "titleBaseline": "middle", "labelOverlap": True, "ticks": False}
    axis["tickCount"] = len(ticks)  # Vega leaves out every second of more
    scale = _scale(rows, ticks)
    x = {
        at: quantity(at, title=title, scale=scale, axis=axis) for at in ("x", "low", "high", "end")
    }
    y, named, also = _rows(rows)
    dots, beyond = ([row for row in rows if row["is_beyond"] == is_] for is_ in (False, True))
    clipped = [row for row in rows if row["is_clipped"]]
    looks = {"color": as_is("color"), "opacity": quantity("opacity", scale=None, legend=None)}
    tips = hover(row="candidate", label="takes", policy="policy")  # narrow windows have no column
    text = {"type": "text", "align": "left", "dx": 10, "fontWeight": 600, **INK}
    names = [
        {"row": each, "name": each.replace(" · ", ", "), "is_head": each in _GROUPS}
        for each in y["scale"]["domain"]
    ]
    layers = [
        layer(rows, _SPAN, x=x["low"], x2={"field": "high"}, y=named, **looks),
        layer(beyond, _PATH, x=x["x"], x2={"value": 0}, y=y, **looks),
        layer(clipped, _ARROW, x=x["high"], y=y, tooltip=tips, **looks),
        layer(dots, _DOT, x=x["x"], y=y, tooltip=tips, **looks),
        layer(rows, text, x=x["end"], y=y, text={"field": "label"}),
        layer(rows, _MEMORY, x={"value": "width"}, y=also, text={"field": "memory"}),
        layer([{}], _TITLE | {"text": memory}, x={"value": "width"}, y={"value": _HEAD_Y}),
        layer(names, _ABOVE, x={"value": 0}, y=y, text={"field": "name"}),
        layer(rows[:1], _BAND, x=x["low"], x2={"field": "high"}),
        layer([{**rows[0], "row": rows[0]["group"]}], _KEY, x=x["high"], y=y),
    ]
    return layered(layers, {"step": 36}, resolve={"axis": {"y": "independent"}})


def _rows(rows: Sequence[Row]) -> tuple[Spec, ...]:
    """Returns the y axis of rows: without labels, with names, and with the policy below each name.
    Narrow windows have neither.
    """
    grouped = by_key((str(row["group"]), str(row["row"])) for row in rows)
    heads = {head: grouped[head] for head in _GROUPS if head in grouped}
    y = rows_axis([label for head, labels in heads.items() for label in (head, *labels)])
    policies = {row["row"]: row["policy"] for row in rows if row["policy"]}
    is_head = f"indexof({[*_GROUPS]}, datum.value) >= 0"
    width = min(280, max(_widest(rows, "row"), ceil(0.9 * _widest(rows, "policy"))))
    names = y["axis"] | {
        "labelExpr": f"{_IS_WIDE} ? replace(datum.label, ' · ', ', ') : ''",
        "labelAlign": "left",
        "labelPadding": {"expr": f"{_IS_WIDE} ? {width} + 16 : 0"},
        "labelLimit": width,
        "labelOffset": {"expr": f"{_IS_WIDE} && {bool(policies):d} ? -7 : 0"},
        "labelColor": INK["color"],
        "labelFontWeight": {"condition": {"test": is_head, "value": 600}, "value": 400},
    }
    below = names | {
        "orient": "left",  # the second axis would be on the right
        "labelExpr": f"{_IS_WIDE} && {policies}[datum.label] || ''",
        "labelOffset": 7,
        "labelFontSize": 11,
        "labelColor": QUIET,
    }
    return tuple({**y, "axis": axis} for axis in (None, names, below))


def _ends(each: Candidate, time: float) -> tuple[float, float]:
    low, high = each.span or (each.seconds or 0.0,) * 2
    return time * low / (each.seconds or 1.0), time * high / (each.seconds or 1.0)


def _short(each: Candidate, several: bool) -> str:
    """The mesh of a step, and its batch where several are compared; all of another candidate's name."""
    parts = called_words(each).split(" · ")
    parts[0] = parts[0].replace(",", " ")
    batch = numbered(each.plan.batch_per_device, "sequence") if each.plan else ""
    kept = [parts[0], batch] if batch else parts
    more = [*kept[1:], *([each.target.removeprefix("tpu:")] if several else [])]
    return " · ".join([kept[0], ", ".join(more)] if more else kept)


def batch_chart(best: Sequence[Candidate]) -> Spec | None:
    """Causal MFU against sequences per device, of the best plan of each batch; None for one batch."""
    rows = [
        {"batch": each.plan.batch_per_device, "mfu": each.mfu_causal, "name": each.name}
        for each in best
        if each.plan is not None and each.mfu_causal is not None
    ]
    if len(rows) < 2:
        return None
    x = quantity("batch", title="Sequences per device")
    y = quantity("mfu", title="Causal MFU", axis={"format": "%"})
    mark = {"type": "line", "point": True}
    return layered([layer(rows, mark, x=x, y=y, tooltip=hover(name="name", mfu="causal MFU"))], 220)
