"""The next thing to try: a sentence under the answer, and one click that opens it."""

from functools import lru_cache

import streamlit as st

from spmd_core.results import Next, Result
from spmd_core.words import next_step
from ui import cards
from ui.lab import lab
from ui.markdown import coded


def draw(result: Result) -> None:
    """What to try next, where there is something. Results of before have none stored."""
    said = result.next or _of_stored(result.run)
    if said is None:
        return
    with st.container(key="next"):
        st.page_link(
            cards.page_of(said.experiment),
            label=f"**Next:** {coded(said.sentence)}",
            icon=":material/arrow_forward:",
            query_params=cards.query(said.experiment),
        )


@lru_cache(maxsize=256)
def _of_stored(run: str) -> Next | None:
    result = lab().result(run)
    return next_step(result) if result else None
