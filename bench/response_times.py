"""How soon the Lab answers: a look at the queue, a history of hundreds, a worker that is killed, a
run that is cancelled.

Run: python -m bench.response_times [rounds]
"""

import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import Figures
from spmd_core.base.settings import Settings
from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.lab import Lab

HISTORY, LOOKS = 300, 200
QUICK = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": {"x": 8},
    "sharding": {"in": "x"},
    "strategies": ["single"],
    "timing": {"samples": 1, "min_seconds": 0.0},
}
LONG = parse_experiment(QUICK | {"timing": {"samples": 1000, "min_seconds": 60.0}})
COMPILE = parse_experiment(
    {
        "workload": "decoder",
        "target": "tpu:v5e:16x16",
        "mesh": {"fsdp": 256},
        "dims": {"batch": 1536, "sequence": 2048},
        "options": {"model": "scaled:16"},
    }
)


def fill(lab: Lab) -> str:
    """Store many runs; the id of one that has a result."""
    run = lab.submit(parse_experiment(QUICK))
    lab.wait(run, 120)
    result = lab.result(run)
    assert result is not None
    # 900 commits on the disk are not what is measured
    lab._store._writer.execute("PRAGMA synchronous = OFF")
    for number in range(HISTORY):
        name = f"run-{number:03}"
        lab._store.submit(name, result.experiment)
        lab._store.start(name)
        lab._store.finish(name, "succeeded", result=result.model_copy(update={"run": name}))
    return run


def median_ms(call: Callable[[], object], rounds: int) -> float:
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(seconds)


def looking_cpu_ms(lab: Lab, run: str) -> float:
    """CPU milliseconds of this process, threads and all, for a look at the queue and at a run."""
    begun = time.process_time()
    for _ in range(LOOKS):
        lab.active()
        lab.status(run)
    return 1e3 * (time.process_time() - begun) / LOOKS


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.002)


def ended_s(lab: Lab, experiment: Experiment, phase: str, end: Callable[[str], object]) -> float:
    """Seconds from ending a run in a phase of it until its state says so."""
    run = lab.submit(experiment)
    until(lambda: lab.status(run).phase == phase or lab.status(run).is_over)
    begun = time.perf_counter()
    end(run)
    lab.wait(run)
    return time.perf_counter() - begun


def main() -> int:
    rounds, figures = int(sys.argv[1]) if len(sys.argv) > 1 else 3, Figures()
    with tempfile.TemporaryDirectory(prefix="spmd-lab-bench-") as folder:
        lab = Lab.open(Path(folder), settings=Settings())

        def kill(run: str) -> None:
            os.kill(lab.status(run).worker_pid or 0, signal.SIGKILL)

        run = fill(lab)
        figures.add(f"history of {HISTORY} runs", median_ms(lab.history, 20), "ms", most=50.0)
        figures.add(
            "a look at the queue and at a run", looking_cpu_ms(lab, run), "ms CPU", most=3.0
        )
        for what, experiment, phase, end, most in (
            ("a worker that is killed: to the state that says so", LONG, "sample", kill, 2.0),
            ("a cancel between rounds: to the end of the run", LONG, "sample", lab.cancel, 2.0),
            (
                "a cancel of a long compile: to the end of the run",
                COMPILE,
                "lower",
                lab.cancel,
                10.0,
            ),
        ):
            seconds = [ended_s(lab, experiment, phase, end) for _ in range(rounds)]
            figures.add(what, max(seconds), "s", most=most, note=f"the longest of {rounds}")
        lab.close()
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
