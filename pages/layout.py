"""The Layout screen: a mesh, an array and a spec, and at once who holds what; then the same on real
devices.
"""

import streamlit as st

from spmd_core.base import RequestError, mesh_text
from spmd_core.experiment import layout_of
from spmd_core.script import array_text, program_text
from spmd_lab.ui import cards, course, forms, inputs, links, live, mesh_fields, shell, state
from spmd_lab.ui.arrows.words import domains_words
from spmd_lab.ui.lab import find, lab
from spmd_lab.ui.layout import moves, paste, picture, placing, product, shape
from spmd_lab.ui.layout.domains import domains_of, hosts_of, with_hosts
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import labels, tour
from spmd_lab.ui.shell import not_placed_words
from spmd_lab.ui.tables import sheet

share = shell.open_page("layout")
with st.sidebar:
    is_product = product.choose()
if is_product:
    product.screen(share)
    st.stop()
with st.sidebar:
    first, draft = st.container(), state.draft("layout")
    with forms.fold("layout", f"Mesh: {plain(mesh_text(draft['mesh'], ' '))}", "fields:mesh"):
        mesh = mesh_fields.mesh_input("layout")
    with first:
        fields = shape.shape_input("layout", mesh)
    with st.expander(
        f"Target: {plain(draft['target'])}, {plain(draft['dtype'])}", key="fields:target"
    ):
        dtype = inputs.dtype_input("layout", state.experiment("layout").what)
        memory = inputs.memory_input("layout", ("array",))
        target = inputs.target_input("layout")
    paste.box("layout", {"array": tuple(fields["dims"])})
experiment, refusal = state.edit(
    "layout",
    draft | fields | {"mesh": mesh, "dtype": dtype, "memory": memory, "target": target},
    "place",
)
placed = with_hosts(layout_of(experiment), experiment, lab().devices(experiment.target))
run = live.joined("layout", experiment)
misfit = None if refusal else links.misfit(experiment) or links.too_large(experiment)

at_work = live.is_at_work(run)
with st.container(horizontal=True, vertical_alignment="center", key="head"):
    st.title(shell.QUESTIONS["layout"], width="stretch", anchor=False)
    before = find(run) if run else None
    is_placed = before is not None and before.state == "succeeded"
    pressed = st.button(
        "Place again" if is_placed else "Place it on devices",
        type="secondary" if is_placed else "primary",
        icon=":material/memory:",
        key="place",
        disabled=bool(refusal or misfit) or at_work,
    )
if refusal:
    shell.refused("layout", refusal, offer=mesh_fields.offer_fit)
elif misfit:
    st.caption(plain(not_placed_words(experiment.target, misfit.sentence)))
elif pressed:
    live.ask("layout", experiment)

if run is None or not tour.guide(run):
    course.hint(experiment)
if paste.is_unread("layout"):
    paste.no_picture()
    st.stop()
card = st.container(key="answer").container(key="picture-and-numbers")
beside, drawn = card.columns([2, 5], gap="medium")
with drawn:
    domains = domains_of(experiment) or hosts_of(placed)
    picture.draw(placed, experiment.dtype, "picture", domains, shape.element(placed))
    if notes := picture.notes(placed):
        st.markdown(notes)
    if apart := domains_words(experiment):
        st.markdown(plain(apart))
with beside.container(key="layout-numbers"):
    placing.headline(placed, experiment.dtype, experiment.memory_kind("array"))
    placing.numbers(placed, experiment, is_placed, refusal is None)
with beside.container(key="layout-asked"):
    if status := live.follow("layout", experiment, run, at_work):
        if refusal is None:  # else the picture is of other fields
            placing.outcome(placed, status)
    elif run is None and not cards.stored(experiment) and not (misfit or refusal):
        st.caption(
            "Not placed on devices yet. *Place it on devices* puts the real array there and compares."
        )
    shape.element_field(placed)
try:
    st.code(array_text(experiment), language="python", wrap_lines=True)
except RequestError as error:  # a topology that does not exist has no devices to write down
    st.caption(plain(str(error)))

moves.reshard_view(experiment, placed)
if status:
    labels.draw(status.run)
with st.expander(
    "The script: plain JAX that runs as it stands", key="script", on_change="rerun"
) as script:
    if script.open:
        try:
            st.code(program_text(experiment, "place"), language="python")
        except RequestError as error:
            st.caption(plain(str(error)))
with st.expander("Every device as a table", key="table", on_change="rerun") as numbers:
    if numbers.open:
        st.dataframe(sheet(picture.table(placed, experiment.dtype)), hide_index=True)
        if placed.device_count > picture.TABLE_ROWS:
            st.caption(f"The first {picture.TABLE_ROWS:,} of {placed.device_count:,} devices.")

links.write_query("layout", experiment, run)
links.share_box(share, "layout", experiment, run)
