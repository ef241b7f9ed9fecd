"""A data folder of 10,000 runs: CPU milliseconds of a rerun of History, of a search, of opening one
run and of comparing eight, on a real dashboard.

    python -m bench.many_runs [--runs 10000] [--folder FOLDER] [--reruns 10] [--json]

The runs are of 500 experiments, each made anew from a real form, and pass the import of archives. A
`--folder` that has them is used again.
"""

import asyncio
import io
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.dashboard import cpu_s, viewer
from bench.figures import Asked, Figures, measure
from bench.server import Server
from bench.values import result, strategy
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab, container
from spmd_core.lab.archive.contents import run_json
from spmd_core.lab.store.database import FILE_NAME

RUNS, EXPERIMENTS = 10_000, 500
WARM_UP = 2
LIMITS_MS = {"history": 150.0, "search": 150.0, "open one": 100.0, "compare 8": 500.0}


def members(count: int) -> Iterator[tuple[str, bytes]]:
    """Runs as an archive holds them: over a year, with names, tags and times of their own."""
    for number in range(count):
        run = f"run-{number:06}"
        spec = {
            "workload": "layer",
            "target": "cpu:8",
            "mesh": {"x": 8},
            "dims": {"batch": 8 * (1 + number % EXPERIMENTS), "in": 64, "out": 16},
            "sharding": {"batch": "x"},
            "strategies": ["auto", "single"],
        }
        slow = 1 + number % 97 / 97
        timed = {"auto": strategy(1e-5 * slow), "single": strategy(3e-5 * slow)}
        made = result(timed, run=run, experiment=parse_experiment(spec))
        at = time.time() - 365 * 86_400 * (1 - number / count)
        labels = {"name": f"trial {number}", "tags": [f"week{number % 52}"]}
        fields = {
            "run": run,
            "experiment": made.experiment.to_json(),
            "state": "succeeded",
            "submitted_at": at,
            "started_at": at,
            "finished_at": at + 5,
            "labels": labels if number % 3 == 0 else {},
        }
        yield f"runs/{run}.json", run_json(fields, made.model_dump_json())


def fill(folder: Path, count: int) -> None:
    """Store the runs as those of this machine, unless they are."""
    lab = Lab.open(folder / "data", serve=False)
    here = len(lab.archives.every())
    if here < count:
        file = io.BytesIO()
        container.write(file, "elsewhere", 1.0, members(count))
        print(json.dumps(lab.archives.import_file(file).to_json())[:80])
    lab.close()
    with closing(sqlite3.connect(folder / "data" / FILE_NAME)) as db, db:
        db.execute("UPDATE runs SET origin = NULL")  # not foreign: their rows are the longer ones


async def rerun_ms(server: Server, page: str, query: str, reruns: int) -> tuple[float, float]:
    """CPU and wall milliseconds of one rerun, on average."""
    assert server.process is not None
    async with viewer(server, page, query) as session:
        for _ in range(WARM_UP):
            await session.rerun()
        cpu, wall = cpu_s(server.process.pid), time.perf_counter()
        for _ in range(reruns):
            await session.rerun()
        spent = cpu_s(server.process.pid) - cpu, time.perf_counter() - wall
    return 1e3 * spent[0] / reruns, 1e3 * spent[1] / reruns


def main(options: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="spmd-lab-bench-") as temporary:
        folder = options.folder or Path(temporary)
        fill(folder, options.runs)
        eight = ",".join(f"run-{options.runs - 1 - at:06}" for at in range(8))
        screens = {
            "history": ("history", ""),
            "search": ("history", "search=tag%3Aweek7+batch%3D512"),
            "open one": ("compare", f"run=run-{options.runs // 2:06}"),
            "compare 8": ("history", f"runs={eight}"),
        }
        server = Server(folder)
        server.start()
        try:
            for name, (page, query) in screens.items():
                cpu, wall = asyncio.run(rerun_ms(server, page, query, options.reruns))
                note = f"{wall:.0f} ms on the clock, {options.runs:,} runs"
                figures.add(name, cpu, "ms CPU", most=LIMITS_MS[name], note=note)
        finally:
            server.stop()


if __name__ == "__main__":
    measure(main, __doc__, runs=RUNS, folder=Path, reruns=10)
