"""The Overview screen: what hardware this is, where to start, what runs now, and what ran last."""

import streamlit as st

from spmd_core.base import read_settings
from spmd_core.machine import default_target
from spmd_lab.ui import cards, hardware as hardware_view, links, live, shell, state
from spmd_lab.ui.lab import as_viewer, lab, may_act, room
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import tour
from spmd_lab.ui.predict import nearest
from spmd_lab.ui.shell import WHAT_THIS_IS

share = shell.open_page("overview")
target = default_target()
hardware, active = lab().hardware(), lab().active()
recent = lab().history(over=True, limit=3, searched=False, source="here")

if active or recent:
    st.title("What is running?" if active else "What came out last?")
    live.watch_queue(live.listed_runs())
    for summary in recent:
        cards.run_row(summary)
    if recent:
        st.page_link("pages/history.py", label="All stored runs", icon=":material/history:")
    st.subheader(shell.QUESTIONS["overview"], anchor=False)
else:
    with st.container(horizontal=True, vertical_alignment="center", key="head"):
        st.title(shell.QUESTIONS["overview"], width="content")
        st.caption(WHAT_THIS_IS)
    live.watch_queue(live.listed_runs())
predicted = state.experiment("predict")
opened = predicted != state.first("predict")  # by this viewer: the default is what nobody opened
cards.starts(shell.QUESTIONS, {"predict": lambda: nearest.verdict(predicted)} if opened else {})
tour.offer(is_folded=bool(recent))

with st.container(horizontal=True, vertical_alignment="center", key="machine"):
    place = st.container(width="stretch")
    asked = st.button("Refresh", icon=":material/refresh:", key="ask", type="tertiary")
    pressed = st.button(
        "Release the devices",
        icon=":material/eject:",
        key="release",
        type="tertiary",
        help="Ends the worker process, so that others can use them.",
    )
if pressed and shell.done(as_viewer, lab().release):
    st.toast("The worker releases the devices now, or after the current run.")
waiting = st.container()
fold = st.container(key="about-machine").expander("Devices, host and self-test")
is_asked = asked or (
    lab().devices(target) is None
    and may_act()
    and state.first_look(target)
    and not active
    and not hardware.holders
)
with place:
    shown = hardware_view.draw(hardware, lab().devices(target), target, lab().worker_pid)
    if not active:
        st.caption("Nothing is running or waiting.")
with fold:
    st.caption(plain(room().stored_words))
    details = st.container()
    hardware_view.draw_self_test()
for named in read_settings().cluster_targets:
    hardware_view.draw_cluster(named, shell.query_devices)

links.share_box(share, "overview")

if is_asked:  # last: it takes seconds, and the rest of the screen does not wait for it
    with waiting, st.spinner("Querying the devices, a few seconds…"):
        shell.query_devices(target)
with details:
    hardware_view.draw_details(hardware, lab().devices(target), target, shown)
