"""A chart as SVG that follows the page's theme, and can be read without hovering: every bar has its
number beside it.
"""

import math
from html import escape

from spmd_core.base import bytes_text, seconds_text, visible
from spmd_core.reports.document import Chart

_WIDTH, _LEFT, _RIGHT = 860, 4, 150  # of the picture, of its edge, of the numbers
_ROW, _TOP, _AXIS = 56, 4, 36  # a label above each bar, which a narrow window writes larger
_LONGEST = 60  # characters of a label
_COLORS = 8  # classes of the style sheet
_STEPS = (1, 2, 5, 10)


def svg_of(chart: Chart) -> str:
    """The picture. Values beyond the axis are drawn at its end."""
    most = _most(chart)
    height = _TOP + _ROW * len(chart.bars) + _AXIS
    words = seconds_text if chart.unit == "s" else bytes_text
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_alt(chart)}">',
        *_axis(chart, most, height),
    ]
    for number, bar in enumerate(chart.bars):
        y = _TOP + _ROW * number
        color = f"c{bar.group % _COLORS}"
        label = visible(bar.label)
        shown = label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
        parts += [
            f'<text x="{_LEFT}" y="{y + 22}">{escape(shown)}</text>',
            f'<rect class="{color} bar" x="{_LEFT}" y="{y + 30}" '
            f'width="{_x(bar.middle, most) - _LEFT:.1f}" height="18" rx="2"/>',
        ]
        parts += [
            f'<path class="{color} tick" d="M{_x(value, most):.1f} {y + 32}v14"/>'
            for value in bar.values
        ]
        if bar.low is not None and bar.high is not None:
            low, high = _x(bar.low, most), _x(bar.high, most)
            parts.append(f'<path class="{color} span" d="M{low:.1f} {y + 39}H{high:.1f}"/>')
        value = words(bar.middle)  # pyright: ignore[reportArgumentType]
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 12}" y="{y + 46}" class="n">{escape(value)}</text>'
        )
    return "".join([*parts, "</svg>"])


def _alt(chart: Chart) -> str:
    words = seconds_text if chart.unit == "s" else bytes_text
    listed = ", ".join(f"{bar.label} {words(bar.middle)}" for bar in chart.bars)  # pyright: ignore[reportArgumentType]
    return escape(visible(f"{chart.title}: {listed}"))


def _most(chart: Chart) -> float:
    """The end of the axis: every middle and interval fits, and single values up to 1.5 times the
    longest bar.
    """
    known = [each for bar in chart.bars for each in (bar.middle, bar.high or 0.0)]
    single = [value for bar in chart.bars for value in bar.values]
    longest = max(bar.middle for bar in chart.bars)
    return max(*known, min(max(single, default=0.0), 1.5 * longest)) or 1.0


def _x(value: float, most: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(1.0, max(0.0, value / most))


def _axis(chart: Chart, most: float, height: int) -> list[str]:
    """Grid lines with their numbers, at round steps."""
    words = seconds_text if chart.unit == "s" else bytes_text
    base = (
        10 ** math.floor(math.log10(most / 4))
        if chart.unit == "s"
        else 2 ** math.floor(math.log2(most / 4))
    )
    steps = _STEPS if chart.unit == "s" else (1, 2, 4)
    step = next((base * each for each in steps if most / (base * each) <= 6), base * steps[-1])
    parts = []
    for number in range(int(most / step) + 1):
        x = _x(number * step, most)
        value = "0" if number == 0 else words(number * step)  # pyright: ignore[reportArgumentType]
        parts += [
            f'<path class="grid" d="M{x:.1f} {_TOP}V{height - _AXIS}"/>',
            f'<text x="{x:.1f}" y="{height - _AXIS + 18}" class="axis" text-anchor="middle">{value}</text>',
        ]
    return parts
