"""The Notebook screen: collections, the pages of runs, searches and text that a team reads."""

import streamlit as st

from spmd_lab.ui import links, shell
from spmd_lab.ui.notebook import collection, collections

share = shell.open_page("notebook")
shown = collections.opened()
if shown is None:
    st.title(shell.QUESTIONS["notebook"])
    if not collections.listed():
        collection.example()
else:
    collection.draw(shown)
links.share_box(share, "notebook")
