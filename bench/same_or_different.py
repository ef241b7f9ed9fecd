"""Does a comparison tell apart what is the same, and find what is 5 % slower? Real programs,
sampled and compared as a run does.

The same strategy, entered twice, is compared with itself; then once with a copy of itself that
waits for 5 % of its time
after each call. Run: python -m bench.same_or_different [comparisons of each sort]
"""

import os
import sys
from time import perf_counter, time

from spmd_core.lab.supervisor.environment import simulated_devices

os.environ |= simulated_devices(8, os.cpu_count() or 1)

from bench.figures import Figures
from spmd_core.engine.lower import execute, file_name, lower
from spmd_core.engine.measured.operands import Operands
from spmd_core.engine.measured.sample import Sampler, rankable_rounds
from spmd_core.engine.measured.timing import Timed, plan_turns, quiet, sample_rounds, warm_up
from spmd_core.engine.measured.trial import Trial
from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.results import stats
from spmd_core.script.program import program_text

CASES = (
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
SLOWDOWN = 0.05
MOST_FALSE, LEAST_FOUND = 17 / 200, 0.90


def experiment(spec: dict) -> Experiment:
    return parse_experiment({"target": "cpu:8", "mesh": {"x": 8}} | spec)


def pair(chosen: Experiment, strategy: str) -> tuple[Timed, Timed]:
    """The strategy entered twice, as a run takes it in: compiled twice, its operands placed alike
    and therefore shared.
    """
    operands, programs = Operands(), []
    for name in ("first", "second"):
        text = program_text(chosen, strategy)
        names = execute(text, file_name(chosen.workload, strategy))
        if not operands:
            operands.update(names["make_operands"]())
        lowered = lower(text, names, operands, lambda phase: None)
        programs.append(Timed(name, lowered.call, lowered.arguments))
    return programs[0], programs[1]


def slowed(fast: Timed, name: str) -> Timed:
    """The same calls, each followed by a wait of 5 % of what a call takes now."""
    warm_up(fast)
    plan_turns([fast], 10e-3)
    with quiet():
        sample_rounds([fast], 20, seed=0, cancelled=lambda: False, after_round=lambda done: None)
    wait_s, call = SLOWDOWN * stats.median_s(fast.rounds), fast.call
    fast.rounds.clear()

    def slow(*arguments):
        result = call(*arguments).block_until_ready()
        end = perf_counter() + wait_s
        while perf_counter() < end:
            pass
        return result

    return Timed(name, slow, fast.arguments)


def compare(chosen: Experiment, seed: int, first: Timed, second: Timed) -> tuple[bool, bool]:
    """(told apart, the first called faster), by the same steps as a run."""
    trials = [Trial(timed.name, program=timed, correct=True) for timed in (first, second)]
    sampler = Sampler(chosen.vary(seed=seed), trials, lambda event: None, lambda: False)
    sampler.warm_up()
    sampler.measure()
    sampler.remeasure()
    comparison = stats.compare(rankable_rounds(trials))
    assert comparison is not None
    apart = comparison.ratios[0].differs
    for timed in (first, second):
        timed.rounds.clear()
    return apart, apart and comparison.fastest == first.name


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    pools = [(strategy, experiment(spec)) for strategy, spec in CASES]
    pairs = [(chosen, *pair(chosen, strategy)) for strategy, chosen in pools]
    false, found = [0] * len(CASES), [0] * len(CASES)
    start = time()
    for trial in range(count):
        case = trial % len(CASES)
        chosen, first, second = pairs[case]
        false[case] += compare(chosen, trial, first, second)[0]
        found[case] += compare(chosen, trial, first, slowed(first, "slowed"))[1]
        if sys.stderr.isatty():
            print(
                f"\r{trial + 1}/{count}  false {sum(false)}  found {sum(found)}  {time() - start:.0f} s",
                end="",
                file=sys.stderr,
                flush=True,
            )
    for (strategy, spec), wrong, right in zip(CASES, false, found, strict=True):
        print(
            f"{spec['workload']:>12} {strategy:<10} false {wrong:>3}   found {right:>3}   of {count // len(CASES)}"
        )
    figures = Figures()
    figures.add(
        "same called different",
        sum(false) / count,
        most=MOST_FALSE,
        note=f"{sum(false)} of {count}",
    )
    figures.add(
        f"{SLOWDOWN:.0%} slower found",
        sum(found) / count,
        least=LEAST_FOUND,
        note=f"{sum(found)} of {count}, in {time() - start:.0f} s",
    )
    return figures.finish()


if __name__ == "__main__":
    sys.exit(main())
