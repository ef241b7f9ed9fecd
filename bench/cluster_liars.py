"""Searches on a cluster of which one worker lies, dies, hangs or has other versions: candidates that
are lost, and workers that the answer does not name.

The engine of the workers is the stand-in of the tests: what is tried is the lab, the process of the
Dask client, and what both make of a worker.
"""

import os
import random
import signal
import tempfile
import threading
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import dask_processes
from bench.cluster_kills import SETTINGS, STUCK_S, Cluster, until
from bench.figures import Asked, Figures, measure
from spmd_core.lab import Lab, Searches
from spmd_core.search import read_array_question
from spmd_core.trials import Search
from spmd_core.words import fact_words

WORKERS = 3
QUESTION = {
    "workload": "elementwise",
    "target": "tpu:v5e:2x4",
    "mesh": {"x": 2, "y": 4},
    "sharding": None,
    "dims": {"rows": 16, "cols": 8},
    "strategies": ["auto"],
    "seed": 0,
}


class Unpicklable:
    """A value that cannot be read where it arrives."""

    def __init__(self, error: type[Exception] = ValueError):
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _refused, (self._error,)


def _refused(error: type[Exception]) -> None:
    raise error("a worker of another version")


def _raise() -> None:
    raise OSError("no space left on device")


def _packed(text: str) -> bytes:
    import zlib

    return zlib.compress(text.encode())


LIES = {
    "no bytes": lambda: 7,
    "no deflated bytes": lambda: b"junk",
    "no JSON": lambda: _packed("junk"),
    "another state": lambda: _packed('{"state": "running"}'),
    "an error": _raise,
    "unpicklable": Unpicklable,
    "as a broken connection": lambda: Unpicklable(EOFError),
}
VERSIONS = {"versions": '{"jax": "0.1"}', "dies when asked": None}  # of a worker: what it answers
HARMS = (*LIES, *VERSIONS, "dies", "hangs")


def mislead(address: str, worker: str, lie: str) -> None:
    """Have a worker answer so from now on."""
    from distributed import Client

    def replace_function() -> None:
        import os

        from bench.cluster_liars import LIES, VERSIONS  # pyrefly: ignore[missing-module-attribute]
        from spmd_core.lab.cluster import remote

        if lie in VERSIONS:
            remote.versions_here = lambda: VERSIONS[lie] or os._exit(1)
        else:
            remote.compiled = lambda *_: LIES[lie]()  # pyrefly: ignore[bad-assignment]

    with Client(address, timeout=STUCK_S, set_as_default=False) as client:
        client.run(replace_function, workers=[worker])


def searched(cluster: Cluster, folder: Path, harm: str, dice: random.Random) -> dict[str, Any]:
    """A search during which one worker does harm; what became of its candidates, and what it says."""
    cluster.ready(WORKERS)
    struck, worker = _newest(cluster)
    if harm in (*LIES, *VERSIONS):
        mislead(cluster.address, worker, harm)
    lab = Lab.open(folder, settings=replace(SETTINGS, dask=cluster.address))
    with closing(lab), closing(Searches(folder)) as store:
        search = Search(lab, store, read_array_question(QUESTION), STUCK_S)
        thread = threading.Thread(target=search.run)
        thread.start()
        if harm in ("dies", "hangs"):
            until(lambda: any(each.stage == "measured" for each in search.answer.found), STUCK_S)
            threading.Event().wait(0.3 * dice.random())
            os.kill(struck, signal.SIGKILL if harm == "dies" else signal.SIGSTOP)
        thread.join(STUCK_S)
        stages = [each.stage for each in search.answer.found]
        said = " ".join([search.problem, *map(fact_words, search.answer.notes)])
    dask_processes.end(*[each for each in cluster.workers if each.pid == struck])
    return {
        "harm": harm,
        "state": search.state,
        "lost": sum(stage in ("failed", "estimated") for stage in stages),
        "of": len(stages),
        "named": worker in said,
        "said": said[:300],
    }


def _newest(cluster: Cluster) -> tuple[int, str]:
    """The process and the address of the worker that has joined last."""
    from distributed import Client

    def pid() -> int:
        return os.getpid()

    last = dask_processes.pid_of(cluster.workers[-1])
    with suppress(OSError), Client(cluster.address, timeout=STUCK_S, set_as_default=False) as one:
        pids: Any = one.run(pid)
        return next((found, each) for each, found in pids.items() if found == last)
    raise AssertionError("the worker is gone")


def main(options: Asked, figures: Figures) -> None:
    rows, dice = list[dict[str, Any]](), random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="spmd-lab-liars-") as name:
        cluster = Cluster(Path(name), False)
        try:
            for number in range(options.rounds):
                harm = HARMS[number % len(HARMS)]
                rows.append(searched(cluster, Path(name) / f"data{number}", harm, dice))
                print(number, rows[-1], flush=True)
        finally:
            cluster.end()
    note = f"of {sum(row['of'] for row in rows)} in {len(rows)} searches"
    figures.add("candidates lost", sum(row["lost"] for row in rows), most=0, note=note)
    figures.add("workers unnamed", sum(not row["named"] for row in rows), most=0)
    stuck = sum(row["state"] != "done" for row in rows)
    figures.add("searches that did not end as done", stuck, most=0)


if __name__ == "__main__":
    measure(main, __doc__, rounds=30, seed=0)
