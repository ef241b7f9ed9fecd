"""Runs as words of the command line: their ids, or `last`."""

import json
import sys
from argparse import ArgumentParser, Namespace

from spmd_core.base import refuse
from spmd_core.lab import Lab
from spmd_core.results import Labels

LAST = "last"
RUN_HELP = "the id of a run, or last: the newest run that is over"


def add_run(parser: ArgumentParser) -> None:
    """The positional argument that names one run."""
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)


def run_named(lab: Lab, word: str) -> str:
    """The id that a word means; RequestError where no such run is stored."""
    if word != LAST:
        return lab.status(word).run
    newest = lab.history(over=True, limit=1, searched=False)
    if not newest:
        raise refuse("run last", "does not exist: nothing has run here", "run something first")
    return newest[0].run


def text_of(word: str) -> str:
    """A text of the command line; `-` is standard input."""
    return sys.stdin.read() if word == "-" else word


def print_labels(arguments: Namespace, run: str, labels: Labels) -> int:
    """What was added to a run, for people or as JSON."""
    if arguments.json:
        print(json.dumps({"run": run} | labels.to_json()))
    else:
        name = f" {labels.name!r}" if labels.name else ""
        tags = f", tags {' '.join(labels.tags)}" if labels.tags else ""
        note = f", a note of {len(labels.note):,} characters" if labels.note else ""
        print(f"run {run}{name}{tags}{note}{', pinned' if labels.is_pinned else ''}")
    return 0
