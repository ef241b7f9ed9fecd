"""One collective that is tried: its candidates in their order, and what was judged of them so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from spmd_core.experiment import Row
from spmd_core.facts import Removal
from spmd_core.results import StrategyResult
from spmd_core.roofline import ProgramTime
from spmd_core.trials.remedies.candidate import (
    FEW,
    MOST,
    AlikeCollectives,
    RemedyCandidate,
    SideBySide,
)
from spmd_core.trials.remedies.judged import Tried, answer, doubtful, helps, settles, verdict


@dataclass(slots=True)
class RemedyTrial:
    """A target of a row of the result, whose strategy there is `base`, expected to take `expected`.

    `is_hurried`: what may help is timed before others are compiled, and ends it; `few`: how many are
    judged at least where one of them helps.
    """

    row: Row
    base: StrategyResult
    target: AlikeCollectives
    expected: ProgramTime
    candidates: Sequence[RemedyCandidate]
    is_hurried: bool = False
    few: int = MOST
    _looked: list[Tried] = field(default_factory=list)  # estimated
    _tried: list[Tried] = field(default_factory=list)
    _is_settled: bool = False
    _is_helped: bool = False
    _timed: tuple[RemedyCandidate, SideBySide | None] | None = (
        None  # the doubtful one, beside the program
    )

    @property
    def is_over(self) -> bool:
        """Whether one settled it, or all were judged: the MOST nearest, and where none of these
        helps the rest.
        """
        judged = len(self._tried)
        is_faster = self._timed is not None and bool(self._timed[1] and self._timed[1].is_faster)
        is_enough = self._is_helped and judged >= self.few
        is_timed = self.is_hurried and self._timed is not None
        is_all = judged == len(self.candidates)
        return self._is_settled or is_all or is_enough or is_faster or is_timed

    @property
    def wanted(self) -> Sequence[RemedyCandidate]:
        """Candidates to compile, the next to be judged first. It is the likeliest to settle it, so
        that others are compiled beside it only once the first one did not.
        """
        if self.is_over:
            return ()
        done = len(self._tried)
        return (
            self.candidates[done : done + 1]
            if not done
            else self.candidates[done : self.few if done < self.few else None]
        )

    @property
    def judged(self) -> int:
        """How many candidates were judged."""
        return len(self._tried)

    @property
    def most(self) -> int:
        """How many candidates are judged as far as is known now."""
        most = self.few if self.judged <= self.few else len(self.candidates)
        return min(len(self.candidates), most)

    def screen(self, looked: Sequence[Tried]) -> None:
        """Leave, of candidates that were estimated, those that are faster than the program, the
        fastest first: FEW of them are compiled.
        """
        known = {each.candidate.experiment.id: each for each in looked}
        faster = [
            judged
            for each in looked
            if (judged := verdict(self.target, self.base, each))
            and helps(self.target, self.expected, judged)
        ]
        ranked = [each.tried.candidate for each in sorted(faster, key=lambda each: each.total_s)]
        unknown = [each for each in self.candidates if each.experiment.id not in known]
        self.candidates, self.few = (*ranked, *(() if ranked else unknown)), FEW
        self._looked = list(looked)

    def judge(self, tried: Tried) -> None:
        """Take what became of the next candidate."""
        self._tried.append(tried)
        judged = verdict(self.target, self.base, tried)
        self._is_settled = settles(self.target, self.expected, judged)
        self._is_helped |= judged is not None and helps(self.target, self.expected, judged)

    @property
    def answer(self) -> Removal:
        """The best of those that were judged."""
        timed = self._timed[1] if self._timed and self._timed[0] is self._doubtful else None
        compiled = {each.candidate.experiment.id for each in self._tried}
        looked = [each for each in self._looked if each.candidate.experiment.id not in compiled]
        every = [*self._tried, *looked]
        return answer(self.row.experiment, self.base, self.expected, self.target, every, timed)

    @property
    def wants_timed(self) -> RemedyCandidate | None:
        """What is to be timed beside the program, on devices that are here: once the MOST nearest
        are judged, and once all are; at once where it is hurried.
        """
        is_here = not (self.row.experiment.place.is_absent or self.row.experiment.plan)
        is_due = self.is_hurried or len(self._tried) in (MOST, len(self.candidates))
        if not is_here or not is_due:
            return None
        candidate = self._doubtful
        return None if self._timed and self._timed[0] is candidate else candidate

    def time(self, candidate: RemedyCandidate, timed: SideBySide | None) -> None:
        """Take what timing it beside the program gave; None where it could not be timed."""
        self._timed = candidate, timed

    @property
    def _doubtful(self) -> RemedyCandidate | None:
        return doubtful(self.target, self.base, self.expected, self._tried)
