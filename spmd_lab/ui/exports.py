"""Downloads of a run: JSON, CSV, and the script that reproduces it; each is made when its
button is pressed.
"""

import io
from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError, refuse
from spmd_core.experiment import Experiment
from spmd_core.reports import (
    Document,
    Subject,
    html_text,
    markdown_text,
    report_document,
    search_document,
)
from spmd_core.results import Result, csv_text, json_text
from spmd_core.runs import RunSummary
from spmd_core.script import script_text, why_no_script
from spmd_core.search import KeptSearch
from spmd_core.trials import with_stored_answers
from spmd_lab.ui import run_tables
from spmd_lab.ui.entrance import downloads
from spmd_lab.ui.lab import find, lab
from spmd_lab.ui.tables import sheet

_BYTES = "application/octet-stream"
_KINDS = {"md": "text/markdown", "csv": "text/csv", "html": "text/html"}


def menu(place: DeltaGenerator, run: str, experiment: Experiment) -> None:
    """A button, at `place`, that opens the download buttons of a run."""
    box = place.popover("Download", icon=":material/download:", key="downloads", on_change="rerun")
    if box.open:  # its buttons are made when it is opened
        with box:
            buttons(run, experiment)


def buttons(run: str, experiment: Experiment) -> None:
    """The download buttons of a run; without a result there is only the script."""
    if lab().result(run) is not None:
        download(
            "JSON",
            lambda: json_text(_result(run)),
            f"{run}.json",
            "application/json",
            "All of it, as the command line prints it.",
        )
        download(
            "CSV",
            lambda: csv_text(_result(run)),
            f"{run}.csv",
            "text/csv",
            "The numbers as a table.",
        )
    page_button(run)
    file_button("Archive", lambda: archive_of([run]), f"{run}.spmdlab", "To import elsewhere.")
    if not why_no_script(experiment):
        text_button(
            "Script",
            lambda: script_text(experiment, lab().result(run)),
            f"{run}.py",
            "A Python script of plain JAX that reproduces the experiment without this project.",
        )


def page_button(run: str, sender: str = "") -> None:
    """A button that downloads a run as a page that shows it anywhere, and that imports again."""
    file_button(
        "Report",
        lambda: lab().archives.page(html_text(report_document([_subject(run)])), [run], sender),
        f"{run}.html",
        "One HTML file to read, print or send. It opens without a server, and imports on History.",
        name=f"{run}.html {sender}",
    )


def search_buttons(kept: KeptSearch) -> None:
    """The download buttons of a search."""

    def document() -> Document:
        return search_document(kept, {run: _subject(run) for run in kept.runs if find(run)})

    file_button("Report", lambda: html_text(document()), f"{kept.id}.html", "One HTML file.")
    words = "To paste into a review."
    file_button("Markdown", lambda: markdown_text(document()), f"{kept.id}.md", words)
    words = "To import elsewhere, with the runs of its winner."
    file_button("Archive", lambda: archive_of([kept.id]), f"{kept.id}.spmdlab", words)


def file_button(
    label: str, make: Callable[[], str | bytes], file: str, words: str, name: str | None = None
) -> None:
    """A button that downloads a file, which is made when it is pressed."""
    download(label, make, file, _KINDS.get(file.rpartition(".")[2], _BYTES), words, name)


def text_button(label: str, make: Callable[[], str], file: str, words: str) -> None:
    """A button that downloads a script, which is made when it is pressed."""
    download(label, make, file, "text/x-python", words)


def rows_button(runs: Sequence[RunSummary]) -> None:
    """A button that downloads rows of History with every column; no hover is needed for it."""
    download(
        "These rows as CSV",
        lambda: sheet(run_tables.runs_table(runs)).to_csv(index=False),
        "history.csv",
        "text/csv",
        "Every column of the table; moments in UTC, milliseconds and bytes as numbers.",
    )


def archive_of(runs: Sequence[str]) -> bytes:
    """An archive of runs."""
    file = io.BytesIO()
    lab().archives.export(runs, file)
    return file.getvalue()


def _subject(run: str) -> Subject:
    if not (stored := lab().history(runs=[run], limit=1)):
        raise _gone(run)
    return lab().subject(stored[0])


def _result(run: str) -> Result:
    result = lab().result(run)
    if result is None:
        raise _gone(run)
    return with_stored_answers(lab(), result)


def _gone(run: str) -> RequestError:
    return refuse(f"run {run}", "is not stored here any more", "load the page again")


def download(
    label: str,
    make: Callable[[], str | bytes],
    file: str,
    mime: str,
    words: str | None = None,
    name: str | None = None,
) -> None:
    """A button that downloads a file, which is made when it is pressed; `name` distinguishes buttons
    of the same file.
    """
    st.download_button(
        label,
        downloads.offer(name or file, make, file, mime),
        file,
        mime,
        key=f"download:{name or file}",
        help=words,
        icon=":material/download:",
        on_click="ignore",
    )
