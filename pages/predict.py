"""The Predict screen: what the TPU compiler makes of a program on TPUs that are not attached; the
answer first.
"""

import streamlit as st

from spmd_core.machine import compiler_refusal
from spmd_core.terms import ago
from spmd_lab.ui import choices, course, exports, links, live, price, remedies, shell, state
from spmd_lab.ui.lab import find, lab
from spmd_lab.ui.markdown import as_sentence, coded, plain
from spmd_lab.ui.notebook import labels, tour
from spmd_lab.ui.predict import (
    keep,
    plan_inputs,
    prediction,
    question,
    run_answer,
    sweep,
    variant,
)
from spmd_lab.ui.programs import what_if
from spmd_lab.ui.serving import served

share = shell.open_page("predict")
keep.MEASURED.from_query()
question.from_query()
price.from_query()
if st.query_params.get(choices.SHOWN) == "serving":
    served.show(share)
    st.stop()
head = st.container(horizontal=True, vertical_alignment="center", key="head")
head.title(sweep.question_shown(), width="stretch")
finding = st.container(key="finding")
with st.sidebar:
    sweep.choose()
    of_sweep = st.container()
    fields = plan_inputs.predict_fields(not sweep.scales(), finding)
experiment, refusal = state.edit("predict", fields, press="predict")
refusal = refusal or question.number_refusal() or price.refusal()
variant.note(experiment)
one = not sweep.is_open()
run = live.joined("predict", experiment) if one else None
can_look = one and run is None and refusal is None and state.notice("predict") is None
if can_look and (run := lab().latest(experiment)) is not None:  # below a bad link: of what?
    state.set_run("predict", run)
status = find(run) if run else None
result = prediction.result_of(status, experiment)
misfit = prediction.misfit(experiment)

at_work, file = live.is_at_work(run), None
missing = compiler_refusal(experiment.target)
swept = not (one or misfit)
with head:
    downloads = st.container(width="content")
    label, kind = ("Recompile", "secondary") if result else ("Compile", "primary")
    pressed = not swept and st.button(
        label,
        type=kind,
        icon=":material/play_arrow:",
        key="predict",
        disabled=bool(refusal or misfit or missing) or at_work,
        help="Compiles it for chips that need not be here. Nothing is executed.",
    )
notices = st.container(key="notices")  # what comes and goes: the answer below keeps its place
if not experiment.plan:
    what = f"{experiment.what.title} on {experiment.target.removeprefix('tpu:')}"
    st.caption(plain(f"{what}, by its compiler. Nothing is executed."))
if missing and one:
    rest = " Estimates need no compiler." if experiment.plan else ""
    st.caption(coded(as_sentence(missing) + rest))

with notices:
    if run is None or not tour.guide(run):
        course.hint(experiment)
    if refusal:
        shell.refused("predict", refusal)
    elif misfit:
        shell.offer_nearest("predict", misfit)
    elif pressed:
        live.ask("predict", experiment)

    if one:  # a sweep follows its own runs
        variant.changed(experiment)
        live.follow("predict", experiment, run, at_work)
changes = st.container()
if swept:
    sweep.show(experiment, of_sweep, downloads)
elif status and result:
    exports.menu(downloads, status.run, status.experiment)
    when = ago(status.finished_at or status.submitted_at)
    rows = prediction.headline(result, when)
    chosen = prediction.choose(result)
    if chosen is not None:
        prediction.numbers(result, chosen, when, *rows)
        prediction.details(result, chosen)
        if experiment.plan:
            run_answer.others(experiment.plan, result.strategies[chosen].prediction)
        remedies.draw(result, [chosen])
    labels.draw(status.run)
    variant.draw(experiment)
elif not misfit:
    file = prediction.before(experiment)

links.write_query("predict", experiment, run)
links.share_box(share, "predict", experiment, run, file)
if not (swept or result or misfit or refusal):  # last: the rest does not wait for it
    with changes:
        what_if.edited("predict", experiment)
