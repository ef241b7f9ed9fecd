"""Predicted beside measured on this machine: 64 random shardings of a matmul at two sizes and of the
layer, on `cpu:8`, mesh 2x4, by a calibration made just before. Nothing is fitted on what is judged.

`python -m bench.predicted_here [COUNT] [FOLDER]`: so many shardings of each, and where the runs are
kept; what is there already is not measured again. On an idle machine all takes under 4 minutes.
"""

import os
import random
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import Figures
from spmd_core.base.errors import RequestError
from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.experiment.types import axes_json
from spmd_core.lab import Lab
from spmd_core.time.bandwidth.roofline import with_roofline
from spmd_core.time.model.stored import calibration, calibration_of

COUNT = 64
MESH = {"x": 2, "y": 4}
BASES = {
    "matmul 256": ("matmul", {"m": 256, "k": 256, "n": 256}),
    "matmul 1024": ("matmul", {"m": 1024, "k": 1024, "n": 1024}),
    "layer": ("layer", {"batch": 256, "in": 512, "out": 256}),
}


def shardings(workload: str, dims: dict[str, int], count: int, seed: int) -> list[Experiment]:
    """Different experiments whose arrays each have a random spec of their own."""
    draw, found = random.Random(seed), {}
    base = parse_experiment(
        {
            "workload": workload,
            "target": "cpu:8",
            "mesh": MESH,
            "dims": dims,
            "strategies": ["auto"],
            "timing": {"samples": 15, "min_seconds": 0.1},
        }
    )
    for _ in range(100 * count):
        overrides = {}
        for array in base.what.arrays:
            left = ["x", "y"]
            draw.shuffle(left)
            rank = len(base.shape(array.name))
            spec: list[tuple[str, ...]] = [() for _ in range(rank)]
            for axis in left[: draw.randint(0, 2)]:
                at = draw.randrange(rank)
                spec[at] = (*spec[at], axis)
            overrides[array.name] = [axes_json(axes) for axes in spec]
        try:
            tried = base.vary(overrides=overrides)
        except RequestError:
            continue
        found[tried.id] = tried
        if len(found) == count:
            break
    return list(found.values())


def ranks(values: list[float]) -> list[int]:
    """The place of each value in their order."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(at) for at in range(len(values))]


def spearman(left: list[float], right: list[float]) -> float:
    """Rank correlation."""
    n = len(left)
    apart = sum((a - b) ** 2 for a, b in zip(ranks(left), ranks(right), strict=True))
    return 1 - 6 * apart / (n * (n * n - 1))


def judge(figures: Figures, lab: Lab, name: str, count: int) -> None:
    """How predictions order and hit what was measured."""
    workload, dims = BASES[name]
    pairs, fastest = [], []
    for experiment in shardings(workload, dims, count, seed=1):
        run = lab.latest(experiment) or lab.submit(experiment)
        lab.wait(run)
        result = lab.result(run)
        if result is None:
            continue
        known = calibration(experiment, lab.latest, lab.result)
        found = with_roofline(result, known).strategies["auto"]
        if found.median_s and found.predicted_s:
            pairs.append((found.predicted_s.estimate, found.median_s))
            fastest.append(min(found.samples_s))
    predicted, measured = ([pair[at] for pair in pairs] for at in (0, 1))
    best = min(pairs)[1]
    errors = sorted(abs(a / b - 1) for a, b in pairs)
    note = (
        f"{len(pairs)} shardings; Spearman of the medians with the fastest samples: "
        f"{spearman(measured, fastest):.3f}; load {os.getloadavg()[0]:.1f}"
    )
    figures.add(f"{name}: Spearman", spearman(predicted, measured), least=0.95, note=note)
    figures.add(f"{name}: regret of the first", best / min(measured) - 1, most=0.03, note=note)
    figures.add(f"{name}: median error", errors[len(errors) // 2], most=0.10, note=note)


def main() -> int:
    """Calibrate, then each base."""
    count, figures = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT, Figures()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(sys.argv[2] if len(sys.argv) > 2 else folder))
        try:
            base = shardings("matmul", {"m": 256, "k": 256, "n": 256}, 1, 0)[0]
            begun = time.monotonic()
            lab.wait(lab.submit(calibration_of(base)))
            figures.add(
                "seconds of the calibration",
                time.monotonic() - begun,
                most=20,
                note=f"load {os.getloadavg()[0]:.1f}",
            )
            for name in BASES:
                judge(figures, lab, name, count)
        finally:
            lab.close()
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
