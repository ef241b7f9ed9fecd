"""The viewer of program texts: choose a strategy and a text, fold and search it, compare it, and
follow its ops to the program's lines.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

import streamlit as st

from spmd_core.base import numbered
from spmd_core.program import ProgramText, Section, program_lines, rows, spans_of
from spmd_core.terms import title
from spmd_lab.ui import choices
from spmd_lab.ui.ir import compare, lines as source_lines, steps, stored
from spmd_lab.ui.ir.html import STYLE, Line, listing
from spmd_lab.ui.ir.words import MEANINGS, TEXTS, section_words, text_words
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain

MARK = "▸"  # before a line of the selected collective
_READ, _COMPARE, _LINES = "Read", "Compare two", "Source lines"
_STEPS = "Shardings"
_SECTIONS = 12  # on a page
_LINES_SHOWN = 300  # of a section on a page
_MATCHES = 100
_WANTED = 200  # characters of what is searched for


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches a search: its index, its section's index (None outside all sections), and
    the positions in the line as shown.
    """

    line: int
    section: int | None
    spans: tuple[tuple[int, int], ...]


@st.fragment
def show(run: str, strategies: Sequence[str], key: str) -> None:
    """The program texts of a run's strategies; `key` begins the keys of its own widgets."""
    st.html(STYLE)
    offered = [name for name in strategies if stored.kinds(run, name)]
    if not offered:
        st.info("This run left no program texts.")
        return
    with st.container(horizontal=True):
        strategy = (
            choices.one_of("Strategy", offered, choices.STRATEGY, title)
            if len(offered) > 1
            else offered[0]
        )
        kinds = stored.kinds(run, strategy)
        kind = choices.one_of("Text", kinds, choices.TEXT, TEXTS.__getitem__)
    text = stored.text(run, strategy, kind)
    if text is None:
        st.info(f"{plain(title(strategy))} left no such text: it did not get that far.")
        return
    st.caption(plain(f"{MEANINGS[kind]} This one: {text_words(text)}."))
    views = _views(offered, kinds)
    if steps.of_run(run, strategy) is not None:
        views.append(_STEPS)
    view = choices.one_of("What to do", views, choices.VIEW) if len(views) > 1 else _READ
    if view == _STEPS:
        steps.draw(run, strategy, key)
    elif view == _COMPARE:
        compare.draw(run, strategy, [name for name in offered if name != strategy], kind, key)
    elif view == _LINES:
        source_lines.draw(
            run,
            strategy,
            max(kinds, key=list(TEXTS).index) if kind == "program" else kind,
            key,
            by_line=kind == "program",
        )
    else:
        _read(text, f"{key}:{run}:{strategy}:{kind}", key, selected(run, strategy, text))


def selected(run: str, strategy: str, text: ProgramText) -> frozenset[int]:
    """Returns the lines of a text (from 0) with the selected collective, or with what it is of."""
    result = lab().result(run)
    outcome = result.strategies.get(strategy) if result else None
    sent = outcome and (outcome.collectives or (outcome.prediction or outcome).collectives)
    if not sent:
        return frozenset()
    listed = rows(sent)  # pyrefly: ignore[bad-argument-type]
    row, own = listed[choices.collective(len(listed))], stored.own_file(run, strategy)
    file, _, number = (row.first.source or "").rpartition(":")
    line = int(number) if file == own and number.isdecimal() else 0
    if text.kind == "program":
        return frozenset({line - 1} if line else ())
    named, is_compiled = {f"%{each.name}" for each in row.members}, text.kind == "hlo"
    return frozenset(
        op.line
        for op in text.ops
        if (op.name in named if is_compiled else program_lines(op, own)[:1] == (line,))
    )


def lead(run: str, strategies: Sequence[str], key: str, strategy: str, number: int) -> None:
    """Turn the viewer to the compiled ops that a line of a strategy's program made; for callbacks,
    which run before it is drawn.
    """
    offered = [name for name in strategies if stored.kinds(run, name)]
    kinds = stored.kinds(run, strategy)
    views = _views(offered, kinds)
    if "hlo" not in kinds or _LINES not in views:
        return
    st.session_state[choices.STRATEGY] = strategy
    st.session_state[choices.TEXT] = "hlo"
    st.session_state[choices.VIEW] = _LINES
    source_lines.lead(run, strategy, "hlo", key, number)


def _views(offered: Sequence[str], kinds: Sequence[str]) -> list[str]:
    return [_READ, *([_COMPARE] if len(offered) > 1 else []), *([_LINES] if len(kinds) > 1 else [])]


def _read(text: ProgramText, here: str, key: str, marked: Set[int]) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        wanted = (
            st.text_input(
                "Search",
                key=f"{key}:search",
                type="search",
                placeholder="Search, e.g. all-reduce",
                label_visibility="collapsed",
                width="stretch",
            )
            or ""
        ).strip()[:_WANTED]
        details = _details(text, key)
    if wanted:
        _matches(text, wanted, details)
    numbers = [at for at, section in enumerate(text.sections) if details or not section.is_details]
    pages = -(-len(numbers) // _SECTIONS)
    page = st.pagination(pages, key=f"{here}:pages:{pages}") if pages > 1 else 1
    if pages > 1:
        st.caption(
            f"Sections {(page - 1) * _SECTIONS + 1:,} to {min(page * _SECTIONS, len(numbers)):,} "
            f"of {len(numbers):,}, in the order in which "
            "they are called. Search to find one."
        )
    for number in numbers[(page - 1) * _SECTIONS : page * _SECTIONS]:
        _section(text, number, wanted, details, here, marked)


def _details(text: ProgramText, key: str) -> bool:
    if text.kind == "program":
        return False
    return st.toggle(
        "Details",
        key=f"{key}:details",
        help="Also show metadata, the backend's settings and tables of source lines",
    )


def _section(
    text: ProgramText, number: int, wanted: str, details: bool, here: str, marked: Set[int]
) -> None:
    section = text.sections[number]
    name = (
        f"Entry: {section.name}"
        if section.is_entry and text.kind in ("hlo", "stablehlo")
        else section.name
    )
    label = f"**{plain(name)}** :gray[{plain(section_words(text, section))}]"
    fold = st.expander(
        label, expanded=section.is_entry, key=f"{here}:section:{number}", on_change="rerun"
    )
    if not fold.open:
        return
    with fold:
        rows = text.visible(number)
        pages = -(-len(rows) // _LINES_SHOWN)
        page = st.pagination(pages, key=f"{here}:lines:{number}") if pages > 1 else 1
        lines = text.shown(details)
        st.html(
            listing(
                [
                    _line(lines, row, wanted, marked)
                    for row in rows[(page - 1) * _LINES_SHOWN : page * _LINES_SHOWN]
                ],
                f"Lines of {section.name}",
                signs=bool(marked),
            )
        )


def _line(lines: Sequence[str], row: int | Section, wanted: str, marked: Set[int]) -> Line:
    if isinstance(row, Section):
        indent = " " * (len(lines[row.start]) - len(lines[row.start].lstrip()))
        return Line(
            row.start + 1,
            f"{indent}⋯ {row.note or row.name}: folded below, {numbered(len(row.ops), 'equation')}",
            tint="aside",
        )
    tint, sign = ("strong", MARK) if row in marked else ("", "")
    return Line(row + 1, lines[row], spans_of(lines[row], wanted), tint, sign)


def _matches(text: ProgramText, wanted: str, details: bool) -> None:
    matches = find(text, wanted, details)
    places = sum(len(match.spans) for match in matches)
    if not matches:
        hidden = (
            ""
            if details or text.kind == "program" or not find(text, wanted, True)
            else " It is in the details: turn them on to see it."
        )
        st.caption(f"No match for “{plain(wanted)}”.{hidden}")
        return
    sections = len({match.section for match in matches})
    first = f", the first {_MATCHES} lines of it" if len(matches) > _MATCHES else ""
    where = (
        f" in {numbered(len(matches), 'line')} of {numbered(sections, 'section')}"
        if text.kind != "program"
        else f" in {numbered(len(matches), 'line')}"
    )
    st.caption(f"{numbered(places, 'match')} for “{plain(wanted)}”{where}{first}:")
    st.html(listing(_listed(text, matches[:_MATCHES], text.shown(details)), "Matching lines"))


def _listed(text: ProgramText, matches: Sequence[Match], lines: Sequence[str]) -> list[Line]:
    rows, last = list[Line](), -1
    for match in matches:
        if match.section is not None and match.section != last and len(text.sections) > 1:
            rows.append(Line(None, f"in {text.sections[match.section].name}", tint="aside"))
        last = match.section if match.section is not None else -1
        rows.append(Line(match.line + 1, lines[match.line], match.spans))
    return rows


def find(text: ProgramText, wanted: str, details: bool) -> list[Match]:
    """Lines that hold `wanted`, as they are shown with or without details; sections of details are
    searched only with them.
    """
    if not wanted:
        return []
    hidden = (
        set()
        if details
        else {number for number, section in enumerate(text.sections) if section.is_details}
    )
    return [
        Match(at, text.owners[at], spans)
        for at, line in enumerate(text.shown(details))
        if text.owners[at] not in hidden and (spans := spans_of(line, wanted))
    ]
