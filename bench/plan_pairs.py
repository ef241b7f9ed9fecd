"""Whether a plan that is estimated to take less time than another takes less once compiled too.

Pairs are plans of one model, chips, batch and sequence that other benches compiled and stored; those
whose estimates differ by `WORTH` or more count.
"""

import itertools
from collections.abc import Iterator

from bench import memory_random, search_winners, small_plans
from bench.figures import Asked, Figures, measure
from bench.memory_random import stored
from spmd_core.advice.results import FASTER_TOO, PAIRS, WORTH
from spmd_core.base import by_key
from spmd_core.time import estimate_step
from spmd_core.workloads import parse_plan

Timed = tuple[float, float]  # estimated and compiled seconds of a step
STORED = (search_winners.STORED, memory_random.STORED, small_plans.STORED)


def timed() -> Iterator[tuple[object, Timed]]:
    """Yields what a plan may be compared with others of, and its times; those that fit alone."""
    for at, file in enumerate(STORED):
        for row in stored(file):
            plan = parse_plan(row["plan"])
            time = estimate_step(plan).predicted_s
            if row.get("seconds") and row["fits"] and time:
                same = at, plan.model, plan.layers, plan.sizes, plan.target
                yield (*same, plan.batch, plan.sequence), (time.estimate, row["seconds"])


def main(_: Asked, figures: Figures) -> None:
    gains: list[Timed] = []
    for plans in by_key(timed()).values():
        for pair in itertools.combinations(sorted(plans), 2):
            estimated, compiled = (1 - one / other for one, other in zip(*pair, strict=True))
            if estimated >= WORTH:
                gains.append((estimated, compiled))
    faster = sum(compiled > 0 for _, compiled in gains)
    figures.add("pairs", len(gains), least=PAIRS)
    figures.add("faster once compiled too", faster, least=FASTER_TOO)


if __name__ == "__main__":
    measure(main, __doc__)
