"""The fields of the Predict screen, as the JSON form of an experiment."""

import math
from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError
from spmd_core.fields import Field
from spmd_core.plan import (
    MAX_CONFIG_BYTES,
    PLAN_FIELDS,
    VARIABLE,
    Config,
    ModelSize,
    fewer_microbatches,
    get_model,
    model_names,
    read_config,
)
from spmd_core.terms import ignored_words, parameters_words
from spmd_core.workloads import get_workload, named_axes
from spmd_lab.ui import forms, inputs, state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import drafts, question
from spmd_lab.ui.predict.topology_fields import mesh_fields, on_topology, redraw
from spmd_lab.ui.state import Form, Mesh

_OWN = ("activation", "gate", "tables")  # choices of a user's, in place of the model's


def config_box(screen: str) -> None:
    """A place to paste or drop a config; its model replaces the screen's, with all own sizes."""
    with st.expander("The model's own config", icon=":material/data_object:"):
        text = st.text_area(
            "Config",
            key=f"{screen}:config",
            max_chars=MAX_CONFIG_BYTES,
            height=90,
            placeholder='{"model_type": "qwen3", "hidden_size": 4096, …}',
            label_visibility="collapsed",
        )
        file = st.file_uploader(
            "A config.json, or MaxText's yml",
            ["json", "yml", "yaml"],
            key=f"{screen}:config.file",
            max_upload_size=1,
        )
        st.caption("As it is published with weights: llama, qwen3, gemma3, gpt_oss and so on.")
        if not text.strip() and file is None:
            return
        try:
            config = read_config(text if file is None else file.getvalue())
        except RequestError as error:
            st.error(plain(str(error)), icon=":material/error:")
            return
        st.markdown(f"**{plain(config.architecture)}**: {plain(parameters_words(config.size))}")
        if config.ignored:
            st.caption(plain(f"{ignored_words(config.ignored).capitalize()}."))
        if st.button(
            "Use this model", key=f"{screen}:config.use", type="primary", icon=":material/input:"
        ):
            new = with_config(state.draft(screen), config)
            state.remember(screen, state.draft(screen))
            state.replace_draft(screen, state.parse_or_keep(new))
            st.rerun()


def with_config(draft: Form, config: Config) -> Form:
    """The draft with another model, and no sizes or choices of its own."""
    options = {name: value for name, value in draft["options"].items() if name not in _OWN}
    dims = {name: size for name, size in draft["dims"].items() if name not in VARIABLE}
    return draft | {"dims": dims, "options": options | {"model": config.size.name}}


SCREEN = "predict"
_SCALED = tuple(f"{name}:{1 << power}" for name in ("scaled", "scaled-2023") for power in range(9))
_KEPT = ("remat", "device_order")  # are options at their default, too
_SIZED = "Model and optimizer"  # the heading that has the sizes of a model


def predict_fields(has_chips: bool = True, answer: DeltaGenerator | None = None) -> Form:
    """Draw every field of the screen, the number of chips only where `has_chips`; their values: a model's question, and all else behind *Change
    the plan*. A change that changes other fields draws the screen again; `answer` has the progress of
    one that takes seconds.
    """
    draft, model = state.draft(SCREEN), None
    if is_model := named_axes(draft["workload"]):
        model = question.fields((*model_names(), *_SCALED), _model_words, has_chips, answer)
    key = "fields:plan" if is_model else "fields:program"
    with forms.fold(SCREEN, "Change the plan", key, ":material/tune:", is_open=not is_model):
        name = inputs.choice_input(
            SCREEN,
            "workload",
            "Predict",
            drafts.workloads(),
            draft["workload"],
            words=drafts.title_of,
        )
        if name != draft["workload"]:
            redraw(SCREEN, state.recall(SCREEN, drafts.switched(draft, name)))
        if is_model:
            return plan_fields(SCREEN, model)
        draft = on_topology(SCREEN, draft)
        mesh = mesh_fields(SCREEN, draft)
        return draft | {"mesh": mesh} | _workload_fields(SCREEN, draft, mesh)


def plan_fields(screen: str, model: str | None = None) -> Form:
    """Draw the fields of a training step; their values, as above. `model`: it and its kind of chip
    are chosen elsewhere.
    """
    draft = on_topology(screen, state.draft(screen), has_kind=model is not None)
    mesh = mesh_fields(screen, draft)
    devices = math.prod(size or 0 for _, size in mesh)
    form = draft | {"mesh": mesh} | _model_fields(screen, draft, devices, model)
    batch, count = form["dims"]["batch"], form["options"].get("microbatches")
    if (batch, mesh) != (draft["dims"]["batch"], draft["mesh"]):
        fewer = fewer_microbatches(count, batch, [(name, size or 1) for name, size in mesh])
        if fewer != count:
            redraw(screen, form | {"options": form["options"] | {"microbatches": fewer}})
    return form


def _model_fields(screen: str, draft: Form, devices: int, model: str | None) -> Form:
    options, dims = dict(draft["options"]), draft["dims"]
    if model is None:
        models = (*model_names(), *_SCALED)
        now = options.get("model", models[0])
        model = inputs.choice_input(screen, "model", "Model", models, now, words=_model_words)
    parameters = st.empty()
    config_box(screen)
    batch, sequence = _batch(screen, draft, devices)
    keyed, size = forms.keyed(screen), _size(model, dims, options)
    chosen, sizes = Form(), Form()
    for group, rows in _groups(screen, options).items():
        with _group(screen, group, rows, options):
            chosen |= forms.draw_fields(keyed, rows, options, size)
            if group == _SIZED:
                st.caption("Sizes of the model, where they are to differ from the preset's")
                sizes = inputs.size_inputs(model, dims, keyed)
    own = _size(model, sizes, chosen)
    parameters.caption(plain(sizes_words(own) if own else ""))
    rows = PLAN_FIELDS.items()
    kept = {
        option: each.default
        for name, row in rows
        if name not in _KEPT
        for option, each in row.options.items()
    }
    return {
        "dims": {"batch": batch, "sequence": sequence} | sizes,
        "options": {"model": model}
        | {
            name: value for name, value in chosen.items() if name not in kept or value != kept[name]
        },
    }


def _groups(screen: str, options: Form) -> dict[str, list[Field]]:
    """Returns the fields of a plan by their heading, those with a field that is set first, as they were
    when they were first drawn.
    """
    groups: dict[str, list[Field]] = {}
    for row in PLAN_FIELDS.values():
        groups.setdefault(row.group, []).append(row)
    for group, rows in groups.items():
        is_open = any(forms.is_set(row, options) for row in rows)
        st.session_state.setdefault(state.key(screen, f"{group}.open"), is_open)
    return dict(sorted(groups.items(), key=lambda each: not _is_open(screen, each[0])))


def _is_open(screen: str, group: str) -> bool:
    return st.session_state[state.key(screen, f"{group}.open")]


def _group(screen: str, group: str, rows: Sequence[Field], options: Form) -> DeltaGenerator:
    """Returns the fold of a heading, with how many of its fields are set."""
    count = sum(forms.is_set(row, options) for row in rows)
    label = f"{group}, {count} set" if count else group
    key = f"fields:{group.split()[0].lower()}"
    return forms.fold(screen, plain(label), key, is_open=_is_open(screen, group))


def _size(model: str, dims: Form, options: Form) -> ModelSize | None:
    try:
        rows = [row for row in PLAN_FIELDS.values() if row.of_model]
        read = {row.of_model: row.read(dict.fromkeys(row.options, "") | options) for row in rows}
        given = {name: value for name, value in read.items() if value is not None}
        sizes = {name: size for name, size in dims.items() if name in VARIABLE}
        return get_model(model).varied(**sizes, **given)
    except RequestError:
        return None


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


def _model_words(name: str) -> str:
    try:
        size = get_model(name)
    except RequestError:
        return name
    of_size = name.startswith("scaled") or size.title != name
    return f"{size.title}, {size.parameters / 1e9:,.1f}B" if of_size else name


def _workload_fields(screen: str, draft: Form, mesh: Mesh) -> Form:
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
        "options": options
        | forms.draw_fields(forms.keyed(screen), (PLAN_FIELDS["device_order"],), options),
    }


def sizes_words(size: ModelSize) -> str:
    """A model below its field: a scaled decoder also by its sizes, which its name lacks.

    >>> from spmd_core.plan import get_model
    >>> sizes_words(get_model("scaled:2")).partition(";")[0]
    "A synthetic decoder, MaxText's base sizes × 2: 16 layers, width 2,048, mlp 14,336"
    """
    kind, _, scale = size.name.partition(":")
    if kind not in ("scaled", "scaled-2023"):
        return parameters_words(size)
    return (
        f"A synthetic decoder, MaxText's base sizes × {scale}: {size.layers} layers, width "
        f"{size.embed:,}, mlp {size.mlp:,}; {parameters_words(size)}"
    )
