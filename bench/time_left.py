"""Time left of real runs, as the screen says it after a third, against what was left in the end.

    python -m bench.time_left [--runs 5] [--json]

Experiments of different sizes on 8 simulated devices, in one to three processes. The estimate is
that of the first look after a third of the run.
"""

import tempfile
import time
from pathlib import Path

from bench.figures import Asked, Figures, measure
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.lab import Lab
from spmd_core.runs import Pace, paced

LOOK_S = 0.1
APART = 0.25


def experiments() -> list[Experiment]:
    """Returns experiments that differ in workload, size and number of processes."""
    return [
        parse_experiment(
            {
                "workload": workload,
                "mesh": {"x": 8},
                "target": "cpu:8",
                "sharding": {dim: "x"},
                "dims": dims,
                "timing": {"processes": processes},
            }
        )
        for workload, dim, dims, processes in (
            ("layer", "batch", {"batch": 64, "in": 256, "out": 128}, 1),
            ("contraction", "rows", {"rows": 1024, "cols": 512}, 3),
            ("layer", "in", {"batch": 512, "in": 1024, "out": 1024}, 2),
            ("matmul", "m", {"m": 1024, "k": 1024, "n": 1024}, 3),
            ("mlp", "batch", {"batch": 256, "in": 512, "hidden": 1024, "out": 512}, 1),
        )
    ]


def looked(lab: Lab, experiment: Experiment) -> tuple[float, list[tuple[float, float | None]]]:
    """Returns the seconds of a run, and (elapsed, said to be left) of each look at it."""
    run, pace, looks = lab.submit(experiment), Pace(), []
    while not (status := lab.status(run)).is_over:
        if status.state == "running":
            pace, left_s = paced(status, pace)
            looks.append((status.elapsed_s or 0.0, left_s))
        time.sleep(LOOK_S)
    return status.elapsed_s or 0.0, looks


def main(asked: Asked, figures: Figures) -> None:
    """Run them one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        for experiment in experiments()[: asked.runs]:
            took_s, looks = looked(lab, experiment)
            elapsed_s, left_s = next(
                ((at, left) for at, left in looks if at >= took_s / 3 and left is not None),
                (took_s, None),
            )
            off = abs(left_s - (took_s - elapsed_s)) / took_s if left_s is not None else 1.0
            note = f"took {took_s:.1f} s; said {left_s} s left after {elapsed_s:.1f} s"
            name = f"{experiment.what.name} in {experiment.processes} processes"
            figures.add(f"{name}: time left is off by", off, "of the run", most=APART, note=note)
        lab.close()


if __name__ == "__main__":
    measure(main, __doc__, runs=(5, "how many of the experiments"))
