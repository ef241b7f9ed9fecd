"""Two to eight stored runs side by side: the verdicts, their times in one chart, and what differs."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.answers import programs_table
from spmd_core.history import part_words
from spmd_core.reports import (
    Compared,
    Document,
    Subject,
    Table,
    chosen_columns,
    collectives_table,
    compare_runs,
    comparison_document,
    comparison_json,
    csv_of,
    html_text,
    json_of,
    markdown_text,
    report_document,
    rows_table,
    runs_table,
    table_markdown,
)
from spmd_core.runs import RunSummary
from spmd_core.sheets import NONE
from spmd_lab.ui import choices, exports, price, run_tables
from spmd_lab.ui.lab import lab
from spmd_lab.ui.notebook import archives, outcome
from spmd_lab.ui.shell import draw_table
from spmd_lab.ui.tables import table_frame

_FORMS = {"Markdown": table_markdown, "CSV": csv_of, "JSON": json_of}
# of the table that is copied, where a viewer chooses no others
_USUAL = (
    "Run",
    "Name and tags",
    "Experiment",
    "On",
    "Time",
    "Low",
    "High",
    "Against the baseline",
    "Peak per device",
)


def draw(
    runs: Sequence[RunSummary], title: DeltaGenerator, place: DeltaGenerator
) -> Callable[[str], None]:
    """How the runs compare, below its `title`; then each as a card or row, named A to H, their times,
    and what differs in experiments and communication; at `place` what can be downloaded. Returns
    what draws the file to send, by the name of who sends it.
    """
    subjects = outcome.fastest_first(lab().subject(run) for run in runs)
    answer = st.container(key="answer")
    compared = _compared(subjects)
    title.title("What came out of each?" if compared.is_unlike else "Which is faster, and why?")
    table = rows_table(compared, "screen", price.of)
    alike = _alike(table)
    with answer:
        outcome.compared_runs(compared, True, _alike_words(alike))
    if table.rows:
        left_out = {*alike, *(_partial(table) if compared.is_unlike else ())}
        draw_table(chosen_columns(table, [each for each in table.columns if each not in left_out]))
    _differences(compared)
    if (programs := programs_table(compared.programs)).rows:
        st.markdown("**Programs**")
        draw_table(table_frame(programs))
    collectives = collectives_table(compared, "screen")
    if collectives.rows and not compared.is_unlike:
        st.markdown(
            "**What differs in the collectives, per device**",
            help="How often a collective runs, and the bytes of all its "
            "runs. Those that are compiled to rings of permutes count with their kind.",
        )
        draw_table(table_frame(collectives))
    exports.menu_of(place, lambda: _downloads(compared, [run.run for run in runs]))
    _to_copy(runs_table(compared))
    return partial(exports.comparison_page, compared.subjects)


def _differences(compared: Compared) -> None:
    """Draws what differs in the experiments, unless the runs are named by it."""
    names = list(compared.names.values())
    experiments = [each.summary.experiment for each in compared.subjects]
    differences = run_tables.differences_table(experiments, names)
    is_named = [
        names in (list(row[1:]), [part_words(row[0], text) for text in row[1:]])
        for row in differences.itertuples(index=False)
    ]
    if not all(is_named):  # by the names
        st.markdown("**What differs in the experiments**")
        draw_table(differences)


def _alike(table: Table) -> Mapping[str, str]:
    """Returns the columns in which all rows are the same, with what is in them."""
    cells = {name: {cell.text for cell in table.column(name)} for name in table.columns}
    is_several = len(table.rows) > 1
    return {
        name: next(iter(texts)) for name, texts in cells.items() if is_several and len(texts) == 1
    }


def _partial(table: Table) -> list[str]:
    """Returns the columns in which some rows have no value, but for what the rows are called."""
    names = (each for each in table.columns if each != "Strategy")
    return [name for name in names if any(cell.text == NONE for cell in table.column(name))]


def _alike_words(alike: Mapping[str, str]) -> str:
    """Returns what is the same for all runs: `each fits · Peak per device of each: 2.1 GiB`."""
    fit = {("Fits", "yes"): "each fits"}
    return " · ".join(fit.get(each, f"{each[0]} of each: {each[1]}") for each in alike.items())


def _compared(subjects: Sequence[Subject]) -> Compared:
    """Returns the runs against the chosen baseline; draws its field, and that of the price."""
    with st.container(horizontal=True, key="beside-fields"):
        compared = compare_runs(subjects)
        if not compared.is_unlike:
            compared = compare_runs(subjects, _baseline(subjects, compared.names))
        predicted = (
            each.summary.experiment
            for each in subjects
            if each.result and each.result.only_predicted_s
        )
        kinds = {each.members[0].experiment.target for each in predicted}
        if len(kinds) > 1:
            with st.container(width=230):
                price.field(min(kinds).split(":")[1])
    return compared


def _baseline(subjects: Sequence[Subject], names: Mapping[str, str]) -> str:
    """The run that the others are compared with: the oldest, unless one is chosen."""
    ids = [each.run for each in subjects]
    choices.offered(choices.BASELINE, ids)
    named = st.query_params.get(choices.BASELINE, "")
    by_age = sorted(subjects, key=lambda each: each.summary.submitted_at)
    timed = [each.run for each in by_age if each.fastest] or ids
    with st.container(width=320):
        chosen = st.selectbox(
            "Baseline",
            ids,
            index=ids.index(named if named in ids else timed[0]),
            format_func=names.__getitem__,
            key=f"compared-with:{'-'.join(ids)}",
        )
    st.query_params[choices.BASELINE] = chosen
    return chosen


def _to_copy(table: Table) -> None:
    columns = [name for name in table.columns if name]
    usual = [name for name in _USUAL if name in columns]
    with st.expander("The table, to copy", icon=":material/content_copy:"):
        names = st.multiselect("Columns", columns, usual, key="columns", bind="query-params")
        form = choices.one_of("Format", tuple(_FORMS), "form")
        st.code(_FORMS[form](chosen_columns(table, names)), language=None)


def _downloads(compared: Compared, runs: Sequence[str]) -> None:
    downloads(
        "comparison",
        comparison_document(compared),
        runs_table(compared),
        lambda: comparison_json(compared),
        lambda: lab().archives.page(html_text(report_document(compared.subjects)), runs),
    )
    archives.download(runs, exports.explained)


def downloads(
    name: str,
    document: Document,
    table: Table,
    form: Callable[[], object],
    report: Callable[[], str],
) -> None:
    """A comparison to paste into a review, to calculate with, and to send."""
    exports.explained("HTML report", report, f"{name}.html", exports.TO_SEND)
    exports.explained("Markdown", lambda: markdown_text(document), f"{name}.md", exports.TO_PASTE)
    words = "For a spreadsheet: a row for each."
    exports.explained("CSV", lambda: csv_of(table), f"{name}.csv", words)
    exports.explained("JSON", lambda: json.dumps(form()), f"{name}.json", exports.TO_CALCULATE)
