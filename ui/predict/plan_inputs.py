"""The fields of the Predict screen, as the JSON form of an experiment."""

import math

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import (
    ACTIVATIONS,
    GATES,
    NAMES,
    PRESETS,
    TABLES,
    get_model,
    get_workload,
    named_axes,
)
from spmd_core.words import sizes_words
from ui import inputs, state
from ui.markdown import plain
from ui.predict import config, drafts
from ui.predict.topology_fields import mesh_fields, on_topology, redraw
from ui.state import Form, Mesh

SCREEN = "predict"
_MODELS = (
    *PRESETS,
    *(f"{name}:{1 << power}" for name in ("scaled", "scaled-2023") for power in range(9)),
)
_REMAT = {
    "none": "none: save everything",
    "minimal": "minimal: save projections",
    "full": "full: save only block inputs",
}
_MAX_FLAGS = 600


def predict_fields() -> Form:
    """Draw every field of the screen; their values. A change that changes other fields draws
    the screen again.
    """
    draft = state.draft(SCREEN)
    name = inputs.choice_input(
        SCREEN, "workload", "Predict", drafts.workloads(), draft["workload"], words=drafts.title_of
    )
    if name != draft["workload"]:
        redraw(SCREEN, state.recall(SCREEN, drafts.switched(draft, name)))
    if named_axes(name):
        return plan_fields(SCREEN)
    draft = on_topology(SCREEN, draft)
    mesh = mesh_fields(SCREEN, draft)
    return draft | {"mesh": mesh} | _workload_fields(SCREEN, draft, mesh)


def plan_fields(screen: str) -> Form:
    """Draw the fields of a training step; their values, as above."""
    draft = on_topology(screen, state.draft(screen))
    mesh = mesh_fields(screen, draft)
    devices = math.prod(size or 0 for _, size in mesh)
    return draft | {"mesh": mesh} | _model_fields(screen, draft, devices)


def _model_fields(screen: str, draft: Form, devices: int) -> Form:
    """Model, batch, sequence, remat, and what is behind *More*."""
    options, dims = dict(draft["options"]), draft["dims"]
    models = tuple(dict.fromkeys((*_MODELS, options.get("model", ""))))
    model = inputs.choice_input(
        screen, "model", "Model", models, options.get("model", _MODELS[0]), words=_model_words
    )
    parameters = st.empty()
    config.box(screen)
    batch, sequence = _batch(screen, draft, devices)
    remat = inputs.choice_input(
        screen,
        "remat",
        "Rematerialization",
        tuple(_REMAT),
        options.get("remat", "full"),
        "What the backward pass computes again instead of saving it.",
        _REMAT.__getitem__,
    )
    named = any(options.get(name) for name in _SAVED)  # which the field above does not show
    with st.expander("More of the model", expanded=named):
        more = _more(screen, options, dims, model)
        st.caption("Sizes of the model, where they are to differ from the preset's")
        sizes = inputs.size_inputs(
            model, dims, lambda name, now: state.seed(state.key(screen, name), now)
        )
    parameters.caption(plain(_parameters(model, sizes, more)))
    not_default = {
        name: value
        for name, value in more.items()
        if value not in ("", False, 0) and (name, value) not in _DEFAULTS
    }
    order = {"device_order": _device_order(screen, options)}
    return {
        "dims": {"batch": batch, "sequence": sequence} | sizes,
        "options": order | {"remat": remat, "model": model} | not_default,
    }


def _batch(screen: str, draft: Form, devices: int) -> tuple[int | float, int]:
    """Sequences in a step over `devices`, and tokens of each; 0 where a field is empty."""
    dims = draft["dims"]
    left, right = st.columns(2, gap="small")
    now = dims["batch"] / max(1, math.prod(size or 0 for _, size in draft["mesh"]))
    per_device = left.number_input(
        "Sequences per device",
        value=None,
        step=1.0,
        format="%g",
        key=state.seed(state.key(screen, "each"), float(now)),
        help="Of a step. A device is a chip; on v2, v3 and TPU7x half of one.",
    )
    sequence = right.number_input(
        "Tokens in each",
        value=None,
        step=1024,
        key=state.seed(state.key(screen, "sequence"), dims["sequence"]),
    )
    return drafts.as_integer((per_device or 0) * devices), sequence or 0


def _parameters(model: str, sizes: dict[str, int], more: Form) -> str:
    """Parameters of the model with sizes and choices of its own; "" where they make none."""
    given = {"activation": more["activation"] or None}
    given |= {"gated": GATES.get(more["gate"]), "tied": TABLES.get(more["tables"])}
    own = {name: value for name, value in given.items() if value is not None}
    try:
        return sizes_words(get_model(model).varied(**sizes, **own))
    except RequestError:
        return ""


_DEFAULTS = (
    ("state_dtype", "float32"),
    ("parameter_dtype", "float32"),
    ("attention_backward", "published"),
)


_SAVED = {
    "save": ("Saved on the device", "Saved as well, by name."),
    "offload": ("Offloaded to the host", "Moved to host memory in the forward pass, and back."),
}
_FUSED = {
    "fused_qkv": "One matmul for query, key and value",
    "fused_mlp": "One matmul for gate and up",
}
_BLOCKS = {
    "attention_blocks": ("Block of queries", "published"),
    "keys_block": ("Block of keys", "as queries"),
    "compute_block": ("Keys per matmul", "all"),
}  # the attention kernel's
_FACTORS = {
    "capacity_factor": ("Capacity factor", "1.25"),
    "imbalance": ("Imbalance, dropless", "1"),
}  # of experts
_CHOICES = {
    "activation": ("Activation", ("", *ACTIVATIONS)),
    "gate": ("Mlp", tuple(GATES)),
    "tables": ("Vocabulary tables", tuple(TABLES)),
}
_BACKWARD = {
    "published": "as published for the chip",
    "fused": "one kernel",
    "split": "two kernels",
}


def _model_words(name: str) -> str:
    try:
        size = get_model(name)
    except RequestError:
        return name
    of_size = name.startswith("scaled") or size.title != name
    return f"{size.title}, {size.parameters / 1e9:,.1f}B" if of_size else name


def _more(screen: str, options: Form, dims: Form, model: str) -> Form:
    """The rarer options."""
    chosen = _saved(screen, options)
    left, right = st.columns(2, gap="small")
    for place, name, label in (
        (left, "state_dtype", "Optimizer state"),
        (right, "parameter_dtype", "Parameters"),
    ):
        with place:
            chosen[name] = inputs.choice_input(
                screen, name, label, ("float32", "bfloat16"), options.get(name, "float32")
            )
    for name, label in _FUSED.items():
        chosen[name] = inputs.toggle_input(screen, name, label, bool(options.get(name)))
    if _has_experts(model, dims, options):
        chosen |= _experts(screen, options)
    chosen["second_moment_dtype"] = inputs.choice_input(
        screen,
        "second_moment_dtype",
        "Second moment",
        ("", "float32", "bfloat16"),
        options.get("second_moment_dtype", ""),
        words=lambda word: word or "as the optimizer state",
    )
    chosen |= _blocks(screen, options) | {"attention_backward": _backward(screen, options)}
    chosen |= _own_choices(screen, options)
    flags = st.text_input(
        "Compiler flags",
        key=state.seed(state.key(screen, "flags"), str(options.get("compiler_flags", ""))),
        max_chars=_MAX_FLAGS,
        placeholder="xla_…=true",
        help="Added to those of the published runs.",
    )
    return chosen | {"compiler_flags": " ".join(flags.split())}


def _saved(screen: str, options: Form) -> Form:
    """Names of activations that are saved, on the device or on the host."""
    chosen: Form = {}
    for name, (label, text) in _SAVED.items():
        now = [word for word in str(options.get(name, "")).split(",") if word]
        names = st.multiselect(
            label,
            list(dict.fromkeys([*NAMES, *now])),
            key=state.seed(state.key(screen, name), now),
            help=text,
            placeholder="nothing",
        )
        chosen[name] = ",".join(names)
    return chosen


def _has_experts(model: str, dims: Form, options: Form) -> bool:
    """Whether a model has experts, or a link has set what they do."""
    if dims.get("experts", 1) > 1 or {"dropless", *_FACTORS} & options.keys():
        return True
    try:
        return get_model(model).experts > 1
    except RequestError:
        return False


def _experts(screen: str, options: Form) -> Form:
    """What experts do with tokens: drop those past a capacity, or take all."""
    key = state.seed(state.key(screen, "dropless"), bool(options.get("dropless")))
    chosen: Form = {
        "dropless": st.toggle("Experts drop no token", key=key, help="By a grouped matmul.")
    }
    places = st.columns(2, gap="small")
    for place, (name, (label, usual)) in zip(places, _FACTORS.items(), strict=True):
        value = place.number_input(
            label,
            value=None,
            step=0.25,
            format="%g",
            placeholder=usual,
            key=state.seed(state.key(screen, name), drafts.factor(options.get(name))),
        )
        chosen[name] = "" if value is None else f"{value:g}"
    return chosen


def _blocks(screen: str, options: Form) -> dict[str, int]:
    """Blocks of the attention kernel: of queries, of keys, of keys per matmul; 0 is the usual one."""
    chosen: dict[str, int] = {}
    for name, (label, usual) in _BLOCKS.items():
        key = state.seed(state.key(screen, name), options.get(name) or None)
        block = st.number_input(plain(label), value=None, step=128, placeholder=usual, key=key)
        chosen[name] = block or 0
    return chosen


def _backward(screen: str, options: Form) -> str:
    """Kernels of attention's backward pass."""
    return inputs.choice_input(
        screen,
        "attention_backward",
        "Attention backward",
        tuple(_BACKWARD),
        options.get("attention_backward", "published"),
        words=lambda word: _BACKWARD.get(word, word),
    )


def _own_choices(screen: str, options: Form) -> dict[str, str]:
    """What a model has of its own beside sizes: activation, gate, vocabulary tables."""
    return {
        name: inputs.choice_input(
            screen,
            name,
            label,
            words,
            options.get(name, ""),
            words=lambda word: word or "as the model",
        )
        for name, (label, words) in _CHOICES.items()
    }


def _workload_fields(screen: str, draft: Form, mesh: Mesh) -> Form:
    """Dims, sharding, dtype, strategies, and arrays of another workload than a model."""
    options = dict(draft["options"])
    what = get_workload(draft["workload"]).chosen(options)
    fields = inputs.dims_input(screen, what, mesh)
    fields["dtype"] = inputs.dtype_input(screen, what)
    fields["strategies"] = inputs.strategies_input(
        screen,
        f"strategies.{what.name}",
        [name for name in drafts.OVER_DEVICES if name in what.strategies],
        draft["strategies"],
    )
    with st.expander("Arrays: spec of their own"):
        overrides = {}
        for array in what.arrays:
            st.markdown(
                f"**{plain(array.name)}** ({plain(', '.join(array.present(fields['dims'])))})"
            )
            spec = inputs.spec_input(screen, array.name, array.present(fields["dims"]), mesh)
            if spec is not None:
                overrides[array.name] = spec
    return fields | {
        "overrides": overrides,
        "options": options | {"device_order": _device_order(screen, options)},
    }


def _device_order(screen: str, options: Form) -> str:
    return inputs.choice_input(
        screen,
        "device_order",
        "Device order",
        ("topology", "plain"),
        options.get("device_order", "topology"),
        "topology: axes are where jax's mesh_utils puts them; plain: devices as they are listed.",
    )
