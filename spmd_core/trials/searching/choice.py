"""Which candidates are ruled out by what is known, and which is tried next."""

import math
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from spmd_core.base import by_key
from spmd_core.facts import StoredFact
from spmd_core.search import Answer, ArrayQuestion, Candidate, Question
from spmd_core.trials.searching.behind import DRAWN, rejudged, trust
from spmd_core.trials.searching.outcomes import run_key

# by estimates that see the program the best is known first, and then what it is compared with
BEST_FIRST = 1
ALIKE = 1.25  # times: their measured times differ by less than those of other programs
DRAWN_EACH = 2  # of so many runs one is drawn at random, until enough are: the others are the best


class CandidateChoice:
    """Chooses the next candidate of one search of `space` candidates. `tried` has keys of runs.

    `draws`: whether some candidates are drawn at random. Their compiled programs show how far
    estimates may be trusted. An exported program has few candidates, so none are drawn.
    `elsewhere`: targets whose compiler is not installed; their candidates stay estimated.
    """

    def __init__(
        self, question: Question, space: int, draws: bool, elsewhere: Collection[str] = ()
    ):
        self._question, self._space = question, space
        is_array = isinstance(question, ArrayQuestion) and question.described is None
        self._elsewhere = elsewhere
        self._draws = draws and is_array and question.minimize == "time"
        self.tried: set[object] = set()
        self._drawn: set[object] = set()

    def ruled_out(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Candidates that are pruned now: their lower bound is above the best time of their target,
        or their estimate is further above the best than any compiled candidate was below its own.
        """
        known = by_key(
            (each.target, each.seconds / each.tokens)
            for each in candidates
            if each.stage in ("measured", "compiled") and each.seconds is not None
        )
        best = {target: min(seconds) for target, seconds in known.items()}
        if not best or self._question.minimize != "time":
            return []
        late = [
            replace(
                each,
                stage="pruned",
                reason="lower bound above the best",
                detail=StoredFact(kind="bound above the best"),
            )
            for each in candidates
            if each.stage == "estimated"
            and each.bound_s is not None
            and each.bound_s / each.tokens > best.get(each.target, math.inf)
        ]
        return late or self._far_behind(candidates, min(best.values()))

    def _far_behind(self, candidates: Sequence[Candidate], best: float) -> list[Candidate]:
        if not self._draws:
            return []
        drawn = {run_key(each) for each in candidates if each.stage == "compiled"} & self._drawn
        judged = trust(candidates, len(drawn))
        return rejudged(candidates, judged, best) if judged and judged.drawn >= DRAWN else []

    def next(self, answer: Answer) -> list[Candidate]:
        """Candidates of one run: of the best where estimates are of plans or of partitioned programs,
        then of the standard shardings, which the others are compared with, then of the best that was
        not tried.
        """
        left = self._untried(entry.candidate for entry in answer.ranking)
        if not left:
            return []
        baselines: list[Candidate] = []
        if len(self.tried) >= BEST_FIRST or not (left[0].step or left[0].partitioned):
            known = (each.candidate for each in answer.standards)
            baselines = self._untried(each for each in known if each)
        first = baselines[0] if baselines else self._draw(left) or self._other(left, answer.found)
        key = run_key(first)
        self.tried.add(key)
        return [
            each
            for each in answer.found
            if each.stage == "estimated" and each.target == first.target and run_key(each) == key
        ]

    def _untried(self, ranked: Iterable[Candidate]) -> list[Candidate]:
        return [
            each
            for each in ranked
            if each.stage == "estimated"
            and each.target not in self._elsewhere
            and not each.is_pipeline
            and run_key(each) not in self.tried
        ]

    def _draw(self, left: Sequence[Candidate]) -> Candidate | None:
        """One of those that are left, at random, where it is time for it."""
        if not self._draws or len(self._drawn) >= DRAWN or len(self.tried) % DRAWN_EACH == 0:
            return None
        drawn = min(left, key=lambda each: self._order[each.number])
        self._drawn.add(run_key(drawn))
        return drawn

    @cached_property
    def _order(self) -> Sequence[int]:
        """A number for each candidate: who has the least is drawn first. Of the question alone."""
        order = list(range(self._space))
        random.Random(self._question.id).shuffle(order)
        return order

    def _other(self, left: Sequence[Candidate], candidates: Sequence[Candidate]) -> Candidate:
        """The best candidate that is unlike all that were tried; the best of all where none is."""
        if left[0].point is None:
            return left[0]
        seen = {_likeness(each) for each in candidates if run_key(each) in self.tried}
        return next((each for each in left if _likeness(each) not in seen), left[0])


def _likeness(candidate: Candidate) -> object:
    """What candidates share of which one is tried before the others: the price of each part of the
    partitioned program, within ALIKE; else the sharding, however its axes are ordered or factored.
    """
    if candidate.partitioned:
        priced = (math.log(max(seconds, 1e-9), ALIKE) for _, seconds in candidate.parts)
        return candidate.target, *map(round, priced)
    return candidate.point and candidate.point.alike
