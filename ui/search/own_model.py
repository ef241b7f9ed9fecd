"""A model's sizes on the Search screen: its own config, or sizes in place of the preset's."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from spmd_core.experiment import MAX_CONFIG_BYTES, VARIABLE, read_config
from spmd_core.words import parameters_words
from ui.inputs import size_inputs
from ui.markdown import plain

Keyed = Callable[[str, Any], str]


def fields(model: str, plan: Mapping[str, Any], keyed: Keyed) -> tuple[str, Mapping[str, object]]:
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
    return model, {name: each for name, each in plan.items() if name not in VARIABLE} | chosen
