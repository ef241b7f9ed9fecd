"""The Recipes screen: a gallery of eight questions, then the rest of the course, one click each."""

import streamlit as st

from spmd_core.base import numbered
from spmd_core.recipes import FEATURED, LEVELS, RECIPES, START, groups, of_level
from spmd_lab.ui import course, links, shell, state
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import tour

share = shell.open_page("recipes")
done = lab().succeeded()
count = sum(recipe.experiment.id in done for recipe in RECIPES.values())
with st.container(horizontal=True, vertical_alignment="center", key="head"):
    st.title(shell.QUESTIONS["recipes"], width="stretch")
    if count:
        st.caption(plain(f"{count} of {len(RECIPES)} done here"), width="content")
    tour.again()
with st.container(horizontal=True, vertical_alignment="center"):
    words = st.text_input(
        "Search",
        key="search",
        placeholder="Search: psum, allreduce, MoE…",
        icon=":material/search:",
        max_chars=100,
        label_visibility="collapsed",
        bind="query-params",
        width=340,
    )
    counts = {level: len(course.matching(words, of_level(level))) for level in LEVELS}
    counts = {course.FIRST: len(FEATURED), "All": len(course.matching(words))} | counts
    level = st.pills(
        "Level",
        [each for each in counts if not (words and each == course.FIRST)],
        key="level-of-found" if words else "level",
        default="All" if words else course.FIRST,
        required=True,
        format_func=lambda each: plain(f"{each} · {counts[each]}"),
        label_visibility="collapsed",
        width="content",
    )

state.set_aside("recipes", "level", level)  # whose order its recipes are followed in
recipes = course.matching(words, of_level(level) if level in LEVELS else None)
if level == course.FIRST:
    course.gallery([RECIPES[name] for name in FEATURED[:START]], done, is_path=True)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader("Next", anchor=False, width="content")
        course.key()
    course.gallery([RECIPES[name] for name in FEATURED[START:]], done)
elif words:
    if recipes:
        st.caption(plain(f"{len(recipes)} of {numbered(len(RECIPES), 'recipe')}"))
    course.listed(recipes, done, recipes)
else:
    for group in groups():
        if here := [recipe for recipe in recipes if recipe.group == group]:
            st.subheader(plain(f"{group} ({len(here)})"), anchor=False)
            course.listed(here, done, recipes)
if not recipes:
    course.elsewhere(words, f" of the level {level}" if level in LEVELS else "")
links.share_box(share, "recipes")
