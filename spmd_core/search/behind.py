"""What compiled candidates show of those that were not: an estimate that was never far
above the program may rule out what is far behind.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spmd_core.results import StoredFact
from spmd_core.search.candidate import Candidate, Reason
from spmd_core.search.scaled import estimate_s

REASON: Reason = "estimate far above the best"
DRAWN = 20  # shardings compiled that were drawn at random of those left, before any is ruled out
MARGIN = 2.0  # below the least that was seen of a time over its estimate


@dataclass(frozen=True, slots=True)
class Trust:
    """How far below its estimate a compiled program was: `least` of it, of `compiled` candidates,
    of which `drawn` at random.
    """

    compiled: int
    drawn: int
    least: float

    @property
    def limit(self) -> float:
        """The share of its estimate below which no candidate is believed to be."""
        return self.least / MARGIN


def trust(candidates: Iterable[Candidate], drawn: int) -> Trust | None:
    """What is known of the estimates; None as long as nothing was compiled."""
    shares = [
        each.predicted.estimate / estimate
        for each in candidates
        if each.stage == "compiled" and each.predicted and (estimate := estimate_s(each))
    ]
    return Trust(len(shares), drawn, min(shares)) if shares else None


def rejudged(candidates: Sequence[Candidate], known: Trust, best_s: float) -> list[Candidate]:
    """Candidates that change: ruled out, since the limit of their estimate is above the best; or
    only estimated again, since the limit has fallen since.
    """
    changed = []
    for each in candidates:
        is_out = each.reason == REASON
        if (each.stage != "estimated" and not is_out) or not (estimate := estimate_s(each)):
            continue
        is_far = estimate * known.limit / each.tokens > best_s
        if is_far and not is_out:
            changed.append(
                replace(
                    each,
                    stage="pruned",
                    reason=REASON,
                    detail=_rule(estimate / each.tokens / best_s, known),
                )
            )
        elif is_out and not is_far:
            changed.append(replace(each, stage="estimated", reason=None, detail=""))
    return changed


def _rule(times: float, known: Trust) -> StoredFact:
    return StoredFact(
        kind="far behind",
        values={
            "estimate_times": times,
            "least_times": known.least,
            "compiled": known.compiled,
            "drawn": known.drawn,
        },
    )
