"""Downloads of a run: JSON, CSV, and the script that reproduces it; each is made when it is asked for."""

import csv
import io
from collections.abc import Callable

import streamlit as st

from spmd_core.experiment import Experiment
from spmd_core.results import Result
from ui.lab import lab

_COLUMNS = ("run", "strategy", "operands", "round", "seconds", "outlier")


def buttons(run: str, experiment: Experiment) -> None:
    """The download buttons of a run."""
    _button("JSON", lambda: result_json(run), f"{run}.json", "application/json", "The result as `python -m spmd_core run --json` prints it.")
    _button("CSV", lambda: result_csv(lab().result(run)), f"{run}.csv", "text/csv", "Every sample in seconds, one per line.")


def _button(label: str, make: Callable[[], str], file: str, mime: str, words: str) -> None:
    st.download_button(label, make, file, mime, key=f"download:{file}", help=words, icon=":material/download:", on_click="ignore")


def result_json(run: str) -> str:
    """The result of a run as JSON."""
    result = lab().result(run)
    return result.model_dump_json(indent=2) if result else "null"


def result_csv(result: Result | None) -> str:
    """Every sample of a result as a line of CSV, in seconds."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_COLUMNS)
    if result is not None:
        for name, found in result.strategies.items():
            rows.writerows((result.run, name, "placed", at + 1, sample, at in found.outliers) for at, sample in enumerate(found.samples_s))
            if found.from_unsharded is not None:
                rows.writerows((result.run, name, "unsharded", at + 1, sample, False) for at, sample in enumerate(found.from_unsharded.samples_s))
    return text.getvalue()
