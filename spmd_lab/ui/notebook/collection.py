"""One collection: read, and edited in place."""

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.history import answer_words, is_example, when_words
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
from spmd_core.runs import RUN, SEARCH, TEXT, Collection, CollectionItem, RunSummary
from spmd_core.terms import ago
from spmd_lab.ui import exports, shell, state
from spmd_lab.ui.cards import short_words
from spmd_lab.ui.entrance.short import COLLECTION
from spmd_lab.ui.lab import as_viewer, lab, may_act
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import collections, labels, outcome
from spmd_lab.ui.notebook.collections import link_of
from spmd_lab.ui.notebook.search_card import card, side_by_side_of

_EDIT = "edit"  # of the query string
_OFFERED = 100  # runs that can be added from here
_HELP = "A line that begins with # is a heading, with - a point; **bold** and `code` are shown so."


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
    editing = False
    if not page.items:  # who begins it goes on writing
        state.set_aside("notebook", "begun", page.id)
    begun = state.aside("notebook", "begun") == page.id
    with st.container(horizontal=True, vertical_alignment="center"):
        if may_act():
            editing = st.toggle("Edit", key=_EDIT, bind="query-params", value=begun)
        _downloads(page, subjects)
        st.caption(plain(f"{imported}Changed {ago(page.updated_at)}{by}."), width="content")
    if not editing:
        _parts(page, subjects)
    if editing:
        _edited(page, subjects)
    if (compared := searches_compared(page)) is not None:
        st.subheader("Its searches side by side", anchor=False)
        side_by_side_of(compared)
    if not page.items:
        st.caption("It has no parts yet: add text and runs below.")
    if editing:
        _add(page)
        _title(page)
    return partial(exports.collection_page, page, subjects)


def _edited(page: Collection, subjects: Mapping[str, Subject]) -> None:
    if not _begins_with_text(page):
        _write(page, "Begin with text")
    for at, item in enumerate(page.items):
        if item.kind == TEXT:
            _rewriting(page, item)
        else:
            _part(item, subjects)
        _tools(page, at)


def _parts(page: Collection, subjects: Mapping[str, Subject]) -> None:
    for part in parts_of(page, subjects):
        if not isinstance(part, Compared):
            _part(part, subjects)
        elif page.id:  # each run as its editor has it
            for each in part.subjects:
                _run(each)
            outcome.beside(part)
        else:
            _compared(part)


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
    """Draws the page that the notebook begins with, of the results that came with the program: its
    title and actions at these places. Returns the button of its file; None without the results.
    """
    page = collections.example()
    if page is None:
        return None
    subjects = {each.run: lab().subject(each) for each in lab().history(runs=page.runs)}
    with title:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.title(plain(page.title), anchor=False, width="content")
            st.badge("Example", color="blue")
        st.caption("Notes beside stored results: edit, print, send.")
    with actions:
        _downloads(page, subjects)
        icon = ":material/edit_note:"
        if may_act() and st.button(
            "Edit a copy", key="collection:example", icon=icon, type="primary"
        ):
            collections.take_example()
    _parts(page, subjects)
    return partial(exports.collection_page, page, subjects)


def _tools(page: Collection, at: int) -> None:
    item, change = page.items[at], lab().collections
    with st.container(horizontal=True, horizontal_alignment="right", key=f"tools-{item.id}"):
        for label, icon, by, possible in (
            ("Up", "arrow_upward", -1, at > 0),
            ("Down", "arrow_downward", 1, at + 1 < len(page.items)),
        ):
            icon = f":material/{icon}:"
            if st.button(label, key=f"move:{label}:{item.id}", icon=icon, disabled=not possible):
                _do(lambda by=by: as_viewer(change.move, page.id, item.id, by))
        if st.button("Remove", key=f"remove:{item.id}", icon=":material/close:"):
            _do(lambda: as_viewer(change.remove, page.id, item.id))


def _rewriting(page: Collection, item: CollectionItem) -> None:
    """A text that is stored as its editor leaves the field, whatever is pressed next. What another
    person saves meanwhile is reported, and not undone.
    """
    key, kept, problem = (f"rewriting:{part}:{item.id}" for part in ("text", "was", "problem"))
    if key not in st.session_state:
        st.session_state[kept] = item.text
    store = partial(_store, page.id, item.id)
    st.text_area(
        "Text", st.session_state[kept], key=key, height="content", help=_HELP, on_change=store
    )
    if sentence := st.session_state.get(problem):
        shell.refusal(sentence)
        st.button("Save over it", key=f"over:{item.id}", on_click=store, args=(item.text,))


def _store(page: str, item: str, was: str | None = None) -> None:
    """Store what the field of a text holds; `was`: the text that it replaces, by default the one
    that its editor began with.
    """
    key, kept, problem = (f"rewriting:{part}:{item}" for part in ("text", "was", "problem"))
    text, was = st.session_state[key], st.session_state[kept] if was is None else was
    change = lab().collections.rewrite
    sentence = shell.attempt(lambda: as_viewer(change, page, item, text, was=was))
    st.session_state[problem] = sentence
    if sentence is None:
        st.session_state[kept] = text


def _begins_with_text(page: Collection) -> bool:
    return not page.items or page.items[0].kind == TEXT


def _write(page: Collection, label: str) -> None:
    """Draws the field of a new text: the first of a page is put before its runs."""
    with st.form("add:text", border=False, clear_on_submit=True):
        text = st.text_area(label, height=68, help=_HELP)
        if st.form_submit_button("Add the text", icon=":material/notes:") and text.strip():
            _do(partial(_add_text, page, text))


def _add_text(page: Collection, text: str) -> None:
    change = lab().collections
    added = as_viewer(change.add_text, page.id, text)
    if not _begins_with_text(page):
        as_viewer(change.move, page.id, added.items[-1].id, -len(page.items))


def _add(page: Collection) -> None:
    change = lab().collections
    with st.container(border=True, key="collection-add"):
        if _begins_with_text(page):
            _write(page, "Add text")
        runs = {
            each.run: each
            for each in lab().history(over=True, limit=_OFFERED, searched=False, source="examples")
            if each.run not in page.runs
        }
        with st.form("add:runs", border=False, clear_on_submit=True):
            chosen = st.multiselect(
                "Add runs, the newest first",
                list(runs),
                format_func=lambda run: _offered_words(runs[run]),
                placeholder="Type a name, a size or a mesh",
            )
            if st.form_submit_button("Add the runs", icon=":material/add:") and chosen:
                _do(lambda: as_viewer(change.add_runs, page.id, *chosen))
        there = {search_of(item).id for item in page.items if item.kind == SEARCH}
        searches = {each.id: each for each in lab().searches.listed() if each.id not in there}
        if searches:
            with st.form("add:search", border=False, clear_on_submit=True):
                search = st.selectbox(
                    "Add a search",
                    list(searches),
                    index=None,
                    placeholder="Choose a search",
                    format_func=lambda each: f"{searches[each].title}: {searches[each].words}",
                )
                if st.form_submit_button("Add the search", icon=":material/add:") and search:
                    _do(lambda: as_viewer(change.add_search, page.id, searches[search]))


def _offered_words(run: RunSummary) -> str:
    """Returns a run's name and moment as History has them, and its time."""
    name = run.labels.name or short_words(run.experiment, has_mesh=False)
    moment = when_words(run.submitted_at, st.context.timezone)
    return " · ".join(filter(None, (name, answer_words(run), moment)))


def _title(page: Collection) -> None:
    change = lab().collections
    with st.container(horizontal=True):
        with st.popover("Rename", icon=":material/edit:"), st.form("rename", border=False):
            title = st.text_input("Title", page.title, max_chars=120)
            if st.form_submit_button("Save", type="primary"):
                _do(lambda: as_viewer(change.rename, page.id, title, was=page.title))
        with st.popover("Delete", icon=":material/delete:"):
            st.markdown("Delete this page? Its runs stay.")
            pressed = st.button("Delete this page for good", key="delete:page", type="primary")
            if pressed and shell.done(as_viewer, change.delete, page.id):
                st.query_params.pop(COLLECTION, None)
                st.rerun()


def _do(action: Callable[[], object]) -> None:
    if shell.done(action):
        st.rerun()


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
