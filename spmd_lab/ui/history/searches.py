"""Searches on History: opened, reported, archived, put into a collection, compared side by side."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.base import numbered
from spmd_core.reports import (
    FEWEST,
    MOST,
    compare_searches,
    html_text,
    searches_document,
    searches_json,
    searches_table,
)
from spmd_core.search import KeptSearch
from spmd_lab.ui import exports, shell
from spmd_lab.ui.history import days, side_by_side, together
from spmd_lab.ui.history.listing import SEARCHED, not_here
from spmd_lab.ui.history.together import SEARCHES
from spmd_lab.ui.lab import as_viewer, lab, may_act
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import collections
from spmd_lab.ui.notebook.search_card import card, side_by_side_of


def asked() -> list[str]:
    """The searches that the link names."""
    return [name for name in st.query_params.get(SEARCHES, "").split(",") if name]


def show(searches: Sequence[str]) -> None:
    """Have the link name these searches; none: the list is shown."""
    if searches:
        st.query_params[SEARCHES] = ",".join(searches)
    else:
        st.query_params.pop(SEARCHES, None)


def draw(asked: Sequence[str]) -> None:
    """Draws the searches that the link names, and what can be done with them; a sentence on those that
    are not here.
    """
    known = {each.id: each for each in lab().searches.listed()}
    if sentence := not_here("search ", asked, known):
        st.info(plain(sentence), icon=":material/link_off:")
    if picked := [known[name] for name in asked if name in known]:
        _actions(picked)


def held() -> None:
    """Draws what can be done with ticked searches."""
    names = together.ticked()
    if not names:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="held-searches"):
        is_one = len(names) == 1
        st.button(
            "Open the search" if is_one else f"Compare {len(names)} searches",
            type="secondary" if days.ticked() else "primary",
            key="compare-searches",
            on_click=show,
            args=(names,),
            disabled=len(names) > MOST,
            help=f"At most {MOST} are compared." if len(names) > MOST else None,
        )
        if days.ticked():
            st.caption("Searches are compared apart from runs.", width="content")
        label = f"Untick {numbered(len(names), 'search')}" if days.ticked() else "Untick"
        untick = st.button(plain(label), key="untick-searches", type="tertiary")
    if untick:
        together.untick()
        st.rerun()


def switch(runs: int) -> None:
    """Draws a switch that lists the `runs` of searches, where there are any."""
    if not runs:
        return
    many = "or more run" if runs >= days.MOST_LISTED else "run"
    st.toggle(
        plain(f"List {numbered(runs, many)} of searches, remedies and traces"),
        key=SEARCHED,
        bind="query-params",
        help="What a search measured or compiled on its way, what was compiled to see what would "
        "remove a collective, and runs that only trace.",
    )


def _actions(picked: Sequence[KeptSearch]) -> None:
    ids = [each.id for each in picked]
    with st.container(horizontal=True, vertical_alignment="center"):
        if len(picked) == 1:
            exports.search_buttons(picked[0])
        else:
            name = f"{len(picked)}-searches.spmdlab"
            exports.download("Archive", lambda: exports.archive_of(ids), name, "To import.")
        collections.add(searches=picked)
        if may_act() and all(each.origin for each in picked):
            with st.popover("Delete", icon=":material/delete:"):
                if st.button("Delete for good", key="delete:searches", type="primary"):
                    _delete(ids)
    if len(picked) == 1:
        card(picked[0], "history")
    elif FEWEST <= len(picked) <= MOST:
        compared = compare_searches(picked)
        side_by_side_of(compared)
        with st.container(horizontal=True):
            side_by_side.downloads(
                "searches",
                searches_document(compared),
                searches_table(compared),
                lambda: searches_json(compared),
                lambda: lab().archives.page(
                    html_text(searches_document(compared, with_each=True)), ids
                ),
            )


def _delete(ids: Sequence[str]) -> None:
    for search in ids:
        if not shell.done(as_viewer, lab().searches.delete, search):
            return
    together.untick()
    show(())
    st.rerun()
