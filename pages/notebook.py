"""The Notebook screen: collections, the pages of runs, searches and text that a team reads."""

import streamlit as st

from spmd_lab.ui import links, shell
from spmd_lab.ui.notebook import collection, collections

share = shell.open_page("notebook")
shown, file = collections.opened(), None
if shown is None:
    with st.container(horizontal=True, vertical_alignment="center", key="head"):
        title = st.container(width="stretch", gap=None)
        actions = st.container(horizontal=True, width="content")
        collections.begin()
    if collections.is_example_opened() or not collections.listed():
        file = collection.example(title, actions)
    if file is None:
        title.title(shell.QUESTIONS["notebook"])
else:
    file = collection.draw(shown)
links.share_box(share, "notebook", file=file)
