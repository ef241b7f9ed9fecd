"""How often are verdicts wrong, or none? Pairs of real programs, equal by construction or apart by
2, 5 and 20 %, timed in as many processes as a study takes: three, five while a verdict is open, and
seven where those may settle it.

The machine as it is gives the loaded figures. For the quiet ones, rounds are drawn from what an
idle machine of two cores is known to do: within a process the turns of a round scatter by 2 %, and
a program's place makes it up to 1 % faster or slower, in each process anew. The placed ones draw
pairs that are equal but for their place, which differs by 0.5 to 5 % between processes: as a normal
value, one with heavy tails, one of two places, or rarely. Run: python -m bench.verdicts [--folder
F] [--processes 36] [--seconds 600] Processes that are in the folder are not run again, so that a
run that was ended goes on.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import Asked, Figures, measure
from spmd_core.experiment import MARGIN, STUDY_PROCESSES, Timing
from spmd_core.facts.verdicts import (
    CONFIDENCE,
    MOST_PROCESSES,
    over_processes,
    verdict as verdict_of,
    wants_more,
)
from spmd_core.results.stats import compare, is_settled, rounds_to_settle

EQUAL, APART = 200, 200
SHARES = (0.02, 0.05, 0.20)
PLACED, NOISE, ROUNDS, TURNS = 0.005, 0.02, 20, 10  # of an idle machine
PLACES = (0.005, 0.01, 0.02, 0.03, 0.05)  # standard deviations of the log of a ratio
ERRORS = (0.002, 0.01, 0.02)  # of a process: quiet to loaded
DRAWN = 2000  # pairs for each place, kind of place and error
Process = dict[str, Any]  # the rounds of both programs
Judged = Counter[tuple[float, str]]  # (apart by, verdict)


@dataclass(slots=True)
class Taken:
    """Rounds of the processes that verdicts are by, without looks that end them and with."""

    before: int = 0
    with_looks: int = 0


def recorded(folder: Path, count: int, seconds: float) -> list[dict[str, Any]]:
    """What each process measured; up to `count` of them, of which those that are there are not run
    again, and none is begun after `seconds`.
    """
    end = time.monotonic() + seconds
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / f"{number}.json"
        if not path.exists() and time.monotonic() < end:
            done = subprocess.run(
                [sys.executable, "-m", "bench.verdict_pairs", str(number)],
                capture_output=True,
                text=True,
                check=True,
            )
            part = path.with_suffix(".part")
            part.write_text(done.stdout)
            part.rename(path)
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def judged(processes: list[Process], taken: Taken | None = None) -> str:
    """The verdict on two programs, by as many processes as a study would take; `wrong` where the
    one that was slowed is called faster. With `taken` the rounds of each end at its looks; it counts
    them with and without.
    """
    count = min(STUDY_PROCESSES, len(processes))
    whole = processes
    if taken is not None:
        processes = [ended(each, at == 0) for at, each in enumerate(processes)]
    while True:
        found = compare(processes[0], ROUNDS, processes[1:count], has_looks=taken is not None)
        assert found is not None
        (ratio,) = found.ratios
        is_open = [ratio.interval] if ratio.verdict == "cannot tell" else []
        if count >= len(processes) or not wants_more(is_open, count, MARGIN):
            if taken is not None:
                taken.before += sum(len(each["first"]) for each in whole[:count])
                taken.with_looks += sum(len(each["first"]) for each in processes[:count])
            return "wrong" if ratio.differs and found.fastest == "slower" else ratio.verdict
        count += 1


def ended(process: Process, is_first: bool) -> Process:
    """The rounds of a process up to the look that ends them: the first by its verdicts, others by
    their own error.
    """
    for count in Timing().looks:
        known = {name: rounds[:count] for name, rounds in process.items()}
        if is_settled(known) if is_first else rounds_to_settle(known, count) == 0:
            return known
    return process


def placed() -> float:
    """The largest share of equal pairs that is called faster, of all places and errors."""
    generator, worst = np.random.default_rng(0), 0.0
    shape = (DRAWN, MOST_PROCESSES)
    kinds: tuple[Callable[[], np.ndarray], ...] = (
        lambda: generator.normal(0, 1, shape),
        lambda: generator.standard_t(3, shape) / 3**0.5,
        lambda: (generator.integers(0, 2, shape) - generator.integers(0, 2, shape)) * 2**0.5,
        lambda: (
            ((generator.random(shape) < 0.2) * 1.0 - (generator.random(shape) < 0.2)) / 0.32**0.5
        ),
    )
    for place in PLACES:
        for kind in kinds:
            for error in ERRORS:
                logs = place * kind() + generator.normal(0, error, shape)
                errors = error * np.sqrt(generator.chisquare(8, shape) / 8)
                known = zip(logs.tolist(), errors.tolist(), strict=True)
                faster = sum(_by_logs(list(zip(*each, strict=True))) for each in known)
                worst = max(worst, faster / DRAWN)
    return worst


def _by_logs(known: list[tuple[float, float]]) -> bool:
    """Whether a pair is called faster, from (log of the ratio, standard error) of each process."""
    count = STUDY_PROCESSES
    while True:
        _, low, high = over_processes(known[:count], 1 - CONFIDENCE)
        interval = (float(np.exp(low)), float(np.exp(high)))
        said = verdict_of(interval)
        if not wants_more([interval] if said == "cannot tell" else [], count, MARGIN):
            return said == "faster"
        count += 1


def loaded(every: list[dict[str, Any]], most: int, taken: Taken | None = None) -> Judged:
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
            counts[key[0], judged(draw.sample(cells[key], most), taken)] += 1
    return counts


def quiet(most: int, taken: Taken | None = None) -> Judged:
    """The same of drawn rounds."""
    generator, counts = np.random.default_rng(0), Counter()

    def process(share: float) -> Process:
        own = 1e-3 * np.exp(generator.normal(0, PLACED, 2)) * (1, 1 + share)
        noise = generator.normal(0, NOISE, (2, ROUNDS, TURNS))
        first, slower = (own[:, None, None] * np.exp(noise)).tolist()
        return {"first": first, "slower": slower}

    for number in range(EQUAL + APART):
        share = 0.0 if number < EQUAL else SHARES[number % len(SHARES)]
        counts[share, judged([process(share) for _ in range(most)], taken)] += 1
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


def looked(figures: Figures, name: str, judge: Callable[[Taken | None], Judged]) -> None:
    """Add how many rounds looks save, and how many equal pairs are called faster with them and
    without.
    """
    taken = Taken()
    with_looks, whole = judge(taken), judge(None)
    false, before = (
        (each[0.0, "faster"] + each[0.0, "wrong"]) / EQUAL for each in (with_looks, whole)
    )
    figures.add(f"{name}: rounds saved by looks", 1 - taken.with_looks / taken.before, least=1 / 3)
    figures.add(f"{name}: faster, where equal, with looks", false, most=max(before, 0.01))
    unsure = [
        sum(count for (_, said), count in each.items() if said == "cannot tell")
        for each in (with_looks, whole)
    ]
    note = f"{unsure[0]} of {with_looks.total()} cannot be told, {unsure[1]} without looks"
    figures.add(f"{name}: faster, where equal, without looks", before, note=note)


def main(options: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as own:
        every = recorded(options.folder or Path(own), options.processes, options.seconds)
    add(figures, "quiet", quiet(MOST_PROCESSES), 0.1, "drawn")
    looked(figures, "quiet", lambda taken: quiet(MOST_PROCESSES, taken))
    looked(figures, "quiet, in one process", lambda taken: quiet(1, taken))
    pairs = len(PLACES) * len(ERRORS) * 4 * DRAWN
    figures.add("placed: faster, where equal, at worst", placed(), most=0.01, note=f"{pairs} drawn")
    if len(every) < MOST_PROCESSES:
        figures.add("processes", len(every), least=MOST_PROCESSES)
        return
    load = float(np.median([each["load"] for each in every]))
    note = f"{len(every)} processes, load {load:.0f} on {os.cpu_count()} cores"
    add(figures, "loaded", loaded(every, MOST_PROCESSES), 0.4, note)
    looked(figures, "loaded", lambda taken: loaded(every, MOST_PROCESSES, taken))
    looked(figures, "loaded, in one process", lambda taken: loaded(every, 1, taken))
    alone = loaded(every, 1)
    wrong = (alone[0.0, "faster"] + alone[0.0, "wrong"]) / EQUAL
    figures.add("loaded, in one process: faster, where equal", wrong)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        folder=(Path, "keeps the rounds of each process"),
        processes=36,
        seconds=(600.0, "none is begun after these"),
    )
