"""Archives on History: one to download, and a place to drop one."""

import io
from collections.abc import Callable, Sequence

import streamlit as st

from spmd_core.base import LabError
from spmd_core.history import imported_words
from spmd_lab.ui import cards, exports, shell
from spmd_lab.ui.lab import as_viewer, find, lab, may_act, takes_files
from spmd_lab.ui.markdown import plain

_SUFFIX, _PAGE = "spmdlab", "html"
_TAKEN = "archive:taken"  # the id of the file imported last, what became of it, and its runs
_MOST_NAMED = 8  # runs of an archive that are named


def download(
    runs: Sequence[str],
    draw: Callable[[str, Callable[[], bytes], str, str], None] = exports.download,
) -> None:
    """A button that downloads an archive of runs, which `draw` draws."""
    name = f"{runs[0]}.{_SUFFIX}" if len(runs) == 1 else f"{len(runs)}-runs.{_SUFFIX}"
    draw("Archive", lambda: exports.archive_of(runs), name, exports.TO_IMPORT)


def drop(asked: Sequence[str]) -> None:
    """Draw a place to drop an archive, and the runs of the last one, unless all runs that the link
    names (`asked`) are here. One run that it names opens once an archive brings it.
    """
    if not may_act() or not takes_files() or (asked and all(map(find, asked))):
        return
    box = st.popover("Import", icon=":material/move_to_inbox:", key="archive")
    with box:
        dropped = st.file_uploader(
            "A file that Archive, Report or `export` wrote", type=[_SUFFIX, _PAGE]
        )
        if dropped is None:
            st.session_state.pop(_TAKEN, None)
            return
        file, sentences, runs = st.session_state.get(_TAKEN, (None, (), ()))
        if file != dropped.file_id:
            sentences, runs = _import(dropped.name, dropped.getvalue())
            st.session_state[_TAKEN] = (dropped.file_id, sentences, runs)
            if len(asked) == 1 and asked[0] in runs and (status := find(asked[0])) is not None:
                query = cards.query(status.experiment, status.run)
                st.switch_page(cards.page_of(status.experiment), query_params=query)
            st.rerun()
        first, *refused = sentences
        st.info(plain(first), icon=":material/move_to_inbox:")
        for summary in lab().history(runs=runs[:_MOST_NAMED]) if runs else ():
            cards.run_row(summary)
        for sentence in refused:
            shell.refusal(sentence)


def _import(name: str, data: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        taken = as_viewer(lab().archives.import_file, io.BytesIO(data), name)
    except LabError as error:
        return ("Nothing was imported.", str(error)), ()
    words = imported_words(len(taken.imported), len(taken.present), len(taken.refused))
    refused = (each.reason for each in taken.refused[:10])
    return (words, *refused), (*taken.imported, *taken.present)
