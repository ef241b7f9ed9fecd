"""Archives on History: one to download, and a place to drop one."""

import io
from collections.abc import Sequence

import streamlit as st

from spmd_core.base import LabError
from spmd_core.words import imported_words
from spmd_lab.ui import exports, shell
from spmd_lab.ui.lab import as_viewer, lab, may_act, takes_files
from spmd_lab.ui.markdown import plain

_SUFFIX = "spmdlab"
_TAKEN = "archive:taken"  # the id of the file that was imported last, and what became of it


def download(runs: Sequence[str]) -> None:
    """A button that downloads an archive of runs."""
    name = f"{runs[0]}.{_SUFFIX}" if len(runs) == 1 else f"{len(runs)}-runs.{_SUFFIX}"
    exports.file_button("Archive", lambda: exports.archive_of(runs), name, "To import elsewhere.")


def drop() -> None:
    """A place to drop an archive; what became of the last one."""
    if not may_act() or not takes_files():
        return
    box = st.expander("Import an archive of runs", icon=":material/move_to_inbox:", key="archive")
    with box:
        dropped = st.file_uploader("A file that Archive or `export` wrote", type=[_SUFFIX])
        if dropped is None:
            st.session_state.pop(_TAKEN, None)
            return
        file, sentences = st.session_state.get(_TAKEN, (None, ()))
        if file != dropped.file_id:
            sentences = _import(dropped.name, dropped.getvalue())
            st.session_state[_TAKEN] = (dropped.file_id, sentences)
            st.rerun()
        first, *refused = sentences
        st.info(plain(first), icon=":material/move_to_inbox:")
        for sentence in refused:
            shell.refusal(sentence)


def _import(name: str, data: bytes) -> tuple[str, ...]:
    """What became of the archive, and why runs of it were refused."""
    try:
        taken = as_viewer(lab().archives.import_file, io.BytesIO(data), name)
    except LabError as error:
        return ("Nothing was imported.", str(error))
    words = imported_words(len(taken.imported), len(taken.present), len(taken.refused))
    return (words, *(each.reason for each in taken.refused[:10]))
