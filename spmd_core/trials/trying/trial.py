"""One collective that is tried: its candidates in their order, and what was judged of them so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spmd_core.experiment import Row
from spmd_core.results import Removal, StrategyResult
from spmd_core.time import ProgramTime
from spmd_core.trials.remedies.candidate import Candidate, Target
from spmd_core.trials.remedies.judged import Tried, answer, settles, verdict


@dataclass(slots=True)
class RemedyTrial:
    """A target of a row of the result, whose strategy there is `base`, expected to take `expected`."""

    row: Row
    base: StrategyResult
    target: Target
    expected: ProgramTime
    candidates: Sequence[Candidate]
    _tried: list[Tried] = field(default_factory=list)
    _is_settled: bool = False

    @property
    def is_over(self) -> bool:
        """Whether one settled it, or all were judged."""
        return self._is_settled or len(self._tried) == len(self.candidates)

    @property
    def wanted(self) -> Sequence[Candidate]:
        """Candidates to compile, the next to be judged first. It is the likeliest to settle it, so
        that others are compiled beside it only once the first one did not.
        """
        if self.is_over:
            return ()
        left = self.candidates[len(self._tried) :]
        return left if self._tried else left[:1]

    def judge(self, tried: Tried) -> None:
        """Take what became of the next candidate."""
        self._tried.append(tried)
        self._is_settled = settles(
            self.target, self.expected, verdict(self.target, self.base, tried)
        )

    @property
    def answer(self) -> Removal:
        """The best of those that were judged."""
        return answer(self.row.experiment, self.base, self.expected, self.target, self._tried)
