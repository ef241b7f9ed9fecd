"""The first screen of a step as one picture: an SVG without scripts, styles or anything loaded."""

from collections.abc import Sequence
from html import escape

_LINE, _WIDTH, _MARGIN = 17, 7.6, 12  # pixels
_MOST = 200  # characters of a line


def svg_of(lines: Sequence[str]) -> str:
    """Returns lines as an SVG in the color of the text around it, light or dark."""
    shown = [line if len(line) <= _MOST else f"{line[: _MOST - 1]}…" for line in lines]
    width = round(2 * _MARGIN + _WIDTH * max(map(len, shown), default=0))
    height = 2 * _MARGIN + _LINE * len(shown)
    rows = "".join(_row(number, line) for number, line in enumerate(shown) if line)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="12.5" '
        f'fill="currentColor"><title>{escape(lines[0])}</title>{rows}</svg>'
    )


def _row(number: int, line: str) -> str:
    is_title = number == 0 or not line.startswith(" ")
    weight = ' font-weight="bold"' if is_title else ""
    y = _MARGIN + _LINE * (number + 1) - 4
    return f'<text x="{_MARGIN}" y="{y}" xml:space="preserve"{weight}>{escape(line)}</text>'
