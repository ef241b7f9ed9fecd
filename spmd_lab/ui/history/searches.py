"""Searches on History: to be reported, archived, put into a collection, and compared side by side."""

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
from spmd_lab.ui.history import days, side_by_side
from spmd_lab.ui.history.listing import SEARCHED, not_here
from spmd_lab.ui.lab import as_viewer, lab, may_act
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import collections
from spmd_lab.ui.notebook.search_card import card, side_by_side_of
from spmd_lab.ui.tables import sheet, wide_enough

_SEARCHES = "searches"  # of the query string: the ticked ones


def listed(is_open: bool, runs: int) -> None:
    """Every search with an answer; what can be done with those that are ticked; and a switch that
    lists the `runs` of searches.
    """
    every = lab().searches.listed()
    asked = [name for name in st.query_params.get(_SEARCHES, "").split(",") if name]
    known = {each.id for each in every}
    if sentence := not_here("search ", asked, known):
        st.info(plain(sentence), icon=":material/link_off:")
    if not every and not runs:
        return
    with st.expander(
        plain(_counted(len(every), runs)), key="history-searches", expanded=is_open or bool(asked)
    ):
        if runs:
            _switch()
        if not every:
            return
        table = sheet([_row(each) for each in every])
        event = st.dataframe(
            table,
            key=f"searches:{hash(tuple(each.id for each in every))}",
            hide_index=True,
            column_config=wide_enough(table, 600),
            on_select="rerun",
            selection_mode="multi-row",
            selection_default={
                "selection": {"rows": [at for at, each in enumerate(every) if each.id in asked]}
            },
        )
        picked = [every[at] for at in sorted(event.selection.rows) if at < len(every)]
        wanted = [*(each.id for each in picked), *(name for name in asked if name not in known)]
        if wanted:
            st.query_params[_SEARCHES] = ",".join(wanted)
        else:
            st.query_params.pop(_SEARCHES, None)
        if picked:
            _actions(picked)
        else:
            st.caption("Tick one to read, report or archive it, two to eight to compare them.")


def _counted(searches: int, runs: int) -> str:
    many = "or more run" if runs >= days.MOST_LISTED else "run"
    of_runs = f"{numbered(runs, many)} of searches, remedies and traces" * bool(runs)
    return "; ".join(filter(None, (numbered(searches, "search") * bool(searches), of_runs)))


def _switch() -> None:
    st.toggle(
        "List their runs above",
        key=SEARCHED,
        bind="query-params",
        help="What a search measured or compiled on its way, what was compiled to see what would "
        "remove a collective, and runs that only trace.",
    )


def _row(each: KeptSearch) -> dict[str, str]:
    return {
        "Question": each.title,
        "Answer": each.words,
        "From": each.origin or "here",
        "Search": each.id,
    }


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
    st.query_params.pop(_SEARCHES, None)
    st.rerun()
