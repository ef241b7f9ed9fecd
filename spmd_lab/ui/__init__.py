"""Everything Streamlit that is not a screen."""

import sys

import streamlit as st

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python gets this far, and no further
    st.error(
        f"SPMD Lab needs Python 3.11 or newer, and this is "
        f"{sys.version_info[0]:d}.{sys.version_info[1]:d}: get one with "
        "`curl -LsSf https://astral.sh/uv/install.sh | sh`, then `uv venv --python 3.11 .venv` "
        "and install again, as the README says."
    )
    st.stop()
