"""The Compare screen: one workload under several strategies, the answer first."""

import streamlit as st

from spmd_core.terms import ago
from spmd_lab.ui import (
    cards,
    choices,
    course,
    exports,
    links,
    live,
    mesh_fields,
    next_step,
    shell,
    state,
)
from spmd_lab.ui.compare import (
    changed,
    comparison,
    inputs,
    plan_rows,
    questions,
    small_program,
    study,
    variants,
    view as views,
)
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.notebook import labels, tour
from spmd_lab.ui.programs import what_if

share = shell.open_page("compare")
with st.sidebar:
    shared, editing = st.container(), st.container()
    fields = inputs.compare_fields(shared)
experiment, refusal = state.edit("compare", fields, "run")
with editing:
    variants.draw(experiment)
run = live.joined("compare", experiment)
misfit = None if refusal else links.misfit(experiment)

at_work = live.is_at_work(run)
alike = variants.equal() if experiment.variants else None
with st.container(horizontal=True, vertical_alignment="center", key="head"):
    st.title(plain(small_program.question(experiment)), width="stretch")
    variants.offer(experiment)
    downloads = st.container(width="content")
    # a study of plans is compiled by a button beside its rows
    pressed = not plan_rows.is_of_plans(experiment) and st.button(
        "Run",
        type="primary" if at_work or not live.has_result(run) else "secondary",
        icon=":material/play_arrow:",
        key="run",
        disabled=bool(refusal or misfit or alike) or at_work,
    )
changed.draw(experiment)
if run is None or not tour.guide(run):
    course.hint(experiment, is_answered=run is not None and not at_work)
if refusal:
    shell.refused("compare", refusal, offer=mesh_fields.offer_fit)
elif misfit:
    shell.offer_nearest("compare", misfit)
elif alike:
    variants.refused(alike)
elif pressed:
    choices.forget(choices.TAB)  # what ran is seen first
    live.ask("compare", experiment)

changes = st.container()
if status := live.follow("compare", experiment, run, at_work):
    view = views.view(status.run)
    if view:
        comparison.headline(view, ago(status.finished_at or status.submitted_at))
        comparison.as_example(view.result)
        exports.menu(downloads, status.run, status.experiment)
        if labels.is_foreign(status.run):
            labels.draw(status.run)
        questions.draw(view)
        next_step.draw(view.result)
        if not labels.is_foreign(status.run):
            labels.draw(status.run)
    else:
        comparison.before(experiment, can_run=not refusal)
elif at_work:
    comparison.at_work(experiment)
elif alike:
    study.before(experiment, is_stored=True)  # there is nothing to run
elif run is None:
    cards.shown_before(state.last_run("compare"))
    if misfit is None and plan_rows.is_of_plans(experiment):
        plan_rows.show(experiment)
    elif misfit is None and not study.last_answer(experiment):
        comparison.before(experiment, can_run=not refusal)

links.write_query("compare", experiment, run)
links.share_box(share, "compare", experiment, run)
if run is None and not (misfit or refusal or alike):  # last: the rest does not wait for it
    with changes:
        what_if.edited("compare", experiment)
