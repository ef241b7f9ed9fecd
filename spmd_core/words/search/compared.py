"""Where one candidate takes longer than another: seconds by kind of time, and bytes."""

from dataclasses import dataclass

from spmd_core.search import Candidate
from spmd_core.time import estimate_step

_TELLING = 0.005  # of the faster one's time: smaller differences are not worth a word


@dataclass(frozen=True, slots=True)
class Difference:
    """The other minus the first, for the tokens of the first: `ratio` of their times, seconds by
    kind as a prediction's shares name them, the largest first, and bytes per device; `gap_s` is how
    far their times are apart, which the kinds may not explain. The kinds are those of the estimates
    where one of them is known better than the other.
    """

    ratio: float
    gap_s: float
    seconds: tuple[tuple[str, float], ...]
    memory_bytes: int


def compared(one: Candidate, other: Candidate) -> Difference:
    """How `other` differs from `one`; ValueError where one of them has no time."""
    if one.seconds is None or other.seconds is None:
        raise ValueError(f"{(one if one.seconds is None else other).name} has no time")
    scale = one.tokens / other.tokens
    is_compiled = one.stage == other.stage == "compiled" and bool(one.parts and other.parts)
    # Seconds by kind, by the estimate
    mine, theirs = (
        dict(each.parts)
        if is_compiled or each.step is None
        else estimate_step(each.step.plan).shares_s
        for each in (one, other)
    )
    first, second = one.seconds, other.seconds
    deltas = {
        name: scale * theirs.get(name, 0.0) - mine.get(name, 0.0)
        for name in dict.fromkeys((*mine, *theirs))
    }
    judged = sorted(
        ((name, seconds) for name, seconds in deltas.items() if abs(seconds) > _TELLING * first),
        key=lambda pair: -abs(pair[1]),
    )
    return Difference(
        scale * second / first,
        scale * second - first,
        tuple(judged),
        (other.memory_bytes or 0) - (one.memory_bytes or 0),
    )
