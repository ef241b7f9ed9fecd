"""Our median over that of a hand-written ahead-of-time loop: same program, same placed operands,
every call blocked, one process.

Five cases from about 4 µs to about 50 ms a call. In every round ours and the loop run in shuffled
order, for as many calls
each. Run: python -m bench.timing_overhead [rounds]
"""

import os
import random
import statistics
from time import perf_counter

from spmd_core.lab.supervisor.environment import simulated_devices

os.environ |= simulated_devices(8, os.cpu_count() or 1)

from bench.figures import Asked, Figures, measure
from spmd_core.base import seconds_text
from spmd_core.engine.lower import Lowered, execute, file_name, lower
from spmd_core.engine.timing import Timed, plan_turns, quiet, sample_rounds, warm_up
from spmd_core.experiment import parse_experiment
from spmd_core.results import median_s
from spmd_core.script import program_text

CASES = (
    ("elementwise 8x8", "single", {"workload": "elementwise", "dims": {"rows": 8, "cols": 8}}),
    ("layer 32x4", "single", {"workload": "layer", "dims": {"in": 32, "out": 4}}),
    (
        "layer 32x4",
        "auto",
        {"workload": "layer", "dims": {"in": 32, "out": 4}, "sharding": {"in": "x"}},
    ),
    (
        "elementwise 1024x1024",
        "shard_map",
        {
            "workload": "elementwise",
            "dims": {"rows": 1024, "cols": 1024},
            "sharding": {"rows": "x"},
        },
    ),
    (
        "layer 1500x2048x1024",
        "single",
        {"workload": "layer", "dims": {"batch": 1500, "in": 2048, "out": 1024}},
    ),
)
LEAST, MOST = 0.97, 1.03
SAMPLE_S = 10e-3


def lowered(strategy: str, spec: dict) -> Lowered:
    experiment = parse_experiment({"target": "cpu:8", "mesh": {"x": 8}} | spec)
    text = program_text(experiment, strategy)
    names = execute(text, file_name(experiment.workload, strategy))
    return lower(text, names, names["make_operands"](), lambda phase: None)


def by_hand(compiled, operands, calls: int, repeats: int) -> float:
    """The median of some blocks of calls, as `timeit.repeat` takes them."""
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        for _ in range(calls):
            compiled(*operands).block_until_ready()
        seconds.append((perf_counter() - start) / calls)
    return statistics.median(seconds)


def medians(program: Lowered, rounds: int, seed: int) -> tuple[float, float]:
    """Ours and the loop's, in seconds per call."""
    ours = Timed("ours", program.compiled, program.arguments)
    warm_up(ours)
    plan_turns([ours], SAMPLE_S)
    order, loop = random.Random(seed), []
    for turn in range(rounds):
        steps = [
            lambda turn=turn: sample_rounds(
                [ours], 1, seed=turn, cancelled=lambda: False, after_round=lambda done: None
            ),
            lambda: loop.append(
                by_hand(program.compiled, program.arguments, ours.calls_per_turn, ours.turns)
            ),
        ]
        order.shuffle(steps)
        with quiet():
            for step in steps:
                step()
    return median_s(ours.rounds), statistics.median(loop)


def main(options: Asked, figures: Figures) -> None:
    rounds = options.rounds
    for seed, (name, strategy, spec) in enumerate(CASES):
        program = lowered(strategy, spec)
        ours, loop = medians(program, rounds if "1500" not in name else max(10, rounds // 4), seed)
        figures.add(
            f"ours over by hand, {name}, {strategy}",
            ours / loop,
            least=LEAST,
            most=MOST,
            note=f"ours {seconds_text(ours)}, by hand {seconds_text(loop)}",
        )


if __name__ == "__main__":
    measure(main, __doc__, rounds={"place": True, "type": int, "nargs": "?", "default": 100})
