"""The Collectives screen: what the links of a machine reach, and its other ceilings."""

import streamlit as st

from spmd_core.terms import DEFINITIONS, ago
from spmd_lab.ui import cards, exports, links, live, shell, state
from spmd_lab.ui.collectives import bandwidths, card, inputs
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain

_STORED = (
    "Kept on History, to compare with. What is shown is stored; the compiler of the target is loaded "
    "first, for the versions that are stored with it."
)

share = shell.open_page("collectives")
head = st.container(horizontal=True, vertical_alignment="center", key="head")
with st.sidebar:
    fields = inputs.fields(inputs.what_input())
experiment, refusal = state.edit("collectives", fields)
run = live.joined("collectives", experiment)
misfit = None if refusal else links.misfit(experiment)

at_work = live.is_at_work(run)
is_stored = experiment.place.is_absent and live.has_result(run)
with head:
    st.title(shell.QUESTIONS["collectives"], width="stretch", anchor=False)
    downloads = st.container(width="content")
    if run is None and not (refusal or misfit):
        card.offer_one(experiment)
    pressed = st.button(
        "Stored on History" if is_stored else live.press_words("collectives", experiment),
        type="secondary" if experiment.place.is_absent or live.has_result(run) else "primary",
        key="measure",
        icon=":material/history:" if experiment.place.is_absent else ":material/network_check:",
        disabled=bool(refusal or misfit) or at_work or is_stored,
        help=_STORED if experiment.place.is_absent else None,
    )
# choices of the answer stay in one place: one that moves up no longer writes itself to the address
above, answer = st.container(key="above"), st.container()
with above:
    if refusal:
        shell.refused("collectives", refusal)
    elif misfit:
        shell.offer_nearest("collectives", misfit)
    elif pressed:
        live.ask("collectives", experiment)
    if not (status := live.follow("collectives", experiment, run, at_work)) and run is None:
        cards.shown_before(state.last_run("collectives"))
        if misfit is None:
            cards.stored(experiment)
with answer:
    if status and (result := lab().result(status.run)):
        exports.menu(downloads, status.run, status.experiment)
        bandwidths.draw(result, ago(status.finished_at or status.submitted_at))
    elif misfit is None and (run is None or (at_work and experiment.place.is_absent)):
        bandwidths.before(experiment)
if experiment.what.has_formula:
    st.expander("What the bandwidths are", icon=":material/help:").markdown(plain(DEFINITIONS))

links.write_query("collectives", experiment, run)
links.share_box(share, "collectives", experiment, run)
