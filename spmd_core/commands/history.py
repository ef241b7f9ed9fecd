"""Lists stored runs, prints the result of one, exports it, or deletes some."""

import json
import sys
from argparse import Namespace
from contextlib import suppress

from spmd_core.base import (
    RequestError,
    UnreadableRun,
    count_text,
    mesh_text,
    numbered,
    refuse,
    shorten,
)
from spmd_core.commands.run import on_this_machine, print_run
from spmd_core.commands.spec import OPTIONAL_SPEC, read_spec, stored_id
from spmd_core.history import (
    Came,
    came_out,
    evidence_of,
    figure,
    labels_words,
    outcome,
    read_search,
    when_words,
)
from spmd_core.lab import Lab
from spmd_core.results import csv_text
from spmd_core.runs import STATES, RunSummary
from spmd_core.sheets import table
from spmd_core.workloads import PROGRAM_FILE, get_workload

MAX_LIMIT = 100_000
_LONGEST = 70  # characters of a verdict


ARGUMENTS = {
    **OPTIONAL_SPEC,
    "--workload": {"metavar": "NAME", "help": "only runs of this workload"},
    "--state": {"metavar": "STATE", "help": f"only runs in this state: {', '.join(STATES)}"},
    "--text": {
        "metavar": "TEXT",
        "help": "only runs with this in their row of History: x=8, bfloat16, a date, an id, tag:v5p, "
        "note:ring, name:…",
    },
    "--limit": {
        "metavar": "N",
        "default": "200",
        "help": "at most so many, the newest (default 200)",
    },
    "--searches": {
        "action": "store_true",
        "help": "with the runs of searches, which the table leaves out",
    },
    "--run": {"metavar": "ID", "type": stored_id, "help": "print the result of this run instead"},
    "--csv": {"action": "store_true", "help": "with --run: every sample as CSV"},
    "--delete": {
        "metavar": "ID",
        "nargs": "+",
        "type": stored_id,
        "help": "delete these runs and their results",
    },
}


def main(arguments: Namespace) -> int:
    """Print the list, newest first; or one result."""
    wanted = read_spec(arguments.spec).id if arguments.spec is not None else None
    _check(arguments)
    lab = Lab.open(serve=False)
    if arguments.delete:
        return _delete(lab, arguments)
    if arguments.run is not None:
        return _one(lab, arguments)
    return _list(lab, arguments, wanted)


def _check(arguments: Namespace) -> None:
    if arguments.workload not in (None, PROGRAM_FILE):
        get_workload(arguments.workload)
    if arguments.state is not None and arguments.state not in STATES:
        raise refuse(
            f"state {shorten(arguments.state)}", "does not exist", f"use one of {', '.join(STATES)}"
        )
    if not (
        arguments.limit.isascii()
        and arguments.limit.isdigit()
        and 1 <= int(arguments.limit) <= MAX_LIMIT
    ):
        raise refuse(
            f"limit {arguments.limit!r}", "is not a number of runs", f"use 1 to {MAX_LIMIT}"
        )
    if arguments.csv and arguments.run is None:
        raise RequestError("--csv was given without a run: name one with --run ID")


def _list(lab: Lab, arguments: Namespace, wanted: str | None) -> int:
    asked = {
        "workload": arguments.workload,
        "state": arguments.state,
        "text": arguments.text,
        "limit": int(arguments.limit),
    }
    # a filter by experiment or text lists all stored runs that match
    every = arguments.json or arguments.searches or wanted or arguments.text
    runs = lab.history(**asked, searched=None if every else False)
    listed = [summary for summary in runs if wanted in (None, summary.experiment.id)]
    print(
        json.dumps([as_json(lab, each) for each in listed])
        if arguments.json
        else "\n".join(_table(lab, listed))
    )
    if not listed and (understood := read_search(arguments.text or "").words):
        print(understood, file=sys.stderr)
    if not every and (left_out := lab.history(**asked, searched=True)):
        print(left_out_words(len(left_out)))
    return 0


def as_json(lab: Lab, summary: RunSummary) -> dict[str, object]:
    """A stored run as plain JSON values; times are seconds since the epoch."""
    came = _came(lab, summary.run)
    judged = came.judged if came else None
    return {
        "run": summary.run,
        "status": summary.state,
        "experiment": summary.experiment.to_json(),
        "experiment_id": summary.experiment.id,
        "submitted_at": summary.submitted_at,
        "finished_at": summary.finished_at,
        "medians_s": dict(summary.medians_s),
        "predicted_s": dict(summary.predicted_s),
        "fastest": summary.fastest,
        "verdict": {"kind": judged[0], "words": " ".join(judged[1:]).strip()} if judged else None,
        "partial": summary.partial,
        "error": summary.error.model_dump() if summary.error else None,
        "foreign": summary.origin is not None,
        **summary.labels.to_json(),
    }


def _delete(lab: Lab, arguments: Namespace) -> int:
    for run in arguments.delete:
        lab.status(run)  # refuses one that is not stored
    count = lab.delete(arguments.delete)
    print(json.dumps({"deleted": count}) if arguments.json else f"deleted {numbered(count, 'run')}")
    return 0


def _one(lab: Lab, arguments: Namespace) -> int:
    status, result = lab.status(arguments.run), on_this_machine(lab, lab.result(arguments.run))
    if arguments.csv:
        if result is None:
            raise refuse(
                f"run {arguments.run}",
                f"is {status.state} and has no result",
                "name a run that has one",
            )
        print(csv_text(result), end="")
    else:
        print_run(status, result, arguments.json)
    return 0 if result else 1


def _table(lab: Lab, listed: list[RunSummary]) -> list[str]:
    if not listed:
        return ["no stored run is like that; python -m spmd_core run recipe:layer makes one"]
    labels = [labels_words(run) for run in listed]
    heads = ("run", "submitted", "state", "workload", "target", "mesh", "verdict", "result")
    rows = [(*heads, *(["name and tags"] if any(labels) else []))]
    for summary, named in zip(listed, labels, strict=True):
        came = _came(lab, summary.run)
        verdict = ", ".join(filter(None, outcome(summary, came)[1:]))
        rows.append(
            (
                summary.run,
                when_words(summary.submitted_at),
                summary.state,
                summary.experiment.workload,
                summary.experiment.target,
                mesh_text(summary.experiment.mesh, ","),
                shorten(verdict, _LONGEST).strip("'") if verdict else "–",
                _result(summary, came) or "–",
                *([named] if any(labels) else []),
            )
        )
    return table(rows)


def _came(lab: Lab, run: str) -> Came | None:
    """What a row shows of a run's result; None where it has none, or one of another version."""
    with suppress(UnreadableRun):
        facts = lab.facts(run)
        return came_out(facts) if facts else None
    return None


def _result(summary: RunSummary, came: Came | None) -> str:
    """The figure of a run, and how it is known."""
    kind, _ = evidence_of(summary)
    imprecise = "imprecise" if summary.is_imprecise else ""
    known = kind.lower() if summary.answer and not summary.experiment.what.is_bare_array else ""
    return ", ".join(filter(None, (*figure(summary, came), known, imprecise)))


def left_out_words(count: int) -> str:
    """That the command line's table leaves out the runs of searches."""
    what = "1 run of a search is" if count == 1 else f"{count_text(count)} runs of searches are"
    return f"{what} left out: --searches lists them"
