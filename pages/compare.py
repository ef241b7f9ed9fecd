"""The Compare screen: one workload under several strategies."""

import streamlit as st

from ui import inputs, links, shell, state

share = shell.open_page("compare")
draft = state.draft("compare")
what = state.experiment("compare").what
with st.sidebar:
    target = inputs.target_input("compare")
    mesh = inputs.mesh_input("compare")
    dims = inputs.dims_input("compare", what, mesh)
    dtype = inputs.dtype_input("compare", what)
experiment, refusal = state.edit("compare", draft | dims | {"target": target, "mesh": mesh, "dtype": dtype})
if refusal:
    shell.refusal(refusal)
st.title("Compare")
st.json(experiment.to_json())
links.write_query("compare", experiment, state.run("compare"))
links.share_box(share, "compare", experiment)
