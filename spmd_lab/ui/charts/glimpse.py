"""An experiment at a glance: who holds what, and the collective between product and result, small."""

from base64 import b64encode
from dataclasses import replace
from html import escape
from itertools import compress, product
from math import inf, isclose, prod
from pathlib import Path

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from spmd_core.base import bytes_text, seconds_text
from spmd_core.experiment import Experiment, dtype_of, spec_code, type_text
from spmd_core.program import CollectiveRow
from spmd_core.terms import listed, mesh_words
from spmd_core.workloads import DTYPE_BYTES
from spmd_lab.ui.charts.colors import colors
from spmd_lab.ui.charts.layout_words import short_group_texts, together_about
from spmd_lab.ui.charts.together import GAP, Box, blocks_of, boxes_of, drawn, is_to_scale
from spmd_lab.ui.lab import kept
from spmd_lab.ui.markdown import plain

REDUCE = ("all-reduce", "reduce-scatter")  # what they add is one partial sum for each device
_MOST_CELLS, _MESH_HIGH = 16, 60.0  # of a mesh along each side; pixels
_FLATTEST = 3.4  # the width of a picture over its height
_SUMS = 8  # partial sums that are drawn at most, each of a device
_SUMS_WIDE, _SUM_THIN = 0.4, 0.07  # their room's width, and their least side: shares of the height
_ROOM, _FONT = (400.0, 255.0), 13.0  # pixels of a large picture, and of its letters there
_EACH, _ALIKE = "partial sums", "sum"
_ARROW = 'stroke="#d9730d"'
_GREY = "#a9b4c2"  # what every device holds alike
_SMALL = 0.9  # and the size of a spec's letters beside a name's
_LETTER = 0.56  # of the size of a font: a letter's width
_BELOW = 6.0  # letters' heights between devices and host memory
_AIR = 1.6  # letters' heights around the words of a collective
_LEAST_FONT, ON_COLOR = 9.0, "#15181d"  # of numbers on shards
# Source Sans of a browser's page in weight 450: ASCII and a few signs
_LETTERS = (
    "<style>@font-face { font-family: L; src: url(data:font/woff2;base64,"
    f"{b64encode(Path(__file__).with_name('letters.woff2').read_bytes()).decode()}) }}</style>"
)
_INK, _LINE = "light-dark(#1c2430,#e4e9f0)", "light-dark(#ffffff,#12161c)"
_SHADE = "light-dark(#0000,#171c2348)"  # over blocks, that they outshine no figure on a dark page


def svg(
    experiment: Experiment, kind: str = "", size: str = "", has_names: bool = False, nbytes: int = 0
) -> str:
    """Returns the picture as SVG: operands, partial sums where a collective adds them, the
    collective with its size, and the result; arrays in host memory below, each with the copy
    between host and device; of what has no arrays to draw, its mesh.

    Args:
      experiment: the computation; of a study, its first variant.
      kind: the collective in words, such as `all-reduce over x`; "" draws none.
      size: its bytes and seconds in words.
      has_names: names the arrays, for a picture that is large enough.
      nbytes: what each device sends of one collective; 0 where that is not known.
    """
    return _drawn(experiment.members[0].experiment, kind, size, has_names, nbytes) or ""


@kept(512)
def _drawn(one: Experiment, kind: str, size: str, has_names: bool, nbytes: int) -> str:
    arrays = [] if one.what.is_small_program else drawn(one, has_names)
    if not arrays:
        return _mesh(one)
    boxes = boxes_of(one, arrays, not has_names)
    tall = max(box.height for box in boxes)
    # letters of one size on the screen; the arrow is as wide as its words
    gaps, across = 2 * _AIR, boxes[-1].left + boxes[-1].width
    gaps += _LETTER * max(len(kind), len(size)) if has_names else 1
    fixed = gaps + _LETTER * len(_EACH) * _is_less(one, boxes[-1], nbytes)
    scales = across / (_ROOM[0] - _FONT * fixed * bool(kind)), tall / (_ROOM[1] - 2.8 * _FONT)
    font = _FONT * max(1.0, *scales)
    boxes = _apart(one, boxes, font * has_names, bool(kind))
    results = [box for box in boxes if box.array in one.what.results] if kind else []
    at, letters = results[0].left if results else inf, font * has_names
    between, shift = [], 0.0
    if results:
        between, shift = _between(
            one, results[0], tall, font * gaps, font, has_names, kind, size, nbytes
        )
    parts, copied, widest = [], tall + _BELOW * font, boxes[-1].left + boxes[-1].width + shift
    hosted = [box for box in boxes if one.memory_kind(box.array.name) != "device"]
    for box in boxes:
        left = box.left + (shift if box.left >= at else 0.0)
        blocks = _box(box, tall, left, letters, len(boxes) == 1)
        if box in hosted:
            middle = left + box.width / 2
            under = tall + 2.6 * font if has_names else (tall + box.height) / 2
            ends = under, copied + (tall - box.height) / 2
            is_result = box.array in one.what.results
            parts.append(_copy(middle, *ends, font, is_result, has_names))
            blocks = f'<g opacity="0.5">{blocks}</g><g transform="translate(0 {copied:.0f})">{blocks}</g>'
        parts.append(blocks)
        if has_names:
            parts.append(text(left, tall + 1.3 * font, font, _name(one, box)))
            parts.append(text(left, tall + 2.5 * font, _SMALL * font, _held(one, box)))
            widest = max(widest, left + _LETTER * _SMALL * font * len(_held(one, box)))
    below = copied if hosted else 2.8 * letters
    return drawing(widest, tall + below, [*parts, *between], has_names)


def _between(
    one: Experiment,
    result: Box,
    tall: float,
    length: float,
    font: float,
    has_names: bool,
    kind: str,
    size: str,
    nbytes: int,
) -> tuple[list[str], float]:
    """What is drawn from the operands to the first result, and how wide it is: partial sums, the
    collective as an arrow of that length, and the sum that it makes where the result is more.
    """
    letters, words_ = font * has_names, (kind, size) if has_names else ("", "")
    is_sum = kind.startswith(REDUCE)
    sums, wide = _sums(one, result, tall, nbytes, letters) if is_sum else ([], -GAP)
    start, end = result.left + wide, result.left + wide + length
    parts = [*sums, *arrow(start, end, tall, font, *words_)]
    if not (is_sum and _is_less(one, result, nbytes)):
        return parts, end - result.left
    across, down = _share(one, result, nbytes)
    width, height = max(across * result.width, font), max(down * result.height, 0.8 * font)
    with_what = f"with {one.what.operands[0].name}"
    reach = end + width + max(_LETTER * letters * (len(with_what) + 1), 2 * font)
    parts.append(rect(end, (tall - height) / 2, width, height, _GREY))
    parts.append(
        f'<path d="M{end + width + 0.5 * font:.1f} {tall / 2:.1f}H{reach - 0.5 * font:.1f}" '
        f'fill="none" stroke="{_GREY}" stroke-width="{0.16 * font:.1f}"/>'
    )
    if has_names:
        parts.append(text(end, tall + 1.3 * font, font, _ALIKE))
        middle = (end + width + reach) / 2, tall / 2 - 0.7 * font
        parts.append(text(*middle, font, with_what, "middle"))
    return parts, reach - result.left


def html(experiment: Experiment, row: CollectiveRow | None = None, *, large: bool = False) -> str:
    """Returns the picture as HTML, with the collectives of `row`; a small one unless `large`."""
    kind, size = ("", "") if row is None else words(row)
    nbytes = 0 if row is None else row.first.bytes
    of_class = "picture" if large else "glimpse"
    return image(svg(experiment, kind, size, large, nbytes), alt(experiment, kind, size), of_class)


def image(drawn_svg: str, about: str, of_class: str) -> str:
    """Returns SVG as an image of a CSS class; `about`: it in words."""
    return f'<img class="{of_class}" alt="{escape(about)}" src="{address(drawn_svg)}">'


def show(experiment: Experiment) -> None:
    """Draw the picture large, and how to read it; nothing where its arrays are too many."""
    arrays = drawn(experiment, is_large=True)
    if arrays:
        st.html(html(experiment, large=True))
        planes = any(len(experiment.shape(array.name)) > 2 for array in arrays)
        st.caption(plain(together_about(is_to_scale(experiment, arrays), planes)))


def address(drawn_svg: str) -> str:
    """Returns SVG as a data address, which Streamlit leaves where it removes SVG."""
    return f"data:image/svg+xml;base64,{b64encode(drawn_svg.encode()).decode()}"


def words(row: CollectiveRow) -> tuple[str, str]:
    """Returns a collective's name with its axes, and its bytes and seconds in all: those of its array,
    of which a device may send more.
    """
    over = f" over {listed(row.axes)}" if row.axes else ""
    sent, seconds = row.bytes_total, row.seconds
    size = [
        f"of {bytes_text(sent) if sent else row.size}",
        seconds_text(seconds) if seconds else "",
    ]
    return f"{row.what}{over}", " · ".join(filter(None, size))


def alt(experiment: Experiment, kind: str = "", size: str = "") -> str:
    """Returns the picture in words."""
    sent = f", {kind} {size}" if kind else ""
    return f"{experiment.what.formula or experiment.what.title} on mesh {mesh_words(experiment.mesh)}{sent}"


def _box(box: Box, tall: float, left: float, most: float, is_alone: bool) -> str:
    parts, blocks = [], blocks_of(box, tall, is_alone)
    letters = max(2, *(len(each[-1]) for each in blocks))
    for x, y, width, height, color, held in blocks:
        parts.append(rect(left + x, y, width, height, color))
        font = min(most, width / letters / _LETTER, 0.8 * height)
        if font >= _LEAST_FONT:
            middle = left + x + width / 2, y + height / 2 + 0.35 * font
            parts.append(text(*middle, font, held, "middle", ON_COLOR))
    return "".join(parts)


def _name(experiment: Experiment, box: Box) -> str:
    """Returns the name of an array, apart from an axis that is called alike."""
    name = box.array.name
    return f"array {name}" if name in dict(experiment.mesh) else name


def _held(experiment: Experiment, box: Box) -> str:
    if "explicit" in experiment.strategies:
        return type_text(dtype_of(experiment, box.array.name), box.held.shape, box.held.spec)
    return spec_code(experiment.spec(box.array.name))


def _apart(one: Experiment, boxes: list[Box], font: float, has_arrow: bool) -> list[Box]:
    left, spread = 0.0, []
    for box, after in zip(boxes, [*boxes[1:], boxes[-1]], strict=True):
        spread.append(replace(box, left=left))
        words_ = max(len(_name(one, box)), _SMALL * len(_held(one, box)))
        is_before = has_arrow and after.array in one.what.results
        wide = 0.0 if is_before else _LETTER * font * words_ + font
        left += max(after.left - box.left, wide)
    return spread


def _sums(
    one: Experiment, result: Box, tall: float, nbytes: int, most: float
) -> tuple[list[str], float]:
    """The sum on each device, small and apart from the others, and how wide all are together with
    their words, which are of `most` pixels.
    """
    firsts, texts = _holders(one, result)
    many, thin = min(_SUMS, len(firsts)), _SUM_THIN * tall
    # of more devices the first sums, in colors that are apart
    of = (firsts, one.device_count) if one.device_count <= _SUMS else (np.arange(many), many)
    shades = colors(*of)
    across, down = _share(one, result, nbytes)
    width, height = max(across * result.width, thin), max(down * result.height, thin)
    room, best = max(result.width, _SUMS_WIDE * tall), (0.0, 1, 1)
    for columns in (1, 2, 4, 8)[: many.bit_length()]:
        lines = -(-many // columns)
        scale = min(1.0, room / columns / (width + thin / 2), tall / lines / (height + thin / 2))
        best = max(best, (scale, columns, lines))
    scale, columns, lines = best
    width, height, gap = scale * width, scale * height, scale * thin / 2
    step = tall / lines if columns == 1 else height + gap  # beside the shards that they are of
    top, parts = (tall - lines * step + step - height) / 2, []
    for at in range(many):
        x = result.left + at % columns * (width + gap)
        y = top + at // columns * step
        parts.append(rect(x, y, width, height, shades[at]))
        font = min(most, width / max(2, len(texts[at])) / _LETTER, 0.8 * height)
        if font >= _LEAST_FONT:
            middle = x + width / 2, y + height / 2 + 0.35 * font
            parts.append(text(*middle, font, texts[at], "middle", ON_COLOR))
    if most:
        parts.append(text(result.left, tall + 1.3 * most, most, _EACH))
    return parts, columns * (width + gap) - gap


def _holders(one: Experiment, result: Box) -> tuple[NDArray[np.int64], list[str]]:
    """The first device of each partial sum, and all that have it in words: devices along an axis that
    shards no operand have one.
    """
    used = {axis for each in one.what.operands for axes in one.spec(each.name) for axis in axes}
    names, sizes = zip(*one.mesh, strict=True)
    order = sorted(range(len(names)), key=lambda at: names[at] not in used)
    parts = prod(size for name, size in one.mesh if name in used)
    groups = np.arange(one.device_count).reshape(sizes).transpose(order).reshape(parts, -1)
    ids = result.held.device_ids
    return groups[:, 0], short_group_texts(groups if ids is None else np.sort(ids[groups], axis=1))


def _is_less(one: Experiment, result: Box, nbytes: int) -> bool:
    """Whether a partial sum of so many bytes is less than what a device holds of the result, which is
    computed from the sum and the operand then.
    """
    is_one = len(one.what.operands) == len(one.what.results) == 1
    return (
        is_one
        and nbytes > 0
        and prod(_share(one, result, nbytes)) < 0.999 / prod(result.held.parts)
    )


def _share(one: Experiment, result: Box, nbytes: int) -> tuple[float, float]:
    """Which part of a result's width and height a partial sum of so many bytes has; all of it where
    none fits: it may be of another array. A dim that is not sharded is added up without a collective,
    and CPUs add 16 bits in 32.
    """
    held, dtype = result.held, dtype_of(one, result.array.name)
    size = held.array_bytes(dtype)
    sizes = ((1, 1), (1, 1), *zip(held.shape, held.parts, strict=True))[-2:]
    down, across = ((1.0, 1 / parts, 1 / length if parts > 1 else 1.0) for length, parts in sizes)
    every = [*product(across, down)]
    wider = (2,) if DTYPE_BYTES.get(dtype) == 2 else ()
    for summed in (nbytes / size / times for times in (1, *wider)):
        for each in every:
            if isclose(prod(each), summed, rel_tol=1e-3):
                return each
    return 1.0, 1.0


def arrow(
    left: float, right: float, tall: float, font: float, kind: str = "", size: str = ""
) -> list[str]:
    """Returns an arrow halfway down `tall` as SVG, with words above and below it."""
    middle, head, start, end = tall / 2, 0.5 * font, left + font, right - font
    return [
        f'<path d="M{start:.1f} {middle:.1f}H{end:.1f}m{-head:.1f} {-head:.1f}l{head:.1f} {head:.1f}'
        f'l{-head:.1f} {head:.1f}" fill="none" {_ARROW} stroke-width="{0.16 * font:.1f}"/>',
        text((start + end) / 2, middle - 0.7 * font, font, kind, "middle"),
        text((start + end) / 2, middle + 1.4 * font, font, size, "middle"),
    ]


def _copy(
    at: float, device: float, host: float, font: float, is_result: bool, has_names: bool
) -> str:
    start, end = (device, host) if is_result else (host, device)
    head = 0.5 * font if is_result else -0.5 * font
    path = f"M{at:.1f} {start + head:.1f}V{end - head:.1f}m{-abs(head):.1f} {-head:.1f}"
    return (
        f'<path d="{path}l{abs(head):.1f} {head:.1f}l{abs(head):.1f} {-head:.1f}" fill="none" '
        f'{_ARROW} stroke-width="{0.16 * font:.1f}"/>'
        + text(
            at + 0.8 * font, host - 1.2 * font, font, f"copy {'to' if is_result else 'from'} host"
        )
        * has_names
    )


def _mesh(experiment: Experiment) -> str:
    sizes = [size for _, size in experiment.mesh if size > 1] or [1]
    columns = sizes[-1] if len(sizes) > 1 else min(sizes[0], _MOST_CELLS)
    rows = max(1, experiment.device_count // columns)
    down, across = min(rows, _MOST_CELLS), min(columns, _MOST_CELLS)
    count = down * across
    shades, side = colors(np.arange(count), count), 240.0 / max(across, 2 * down)
    high = max(side, _MESH_HIGH / down)  # a line of many devices as bands
    cells = [
        rect(at % across * side, at // across * high, side, high, shades[at]) for at in range(count)
    ]
    if count == experiment.device_count:
        return drawing(side * across, high * down, cells)
    dot = side / 2.5  # dots for the devices that are left out
    dots = [
        rect(side * across + 2 * at * dot, (high * down - dot) / 2, dot, dot, _GREY)
        for at in (1, 2, 3)
    ]
    return drawing(side * across + 8 * dot, high * down, cells + dots)


def rect(x: float, y: float, width: float, height: float, color: str) -> str:
    """Returns a rectangle as SVG."""
    return f'<path d="M{x:.0f} {y:.0f}h{width:.0f}v{height:.0f}h-{width:.0f}z" fill="{color}"/>'


def text(
    x: float, y: float, font: float, words_: str, anchor: str = "start", ink: str = _INK
) -> str:
    """Returns words as SVG."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{font:.1f}" text-anchor="{anchor}" '
        f'stroke="none" fill="{ink}">{escape(words_)}</text>'
    )


def drawing(width: float, height: float, parts: list[str], has_text: bool = False) -> str:
    """The SVG, with the letters that an image cannot take from its page; a flat one with room above
    and below, since a cell of a table crops what is wider.
    """
    room = max(0.0, width / _FLATTEST - height) / 2
    box = -2, -2 - room, width + 4, height + 2 * room + 4
    above = [part.startswith("<text") or _ARROW in part for part in parts]
    blocks, words_ = ("".join(compress(parts, of)) for of in ([not each for each in above], above))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{" ".join(f"{each:.0f}" for each in box)}" '
        f'font-family="L, sans-serif" stroke="{_LINE}" stroke-width="2" '
        f'style="color-scheme: light dark">{_LETTERS * has_text}{blocks}'
        f'<rect x="{box[0]}" y="{box[1]:.0f}" width="100%" height="100%" stroke="none" fill="{_SHADE}"/>'
        f"{words_}</svg>"
    )
