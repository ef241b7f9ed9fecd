"""What a search found, as a value: the winner, the ranking, what was pruned and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from spmd_core.search.array_question import ArrayQuestion
from spmd_core.search.candidate import Candidate
from spmd_core.search.classics import Classic, classics
from spmd_core.search.question import ModelQuestion
from spmd_core.search.ranking import Ranked, front, ranking, ties

TOP = 20  # rows of the JSON form, unless asked for more


@dataclass(frozen=True, slots=True)
class Proof:
    """The best two measured in the same shuffled rounds: the time of `slower` over that of `faster`
    with its 95 % interval, and whether they differ.
    """

    faster: str
    slower: str
    ratio: float
    interval: tuple[float, float]
    differs: bool
    rounds: int


@dataclass(frozen=True)
class Answer:
    """Candidates of one question as far as they are known. `complete`: all of the space was looked
    at, and nothing that could still win is left out.
    """

    question: ModelQuestion | ArrayQuestion
    space: int
    found: Sequence[Candidate]
    complete: bool
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    proof: Proof | None = None

    @cached_property
    def ranking(self) -> list[Ranked]:
        """The best first."""
        return ranking(self.found, self.question.minimize, dict(self.question.price))

    @property
    def winner(self) -> Candidate | None:
        """The first of the ranking; None where nothing can run."""
        return self.ranking[0].candidate if self.ranking else None

    @cached_property
    def pruned(self) -> Mapping[str, int]:
        """How many candidates each reason ruled out, the largest first."""
        counts = Counter(str(each.reason) for each in self.found if each.fate == "pruned")
        return dict(counts.most_common())

    @cached_property
    def ties(self) -> list[Candidate]:
        """Those that the winner cannot be told from."""
        found, proof = ties(self.ranking), self.proof
        if proof is None or self.winner is None:
            return found
        pair = {proof.faster, proof.slower}
        other = (pair - {self.winner.name}).pop() if self.winner.name in pair else None
        kept = [each for each in found if each.name != other]
        tied = [entry.candidate for entry in self.ranking[1:3]
                if entry.candidate.name == other and not proof.differs]
        return tied + kept

    @cached_property
    def front(self) -> list[Candidate]:
        """The front of time against memory, the fastest first."""
        return front(self.ranking)

    @cached_property
    def classics(self) -> list[Classic]:
        """The winner's rivals; none where there is no winner."""
        if self.winner is None:
            return []
        ruled = [each for each in self.found if each.fate == "pruned"]
        return classics(self.ranking, ruled, self.question.model, self.winner)

    def to_json(self, top: int = TOP) -> dict[str, Any]:
        """The JSON form; `top` rows of the ranking."""
        winner = self.winner
        return {"search": self.question.id, "question": self.question.to_json(),
                "space": self.space, "pruned": dict(self.pruned),
                "winner": winner.to_json() if winner else None,
                "ranking": [self._row(entry) for entry in self.ranking[:top]],
                "ranked": len(self.ranking), "complete": self.complete,
                "ties": [each.name for each in self.ties],
                "proof": asdict(self.proof) if self.proof else None,
                "front": [each.name for each in self.front],
                "classics": [{"classic": each.title, "why": each.why,
                              "name": each.candidate.name if each.candidate else None,
                              "predicted_s": each.candidate.to_json()["predicted_s"]
                              if each.candidate else None} for each in self.classics],
                "seconds": self.seconds, "notes": list(self.notes)}

    def _row(self, entry: Ranked) -> dict[str, Any]:
        return {**entry.candidate.to_json(), "alike": len(entry.alike)}
