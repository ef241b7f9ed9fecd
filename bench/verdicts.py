"""How often are verdicts wrong, or none? Pairs of real programs, equal by construction or apart by 2,
5 and 20 %, timed in as many processes as a study takes: three, and up to five while it cannot be
told.

The machine as it is gives the loaded figures. For the quiet ones, rounds are drawn from what an idle
machine of two cores is known to do: within a process the turns of a round scatter by 2 %, and a
program's place makes it up to 1 % faster or slower, in each process anew.
Run: python -m bench.verdicts [processes] [folder that keeps their rounds, or has them]
"""

import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import Figures
from spmd_core.experiment import MARGIN, STUDY_PROCESSES
from spmd_core.results.processes import MOST_PROCESSES
from spmd_core.results.stats import compare

EQUAL, APART = 200, 200
SHARES = (0.02, 0.05, 0.20)
PLACED, NOISE, ROUNDS, TURNS = 0.005, 0.02, 20, 10  # of an idle machine
Process = dict[str, Any]  # the rounds of both programs
Judged = Counter[tuple[float, str]]  # (apart by, verdict)


def recorded(folder: Path, count: int) -> list[dict[str, Any]]:
    """What each process measured; `count` of them, of which those that are there are not run again."""
    for number in range(count):
        path = folder / f"{number}.json"
        if not path.exists():
            done = subprocess.run(
                [sys.executable, "-m", "bench.verdict_pairs", str(number)],
                capture_output=True,
                text=True,
                check=True,
            )
            path.write_text(done.stdout)
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def judged(processes: list[Process]) -> str:
    """The verdict on two programs, by as many processes as it takes; `wrong` where the one that was
    slowed is called faster.
    """
    for count in range(min(STUDY_PROCESSES, len(processes)), len(processes) + 1):
        found = compare(processes[0], ROUNDS, processes[1:count])
        assert found is not None
        if found.ratios[0].verdict != "cannot tell":
            break
    (ratio,) = found.ratios
    return "wrong" if ratio.differs and found.fastest == "slower" else ratio.verdict


def loaded(every: list[dict[str, Any]], most: int) -> Judged:
    """Verdicts on pairs of the recorded processes, each of a drawn group of them."""
    cells: dict[tuple[float, int, int], list[Process]] = {}
    for each in every:
        for pair in each["pairs"]:
            programs: Process = dict(zip(("first", "slower"), pair["rounds"], strict=True))
            cells.setdefault((pair["apart"], pair["case"], pair["copy"]), []).append(programs)
    draw, counts = random.Random(0), Counter()
    for shares, pairs in (((0.0,), EQUAL), (SHARES, APART)):
        keys = sorted(key for key in cells if key[0] in shares)
        for number in range(pairs):
            key = keys[number % len(keys)]
            counts[key[0], judged(draw.sample(cells[key], most))] += 1
    return counts


def quiet(most: int) -> Judged:
    """The same of drawn rounds."""
    generator, counts = np.random.default_rng(0), Counter()

    def process(share: float) -> Process:
        own = 1e-3 * np.exp(generator.normal(0, PLACED, 2)) * (1, 1 + share)
        noise = generator.normal(0, NOISE, (2, ROUNDS, TURNS))
        first, slower = (own[:, None, None] * np.exp(noise)).tolist()
        return {"first": first, "slower": slower}

    for number in range(EQUAL + APART):
        share = 0.0 if number < EQUAL else SHARES[number % len(SHARES)]
        counts[share, judged([process(share) for _ in range(most)])] += 1
    return counts


def add(figures: Figures, name: str, counts: Judged, most_open: float, note: str) -> None:
    total = counts.total()
    differ = sum(count for (share, _), count in counts.items() if share > MARGIN)
    same = sum(
        count for (share, each), count in counts.items() if share > MARGIN and each == "the same"
    )
    equal = sum(count for (share, _), count in counts.items() if not share)
    faster = counts[0.0, "faster"] + counts[0.0, "wrong"]
    wrong = sum(count for (share, each), count in counts.items() if share and each == "wrong")
    unsure = sum(count for (_, each), count in counts.items() if each == "cannot tell")
    figures.add(f"{name}: the same, where they differ by more", same / differ, most=0.01)
    figures.add(f"{name}: faster, where equal", faster / equal, most=0.01)
    figures.add(f"{name}: faster, the wrong way", wrong / (total - equal), most=0.01)
    figures.add(f"{name}: cannot tell", unsure / total, most=most_open, note=note)


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 36
    figures = Figures()
    with tempfile.TemporaryDirectory() as own:
        every = recorded(Path(sys.argv[2] if len(sys.argv) > 2 else own), count)
    load = float(np.median([each["load"] for each in every]))
    note = f"{len(every)} processes, load {load:.0f}"
    runs: list[tuple[str, Callable[[int], Judged], float, str]] = [
        ("loaded", lambda most: loaded(every, most), 0.4, note),
        ("quiet", quiet, 0.1, "drawn"),
    ]
    for name, run, most_open, of in runs:
        add(figures, name, run(MOST_PROCESSES), most_open, of)
        alone = run(1)
        unsure = sum(n for (_, each), n in alone.items() if each == "cannot tell")
        figures.add(f"{name}, in one process: cannot tell", unsure / alone.total())
        add_wrong = alone[0.0, "faster"] + alone[0.0, "wrong"]
        figures.add(f"{name}, in one process: faster, where equal", add_wrong / EQUAL)
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
