"""The order of candidates, which of them tie, and the front of time against memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spmd_core.base import by_key
from spmd_core.facts import Estimate
from spmd_core.results import predicted_verdict
from spmd_core.search.candidate import ORDER, Candidate, Stage
from spmd_core.search.question import SECONDS_PER_HOUR, Goal

_NONE_LESS = 0.001  # of time or memory: a constraint that changes less changes nothing
SAME = 0.005  # of the score: estimates nearer than this are the same


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score (lower is better) and others of the same estimate and memory."""

    candidate: Candidate
    score: float
    alike: tuple[int, ...] = ()


def score(
    candidate: Candidate, goal: Goal = "time", price: dict[str, float] | None = None
) -> float:
    """What is minimized: seconds per token, bytes per device, chip-seconds or price per token.
    ValueError of a candidate without a time.
    """
    if candidate.seconds is None:
        raise ValueError(f"{candidate.name} has no time")
    each = candidate.seconds / candidate.tokens
    if goal == "memory":
        return float(candidate.memory_bytes or 0)
    if goal == "chip-seconds":
        return candidate.chips * each
    if goal == "price":
        hourly = (price or {}).get(chip_of(candidate), 0.0)
        return candidate.chips * each * hourly / SECONDS_PER_HOUR
    return each


def price_per_billion(candidate: Candidate, price: dict[str, float]) -> float | None:
    """The price of a billion tokens; None without a plan, a time, or a price of its chips."""
    if candidate.step is None or chip_of(candidate) not in price:
        return None
    return 1e9 * score(candidate, "price", price) if candidate.seconds is not None else None


def ranking(
    candidates: Iterable[Candidate],
    goal: Goal = "time",
    price: dict[str, float] | None = None,
    best: Sequence[int] = (),
) -> list[Ranked]:
    """Candidates with a time, the best first; at equal scores (`_as_sure`, `_even_scores`) the simpler
    one. What is known better is first: measured before compiled before estimated (but `_stages`); the
    `best` of those measured side by side (numbers: the fastest, then its ties) before what was measured
    alone on their target, or was slower. Candidates that differ in no figure are one entry.
    """
    ranked = [(each, score(each, goal, price)) for each in candidates if each.is_ranked]
    place = {number: at for at, number in enumerate(best)}
    lead = {each.target: value for each, value in ranked if place.get(each.number) == 0}
    sure, even = _best_sure(ranked), _even_scores(ranked)
    stages = _stages(ranked) if goal != "memory" else {}

    def order(entry: tuple[Candidate, float]) -> tuple[float, ...]:
        each, value = entry[0], even.get(entry[0].number, entry[1])
        best_sure = sure.get(each.target, 0.0)
        value, gain = (value, 0.0) if goal == "memory" else _as_sure(each, value, best_sure)
        if each.measured_s is not None and each.target in lead:
            value = max(lead[each.target], value if each.number not in place else 0.0)
        return (
            ORDER[stages.get(each.number, each.stage)],
            each.step is None and each.stage == "estimated" and not each.partitioned,
            each.fits == "unlikely",
            value,
            each.fits != "yes",
            place.get(each.number, len(place)),
            gain,
            each.moved,
            *(each.complexity if value == best_sure else ()),
            each.seconds or 0.0,
            each.memory_bytes or 0,
            each.number,
        )

    return _entries(sorted(ranked, key=order))


def _as_sure(each: Candidate, value: float, best_sure: float) -> tuple[float, float]:
    """The score by which a candidate ranks, and what orders those of one such score: of estimated plans
    what is within `SAME` of the best of their target is equal to it; an estimate that may not fit is
    behind the best that is sure to, the fastest first; one that is unlikely to is behind all.
    """
    gain = 0.0
    if each.stage != "estimated" or not each.step:
        return value, gain
    if each.fits == "likely":
        gain, value = min(value, (1 - SAME) * best_sure), max(value, best_sure)
    return (best_sure if value < (1 + SAME) * best_sure else value), gain


def _even_scores(ranked: Iterable[tuple[Candidate, float]]) -> Mapping[int, float]:
    """Number -> the best score of its target and stage, of what is within `SAME` of it: of these the
    batch of an exported program stays over the axes of its file. {} of others.
    """
    ranked = [*ranked]
    if not any(each.moved for each, _ in ranked):
        return {}
    alike = by_key(((each.target, each.stage), value) for each, value in ranked)
    least = {key: min(scores) for key, scores in alike.items()}
    return {
        each.number: best
        for each, value in ranked
        if value < (1 + SAME) * (best := least[each.target, each.stage])
    }


def _best_sure(ranked: Iterable[tuple[Candidate, float]]) -> dict[str, float]:
    """Target -> the best score of those that are estimated and sure to fit."""
    sure = by_key(
        (each.target, value)
        for each, value in ranked
        if each.stage == "estimated" and each.fits == "yes"
    )
    return {target: min(scores) for target, scores in sure.items()}


def _ahead_of_compiled(ranked: Sequence[tuple[Candidate, float]]) -> set[int]:
    """Numbers of plans that are only estimated, for chips that nothing was compiled for, and that
    take less at the slowest than all that was compiled at the fastest: that a compiler is missing
    here is no reason to be behind.
    """
    compiled = [(each, value) for each, value in ranked if each.step and each.stage == "compiled"]
    if not compiled:
        return set()
    known = {chip_of(each) for each, _ in compiled}
    least = min(_ends(each, value)[0] for each, value in compiled)
    return {
        each.number
        for each, value in ranked
        if each.stage == "estimated" and each.fits == "yes"
        # the dear question last: of a wide space these are many
        if _ends(each, value)[1] < least and chip_of(each) not in known
    }


def _behind_compiled(ranked: Sequence[tuple[Candidate, float]]) -> set[int]:
    """Numbers of compiled plans that take more at their fastest than the best of them at its
    slowest: that they were compiled is no reason to be ahead of estimates that take less.
    """
    spans = {
        each.number: _ends(each, value)
        for each, value in ranked
        if each.step and each.stage == "compiled"
    }
    least = min((high for _, high in spans.values()), default=0.0)
    return {number for number, (low, _) in spans.items() if low > least}


def _stages(ranked: Sequence[tuple[Candidate, float]]) -> dict[int, Stage]:
    """The stage at which some rank, in the place of their own."""
    ahead: dict[int, Stage] = dict.fromkeys(_ahead_of_compiled(ranked), "compiled")
    return {**ahead, **dict.fromkeys(_behind_compiled(ranked), "estimated")}


def _ends(candidate: Candidate, value: float) -> tuple[float, float]:
    """The interval of a score: that of the time, at what a second counts."""
    low, high = candidate.span or (candidate.seconds or 0.0,) * 2
    each = value / (candidate.seconds or 1.0)
    return low * each, high * each


def chip_of(candidate: Candidate) -> str:
    """The kind of chip of its target, as prices name it."""
    return candidate.target.split(":")[1]


def _entries(ranked: Iterable[tuple[Candidate, float]]) -> list[Ranked]:
    """Candidates in order, with estimates that are the same as one entry."""
    entries: list[Ranked] = []
    places: dict[tuple[object, ...], int] = {}
    for each, value in ranked:
        key = (
            each.target,
            each.tokens,
            each.seconds,
            each.memory_bytes,
            each.strategy,
            each.stage if each.stage == "estimated" else each.number,
        )
        if key in places and each.stage == "estimated":
            first = entries[places[key]]
            entries[places[key]] = Ranked(first.candidate, first.score, (*first.alike, each.number))
        else:
            places[key] = len(entries)
            entries.append(Ranked(each, value))
    return entries


def ties(
    entries: Sequence[Ranked], goal: Goal = "time", most: int | None = None
) -> list[Candidate]:
    """Those of the first `most`, or of all, that the winner is not proven ahead of: by the verdict on
    their intervals; where memory is minimized, which is known, those of the same.
    """
    if not entries:
        return []
    first = entries[0]
    return [
        each.candidate
        for each in entries[1:most]
        if (
            each.score == first.score
            if goal == "memory"
            else each.candidate.stage == first.candidate.stage and _is_open(first, each)
        )
    ]


def open_estimates(entries: Sequence[Ranked]) -> list[Candidate]:
    """Returns the estimates that the winner, which is known better, is not proven ahead of."""
    first = entries[0]
    if first.candidate.stage == "estimated":
        return []
    guessed = [each for each in entries if each.candidate.stage == "estimated"]
    return [each.candidate for each in guessed if _is_open(first, each)]


def _is_open(one: Ranked, other: Ranked) -> bool:
    """Returns True if no verdict puts one ahead of the other."""
    mine, theirs = _interval(one), _interval(other)
    return mine is None or theirs is None or predicted_verdict(theirs, mine) != "faster"


def _interval(entry: Ranked) -> Estimate | None:
    """The interval of what is minimized: that of the time, at what a second counts."""
    if not entry.candidate.span or not entry.candidate.seconds:
        return None
    low, high = _ends(entry.candidate, entry.score)
    return Estimate(low=low, estimate=entry.score, high=high)


def front(entries: Sequence[Ranked], price: dict[str, float] | None = None) -> list[Candidate]:
    """Candidates than which none is both faster per token and smaller (with `price`: cheaper per
    token) by more than `SAME`, the fastest first, or the first of the ranking where it is as fast;
    of those that are sure to fit and known as well as the first is, where these are several.
    """
    if not entries:
        return []
    first = entries[0].candidate
    fitting = [each.candidate for each in entries if each.candidate.fits == first.fits]
    best = [each for each in fitting if each.stage == first.stage]

    def cost(each: Candidate) -> float:
        return score(each, "price", price) if price else float(each.memory_bytes or 0)

    fastest = sorted(best if len(best) > 1 else fitting, key=lambda each: (score(each), cost(each)))
    if score(first) <= (1 + SAME) * score(fastest[0]):
        fastest = [first, *(each for each in fastest if each is not first)]
    kept: list[Candidate] = []
    for each in fastest:
        # less by rounding is not less: on one topology the price is the time
        share = 1 - (1e-9 if each is first else SAME)
        if not kept or cost(each) < share * cost(kept[-1]):
            kept.append(each)
    return kept


def shardings(entries: Sequence[Ranked]) -> list[list[Ranked]]:
    """The ranking by mesh, batch and target: the policies of one together, the best first; of arrays
    each alone, but for constraints that change neither time nor memory, which are beside what they
    constrain.
    """
    by_number = {entry.candidate.number: entry.candidate for entry in entries}
    groups: dict[object, list[Ranked]] = {}
    for entry in entries:
        each = entry.candidate
        base = by_number.get(each.constrained[0]) if each.constrained else None
        number = base.number if base and _takes_as_much(each, base) else each.number
        key = (each.target, each.step.of_mesh.mesh, each.tokens) if each.step else number
        groups.setdefault(key, []).append(entry)
    # beside what is constrained, which is the simpler one
    return [sorted(group, key=_is_constrained) for group in groups.values()]


def _is_constrained(entry: Ranked) -> bool:
    return entry.candidate.constrained is not None


def _takes_as_much(one: Candidate, other: Candidate) -> bool:
    """Returns True if two candidates are known in one way, and alike in time and memory."""
    times, sizes = (one.seconds, other.seconds), (one.memory_bytes, other.memory_bytes)
    return one.stage == other.stage and all(
        a == b or (a and b and abs(a - b) <= _NONE_LESS * b) for a, b in (times, sizes)
    )


def in_order(groups: Sequence[Sequence[Ranked]]) -> list[Sequence[Ranked]]:
    """Returns meshes and batches as they are listed: the first of the ranking, then those known as
    well by what is minimized, then the estimates that are sure to fit, then what may not; those of
    arrays as they rank.
    """
    if not groups or groups[0][0].candidate.step is None:
        return [*groups]

    def key(group: Sequence[Ranked]) -> tuple[bool, int, float]:
        each = group[0].candidate
        return each.fits != "yes", ORDER[each.stage], group[0].score

    first, *others = groups
    return [first, *sorted(others, key=key)]
