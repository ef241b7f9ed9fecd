"""Two strategies' texts of one kind against each other: what differs in a sentence, then the lines."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.program import MOST_LINES, DiffRow, ProgramText, TextDifference
from spmd_core.terms import title
from spmd_lab.ui.ir import stored
from spmd_lab.ui.ir.html import Line, listing, side_by_side
from spmd_lab.ui.ir.words import difference_words
from spmd_lab.ui.markdown import plain

_ROWS = 400  # shown of a comparison
_STYLES = ("One below the other", "Side by side")
_GAP = "⋯"


def draw(run: str, strategy: str, others: Sequence[str], kind: str, key: str) -> None:
    """Choose the other strategy, and see what differs."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(plain(f"{title(strategy)} against"), width="content")
        other = st.selectbox(
            "Against",
            others,
            format_func=title,
            key=f"{key}:other:{strategy}",
            label_visibility="collapsed",
            width=220,
        )
        style = st.segmented_control(
            "Layout",
            _STYLES,
            default=_STYLES[0],
            key=f"{key}:style",
            required=True,
            label_visibility="collapsed",
        )
    left, right = stored.text(run, strategy, kind), stored.text(run, other, kind)
    changes = stored.difference(run, strategy, other, kind)
    if left is None or right is None or changes is None:
        st.info(f"{plain(title(other))} left no such text to compare with.")
        return
    st.markdown(f"**{plain(difference_words(changes, title(strategy), title(other)))}**")
    if changes.is_none:
        return
    st.caption(
        plain(
            f"− is only in {title(strategy)}, + only in {title(other)}. Names and numbers of ops "
            f"are not compared, nor is metadata."
        )
    )
    _lines(left, right, changes, style == _STYLES[1], f"{title(strategy)} against {title(other)}")
    if changes.left_out:
        st.caption(
            f"Only the first {MOST_LINES:,} lines that are not in both were matched line by line; "
            f"{changes.left_out:,} more were not."
        )


def _lines(
    left: ProgramText, right: ProgramText, changes: TextDifference, beside: bool, label: str
) -> None:
    rows = [row for hunk in changes.hunks for row in (*hunk, None)][:-1]
    if beside:
        st.html(side_by_side([_pair(left, right, row) for row in rows[:_ROWS]], label))
    else:
        lines = [
            line
            for hunk in changes.hunks
            for line in (*_below(left, right, hunk), Line(None, _GAP, tint="aside"))
        ][:-1]
        st.html(listing(lines[:_ROWS], label, signs=True))
    if len(rows) > _ROWS:
        st.caption(f"The first {_ROWS} of {len(rows):,} rows.")


def _pair(
    left: ProgramText, right: ProgramText, row: DiffRow | None
) -> tuple[Line | None, Line | None]:
    if row is None:
        return Line(None, _GAP), Line(None, _GAP)
    return (
        _half(left, row.left, "" if row.same else "removed", "  " if row.same else "− "),
        _half(right, row.right, "" if row.same else "added", "  " if row.same else "+ "),
    )


def _half(text: ProgramText, number: int | None, tint: str, sign: str) -> Line | None:
    return None if number is None else Line(number + 1, text.quiet[number], (), tint, sign)


def _below(left: ProgramText, right: ProgramText, hunk: Sequence[DiffRow]) -> list[Line]:
    """A hunk in one column: of lines that were changed, first all of the one, then all of the
    other.
    """
    lines, added = list[Line](), list[Line]()
    for row in hunk:
        if row.same and row.left is not None:
            lines += [*added, Line(row.left + 1, left.quiet[row.left])]
            added = []
            continue
        if row.left is not None:
            lines.append(Line(row.left + 1, left.quiet[row.left], tint="removed", sign="−"))
        if row.right is not None:
            added.append(Line(row.right + 1, right.quiet[row.right], tint="added", sign="+"))
    return lines + added
