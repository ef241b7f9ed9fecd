"""Lines of program texts as HTML: numbered, with marked places, tinted rows. Whatever a text holds
is shown as it is, never interpreted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

LONGEST = 600  # characters of a line; some lines of a compiled program have tens of thousands
_BEFORE = 60  # characters shown before the first mark, of a line that is too long

# Tints that let the text of either theme be read: no color of text is set.
STYLE = """<style>
.program { font: 0.8rem/1.55 "Source Code Pro", ui-monospace, monospace; overflow: auto; max-height: 34rem; border-radius: .45rem;
  background: rgba(128, 138, 150, .09); padding: .5rem 0; }
.program .lines { display: table; min-width: 100%; border-spacing: 0; }
.program .row { display: table-row; }
.program .row > span { display: table-cell; white-space: pre; padding: 0 .75rem 0 0; }
.program .row > .number { text-align: right; padding: 0 .75rem; opacity: .55; user-select: none; width: 1%; }
.program .row > .sign { width: 1.2em; padding: 0 .3rem; user-select: none; }
.program .row.strong { background: rgba(80, 140, 240, .26); }
.program .row.light { background: rgba(80, 140, 240, .10); }
.program .row.removed, .program .cell-removed { background: rgba(220, 70, 60, .17); }
.program .row.added, .program .cell-added { background: rgba(30, 160, 110, .18); }
.program .row.aside { opacity: .65; font-style: italic; }
.program mark { background: rgba(255, 190, 0, .45); color: inherit; border-radius: .15rem; }
.program .more { opacity: .6; font-style: italic; }
.program .row > .half { width: 50%; max-width: 0; overflow-x: auto; padding: 0 .5rem; white-space: pre-wrap; overflow-wrap: anywhere; }
</style>"""


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show: its number (None for a remark between lines), its text, the places to mark,
    how the row is tinted, and a sign before it.
    """

    number: int | None
    text: str
    spans: tuple[tuple[int, int], ...] = ()
    tint: str = ""
    sign: str = ""


def listing(lines: Iterable[Line], label: str, signs: bool = False) -> str:
    """A scrollable listing; `label` describes it to those who do not see it."""
    rows = "".join(_row(line, signs) for line in lines)
    return (
        f'<div class="program" tabindex="0" role="region" aria-label="{escape(label)}"><div '
        f'class="lines">{rows}</div></div>'
    )


def _row(line: Line, signs: bool) -> str:
    number = "" if line.number is None else str(line.number)
    sign = f'<span class="sign">{escape(line.sign)}</span>' if signs else ""
    return (
        f'<div class="row {line.tint}"><span '
        f'class="number">{number}</span>{sign}<span>{marked(line.text, line.spans)}</span></div>'
    )


def side_by_side(rows: Sequence[tuple[Line | None, Line | None]], label: str) -> str:
    """Two texts in two columns; None where a side has no line."""
    cells = "".join(f'<div class="row">{_half(left)}{_half(right)}</div>' for left, right in rows)
    return (
        f'<div class="program" tabindex="0" role="region" aria-label="{escape(label)}"><div '
        f'class="lines">{cells}</div></div>'
    )


def _half(line: Line | None) -> str:
    if line is None:
        return '<span class="number"></span><span class="half"></span>'
    number = "" if line.number is None else str(line.number)
    tint = f"cell-{line.tint}" if line.tint else ""
    return (
        f'<span class="number">{number}</span><span class="half '
        f'{tint}">{escape(line.sign)}{marked(line.text, line.spans)}</span>'
    )


def marked(text: str, spans: Sequence[tuple[int, int]] = ()) -> str:
    """A text as HTML that shows exactly it, with places marked; a long one is shortened around the
    first place.
    """
    start = max(0, spans[0][0] - _BEFORE) if spans and spans[0][1] > LONGEST else 0
    stop = min(len(text), start + LONGEST)
    parts, at = [_more(start, "before")], start
    for first, last in spans:
        if first >= stop:
            break
        parts += [escape(text[at:first]), f"<mark>{escape(text[first : min(last, stop)])}</mark>"]
        at = min(last, stop)
    return "".join([*parts, escape(text[at:stop]), _more(len(text) - stop, "more")])


def _more(count: int, word: str) -> str:
    return f'<span class="more"> … {count:,} characters {word} … </span>' if count else ""
