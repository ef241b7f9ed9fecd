"""What every chart is made of: units, channels, layers, and the specification around them.

A chart is a Vega-Lite specification as plain JSON values, for `st.vega_lite_chart`. Its rows are
inside the layers: it then costs one JSON dump at a rerun, without a data frame or an Arrow table.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Spec = dict[str, Any]  # a Vega-Lite specification, or a part of one: JSON
Row = Mapping[str, object]  # what the channels of a mark read
Units = tuple[tuple[float, str], ...]
SECONDS: Units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
BYTES: Units = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))
# of axes and legends: readable on a light page, quieter than the marks on a dark one
QUIET, _GRID = "light-dark(#4f5b6b, #a3adba)", "light-dark(#e3e8ee, #29313c)"
CONFIG: Spec = {
    "background": "transparent",  # a card has a color of its own
    "view": {"stroke": None},
    "axis": {"labelColor": QUIET, "titleColor": QUIET, "gridColor": _GRID, "domain": False}
    | {"titleFontWeight": 400, "titleFontSize": 12, "labelFontSize": 12, "titlePadding": 8}
    | {"tickCount": 7, "labelFlush": False, "labelBound": False},
    "axisX": {"grid": False},
    "axisY": {"grid": True},
    "legend": {"labelColor": QUIET, "titleColor": QUIET, "labelFontSize": 12},
}
PADDING = {"top": 4, "left": 2, "right": 8, "bottom": 2}
# of numbers beside marks
INK: Spec = {"color": "light-dark(#1c2430, #e4e9f0)"}
# of rows; that of a study's row, `variant · strategy`, on two lines
LABELS: Spec = {
    "labelLimit": 220,
    "labelOverlap": False,
    "ticks": False,
    "domain": False,
    "labelExpr": "split(datum.label, ' · ')",
}
INTERVAL: Spec = {"type": "rule", "strokeWidth": 3, "strokeCap": "round"}
MARKER: Spec = {"type": "point", "filled": True, "size": 130, "opacity": 1}
_UNDER = MARKER | {"size": 220, "color": "light-dark(#ffffff, #12161c)"}  # the page's color
TOP: Spec = {"orient": "top", "title": None}  # a legend above the chart


def unit(values: Sequence[float], units: Units) -> tuple[float, str]:
    """The unit in which the middle of these values is easy to read: its size and its name."""
    middle = sorted(values)[len(values) // 2] if values else 0.0
    return next(((size, name) for size, name in units if middle >= size), units[-1])


def quantity(field: str, **properties: object) -> Spec:
    """A channel of numbers."""
    return {"field": field, "type": "quantitative", **properties}


def category(
    field: str,
    order: Sequence[object],
    *,
    legend: Spec | None = None,
    colors: Sequence[object] | None = None,
) -> Spec:
    """A channel of names in this order, with a color (or a dash) of its own for each."""
    scale: Spec = {"domain": list(order)} | ({} if colors is None else {"range": list(colors)})
    return {
        "field": field,
        "type": "nominal",
        "sort": list(order),
        "scale": scale,
        "legend": legend,
    }


def as_is(field: str) -> Spec:
    """A channel of colors that the rows name themselves."""
    return {"field": field, "type": "nominal", "scale": None}


def rows_axis(labels: Sequence[str]) -> Spec:
    """The y axis of labelled rows."""
    return {
        "field": "row",
        "type": "nominal",
        "sort": list(labels),
        "title": None,
        "scale": {"domain": list(labels)},
        "axis": LABELS,
    }


def hover(**titles: str) -> list[Spec]:
    """What a mark shows on hover: field to title, in this order."""
    return [{"field": field, "title": title} for field, title in titles.items()]


def layer(rows: Sequence[Row] | str, mark: Spec | str, **encoding: object) -> Spec:
    """Marks of these rows, or of the data set of this name."""
    data = {"name": rows} if isinstance(rows, str) else {"values": list(rows)}
    return {"data": data, "mark": mark, "encoding": encoding}


def markers(rows: Sequence[Row], **encoding: object) -> list[Spec]:
    """Markers of rows, seen on their intervals."""
    return [
        layer(rows, _UNDER, x=encoding["x"], y=encoding["y"]),
        layer(rows, MARKER, **encoding, shape=as_is("shape")),
    ]


def layered(layers: Sequence[Spec], height: object, **properties: object) -> Spec:
    """A chart of layers; `height` in pixels, or of a row as `{"step": pixels}`. One without a mark
    is left out: Vega gives it the role of a picture, which needs a text.
    """
    marked = [each for each in layers if each.get("data") != {"values": []}]
    drawn = {"layer": marked, "height": height, "padding": PADDING, "config": CONFIG}
    return drawn | properties
