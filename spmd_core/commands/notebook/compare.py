"""Compares two to eight stored runs of any kind, or as many searches."""

import json
from argparse import Namespace

from spmd_core.commands.notebook.named import RUN_HELP, run_named, searches_named, subjects
from spmd_core.lab import Lab
from spmd_core.reports import (
    Document,
    Table,
    check_compared,
    chosen_columns,
    compare_runs,
    compare_searches,
    comparison_document,
    comparison_json,
    csv_of,
    json_of,
    markdown_text,
    plain_text,
    runs_table,
    searches_document,
    searches_json,
    searches_table,
    table_markdown,
    table_text,
)

FORMATS = ("text", "md", "csv")
_WRITERS = {"text": table_text, "md": table_markdown, "csv": csv_of}


ARGUMENTS = {
    "runs": {
        "metavar": "RUN",
        "nargs": "+",
        "help": f"2 to 8 runs, or as many searches: {RUN_HELP}",
    },
    "--baseline": {"metavar": "RUN", "help": "what the others are compared with; else the first"},
    "--format": {
        "choices": FORMATS,
        "default": "text",
        "help": "md to paste into a review; csv of the runs",
    },
    "--columns": {
        "metavar": "NAME,NAME",
        "help": "the table of the runs alone, with these columns, such as Run,Time",
    },
}


def main(arguments: Namespace) -> int:
    """Print the comparison, the verdicts first."""
    check_compared(arguments.runs, None)
    lab = Lab.open(serve=False)
    if searches := searches_named(lab, arguments.runs):
        winners = compare_searches(searches, arguments.baseline)
        return _print(
            arguments, searches_document(winners), searches_table(winners), searches_json(winners)
        )
    runs = [run_named(lab, each) for each in arguments.runs]
    base = None if arguments.baseline is None else run_named(lab, arguments.baseline)
    compared = compare_runs(subjects(lab, runs), base)
    document, form = comparison_document(compared), comparison_json(compared)
    return _print(arguments, document, runs_table(compared), form)


def _print(arguments: Namespace, document: Document, table: Table, form: dict[str, object]) -> int:
    if arguments.columns is not None:
        names = [name.strip() for name in arguments.columns.split(",") if name.strip()]
        write = json_of if arguments.json else _WRITERS[arguments.format]
        print(write(chosen_columns(table, names)).rstrip("\n"))
    elif arguments.json:
        print(json.dumps(form))
    elif arguments.format == "csv":
        print(csv_of(table), end="")
    else:
        write = markdown_text if arguments.format == "md" else plain_text
        print(write(document), end="" if arguments.format == "md" else "\n")
    return 0
