"""The Recipes screen: the problems of large models, then the classic examples in the order of the
course, one line and one click each.
"""

import streamlit as st

from spmd_core.recipes import RECIPES, groups, problems
from spmd_core.words import screen_title
from spmd_lab.ui import course, links, shell
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import tour

share = shell.open_page("recipes")
done = lab().succeeded()
count = sum(recipe.experiment.id in done for recipe in RECIPES.values())
st.title("Recipes")
st.markdown(
    f"Problems of large models, then the classic examples in order: {len(RECIPES)} recipes, {count} done here. "
    "Each opens with everything filled in; nothing runs before you press Run, Place or Predict there."
)
tour.listed()
words = st.text_input(
    "Search",
    key="search",
    placeholder="Search: psum, allreduce, MoE…",
    icon=":material/search:",
    max_chars=100,
    label_visibility="collapsed",
    bind="query-params",
)
parts = list(groups())
part = st.pills(
    "Part of the course",
    parts,
    format_func=plain,
    key="part",
    label_visibility="collapsed",
)

recipes = course.matching(words, part)
for group in parts:
    here = [recipe for recipe in recipes if recipe.group == group]
    if here:
        st.subheader(plain(group), anchor=False)
        if group == problems.GROUP:
            st.caption(problems.ABOUT)
        course.lines(here, done)
if not recipes:
    st.info(
        f"No recipe {'of this part ' if part else ''}has the words {plain(words)}. Try fewer, or another part of the course. "
        "Or leave the course: time a collective, or search for a sharding."
    )
    with st.container(horizontal=True, gap="small"):
        for screen in ("collectives", "search"):
            st.page_link(f"pages/{screen}.py", label=plain(screen_title(screen)), width="content")
links.share_box(share, "recipes")
