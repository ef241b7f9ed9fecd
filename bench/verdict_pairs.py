"""Pairs of programs that are equal by construction, or apart by a known share, timed as a run times
them in a worker process: what `bench.verdicts` judges. A process prints its rounds as JSON.
"""

import json
import os
import random
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from spmd_core.lab.supervisor.environment import simulated_devices

os.environ |= simulated_devices(8, os.cpu_count() or 1)

from spmd_core.engine.lower import execute, file_name, lower
from spmd_core.engine.measured.sample import Sampler
from spmd_core.engine.operands import Operands
from spmd_core.engine.timing import Timed
from spmd_core.engine.trial import Trial
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.script import program_text

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("single", {"workload": "layer", "dims": {"batch": 128, "in": 128, "out": 128}}),
    (
        "auto",
        {
            "workload": "layer",
            "dims": {"batch": 256, "in": 256, "out": 256},
            "sharding": {"in": "x"},
        },
    ),
    ("shard_map", {"workload": "layer", "dims": {"in": 32, "out": 4}, "sharding": {"in": "x"}}),
    ("single", {"workload": "contraction", "dims": {"rows": 512, "cols": 1024}}),
    (
        "auto",
        {"workload": "elementwise", "dims": {"rows": 512, "cols": 512}, "sharding": {"rows": "x"}},
    ),
)
APART = (0.02, 0.05, 0.20)
COPIES = 3  # of each case a process compiles so many programs: pairs of the first with each other


def experiment(spec: dict[str, Any]) -> Experiment:
    return parse_experiment({"target": "cpu:8", "mesh": {"x": 8}} | spec)


def copies(chosen: Experiment, strategy: str, count: int) -> list[Timed]:
    """The strategy entered `count` times, as a run takes it in: compiled each time, its operands
    placed alike and therefore shared.
    """
    operands, programs = Operands(), []
    for number in range(count):
        text = program_text(chosen, strategy)
        names = execute(text, file_name(chosen.workload, strategy))
        if not operands:
            operands.update(names["make_operands"]())
        lowered = lower(text, names, operands, lambda phase: None)
        programs.append(Timed(f"copy {number}", lowered.call, lowered.arguments))
    return programs


def slower(fast: Timed, share: float) -> Timed:
    """The same calls, each followed by a wait of a share of what it has just taken."""

    def call(*arguments: Any) -> Any:
        start = perf_counter()
        result = fast.call(*arguments).block_until_ready()
        end = start + (1 + share) * (perf_counter() - start)
        while perf_counter() < end:
            pass
        return result

    return Timed("slower", call, fast.arguments)


def measured(chosen: Experiment, seed: int, *programs: Timed) -> dict[str, list[Any]]:
    """Rounds of programs that take turns, by the same steps as a run."""
    trials = [Trial(timed.name, program=timed, correct=True) for timed in programs]
    whole = {"min_seconds": 1.001 * chosen.timing.min_seconds}  # chosen: no look ends it
    sampler = Sampler(
        chosen.vary(seed=seed, timing=whole), trials, lambda event: None, lambda: False
    )
    sampler.warm_up()
    sampler.measure_again()
    rounds = {timed.name: [list(turns) for turns in timed.rounds] for timed in programs}
    for timed in programs:
        timed.rounds.clear()
    return rounds


def of_process(seed: int) -> list[dict[str, Any]]:
    """Every pair once: its case, by how much it is apart, and the rounds of both."""
    found, pairs = [], []
    for number, (strategy, spec) in enumerate(CASES):
        chosen = experiment(spec)
        first, *others = copies(chosen, strategy, COPIES)
        for at, other in enumerate(others):
            pairs.append((number, at, 0.0, chosen, first, lambda other=other: other))
        for share in APART:
            make: Callable[[], Timed] = lambda share=share, of=others[0]: slower(of, share)  # noqa: E731
            pairs.append((number, 0, share, chosen, others[0], make))
    random.Random(seed).shuffle(pairs)
    for at, (case, copy, share, chosen, first, other) in enumerate(pairs):
        rounds = measured(chosen, seed + at, first, other())
        found.append({"case": case, "copy": copy, "apart": share, "rounds": list(rounds.values())})
    return found


if __name__ == "__main__":
    before = os.times(), perf_counter()
    pairs = of_process(int(sys.argv[1]))
    print(json.dumps({"load": os.getloadavg()[0], "pairs": pairs}))
    sys.stdout.flush()
    os._exit(0)
