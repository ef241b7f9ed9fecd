"""The fields of a plan: topology, mesh, model, batch, remat and flags."""

from typing import Any

import streamlit as st

from spmd_core import link
from spmd_core.errors import RequestError
from spmd_core.models import PRESETS
from spmd_core.plan import NAMES, Plan, parse_mesh, parse_plan
from spmd_core.topologies import CHIPS, legal_shapes
from ui import state

_MODELS = tuple(f"scaled:{1 << power}" for power in range(11)) + tuple(PRESETS)
_REMAT = ("none", "minimal", "full")


def from_query() -> str | None:
    """Take the address bar's plan into the fields, once; the sentence of its refusal, or None."""
    code = st.query_params.get("plan", "")
    if not code or state.link("predict") == (code, ""):
        return None
    state.set_link("predict", (code, ""))
    try:
        state.set_plan_draft(parse_plan(link.payload(code)).to_json())
    except RequestError as error:
        return str(error)
    return None


def write_query(plan: Plan) -> None:
    """Make the address bar say what the fields say."""
    code = link.pack(plan.model_dump(mode="json", exclude_defaults=True))
    state.set_link("predict", (code, ""))
    if st.query_params.get("plan") != code:
        st.query_params["plan"] = code


def fields() -> tuple[Plan | None, str | None]:
    """Draw the fields: the plan that they describe, or the sentence that says why they describe none."""
    draft = state.plan_draft()
    given = _where(draft) | _what(draft)
    try:
        given["mesh"] = parse_mesh(given.pop("mesh_text"))
        state.set_plan_draft(given)
        return parse_plan(given), None
    except RequestError as error:
        return None, str(error)


def _where(draft: dict[str, Any]) -> dict[str, Any]:
    generation, _, rest = str(draft["target"]).removeprefix("tpu:").partition(":")
    shape, _, slices = rest.partition("*")
    columns = st.columns([2, 2, 1, 3])
    known = list(CHIPS)
    chosen = columns[0].selectbox("Generation", known, index=known.index(generation) if generation in known else 3,
                                  format_func=lambda name: CHIPS[name].title, help="What the TPU compiler knows, without any TPU attached")
    shapes = ["x".join(map(str, legal)) for legal in legal_shapes(chosen)]
    size = columns[1].selectbox("Topology", shapes, index=shapes.index(shape) if shape in shapes else min(3, len(shapes) - 1),
                                help="Chips along each physical axis of a slice")
    count = columns[2].number_input("Slices", 1, 256, int(slices or 1), help="Joined by the data centre network")
    written = ",".join(f"{name}={length}" for name, length in draft["mesh"])
    mesh = columns[3].text_input("Mesh", written, help="Axes and sizes, slices outermost: data=2,fsdp=16")
    return {"target": f"tpu:{chosen}:{size}" + (f"*{count}" if count > 1 else ""), "mesh_text": mesh}


def _what(draft: dict[str, Any]) -> dict[str, Any]:
    columns = st.columns([2, 2, 2, 2])
    models = list(_MODELS) if draft["model"] in _MODELS else [draft["model"], *_MODELS]
    model = columns[0].selectbox("Model", models, index=models.index(draft["model"]))
    batch = columns[1].number_input("Sequences per device", 0.125, 4096.0, float(draft["batch_per_device"]), step=1.0)
    sequence = columns[2].number_input("Tokens of a sequence", 128, 2**20, int(draft["sequence"]), step=128)
    remat = columns[3].selectbox("Rematerialization", _REMAT, index=_REMAT.index(draft["remat"]),
                                 help="What the backward pass finds stored: all, projections, nothing")
    given = {"model": model, "batch_per_device": batch, "sequence": int(sequence), "remat": remat}
    with st.expander("Memory, attention and compiler flags"):
        left, right = st.columns(2)
        given["save"] = tuple(left.multiselect("Saved on the device", NAMES, list(draft.get("save", ()))))
        given["offload"] = tuple(right.multiselect("Offloaded to the host", NAMES, list(draft.get("offload", ()))))
        given["state_dtype"] = left.selectbox("Optimizer state", ("float32", "bfloat16"), index=int(draft.get("state_dtype") == "bfloat16"))
        flags = right.text_input("Compiler flags", " ".join(draft.get("compiler_flags", ())), help="Added to those of the published runs: xla_…=true")
        given["compiler_flags"] = tuple(flags.split())
        given["fused_qkv"] = left.checkbox("One matmul for query, key and value", bool(draft.get("fused_qkv")))
        given["fused_mlp"] = right.checkbox("One matmul for gate and up", bool(draft.get("fused_mlp")))
    return given
