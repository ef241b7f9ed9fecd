"""The next thing to try: a sentence under the answer, and one click that opens it; and the same
measured in several processes.
"""

import re

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import CONFIRM, confirmation
from spmd_core.base import bytes_text, capital, even_seconds
from spmd_core.plan import Plan
from spmd_core.results import Next, Result
from spmd_core.trials import with_stored_answers
from spmd_lab.ui import cards
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import coded

_BUTTON = 60  # characters on a button


def confirm(result: Result) -> None:
    """A link to the same in several processes, where one process measured it."""
    if (confirmed := confirmation(result)) is not None:
        st.container(key="confirm").page_link(
            cards.page_of(confirmed),
            label=coded(f"{CONFIRM}."),
            icon=":material/repeat:",
            query_params=cards.query(confirmed),
        )


def draw(result: Result, row: DeltaGenerator | None = None) -> None:
    """What to try next, where there is something, in a row of what can be pressed: what was tried
    to remove a collective, and the sizes that are stored, answer for it.
    """
    result = with_stored_answers(lab(), result)
    if result.next is None:
        return
    offered, plan = result.next, result.experiment.plan
    why, _, change = offered.sentence.replace(". Try: ", ": try ").rpartition(": try ")
    change = change.removesuffix(".")
    label = f"**{coded(_label(offered, plan, change))}**" if why else f"**Next:** {coded(change)}."
    with (
        row or st.container(horizontal=True, vertical_alignment="center", gap="small"),
        st.container(key="main-link-next" if plan else "next", width="content"),
    ):
        st.page_link(
            cards.page_of(offered.experiment),
            label=label,
            icon=":material/arrow_forward:",
            query_params=cards.query(offered.experiment),
            width="content",
            help=coded(f"{why}.") if why and not plan else None,
        )
    if why and plan:
        after = f"{capital(change)}. {capital(why)}."
        if memory := offered.memory:
            host = memory.host and f", {bytes_text(memory.host)} on the host"
            room = (
                f"{bytes_text(memory.peak)} of {bytes_text(memory.capacity)} per device{host or ''}"
            )
            short = re.sub(r" \([^()]*on the host\)", "", capital(change))
            after = f"{short}: {room}."
        st.caption(coded(after), help=coded(f"{why}.") if memory else None)


def _label(offered: Next, plan: Plan | None, change: str) -> str:
    """Returns what is tried, and all that it gains."""
    near = offered.experiment.plan
    short = re.sub(r" \([^()]*on the host\)", "", capital(change))
    if offered.takes_s and plan and near:
        tokens = "" if near.tokens == plan.tokens else " for as many tokens"
        takes = f"{even_seconds(offered.takes_s)} estimated{tokens}, {offered.number:.1%} less"
        return f"Try this plan: {takes}"
    if offered.rule == "does_not_fit":
        return f"{short}: fits" if len(short) <= _BUTTON else "Try the nearest plan that fits"
    return f"Try {change}"
