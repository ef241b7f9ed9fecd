"""A sweep of collectives on 8 simulated devices, five kinds by 12 sizes by three groups of axes: how
long it takes, when its first point is there, and how far five of them agree.

    python -m bench.sweep_repeated [--repeats 5]

Latency and bus bandwidth are the fits' (docs/collectives.md), one for each kind and group. The
spread is the interquartile range of the repeats over their median; the figure is the median spread.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from bench.figures import Figures
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.results.machine import Fit
from spmd_core.results.runs.states import RunStatus
from spmd_core.time.model.stored import measured

SWEEP = {"workload": "collectives", "target": "cpu:8", "mesh": {"x": 2, "y": 4}}
SWEEP_S, FIRST_S, SPREAD = 60.0, 1.0, 0.10


class Clock:
    """Seconds from the worker's being ready to the first point, and to the end of the sweep."""

    def __init__(self) -> None:
        self._began: float | None = None
        self.first_s = 0.0

    def look(self, status: RunStatus) -> None:
        """Note when the worker begins, and when a point is there."""
        now = time.monotonic()
        if self._began is None and status.state == "running" and status.phase:
            self._began = now
        if self._began is not None and status.points and not self.first_s:
            self.first_s = now - self._began

    @property
    def taken_s(self) -> float:
        """Seconds until now."""
        return time.monotonic() - (self._began or time.monotonic())


def spread(values: list[float]) -> float:
    """Interquartile range over the median."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle


def main() -> int:
    """Print each figure beside its goal; exit code 1 where one is missed."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--repeats", type=int, default=5)
    repeats, figures = ask.parse_args().repeats, Figures()
    fits: dict[tuple[str, tuple[str, ...]], list[Fit]] = defaultdict(list)
    clocks = []
    with tempfile.TemporaryDirectory(prefix="sweep-repeated-") as folder:
        lab = Lab.open(Path(folder))
        for _ in range(repeats):
            clock = Clock()
            status = lab.wait(lab.submit(parse_experiment(SWEEP)), on_change=clock.look)
            result = lab.result(status.run)
            assert result is not None and status.state == "succeeded", status.error
            found = measured(result)
            clocks.append((clock.taken_s, clock.first_s, len(found.points)))
            for fit in found.fits:
                fits[fit.kind, fit.axes].append(fit)
        lab.close()
    taken, first, points = (statistics.median(each) for each in zip(*clocks, strict=True))
    figures.add("a sweep", taken, "s", most=SWEEP_S, note=f"{points:.0f} points")
    figures.add("its first point", first, "s", most=FIRST_S)
    for name, of in (
        ("bus bandwidth", lambda fit: fit.bandwidth),
        ("latency", lambda fit: fit.latency_s),
    ):
        spreads = sorted(spread([of(fit) for fit in each]) for each in fits.values())
        figures.add(
            f"spread of {repeats} repeats, {name}",
            statistics.median(spreads),
            most=SPREAD,
            note=f"of {len(spreads)} fits, worst {spreads[-1]:.2f}",
        )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
