"""The peak of memory on a device against its limit, as bars: now, and with the first fix."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape

from spmd_core.base import bytes_change, bytes_text

Memory = tuple[int, int | None]  # bytes: held, and at the peak; None where that is not known
Span = tuple[str, int, str]  # kind, bytes, and what it is
NOW, FIXED = "now", "fixed"


def bars(rows: Mapping[str, Memory], capacity: int) -> str:
    """Returns HTML of a bar for each row: what is held, what is temporary, and what is free.

    Args:
      rows: the memory of a device by what it is of.
      capacity: bytes of its HBM, the end of each bar that fits; 0 where that is not known.
    """
    most = max(capacity, *(_end(*each) for each in rows.values())) or 1
    drawn = (f"<small>{escape(row)}</small>{_bar(*rows[row], capacity, most)}" for row in rows)
    spans = [[*_spans(*each, capacity - _end(*each))] for each in rows.values()]
    kinds = dict.fromkeys((kind, more) for each in spans for kind, size, more in each if size)
    named = (_named(kind, more, spans) for kind, more in kinds)
    return f'<div class="peaks">{"".join(drawn)}<ul>{"".join(named)}</ul></div>'


def _named(kind: str, more: str, spans: Iterable[Iterable[Span]]) -> str:
    """Returns HTML of what a color of the bars is, with its bytes in each of them."""
    sizes = [size for each in spans for of, size, words in each if (of, words) == (kind, more)]
    shown = bytes_change(sizes[0], sizes[-1])
    return f'<li><i class="{kind}"></i>{more} <b>{shown}</b></li>'


def _bar(held: int, peak: int | None, capacity: int, most: int) -> str:
    end = _end(held, peak)
    spans = "".join(
        f'<i class="{kind}" style="width: {size / most:.1%}" title="{bytes_text(size)} {more}"></i>'
        for kind, size, more in _spans(held, peak, capacity - end)
    )
    is_over = 0 < capacity < end
    mark = f'<b class="limit" style="left: {capacity / most:.1%}"></b>' * is_over
    return f'<i class="gauge{" over" * is_over}">{spans}{mark}</i>'


def _end(held: int, peak: int | None) -> int:
    return held if peak is None else peak


def _spans(held: int, peak: int | None, free: int) -> Iterator[Span]:
    """Yields kind, bytes and name of each part of a bar; a peak below what is held is one part."""
    if peak is None or peak >= held:
        yield "held", held, "held"
        yield "temporary", (peak or held) - held, "temporary"
    else:
        yield "held", peak, "at the peak"
    yield "free", max(free, 0), "free or temporary" if peak is None else "free"
