"""Runs an experiment through the Lab and prints its result; Ctrl-C cancels the run and keeps what
was measured.
"""

import contextlib
import json
import signal
import sys
from argparse import Namespace

from spmd_core.answers import SIZES
from spmd_core.base import StorageError, refuse
from spmd_core.commands.output import FORCE, check_output, write_output
from spmd_core.commands.printed.report import report, shardings_report
from spmd_core.commands.remedies import HELP, with_tried
from spmd_core.commands.spec import SPEC, read_spec, with_option
from spmd_core.commands.waiting import interrupt, run_to_end
from spmd_core.experiment import Experiment
from spmd_core.lab import Batch, Lab
from spmd_core.pictures import TRACED, from_text, traces_text
from spmd_core.program import NAME as SHARDINGS
from spmd_core.results import Result, result_json
from spmd_core.roofline import calibration, with_roofline
from spmd_core.runs import RunStatus
from spmd_core.sheets import sheet_lines
from spmd_core.surveys import size_headline
from spmd_core.sweeps import SizePoint, at_sizes, begins, point_of, read_count
from spmd_core.terms import title
from spmd_core.trials import sizes_of, with_stored_answers
from spmd_core.words import kept_words, names_of, row_words, texts

SIZES_HELP = (
    "run it at N growing sizes instead, on one device and sharded: where sharding begins to win"
)


ARGUMENTS = {
    **SPEC,
    "--trace": {
        "metavar": "FILE",
        "help": "trace a few calls after the timing, and write the steps for Perfetto",
    },
    "--force": {"action": "store_true", "help": f"with --trace: {FORCE}"},
    "--remedies": {"action": "store_true", "help": HELP},
    "--sizes": {"metavar": "N", "help": SIZES_HELP},
    "--shardings": {
        "action": "store_true",
        "help": "print how the compiler shards each value of the programs",
    },
}


def _with_options(experiment: Experiment, arguments: Namespace) -> Experiment:
    if arguments.shardings and not (experiment.what.is_predicted and experiment.place.is_absent):
        lacks = "steps whose shardings can be read"  # a prediction has them without asking
        experiment = with_option(experiment, "shardings", lacks)
    if arguments.remedies and not experiment.what.is_predicted:
        raise refuse(
            f"--remedies with workload {experiment.workload}",
            "means nothing, since it is not compiled for its collectives",
            "leave it out, or use a computation such as layer",
        )
    if arguments.force and not arguments.trace:
        raise refuse("--force without --trace", "means nothing", "leave it out")
    if arguments.trace:
        check_output("--trace", arguments.trace, arguments.force)
        return with_option(experiment, "trace", "timed calls to trace")
    return experiment


def main(arguments: Namespace) -> int:
    """Run it and print the result: 0 where any strategy is ok, 1 where none is, 130 where it was
    interrupted.
    """
    experiment = read_spec(arguments.spec)
    signal.signal(signal.SIGTERM, interrupt)  # a job that is stopped cancels its run as Ctrl-C does
    if arguments.sizes is not None:
        if arguments.trace or arguments.remedies or arguments.shardings:
            raise refuse(
                "--sizes with --trace, --shardings or --remedies",
                "is more than one thing",
                "leave one out",
            )
        return run_sizes(experiment, read_count(arguments.sizes), arguments.json)
    experiment = _with_options(experiment, arguments)
    lab = Lab.open(serve=False)
    status, interrupted = run_to_end(lab, experiment)
    result = on_this_machine(lab, lab.result(status.run))
    if arguments.remedies and result and status.state == "succeeded" and not interrupted:
        result, interrupted = with_tried(lab, result)
    if arguments.shardings and result:
        result = result_with_shardings(lab, result)
    print_run(status, result, arguments.json)
    if arguments.shardings and result and not arguments.json:
        print("\n".join(shardings_report(result)))
    if arguments.trace:
        write_traces(lab, result, arguments.trace)
    if interrupted:
        return 130
    outcomes = result.strategies.values() if result else ()
    # failed: also a result that could not be stored
    is_ok = status.state != "failed" and any(outcome.status == "ok" for outcome in outcomes)
    return 0 if is_ok else 1


def write_traces(lab: Lab, result: Result | None, file: str) -> None:
    """The traced steps of a result's strategies as one file for Perfetto; nothing without any."""
    recorded = {
        title(name): text
        for name in (result.strategies if result else ())
        if result and (text := lab.text(result.run, name, TRACED))
    }
    if not recorded:
        print("no trace: no strategy got that far", file=sys.stderr)
    else:
        traces = {name: from_text(text) for name, text in recorded.items()}
        write_output("--trace", file, traces_text(traces, names_of, row_words))
        print(f"trace written to {file}: open it at ui.perfetto.dev", file=sys.stderr)


def result_with_shardings(lab: Lab, result: Result) -> Result:
    """A result with the shardings that its run left, which are stored apart."""
    strategies = {}
    for name, outcome in result.strategies.items():
        text = lab.text(result.run, name, SHARDINGS)
        read = texts.read_shardings(text) if text else None
        strategies[name] = outcome.model_copy(update={"shardings": read})
    return result.model_copy(update={"strategies": strategies})


def on_this_machine(lab: Lab, result: Result | None) -> Result | None:
    """A result with its roofs, where its target and mesh were calibrated (none of a foreign run),
    and with the remedies for its collectives; unchanged where the data folder went meanwhile.
    """
    if result is None:
        return None
    with contextlib.suppress(StorageError):
        if lab.notebook.origin(result.run):
            return with_stored_answers(lab, result)
        return with_stored_answers(lab, result).by_variant(
            lambda each: with_roofline(each, calibration(each.experiment, lab.latest, lab.result))
        )
    return result


def print_run(status: RunStatus, result: Result | None, as_json: bool) -> None:
    """The result on standard output, if there is one; why there is none, or only a part, on
    standard error.
    """
    if as_json:
        unfinished = {
            "run": status.run,
            "status": status.state,
            "experiment": status.experiment.to_json(),
            "error": status.error.model_dump() if status.error else None,
            "strategies": {},
        }
        print(json.dumps(result_json(result) if result else unfinished))
    elif result:
        print("\n".join(report(result)))
    if status.state != "succeeded":
        print(ended_words(status, result), file=sys.stderr)


def ended_words(status: RunStatus, result: Result | None) -> str:
    """How a run ended that did not succeed, on one line: why, else what it has."""
    why = " ".join(status.error.message.split()) if status.error else kept_words(result)
    return f"run {status.run} {status.state.replace('_', ' ')}: {why}"


def points_of(lab: Lab, experiments: tuple[Experiment, ...]) -> list[SizePoint]:
    """Every size, run one after another. Ctrl-C cancels the one under way and keeps the others."""
    points, batch = [], Batch(lab)
    try:
        for experiment in experiments:
            _, result = batch.run(experiment)
            points.append(point_of(experiment, result))
    except KeyboardInterrupt:
        batch.close()
    return points


def run_sizes(experiment: Experiment, count: int, as_json: bool) -> int:
    """Print the answer and a row for each size: 0 where any was computed, 1 where none was, 130
    where it was interrupted.
    """
    lab = Lab.open(serve=False)
    known = lab.facts(run) if (run := lab.latest(experiment)) else None
    experiments = sizes_of(known, count) if known else at_sizes(experiment, count)
    points = points_of(lab, experiments)
    if as_json:
        print(json.dumps(sizes_json(points)))
    else:
        table = sheet_lines(SIZES.table(points, "terminal"))
        print("\n".join([size_headline(points), "", *table]))
    if len(points) < len(experiments):
        print(f"cancelled: {len(points)} of {len(experiments)} sizes computed", file=sys.stderr)
        return 130
    return 0 if any(point.wins is not None for point in points) else 1


def sizes_json(points: list[SizePoint]) -> dict[str, object]:
    """The sizes as plain JSON values; seconds are measured, or predicted on absent devices."""
    first = begins(points)
    return {
        "sentence": size_headline(points),
        "begins": dict(first.experiment.dims) if first else None,
        "sizes": [
            {
                "dims": dict(point.experiment.dims),
                "run": point.run,
                "one_device_s": point.alone_s,
                "best": point.best,
                "best_s": point.best_s,
                "sharding_wins": point.wins,
                "ratio": point.ratio.model_dump(mode="json") if point.ratio else None,
                "experiment": point.experiment.to_json(),
            }
            for point in points
        ],
    }
