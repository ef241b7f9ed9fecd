"""The next thing to try: a sentence under the answer, and one click that opens it; and the same
measured in several processes.
"""

import streamlit as st

from spmd_core.advice import CONFIRM, confirmation
from spmd_core.base import capital
from spmd_core.results import Result
from spmd_core.trials import with_stored_answers
from spmd_lab.ui import cards
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import coded

_LONGEST = 8  # words on a button


def confirm(result: Result) -> None:
    """A link to the same in several processes, where one process measured it."""
    if (confirmed := confirmation(result)) is not None:
        st.container(key="confirm").page_link(
            cards.page_of(confirmed),
            label=coded(f"{CONFIRM}."),
            icon=":material/repeat:",
            query_params=cards.query(confirmed),
        )


def draw(result: Result) -> None:
    """What to try next, where there is something: what was tried to remove a collective, and the
    sizes that are stored, answer for it.
    """
    result = with_stored_answers(lab(), result)
    if result.next is None:
        return
    why, _, change = result.next.sentence.rpartition(": try ")
    label, change = f"Try {change.removesuffix('.')}", change.removesuffix(".")
    if is_long := bool(why and result.experiment.plan) and len(change.split()) > _LONGEST:
        label = "Try another plan"
    with st.container(key="next", horizontal=True, vertical_alignment="center", gap="small"):
        st.page_link(
            cards.page_of(result.next.experiment),
            label=f"**{coded(label)}**" if why else f"**Next:** {coded(change)}.",
            icon=":material/arrow_forward:",
            query_params=cards.query(result.next.experiment),
            width="content",
            help=coded(f"{why}.") if why and not result.experiment.plan else None,
        )
        if why and result.experiment.plan:
            st.caption(coded(f"{f'{capital(change)}. ' * is_long}{why}."), width="content")
