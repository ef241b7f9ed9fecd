"""The History screen: stored runs by days, filtered, opened, compared side by side, exported, deleted."""

from functools import partial

import streamlit as st

from spmd_core.history import read_search
from spmd_core.reports import FEWEST, MOST
from spmd_core.runs import STATES
from spmd_core.terms import state_words, workload_title
from spmd_core.workloads import PROGRAM_FILE, workload_names
from spmd_lab.ui import choices, exports, links, live, shell
from spmd_lab.ui.history import listing as history, searches, side_by_side, together
from spmd_lab.ui.history.listing import ONLY_SEARCHED
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import archives, tour

share = shell.open_page("history")
history.follow_short_link()
together.follow_own_link()
asked, searched = history.asked(), searches.asked()
with st.container(horizontal=True, vertical_alignment="center", key="head"):
    title = st.container(width="stretch").empty()
    if asked or searched:
        history.back()
    downloads = st.container(width="content")
    archives.drop(asked)
title.title(shell.QUESTIONS["history"])
live.watch_history(live.listed_runs())
if asked:
    tour.guide(*asked)
    picked, file = history.named(), None
    if len(picked) == 1:
        history.one(picked[0])
        exports.menu(downloads, picked[0].run, picked[0].experiment)
        file = partial(exports.run_page, picked[0].run)
    elif FEWEST <= len(picked) <= MOST:
        file = side_by_side.draw(picked, title, downloads)
        history.act([run.run for run in picked])
    elif picked:
        st.info(f"Of {len(picked)} runs, {FEWEST} to {MOST} stand side by side: untick some.")
    links.share_box(share, "history", file=file)
    st.stop()
if searched:
    title.title("Which is best?" if len(searched) > 1 else "What came out?")
    searches.draw(searched)
    links.share_box(share, "history")
    st.stop()
workloads = [*workload_names(), PROGRAM_FILE]
choices.offered("workload", map(workload_title, workloads))
choices.offered("state", map(state_words, STATES))
with st.container(horizontal=True, vertical_alignment="bottom"):
    text = st.text_input(
        "Search",
        key="search",
        bind="query-params",
        placeholder="Search: all-reduce, v5e, yesterday, x=8, tag:ring …",
        icon=":material/search:",
        label_visibility="collapsed",
    )
    workload = st.selectbox(
        "Workload",
        workloads,
        index=None,
        key="workload",
        bind="query-params",
        placeholder="Any workload",
        format_func=workload_title,
        label_visibility="collapsed",
    )
    state = st.selectbox(
        "State",
        list(STATES),
        index=None,
        key="state",
        bind="query-params",
        placeholder="Any state",
        format_func=state_words,
        label_visibility="collapsed",
    )
if understood := read_search(text or "", st.context.timezone).words:
    st.caption(plain(understood))
with st.container(horizontal=True, vertical_alignment="center", key="list-bar"):
    held = st.container(width="stretch")
    runs, of_searches = history.listed(workload, state, text or None)
    kept = [] if workload or state else together.searches(text)
    view = choices.one_of("View", history.VIEWS, choices.VIEW) if runs else history.VIEWS[0]

history.upkeep()
if runs or kept:
    history.draw(view, runs, kept)
    with held:
        history.held(view, runs, len(kept))
        searches.held()
if runs:
    with downloads:
        exports.rows_button(runs)
elif kept:
    pass
elif of_searches:
    st.info(ONLY_SEARCHED, icon=":material/travel_explore:")
elif text or workload or state:
    history.clear_filters()
else:
    st.info(
        "Nothing has run here yet: open a recipe, or press Run on Compare. Every run is kept here, "
        "with its numbers and programs."
    )
    st.page_link("pages/recipes.py", label="Open a recipe", icon=":material/menu_book:")
searches.switch(of_searches)
links.share_box(share, "history")
