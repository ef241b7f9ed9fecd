"""Kinds of attention over `context`, by length: memory as bars, exposed time as dots, in one chart."""

from collections.abc import Sequence

from spmd_core.base import bytes_text, count_text, seconds_text
from spmd_core.sweeps import ContextRow, fastest_kinds
from spmd_lab.ui.charts.base import (
    BYTES,
    INK,
    MARKER,
    SECONDS,
    Spec,
    hover,
    layer,
    layered,
    quantity,
    rows_axis,
    unit,
)
from spmd_lab.ui.charts.colors import BEST, KINDS, OTHER

_LABEL = {"type": "text", "align": "right", "dx": -4, **INK}


def context_chart(rows: Sequence[ContextRow]) -> Spec:
    """A row for each kind and length: a bar by the axis below, a dot by that above; the fastest that
    fits in a color of its own.
    """
    known = [row for row in rows if row.step and row.exposed_s is not None]
    best = fastest_kinds(rows)
    peaks, waits = (
        [row.step.memory_bytes.peak or 0 for row in known if row.step],
        [row.exposed_s or 0.0 for row in known],
    )
    (size, bytes_name), (second, seconds_name) = unit(peaks, BYTES), unit([max(waits)], SECONDS)
    values = [
        {
            "row": f"{count_text(row.tokens)} · {row.kind}",
            "color": BEST if best.get(row.tokens) == row.kind else OTHER,
            "memory": peak / size,
            "exposed": wait / second,
            "label": f"{bytes_text(peak)}, waits {seconds_text(wait)}",
        }
        for row, peak, wait in zip(known, peaks, waits, strict=True)
    ]
    y = rows_axis([str(row["row"]) for row in values])
    tips = hover(row="sequence · kind", label="holds and waits")
    domain = {"domain": [0, 1.8 * max(peaks) / size], "nice": False}  # labels need the rest
    memory = quantity("memory", title=f"memory per device ({bytes_name})", scale=domain)
    exposed = quantity(
        "exposed",
        title=f"exposed time of a step ({seconds_name})",
        axis={"orient": "top", "grid": False, "titleColor": KINDS["exposed"]},
        scale={"domain": [0, 1.8 * (max(waits) or second) / second], "nice": False},
    )
    color = {"field": "color", "type": "nominal", "scale": None}
    bar = {"type": "bar", "height": 16, "cornerRadiusEnd": 3}
    bars = [
        layer(values, bar, x=memory, y=y, color=color, tooltip=tips),
        layer(values, _LABEL, x={"value": "width"}, y=y, text={"field": "label"}),
    ]
    dots = layer(values, MARKER | {"color": KINDS["exposed"]}, x=exposed, y=y, tooltip=tips)
    resolve = {"scale": {"x": "independent"}}
    return layered([{"layer": bars}, dots], {"step": 34}, resolve=resolve)
