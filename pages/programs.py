"""The Programs screen: drop a step that jax.export wrote, and learn what each device holds, what
would communicate, and what would be better.
"""

from functools import partial
from typing import Literal

import streamlit as st

from spmd_core.advice import program_headline
from spmd_core.base import mesh_text
from spmd_core.workloads import programs
from spmd_lab.ui import links, live, mesh_fields, shell, state, style
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.programs import (
    arrays,
    better,
    constrain,
    done,
    door,
    fields,
    fix,
    gate,
    result,
    typed,
    what_if,
)

share = shell.open_page("programs")
experiment = state.experiment("programs")
program = experiment.exported
style.to_top(state.acts("programs"))
if program is None:
    st.title(shell.QUESTIONS["programs"], anchor=False)
    left, right = st.columns([2, 3], gap="large")
    with left:
        door.drop()
        door.guide(is_open=True)
        door.declared()
        typed.draw("programs")
    with right, st.container(border=True, key="example"):
        result.example(door.described_example())
        door.example()
    door.held("")
    links.share_box(share, "programs")
    st.stop()

with st.sidebar:
    changed = fields.program_fields(program)
experiment, refusal = state.edit(
    "programs", changed, result.RUN, constrain.note, links.refused_here
)
program = experiment.exported or program
run = better.run_of(experiment)
at_work = live.is_at_work(run)
misfit = None if refusal else links.misfit(experiment)
own_mesh = dict(program.described.mesh or program.mesh)
before = experiment.vary(specs={}, mesh=own_mesh)
is_changed = not refusal and not misfit and before != experiment
if not refusal and not misfit:
    door.keep_changes(before, experiment)
    what_if.begin("programs", before, experiment)
done.follow_link(program)
wrong = result.judged(experiment, run, before)
with st.container(horizontal=True, vertical_alignment="center", key="head"):
    st.title(shell.QUESTIONS["programs"], width="stretch", anchor=False)
    is_done = door.is_example(program) and wrong.compiled is not None and not wrong.fixes.listed
    kind: Literal["primary", "secondary"] = "primary" if is_done else "secondary"
    with st.popover("Open your step", icon=":material/upload_file:", type=kind):
        door.drop()
        door.held(program.described.program)
        door.guide()
    can_run = not (refusal or misfit or at_work)
    result.run_button(wrong, experiment, can_run)
st.caption(
    f"**{plain(program.described.name)}** for {plain(experiment.target)}, mesh "
    f"{plain(mesh_text(program.mesh, ' '))}.",
    help=f"{plain(program_headline(program))}.",
)
sha256 = program.described.program
if missing := shell.attempt(lambda: programs.check_held(sha256)):
    shell.refusal(missing)
if misfit and misfit.nearest:
    shell.offer_nearest("programs", misfit)
elif refusal or misfit:
    words = refusal or (misfit.sentence if misfit else "")
    offer = partial(mesh_fields.offer_sizes, of_all=misfit is not None)
    shell.refused("programs", words, offer=offer)
status = better.follow(experiment, run, at_work)
result.card(wrong, experiment, can_run)
details = result.answer(status, wrong) if status else None
is_searchable = not refusal and not misfit
is_searched = is_searchable and better.is_begun(experiment) and not better.is_chosen(experiment)
if is_searched:
    result.searched(wrong, experiment)
changes = st.container()
if is_changed:
    with changes:
        gate.code(experiment)
result.findings(wrong)
if details:
    details()
constrain.draw(program)
arrays.tables(wrong.program)
if is_searchable:
    if not is_searched:
        result.searched(wrong, experiment)
    gate.draw(experiment, result.of_file(before), [*wrong.fixes.listed])
links.write_query("programs", experiment, run)
links.share_box(share, "programs", experiment, run)
if is_changed:  # last: the rest does not wait for its seconds
    with changes:
        made = fix.made_of(before, experiment)
        what_if.so_far("programs", before, experiment, made, wrong.titles)
