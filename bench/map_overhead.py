"""Our median over that of the tutorial's own loop: the same callable on the same placed inputs,
every call waited for, one process.

Six ways to take dot products of a 16x3 array's two halves, and four at 1,000,000x3. The loop is
`%timeit`'s: a timeit.Timer
around `call(v, u).block_until_ready()`. In every round ours and the loop run in shuffled order, for
as many calls each.
Run: python -m bench.map_overhead [rounds]
"""

import os
import random
import statistics
import sys
import timeit

from spmd_core.lab.supervisor.environment import simulated_devices

os.environ |= simulated_devices(8, os.cpu_count() or 1)

from bench.figures import Figures
from spmd_core.base.units import seconds_text
from spmd_core.engine.lower import Lowered, execute, file_name, look_into
from spmd_core.engine.measured.timing import Timed, plan_turns, quiet, sample_rounds, warm_up
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.results.stats import median_s
from spmd_core.script.program import program_text

# plain pmap: a block for each device, flattened
SMALL, LARGE, BLOCKS = {"n": 8, "k": 3}, {"n": 1_000_000, "k": 3}, {"n": 8, "k": 375_000}
CASES = (
    *(
        (strategy, "16x3", SMALL)
        for strategy in ("vmap", "pmap", "pmap(vmap)", "jit(vmap)", "jit(pmap)", "pmap(jit)")
    ),
    *((strategy, "1,000,000x3", LARGE) for strategy in ("vmap", "jit(vmap)", "pmap(vmap)")),
    ("pmap", "1,000,000x3", BLOCKS),
)
LEAST, MOST = 0.97, 1.03
# short rounds and many: what disturbs the machine then lasts longer than one, and so hits both
# alike
SAMPLE_S = 1e-3


def ready(strategy: str, dims: dict[str, int]) -> Lowered:
    """What is called, as a run calls it, with its operands placed."""
    experiment = parse_experiment(
        {"workload": "dot", "target": "cpu:8", "mesh": {"x": 8}, "dims": dims}
    )
    text = program_text(experiment, strategy)
    names = execute(text, file_name(experiment.workload, strategy))
    return look_into(text, names, names["make_operands"](), lambda phase: None)


def medians(program: Lowered, rounds: int, seed: int) -> tuple[float, float, float]:
    """Ours and the loop's, in seconds per call; and their ratio, the median over the rounds that
    they share.
    """
    ours = Timed("ours", program.call, program.arguments)
    warm_up(ours)
    plan_turns([ours], SAMPLE_S)
    v, u = program.arguments
    timer = timeit.Timer(
        "call(v, u).block_until_ready()", globals={"call": program.call, "v": v, "u": u}
    )
    order, loop = random.Random(seed), []
    for turn in range(rounds):
        steps = [
            lambda turn=turn: sample_rounds(
                [ours], 1, seed=turn, cancelled=lambda: False, after_round=lambda done: None
            ),
            lambda: loop.append(
                statistics.median(timer.repeat(ours.turns, ours.calls_per_turn))
                / ours.calls_per_turn
            ),
        ]
        order.shuffle(steps)
        with quiet():
            for step in steps:
                step()
    return (
        median_s(ours.rounds),
        statistics.median(loop),
        statistics.median(own / other for own, other in zip(ours.samples_s, loop, strict=True)),
    )


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    figures = Figures()
    for seed, (strategy, size, dims) in enumerate(CASES):
        ours, loop, ratio = medians(ready(strategy, dims), rounds, seed)
        figures.add(
            f"ours over the tutorial's loop, {size}, {strategy}",
            ratio,
            least=LEAST,
            most=MOST,
            note=f"ours {seconds_text(ours)}, the tutorial's {seconds_text(loop)}",
        )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
