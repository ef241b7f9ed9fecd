"""Arrays of 1 MiB to 256 MiB: every workload and strategy, dtype, size and parity, and leading dims
of size 1: whether each runs, is right, and is ranked.

    python -m bench.real_sizes FOLDER [--minutes 60] [--only TEXT] [--list]

Every pair of two factors' values is in some cell that can be run. FOLDER keeps the cells that held
in cells.jsonl: the next call goes on with the others. Exits with 1 where a cell fails or is left.
"""

import json
import sys
import time
from pathlib import Path

from bench.figures import Asked, Figures, measure
from bench.real_cells import Cell, declare_own, every_cell, experiment_of, pairwise
from spmd_core.base import RequestError, Settings
from spmd_core.lab import Lab
from spmd_core.results import Result

RUN_TIMEOUT_S = 900.0


def fault(cell: Cell, result: Result) -> str | None:
    """Why a cell does not hold: a strategy failed, is not right, or is not ranked; None where it
    holds."""
    for name, found in result.strategies.items():
        if found.error is not None:
            return f"{name} fails with {found.error.kind}: {found.error.message}"
        if not found.correct:
            verdict = "not judged" if found.correct is None else f"wrong: {found.wrong}"
            return f"{name} is {verdict}; {'; '.join(found.notes)}"
    if cell.what.is_bare_array:  # whose placing is not timed
        return None
    ranked = result.comparison and {
        result.comparison.fastest,
        *(ratio.strategy for ratio in result.comparison.ratios),
    }
    return None if ranked == set(result.strategies) else f"ranked: {ranked or 'nothing'}"


def run(lab: Lab, cell: Cell) -> str | None:
    """Why a cell that is run as a user's run is does not hold; None where it does."""
    experiment = experiment_of(cell)
    assert experiment is not None
    try:
        run = lab.submit(experiment)
    except RequestError as error:
        return f"refused: {error}"
    status = lab.wait(run)
    result = lab.result(run)
    if status.state != "succeeded" or result is None:
        return f"{status.state}: {status.error}"
    return fault(cell, result)


def main(options: Asked, figures: Figures) -> None:
    until = time.monotonic() + 60 * options.minutes
    options.folder.mkdir(parents=True, exist_ok=True)
    declare_own(options.folder)
    cells = [cell for cell in pairwise(list(every_cell())) if options.only in cell.name]
    if options.list:
        print(*(cell.name for cell in cells), sep="\n")
        sys.exit()
    kept = options.folder / "cells.jsonl"
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    held = {json.loads(line)["cell"] for line in lines}
    failed = 0
    lab = Lab.open(options.folder / "data", settings=Settings(run_timeout_s=RUN_TIMEOUT_S))
    for cell in cells:
        if cell.name in held or time.monotonic() > until:
            continue
        began = time.monotonic()
        why = run(lab, cell)
        if why is not None:
            failed += 1
            print(f"{cell.name}: {why}", flush=True)
            continue
        held.add(cell.name)
        took = {"cell": cell.name, "seconds": round(time.monotonic() - began, 1)}
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(took) + "\n")
    lab.close()
    holding = sum(cell.name in held for cell in cells)
    left = len(cells) - holding - failed
    note = f"{failed} failed, {left} left for the next call"
    figures.add(
        "cells that run, are right, and are ranked",
        holding,
        f"of {len(cells)}",
        least=len(cells),
        note=note,
    )


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        folder={"place": True, "type": Path, "help": "keeps the cells that held, and the runs"},
        minutes=60.0,
        only=("", "cells whose line contains this"),
        list=(False, "print the cells, and run none"),
    )
