"""What was proven of a search's winner: the best few measured side by side in one run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment, link_path
from spmd_core.results import Comparison, Ratio


@dataclass(frozen=True, slots=True)
class Proof:
    """One run of several candidates in the same shuffled rounds, compared as Compare compares them.

    `comparison` and `medians_s` name candidates, the fastest first in `medians_s`; `numbers` are
    theirs in the search, in the same order. `rounds` is how many the best two share, in all
    processes; `partial`: the time was over before it was done.
    """

    run: str
    experiment: Experiment = field(repr=False)
    comparison: Comparison
    medians_s: Mapping[str, float]
    numbers: tuple[int, ...]
    rounds: int
    partial: bool = False

    @property
    def faster(self) -> str:
        """The fastest."""
        return self.comparison.fastest

    @property
    def best(self) -> Ratio:
        """The next one's time over that of the fastest."""
        return next(
            each for each in self.comparison.ratios if each.strategy == tuple(self.medians_s)[1]
        )

    @property
    def best_numbers(self) -> tuple[int, ...]:
        """The numbers of the fastest and of what ties with it."""
        ahead = {self.faster, *self.comparison.tied}
        return tuple(
            number
            for number, name in zip(self.numbers, self.medians_s, strict=True)
            if name in ahead
        )

    def ratio_of(self, name: str) -> Ratio | None:
        """A candidate's time over that of the fastest; None of the fastest and of others."""
        return next((each for each in self.comparison.ratios if each.strategy == name), None)

    def to_json(self) -> dict[str, object]:
        """The JSON form: the best two first, then every one of them, and where to open the run."""
        next_best = self.best
        return {
            "faster": self.faster,
            "slower": next_best.strategy,
            "ratio": next_best.ratio,
            "interval": next_best.interval,
            "differs": next_best.differs,
            "verdict": next_best.verdict,
            "settles": next_best.settles,
            "processes": next_best.processes,
            "rounds": self.rounds,
            "run": self.run,
            "link": self._link,
            "sentence": self.comparison.sentence,
            "tied": list(self.comparison.tied),
            "compared": [
                {"name": name, "median_s": seconds, **self.against(name)}
                for name, seconds in self.medians_s.items()
            ],
        }

    def against(self, name: str) -> dict[str, object]:
        """How a candidate compares with the fastest, as JSON values; null where it is not known."""
        ratio = self.ratio_of(name)
        return {
            "ratio": ratio.ratio if ratio else None,
            "interval": ratio.interval if ratio else None,
            "differs": ratio.differs if ratio else None,
            "verdict": ratio.verdict if ratio else None,
        }

    @property
    def _link(self) -> str | None:
        """Path and query that open it on Compare; None where it is too long for a link."""
        try:
            return link_path(self.experiment, self.run)
        except RequestError:
            return None
