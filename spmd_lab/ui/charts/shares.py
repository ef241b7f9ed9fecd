"""Where the time of predicted steps goes, as bars of their parts."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate, chain, cycle, pairwise
from types import MappingProxyType
from typing import NamedTuple
from zlib import crc32

from spmd_core.base import bytes_text, number_text, seconds_text, sums_by_key
from spmd_core.facts import Estimate, Prediction
from spmd_core.words import RANGE, part_kind, parts
from spmd_lab.ui.charts import colors
from spmd_lab.ui.charts.base import (
    INK,
    LABELS,
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

_SHARES_LEGEND = TOP | {
    "columns": {"expr": "width < 300 ? 1 : width < 480 ? 2 : width < 700 ? 3 : 6"},
    "offset": 4,
    "labelLimit": 260,
    "symbolStrokeWidth": 0,
    "symbolType": "square",
}

_BAR = {"type": "bar", "height": 26}
_TIME_PX = 64  # right of a bar, for its time
_DIGIT_PX = 9  # of a character of the share that stands in a part
_INSIDE = {"type": "text", "fontWeight": 600}
_LOW = {"yOffset": 17, **INK}  # below the bar
_SPAN = {"type": "rule", "strokeWidth": 2, **_LOW}
_CAP = {"type": "tick", "orient": "vertical", "size": 8, "thickness": 2, **_LOW}
# of a difference; hollow where it saves time
_STEP = {"type": "bar", "height": 16, "strokeWidth": 1.5}
_SAVED: Spec = {"condition": {"test": "datum.x2 < datum.x", "value": 0.15}, "value": 1}
_JOINED = {"type": "rule", "strokeWidth": 1, "color": QUIET}  # from one difference to the next
_ROW_PX, _LOW_PX = (30, 50), 42  # of a row: of one, of several; among differences
_IS_SMALL = "width < 300"  # of a chart: without pictures
# left of its bar
_PICTURE = {
    "type": "image",
    "width": 44,
    "height": 26,
    "x": -28,
    "opacity": {"expr": f"{_IS_SMALL} ? 0 : 1"},
}
_BESIDE = {"expr": f"{_IS_SMALL} ? 6 : 60"}  # from a label to its bar, pixels
_NARROW_PX = 420  # a chart in which a difference has no name
_ROOM = 0.45  # of the axis: from there on a difference has room for its name left of it
_AT_END = {"type": "text", "align": "left", "dx": 6, "fontWeight": 600, **INK}
_AT_START = _AT_END | {"align": "right", "dx": -8}
# shares of white, or below 0 of black, in the colors of parts of one kind, by what ends their names
_SHADES = (0.0, -0.4, 0.3, 0.62, -0.24, 0.42, -0.12)
_NAMED = (
    (
        "fsdp",
        "matrix products",
        "computation",
        "attention kernels",
        "HBM-bound operations",
        "all-gather",
        "copies",
        " x",
    ),
    ("tensor", "model", " tp", " y", "grouped matmuls", "all-reduce", "the host"),
    ("data", " dp", " z", "other kernels", "reduce-scatter"),
    ("expert", " ep", "all-to-all"),
    ("sequence", "collective-permute", "between slices"),
    ("stage", "other stages", "other groups"),
    ("stragglers",),
)
_RANGE = f", ├─┤ {RANGE}"
_WAITS = ": the chip waits for it"
_OTHER, _FREE = "other", "free"
_SEEN = 0.004  # of a bar: a thinner part is no color that a legend could name
_NAMED_FROM = 0.01  # of a bar of several: what is thinner in each is one part


def row_axis(rows: Iterable[str]) -> Spec:
    """The y axis of these rows; of a single one, no axis."""
    labels = list(rows)
    return (
        rows_axis(labels) if len(labels) > 1 else {"field": "row", "type": "nominal", "axis": None}
    )


def shares_chart(
    rows: Mapping[str, Prediction],
    pictures: Mapping[str, str] = MappingProxyType({}),
    steps: Sequence[tuple[str, float]] = (),
) -> Spec:
    """Returns `parts_chart` of predictions; of several, each with its time and interval, and what
    each part adds from the first to the second (`steps`). `pictures`: addresses of images, by row.
    """
    times = {row: each.predicted_s for row, each in rows.items() if each.predicted_s}
    named = {row: parts(prediction) for row, prediction in rows.items()}
    if len(rows) == 1:
        return parts_chart(_without_thin(named, _SEEN))
    return parts_chart(_without_thin(named), times, pictures, steps)


def _without_thin(
    rows: Mapping[str, Mapping[str, float]], least: float = _NAMED_FROM
) -> Mapping[str, Mapping[str, float]]:
    """Returns rows in which parts that are thin in each are one, which a legend names."""
    seen = {
        part
        for seconds in rows.values()
        for part, each in seconds.items()
        if each > least * sum(seconds.values())
    }
    return {
        row: sums_by_key((part if part in seen else _OTHER, each) for part, each in seconds.items())
        for row, seconds in rows.items()
    }


def has_room(sums: Sequence[float]) -> bool:
    """Returns True if differences from the first row leave room for their names left of them."""
    return sums[0] > _ROOM * max(sums)


def split_bar(
    named: Mapping[str, float], title: str = "", notes: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Returns HTML of one bar of the seconds of named parts below its title, each named with its share,
    what is noted of it and, on hover, its seconds; parts too thin for the eye are one, and one of
    exposed communication. The shares add up to 100 %; one that rounds to nothing is not named.
    """
    return _split(_drawn(named, notes, _shades(named)), title)


def step_bars(
    rows: Mapping[str, Mapping[str, float]], notes: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Returns HTML of a `split_bar` of each titled row, all of one scale; what communicates is orange,
    as in a timeline, and called exposed and not hidden.
    """
    most, bars = max(sum(row.values()) for row in rows.values()) or 1.0, []
    every = {
        name: max(row.get(name, 0.0) for row in rows.values()) for name in chain(*rows.values())
    }
    shades = _as_timeline(every)
    for title, named in rows.items():
        drawn = _drawn(named, notes, {name: shades[name] for name in shades if name in named})
        plain = (each._replace(name=_not_hidden(each.name)) for each in drawn)
        empty = round(1000 * (most / (sum(named.values()) or 1.0) - 1))
        bars.append(_split(plain, title, empty=empty))
    return "".join(bars)


def _as_timeline(named: Mapping[str, float]) -> dict[str, str]:
    """Part -> its color; exposed communication, the longest first, from that of a timeline on."""
    exposed = sorted(
        (name for name in named if name.startswith("exposed")), key=lambda e: -named[e]
    )
    tones = (_mixed(colors.KINDS["exposed"], share) for share in cycle(_SHADES))
    return _shades(named) | dict(zip(exposed, tones, strict=False))


def _not_hidden(part: str) -> str:
    """Returns a part as who does not know the field reads it.

    >>> _not_hidden("exposed over fsdp"), _not_hidden("copies")
    ('exposed over fsdp, not hidden', 'copies')
    """
    return f"{part}, not hidden" if "exposed" in part else part


def _drawn(
    named: Mapping[str, float], notes: Mapping[str, str], shades: Mapping[str, str]
) -> Iterator["_Part"]:
    total = sum(named.values()) or 1.0
    thin = Counter(_thin(part) for part, seconds in named.items() if seconds <= _SEEN * total)
    is_merged = {part: named[part] <= _SEEN * total and thin[_thin(part)] > 1 for part in shades}
    seen = sums_by_key((_thin(part) if is_merged[part] else part, named[part]) for part in shades)
    tenths = pairwise([0, *(round(1000 * end / total) for end in accumulate(seen.values()))])
    shares = {part: end - begin for part, (begin, end) in zip(seen, tenths, strict=True)}
    color = {
        **shades,
        "other": colors.KINDS["loop"],
        _thin("exposed"): _mixed(colors.KINDS["exposed"], 0.7),
    }
    return (
        _Part(
            part,
            shares[part],
            color[part],
            f"{shares[part] / 10:.1f}%{notes.get(part, '')}",
            seconds_text(seconds) + _WAITS * part.startswith("exposed"),
        )
        for part, seconds in seen.items()
    )


def token_bar(parts: Mapping[str, float]) -> str:
    """Returns HTML of one bar of the seconds of an output token, each part named below with its own."""
    total = sum(parts.values())
    drawn = (
        _Part(
            name,
            round(1000 * seconds / total),
            colors.SERVED.get(name, colors.OTHER_HELD),
            seconds_text(seconds),
            f"{seconds / total:.0%} of {seconds_text(total)}",
        )
        for name, seconds in parts.items()
    )
    return _split(drawn, "Time per token")


def memory_bar(parts: Mapping[str, float], capacity: float, when: str = " at the peak") -> str:
    """Returns HTML of one bar of the bytes that a device holds, each part in the color of its name and
    named below the bar with its bytes, and what is free of `capacity`, or where that ends; parts too
    thin for the eye are one. `when`: they are held.
    """
    total, held = max(sum(parts.values()), capacity), [name for name in parts if parts[name]]
    order = [*colors.HELD]
    held.sort(key=lambda name: order.index(name) if name in colors.HELD else len(order))
    thin = [name for name in held if parts[name] <= _SEEN * total]
    merged = thin if len(thin) > 1 else ()
    seen = sums_by_key((_OTHER if name in merged else name, parts[name]) for name in held)
    free = capacity - sum(parts.values())
    named = [*seen.items(), *([(_FREE, free)] if free > 0 else [])]
    of = f"of {bytes_text(capacity)}"
    drawn = (
        _Part(
            name,
            round(1000 * size / total),
            colors.UNUSED if name == _FREE else colors.HELD.get(name, colors.OTHER_HELD),
            bytes_text(size),
            f"{size / capacity:.0%} {of}",
        )
        for name, size in named
    )
    limit = (capacity / total, f"{bytes_text(capacity)} per device") if free < 0 else None
    return _split(drawn, f"Memory of a device{when}, {of}", limit)


class _Part(NamedTuple):
    name: str
    share: int  # thousandths of the bar
    color: str
    value: str
    more: str


def _split(
    parts: Iterable[_Part], title: str, limit: tuple[float, str] | None = None, empty: int = 0
) -> str:
    """Returns HTML of a bar; `limit`: a share of it, and what ends there; `empty`: thousandths of it
    that are left free behind it.
    """
    named = [*parts]
    bar = "".join(f'<i style="flex:{each.share};background:{each.color}"></i>' for each in named)
    bar += f'<i style="flex:{empty}"></i>' * (empty > 0)
    legend = "".join(
        f'<li title="{each.more}"><i style="background:{each.color}"></i>'
        f"{escape(each.name)} <b>{each.value}</b></li>"
        for each in named
        if each.share
    )
    head = f"<small>{escape(title)}</small>" if title else ""
    if limit:
        bar += f'<s style="left:{limit[0]:.2%}"></s>'
        legend += f"<li><s></s>{escape(limit[1])}</li>"
    return f'<div class="split">{head}<div>{bar}</div><ul>{legend}</ul></div>'


def _thin(part: str) -> str:
    return "other exposed" if part.startswith("exposed") else "other"


def parts_chart(
    rows: Mapping[str, Mapping[str, float]],
    times: Mapping[str, Estimate] = MappingProxyType({}),
    pictures: Mapping[str, str] = MappingProxyType({}),
    steps: Sequence[tuple[str, float]] = (),
) -> Spec:
    """Returns the seconds of each row as a bar of its parts, by the names that the terminal has too;
    each part with its time in the bar where there is room, and of several the time at the bar's
    end with the interval of `times`; `steps` lead from the end of the first bar to that of the second.
    """
    sums = {row: sum(seconds.values()) for row, seconds in rows.items()}
    size, name = unit([*sums.values()], SECONDS)
    shades = _shades(part for seconds in rows.values() for part in seconds)
    is_several = len(rows) > 1
    values = [each for row in rows for each in _parts_of(row, rows[row], shades, size, is_several)]
    far = [each.high for each in times.values()]
    far += accumulate((each for _, each in steps), initial=next(iter(sums.values()), 0.0))
    end = _end([*sums.values()], max(far, default=0.0), size)
    scale = {"domainMin": 0, "domainMax": {"expr": end}, "nice": False}
    title = {"title": f"step time ({name}){_RANGE * bool(times)}", "axis": {"grid": False}}
    axis = title if is_several else {"axis": None}
    x = {at: quantity(at, scale=scale, **axis) for at in ("x", "middle")}
    color = _part_color(rows, shades)
    tips = hover(part="part", time="time", share="share")
    y = _y_beside(list(rows), len(steps)) if pictures or steps else row_axis(rows)
    inside = {"x": x["middle"], "y": y, "text": {"field": "label"}}
    test = f"(datum.x2 - datum.x) * width > {_DIGIT_PX} * length(datum.label) * {end}"
    seen = {"condition": {"test": test, "value": 1}, "value": 0}
    layers = [
        layer(values, _BAR, x=x["x"], x2={"field": "x2"}, y=y, color=color, tooltip=tips),
        layer(values, _INSIDE, color=as_is("ink"), opacity=seen, **inside),
        *_at_ends(sums, times, size, x["x"], y),
        *_pictures(pictures, y),
        *_steps(steps, sums, shades, size, x["x"], y),
    ]
    return layered(layers, {"step": _LOW_PX if steps else _ROW_PX[is_several]})


def _pictures(pictures: Mapping[str, str], y: Spec) -> list[Spec]:
    rows = [{"row": row, "url": url} for row, url in pictures.items()]
    return [layer(rows, _PICTURE, y=y, url=as_is("url"))]


def _y_beside(rows: Sequence[str], count: int) -> Spec:
    """The y axis of rows with room for pictures, and below the first of so many differences, which
    have no label.
    """
    shown = f"indexof({json.dumps(rows)}, datum.label) < 0 ? '' : {LABELS['labelExpr']}"
    axis = LABELS | {"labelPadding": _BESIDE, "labelExpr": shown}
    return rows_axis([*rows[:1], *map(str, range(count)), *rows[1:]]) | {"axis": axis}


def _steps(
    steps: Sequence[tuple[str, float]],
    sums: Mapping[str, float],
    shades: Mapping[str, str],
    size: float,
    x: Spec,
    y: Spec,
) -> list[Spec]:
    if not steps:
        return []
    ends = [*accumulate((seconds for _, seconds in steps), initial=next(iter(sums.values())))]
    values = [
        {
            "row": str(at),
            "part": part,
            "x": begin / size,
            "x2": end / size,
            "low": min(begin, end) / size,
            "color": shades.get(part, colors.KINDS["loop"]),
        }
        | {"label": f"{signed(seconds)} {part}", "short": signed(seconds)}
        for at, ((part, seconds), (begin, end)) in enumerate(
            zip(steps, pairwise(ends), strict=True)
        )
    ]
    words = {"text": {"expr": f"width < {_NARROW_PX} ? datum.short : datum.label"}}
    first, last, *_ = sums
    places = pairwise([first, *(each["row"] for each in values), last])
    joined = [
        {"row": above, "below": below, "x": end / size}
        for (above, below), end in zip(places, ends, strict=True)
    ]
    shade = as_is("color")
    filled = {"fill": shade, "stroke": shade, "fillOpacity": _SAVED}
    return [
        layer(joined, _JOINED, x=x, y=y, y2={"field": "below"}),
        layer(values, _STEP, x=x, x2={"field": "x2"}, y=y, **filled),
        layer(values, _AT_START | words, x=x | {"field": "low"}, y=y),
    ]


def signed(seconds: float) -> str:
    """Returns a difference with its sign."""
    return f"{'−' if seconds < 0 else '+'}{seconds_text(abs(seconds))}"


def _end(sums: Sequence[float], far: float, size: float) -> str:
    """An expression of where the axis of bars ends: past intervals, and times at ends of several."""
    longest = (max(sums, default=0.0) / size) or 1.0
    room = f"width / max(width - {_TIME_PX}, {_TIME_PX})" if len(sums) > 1 else "1"
    return f"max({far / size}, {longest} * {room})"


def _part_color(rows: Mapping[str, Mapping[str, float]], shades: Mapping[str, str]) -> Spec:
    """The color of each part, with a legend of those that the eye can see in a bar."""
    seen = {
        part
        for seconds in rows.values()
        for part, each in seconds.items()
        if each > _SEEN * sum(seconds.values()) or part == _OTHER
    }
    legend = _SHARES_LEGEND | {"values": [part for part in shades if part in seen]}
    return category("part", list(shades), legend=legend, colors=list(shades.values()))


def _at_ends(
    sums: Mapping[str, float], times: Mapping[str, Estimate], size: float, x: Spec, y: Spec
) -> list[Spec]:
    ends = [
        {"row": row, "x": total / size}
        | {"label": seconds_text(times[row].estimate if row in times else total)}
        for row, total in sums.items()
        if len(sums) > 1 and total
    ]
    spans = [
        {"row": row, "low": each.low / size, "high": each.high / size}
        for row, each in times.items()
    ]
    low, high = (x | {"field": at} for at in ("low", "high"))
    return [
        layer(spans, _SPAN, x=low, x2={"field": "high"}, y=y),
        *(layer(spans, _CAP, x=each, y=y) for each in (low, high)),
        layer(ends, _AT_END, x=x, y=y, text={"field": "label"}),
    ]


def _parts_of(
    row: str, seconds: Mapping[str, float], order: Mapping[str, str], size: float, has_axis: bool
) -> Iterator[Row]:
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
            "label": number_text(time / size) if has_axis else seconds_text(time),
            "ink": ink(order[part]),
        }


def _shades(names: Iterable[str]) -> dict[str, str]:
    """Part -> its color, in the order of a legend: that of its kind, by its name darker or lighter,
    so that a part has one color in every chart.
    """
    ordered = list(colors.KINDS)
    places = {name: (ordered.index(part_kind(name)), _place(name), name) for name in names}
    listed = sorted(places, key=places.__getitem__)  # by name where shades are few: as at each run
    shades = {part: _mixed(colors.KINDS[part_kind(part)], _SHADES[_place(part)]) for part in listed}
    if shades.pop(_OTHER, None):
        shades[_OTHER] = colors.KINDS["loop"]  # last
    return shades


def _place(part: str) -> int:
    """Returns the shade of a part; that of several axes is none of theirs."""
    if " and " not in part:
        for at, words in enumerate(_NAMED):
            if part.endswith(words):
                return at
    free = [at for at, words in enumerate(_NAMED) if not any(word in part for word in words)]
    named = " ".join(sorted(part.split()))  # alike in whatever order a mesh has its axes
    return free[crc32(named.encode()) % len(free)]


def _mixed(color: str, share: float) -> str:
    """A color mixed with a share of white, or of black where that is negative.

    >>> _mixed("#000000", 0.5), _mixed("#d9730d", 0.0), _mixed("#ffffff", -0.5)
    ('#808080', '#d9730d', '#808080')
    """
    values, end = (int(color[at : at + 2], 16) for at in (1, 3, 5)), 255 * (share > 0)
    return "#" + "".join(f"{round(value + abs(share) * (end - value)):02x}" for value in values)


def ink(color: str) -> str:
    """The color of text on a color: what has the higher contrast.

    >>> ink("#3b76c4"), ink("#5aa6a0")
    ('#ffffff', '#10161d')
    """
    red, green, blue = ((int(color[at : at + 2], 16) / 255) ** 2.2 for at in (1, 3, 5))
    return "#ffffff" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.21 else "#10161d"
