"""A search as a card, its answer, ranking and link; and several side by side."""

import streamlit as st

from spmd_core.answers import kept_ranking
from spmd_core.base import RequestError
from spmd_core.history import basis_words, foreign_search_words
from spmd_core.reports import (
    ComparedSearches,
    question_differences,
    search_sentences,
    searches_table,
    turned,
)
from spmd_core.search import KeptSearch, link
from spmd_core.sheets import NONE
from spmd_core.surveys.search import by_words, kept_words
from spmd_lab.ui import shell
from spmd_lab.ui.charts import shares
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.tables import sheet, table_frame, wide_enough

_HEIGHT = 248  # pixels: six rows, beyond which it scrolls


def card(kept: KeptSearch, key: str) -> None:
    """The card; `key` is one of its own on the screen."""
    with st.container(border=True, key=f"part-{key}"):
        st.markdown(f":material/travel_explore: **{plain(kept.title)}**")
        lead = kept_words(kept)
        st.subheader(plain(lead), anchor=False)
        rest = by_words(kept, kept.words).partition(". ")[2]  # of a sentence as the lead
        if rest and lead != kept.words:
            st.markdown(plain(rest))
        if kept.origin:
            st.caption(plain(foreign_search_words(kept.origin)))
        if kept.is_drawn:
            st.html(shares.token_bar(kept.token_s))
            st.html(shares.memory_bar(kept.held_bytes, kept.capacity_bytes, when=""))
        if kept.ranking:
            frame = table_frame(kept_ranking(kept)).map(lambda text: by_words(kept, text))
            table = sheet(frame.loc[:, (frame != NONE).any()])
            st.dataframe(
                table,
                hide_index=True,
                key=f"ranking-{key}",
                height=_HEIGHT,
                column_config=wide_enough(table, 600),
            )
        try:
            screen, query = link.opened(kept.question)
        except (RequestError, ValueError, TypeError):  # of another version
            return
        st.page_link(
            f"pages/{screen}.py",
            label="Open its question",
            icon=":material/open_in_new:",
            query_params=query,
        )


def side_by_side_of(compared: ComparedSearches) -> None:
    """Searches side by side: how their winners compare, and what differs in the questions."""
    for sentence in search_sentences(compared):
        st.markdown(f"**{plain(sentence)}**")
    if basis := basis_words(compared.answers):
        st.caption(plain(basis))
    shell.draw_table(table_frame(turned(searches_table(compared))))
    if (differences := question_differences(compared)).rows:
        st.markdown("**What differs in the questions**")
        shell.draw_table(table_frame(differences))
