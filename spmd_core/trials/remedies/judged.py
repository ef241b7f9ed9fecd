"""The effect of a compiled change on a collective: gone, less, or there as before."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from spmd_core.advice import all_findings, opened
from spmd_core.experiment import Experiment
from spmd_core.facts import (
    Collective,
    CollectiveKind,
    Nothing,
    Predicted,
    PredictedMemory,
    Remedy,
    TriedChange,
)
from spmd_core.program import rows
from spmd_core.results import StrategyResult
from spmd_core.roofline import ProgramTime
from spmd_core.trials.remedies.candidate import WORTH, AlikeCollectives, RemedyCandidate, SideBySide

LESS = 0.9  # of its time: a collective that stays counts as less from here down


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate as it was compiled; `outcome` None where it was not, and then nothing else is
    known. `is_wrong`: it opens a finding that the program did not have; `is_estimated`: it was
    partitioned alone.
    """

    candidate: RemedyCandidate
    outcome: StrategyResult | None = None
    costs: ProgramTime | None = None
    is_wrong: bool = False
    is_estimated: bool = False

    @property
    def is_of_program(self) -> bool:
        """Whether it changes an exported program."""
        return self.candidate.experiment.exported is not None


def opens_finding(
    experiment: Experiment,
    base: StrategyResult,
    candidate: RemedyCandidate,
    outcome: StrategyResult,
) -> bool:
    """Returns True if a change opens a finding that an exported program did not have."""
    before, after = experiment.exported, candidate.experiment.exported
    if before is None or after is None:
        return False
    names = [each.name for each in candidate.changes if each.field == "specs"]
    return bool(opened(all_findings(before, base), all_findings(after, outcome), names))


def targets(outcome: StrategyResult, costs: ProgramTime) -> list[AlikeCollectives]:
    """The collectives worth more than WORTH of a program's time, alike ones together, the longest
    first.
    """
    listed = outcome.collectives or ()
    number = {id(each): place for place, each in enumerate(listed)}
    kept = []
    for row in rows(listed):
        numbers = tuple(number[id(each)] for each in row.members)
        seconds = sum(costs.each_s[place] for place in numbers)
        if not row.rest and seconds > WORTH * costs.total_s:
            kept.append(AlikeCollectives(numbers, row.first, seconds))
    return sorted(kept, key=lambda each: -each.seconds)


def untried(outcome: StrategyResult, tried: Sequence[AlikeCollectives]) -> dict[int, Nothing]:
    """Number -> why nothing was tried, of the collectives that are no targets."""
    taken = {number for each in tried for number in each.numbers}
    return {
        number: Nothing(is_small=True)
        for number in range(len(outcome.collectives or ()))
        if number not in taken
    }


def matched(before: Sequence[Collective], after: Sequence[Collective]) -> dict[int, int]:
    """Number of each collective after a change -> the number of the same collective before it.

    Two are the same if they have the same kind and axes. Of several candidates, the pair with the
    most similar reason, operation and bytes counts. No collective is in two pairs.
    """
    pairs = sorted(
        (
            one.reason != other.reason,
            one.op != other.op,
            abs(one.bytes - other.bytes),
            place != number,
            number,
            place,
        )
        for number, one in enumerate(before)
        for place, other in enumerate(after)
        if (one.asked or one.kind, set(one.axes)) == (other.asked or other.kind, set(other.axes))
    )
    numbers: dict[int, int] = {}
    taken: set[int] = set()
    for *_, number, place in pairs:
        if number not in taken and place not in numbers:
            numbers[place] = number
            taken.add(number)
    return numbers


def alike(listed: Sequence[Collective], target: Collective) -> list[int]:
    """Numbers of the collectives of its kind, as compiled or as requested, over any of its axes."""
    return [
        number
        for number, each in enumerate(listed)
        if {each.kind, each.asked or each.kind} & {target.kind, target.asked or target.kind}
        and set(each.axes) & set(target.axes)
    ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a candidate makes of a target: those of it that are left, others of its kind over its
    axes, and those that came instead.
    """

    tried: Tried
    left: tuple[Collective, ...]
    others: tuple[Collective, ...]
    new: tuple[Collective, ...]
    left_s: float
    total_s: float

    @property
    def removes(self) -> bool:
        """Whether nothing is left of it."""
        return not self.left


def verdict(target: AlikeCollectives, base: StrategyResult, tried: Tried) -> Verdict | None:
    """None where the candidate did not compile, or nothing predicts its time."""
    if tried.outcome is None or tried.costs is None:
        return None
    before, after = base.collectives or (), tried.outcome.collectives or ()
    pairs = matched(before, after)
    like = alike(after, target.first)
    left = [place for place in like if pairs.get(place, target.numbers[0]) in target.numbers]
    if not left and _is_merged(target, before, after):
        left = like
    return Verdict(
        tried,
        tuple(after[place] for place in left),
        tuple(after[place] for place in like if place not in left),
        tuple(each for place, each in enumerate(after) if place not in pairs and place not in left),
        sum(tried.costs.each_s[place] for place in left),
        tried.costs.total_s,
    )


def _is_merged(
    target: AlikeCollectives, before: Sequence[Collective], after: Sequence[Collective]
) -> bool:
    """Whether another collective carries what the target did: there are fewer, and of as many
    bytes.
    """
    was, now = (
        _moved(listed[place] for place in alike(listed, target.first)) for listed in (before, after)
    )
    return was - now < _moved(before[place] for place in target.numbers) / 2


def helps(target: AlikeCollectives, costs: ProgramTime, verdict: Verdict) -> bool:
    """Whether a candidate removes a target, or makes it less, in less time. Of an exported program the
    time alone decides where it is less by WORTH: that is what its author wants less of.
    """
    took = verdict.tried.costs
    if took is None or not took.is_less_than(costs):
        return False
    is_worth = verdict.tried.is_of_program and took.total_s < (1 - WORTH) * costs.total_s
    return is_worth or lessens(target, verdict)


def lessens(target: AlikeCollectives, verdict: Verdict) -> bool:
    """Whether a candidate removes a target, or makes it less."""
    return verdict.removes or verdict.left_s < LESS * target.seconds


def settles(target: AlikeCollectives, costs: ProgramTime, verdict: Verdict | None) -> bool:
    """Whether no further candidate needs to be tried: nothing is left of the target, nothing came
    in its place, and it takes less time.
    """
    return (
        verdict is not None
        and verdict.removes
        and not verdict.new
        and not verdict.tried.is_wrong
        and helps(target, costs, verdict)
    )


def answer(
    experiment: Experiment,
    base: StrategyResult,
    costs: ProgramTime,
    target: AlikeCollectives,
    tried: Sequence[Tried],
    timed: SideBySide | None = None,
) -> Remedy | Nothing:
    """The best of the changes that were compiled; why nothing helps where none does. `timed`: the
    doubtful one beside the program.
    """
    outcomes = [(each, verdict(target, base, each)) for each in tried]
    verdicts = [judged for _, judged in outcomes if judged]
    known = [each for each in verdicts if not each.tried.is_estimated] or verdicts
    good = [each for each in known if helps(target, costs, each)]
    if good:
        best = min(good, key=partial(_place, experiment.exported is not None))
        remedy = _remedy(experiment, base, costs, target, best)
        estimated = sum(each.tried.is_estimated for each in verdicts)
        counts = {"estimated": estimated, "compiled": len(verdicts) - estimated}
        return remedy.model_copy(update=counts if estimated else {})
    best = _best(target, costs, verdicts)
    if best is not None and timed is not None and timed.is_faster:
        return _remedy(experiment, base, costs, target, best, timed)
    return _nothing(experiment, costs, outcomes, best, timed)


def _place(is_of_program: bool, each: Verdict) -> tuple[bool, bool, float]:
    """Returns the place of a change that helps: what opens a finding of its own is last. Of an exported
    program the time decides, which is what its author wants less of; else what removes the most.
    """
    return each.tried.is_wrong, not (each.removes or is_of_program), each.total_s


def _nothing(
    experiment: Experiment,
    costs: ProgramTime,
    outcomes: Sequence[tuple[Tried, Verdict | None]],
    best: Verdict | None,
    timed: SideBySide | None,
) -> Nothing:
    """What was tried in vain; `best` removes it or makes it less, and takes no less time for
    certain.
    """
    is_less = best is not None and best.total_s < costs.total_s
    if timed:  # what took longer is no change to open, however wide its interval
        is_less = timed.seconds.after < timed.seconds.before
    is_open = is_less and (not timed or timed.ratio.verdict == "cannot tell")
    if best is not None and not best.removes and not is_open:
        best = None
    return Nothing(
        experiment=_opened(experiment, best.tried.candidate) if best and is_open else None,
        tried=tuple(
            TriedChange(
                changes=each.candidate.changes,
                removes=judged and judged.removes,  # pyrefly: ignore[bad-argument-type]
                seconds=judged and judged.total_s,  # pyrefly: ignore[bad-argument-type]
            )
            for each, judged in outcomes
        ),
        best=[judged for _, judged in outcomes].index(best) if best else None,
        seconds=costs.total_s,
        measured_s=timed and timed.seconds,
        ratio=timed and timed.ratio,
    )


def doubtful(
    target: AlikeCollectives, base: StrategyResult, costs: ProgramTime, tried: Sequence[Tried]
) -> RemedyCandidate | None:
    """The change that may remove a target, or make it less, in less time, where predictions leave
    that open beside the program and no other change helps.
    """
    verdicts = [judged for each in tried if (judged := verdict(target, base, each))]
    best = _best(target, costs, verdicts)
    if best is None or any(helps(target, costs, each) for each in verdicts):
        return None
    return best.tried.candidate if best.total_s < costs.total_s else None


def _best(
    target: AlikeCollectives, costs: ProgramTime, verdicts: Sequence[Verdict]
) -> Verdict | None:
    """Of those that remove a target or make it less: those first that are predicted to take less
    time, then those that remove it, then the cheapest.
    """
    some = [each for each in verdicts if lessens(target, each)]
    return min(
        some,
        key=lambda each: (
            each.total_s >= costs.total_s,
            each.tried.is_wrong,
            not each.removes,
            each.total_s,
        ),
        default=None,
    )


def _remedy(
    experiment: Experiment,
    base: StrategyResult,
    costs: ProgramTime,
    target: AlikeCollectives,
    verdict: Verdict,
    timed: SideBySide | None = None,
) -> Remedy:
    candidate, compiled = verdict.tried.candidate, verdict.tried.outcome
    assert compiled is not None
    before, after = held_bytes(base), held_bytes(compiled)
    memory = None if before is None or after is None else after - before
    listed = base.collectives or ()
    was = [each for number, each in enumerate(listed) if number in target.numbers]
    return Remedy(
        changes=candidate.changes,
        experiment=_opened(experiment, candidate),
        memory_bytes=memory,
        removes=verdict.removes,
        lessens=lessens(target, verdict),
        strategy=candidate.strategy,
        predicted_by=costs.by,
        predicted_s=Predicted(before=costs.total_s, after=verdict.total_s),
        measured_s=timed and timed.seconds,
        ratio=timed and timed.ratio,
        bytes_moved=(_moved(was), _moved(verdict.left)),
        count=len(alike(listed, was[0])),
        others=len(verdict.others),
        new=tuple(
            CollectiveKind(kind=each.kind, asked=each.asked, axes=each.axes) for each in verdict.new
        ),
    )


def _moved(listed: Iterable[Collective]) -> int:
    return sum(each.bytes * each.times for each in listed)


def held_bytes(outcome: StrategyResult) -> int | None:
    """Bytes that operands, results and temporaries take on a device; donated ones count once."""
    held = (
        outcome.prediction.memory_bytes if outcome.prediction is not None else outcome.memory_bytes
    )
    if held is None or held.argument is None:
        return None
    donated = held.alias if isinstance(held, PredictedMemory) else 0
    return held.argument + (held.output or 0) + (held.temp or 0) - (donated or 0)


def _opened(experiment: Experiment, candidate: RemedyCandidate) -> Experiment:
    """What one click opens: on absent devices what was compiled, and is stored; on those that are
    here all strategies, to be timed side by side.
    """
    if experiment.place.is_absent:
        return candidate.experiment
    strategies = dict.fromkeys((*experiment.strategies, candidate.strategy))
    return candidate.experiment.vary(strategies=list(strategies))
