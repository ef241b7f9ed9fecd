"""A model on the Search screen: its own config, sizes in place of the preset's, and the fields of
its plans that a search holds.
"""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.plan import (
    MAX_CONFIG_BYTES,
    PLAN_FIELDS,
    VARIABLE,
    ModelSize,
    get_model,
    read_config,
)
from spmd_core.terms import parameters_words
from spmd_lab.ui import forms
from spmd_lab.ui.inputs import size_inputs
from spmd_lab.ui.markdown import plain

_HELD = {name: row for name, row in PLAN_FIELDS.items() if not row.searched}


def fields(
    model: str, plan: Mapping[str, Any], keyed: forms.Keyed
) -> tuple[str, Mapping[str, object]]:
    """The model that is searched, and the fields of its plans that stay, sizes among them.

    `plan`: those of the question so far. `keyed`: the key of a widget with its first value.
    """
    sizes = {name: plan[name] for name in VARIABLE if name in plan}
    with st.expander("Own sizes, or a config", expanded=bool(sizes)):
        text = st.text_area(
            "Config",
            key=keyed("config", ""),
            max_chars=MAX_CONFIG_BYTES,
            height=70,
            placeholder='{"model_type": "qwen3", "hidden_size": 4096, …}',
            help="A config.json as published with weights, or MaxText's yml, in place of the model.",
        )
        if text.strip():
            config = read_config(text)
            model = config.size.name
            st.caption(plain(f"{config.architecture}: {parameters_words(config.size)}"))
        chosen = size_inputs(model, sizes, keyed)
    chosen_fields = chosen | _held(model, plan, keyed)
    return model, {
        name: chosen_fields[name] for name in (*plan, *chosen_fields) if name in chosen_fields
    }


def _held(model: str, plan: Mapping[str, Any], keyed: forms.Keyed) -> dict[str, object]:
    options: dict[str, object] = {}
    for name, row in _HELD.items():
        options |= row.encode(
            row.take(name, plan[name]) if plan.get(name) is not None else row.value
        )
    with st.expander("More of the model", expanded=bool(plan.keys() & _HELD.keys())):
        drawn = options | forms.draw_fields(keyed, _HELD.values(), options, _size(model))
    read = {name: row.read(drawn) for name, row in _HELD.items()}
    same = {
        name for name, row in _HELD.items() if row.encode(read[name]).items() <= options.items()
    }
    changed = {name: value for name, value in read.items() if name not in same}
    return {name: plan[name] for name in plan if name in same} | changed


def _size(model: str) -> ModelSize | None:
    try:
        return get_model(model)
    except RequestError:
        return None
