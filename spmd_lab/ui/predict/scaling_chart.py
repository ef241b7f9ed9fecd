"""The chart of scaling efficiency: a curve for each way to scale, and the share that counts."""

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap

from spmd_core.base import mesh_text
from spmd_core.surveys import GOOD, Knee, knee, point_title
from spmd_core.sweeps import Scaling, Sweep, SweepRow
from spmd_core.words import predictions
from spmd_lab.ui.charts.base import INK, QUIET, Row, Spec, category, layer, quantity
from spmd_lab.ui.charts.colors import BEST
from spmd_lab.ui.predict.sweep_axes import (
    CROSSED,
    HEIGHT_PX,
    POINT,
    curve,
    place,
    tips,
    value_of,
)

SCALING: dict[Scaling, str] = {"weak": "Same batch per chip", "strong": "Same total batch"}
_COLORS = (BEST, "light-dark(#a35200, #f0a35c)")
_LABEL_PX = 76  # right of the last points, for the names of the curves
_NEAR_PX = 12  # between ends: the names of nearer ones would overlap
_GOOD = {"type": "rule", "strokeDash": [3, 3], "color": "#8a94a3"}
_VALUE = {"type": "text", "dy": -12, "fontWeight": 600, **INK}
_NUMBER = 6  # percent: of two curves that are nearer at a point one has its number
_BELOW = {"align": "right", "dx": -5, "dy": 11}  # of the lower curve, which falls
_NAME = {"type": "text", "align": "left", "dx": 10, "fontWeight": 600, "lineBreak": "\n"}
_OF_RANGE = ("area", "rule")  # marks of a range, which may be wider than the axis
_NEAR = 15  # percent from a point: a range ends there
_APART, _MOST_TICKS = (
    (10, 20, 50, 100, 200, 500, 1000),
    5,
)  # percent between grid lines, and how many
_LINE_PX = 13  # above the curves, for each line of the words at a bend
_LINE = 24  # characters: what a telephone has room for beside the bend
_MIDDLE = 0.6  # of the axis, with what is right of it for the names of the curves
_BEND = {"type": "rule", "strokeDash": [3, 3], "color": CROSSED}
_BEND_LABEL = {"type": "text", "color": CROSSED, "fontWeight": 600, "lineBreak": "\n"}


def scaling_chart(
    sweep: Sweep,
    rows: Sequence[SweepRow],
    total: Sequence[SweepRow] = (),
    compiled: Sequence[SweepRow] = (),
) -> Spec:
    """Returns the efficiency of points over chips, with the share that counts as scaling.

    Args:
      total: points with the same total batch, beside those with the same batch per chip.
      compiled: points whose efficiency is of compiled steps, beside estimates of the same points.
    """
    curves = {SCALING[sweep.scaling]: rows} | ({SCALING["strong"]: total} if total else {})
    drawn = {name: _values(sweep, name, each) for name, each in curves.items()}
    known = _values(sweep, SCALING[sweep.scaling], _alike(rows, compiled))
    values = [value for each in drawn.values() for value in each]
    chart = curve(sweep, rows, values, _title(sweep, list(curves.values())))
    if not values:
        return chart
    color = category("kind", list(drawn), colors=_COLORS[: len(drawn)])
    for each in chart["layer"]:
        each["encoding"] = {**each["encoding"], "color": color}
        each["mark"] = {**each["mark"], "clip": each["mark"]["type"] in _OF_RANGE}
    chart["title"] |= {"subtitle": _key([*values, *known]), "subtitleColor": QUIET}
    x = chart["encoding"]["x"]
    bends, lines = _bends(sweep, curves, x)
    y = _y_axis(chart["encoding"]["y"], [*values, *known], _LINE_PX * lines)
    x["scale"] |= {"range": [12, {"expr": f"width - {_LABEL_PX}"}]}
    filled = POINT | {"filled": True}
    compiled_layer = [
        layer(known, filled, x=x, y=y, color=color, tooltip=tips(sweep, "efficiency"))
    ]
    chart["layer"] = [
        *_good(y),
        *chart["layer"],
        *(compiled_layer if known else []),  # marks without a point would have no name for a reader
        *_numbers(drawn, x, y, color),
        *bends,
    ]
    return chart


def scaling_alt(sweep: Sweep, total: Sequence[SweepRow]) -> str:
    """Returns the curve of the same total batch in words; "" where there is none."""
    points = "; ".join(f"{row['label']}: {row['text']}" for row in _values(sweep, "", total))
    return f". {SCALING['strong']}: {points}" * bool(points)


def span_words(row: SweepRow) -> str:
    """Returns the range of the efficiency of a point; "" where it is none."""
    low, high = row.efficiency_span or (0.0, 0.0)
    return f"{100 * low:.0f} to {high:.0%}" * bool(row.efficiency_span)


def _mesh_of(row: SweepRow) -> str:
    """Returns the mesh of a point in words; "" of one that is refused."""
    return mesh_text(row.point.experiment.mesh, " ") if row.point.experiment else ""


def _values(sweep: Sweep, name: str, rows: Sequence[SweepRow]) -> list[Row]:
    return [
        {**value_of(sweep, row, 100 * row.efficiency, low, high, words), "kind": name}
        for row in rows
        if row.efficiency is not None
        for low, high in [[100 * end for end in row.efficiency_span or (row.efficiency,) * 2]]
        for parts in [(f"{row.efficiency:.1%}", span_words(row), _mesh_of(row))]
        for words in [", ".join(filter(None, parts))]
    ]


def _alike(rows: Sequence[SweepRow], compiled: Sequence[SweepRow]) -> Sequence[SweepRow]:
    """Compiled points, if their efficiency is of the same point as that of the others."""
    first, other = (
        min((row.point.chips for row in each if row.efficiency is not None), default=0)
        for each in (rows, compiled)
    )
    return compiled if first == other else ()


def _title(sweep: Sweep, curves: Sequence[Sequence[SweepRow]]) -> str:
    timed = ([row.point for row in rows if row.efficiency == 1] for rows in curves)
    firsts = [points[0] for points in timed if points]
    is_shared = len({point.label for point in firsts}) == 1
    of = point_title(sweep, firsts[0]) if is_shared else "first of each"
    return f"Efficiency (%, {of} = 100)"


def _key(values: Sequence[Row]) -> str:
    """What marks mean: how a point is known."""
    guessed = {value["estimated"] for value in values}
    parts = {"○ estimated": True in guessed, "● compiled": False in guessed}
    parts["shaded: range"] = any(value["low"] != value["high"] for value in values)
    return ", ".join(words for words, is_drawn in parts.items() if is_drawn)


def _y_axis(y: Spec, values: Sequence[Row], above_px: int) -> Spec:
    """Returns the axis with room for the numbers at the highest points and pixels above these: of the
    points, and of their ranges near these.
    """
    drawn = [[float(str(value[name])) for name in ("y", "low", "high")] for value in values]
    lows = (max(low, y - _NEAR) for y, low, _ in drawn)
    highs = (min(high, y + _NEAR) for y, _, high in drawn)
    shares = [100 * GOOD, 100.0, *lows, *highs]
    apart = next(
        each
        for each in _APART
        if max(shares) - min(shares) <= _MOST_TICKS * each or each == _APART[-1]
    )
    low, high = max(0, apart * math.floor((min(shares) - 6) / apart)), max(shares) + 8
    ticks = list(range(low, math.ceil(high), apart))
    high += (high - low) * above_px / (HEIGHT_PX - above_px)
    y["scale"] |= {"domain": [low, high], "nice": False}
    y["axis"] = {"values": ticks, "tickCount": len(ticks)}
    return y


def _good(y: Spec) -> list[Spec]:
    good = {"y": 100 * GOOD, "text": f"{GOOD:.0%} counts as scaling"}
    words = _VALUE | {"align": "left", "dx": 4, "dy": 10, "color": QUIET}
    return [
        layer([good], _GOOD, x={"value": 0}, x2={"value": {"expr": f"width - {_LABEL_PX}"}}, y=y),
        layer([good], words, x={"value": 0}, y=y, text={"field": "text"}),
    ]


def _numbers(drawn: Mapping[str, Sequence[Row]], x: Spec, y: Spec, color: Spec) -> list[Spec]:
    """The number at each point, that of the higher one above, and the name of a curve at its end."""
    layers = []
    ends = {name: float(str(each[-1]["y"])) for name, each in drawn.items() if each}
    low, high = y["scale"]["domain"]
    apart_px = (max(ends.values()) - min(ends.values())) * HEIGHT_PX / (high - low)
    in_px = 6 if apart_px > _NEAR_PX or len(ends) == 1 else -1
    highest = max(ends, key=ends.__getitem__)
    for name in ends:
        is_high = name == highest
        first, second, rest = name.split(" ", 2)
        last = {**drawn[name][-1], "name": f"{first} {second}\n{rest}"}
        beside = {"baseline": "bottom" if is_high else "top", "dy": in_px if is_high else -in_px}
        layers.append(layer([last], _NAME | beside, x=x, y=y, color=color, text={"field": "name"}))
    return [*_values_at(drawn, x, y), *layers]


def _values_at(drawn: Mapping[str, Sequence[Row]], x: Spec, y: Spec) -> list[Spec]:
    """The number at each point: that of the higher curve there above, and of the lower one below."""
    places: dict[object, list[Row]] = {}
    for each in (row for rows in drawn.values() for row in rows):
        places.setdefault(each["x"], []).append(each)
    above, below = list[Row](), list[Row]()
    for high, *low in (
        sorted(rows, key=lambda each: -float(str(each["y"]))) for rows in places.values()
    ):
        above.append(high)
        below += [row for row in low if float(str(high["y"])) - float(str(row["y"])) > _NUMBER]
    number = quantity("y", format=".0f")
    return [
        layer(rows, mark, x=x, y=y, text=number)
        for rows, mark in ((above, _VALUE), (below, _VALUE | _BELOW))
        if rows
    ]


def _bends(
    sweep: Sweep, curves: Mapping[str, Sequence[SweepRow]], x: Spec
) -> tuple[list[Spec], int]:
    """Returns where the efficiency of each curve crosses `GOOD`, at the first with its name and the
    part of the step that grew most, on the side that has more room; and how many lines these words take.
    """
    layers: list[Spec] = []
    lines: list[str] = []
    for name, rows in curves.items():
        timed = sorted(
            (row for row in rows if row.efficiency is not None), key=lambda row: row.point.chips
        )
        if (bend := knee(timed)) is None:
            continue
        crossed = _crossed(bend, x["scale"].get("type") == "log")
        at: Row = {**place(sweep, bend.after), "x": crossed}
        if not layers:
            lines = bend_lines(bend, name)
            right = _share(crossed, x["scale"]) < _MIDDLE
            side = {"align": "left", "dx": 6} if right else {"align": "right", "dx": -6}
            named = [{**at, "words": "\n".join(lines)}]
            words = {"field": "words"}
            layers.append(layer(named, _BEND_LABEL | side, x=x, y={"value": 6}, text=words))
        layers.append(layer([at], _BEND, x=x, y={"value": 0}, y2={"value": HEIGHT_PX}))
    return layers, len(lines)


def bend_lines(bend: Knee, name: str) -> list[str]:
    """Returns why the curve of a name bends, in lines that have room in a narrow window."""
    cause = predictions.share_words(bend.cause)
    why = f": {cause}, {bend.share:.0%} of the step" * bool(cause)
    return wrap(f"{name} stops scaling{why}", _LINE)


def _share(chips: float, scale: Spec) -> float:
    """Returns where chips are on the axis, from 0 to 1."""
    along = math.log if scale.get("type") == "log" else float
    low, at, high = (along(each) for each in (scale["domain"][0], chips, scale["domain"][1]))
    return (at - low) / (high - low)


def _crossed(bend: Knee, log: bool) -> float:
    """Returns the chips at which the line between the points of a bend crosses `GOOD`."""
    before, after = bend.before.point.chips, bend.after.point.chips
    high, low = bend.before.efficiency or 0.0, bend.after.efficiency or 0.0
    share = (high - GOOD) / (high - low)
    return before * (after / before) ** share if log else before + share * (after - before)
