"""Downloads of a run: JSON, CSV, and the script that reproduces it; each is made when its
button is pressed.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError, refuse
from spmd_core.experiment import Experiment
from spmd_core.reports import (
    Document,
    Subject,
    collection_document,
    html_text,
    markdown_text,
    report_document,
    search_document,
)
from spmd_core.results import Result, csv_text, json_text
from spmd_core.runs import Collection, RunSummary
from spmd_core.script import script_text, why_no_script
from spmd_core.search import KeptSearch
from spmd_core.trials import with_stored_answers
from spmd_lab.ui import run_tables
from spmd_lab.ui.entrance import downloads
from spmd_lab.ui.lab import find, lab
from spmd_lab.ui.tables import sheet

TO_SEND = "To read, print or send: one HTML file, which opens without a server."
TO_PASTE = "To paste into a review."
TO_CALCULATE = "To calculate with: all of it, with exact numbers."
TO_IMPORT = "To import on another SPMD Lab."
EXAMPLE = "example"  # the name of files of the example page, which has no id
_WIDTH = 132  # pixels of each button of a menu
_BYTES = "application/octet-stream"
_KINDS = {
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "py": "text/x-python",
}


def menu(place: DeltaGenerator, run: str, experiment: Experiment) -> None:
    """The download buttons of a run, in the header's menu at `place`."""
    menu_of(place, lambda: buttons(run, experiment))


def menu_of(place: DeltaGenerator, draw: Callable[[], object]) -> None:
    """The button of a screen's header that opens its download buttons, which `draw` draws."""
    box = place.popover("Download", icon=":material/download:", key="downloads", on_change="rerun")
    if box.open:  # its buttons are made when it is opened
        with box:
            draw()


def buttons(run: str, experiment: Experiment) -> None:
    """The download buttons of a run, the page to send first; without a result there is no table."""
    run_page(run)
    if lab().result(run) is not None:
        explained("JSON", lambda: json_text(_result(run)), f"{run}.json", TO_CALCULATE)
        words = "For a spreadsheet: the numbers as a table."
        explained("CSV", lambda: csv_text(_result(run)), f"{run}.csv", words)
    if not why_no_script(experiment):
        words = "To run it elsewhere: plain JAX, without this project."
        script = f"{run}.py"
        explained("Script", lambda: script_text(experiment, lab().result(run)), script, words)
    explained("Archive", lambda: archive_of([run]), f"{run}.spmdlab", TO_IMPORT)


def run_page(run: str, sender: str | None = None) -> None:
    """A button that downloads a run as a page that shows it anywhere, and that imports again."""
    _page(run, lambda: report_document([_subject(run)]), sender)


def comparison_page(subjects: Sequence[Subject], sender: str | None = None) -> None:
    """The same of runs side by side."""
    runs = [each.run for each in subjects]
    _page("comparison", lambda: report_document(subjects), sender, runs)


def search_page(kept: KeptSearch, sender: str | None = None) -> None:
    """The same of a search, with the runs of its winner."""
    _page(kept.id, lambda: _search(kept), sender)


def collection_page(
    page: Collection, subjects: Mapping[str, Subject], sender: str | None = None
) -> None:
    """The same of a page of the notebook, with its runs."""
    _page(page.id or EXAMPLE, lambda: collection_document(page, subjects), sender, stored_as(page))


def stored_as(page: Collection) -> Sequence[str]:
    """Returns the ids by which a page is archived: its own, of the example page its runs'."""
    return [page.id] if page.id else page.runs


def _page(
    name: str, document: Callable[[], Document], sender: str | None, ids: Sequence[str] = ()
) -> None:
    def made() -> str:
        return lab().archives.page(html_text(document()), ids or [name], sender)

    file = f"{name}.html"
    if sender is None:
        explained("HTML report", made, file, TO_SEND)
    else:  # in the box of Share
        download("HTML report", made, file, TO_SEND, name=f"{file} from {sender}")


def sent(file: Callable[[str], None]) -> None:
    """Draws a file to send: who it is from, and its button."""
    st.markdown("**Or a file that opens anywhere**")
    sender = st.text_input(
        "Your name, in the file",
        max_chars=64,
        key="share:sender",
        placeholder="optional",
        help="Shown where it is imported. Letters, digits, hyphens; no host, no path.",
    )
    file(sender.strip())


def _search(kept: KeptSearch) -> Document:
    return search_document(kept, {run: _subject(run) for run in kept.runs if find(run)})


def search_buttons(kept: KeptSearch) -> None:
    """The download buttons of a search."""
    search_page(kept)
    explained("Markdown", lambda: markdown_text(_search(kept)), f"{kept.id}.md", TO_PASTE)
    explained("Archive", lambda: archive_of([kept.id]), f"{kept.id}.spmdlab", TO_IMPORT)


def rows_button(runs: Sequence[RunSummary]) -> None:
    """A button that downloads rows of History with every column; no hover is needed for it."""
    download(
        "Export CSV",
        lambda: sheet(run_tables.runs_table(runs)).to_csv(index=False),
        "history.csv",
        "These rows with every column; moments in UTC, milliseconds and bytes as numbers.",
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


def explained(label: str, make: Callable[[], str | bytes], file: str, words: str) -> None:
    """A button of a menu that downloads a file, with what that is for beside it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        download(label, make, file, width=_WIDTH)
        st.caption(words)


def download(
    label: str,
    make: Callable[[], str | bytes],
    file: str,
    words: str | None = None,
    name: str | None = None,
    width: int | Literal["content"] = "content",
) -> None:
    """A button that downloads a file, which is made when it is pressed; `name` distinguishes buttons
    of the same file.
    """
    kind = _KINDS.get(file.rpartition(".")[2], _BYTES)
    st.download_button(
        label,
        downloads.offer(name or file, make, file, kind),
        file,
        kind,
        key=f"download:{name or file}",
        help=words,
        icon=":material/download:",
        on_click="ignore",
        width=width,
    )
