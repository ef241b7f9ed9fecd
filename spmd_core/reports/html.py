"""A document as one HTML file: no script, nothing from the network, both themes, and paper."""

import math
import re
from html import escape

from spmd_core.base import seconds_text, visible
from spmd_core.reports.document import Block, Chart, Document, Folded, Heading, Paragraph, marked
from spmd_core.sheets import Cell, Table

_WIDTH, _LEFT, _RIGHT = 860, 4, 150  # of the picture, of its edge, of the numbers
_ROW, _TOP, _AXIS = 56, 4, 36  # a label above each bar, which a narrow window writes larger
_CODE = re.compile(r"`([^`<>]+)`")  # in what is escaped
_LONGEST = 60  # characters of a label
_COLORS = 8  # classes of the style sheet
_STEPS = (1, 2, 5, 10)


# where a browser opens the file, nothing of it can run, load or send
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#596575;--line:#d9dfe7;--back:#fff;--panel:#f3f5f8;
--c0:#1f5fbf;--c1:#d57109;--c2:#178a76;--c3:#b1348d;--c4:#7f6ce9;--c5:#665000;--c6:#c2372f;--c7:#485563}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9f0;--soft:#a3b1c2;--line:#323c49;--back:#12161c;
--panel:#1c232c;--c0:#6aa5ff;--c1:#ecab66;--c2:#54c3aa;--c3:#e487c5;--c4:#c7b3fe;--c5:#dabe4a;
--c6:#f0847b;--c7:#bdd3e2}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.2rem 4rem;max-width:64rem;background:var(--back);color:var(--ink);
font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.25;margin:0 0 .6rem}
h2{font-size:1.25rem;margin:2.2rem 0 .6rem}h3{font-size:1.02rem;margin:1.5rem 0 .4rem}
.first{font-size:1.15rem;font-weight:600}
.note{white-space:pre-wrap;border-left:3px solid var(--c0);padding:.2rem .9rem;background:var(--panel)}
.wide{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:.35rem .9rem .35rem 0;border-bottom:1px solid var(--line);
overflow-wrap:normal;min-width:4rem}
td.long{min-width:15rem}td.mid{min-width:9rem}data{white-space:nowrap}
th{font-weight:600;color:var(--soft);font-size:.88rem}
figure{margin:1rem 0}figcaption{color:var(--soft);font-size:.9rem}
svg{width:100%;height:auto;display:block}svg text{font:14px system-ui,sans-serif;fill:var(--ink)}
svg text.axis{fill:var(--soft);font-size:11px}svg text.n{font-weight:600}
.mark{stroke:none}.grid{stroke:var(--line);fill:none}.bar{opacity:.35}.tick{stroke-width:1.1;opacity:.55;fill:none}
.span{stroke-width:4;stroke-linecap:round;fill:none}
.c0{fill:var(--c0);stroke:var(--c0)}.c1{fill:var(--c1);stroke:var(--c1)}.c2{fill:var(--c2);stroke:var(--c2)}
.c3{fill:var(--c3);stroke:var(--c3)}.c4{fill:var(--c4);stroke:var(--c4)}.c5{fill:var(--c5);stroke:var(--c5)}
.c6{fill:var(--c6);stroke:var(--c6)}.c7{fill:var(--c7);stroke:var(--c7)}
details{margin:.7rem 0;border:1px solid var(--line);border-radius:.45rem;padding:.5rem .9rem}
summary{cursor:pointer;font-weight:600}
pre{overflow-x:auto;font:12.5px/1.45 ui-monospace,Menlo,Consolas,monospace;white-space:pre;
overflow-wrap:normal}
footer{margin-top:3rem;color:var(--soft);font-size:.88rem}
@media screen and (min-width:64rem){.wide{width:max-content;min-width:100%;max-width:calc(50vw + 50% - 2rem)}}
@media (max-width:40rem){body{padding:1.2rem .8rem 3rem}svg text{font-size:25px}svg text.axis{font-size:20px}}
@media screen and (max-width:40rem){thead{display:none}
table,tbody,tr,td{display:block}tr{border-bottom:1px solid var(--line);padding:.5rem 0}
td,td.long,td.mid{display:flex;justify-content:space-between;gap:1rem;min-width:0;padding:.1rem 0;border:0;
text-align:right;overflow-wrap:anywhere}
td[data-of=""]{display:block;text-align:left;font-weight:600}
td::before{content:attr(data-of);color:var(--soft);text-align:left;flex:none;max-width:50%}}
@page{margin:14mm}
@media print{:root{--ink:#000;--soft:#444;--line:#bbb;--back:#fff;--panel:#f5f5f5}
body{max-width:none;padding:0;font-size:11pt}h2,h3{break-after:avoid}figure,tr{break-inside:avoid}
pre{white-space:pre-wrap;overflow-wrap:anywhere}.wide{overflow:visible}
svg{max-height:23cm}
th,td,td.long,td.mid{min-width:0;padding-right:.4rem;font-size:.85em;overflow-wrap:break-word}
details:not([open]){display:none}}
"""
_MID, _LONG = 20, 40  # characters of a cell that needs room for its lines
BEGIN = "<!doctype html><!-- SPMD Lab report -->"
_FOOTER = (
    "Made by SPMD Lab. Each rounded number of a table has its exact value in the source of this page, "
    "as <code>data value</code>, in seconds or bytes."
)


def html_text(document: Document) -> str:
    """The file."""
    title = escape(visible(document.title))
    body = "\n".join(_block(each) for each in document.blocks)
    return (
        f'{BEGIN}\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body><main>\n<h1>{title}</h1>\n{body}\n</main>\n"
        f"<footer>{_FOOTER}</footer></body></html>\n"
    )


def _block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_text(text)}</h{level}>"
        case Paragraph(text, is_note, is_first, is_marked):
            parts = marked(text) if is_note or is_marked else [("", text)]
            tags = {"bold": "<strong>{}</strong>", "code": "<code>{}</code>"}
            inside = "".join(tags.get(kind, "{}").format(_text(part)) for kind, part in parts)
            return f"<p{' class=note' * is_note or ' class=first' * is_first}>{inside}</p>"
        case Table():
            return _table(block)
        case Chart():
            return f"<figure>{svg_of(block)}<figcaption>{_text(block.title)}</figcaption></figure>"
        case Folded(title, content):
            inside = (
                _table(content) if isinstance(content, Table) else f"<pre>{_text(content)}</pre>"
            )
            return f"<details><summary>{_text(title)}</summary>{inside}</details>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in table.columns)
    rows = "\n".join(f"<tr>{''.join(map(_cell, table.columns, row))}</tr>" for row in table.rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="table"><table><thead><tr>{head}'
        f"</tr></thead><tbody>\n{rows}\n</tbody></table></div>"
    )


def _cell(column: str, cell: Cell) -> str:
    of = f' data-of="{_text(column)}"'  # on a narrow screen a row stands as a list
    if cell.value is not None:
        return f'<td{of}><data value="{cell.value!r}">{_text(cell.text)}</data></td>'
    size = len(cell.text)
    kind = ' class="long"' * (size > _LONG) or ' class="mid"' * (size > _MID)
    text = _CODE.sub(r"<code>\1</code>", _text(cell.text))
    return f"<td{of}{kind}>{text}</td>"


def _text(text: str) -> str:
    return escape(visible(text, keep="\n\t"))


def svg_of(chart: Chart) -> str:
    """The picture. Values beyond the axis are drawn at its end."""
    most = _most(chart)
    listed = ", ".join(f"{bar.label} {seconds_text(bar.middle)}" for bar in chart.bars)
    height = _TOP + _ROW * len(chart.bars) + _AXIS
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(visible(f"{chart.title}: {listed}"))}">',
        *_axis(most, height),
    ]
    for number, bar in enumerate(chart.bars):
        y = _TOP + _ROW * number
        color = f"c{bar.group % _COLORS}"
        label = visible(bar.label)
        mark = bar.marker and f'<tspan class="{color} mark">{bar.marker}\u00a0</tspan>'
        shown = label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"
        parts += [
            f'<text x="{_LEFT}" y="{y + 22}">{mark}{escape(shown)}</text>',
            f'<rect class="{color} bar" x="{_LEFT}" y="{y + 30}" '
            f'width="{_x(bar.middle, most) - _LEFT:.1f}" height="18" rx="2"/>',
        ]
        parts += [
            f'<path class="{color} tick" d="M{_x(value, most):.1f} {y + 50}v6"/>'
            for value in bar.values
        ]
        if bar.low is not None and bar.high is not None:
            low, high = _x(bar.low, most), _x(bar.high, most)
            parts.append(f'<path class="{color} span" d="M{low:.1f} {y + 39}H{high:.1f}"/>')
        value = seconds_text(bar.middle)
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 12}" y="{y + 46}" class="n">{escape(value)}</text>'
        )
    return "".join([*parts, "</svg>"])


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


def _axis(most: float, height: int) -> list[str]:
    base = 10 ** math.floor(math.log10(most / 4))
    step = next((base * each for each in _STEPS if most / (base * each) <= 6), base * _STEPS[-1])
    parts = []
    for number in range(int(most / step) + 1):
        x = _x(number * step, most)
        value = "0" if number == 0 else seconds_text(number * step)
        parts += [
            f'<path class="grid" d="M{x:.1f} {_TOP}V{height - _AXIS}"/>',
            f'<text x="{x:.1f}" y="{height - _AXIS + 18}" class="axis" text-anchor="middle">{value}</text>',
        ]
    return parts
