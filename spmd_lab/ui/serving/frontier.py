"""Throughput per chip against the speed of a user: a curve for each sharding over concurrencies."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.answers import beaten_words, better_point, load_words, served_chips, served_mesh
from spmd_core.base import number_text, seconds_text
from spmd_core.search import (
    CurvePoint,
    ServingAnswer,
    ServingCurve,
    ServingQuestion,
    ServingRow,
    frontier as frontier_of,
    serving_curves,
)
from spmd_lab.ui.charts.base import (
    INK,
    QUIET,
    TOP,
    Spec,
    category,
    hover,
    layer,
    layered,
    quantity,
)
from spmd_lab.ui.charts.colors import BEST, OTHER
from spmd_lab.ui.markdown import plain

_FRONT, _OWN, _OTHERS = "most with any number at once", "the answer's sharding", "other shardings"
# the frontier is wide, and paler than the curves over it
_LOOKS = {_FRONT: "light-dark(#c3d6f3, #2d4a75)", _OWN: BEST, _OTHERS: OTHER}
_LEGEND = TOP | {
    "symbolType": "stroke",
    "symbolStrokeWidth": 4,
    "labelLimit": 0,
    "offset": 4,
    "columns": {"expr": "containerSize()[0] > 620 ? 3 : 1"},
}
_LINE = {"type": "line", "clip": True, "interpolate": "linear"}
_BAND = _LINE | {"strokeWidth": 9, "strokeCap": "round", "strokeJoin": "round"}
_POINT = {"type": "point", "filled": True, "clip": True}
_PICK = {"type": "point", "size": 260, "color": BEST, "strokeWidth": 2}  # a ring around it
_RANGE = {"type": "rule", "color": BEST, "strokeWidth": 2, "opacity": 0.6, "clip": True}
_NAME = {"type": "text", "align": "left", "dx": 8, "fontWeight": 600, **INK}
_SPAN = _NAME | {"fontWeight": 400, "color": QUIET}
_HALO = {"stroke": "light-dark(#f6f8fb, #171c23)", "strokeWidth": 4, "strokeJoin": "round"}
_COUNT = {"type": "text", "align": "right", "dx": -8, "dy": 4, "fontSize": 11, "color": QUIET} | {
    "opacity": {"expr": "containerSize()[0] > 620 ? 1 : 0"}
}
# how a name is drawn in a wide chart and in a narrow one: the share of the width that it needs, and when
_WIDTHS = ((0.19, "containerSize()[0] > 620"), (0.56, "containerSize()[0] <= 620"))
_HIGH = 0.09  # of the height
_NEAR = 0.06  # of the width: how far from its stretch of the frontier a name may be
_LOW = 0.1  # least share of the height at which a number of requests is beside the answer's curve
_MOST = {"type": "rule", "strokeDash": [3, 3], "color": BEST}
_MOST_NAME = {"type": "text", "align": "right", "dx": -4, "dy": -7, "color": BEST} | {
    "opacity": {"expr": "containerSize()[0] > 620 ? 1 : 0"}
}
_LIMIT = {"type": "rule", "strokeDash": [4, 4], "color": QUIET}
_LIMIT_NAME = {"type": "text", "align": "left", "dx": 5, "dy": 8, "color": QUIET}


def draw(
    answer: ServingAnswer,
    answered: Callable[[ServingQuestion], ServingAnswer],
    ask: Callable[[int], None],
    above: DeltaGenerator | None = None,
) -> None:
    """Draws the curves, the frontier with whose it is, and the answer with its range; above them, or
    in `above`, the number of requests whose answer beats this one, for which a press calls `ask`.
    """
    curves = serving_curves(answer)
    front = frontier_of(curves)
    if answer.lead is None or not front:
        return
    better = better_point(answer, curves, answered)
    st.markdown("**Throughput per chip against the speed of one user**")
    with (above or st).container(horizontal=True, vertical_alignment="center"):
        st.markdown(plain(beaten_words(answer, better, front)), width="content")
        if better and answer.question.load.rate is None:
            count = better.concurrency
            kind = "primary" if above else "secondary"
            st.button(
                f"Serve {count:,} at once",
                key="serving:ask",
                on_click=ask,
                args=(count,),
                type=kind,
            )
    owners = _owners(front)
    st.vega_lite_chart(
        _chart(answer, answer.lead, curves, front),
        key="serving-front",
        alt="; ".join(
            f"{row['name']}, {row['spans']}: {row['takes']}, {row['makes']}" for row in owners
        ),
    )


def _row(point: CurvePoint, **more: object) -> Spec:
    row, pool = point.row, point.row.pool
    assert row.served and pool
    is_full = pool.cache - row.cache_used < pool.sequence
    return {
        "end": "cache full" if is_full else "most at once",
        "speed": row.speed,
        "rate": row.per_chip,
        "count": f"{point.concurrency:,}",
        "name": _name(row),
        "takes": f"{seconds_text(row.served.tpot_s)} a token",
        "makes": f"{number_text(row.per_chip)} tokens/s per chip",
        **more,
    }


def _name(row: ServingRow) -> str:
    return f"{served_chips(row.plan)}, {served_mesh(row)}"


def _owners(front: Sequence[tuple[ServingCurve, CurvePoint]]) -> list[Spec]:
    """The middle point of each stretch of the frontier that one sharding has, the longest first."""
    owners = []
    for _, stretch in groupby(front, key=lambda each: id(each[0])):
        points = [point for _, point in stretch]
        few, many = points[0].concurrency, points[-1].concurrency
        spans = f"{few:,} to {many:,} at once" if many > few else f"{few:,} at once"
        row = _row(points[len(points) // 2], spans=spans, slowest=points[-1].row.speed)
        owners.append((len(points), row))
    return [row for _, row in sorted(owners, key=lambda each: -each[0])]


def _lines(
    lead: ServingRow,
    curves: Sequence[ServingCurve],
    front: Sequence[tuple[ServingCurve, CurvePoint]],
) -> Iterator[list[Spec]]:
    """Yields the points of the frontier, of the answer's curve, and of others that are on it: a curve
    below all others needs a name, and has no room for one.
    """
    yield [_row(point, curve=-1, kind=_FRONT) for _, point in front]
    owners = {id(curve) for curve, _ in front}
    seen = [(at, each) for at, each in enumerate(curves) if not at or id(each) in owners]
    for kind in (_OWN, _OTHERS):
        yield [
            _row(point, curve=at, kind=kind)
            for at, curve in seen
            if (curve.row is lead) is (kind == _OWN)
            for point in curve.points
        ]


def _chart(
    answer: ServingAnswer,
    lead: ServingRow,
    curves: Sequence[ServingCurve],
    front: Sequence[tuple[ServingCurve, CurvePoint]],
) -> Spec:
    load = answer.question.load
    here = _row(CurvePoint(load.concurrency, lead))
    of_front, of_own, others = _lines(lead, curves, front)
    x, y = _axes(answer, [here, *of_front, *of_own])
    others = [row for row in others if row["speed"] >= x["scale"]["domain"][0]]
    dots = [
        row for row in (*of_own, *others) if load.rate is None and row["count"] == here["count"]
    ]
    title = f"{_OTHERS}, dot: {here['count']} at once" if dots else _OTHERS
    titles = json.dumps({_OWN: f"{_OWN}, cross: its range", _OTHERS: title})
    looks = _LEGEND | {"labelExpr": f"{titles}[datum.label] || datum.label"}
    color = category("kind", list(_LOOKS), legend=looks, colors=list(_LOOKS.values()))
    tips = hover(name="sharding", count="requests at once", takes="takes", makes="makes")
    at = {"x": x, "y": y}
    looks = at | {"color": color, "detail": {"field": "curve"}}
    seen = [*of_front, *of_own]
    layers = [
        layer(of_front, _BAND, **looks),
        layer(others, _LINE | {"strokeWidth": 1.2}, **looks),
        layer(of_own, _LINE | {"strokeWidth": 2.5}, **looks),
        layer(seen, _POINT | {"size": 26, "color": BEST}, **at, tooltip=tips),
        layer(dots, _POINT | {"size": 70, "opacity": 1}, **at, color=color, tooltip=tips),
        *_most(dots, here, x, y),
        *_limit(answer, x),
        *_picked(answer, here, x, y),
        *_counts(of_own, here, x, y),
        *_names(answer, here, front, x, y),
    ]
    return layered(layers, 380)


def _most(dots: Sequence[Spec], here: Spec, x: Spec, y: Spec) -> Iterator[Spec]:
    """The height of the answer across the chart, where all others with as many requests are below it:
    the frontier is of any number of requests.
    """
    others = [row["rate"] for row in dots if row["kind"] == _OTHERS]
    if not others or max(others) > here["rate"]:
        return
    row = here | {"count": f"no other makes more with {here['count']} at once"}
    yield layer([row], _MOST, y=y)
    at = {"x": {"value": {"expr": "width"}}, "y": y, "text": {"field": "count"}}
    for looks in (_MOST_NAME | _HALO, _MOST_NAME):
        yield layer([row], looks, **at)


def _axes(answer: ServingAnswer, rows: Sequence[Spec]) -> tuple[Spec, Spec]:
    """Speeds from the slowest of these rows on, tokens from 0 on."""
    speeds, rates = ([row[name] for row in rows] for name in ("speed", "rate"))
    room = 0.04 * (max(speeds) - min(speeds)) or 0.1 * max(speeds)
    low = min(speeds) - 3 * room  # a name begins there
    if limit := answer.question.tpot_s:
        low = min(low, 0.97 / limit)
    scale = {"zero": False, "nice": False, "domain": [max(0.0, low), max(speeds) + room]}
    x = quantity("speed", title="tokens/s of a user (1 / time per token) →", scale=scale)
    scale = {"domain": [0, 1.15 * max(rates)], "nice": False}  # room for a name
    return x, quantity("rate", title="tokens/s per chip", scale=scale)


def _limit(answer: ServingAnswer, x: Spec) -> Iterator[Spec]:
    if limit := answer.question.tpot_s:
        row = {"speed": 1 / limit, "name": f"{seconds_text(limit)} a token: to the right"}
        yield layer([row], _LIMIT, x=x)
        yield layer([row], _LIMIT_NAME, x=x, y={"value": 0}, text={"field": "name"})


def _picked(answer: ServingAnswer, here: Spec, x: Spec, y: Spec) -> Iterator[Spec]:
    """The answer: a ring, and the intervals of its speed and its throughput."""
    lead = answer.lead
    assert lead and lead.served
    token, load = lead.served.tpot, answer.question.load
    if times := lead.served.output_times(load):
        ends = here | {"low": times[0] * lead.per_chip, "high": times[1] * lead.per_chip}
        yield layer([ends], _RANGE, x=x, y=y | {"field": "low"}, y2={"field": "high"})
    ends = here | {"slow": 1 / token.high, "fast": 1 / token.low}
    yield layer([ends], _RANGE, x=x | {"field": "slow"}, x2={"field": "fast"}, y=y)
    yield layer([here], _PICK, x=x, y=y)


def _counts(own: Sequence[Spec], here: Spec, x: Spec, y: Spec) -> Iterator[Spec]:
    """Numbers of requests beside the points of the answer's curve that are apart; at its end, why
    it ends.
    """
    least = _LOW * y["scale"]["domain"][1]
    rows = [
        row
        for row, after in pairwise(own)
        if row["rate"] > least
        and after["rate"] - row["rate"] > least / 2
        and row["count"] != here["count"]
    ]
    last = [row for row in own[-1:] if row["speed"] != here["speed"]]
    rows += [row | {"count": f"{row['count']}: {row['end']}"} for row in last]
    for looks in (_COUNT | _HALO, _COUNT):
        yield layer(rows, looks, x=x, y=y, text={"field": "count"})


def _names(
    answer: ServingAnswer,
    here: Spec,
    front: Sequence[tuple[ServingCurve, CurvePoint]],
    x: Spec,
    y: Spec,
) -> Iterator[Spec]:
    """The answer and the shardings of the frontier, by name, where the names do not overlap."""
    load = answer.question.load
    at_once = f"{load.rate:g} a second" if load.rate else f"{load.concurrency:,} at once"
    others = [row for row in _owners(front) if row["name"] != here["name"]]
    is_above = any(curve.row is answer.lead for curve, _ in front)
    line = [(point.row.speed, point.row.per_chip) for _, point in front]
    domains = x["scale"]["domain"], y["scale"]["domain"]
    for wide, seen in _WIDTHS:
        is_narrow = wide == _WIDTHS[-1][0]  # a longer name is over its curve
        own = here | {"spans": at_once if is_narrow else load_words(load)}
        rows = placed(own, is_above, others, line, domains, wide)
        for field, dy, looks in (("name", -22, _NAME), ("spans", -8, _SPAN)):
            looks = looks | {"dy": dy, "opacity": {"expr": f"{seen} ? 1 : 0"}}
            at = {"x": x | {"field": "at"}, "y": y | {"field": "height"}, "text": {"field": field}}
            yield layer(rows, looks | _HALO, **at)
            yield layer(rows, looks, **at)


def placed(
    own: Spec,
    is_above: bool,
    others: Sequence[Spec],
    line: Sequence[tuple[float, float]],
    domains: tuple[Sequence[float], Sequence[float]],
    wide: float,
) -> list[Spec]:
    """Returns where names are drawn that take a share of the width: above the frontier, right of their
    points or at the right end; the answer's first, below its point unless `is_above`; those that
    would overlap, or be far from where they belong, are left out.

    Args:
      line: (speed, tokens) of the frontier.
      domains: of speeds, and of tokens.
    """
    (slow, fast), (_, most) = domains
    needs, high = wide * (fast - slow), _HIGH * most
    rows: list[Spec] = []
    for row in (own, *others):
        speed, height = row["speed"], row["rate"]
        at = min(speed, fast - needs)
        if row is own and not is_above:
            at, height = max(slow, speed - needs), height - 1.6 * high
        elif at < row.get("slowest", speed) - _NEAR * (fast - slow):
            continue
        elif at < speed:
            height = max(height, *(made for faster, made in line if faster >= at))
        if all(
            abs(at - each["at"]) > needs or abs(height - each["height"]) > high for each in rows
        ):
            rows.append(row | {"at": at, "height": height})
    return rows
