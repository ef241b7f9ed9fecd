"""The list of collections; which one a link opens; and a place to add runs to one."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.results import COLLECTION_ID, Collection
from spmd_core.search import KeptSearch
from spmd_core.words import ago
from spmd_lab.ui import links, shell, state
from spmd_lab.ui.entrance.short import COLLECTION
from spmd_lab.ui.lab import Stop, as_viewer, lab, may_act
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import tour

_NEW = ""  # of the choice of a collection: one that is begun for it
_WHAT = (
    "A collection is a page that a team reads: runs, studies, predictions and searches in order, "
    "with text between them, under one link."
)


def opened() -> Collection | None:
    """The collection that the address names; a sentence where it is not stored here."""
    name = st.query_params.get(COLLECTION, "")
    if name != (state.aside("notebook", COLLECTION) or ""):
        # a link from a screen to itself: the browser takes up the query, but does not show it
        state.set_aside("notebook", COLLECTION, name)
        st.query_params.update({COLLECTION: name} if name else {})
    if not name:
        return None
    words = "The link names no collection: copy all of it."
    if COLLECTION_ID.fullmatch(name):
        try:
            return lab().collections.find(name)
        except RequestError:
            words = (
                f"The link names collection {name}, not stored here: it was deleted, or is of "
                "another machine. Ask for its archive, and drop it on History."
            )
    st.info(plain(words), icon=":material/link_off:")
    return None


def listed() -> None:
    """Every collection, the one changed last first; and a field that begins a new one."""
    st.caption(_WHAT)
    pages = lab().collections.listed()
    for each in pages:
        with st.container(horizontal=True, vertical_alignment="center", key=f"line-{each.id}"):
            st.page_link(
                "pages/notebook.py",
                label=f"**{plain(each.title)}**",
                icon=":material/article:",
                query_params={COLLECTION: each.id},
            )
            st.caption(plain(_facts(each)))
    if not pages:
        st.info("No collection yet: begin one here, or tick runs on History and add them to one.")
    stops = tour.stored()
    if not pages and stops and may_act():
        label = "Make an example: results that came with the program"
        if st.button(label, key="collection:example", icon=":material/article:"):
            _begin("An example: what came with the program", stops=stops)
    if may_act():
        with st.form("collection:new", border=False):  # pressed twice it has its title still
            title = st.text_input(
                "New collection", max_chars=120, placeholder="Sharding of block 3, week 47"
            )
            if st.form_submit_button("Begin a collection", icon=":material/add:", type="primary"):
                _begin(title)


def _begin(
    title: str,
    runs: Sequence[str] = (),
    searches: Sequence[KeptSearch] = (),
    stops: Sequence[Stop] = (),
) -> None:
    """Make a collection, and open it."""
    made: list[Collection] = []

    def make() -> None:
        new = as_viewer(lab().collections.create, title)
        made.append(new)
        _put(new.id, runs, searches)
        for stop in stops:
            as_viewer(lab().collections.add_text, new.id, f"# {stop.title}")
            _put(new.id, stop.runs)

    if shell.done(make):
        st.switch_page("pages/notebook.py", query_params={COLLECTION: made[0].id})


def _put(collection: str, runs: Sequence[str], searches: Sequence[KeptSearch] = ()) -> None:
    if runs:
        as_viewer(lab().collections.add_runs, collection, *runs)
    for each in searches:
        as_viewer(lab().collections.add_search, collection, each)


def _facts(each: Collection) -> str:
    count = f"{len(each.items)} part{'' if len(each.items) == 1 else 's'}"
    by = f"by {each.owner_name}" if each.owner_name else ""
    imported = "imported" if each.origin else ""
    return ", ".join(part for part in (count, ago(each.updated_at), by, imported) if part)


def add(runs: Sequence[str] = (), searches: Sequence[KeptSearch] = ()) -> None:
    """A button that adds runs or searches to a collection, or to one that is begun with them."""
    if not may_act():
        return
    key = "searches" if searches else "collection"
    with st.popover("Add to a collection", icon=":material/post_add:"):
        pages = {each.id: each for each in lab().collections.listed()}
        chosen = st.selectbox(
            "Collection",
            [_NEW, *pages],
            format_func=lambda each: pages[each].title if each else "a new one",
            key=f"{key}:which",
        )
        title = ""
        if not chosen:
            title = st.text_input("Title", key=f"{key}:title", max_chars=120)
        if st.button("Add", key=f"{key}:add", type="primary"):
            if not chosen:
                _begin(title, runs, searches)
                return
            if shell.done(_put, chosen, runs, searches):
                st.switch_page("pages/notebook.py", query_params={COLLECTION: chosen})


def link_of(collection: str) -> str:
    """The short link of a collection."""
    return f"{links.base_address('notebook')}/c/{collection}"
