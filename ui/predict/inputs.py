"""The fields of the Predict screen, as the JSON form of an experiment."""

import math
from typing import Any

import streamlit as st

from spmd_core.base import RequestError, count_text, mesh_text
from spmd_core.experiment import (
    ACTIVATIONS,
    AXES,
    GATES,
    NAMES,
    PRESETS,
    TABLES,
    VARIABLE,
    get_model,
    get_workload,
    named_axes,
)
from spmd_core.machine import (
    CHIPS,
    get_topology,
    legal_shapes,
    nearest_of_chips,
    shape_text,
    tpu_target,
)
from ui import inputs, state
from ui import mesh_fields as axis_fields
from ui.markdown import plain
from ui.predict import drafts

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
_CHIPS = 16  # of a topology chosen in the place of a target that is none


def predict_fields() -> dict[str, Any]:
    """Draw every field of the screen; what they say now. A change that changes other fields draws
    the screen anew.
    """
    draft = state.draft(SCREEN)
    name = inputs.choice_input(
        SCREEN, "workload", "Predict", drafts.workloads(), draft["workload"], words=drafts.title_of
    )
    if name != draft["workload"]:
        _redraw(SCREEN, state.recall(SCREEN, drafts.switched(draft, name)))
    if named_axes(name):
        return plan_fields(SCREEN)
    draft = _on_topology(SCREEN, draft)
    mesh = mesh_fields(SCREEN, draft)
    return draft | {"mesh": mesh} | _workload_fields(SCREEN, draft, mesh)


def plan_fields(screen: str) -> dict[str, Any]:
    """Draw the fields of a training step; what they say now, as above."""
    draft = _on_topology(screen, state.draft(screen))
    mesh = mesh_fields(screen, draft)
    devices = math.prod(size or 0 for _, size in mesh)
    return draft | {"mesh": mesh} | _model_fields(screen, draft, devices)


def _on_topology(screen: str, draft: dict[str, Any]) -> dict[str, Any]:
    """The draft, once the fields of its topology say what it says."""
    target = _topology(screen, draft["target"])
    if target != draft["target"]:
        _redraw(screen, drafts.moved(draft, target))
    return draft


def _redraw(screen: str, draft: dict[str, Any]) -> None:
    state.remember(screen, state.draft(screen))
    state.replace_draft(screen, state.parse_or_keep(draft))
    st.rerun()


def _topology(screen: str, target: str) -> str:
    """Generation, shape and slices; what a link brought that is none of them stays until another is
    chosen.
    """
    now = drafts.topology_target(target)
    named = target if now is None or now.generation is None else now.generation
    generations = [*([] if named in CHIPS else [named]), *CHIPS]
    left, middle, right = st.columns([5, 6, 4], gap="small")
    with left:
        chosen = st.selectbox(
            "TPU",
            generations,
            key=state.seed(state.key(screen, "generation"), named),
            format_func=lambda name: "7x" if name == "tpu7x" else name,
            help="Every generation that the TPU compiler knows. None has to be attached.",
        )
    if chosen not in CHIPS:
        return target
    if now is None or named != chosen:
        chips = (
            math.prod(now.topology) * now.slices if now is not None and named in CHIPS else _CHIPS
        )
        return nearest_of_chips(chosen, chips).target
    legal = legal_shapes(chosen)
    shapes = {
        shape_text(shape): shape
        for shape in (legal if now.topology in legal else (now.topology, *legal))
    }
    with middle:
        shape = st.selectbox(
            "Shape",
            list(shapes),
            key=state.seed(state.key(screen, f"shape.{chosen}"), shape_text(now.topology)),
            help="Chips along each physical axis of a slice: every shape that can be had.",
        )
    with right:
        slices = st.number_input(
            "Slices",
            1,
            max(256, now.slices),
            key=state.seed(state.key(screen, f"slices.{chosen}"), now.slices),
            help="Slices of this shape, joined by DCN, the data center network.",
        )
    return tpu_target(chosen, shapes[shape], int(slices))


def mesh_fields(screen: str, draft: dict[str, Any]) -> list[list[Any]]:
    """Axis names and sizes, presets of one click, and whether they fill the topology."""
    try:
        topology = get_topology(draft["target"])
    except RequestError:
        topology = None
    named = named_axes(draft["workload"])
    mesh = _model_mesh(screen, draft) if named else axis_fields.mesh_input(screen)
    if topology is None:
        return mesh
    devices = math.prod(int(size or 0) for _, size in mesh)
    words = " × ".join(f"{size}" for _, size in mesh)
    if devices == topology.devices:
        st.caption(
            f"{plain(words)}{f' = {devices:,}' if len(mesh) > 1 else ''}: fills {plain(topology.name)}."
        )
    else:
        st.caption(
            f":red[{plain(words)}{f' = {devices:,}' if len(mesh) > 1 else ''}, but {plain(topology.name)} has {count_text(topology.devices)} devices.]"
        )
        full = drafts.filled(draft | {"mesh": mesh}, topology)
        words = f"Use {mesh_text((name, size) for name, size in full)}"
        if st.button(plain(words), key=f"{screen}:fill", icon=":material/auto_fix_high:"):
            _redraw(
                screen,
                drafts.with_mesh(draft, full, math.prod(size or 0 for _, size in draft["mesh"])),
            )
    with st.container(horizontal=True, gap="small"):
        for words, preset in drafts.presets(draft["workload"], topology, mesh).items():
            if st.button(
                plain(words),
                key=f"{screen}:preset:{words}",
                type="tertiary",
                icon=":material/grid_on:",
                disabled=preset == mesh,
            ):
                _redraw(
                    screen,
                    drafts.with_mesh(
                        draft, preset, math.prod(size or 0 for _, size in draft["mesh"])
                    ),
                )
    return mesh


def _model_mesh(screen: str, draft: dict[str, Any]) -> list[list[Any]]:
    """Rows of an axis that a decoder is sharded over, and its size."""
    old = [list(axis) for axis in draft["mesh"]]
    count = st.segmented_control(
        "Mesh axes",
        range(1, max(4, len(old)) + 1),
        key=state.seed(state.key(screen, "mesh.count"), len(old)),
        required=True,
        help="Slices outermost. What each axis shards is under *Sharding*.",
    ) or len(old)
    mesh: list[list[Any]] = []
    for position in range(count):
        name, size = axis_fields.axis_at(
            screen, position, old, mesh, ("fsdp", "tensor", "data", *AXES)
        )
        names = list(AXES) if name in AXES else [name, *AXES]
        left, right = st.columns(2, gap="small")
        labels: Any = "visible" if position == 0 else "collapsed"  # the first stand for all
        chosen = left.selectbox(
            f"Axis {position + 1} name",
            names,
            key=state.seed(state.key(screen, f"axis.{position}"), name),
            label_visibility=labels,
        )
        length = right.number_input(
            f"Axis {position + 1} size",
            value=None,
            step=1,
            key=state.seed(state.key(screen, f"size.{position}"), size),
            label_visibility=labels,
        )
        mesh.append([chosen, length or 0])
    if len(mesh) < len(old):
        axis_fields.remove_axes(screen, old, len(mesh))
    return mesh


def _model_fields(screen: str, draft: dict[str, Any], devices: int) -> dict[str, Any]:
    """Model, batch, sequence, remat, and what is behind *More*."""
    options, dims = dict(draft["options"]), draft["dims"]
    models = tuple(dict.fromkeys((*_MODELS, options.get("model", ""))))
    chosen = {
        "model": inputs.choice_input(
            screen, "model", "Model", models, options.get("model", _MODELS[0]), words=_model_words
        )
    }
    left, right = st.columns(2, gap="small")
    with left:
        before = dims["batch"] / max(1, math.prod(size or 0 for _, size in draft["mesh"]))
        each = st.number_input(
            "Sequences per device",
            value=None,
            step=1.0,
            format="%g",
            key=state.seed(state.key(screen, "each"), float(before)),
            help="Of a step. A device is a chip; on v2, v3 and TPU7x half of one.",
        )
    with right:
        length = st.number_input(
            "Tokens in each",
            value=None,
            step=1024,
            key=state.seed(state.key(screen, "sequence"), dims["sequence"]),
        )
    batch = drafts.whole((each or 0) * devices)
    chosen["remat"] = inputs.choice_input(
        screen,
        "remat",
        "Rematerialization",
        tuple(_REMAT),
        options.get("remat", "full"),
        "What the backward pass computes again instead of saving it.",
        _REMAT.__getitem__,
    )
    with st.expander("More of the model"):
        more, sizes = _more(screen, options, dims, chosen["model"])
    kept = {
        name: value
        for name, value in more.items()
        if value not in ("", False, 0) and (name, value) not in _DEFAULTS
    }
    order = {"device_order": _device_order(screen, options)}
    return {
        "dims": {"batch": batch, "sequence": length or 0} | sizes,
        "options": order | {"remat": chosen["remat"], "model": chosen["model"]} | kept,
    }


_DEFAULTS = (("state_dtype", "float32"), ("parameter_dtype", "float32"))


_BLOCKS = {
    "attention_blocks": ("Block of queries", "published"),
    "keys_block": ("Block of keys", "as queries"),
    "compute_block": ("Keys per matmul", "all"),
}  # the attention kernel's
_CHOICES = {
    "activation": ("Activation", ("", *ACTIVATIONS)),
    "gate": ("Mlp", tuple(GATES)),
    "tables": ("Vocabulary tables", tuple(TABLES)),
}


def _model_words(name: str) -> str:
    try:
        size = get_model(name)
    except RequestError:
        return name
    return f"{name}, {size.parameters / 1e9:,.1f}B" if name.startswith("scaled") else name


def _more(
    screen: str, options: dict[str, Any], dims: dict[str, Any], model: str
) -> tuple[dict[str, Any], dict[str, int]]:
    """The rarer options, and sizes of the model that differ from the preset's."""
    found: dict[str, Any] = {}
    for name, label, words in (
        ("save", "Saved on the device", "Saved as well, by name."),
        ("offload", "Offloaded to the host", "Moved to host memory in the forward pass, and back."),
    ):
        now = [word for word in str(options.get(name, "")).split(",") if word]
        key = state.seed(state.key(screen, name), now)
        found[name] = ",".join(
            st.multiselect(
                label,
                list(dict.fromkeys([*NAMES, *now])),
                key=key,
                help=words,
                placeholder="nothing",
            )
        )
    left, right = st.columns(2, gap="small")
    for place, name, label in (
        (left, "state_dtype", "Optimizer state"),
        (right, "parameter_dtype", "Parameters"),
    ):
        with place:
            found[name] = inputs.choice_input(
                screen, name, label, ("float32", "bfloat16"), options.get(name, "float32")
            )
    for name, label in (
        ("fused_qkv", "One matmul for query, key and value"),
        ("fused_mlp", "One matmul for gate and up"),
    ):
        found[name] = st.toggle(
            label, key=state.seed(state.key(screen, name), bool(options.get(name)))
        )
    second = inputs.choice_input(
        screen,
        "second_moment_dtype",
        "Second moment",
        ("", "float32", "bfloat16"),
        options.get("second_moment_dtype", ""),
        words=lambda word: word or "as the optimizer state",
    )
    found |= (
        _blocks(screen, options) | {"second_moment_dtype": second} | _own_choices(screen, options)
    )
    flags = st.text_input(
        "Compiler flags",
        key=state.seed(state.key(screen, "flags"), str(options.get("compiler_flags", ""))),
        max_chars=_MAX_FLAGS,
        placeholder="xla_…=true",
        help="Added to those of the published runs.",
    )
    found["compiler_flags"] = " ".join(flags.split())
    st.caption("Sizes of the model, where they are to differ from the preset's")
    return found, _sizes(screen, dims, model)


def _blocks(screen: str, options: dict[str, Any]) -> dict[str, int]:
    """Blocks of the attention kernel: of queries, of keys, of keys per matmul; 0 is the usual one."""
    found: dict[str, int] = {}
    places = st.columns(3, gap="small")
    for place, (name, (label, usual)) in zip(places, _BLOCKS.items(), strict=True):
        key = state.seed(state.key(screen, name), options.get(name) or None)
        found[name] = (
            place.number_input(plain(label), value=None, step=128, placeholder=usual, key=key) or 0
        )
    return found


def _own_choices(screen: str, options: dict[str, Any]) -> dict[str, str]:
    """What a model has of its own beside sizes: activation, gate, vocabulary tables."""
    found: dict[str, str] = {}
    for place, (name, (label, words)) in zip(
        st.columns(3, gap="small"), _CHOICES.items(), strict=True
    ):
        with place:
            found[name] = inputs.choice_input(
                screen,
                name,
                label,
                words,
                options.get(name, ""),
                words=lambda word: word or "as the model",
            )
    return found


def _sizes(screen: str, dims: dict[str, Any], model: str) -> dict[str, int]:
    try:
        preset = get_model(model)
    except RequestError:
        preset = None
    found: dict[str, int] = {}
    for row in range(0, len(VARIABLE), 2):
        for place, name in zip(st.columns(2, gap="small"), VARIABLE[row : row + 2], strict=False):
            size = place.number_input(
                plain(name),
                value=None,
                step=1,
                key=state.seed(state.key(screen, f"size.{name}"), dims.get(name)),
                placeholder=str(getattr(preset, name)) if preset else "as the model",
            )
            if size is not None:
                found[name] = size
    return found


def _workload_fields(screen: str, draft: dict[str, Any], mesh: list[list[Any]]) -> dict[str, Any]:
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


def _device_order(screen: str, options: dict[str, Any]) -> str:
    return inputs.choice_input(
        screen,
        "device_order",
        "Device order",
        ("topology", "plain"),
        options.get("device_order", "topology"),
        "topology: axes are where jax's mesh_utils puts them; plain: devices as they are listed.",
    )
