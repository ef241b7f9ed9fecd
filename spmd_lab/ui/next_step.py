"""The next thing to try: a sentence under the answer, and one click that opens it; and the same
measured in several processes.
"""

import re

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.advice import CONFIRM, confirmation, gain_words
from spmd_core.base import bytes_text, capital, change_text, mesh_text
from spmd_core.plan import Plan
from spmd_core.results import Next, Result
from spmd_core.terms import chip_title
from spmd_core.trials import with_stored_answers
from spmd_lab.ui import cards
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import coded, plain

_BUTTON = 60  # characters on a button
_LARGER = "more_chips"


def confirm(result: Result) -> None:
    """A link to the same in several processes, where one process measured it."""
    if (confirmed := confirmation(result)) is not None:
        st.container(key="confirm").page_link(
            cards.page_of(confirmed),
            label=coded(f"{CONFIRM}."),
            icon=":material/repeat:",
            query_params=cards.query(confirmed),
        )


def draw(
    result: Result,
    row: DeltaGenerator | None = None,
    above: DeltaGenerator | None = None,
    than: str = "",
) -> None:
    """What to try next, where there is something, in a row of what can be pressed: what was tried
    to remove a collective, and the sizes that are stored, answer for it. `above` the row is what a
    plan changes, and `than` which of several it is faster.
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
        faster = f"A faster plan{f' than {than}' if than else ''}"
        _changed(result, offered, faster, change, capital(why), above or st.container())


def _changed(
    result: Result, offered: Next, faster: str, change: str, why: str, above: DeltaGenerator
) -> None:
    """Draws what a plan changes beside its time, and whether its gain is beyond doubt."""
    now = next((each.prediction for each in result.strategies.values() if each.prediction), None)
    if not (memory := offered.memory) or now is None:
        is_named = offered.rule == _LARGER  # by its button
        st.caption(coded(f"{why}." if is_named else f"{capital(change)}. {why}."))
        return
    peaks = change_text(bytes_text(now.memory_bytes.peak), bytes_text(memory.peak))
    host = f", {bytes_text(memory.host)} on the host" if memory.host else ""
    what = f"{plain(faster)}: **{coded(_short(change))}.** Memory {plain(f'{peaks}{host}')}."
    above.caption(what, help=coded(f"{why}."))
    sure, of = gain_words(offered, now.predicted_s)
    if sure:
        above.caption(plain(sure), help=plain(of))


def _short(change: str) -> str:
    return re.sub(r" \([^()]*on the host\)", "", change)


def _label(offered: Next, plan: Plan | None, change: str) -> str:
    """Returns what is tried, and all that it gains."""
    near = offered.experiment.plan
    short = _short(capital(change))
    if offered.takes_s and plan and near:
        # of both estimates: the screen that it opens has an estimate alone, this one may be compiled
        tokens = "" if near.tokens == plan.tokens else " for as many tokens"
        return f"Try this plan: {offered.number:.1%} less time{tokens}, estimated"
    if offered.rule == "does_not_fit":
        return f"{short}: fits" if len(short) <= _BUTTON else "Try the nearest plan that fits"
    if offered.rule == _LARGER and near:
        chips = f"{near.topology.chips:,} {chip_title(near.topology.chip.generation)}"
        alike = ": the same tokens a step" * bool(plan and near.tokens == plan.tokens)
        return f"Try {chips} with {mesh_text(near.mesh)}{alike}"
    return f"Try {change}"
