"""Kills (-9) and freezes of members, Dask workers and the scheduler of a named cluster, and runs on 64
members: `--kept FILE` keeps each strike, so that it can be stopped and started again.

Members use the stand-in engine of the tests, or JAX with `--jax`: what is tried is the lab, the
process of the Dask client, and the tasks that carry members.
"""

import json
import os
import random
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import dask_processes
from bench.dask_processes import pid_of
from bench.figures import Asked, Figures, measure
from bench.hosts import children, is_alive
from bench.kills import QUICK, ROUNDS, STANDIN
from spmd_core.base import Settings
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.lab import Lab

ROOT = Path(__file__).resolve().parents[1]
HOSTS, STUCK_S, ORPHAN_S = 3, 120.0, 10.0
STRUCK = ("member", "Dask worker", "scheduler")
SETTINGS = Settings(
    run_timeout_s=600, cancel_grace_s=20, terminate_grace_s=1, lock_retry_s=0.2, poll_s=0.1
)


class Cluster:
    """A scheduler and its workers on loopback, started again where they are gone."""

    def __init__(self, folder: Path, has_jax: bool):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address, self._folder = f"tcp://127.0.0.1:{self.port}", folder
        engine = [] if has_jax else [str(STANDIN)]
        self._environ = os.environ | {"PYTHONPATH": os.pathsep.join([*engine, str(ROOT)])}
        self.scheduler: ForkServerProcess | None = None
        self.workers: list[ForkServerProcess] = []

    def ready(self, workers: int) -> None:
        """Start what is missing, and wait until it has joined; a worker ends with its scheduler,
        some time after it.
        """
        deadline = time.monotonic() + STUCK_S
        while time.monotonic() < deadline:
            if self.scheduler is None or not self.scheduler.is_alive():
                self.scheduler = self._started("scheduler", "--port", str(self.port))
            self.workers = [each for each in self.workers if each.is_alive()]
            for _ in range(workers - len(self.workers)):
                self.workers.append(self._started("worker", self.address))
            if self.has(workers, 10.0):
                return
        raise AssertionError("workers did not join")

    def has(self, workers: int, within_s: float) -> bool:
        """Whether the scheduler comes to know so many in that time."""
        from distributed import Client

        with suppress(OSError), Client(self.address, timeout=within_s, set_as_default=False) as one:
            return until(
                lambda: len(one.scheduler_info(n_workers=-1)["workers"]) == workers, within_s
            )
        return False

    def end(self) -> None:
        """Kill all of it."""
        dask_processes.end(*filter(None, (self.scheduler, *self.workers)))

    def _started(self, what: str, *words: str) -> ForkServerProcess:
        return dask_processes.started(what, words, self._environ, self._folder)


def asked(has_jax: bool, is_long: bool, number: int = 0) -> Experiment:
    """A small experiment, which is sampled for long or ends at once."""
    fields = {"workload": "elementwise", "target": "cluster:pod", "strategies": ["auto"]}
    if not has_jax:
        seed = ROUNDS if is_long else QUICK
        return parse_experiment(fields | {"mesh": {"x": 8}, "seed": seed})
    timing = {"samples": 1000, "min_seconds": 60} if is_long else {"samples": 2, "min_seconds": 0}
    return parse_experiment(fields | {"mesh": {"x": 4}, "seed": number, "timing": timing})


@contextmanager
def opened(folder: Path, cluster: Cluster) -> Iterator[Lab]:
    """A lab that knows the cluster."""
    lab = Lab.open(folder, settings=replace(SETTINGS, clusters=(("pod", cluster.address),)))
    try:
        yield lab
    finally:
        lab.close()


def until(condition: Callable[[], Any], within_s: float) -> bool:
    """Whether a condition came true in that time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def strike(
    lab: Lab, cluster: Cluster, dice: random.Random, has_jax: bool, freezes: bool
) -> dict[str, Any]:
    """A run on all hosts, of which one process is struck; how that ended."""
    cluster.ready(HOSTS)
    run = lab.submit(asked(has_jax, True, dice.randrange(1000)))
    begun = until(lambda: lab.status(run).phase == "sample" or lab.status(run).is_over, STUCK_S)
    time.sleep(dice.random())
    assert cluster.scheduler
    members = [pid for worker in cluster.workers for pid in children(pid_of(worker))]
    what = dice.choice(STRUCK)
    among = {
        "member": members,
        "Dask worker": [pid_of(each) for each in cluster.workers],
        "scheduler": [pid_of(cluster.scheduler)],
    }[what]
    struck = dice.choice(among or [pid_of(cluster.scheduler)])
    os.kill(struck, signal.SIGSTOP if freezes else signal.SIGKILL)
    since = perf_counter()
    is_over = until(lambda: lab.status(run).is_over, STUCK_S)
    took_s, status = perf_counter() - since, lab.status(run)
    if freezes:
        with suppress(ProcessLookupError):  # the lab may have ended it
            os.kill(struck, signal.SIGCONT)
    until(lambda: not any(map(is_alive, members)), ORPHAN_S)
    words = status.error.message if status.error else ""
    return {
        "struck": what,
        "frozen": freezes,
        "state": status.state if begun and is_over else "stuck",
        "seconds": took_s,
        "orphans": sum(map(is_alive, members)),
        "members": len(members),
        "said": words[:200],
    }


def kills(figures: Figures, count: int, freezes: int, has_jax: bool, kept: Path) -> None:
    """So many kills and freezes, each with a run that must end; runs between them must succeed."""
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    dice, plan = random.Random(len(rows)), [False] * count + [True] * freezes
    with tempfile.TemporaryDirectory(prefix="spmd-lab-kills-") as name:
        cluster = Cluster(Path(name), has_jax)
        try:
            with opened(Path(name) / "data", cluster) as lab:
                good = list[str]()
                for number in range(len(rows), len(plan)):
                    if number % 5 == 0:
                        cluster.ready(HOSTS)
                        good.append(lab.submit(asked(has_jax, False, number)))
                        lab.wait(good[-1], STUCK_S)
                    rows.append(strike(lab, cluster, dice, has_jax, plan[number]))
                    with kept.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
                    print(number, json.dumps(rows[-1]), flush=True)
                lost = sum(lab.result(run) is None for run in good)
        finally:
            cluster.end()
    for frozen, what in ((False, "kills"), (True, "freezes")):
        of = [row for row in rows if row["frozen"] == frozen]
        told = f"of {len(of)}, {min((row['members'] for row in of), default=0)} members at least"
        figures.add(
            f"{what}: not crashed", sum(row["state"] != "crashed" for row in of), most=0, note=told
        )
        figures.add(f"{what}: orphans after 10 s", sum(row["orphans"] for row in of), most=0)
        slowest = max((row["seconds"] for row in of), default=0.0)
        figures.add(f"{what}: until the run had ended", slowest, "s", most=15)
    figures.add("runs between them that were lost", lost, most=0, note=f"of {len(good)}")


def many(figures: Figures, members: int) -> None:
    """A run and a cancellation on many members that are up, and the driver's own CPU and threads."""
    with tempfile.TemporaryDirectory(prefix="spmd-lab-many-") as name:
        cluster = Cluster(Path(name), False)
        try:
            cluster.ready(members)
            with opened(Path(name) / "data", cluster) as lab:
                up = lab.wait(lab.submit(asked(False, False)), 900)
                assert up.state == "succeeded", up
                driver = lab.worker_pid or 0
                run, since, cpu = lab.submit(asked(False, False)), perf_counter(), cpu_s(driver)
                state = lab.wait(run, STUCK_S).state
                figures.add(
                    f"a run on {members} members", perf_counter() - since, "s", most=5, note=state
                )
                figures.add("the driver's CPU meanwhile", cpu_s(driver) - cpu, "s")
                run = lab.submit(asked(False, True))
                until(lambda: lab.status(run).phase == "sample", STUCK_S)
                threads = len(list(Path(f"/proc/{driver}/task").iterdir()))
                figures.add("threads of the driver", threads, most=members // 2)
                since = perf_counter()
                lab.cancel(run)
                state = lab.wait(run, STUCK_S).state
                figures.add("its cancellation", perf_counter() - since, "s", most=2, note=state)
                figures.add("load of this machine", os.getloadavg()[0])
        finally:
            cluster.end()


def cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(options: Asked, figures: Figures) -> None:
    if options.kills + options.freezes:
        kills(figures, options.kills, options.freezes, options.jax, options.kept)
    if options.members:
        many(figures, options.members)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        kills=60,
        freezes=10,
        members=(64, "of the run on many; 0: none"),
        jax=(False, "members with JAX"),
        kept=(Path("cluster_kills.jsonl"), "a line for each strike"),
    )
