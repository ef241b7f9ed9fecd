"""A model from its own config: pasted or dropped, read at once, taken with a click."""

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import MAX_CONFIG_BYTES, VARIABLE, Config, read_config
from spmd_core.words import ignored_words, parameters_words
from spmd_lab.ui import state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.state import Form

_OWN = ("activation", "gate", "tables")  # choices of a user's, in place of the model's


def box(screen: str) -> None:
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
