"""Predicts the points of a sweep through the Lab, known ones from the store, and prints the curves
as a table or as JSON.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence

from spmd_core.answers import best_figures, points_table
from spmd_core.base import numbered, refuse
from spmd_core.commands.waiting import show_progress, wait
from spmd_core.experiment import Experiment
from spmd_core.lab import Batch, Lab
from spmd_core.runs import RunStatus
from spmd_core.sheets import sheet_lines
from spmd_core.surveys import (
    Price,
    row_cost,
    row_run,
    scaled_rows,
    sweep_headline,
    sweep_notes,
    total_batch,
)
from spmd_core.sweeps import (
    VARIABLES,
    Asked,
    Sweep,
    SweepPoint,
    SweepRow,
    compile_seconds,
    curves,
    estimated,
    look,
    missing_compilers,
    parse_sweep,
    row_json,
    seconds_taken,
    start,
    to_compile,
    variants,
)
from spmd_core.words import phase_words

# arguments of `predict` that make it a sweep
ARGUMENTS = {
    "--sweep": {
        "metavar": "WHAT=VALUES",
        "help": f"vary one thing of {', '.join(VARIABLES)}: chips={VARIABLES['chips'].example}, or "
        f'mesh="{VARIABLES["mesh"].example}"',
    },
    "--scaling": {
        "choices": ("weak", "strong"),
        "default": "weak",
        "help": "of --sweep chips: weak keeps the batch per chip (default), strong the total batch, "
        "with the best mesh at each number of chips where --mesh names none",
    },
}


def main(arguments: Namespace, base: Experiment) -> int:
    """Print the sweep of `base`: 0 where any point is predicted (or, with --estimate, can be), 1
    where none is, 130 where it was interrupted.
    """
    if arguments.keep:
        raise refuse(
            "--keep with --sweep",
            "would write one baseline for many points",
            "keep the points that matter one by one",
        )
    sweep = parse_sweep(base, arguments.sweep, arguments.scaling, arguments.meshes)
    points = variants(sweep)
    if arguments.estimate:
        rows = curves(points, [estimated(point) for point in points])
        _print(sweep, rows, arguments)
        return 0 if any(row.outcome.state == "not compiled" for row in rows) else 1
    lab, asked = Lab.open(serve=False), Asked()
    known = look(lab, points)
    missing = _all(points) if arguments.fresh else to_compile(points, known)
    for refusal in missing_compilers(points, known):
        print(refusal, file=sys.stderr)
    if missing and sys.stderr.isatty():
        took = seconds_taken(lab, known)
        seconds = sum(compile_seconds(point, took) for point in missing)
        print(f"{numbered(len(missing), 'compile')}, roughly {seconds:.0f} s", file=sys.stderr)
    batch, interrupted, shown = Batch(lab), False, set[str]()
    try:
        start(batch, missing, asked)
        for point in missing:
            _wait(lab, point, asked, arguments.timeout, shown)
    except KeyboardInterrupt:
        interrupted = True
        batch.close()
    rows = curves(points, look(lab, points, asked))
    _print(sweep, rows, arguments)
    if interrupted:
        return 130
    return 0 if any(row.outcome.numbers is not None for row in rows) else 1


def _all(points: Sequence[SweepPoint]) -> tuple[SweepPoint, ...]:
    """Every point that can be and may fit, equal experiments once."""
    return tuple(
        {
            point.experiment.id: point
            for point in points
            if point.experiment and not point.is_too_large
        }.values()
    )


def _wait(lab: Lab, point: SweepPoint, asked: Asked, timeout_s: float, named: set[str]) -> None:
    """Wait for a point's run, and end it where it takes longer; one that the Lab refused has none.
    What holds it up is printed once.
    """
    if point.experiment is None or (run := asked.runs.get(point.experiment.id)) is None:
        return

    def shown(status: RunStatus) -> None:
        if status.held_up and status.held_up not in named:
            named.add(status.held_up)
            show_progress()
            print(f"waiting: {status.held_up}", file=sys.stderr, flush=True)
        elapsed = f"{status.elapsed_s or 0:6.1f} s"
        show_progress(f"{elapsed}  {point.label}: {phase_words(status)}")

    if not wait(lab, run, timeout_s, shown).is_over:
        lab.cancel(run)
        lab.wait(run, on_change=shown)


def _json(row: SweepRow, price: Price, tokens: float | None) -> dict[str, object]:
    run = row_run(row, tokens, price)
    training = {"training": run.model_dump()} if run else {}
    return row_json(row) | row_cost(row, price).to_json() | training


def _print(sweep: Sweep, rows: Sequence[SweepRow], arguments: Namespace) -> None:
    price, tokens = arguments.price_per_chip_hour, arguments.tokens
    show_progress()
    if arguments.json:
        print(json.dumps([_json(row, price, tokens) for row in rows]))
        return
    if answer := sweep_headline(sweep, rows):
        print(f"{answer}\n")
    if best := best_figures(sweep, [*rows, *scaled_rows(total_batch(sweep))], tokens, price):
        print("\n".join(f"{each.title}: {each.value} {each.more}" for each in best), end="\n\n")
    print("\n".join(sheet_lines(points_table(rows, "terminal", price, sweep, tokens))))
    for row in rows:
        if words := row_json(row)["words"]:
            print(f"{row.point.label}: {words}")
    for note in sweep_notes(sweep, rows):
        print(f"note: {note[0].lower()}{note[1:].removesuffix('.')}")
