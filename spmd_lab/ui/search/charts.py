"""The front of time against memory, as a Vega-Lite specification."""

from collections.abc import Sequence, Set

from spmd_core.base import bytes_text, number_text, numbered
from spmd_core.search import Candidate, Ranked, score
from spmd_core.surveys import TIME_TITLE, called_words, cost_title, hours_of_tokens
from spmd_lab.ui.charts.base import (
    BYTES,
    INK,
    SECONDS,
    TOP,
    Spec,
    category,
    hover,
    layer,
    layered,
    quantity,
    unit,
)
from spmd_lab.ui.charts.colors import BEST, OTHER, WRONG

MOST_POINTS = 400
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
    times, called, time_name = times_of(shown)
    cost_unit, cost_name = (1.0, "$") if price else unit(list(costs.values()), BYTES)
    kinds = dict.fromkeys((*on_front, winner.number), _FRONT)
    rows = {
        each.number: {
            "x": costs[each.number] / cost_unit,
            "y": times[each.number],
            "kind": kinds.get(each.number, _OPEN if each.fits != "yes" else _OTHERS),
            "time": f"{number_text(times[each.number])} {time_name}",
            "name": each.name,
            "short": short_name(each, False),
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


def times_of(shown: Sequence[Candidate]) -> tuple[dict[int, float], str, str]:
    """Number -> the time that compares them, what that is called, and its unit: of steps, whose batches
    may differ, that of a billion tokens.
    """
    if any(each.step for each in shown):
        hours = {each.number: hours_of_tokens(each) for each in shown}
        return hours, TIME_TITLE, "h"
    seconds = {each.number: each.seconds or 0.0 for each in shown}
    size, name = unit(list(seconds.values()), SECONDS)
    return {number: time / size for number, time in seconds.items()}, "Time", name


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


def short_name(each: Candidate, several: bool) -> str:
    """The mesh of a step, and its batch where several are compared; all of another candidate's name."""
    parts = called_words(each).split(" · ")
    if each.step:
        parts[0] = parts[0].replace(",", " ")
    batch = numbered(each.plan.batch, "sequence") if each.plan else ""
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
