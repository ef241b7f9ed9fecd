"""The Overview screen: where to start, what runs now and ran last, and what hardware this is."""

from contextlib import nullcontext

import streamlit as st

from spmd_core.base import read_settings
from spmd_core.machine import default_target
from spmd_lab.ui import cards, hardware as hardware_view, links, live, shell, state
from spmd_lab.ui.lab import as_viewer, lab, may_act, room
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import tour

share = shell.open_page("overview")
target = default_target()
hardware, active = lab().hardware(), lab().active()
last = lab().history(over=True, limit=4 * cards.ACROSS, alone=True, source="here")
recent = cards.distinct(run for run in last if run.state != "cancelled")

with st.container(gap=None):
    st.title(shell.QUESTIONS["overview"])
    place = st.container(gap=None)
with st.container(border=True, key="running") if active else nullcontext():
    live.watch_queue(live.listed_runs())
cards.starts(shell.QUESTIONS, tour.begin)
if recent:
    cards.last_runs(recent)

here = st.container(key="here")
with here.container(horizontal=True, vertical_alignment="center", key="machine"):
    fold = st.container(key="about-machine").expander("Devices and self-test")
    asked = st.button("Query the devices", icon=":material/refresh:", key="ask", type="tertiary")
with fold:
    pressed = st.button(
        "Release the devices",
        icon=":material/eject:",
        key="release",
        type="tertiary",
        help="Ends the worker process, so that others can use them.",
    )
if pressed and shell.done(as_viewer, lab().release):
    st.toast("The worker releases the devices now, or after the current run.")
waiting = here.container()
is_asked = asked or (
    lab().devices(target) is None
    and may_act()
    and state.first_look(target)
    and not active
    and not hardware.holders
)
with place:
    shown = hardware_view.draw(hardware, lab().devices(target), target, lab().worker_pid)
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
