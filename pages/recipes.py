"""The Recipes screen: the classic examples in the order of the course, one click each."""

import streamlit as st

from spmd_core.recipes import groups
from ui import cards, links, shell
from ui.words import plain

share = shell.open_page("recipes")
st.title("Recipes")
st.markdown("Each card opens a screen with everything filled in. Nothing is computed before you press Run or Place there. Vary any field.")
for group, recipes in groups().items():
    st.subheader(plain(group), anchor=False)
    for first in range(0, len(recipes), 2):
        for column, recipe in zip(st.columns(2), recipes[first : first + 2], strict=False):
            with column:
                cards.recipe_card(recipe)
links.share_box(share, "recipes")
