"""The answer of a search, as a value: the winner, the ranking, what was pruned and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from spmd_core.base import RequestError, firsts_by_key
from spmd_core.experiment import Experiment, link_path
from spmd_core.facts import Ratio, StoredFact
from spmd_core.machine import compiler_refusal
from spmd_core.results import Comparison
from spmd_core.search.array_question import ArrayQuestion
from spmd_core.search.candidate import ORDER, Candidate, has_words
from spmd_core.search.models import candidate_named
from spmd_core.search.question import ModelQuestion
from spmd_core.search.ranking import (
    Ranked,
    front,
    in_order,
    open_estimates,
    ranking,
    shardings,
    ties,
)
from spmd_core.search.standards import StandardSharding, standards


@dataclass(frozen=True, slots=True)
class Proof:
    """One run of several candidates in the same shuffled rounds, compared as Compare compares them.

    `comparison` and `medians_s` name candidates, the fastest first in `medians_s`; `numbers` are
    theirs in the search, in the same order. `rounds` is how many the best two share, in all
    processes; `partial`: the time was over before it was done. `alone_s`: what those took that were
    measured alone before, at other times, the least and the most.
    """

    run: str
    experiment: Experiment = field(repr=False)
    comparison: Comparison
    medians_s: Mapping[str, float]
    numbers: tuple[int, ...]
    rounds: int
    partial: bool = False
    alone_s: tuple[float, float] | None = None

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


def is_alone_beside(winner: Candidate, other: Candidate, proof: Proof | None) -> bool:
    """Returns True if the other was measured alone while the winner was proven beside others, and is
    not slower by more than chance.
    """
    if proof is None or other.name in proof.medians_s or not other.interval_s:
        return False
    return other.interval_s[0] <= (winner.interval_s or (0.0, winner.seconds or 0.0))[1]


FEW = 4  # plans that are compiled, best first, where no budget is given
_NEAREST = 10  # of a ranking: policies of one mesh tie by the hundred
TOP = 20  # rows of the JSON form, unless more are requested


@dataclass(frozen=True)
class Answer:
    """Candidates of one question as far as they are known. `complete`: all of the space was looked
    at, and nothing that could still win is left out; `is_partial`: the look ended before it was over,
    by its time or by who cancelled it.
    """

    question: ModelQuestion | ArrayQuestion
    space: int
    found: Sequence[Candidate]
    complete: bool
    seconds: float = 0.0
    notes: tuple[StoredFact, ...] = ()
    proof: Proof | None = None
    is_partial: bool = False

    @cached_property
    def ranking(self) -> Sequence[Ranked]:
        """The best first."""
        best = self.proof.best_numbers if self.proof else ()
        return ranking(self.found, self.question.minimize, dict(self.question.price), best)

    @cached_property
    def shardings(self) -> Sequence[Sequence[Ranked]]:
        """The ranking by mesh, batch and target: the policies of each, the best first."""
        return shardings(self.ranking)

    def listed(self, most: int) -> Sequence[Sequence[Ranked]]:
        """Returns the first `most` of `shardings`, by how well they are known, then by what is
        minimized.
        """
        return in_order(self.shardings[:most])

    def named(self, words: Sequence[str]) -> Candidate | None:
        """Returns the best candidate whose name has all words, or one that the search left out; None
        where none has.
        """
        for each in (*[entry.candidate for entry in self.ranking], *self.found):
            if has_words(each.name, words):
                return each
        asked = self.question
        return candidate_named(asked, words) if isinstance(asked, ModelQuestion) else None

    @property
    def winner(self) -> Candidate | None:
        """The first of the ranking; None where nothing is sure to run: an estimate that may not fit
        wins only once it is compiled.
        """
        first = self.ranking[0].candidate if self.ranking else None
        return first if first and first.fits == "yes" else None

    @cached_property
    def best_by_target(self) -> Mapping[str, Candidate]:
        """The best of each target, the best target first; nothing of one that nothing fits on."""
        best = firsts_by_key(
            (entry.candidate.target, entry)
            for entry in self.ranking
            if entry.candidate.fits == "yes"
        )
        return {
            target: entry.candidate
            for target, entry in sorted(best.items(), key=lambda pair: pair[1].score)
        }

    @cached_property
    def best_by_batch(self) -> Sequence[Candidate]:
        """The best of each batch on the winner's target, the smallest batch first."""
        best: dict[int, Candidate] = {}
        for entry in self.ranking:
            each = entry.candidate
            if self.winner and each.target == self.winner.target and each.fits == "yes":
                held = best.setdefault(each.tokens, each)
                if (each.seconds or 0.0) < (held.seconds or 0.0):
                    best[each.tokens] = each
        return [best[tokens] for tokens in sorted(best)]

    @cached_property
    def pruned(self) -> Mapping[str, int]:
        """How many candidates each reason ruled out, the largest first."""
        counts = Counter(str(each.reason) for each in self.found if each.stage == "pruned")
        return dict(counts.most_common())

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many candidates got how far; with those that were not looked at, all of the space."""
        counts = Counter(each.stage for each in self.found)
        return {
            **{state: counts[state] for state in reversed(ORDER)},
            "not looked at": max(0, self.space - len(self.found)),
        }

    @cached_property
    def faster_estimates(self) -> int:
        """How many that are sure to fit are only estimated, at less than a winner that is known
        better.
        """
        winner = self.winner
        if winner is None or winner.stage == "estimated":
            return 0
        best = self.ranking[0].score
        return sum(
            1 + len(entry.alike)
            for entry in self.ranking
            if entry.candidate.stage == "estimated"
            and entry.candidate.fits == "yes"
            and entry.score < best
        )

    @cached_property
    def ties(self) -> Sequence[Candidate]:
        """Those that tie with the winner: where it was proven, by that; else by the
        intervals.
        """
        proof = self.proof_of_winner
        if proof is None:
            return ties(self.ranking, self.question.minimize, _NEAREST)
        tied = set(proof.best_numbers[1:])
        return [each.candidate for each in self.ranking if each.candidate.number in tied]

    @cached_property
    def rivals(self) -> Sequence[Candidate]:
        """Those of `ties` that differ in more than their policy: the best of other meshes and batches
        that tie with the winner's.
        """
        if self.proof_of_winner is not None:
            return self.ties
        return ties([group[0] for group in self.shardings], self.question.minimize)

    @cached_property
    def _open_estimates(self) -> Sequence[Candidate]:
        winner = self.winner
        if winner is None or winner.experiment.exported or self.question.minimize == "memory":
            return ()
        return open_estimates([group[0] for group in self.shardings])

    @property
    def open_estimates(self) -> int:
        """How many other meshes and batches are only estimated, and may be as fast as the winner, which
        is known better.
        """
        return len(self._open_estimates)

    @cached_property
    def open_alone(self) -> Sequence[Candidate]:
        """Those that were measured alone, and may be as fast as the winner, which was proven."""
        winner, proof = self.winner, self.proof_of_winner
        if winner is None or proof is None:
            return ()
        firsts = (group[0].candidate for group in self.shardings)
        return [each for each in firsts if is_alone_beside(winner, each, proof)]

    @cached_property
    def open_numbers(self) -> frozenset[int]:
        """The numbers of others that could win: `rivals`, what was measured alone, and estimates."""
        every = (*self.rivals, *self.open_alone, *self._open_estimates)
        return frozenset(each.number for each in every)

    @cached_property
    def next_compiles(self) -> int:
        """How many plans are compiled where the search goes on: `FEW`, or as many as are left."""
        open_ = (each.candidate for each in self.ranking if each.candidate.stage == "estimated")
        able = (each for each in open_ if not (each.is_pipeline or compiler_refusal(each.target)))
        return sum(1 for _ in islice(able, FEW))

    @property
    def proof_of_winner(self) -> Proof | None:
        """The proof, where it is one of the winner."""
        winner, proof = self.winner, self.proof
        return proof if proof and winner and winner.number == proof.numbers[0] else None

    @cached_property
    def comparable(self) -> Sequence[Ranked]:
        """The ranking; with a proof of the winner what was measured in its rounds alone."""
        proof = self.proof_of_winner
        together = proof.numbers if proof else ()
        return [each for each in self.ranking if not proof or each.candidate.number in together]

    @cached_property
    def front(self) -> Sequence[Candidate]:
        """The front of time against memory, the fastest first."""
        return front(self.comparable)

    @cached_property
    def front_of_price(self) -> Sequence[Candidate]:
        """The front of time against price per token; nothing without prices."""
        price = dict(self.question.price)
        return front(self.ranking, price) if price else []

    @cached_property
    def standards(self) -> Sequence[StandardSharding]:
        """The winner's rivals; none where there is no winner."""
        if self.winner is None:
            return []
        ruled = [each for each in self.found if each.stage == "pruned"]
        return standards(self.ranking, ruled, self.question.model, self.winner)
