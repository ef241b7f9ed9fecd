"""An answer in a notebook cell: one static HTML without scripts, style sheets or anything loaded, in the
colors of the page around it.
"""

from collections.abc import Iterable, Sequence
from html import escape

from spmd_core.base import visible
from spmd_core.own import drawings
from spmd_core.own.first_screen import detail_lines, head_lines
from spmd_core.results import StepDescription

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


_FONT = "font-family:system-ui,sans-serif;font-size:14px;line-height:1.45"
_GRID = (
    "display:grid;grid-template-columns:repeat(auto-fill,minmax(min(280px,100%),1fr));gap:4px 24px"
)
_CODE = "font:12px/1.45 ui-monospace,Menlo,Consolas,monospace;margin:6px 0;overflow:auto"
# what a file may do where a browser opens it
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def cell_of(step: StepDescription) -> str:
    """Returns a step: its answer and accidents, pictures, and the text of its first screen."""
    largest = max(
        (each for each in step.arguments if any(each.spec or ())),
        key=lambda each: each.bytes,
        default=None,
    )
    pictures = [
        drawings.held(step.arguments),
        drawings.traffic(step),
        drawings.times(step),
        largest
        and drawings.layout(largest.path, largest.shape, largest.spec or (), dict(step.mesh)),
    ]
    first, *more = head_lines(step)
    accidents = (f"{'note, ' * each.is_note}{each.kind}: {each.sentence}" for each in step.findings)
    return cell((first, *more, *accidents), detail_lines(step), filter(None, pictures), "pre-wrap")


def cell(
    head: Sequence[str], text: Sequence[str], pictures: Iterable[str], space: str = "pre"
) -> str:
    """Returns lines of an answer with pictures between the first of them and the others.

    Args:
        head: the answer.
        text: all else that is printed.
        pictures: SVG, side by side where there is room.
        space: `pre-wrap` for a text whose long lines may be wrapped, `pre` for tables.
    """
    first, *more = map(visible, head)
    rows = "".join(f"<br>{escape(line)}" for line in more)
    rest = "\n".join(map(visible, text)).strip("\n")
    return (
        f'<div style="{_FONT}"><p style="margin:0 0 10px"><strong>{escape(first)}</strong>{rows}</p>'
        f'<div style="{_GRID}">{"".join(pictures)}</div>'
        + (f'<pre style="{_CODE};white-space:{space}">{escape(rest)}</pre>' if rest else "")
        + "</div>"
    )


def page_of(step: StepDescription) -> str:
    """Returns the cell of a step as a file of its own, light or dark as its reader prefers."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(step.function)}: SPMD Lab</title>"
        f'<body style="margin:16px">{cell_of(step)}</body></html>\n'
    )
