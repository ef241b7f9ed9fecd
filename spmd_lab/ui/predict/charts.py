"""Predictions to charts: the interval, where the time goes, memory against the capacity."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from spmd_core.answers import even_verdict, time_unit
from spmd_core.base import bytes_text, seconds_text, span_text, three_digits
from spmd_core.facts import Estimate, PredictedMemory
from spmd_core.sweeps import TrainingAnswer, measure
from spmd_core.terms import chip_title, money_text
from spmd_core.words import ABOUT_EVEN, RANGE, days_text
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
from spmd_lab.ui.charts.colors import WRONG
from spmd_lab.ui.charts.shares import row_axis

_FITS = {"fits": "#3b76c4", "more than there is": WRONG}
_LIMIT = {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 2}
_INTERVAL = {"type": "bar", "height": 18, "opacity": 0.35, "cornerRadius": 4, "color": "#3b76c4"}
_ESTIMATE = {"type": "tick", "thickness": 4, "height": 26, "color": "#5b93e0"}
_ABOVE = {"type": "text", "dy": -22, **INK}


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
            "span": span_text(time.low, time.high),
        }
        for row, time in rows.items()
    ]
    top = max(max(time.high for time in rows.values()), measured_s or 0.0) / size
    x = {
        field: _axis_to(1.12 * top, f"predicted time ({name})", field)
        for field in ("low", "at", "high", "measured")
    }
    y = row_axis(rows)
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


def _beside(side: str) -> Spec:
    place = {"align": "right", "dx": -6} if side == "left" else {"align": "left", "dx": 6}
    return {"type": "text", "opacity": 0.8, **place, **INK}


_SPAN_RULE = {"type": "rule", "strokeWidth": 2, "opacity": 0.5, **INK}  # of an 80% range
_CHIPS_HEIGHT = 34
_WIDE = 10  # times the shortest days: beyond, the short ones are one line above zero
_CHARACTER_PX, _GAP_PX = 6.2, 16  # of the text at the end of a bar
_BEST, _FRONT_DOT, _OTHER = "best", "on the front", "others"
_MARKS = {_BEST: "#3b76c4", ABOUT_EVEN: "#3b76c4", _FRONT_DOT: "#5aa6a0", _OTHER: "#a9b4c2"}


def training_chart(answer: TrainingAnswer) -> Spec:
    """Days of the best plan of each kind of chip: against dollars where two have a price, and all
    that the headline names, else as bars; the best in a color of its own, each with its name and
    its chips beside it.
    """
    rows = list(_chips_rows(answer))
    tips = hover(row="chip", label="takes", money="costs")
    priced = [row for row in rows if row["dollars"] is not None]
    named = [row for row in rows if row["mark"] in (_BEST, ABOUT_EVEN)]
    is_priced = len(priced) > 1 and all(row in priced for row in named)
    if not is_priced:  # one price alone has no front
        rows = [{**row, "mark": _OTHER} if row["mark"] == _FRONT_DOT else row for row in rows]
    drawn = {row["mark"] for row in (priced if is_priced else rows)}
    marks = [mark for mark in _MARKS if mark in drawn]
    color = category("mark", marks, colors=[_MARKS[mark] for mark in marks])
    if is_priced:
        return _price_chart(answer, priced, color | {"legend": TOP}, tips)
    days = _days_axis(answer, rows)
    y = rows_axis([str(row["row"]) for row in rows])
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
        layer(rows, _SPAN_RULE, x=days | {"field": "low"}, x2={"field": "high"}, y=y),
        layer(rows, text, x=days | {"field": "end"}, y=y, text={"field": "label"}),
    ]
    if (wanted := answer.question.days) and rows:
        at = wanted * time_unit(answer)[1]
        layers.append(layer([{"days": at, "words": "deadline"}], _LIMIT | INK, x=days))
    return layered(layers, {"step": _CHIPS_HEIGHT})


def _days_axis(answer: TrainingAnswer, rows: Sequence[Row]) -> Spec:
    """Returns the axis of bars, in the unit of the answer, with room for the label of each."""
    ends = [
        (float(str(row["end"])), round(_CHARACTER_PX * len(str(row["label"])) + _GAP_PX))
        for row in rows
    ]
    tops = ", ".join(f"{end} * width / max(width - {px}, 60)" for end, px in ends)
    scale = {"domainMin": 0, "domainMax": {"expr": f"max({tops})"}, "nice": False}
    title = f"{time_unit(answer)[0]}, estimated, ├─┤ {RANGE}"
    return quantity("days", title=title, axis={"grid": False}, scale=scale)


def _chips_rows(answer: TrainingAnswer) -> Iterator[Row]:
    by_days = sorted(
        (each for each in answer.rows if each.run), key=lambda each: measure(each, "days")
    )
    # of a deadline the order of the answer: the best is first
    timed = [each for each in answer.ordered if each.run] if answer.question.days else by_days
    unit_name, a_day = time_unit(answer)
    differ = len({each.plan.topology.chips for each in timed if each.plan}) > 1
    for each in timed:
        if each.run is None or each.plan is None:
            continue
        mark = _FRONT_DOT if each.kind in answer.front else _OTHER
        if each is answer.best:
            mark = _BEST
        if each in answer.even:
            mark = ABOUT_EVEN
        name, chips = chip_title(each.kind), f"{each.plan.topology.chips:,}"
        words = [f"{three_digits(a_day * each.run.days.estimate)} {unit_name}"]
        words[0] += f" on {chips} chips" if differ else ""
        words += {_BEST: [mark], ABOUT_EVEN: [even_verdict(answer, each)]}.get(mark, [])
        words += [] if each.is_sure else ["may not fit"]
        yield {
            "row": name,
            "days": a_day * each.run.days.estimate,
            "low": a_day * each.run.days.low,
            "high": a_day * each.run.days.high,
            # right of the deadline
            "end": a_day * max(each.run.days.high, answer.question.days or 0.0),
            "dollars": each.run.money,
            "mark": mark,
            "name": f"{chips} {name}" + ("" if each.is_sure else ", may not fit"),
            "label": ", ".join(words),
            "money": money_text(each.run.money),
        }


def trade_chart(answer: TrainingAnswer) -> Spec:
    """Days against dollars of the numbers of chips of a trade, the answer in a color of its own."""
    a_day, rows = time_unit(answer)[1], list[Row]()
    for each in answer.trade:
        if each.run is None or each.plan is None:
            continue
        days = each.run.days
        rows.append(
            {
                "row": f"{each.plan.topology.chips:,} {chip_title(each.kind)}",
                "name": f"{each.plan.topology.chips:,}",
                "days": a_day * days.estimate,
                "low": a_day * days.low,
                "high": a_day * days.high,
                "dollars": each.run.money,
                "mark": _BEST if each is answer.best else _FRONT_DOT,
                "label": days_text(days.estimate),
                "money": money_text(each.run.money),
            }
        )
    colors = [_MARKS[mark] for mark in (_BEST, _FRONT_DOT)]
    color = category("mark", [_BEST, _FRONT_DOT], colors=colors) | {"legend": None}
    return _price_chart(answer, rows, color, hover(row="chips", label="takes", money="costs"))


def _price_chart(
    answer: TrainingAnswer, rows: Sequence[Row], color: Spec, tips: list[Spec]
) -> Spec:
    """Days against dollars, a line over the front; days by their logarithm where they span decades."""
    right, top = (
        1.15 * max(cast(float, row[name]) for row in rows) for name in ("dollars", "high")
    )
    x = quantity("dollars", title="dollars", axis={"format": "$~s"}, scale={"domain": [0, right]})
    title = f"{time_unit(answer)[0]}, estimated, ├─┤ {RANGE}"
    low = min(cast(float, row["low"]) for row in rows)
    is_wide = top > _WIDE * low
    scale: Spec = {"type": "log", "domain": [low / 1.3, top]} if is_wide else {"domain": [0, top]}
    y = quantity("days", title=title, scale=scale)
    front = [row for row in rows if row["mark"] != _OTHER]
    line = {
        "type": "line",
        "interpolate": "step-after",
        "opacity": 0.4,
        "color": _MARKS[_FRONT_DOT],
    }
    dot, text = (
        {"type": "point", "filled": True, "size": 140, "opacity": 1},
        {"type": "text", "align": "left", "dx": 10, **INK},
    )
    above, below = _two_lanes(rows, right, top)
    layers = [
        layer(front, line, x=x, y=y),
        layer(rows, _SPAN_RULE, x=x, y=y | {"field": "low"}, y2={"field": "high"}),
        layer(rows, dot, x=x, y=y, color=color, tooltip=tips),
        layer(above, text | {"dy": -12}, x=x, y=y, text={"field": "name"}),
        layer(below, text | {"dy": 13}, x=x, y=y, text={"field": "name"}),
    ]
    return layered(layers, 260)


def _two_lanes(rows: Sequence[Row], right: float, top: float) -> tuple[list[Row], list[Row]]:
    """Rows whose names are written above their dots, and those below: where a name would overlap one
    before it, on the side with more room. Names are a third of the narrowest chart wide, and a line a
    fifteenth of it high.
    """
    lanes: tuple[list[Row], list[Row]] = [], []
    drawn: tuple[list[tuple[float, float]], ...] = [], []
    places = [(cast(float, row["dollars"]), cast(float, row["days"]), row) for row in rows]
    for dollars, days, row in sorted(places, key=lambda place: place[0]):
        free = [
            min((abs(dollars - x) for x, y in lane if abs(days - y) < top / 15), default=right)
            for lane in drawn
        ]
        below = free[0] < right / 3 and free[1] > free[0]
        lanes[below].append(row)
        drawn[below].append((dollars, days))
    return lanes


def memory_chart(rows: Mapping[str, PredictedMemory]) -> Spec:
    """The peak of each row against what a program may use of the device."""
    limits = sorted({row.capacity for row in rows.values()})
    size, name = unit([limits[-1]], BYTES)
    values = [
        {
            "row": row,
            "x": (memory.peak or 0) / size,
            "peak": bytes_text(memory.peak),
            "fits": "more than there is" if memory.missing else "fits",
            "of": f"{(memory.peak or 0) / memory.capacity:.0%} of {bytes_text(memory.capacity)}",
        }
        for row, memory in rows.items()
    ]
    ends: list[Row] = [
        {"limit": limit / size, "words": f"{bytes_text(limit)} may be used"} for limit in limits
    ]
    top = 1.15 * max(limits[-1], *(row.peak or 0 for row in rows.values())) / size
    title = f"peak memory per device ({name})"
    x, limit = _axis_to(top, title, "x"), _axis_to(top, title, "limit")
    y = row_axis(rows)
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
