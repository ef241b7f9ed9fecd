"""Predictions to charts: the interval, where the time goes, memory against the capacity."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from spmd_core.answers import ABOUT_EVEN
from spmd_core.base import bytes_text, number_text, seconds_text
from spmd_core.results import Estimate, PredictedMemory, Prediction
from spmd_core.search import TrainingAnswer
from spmd_core.words import chip_title, money_text, part_kind, parts
from spmd_lab.ui.charts import colors
from spmd_lab.ui.charts.base import (
    BYTES,
    INK,
    SECONDS,
    TOP,
    Row,
    Spec,
    category,
    hover,
    layer,
    layered,
    quantity,
    rows_axis,
    unit,
)

_FITS = {"fits": "#3b76c4", "more than there is": "#c9485b"}
_LIMIT = {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2}
_INTERVAL = {"type": "bar", "height": 18, "opacity": 0.35, "cornerRadius": 4, "color": "#3b76c4"}
_ESTIMATE = {"type": "tick", "thickness": 4, "height": 26, "color": "#5b93e0"}
_ABOVE = {"type": "text", "dy": -22, **INK}
_SHARES_LEGEND = TOP | {
    "columns": {"expr": "width < 380 ? 2 : 3"},
    "labelLimit": 260,
    "symbolStrokeWidth": 0,
}


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
            "low_text": seconds_text(time.low),
            "high_text": seconds_text(time.high),
            "span": f"{seconds_text(time.low)} to {seconds_text(time.high)}",
        }
        for row, time in rows.items()
    ]
    top = max(max(time.high for time in rows.values()), measured_s or 0.0) / size
    x = {
        field: _axis_to(1.12 * top, f"predicted time ({name})", field)
        for field in ("low", "at", "high", "measured")
    }
    y = _row_axis(rows)
    tips = {"y": y, "tooltip": hover(row="what", label="estimate", span="between")}
    layers = [
        layer(values, _INTERVAL, x=x["low"], x2={"field": "high"}, **tips),
        layer(values, _ESTIMATE, x=x["at"], **tips),
        layer(values, _ABOVE | {"fontWeight": 600}, x=x["at"], y=y, text={"field": "label"}),
        layer(values, _beside("left"), x=x["low"], y=y, text={"field": "low_text"}),
        layer(values, _beside("right"), x=x["high"], y=y, text={"field": "high_text"}),
    ]
    if measured_s:
        line = {"measured": measured_s / size, "label": f"measured {seconds_text(measured_s)}"}
        mark = _LIMIT | {"color": "#d9730d"}
        layers.append(layer([line], mark, x=x["measured"], tooltip=hover(label="your time")))
    return layered(layers, {"step": 62})


def _axis_to(top: float, title: str, field: str) -> Spec:
    return quantity(field, title=title, scale={"domain": [0, top], "nice": False})


def _row_axis(rows: Iterable[str]) -> Spec:
    """The y axis of these rows; of a single one, no axis."""
    labels = list(rows)
    return (
        rows_axis(labels) if len(labels) > 1 else {"field": "row", "type": "nominal", "axis": None}
    )


def _beside(side: str) -> Spec:
    """Text on this side of a bar's end."""
    place = {"align": "right", "dx": -6} if side == "left" else {"align": "left", "dx": 6}
    return {"type": "text", "opacity": 0.8, **place, **INK}


def shares_chart(rows: Mapping[str, Prediction]) -> Spec:
    """The estimate of each row as a bar of its parts, by the names that the terminal has too; each
    part with its share in the bar where there is room.
    """
    sums = {row: sum(prediction.shares_s.values()) for row, prediction in rows.items()}
    size, name = unit(list(sums.values()), SECONDS)
    shades = _shades(part for prediction in rows.values() for part in parts(prediction))
    values = [
        each
        for row, prediction in rows.items()
        for each in _parts_of(row, parts(prediction), shades, size)
    ]
    scale = {"domain": [0, max([*sums.values(), 0.0]) / size or 1.0], "nice": False}
    axis = (
        {"title": f"estimate ({name})", "axis": {"grid": False}}
        if len(rows) > 1
        else {"axis": None}
    )
    x = {at: quantity(at, scale=scale, **axis) for at in ("x", "middle")}
    color = category("part", list(shades), legend=_SHARES_LEGEND, colors=list(shades.values()))
    bars = layer(
        values,
        {"type": "bar", "height": 26},
        x=x["x"],
        x2={"field": "x2"},
        y=_row_axis(rows),
        color=color,
        tooltip=hover(part="part", time="time", share="share"),
    )
    inside = {"type": "text", "color": "#ffffff", "fontWeight": 600}
    labels = layer(values, inside, x=x["middle"], y=_row_axis(rows), text={"field": "label"})
    return layered([bars, labels], {"step": 46})


def _parts_of(
    row: str, seconds: Mapping[str, float], order: Iterable[str], size: float
) -> Iterator[Row]:
    """The parts of a row, end to end, in units of `size` seconds."""
    end, total = 0.0, sum(seconds.values()) or 1.0
    for part in (name for name in order if name in seconds):
        time = seconds[part]
        begin, end = end, end + time / size
        yield {
            "row": row,
            "part": part,
            "x": begin,
            "x2": end,
            "middle": (begin + end) / 2,
            "time": seconds_text(time),
            "share": f"{time / total:.1%}",
            "label": f"{time / total:.0%}" if time > 0.05 * total else "",
        }


def _shades(names: Iterable[str]) -> dict[str, str]:
    """Part -> its color, in the order of a legend: that of its kind, lighter for each further part
    of one kind.
    """
    ordered = list(colors.KINDS)
    listed = sorted(dict.fromkeys(names), key=lambda part: ordered.index(part_kind(part)))
    seen: Counter[str] = Counter()
    shades = {}
    for part in listed:
        kind = part_kind(part)
        shades[part] = _lighter(colors.KINDS[kind], min(0.6, 0.3 * seen[kind]))
        seen[kind] += 1
    return shades


def _lighter(color: str, share: float) -> str:
    """A color mixed with white.

    >>> _lighter("#000000", 0.5), _lighter("#d9730d", 0.0)
    ('#808080', '#d9730d')
    """
    values = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(value + share * (255 - value)):02x}" for value in values)


_CHIPS_HEIGHT = 34
_BEST, _FRONT_DOT, _OTHER = "best", "on the front", "others"
_MARKS = {_BEST: "#3b76c4", ABOUT_EVEN: "#3b76c4", _FRONT_DOT: "#5aa6a0", _OTHER: "#a9b4c2"}


def training_chart(answer: TrainingAnswer) -> Spec:
    """Days of the best plan of each kind of chip: against dollars where two have a price, else as
    bars; the best in a color of its own, each with its name and its chips beside it.
    """
    rows = list(_chips_rows(answer))
    marks = [mark for mark in _MARKS if any(row["mark"] == mark for row in rows)]
    color = category("mark", marks, colors=[_MARKS[mark] for mark in marks])
    tips = hover(row="chip", label="takes", money="costs")
    priced = [row for row in rows if row["dollars"] is not None]
    if len(priced) > 1:
        return _price_chart(priced, color | {"legend": TOP}, tips)
    days = quantity("days", title="days", axis={"grid": False})
    y = rows_axis([str(row["row"]) for row in rows])
    wanted = answer.question.days
    text = {"type": "text", "align": "left", "dx": 6, **INK}
    layers = [
        layer(
            rows,
            {"type": "bar", "height": 16, "cornerRadiusEnd": 3},
            x=days,
            y=y,
            color=color | {"legend": None},  # the labels name the best
            tooltip=tips,
        ),
        layer(rows, text, x=days, y=y, text={"field": "label"}),
    ]
    if wanted and rows:
        layers.append(layer([{"days": wanted, "words": "deadline"}], _LIMIT | INK, x=days))
    top = 1.35 * max([wanted or 0.0, *(each.run.days.estimate for each in answer.rows if each.run)])
    days["scale"] = {"domain": [0, top], "nice": False}
    return layered(layers, {"step": _CHIPS_HEIGHT})


def _chips_rows(answer: TrainingAnswer) -> Iterator[Row]:
    for each in answer.rows:
        if each.run is None or each.plan is None:
            continue
        mark = _FRONT_DOT if each.kind in answer.front else _OTHER
        if each is answer.best:
            mark = _BEST
        if each in answer.even:
            mark = ABOUT_EVEN
        name, chips = chip_title(each.kind), f"{each.plan.topology.chips:,}"
        yield {
            "row": name,
            "days": each.run.days.estimate,
            "dollars": each.run.money,
            "mark": mark,
            "name": f"{chips} {name}",
            "label": f"{number_text(each.run.days.estimate)} days on {chips} chips"
            + (f", {mark}" if mark in (_BEST, ABOUT_EVEN) else ""),
            "money": money_text(each.run.money),
        }


def _price_chart(rows: Sequence[Row], color: Spec, tips: list[Spec]) -> Spec:
    """Days against dollars, with the front that none is both faster and cheaper than as a line."""
    x = quantity(
        "dollars", title="dollars", axis={"format": "$~s"}, scale={"zero": False, "padding": 40}
    )
    y = quantity("days", title="days", scale={"zero": False, "padding": 25})
    front = [row for row in rows if row["mark"] != _OTHER]
    line = {
        "type": "line",
        "interpolate": "step-after",
        "opacity": 0.4,
        "color": _MARKS[_FRONT_DOT],
    }
    dot, text = (
        {"type": "point", "filled": True, "size": 140, "opacity": 1},
        {"type": "text", "dy": -14, **INK},
    )
    layers = [
        layer(front, line, x=x, y=y),
        layer(rows, dot, x=x, y=y, color=color, tooltip=tips),
        layer(rows, text, x=x, y=y, text={"field": "name"}),
    ]
    return layered(layers, 260)


def memory_chart(rows: Mapping[str, PredictedMemory]) -> Spec:
    """The peak of each row against what a program may use of the device."""
    limits = sorted({row.capacity for row in rows.values()})
    size, name = unit([limits[-1]], BYTES)
    values = [_memory_row(row, memory, size) for row, memory in rows.items()]
    ends: list[Row] = [
        {"limit": limit / size, "words": f"{bytes_text(limit)} may be used"} for limit in limits
    ]
    top = 1.15 * max(limits[-1], *(row.peak or 0 for row in rows.values())) / size
    title = f"peak memory per device ({name})"
    x, limit = _axis_to(top, title, "x"), _axis_to(top, title, "limit")
    y = _row_axis(rows)
    bar = {"type": "bar", "height": 20, "cornerRadiusEnd": 3}
    text = {"type": "text", "align": "left", "dx": 6, **INK}
    color = category("fits", list(_FITS), colors=list(_FITS.values()))
    above = _ABOVE | {"dx": -6, "align": "right"}
    layers = [
        layer(values, bar, x=x, y=y, color=color, tooltip=hover(peak="peak", of="that is")),
        layer(ends, above, x=limit, text={"field": "words"}),
        layer(ends, _LIMIT | INK, x=limit, tooltip=[{"field": "words"}]),
        layer(values, text, x=x, y=y, text={"field": "peak"}),
    ]
    return layered(layers, {"step": 56})


def _memory_row(row: str, memory: PredictedMemory, size: float) -> Row:
    peak = memory.peak or 0
    return {
        "row": row,
        "x": peak / size,
        "peak": bytes_text(memory.peak),
        "fits": "more than there is" if memory.missing else "fits",
        "of": f"{peak / memory.capacity:.0%} of {bytes_text(memory.capacity)}",
    }
