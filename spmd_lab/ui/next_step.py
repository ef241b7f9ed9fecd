"""The next thing to try: a sentence under the answer, and one click that opens it; and the same
measured in several processes.
"""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import CONFIRM, changed_words, confirmation
from spmd_core.base import capital, seconds_text
from spmd_core.plan import Plan
from spmd_core.results import Result
from spmd_core.trials import with_stored_answers
from spmd_lab.ui import cards
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import coded


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
    why, _, change = result.next.sentence.replace(". Try: ", ": try ").rpartition(": try ")
    change = change.removesuffix(".")
    label, is_counted = (
        f"Try {change}",
        result.next.rule == "better_plan",
    )  # the label has its number
    plan, near = result.experiment.plan, result.next.experiment.plan
    if plan and near:
        label = f"Try {changed_words(plan, near)}{_gain(result, plan, near)}"
    with (
        row or st.container(horizontal=True, vertical_alignment="center", gap="small"),
        st.container(key="main-link-next" if plan else "next", width="content"),
    ):
        st.page_link(
            cards.page_of(result.next.experiment),
            label=f"**{coded(label)}**" if why else f"**Next:** {coded(change)}.",
            icon=":material/arrow_forward:",
            query_params=cards.query(result.next.experiment),
            width="content",
            help=coded(f"{why}.") if why and not plan else None,
        )
    if why and plan:
        more = "" if is_counted else f" {capital(why)}."
        st.caption(
            coded(f"{capital(change)}.{more}"), help=coded(f"{why}.") if is_counted else None
        )


def _gain(result: Result, plan: Plan, near: Plan) -> str:
    """Returns what the next plan gains: its step, where it is of as many tokens, and time for those."""
    assert result.next is not None
    if result.next.rule == "does_not_fit":
        return ", which fits"
    if result.next.rule != "better_plan":
        return ""
    time, saved = result.strategies[result.order[0]].predicted_s, result.next.number
    is_alike = plan.tokens == near.tokens
    step = f"{seconds_text((1 - saved) * time.estimate)}, " if time and is_alike else ""
    return f": {step}{saved:.1%} less time"
