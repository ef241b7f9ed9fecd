"""One collection, as it is read."""

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.history import is_example
from spmd_core.reports import (
    Compared,
    Heading,
    Paragraph,
    Subject,
    collection_document,
    markdown_text,
    parts_of,
    rows_table,
    search_of,
    searches_compared,
    text_blocks,
)
from spmd_core.runs import RUN, TEXT, Collection, CollectionItem
from spmd_core.terms import ago
from spmd_lab.ui import exports, shell, state
from spmd_lab.ui.lab import lab, may_act
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import collections, editing, labels, outcome
from spmd_lab.ui.notebook.collections import link_of
from spmd_lab.ui.notebook.search_card import card, side_by_side_of

_EDIT = "edit"  # of the query string


def draw(page: Collection) -> Callable[[str], None]:
    """The page; and with Edit on, what changes each of its parts. Returns what draws the button of
    its file, for who sends it.
    """
    collections.aside(page)
    st.page_link("pages/notebook.py", label="All pages", icon=":material/arrow_back:")
    st.title(plain(page.title), anchor=False)
    by = f", by {page.owner_name}" if page.owner_name else ""
    imported = "Imported from another installation. " * bool(page.origin)
    subjects = {
        each.run: lab().subject(each)
        for each in (lab().history(runs=page.runs) if page.runs else ())
    }
    is_edited = False
    if not page.items:  # who begins it goes on writing
        state.set_aside("notebook", "begun", page.id)
    begun = state.aside("notebook", "begun") == page.id
    with st.container(horizontal=True, vertical_alignment="center"):
        if may_act():
            is_edited = st.toggle("Edit", key=_EDIT, bind="query-params", value=begun)
        _downloads(page, subjects)
        if is_edited:
            editing.title(page)
        st.caption(plain(f"{imported}Changed {ago(page.updated_at)}{by}."), width="content")
    if is_edited:
        parts = (part for part in parts_of(page, subjects) if isinstance(part, Compared))
        groups = {each.run: part for part in parts for each in part.subjects}
        editing.parts(page, partial(_edited, subjects=subjects, groups=groups), _text)
    else:
        _parts(page, subjects)
    if (compared := searches_compared(page)) is not None:
        st.subheader("Its searches side by side", anchor=False)
        side_by_side_of(compared)
    if is_edited:
        editing.add(page)
    elif not page.items:
        st.caption("It has no parts yet: turn Edit on to write.")
    return partial(exports.collection_page, page, subjects)


def _parts(page: Collection, subjects: Mapping[str, Subject]) -> None:
    for part in parts_of(page, subjects):
        if isinstance(part, Compared):
            _compared(part)
        else:
            _part(part, subjects)


def _edited(
    item: CollectionItem, subjects: Mapping[str, Subject], groups: Mapping[str, Compared]
) -> None:
    """Draws a part as its editor has it: of runs that compare a row each, and after the last all."""
    group = groups.get(item.text) if item.kind == RUN else None
    if group is None:
        _part(item, subjects)
        return
    with st.container(border=True, key=f"one-{item.text}"):
        outcome.row(subjects[item.text])
        _note(subjects[item.text])
    if item.text == group.subjects[-1].run:
        _compared(group)


def _part(item: CollectionItem, subjects: Mapping[str, Subject]) -> None:
    if item.kind == TEXT:
        with st.container(key=f"said-{item.id}", gap="small"):
            _text(item.text)
    elif item.kind == RUN and item.text in subjects:
        _run(subjects[item.text])
    elif item.kind == RUN:
        words = f"Run {item.text} is not stored here: it was deleted, or is in another archive."
        st.info(plain(words), icon=":material/link_off:")
    else:
        card(search_of(item), item.id)


def _text(text: str) -> None:
    """A text of people: headings, points, bold and code; all else word for word.

    Headings have no anchor: its address would be made of their text.
    """
    lines: list[str] = []
    for block in text_blocks(text):
        if isinstance(block, Heading):
            _lines(lines)
            (st.header if block.level == 2 else st.subheader)(plain(block.text), anchor=False)
        elif isinstance(block, Paragraph):
            point = block.text.startswith("• ")
            shown = labels.marked_markdown(block.text.removeprefix("• "))
            lines.append(f"- {shown}" if point else shown)
    _lines(lines)


def _lines(lines: list[str]) -> None:
    if lines:
        st.markdown("\n\n".join(lines))
        lines.clear()


def _compared(compared: Compared) -> None:
    with st.container(border=True, key=f"part-{compared.baseline.run}"):
        outcome.compared_runs(compared)
        for each in compared.subjects:
            _note(each)
        with st.expander("Details"):
            outcome.shared(compared)
            outcome.links(compared)
            shell.draw_table(rows_table(compared, "screen"))


def _run(subject: Subject) -> None:
    with st.container(border=True, key=f"part-{subject.run}"):
        outcome.row(subject)
        if subject.result:
            outcome.times(subject.result)
        _note(subject)


def _note(subject: Subject) -> None:
    """Draws a note of people; the texts of an example's page say what an example's note does."""
    if subject.summary.labels.note and not is_example(subject.summary):
        st.markdown(labels.note_markdown(subject.summary.labels.note))


def example(title: DeltaGenerator, actions: DeltaGenerator) -> Callable[[str], None] | None:
    """Draws the example page, of the results that came with the program: its title and actions at
    these places. Returns the button of its file; None without the results.
    """
    page = collections.example()
    if page is None:
        return None
    subjects = {each.run: lab().subject(each) for each in lab().history(runs=page.runs)}
    with title:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.header(plain(page.title), anchor=False, width="content")
            st.badge("Example", color="blue")
        st.caption("Notes beside stored results: edit, print, send.")
    with actions:
        _downloads(page, subjects)
        icon = ":material/edit_note:"
        if may_act() and st.button("Edit a copy", key="collection:example", icon=icon):
            collections.take_example()
        collections.hide_example()
    _parts(page, subjects)
    return partial(exports.collection_page, page, subjects)


def _downloads(page: Collection, subjects: Mapping[str, Subject]) -> None:
    name = page.id or exports.EXAMPLE
    with st.popover("Export", icon=":material/ios_share:"):
        if page.id:
            st.code(link_of(page.id), language=None)
        exports.collection_page(page, subjects)
        exports.explained(
            "Markdown",
            lambda: markdown_text(collection_document(page, subjects)),
            f"{name}.md",
            exports.TO_PASTE,
        )
        exports.explained(
            "Archive",
            lambda: exports.archive_of(exports.stored_as(page)),
            f"{name}.spmdlab",
            exports.TO_IMPORT,
        )
