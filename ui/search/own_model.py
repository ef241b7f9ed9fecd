"""A model's sizes on the Search screen: its own config, or sizes in place of the preset's."""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import MAX_CONFIG_BYTES, VARIABLE, get_model, read_config
from spmd_core.words import parameters_words
from ui.markdown import plain

Keyed = Callable[[str, Any], str]


def fields(model: str, plan: Mapping[str, Any], keyed: Keyed) -> tuple[str, dict[str, object]]:
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
        chosen = _numbers(model, sizes, keyed)
    return model, {name: each for name, each in plan.items() if name not in VARIABLE} | chosen


def _numbers(model: str, sizes: Mapping[str, int], keyed: Keyed) -> dict[str, object]:
    """A field for each size; empty ones stay as the model has them."""
    try:
        preset = get_model(model)
    except RequestError:
        preset = None
    chosen = dict[str, object]()
    for row in range(0, len(VARIABLE), 2):
        for place, name in zip(st.columns(2, gap="small"), VARIABLE[row : row + 2], strict=False):
            size = place.number_input(
                plain(name),
                value=None,
                step=1,
                key=keyed(f"size.{name}", sizes.get(name)),
                placeholder=str(getattr(preset, name)) if preset else "as the model",
            )
            if size is not None:
                chosen[name] = int(size)
    return chosen
