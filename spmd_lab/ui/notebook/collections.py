"""The list of collections; which one a link opens; and a place to add runs to one."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.base import RequestError, numbered
from spmd_core.runs import COLLECTION_ID, RUN, TEXT, Collection, CollectionItem
from spmd_core.search import KeptSearch
from spmd_core.surveys.search import kept_words
from spmd_core.terms import ago
from spmd_lab.ui import cards, links, shell, state
from spmd_lab.ui.charts import glimpse
from spmd_lab.ui.choices import EXAMPLE_PAGE
from spmd_lab.ui.entrance.short import COLLECTION
from spmd_lab.ui.lab import as_viewer, lab, may_act
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import tour
from spmd_lab.ui.notebook.tour import end, is_over

_EXAMPLE = "Which sharding, and why?"
_OFFER = "example"  # which a viewer may hide
_LOOKED_AT = 4  # runs of a page, of which the first that is stored is drawn
_RECENT, _SEARCHES = 20, 1  # runs that are looked at, and searches that are offered
_LONGEST, _MOST_SHOWN = 120, 100  # characters of a title, and of a line of text on a card
_NEW = ""  # of the choice of a collection: one that is begun for it


def opened() -> Collection | None:
    """The collection that the address names; a sentence where it is not stored here."""
    name = st.query_params.get(COLLECTION, "")
    if name != (state.aside("notebook", COLLECTION) or ""):
        # a link from a screen to itself: the browser takes up the query, but does not show it
        state.set_aside("notebook", COLLECTION, name)
        st.query_params.update({COLLECTION: name} if name else {})
    if not COLLECTION_ID.fullmatch(name):
        return None
    try:
        return lab().collections.find(name)
    except RequestError:
        words = (
            f"The link names page {name}, not stored here: it was deleted, or is of "
            "another machine. Ask for its archive, and drop it on History."
        )
        st.info(plain(words), icon=":material/link_off:")
    return None


def begin() -> None:
    """A button that begins a page."""
    if not may_act():
        return
    box = st.popover("New page", icon=":material/add:", type="primary")
    with box, st.form("collection:new", border=False):  # pressed twice it has its title still
        title = st.text_input("Title", max_chars=120, placeholder="Sharding of block 3")
        if st.form_submit_button("Begin the page", type="primary"):
            _begin(title)


def begin_with() -> bool:
    """Draws the last runs and searches as cards, each with a button that begins a page with it;
    whether there are any.
    """
    recent = lab().history(over=True, limit=_RECENT, alone=True)
    searches = sorted(lab().searches.listed(), key=lambda each: -each.at)[:_SEARCHES]
    runs = cards.distinct(recent, cards.ACROSS - len(searches))
    if not may_act() or not (runs or searches):
        return False
    with st.container(key="recent", gap="small"):
        st.markdown("**Begin a page with what you ran last**")
        across, names = st.columns(cards.ACROSS), cards.called(runs)
        for column, run in zip(across, runs, strict=False):
            with column.container(border=True, height="stretch"):
                cards.run_row(run, cards.card_lines(run), names[run.run])
                _begin_button(run.run, names[run.run], runs=[run.run])
        for column, kept in zip(across[len(runs) :], searches, strict=False):
            with column.container(border=True, height="stretch"):
                _search_row(kept)
                _begin_button(kept.id, kept.title, searches=[kept])
    return True


def _begin_button(
    key: str, title: str, runs: Sequence[str] = (), searches: Sequence[KeptSearch] = ()
) -> None:
    if st.button("Begin a page", key=f"begin:{key}", icon=":material/post_add:", help=plain(title)):
        _begin(title[:_LONGEST], runs, searches, is_edited=True)


def _search_row(kept: KeptSearch) -> None:
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", key=f"row-{kept.id}"
    ):
        st.html(cards.search_glimpse(kept), width=96)
        with st.container(gap=None):
            st.page_link(
                "pages/history.py", label=plain(kept.title), query_params={"searches": kept.id}
            )
            st.caption(plain(f"{kept_words(kept)}, {ago(kept.at)}"))


def listed() -> bool:
    """Draws a card of every page, the one changed last first, and the example beside them, or where
    it is hidden; whether there is any.
    """
    pages = list(lab().collections.listed())
    is_listed = bool(pages) or is_over(_OFFER)
    if is_listed and (shown := example()):  # a copy of it does not take its place
        pages.append(shown)
    with st.container(key="recent-pages", gap="small"):
        for first in range(0, len(pages) if is_listed else 0, cards.ACROSS):
            for column, each in zip(st.columns(cards.ACROSS), pages[first:], strict=False):
                with column.container(border=True, height="stretch"):
                    _card(each)
    return is_listed


def _card(page: Collection) -> None:
    """Draws a page: the shards of its first run, its title, how its text begins, else what came out of
    that run, and what it is of.
    """
    stored = lab().history(runs=page.runs[:_LOOKED_AT]) if page.runs else ()
    first = next((each for run in page.runs for each in stored if each.run == run), None)
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", key=f"row-{page.id or 'example'}"
    ):
        if first:
            st.html(glimpse.html(first.best_experiment), width=96)
        with st.container(gap=None):
            st.page_link(
                "pages/notebook.py",
                label=plain(page.title),
                query_params={COLLECTION: page.id or EXAMPLE_PAGE},
            )
            if begins := _beginning(page):
                st.caption(plain(begins))
            elif first:
                color, head, words = cards.outcome(first)
                st.caption(f":{plain(color or 'gray')}[**{plain(head or words)}**]")
            st.caption(plain(_facts(page)) if page.id else ":blue-badge[Example]")


def _beginning(page: Collection) -> str:
    """Returns the first line of text of a page that is no heading, shortened."""
    lines = (
        line
        for each in page.items
        if each.kind == TEXT
        for line in each.text.splitlines()
        if line.strip() and not line.startswith("#")
    )
    line = next(lines, "").replace("**", "").replace("`", "")
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 1].rstrip()}…"


def hide_example() -> None:
    """Draws a button that leaves of the example page a link, for this viewer, where it is shown
    without being opened.
    """
    if not is_example_opened():
        words = "Hide it. A link to it stays here."
        st.button(
            "Hide",
            key="example:hide",
            type="tertiary",
            help=words,
            on_click=end,
            args=(_OFFER,),
        )


def is_example_opened() -> bool:
    """Returns True if the address names the example page, which a list of pages links to."""
    return st.query_params.get(COLLECTION) == EXAMPLE_PAGE


def aside(shown: Collection) -> None:
    """Draws the names and dates of pages in the sidebar, where there are others than that shown."""
    pages = lab().collections.listed()
    if len(pages) < 2:
        return
    with st.sidebar:
        st.markdown("**Pages**")
        for each in pages:
            marked = "menu-other-" * (each.id != shown.id)
            with st.container(key=f"{marked}page-{each.id}", gap=None):
                st.page_link(
                    "pages/notebook.py",
                    label=plain(each.title),
                    query_params={COLLECTION: each.id},
                )
                st.caption(plain(_facts(each)))


def example() -> Collection | None:
    """Returns a page of the results that came with the program; None where they are not here."""
    parts = [
        part for text, runs in _sections() for part in ((TEXT, text), *((RUN, run) for run in runs))
    ]
    items = tuple(CollectionItem(str(at), *part) for at, part in enumerate(parts))
    return Collection("", _EXAMPLE, items) if parts else None


def take_example() -> None:
    """Store a copy of the example page, which its reader may edit, and open it."""
    _begin(f"{_EXAMPLE} (copy)", sections=_sections(), is_edited=True)


def _sections() -> Sequence[tuple[str, Sequence[str]]]:
    return [(f"## {each.title}\n{each.look}", each.runs) for each in tour.stored("page")]


def _begin(
    title: str,
    runs: Sequence[str] = (),
    searches: Sequence[KeptSearch] = (),
    sections: Sequence[tuple[str, Sequence[str]]] = (),
    is_edited: bool = False,
) -> None:
    made: list[Collection] = []

    def make() -> None:
        new = as_viewer(lab().collections.create, title)
        made.append(new)
        _put(new.id, runs, searches)
        for text, shown in sections:
            as_viewer(lab().collections.add_text, new.id, text)
            _put(new.id, shown)

    if shell.done(make):
        query = {COLLECTION: made[0].id} | ({"edit": "true"} if is_edited else {})
        st.switch_page("pages/notebook.py", query_params=query)


def _put(collection: str, runs: Sequence[str], searches: Sequence[KeptSearch] = ()) -> None:
    if runs:
        as_viewer(lab().collections.add_runs, collection, *runs)
    for each in searches:
        as_viewer(lab().collections.add_search, collection, each)


def _facts(each: Collection) -> str:
    count = numbered(len(each.items), "part")
    by = f"by {each.owner_name}" if each.owner_name else ""
    imported = "imported" if each.origin else ""
    return ", ".join(part for part in (count, ago(each.updated_at), by, imported) if part)


def add(runs: Sequence[str] = (), searches: Sequence[KeptSearch] = ()) -> None:
    """A button that adds runs or searches to a collection, or to one that is begun with them."""
    if not may_act():
        return
    key = "searches" if searches else "collection"
    with st.popover("Add to a page", icon=":material/post_add:"):
        pages = {each.id: each for each in lab().collections.listed()}
        chosen = st.selectbox(
            "Page",
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
