"""Two Dask workers, each pinned to a core, against one so pinned: candidates per second of the same
search for a topology that is not attached. Needs 2 idle cores, and more for the rest.

`python -m bench.search_cluster [COUNT]`: about so many candidates are compiled with each.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.figures import Figures
from spmd_core.base.settings import read_settings
from spmd_core.lab import Lab
from spmd_core.lab.store.searches import Searches
from spmd_core.search.array_question import read_array_question
from spmd_core.trials.searching.search import Search

COUNT, FASTER, BUDGET_S = 24, 1.7, 600.0
SPEC = {
    "workload": "mlp",
    "target": "tpu:v5e:4x4",
    "mesh": {"x": 4, "y": 4},
    "sharding": None,
    "dims": {"batch": 2048, "in": 1024, "hidden": 4096, "out": 1024},
    "strategies": ["auto"],
}
ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def cluster(folder: Path, cores: list[int]) -> Iterator[str]:
    """The address of a scheduler with a worker on each core; what a worker starts stays there."""
    file, started = folder / f"scheduler-{len(cores)}.json", []
    environ = os.environ | {"PYTHONPATH": str(ROOT)}

    def start(core: int | None, module: str, *words: str) -> None:
        command = [
            sys.executable,
            "-m",
            f"distributed.cli.{module}",
            "--dashboard-address=127.0.0.1:0",
            "--scheduler-file",
            str(file),
            *words,
        ]
        pinned = [] if core is None else ["taskset", "--cpu-list", str(core)]
        with (folder / f"{module}.log").open("a") as log:
            started.append(
                subprocess.Popen(
                    [*pinned, *command], env=environ, cwd=folder, stdout=log, stderr=log
                )
            )

    try:
        start(None, "dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        while not file.exists():
            time.sleep(0.1)
        for core in cores:
            start(core, "dask_worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
        yield json.loads(file.read_text())["address"]
    finally:
        for process in started:  # a worker without its scheduler would wait for it
            process.kill()
            process.wait()


def candidates_per_second(folder: Path, cores: list[int], count: int) -> tuple[float, int]:
    """(candidates compiled per second, how many), from the first one's end to the last one's: a
    worker's start, which loads the compiler, is not what is compared.
    """
    data = folder / f"data-{len(cores)}"
    ended: list[float] = []
    with cluster(folder, cores) as address:
        lab = Lab.open(data, settings=replace(read_settings(), dask=address))
        store = Searches(data)
        search = Search(lab, store, read_array_question(SPEC), BUDGET_S)
        keep = search._keep

        def counted(changed: object) -> None:
            listed = list(changed)  # type: ignore[call-overload]
            ended.extend(time.monotonic() for each in listed if each.fate in ("compiled", "failed"))
            if len(ended) > count:
                search.cancel()
            keep(listed)

        search._keep = counted  # type: ignore[method-assign]
        search.run()
        store.close()
        lab.close()
    warm = ended[2 * len(cores) :]
    return (len(warm) - 1) / (warm[-1] - warm[0]), len(warm)


def main() -> int:
    """Print the figures; exit code 1 where one misses its goal."""
    count, figures = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT, Figures()
    cores = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory(prefix="search-cluster-") as name:
        (one, _), (two, many) = (
            candidates_per_second(Path(name), pinned, count) for pinned in (cores[:1], cores)
        )
    figures.add("one worker: candidates per second", one)
    figures.add(
        "two workers over one",
        two / one,
        "x",
        least=FASTER,
        note=f"{two:.2f} a second, {many} counted; load {os.getloadavg()[0]:.1f}",
    )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
