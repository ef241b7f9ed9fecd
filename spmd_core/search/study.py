"""A study: variants measured in the same shuffled rounds, and what their times say together."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spmd_core.experiment.experiment import Experiment
from spmd_core.results.result import Comparison
from spmd_core.results.stats import compare

# Paired rounds; from FEWEST on a signed-rank interval of 95 % can exclude that there is no difference
ROUNDS, FEWEST = 8, 6


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the variants: an experiment with one strategy, named by what differs."""

    name: str
    experiment: Experiment


@dataclass(frozen=True, slots=True)
class Study:
    """Variants that are measured side by side, each once in every round, in an order that the seed
    decides.
    """

    variants: tuple[Variant, ...]
    rounds: int = ROUNDS
    seed: int = 0

    def order(self) -> Iterator[tuple[Variant, ...]]:
        """Round by round, the order in which the variants are measured."""
        shuffled = random.Random(self.seed)
        for _ in range(self.rounds):
            names = list(self.variants)
            shuffled.shuffle(names)
            yield tuple(names)

    def compared(self, rounds: Sequence[dict[str, float]]) -> Comparison | None:
        """Which variant is fastest, and how the others compare over the rounds that have all of
        them; `rounds` gives seconds by name. None where there is no such round.
        """
        names = [variant.name for variant in self.variants]
        shared = [each for each in rounds if all(name in each for name in names)]
        return compare({name: [(each[name],) for each in shared] for name in names})
