"""The Predict screen: a training step on TPUs that are not attached, by the real compiler and a cost model."""

import streamlit as st

from ui import links, plan_inputs, predict_view, shell

share = shell.open_page("predict")
st.title("Predict")
st.markdown("What the TPU compiler makes of a training step on a pod that you do not have: does it fit, how long, what binds, where the time goes.")
if unreadable := plan_inputs.from_query():
    shell.refusal(f"This link cannot be opened as it is. {unreadable}")
plan, sentence = plan_inputs.fields()
if plan is None:
    shell.refusal(sentence or "")
    st.stop()
plan_inputs.write_query(plan)
predict_view.topology_card(plan)
job = predict_view.queue().find(plan)
if st.button("Predict", type="primary", icon=":material/play_arrow:", disabled=job is not None and job.error is None):
    predict_view.queue().ask(plan)
    st.rerun()
if job is not None and not job.is_over:
    predict_view.watch(plan)
elif job is not None:
    predict_view.outcome(job)
links.share_box(share, "predict")
