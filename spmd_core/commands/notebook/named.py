"""Runs as words of the command line: their ids, or `last`."""

import json
import re
import sys
from argparse import Namespace
from collections.abc import Sequence

from spmd_core.base import refuse
from spmd_core.commands.spec import stored_id
from spmd_core.lab import Lab
from spmd_core.reports import Subject
from spmd_core.runs import Labels
from spmd_core.search import KeptSearch
from spmd_core.trials import searches

LAST = re.compile(r"last(?:~([0-9]{1,4}))?")
RUN_HELP = (
    "the id or link of a run, the id of a search (its best run), or last: the newest run that is "
    "over; last~1: the one before"
)


# the positional argument that names one run
RUN = {"run": {"metavar": "RUN", "help": RUN_HELP}}


def run_named(lab: Lab, word: str) -> str:
    """The id that a word means; RequestError where no such run is stored."""
    if (named := LAST.fullmatch(word := stored_id(word))) is None:
        return _of_search(lab, word) or lab.status(word).run
    before = int(named[1] or 0)
    newest = lab.history(over=True, limit=before + 1, searched=False, source="here")
    if len(newest) <= before:
        raise refuse(
            f"run {word}", f"does not exist: {len(newest)} are stored", "run something first"
        )
    return newest[before].run


def searches_named(lab: Lab, words: Sequence[str]) -> list[KeptSearch]:
    """The searches that the words mean; empty where one of them means something else."""
    named = [lab.searches.find(word) for word in words if lab.searches.has(word)]
    return named if len(named) == len(words) else []


def _of_search(lab: Lab, word: str) -> str | None:
    """The run that answers for a search of that id; None where there is no such search."""
    if (search := searches.stored(lab).find(word)) is None:
        return None
    if (run := searches.best_run(lab, search.id)) is None:
        rule = "has no candidate that was compiled or measured"
        raise refuse(f"search {word}", rule, "give it seconds, and search on")
    return run


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


def subjects(lab: Lab, runs: Sequence[str]) -> list[Subject]:
    """Runs with what is stored of them, in the order given; RequestError for one that no list has."""
    stored = subjects_of(lab, runs)
    for run in runs:
        if run not in stored:
            rule = "was only compiled on the way to another answer"
            raise refuse(f"run {run}", rule, "name a run of the history")
    return [stored[run] for run in runs]


def subjects_of(lab: Lab, runs: Sequence[str]) -> dict[str, Subject]:
    """Those of the runs that are stored, with what is stored of them, by id."""
    listed = lab.history(runs=runs, limit=len(runs)) if runs else ()
    return {each.run: lab.subject(each) for each in listed}
