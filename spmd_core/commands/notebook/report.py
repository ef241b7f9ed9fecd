"""Writes a report of stored runs as one HTML file or as Markdown."""

import json
from argparse import ArgumentParser, Namespace

from spmd_core.commands.notebook.named import RUN_HELP, run_named, subjects
from spmd_core.commands.output import FORCE, check_output, write_output
from spmd_core.lab import Lab
from spmd_core.reports import html_text, markdown_text, report_document

FORMATS = {"md": markdown_text, "html": html_text}


def add_arguments(parser: ArgumentParser) -> None:
    """Arguments of `report`."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help=f"up to 8 runs: {RUN_HELP}")
    parser.add_argument("--format", choices=tuple(FORMATS), default="md", help="md or html")
    parser.add_argument("--out", metavar="FILE", help="a file; else standard output")
    parser.add_argument("--force", action="store_true", help=FORCE)
    parser.add_argument("--texts", action="store_true", help="with the programs as compiled")


def main(arguments: Namespace) -> int:
    """Write the report."""
    if arguments.out is not None:
        check_output("--out", arguments.out, arguments.force)
    lab = Lab.open(serve=False)
    named = subjects(lab, [run_named(lab, each) for each in arguments.runs])
    texts = {each.run: lab.every_text(each.run) for each in named} if arguments.texts else {}
    text = FORMATS[arguments.format](report_document(named, texts))
    if arguments.out is not None:
        write_output("--out", arguments.out, text)
    if arguments.json:
        made = {"runs": [each.run for each in named], "file": arguments.out}
        print(json.dumps(made | ({} if arguments.out else {"text": text})))
    elif arguments.out is None:
        print(text, end="")
    else:
        print(f"report in {arguments.out}")
    return 0
