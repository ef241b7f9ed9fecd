"""One collection, as it is edited: each part as it is read, with what changes it beside it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from spmd_core.history import answer_words, when_words
from spmd_core.reports import search_of
from spmd_core.runs import SEARCH, TEXT, Collection, CollectionItem, RunSummary
from spmd_core.search import KeptSearch
from spmd_lab.ui import shell
from spmd_lab.ui.cards import short_words
from spmd_lab.ui.entrance.short import COLLECTION
from spmd_lab.ui.lab import as_viewer, lab

_OFFERED = 100  # runs that can be added from here
_HELP = "A line that begins with # is a heading, with - a point; **bold** and `code` are shown so."


def parts(
    page: Collection,
    draw: Callable[[CollectionItem], None],
    draw_text: Callable[[str], None],
) -> None:
    """Draws each part, a text with its field where that is open, beside what moves and removes it."""
    if not _begins_with_text(page):
        _write(page, "Begin with text")
    for at, item in enumerate(page.items):
        with st.container(horizontal=True, gap="small", key=f"edited-{item.id}"):
            with st.container():
                is_open = item.kind == TEXT and st.session_state.get(_open_key(item), False)
                if is_open:
                    _rewriting(page, item, draw_text)
                else:
                    draw(item)
            _tools(page, at, is_open)


def _open_key(item: CollectionItem) -> str:
    return f"rewriting:open:{item.id}"


def _tools(page: Collection, at: int, is_open: bool) -> None:
    item, change = page.items[at], lab().collections
    with st.container(horizontal=True, width="content", gap=None, key=f"tools-{item.id}"):
        if item.kind == TEXT:
            label, icon = ("Done", "check") if is_open else ("Write", "edit")
            opened = ({_open_key(item): not is_open},)
            _tool(label, icon, item, on_click=st.session_state.update, args=opened)
        for label, icon, by, possible in (
            ("Up", "arrow_upward", -1, at > 0),
            ("Down", "arrow_downward", 1, at + 1 < len(page.items)),
        ):
            if _tool(label, icon, item, disabled=not possible):
                _do(partial(as_viewer, change.move, page.id, item.id, by))
        if _tool("Remove", "close", item):
            _do(partial(as_viewer, change.remove, page.id, item.id))


def _tool(label: str, icon: str, item: CollectionItem, **named: Any) -> bool:
    """Draws a small button that is seen as its icon, and read as its label."""
    icon = f":material/{icon}:"
    return st.button(
        label, key=f"part:{label}:{item.id}", icon=icon, type="tertiary", help=label, **named
    )


def _rewriting(page: Collection, item: CollectionItem, draw: Callable[[str], None]) -> None:
    """A text that is stored as its editor leaves the field, whatever is pressed next; beside it how it
    is read. What another person saves meanwhile is reported, and not undone.
    """
    key, kept, problem = (f"rewriting:{part}:{item.id}" for part in ("text", "was", "problem"))
    if key not in st.session_state:
        st.session_state[kept] = item.text
    store = partial(_store, page.id, item.id)
    field, read = st.columns(2)
    with field:
        st.text_area(
            "Text", st.session_state[kept], key=key, height="content", help=_HELP, on_change=store
        )
    with read.container(key=f"said-{item.id}", gap="small"):
        draw(item.text)
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
    return bool(page.items) and page.items[0].kind == TEXT


def _write(page: Collection, label: str) -> None:
    """Draws the field of a new text: the first of a page is put before its runs."""
    with st.form("add:text", border=False, clear_on_submit=True):
        text = st.text_area(label, height=68, help=_HELP, placeholder="## What did we learn?")
        if st.form_submit_button("Add the text", icon=":material/notes:") and text.strip():
            at = None if _begins_with_text(page) else 0
            _do(partial(as_viewer, lab().collections.add_text, page.id, text, at=at))


def add(page: Collection) -> None:
    """Draws the menu of what can be added at the end: text, runs, searches. An addition closes it."""
    with st.popover("Add", icon=":material/add:", key=f"add-{len(page.items)}"):
        if _begins_with_text(page):
            _write(page, "Text")
        there = {search_of(item).id for item in page.items if item.kind == SEARCH}
        searches = {each.id: each for each in lab().searches.listed() if each.id not in there}
        runs = {
            each.run: each
            for each in lab().history(over=True, limit=_OFFERED, searched=False, source="examples")
            if each.run not in page.runs
        }
        offered = {each: _search_words(kept) for each, kept in searches.items()}
        offered |= {run: _run_words(each) for run, each in runs.items()}
        with st.form("add:stored", border=False, clear_on_submit=True):
            chosen = st.multiselect(
                "Searches and runs, the newest first" if searches else "Runs, the newest first",
                list(offered),
                format_func=offered.__getitem__,
                placeholder="Type a name, a size or a mesh",
            )
            if st.form_submit_button("Add them", icon=":material/add:") and chosen:
                _do(partial(_add, page.id, [searches.get(each, each) for each in chosen]))


def _add(page: str, chosen: list[KeptSearch | str]) -> None:
    """Add runs, by their ids, and searches, in the order in which they were chosen."""
    change = lab().collections
    for each in chosen:
        as_viewer(change.add_runs if isinstance(each, str) else change.add_search, page, each)


def _search_words(kept: KeptSearch) -> str:
    return f"{kept.title}: {kept.words}"


def _run_words(run: RunSummary) -> str:
    """Returns a run's name and moment as History has them, and its time."""
    name = run.labels.name or short_words(run.experiment, has_mesh=False)
    moment = when_words(run.submitted_at, st.context.timezone)
    return " · ".join(filter(None, (name, answer_words(run), moment)))


def title(page: Collection) -> None:
    """Draws what renames and deletes a page."""
    change = lab().collections
    box = st.popover("Rename", icon=":material/edit:", type="tertiary")
    with box, st.form("rename", border=False):
        name = st.text_input("Title", page.title, max_chars=120)
        if st.form_submit_button("Save", type="primary"):
            _do(lambda: as_viewer(change.rename, page.id, name, was=page.title))
    with st.popover("Delete", icon=":material/delete:", type="tertiary"):
        st.markdown("Delete this page? Its runs stay.")
        pressed = st.button("Delete this page for good", key="delete:page", type="primary")
        if pressed and shell.done(as_viewer, change.delete, page.id):
            st.query_params.pop(COLLECTION, None)
            st.rerun()


def _do(action: Callable[[], object]) -> None:
    if shell.done(action):
        st.rerun()
