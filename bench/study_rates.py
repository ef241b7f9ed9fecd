"""Does a study of twelve variants tell apart what is the same, and find what is 5 % slower?

Eleven copies of one program, each compiled by itself, and a twelfth that is the first followed by a
wait of 5 % of its time after each call, are sampled and compared as a study's rows are. A pair is a
variant and the fastest, as the answer compares them: of the ten pairs of copies none should be
called different, of the slower one and the fastest each. With all twelve the same, the false
differences would be as many: a pair's test does not look at the others.
Run: python -m bench.study_rates [studies]
"""

import os
import sys
from time import time

from spmd_core.lab.supervisor.environment import simulated_devices

os.environ |= simulated_devices(8, os.cpu_count() or 1)

from bench.figures import Figures
from bench.same_or_different import SLOWDOWN, slowed
from spmd_core.engine.lower import execute, file_name, lower
from spmd_core.engine.measured.operands import Operands
from spmd_core.engine.measured.sample import Sampler, rankable_rounds
from spmd_core.engine.measured.timing import Timed
from spmd_core.engine.measured.trial import Trial
from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.results import stats
from spmd_core.results.result import Comparison, Ratio
from spmd_core.script.program import program_text

LAYER = {
    "target": "cpu:8",
    "mesh": {"x": 8},
    "workload": "layer",
    "sharding": {"batch": "x"},
    "dims": {"batch": 128, "in": 128, "out": 128},
}
CASES = ("single", "auto", "shard_map")
VARIANTS = 12
MOST_FALSE, LEAST_FOUND = 0.05, 0.90


def study(strategy: str) -> Experiment:
    """Twelve variants that are the same."""
    alone = LAYER | {"strategies": [strategy]}
    return parse_experiment(
        {"study": [{"name": f"copy {number}", "experiment": alone} for number in range(VARIANTS)]}
    )


def programs(chosen: Experiment) -> list[Timed]:
    """Each row as a run prepares it: compiled by itself, its operands placed alike and shared."""
    operands, found = Operands(), []
    for row in chosen.rows:
        text = program_text(row.experiment, row.strategy)
        names = execute(text, file_name(row.experiment.workload, row.strategy))
        if not operands:
            operands.update(names["make_operands"]())
        lowered = lower(text, names, operands, lambda phase: None)
        found.append(Timed(row.key, lowered.call, lowered.arguments))
    return found


def compare(chosen: Experiment, seed: int, timed: list[Timed]) -> Comparison:
    """By the same steps as a run."""
    trials = [
        Trial(row.strategy, row, program=each, correct=True)
        for row, each in zip(chosen.rows, timed, strict=True)
    ]
    sampler = Sampler(chosen.vary(seed=seed), trials, lambda event: None, lambda: False)
    sampler.warm_up()
    sampler.measure()
    sampler.remeasure()
    comparison = stats.compare(rankable_rounds(trials), chosen.timing.samples)
    assert comparison is not None
    for each in timed:
        each.rounds.clear()
    return comparison


def of_copies(comparison: Comparison, slow: str) -> list[Ratio]:
    """The pairs of the same; none where the slower one was called the fastest."""
    return (
        []
        if comparison.fastest == slow
        else [each for each in comparison.ratios if each.strategy != slow]
    )


def is_found(comparison: Comparison, name: str) -> bool:
    """Whether the slower variant is told apart from the fastest."""
    return any(each.strategy == name and each.differs for each in comparison.ratios)


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    chosen = {strategy: study(strategy) for strategy in CASES}
    timed = {strategy: programs(each) for strategy, each in chosen.items()}
    false = pairs = found = 0
    start = time()
    for number in range(count):
        strategy = CASES[number % len(CASES)]
        place = number % (VARIANTS - 1) + 1
        programs_now = list(timed[strategy])
        slow = slowed(programs_now[0], chosen[strategy].rows[place].key)
        programs_now[place] = slow
        said = compare(chosen[strategy], number, programs_now)
        false += sum(each.differs for each in of_copies(said, slow.name))
        pairs += len(of_copies(said, slow.name))
        found += is_found(said, slow.name)
        if sys.stderr.isatty():
            print(
                f"\r{number + 1}/{count}  false {false}/{pairs}  found {found}",
                end="",
                file=sys.stderr,
                flush=True,
            )
    figures = Figures()
    figures.add(
        "pairs of the same called different",
        false / max(pairs, 1),
        most=MOST_FALSE,
        note=f"{false} of {pairs}, in {count} studies of {VARIANTS} variants",
    )
    figures.add(
        f"{SLOWDOWN:.0%} slower found",
        found / max(count, 1),
        least=LEAST_FOUND,
        note=f"{found} of {count}, in {time() - start:.0f} s",
    )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
