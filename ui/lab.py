"""The handle to the Lab; the only importer of it in the user interface."""

import hashlib

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment
from spmd_core.lab import Asker, Batch, Lab
from spmd_core.results import RunStatus

_COOKIE = "_streamlit_xsrf"  # one for each browser, which all its tabs share


class NothingStored(Exception):
    """A run has not left what is asked for, or not yet: raised instead of an answer that a cache
    would keep.
    """


def lab() -> Lab:
    """The Lab of this process and data folder; StorageError where the folder cannot be used."""
    return Lab.open()


def find(run: str) -> RunStatus | None:
    """A run as it stands; None where this machine has none of that id."""
    try:
        return lab().status(run)
    except RequestError:
        return None


def submit(experiment: Experiment) -> str:
    """Queue an experiment for whoever looks at this page; the run's id."""
    return lab().submit(experiment, asker())


def asker() -> Asker:
    """Who looks at this page, and asks for a search."""
    return Asker(viewer())


def batch() -> Batch:
    """Runs that whoever looks at this page asks for at once, such as a sweep."""
    return Batch(lab(), asker())


def viewer() -> str:
    """Who looks: by login, else by browser, else by session. A hash, since it is stored."""
    logged_in = st.user.get("is_logged_in") and (st.user.get("email") or st.user.get("sub"))
    name = logged_in or st.context.cookies.get(_COOKIE)
    if not name:
        context = get_script_run_ctx(suppress_warning=True)
        name = context.session_id if context else "nobody"
    return hashlib.sha256(str(name).encode()).hexdigest()[:16]
