"""The Notebook screen: collections, the pages of runs, searches and text that a team reads."""

import streamlit as st

from spmd_lab.ui import links, shell
from spmd_lab.ui.notebook import collection, collections

share = shell.open_page("notebook")
shown, file = collections.opened(), None
if shown is None:
    with st.container(horizontal=True, vertical_alignment="center", key="head"):
        st.title(shell.QUESTIONS["notebook"], width="stretch", anchor=False)
        collections.begin()
    is_example = collections.is_example_opened()
    if not is_example:
        is_example = not collections.listed()
        collections.begin_with()
    if is_example:
        with st.container(horizontal=True, vertical_alignment="center", key="head-example"):
            title = st.container(width="stretch", gap=None)
            actions = st.container(horizontal=True, width="content")
        file = collection.example(title, actions)
else:
    file = collection.draw(shown)
links.share_box(share, "notebook", file=file)
