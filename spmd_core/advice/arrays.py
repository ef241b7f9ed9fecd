"""Rules for a computation of arrays, measured or predicted: each is a function of the facts that
gives the next thing to try, or None where its number is no reason to.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment
from spmd_core.facts import Remedy
from spmd_core.fields import axes_json
from spmd_core.results import SPREAD_WARNING, Next, Result, StrategyResult
from spmd_core.roofline import closed_form_s, formula_of, times_where_run
from spmd_core.terms import listed
from spmd_core.words import filled
from spmd_core.workloads import DTYPE_BYTES, STRATEGIES

ONE_DEVICE_WINS = "one_device_wins"  # a rule, whose advice the stored sizes may refute
FLOOR_SHARE = 0.3  # of the time: from here on the floor is what is measured
GROWN, ENOUGH_BYTES = 16, 2**22  # of operands: times as many, and at least so many
MOST_DOUBLINGS = 40
MOST_BYTES = 2**28  # of operands, that a suggestion may need
LARGE_BYTES, LARGE_SHARE = 2**20, 0.25  # of a replicated operand, of what a device holds
SAVES = 0.95  # of its time, by the closed form, a suggestion must stay below
_SENTENCES = {  # by rule, the number first
    "dispatch_bound": "{share:.0%} of the time is the dispatch floor, {floor_s} a call: try {sizes}, "
    "where more of it is computation.",
    ONE_DEVICE_WINS: "{row} is faster here: try whether sharding wins at {sizes}.",
    "idle_axis": "{size} devices compute the same, since nothing is sharded over `{axis}`: try {dim} "
    "sharded over `{axis}`.",
    "replicated_operand": "{held_bytes} of `{array}` on every device: try it sharded over {over}, "
    "{left_bytes} each.",
    "partial_sums": "{each_bytes} per device in each {kind} over {over}: try {change}, which leaves no "
    "partial sums of {dim} to add.",
    "noisy": "The middle half of the samples spreads over {spread:.0%} of the median: try {samples} "
    "samples on an idle machine.",
    "larger_size": "{time_s} at this size: try {sizes} to see how it grows.",
    "remedy": "{saved:.0%} less time, {how}: {remedy}.",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules look at: a result, and the strategy that is its answer."""

    result: Result
    name: str
    outcome: StrategyResult

    @property
    def experiment(self) -> Experiment:
        """What was run."""
        return self.result.experiment

    def is_single_device(self, name: str) -> bool:
        """Whether a strategy of the result uses no mesh."""
        return STRATEGIES[self.result.row(name).strategy].is_single_device


Rule = Callable[[Facts], Next | None]


def _next(rule: str, number: float, experiment: Experiment, **values: float | str) -> Next:
    """The advice of a rule: an experiment to try, and the sentence of the rule with its values."""
    sentence = filled(_SENTENCES[rule], values)
    return Next(rule=rule, number=number, experiment=experiment, sentence=sentence)


def dispatch_bound(facts: Facts) -> Next | None:
    """Much of the time is what any call costs on this machine."""
    floor, seconds = facts.result.environment.dispatch_floor_s, facts.outcome.median_s
    if floor is None or seconds is None or facts.is_single_device(facts.name):
        return None
    share = min(1.0, floor / seconds)
    larger = grown(facts.experiment)
    if share < FLOOR_SHARE or larger is None:
        return None
    sizes = _grown_sizes(facts, larger)
    return _next("dispatch_bound", share, larger, share=share, floor_s=floor, sizes=sizes)


def one_device_wins(facts: Facts) -> Next | None:
    """A strategy of one device is faster than every sharded one, by the verdicts on them."""
    answer, larger = facts.result.comparison, grown(facts.experiment)
    if answer is None or larger is None or not facts.is_single_device(answer.fastest):
        return None
    ordered = answer.by_medians(facts.result.medians_s)
    sharded = [each for each in ordered if not facts.is_single_device(each.strategy)]
    if not sharded or not all(each.differs for each in sharded):
        return None
    ratio = sharded[0].ratio  # which the answer names
    sizes = _grown_sizes(facts, larger)
    return _next(ONE_DEVICE_WINS, ratio, larger, row=answer.fastest, sizes=sizes)


def idle_axis(facts: Facts) -> Next | None:
    """Nothing is sharded over a mesh axis, and some dim could be."""
    experiment = facts.experiment
    used = {
        axis
        for array in experiment.what.arrays
        for axes in experiment.spec(array.name)
        for axis in axes
    }
    table = dict(experiment.sharding)
    for axis, size in experiment.mesh:
        if axis in used or size < 2:
            continue
        for dim in _by_size(experiment):
            changed = table | {dim: (*table.get(dim, ()), axis)}
            tried = varied(experiment, sharding=_table_json(changed))
            if tried is not None:
                return _next("idle_axis", size, tried, size=size, axis=axis, dim=dim)
    return None


def replicated_operand(facts: Facts) -> Next | None:
    """A large operand is replicated, and an axis is left to shard it over."""
    experiment = facts.experiment
    held = facts.outcome.memory_bytes
    total = (held.peak or held.argument or 0) if held else 0
    for array in experiment.what.operands:
        spec = experiment.spec(array.name)
        nbytes = math.prod(experiment.shape(array.name)) * DTYPE_BYTES[experiment.dtype]
        if any(spec) or nbytes < LARGE_BYTES or nbytes < LARGE_SHARE * total:
            continue
        for at, size in sorted(enumerate(experiment.shape(array.name)), key=lambda each: -each[1]):
            axes = tuple(axis for axis, count in experiment.mesh if count > 1)
            parts = math.prod(experiment.axis_sizes[axis] for axis in axes)
            if parts < 2 or size % parts:
                continue
            entries = [axes_json(axes) if place == at else None for place in range(len(spec))]
            tried = varied(
                experiment, overrides={**experiment.to_json()["overrides"], array.name: entries}
            )
            if tried is not None:
                given = {"array": array.name, "held_bytes": nbytes, "left_bytes": nbytes // parts}
                return _next("replicated_operand", nbytes, tried, over=_over(axes), **given)
    return None


def partial_sums(facts: Facts) -> Next | None:
    """The largest collective adds partial sums over a dim, and another sharding takes less time by
    the closed form: that dim replicated, or another sharded in its place.
    """
    sums = [
        each
        for each in facts.outcome.collectives or ()
        if each.kind in ("all-reduce", "reduce-scatter")
    ]
    if not sums:
        return None
    largest = max(sums, key=lambda each: each.bytes * each.times)
    if largest.remove is not None:  # it was tried, and the compiler's answer is known
        return None
    experiment = facts.experiment
    strategy = facts.result.row(facts.name).strategy
    known = times_where_run(experiment, facts.result.environment, None)
    formula = formula_of(experiment, known, facts.result.environment.cores or 1)
    best, least_s = None, SAVES * closed_form_s(formula, experiment, strategy)
    for dim, other, tried in _without_sums(experiment, largest.axes):
        seconds = closed_form_s(formula, tried, strategy)
        if seconds < least_s:
            best, least_s = (dim, other, tried), seconds
    if best is None:
        return None
    (dim, other, tried), over = best, _over(largest.axes)
    change = f"{other} sharded over {over} in place of {dim}" if other else f"{dim} replicated"
    given = {"each_bytes": largest.bytes, "kind": largest.kind, "over": over, "change": change}
    return _next("partial_sums", largest.bytes, tried, dim=dim, **given)


def _without_sums(
    experiment: Experiment, over: Sequence[str]
) -> Iterator[tuple[str, str, Experiment]]:
    """(contracted dim that is sharded over these axes, the dim sharded in its place or "", the
    experiment with that).
    """
    table, contracted = dict(experiment.sharding), experiment.what.contracted
    for dim in contracted:
        moved = tuple(axis for axis in table.get(dim, ()) if axis in over)
        left = {name: axes for name, axes in table.items() if name != dim}
        for other in ("", *experiment.sizes) if moved else ():
            if other not in contracted:
                more = {other: (*left.get(other, ()), *moved)} if other else {}
                if tried := varied(experiment, sharding=_table_json(left | more)):
                    yield dim, other, tried


def noisy(facts: Facts) -> Next | None:
    """The samples scatter too much to compare strategies: the verdict on some of them is open."""
    outcome, answer = facts.outcome, facts.result.comparison
    if (
        (answer and answer.ratios and not answer.tied)
        or outcome.spread is None
        or outcome.spread <= SPREAD_WARNING
    ):
        return None
    timing = facts.experiment.timing
    tried = varied(
        facts.experiment,
        timing={
            "samples": min(1000, timing.samples * 3),
            "min_seconds": min(60, timing.min_seconds * 3),
        },
    )
    if tried is None or tried == facts.experiment:
        return None
    return _next(
        "noisy", outcome.spread, tried, spread=outcome.spread, samples=tried.timing.samples
    )


def larger_size(facts: Facts) -> Next | None:
    """Nothing stands out: the same at a larger size."""
    larger, time_s = grown(facts.experiment), facts.outcome.time_s
    if larger is None or time_s is None:
        return None
    return _next("larger_size", time_s, larger, time_s=time_s, sizes=_grown_sizes(facts, larger))


def remedied(outcome: StrategyResult) -> Next | None:
    """The remedy that saves the largest share of a program's time; None where nothing was tried, or
    nothing helps.
    """
    removed = (each.remove for each in outcome.collectives or ())
    saved = [
        (1 - seconds.after / seconds.before, each)
        for each in removed
        if isinstance(each, Remedy)
        for seconds in [each.measured_s or each.predicted_s]
    ]
    if not saved:
        return None
    share, best = max(saved, key=lambda each: each[0])
    how = "measured" if best.measured_s else "predicted"
    return _next("remedy", share, best.experiment, saved=share, how=how, remedy=best.sentence)


# In the order in which they are tried: what spoils the answer first, then what would mend it.
RULES: tuple[Rule, ...] = (
    noisy,
    one_device_wins,
    dispatch_bound,
    lambda facts: remedied(facts.outcome),
    idle_axis,
    replicated_operand,
    partial_sums,
    larger_size,
)


def grown(experiment: Experiment) -> Experiment | None:
    """The experiment with its dims doubled in turn, the largest first, until it has GROWN times
    the bytes of operands and ENOUGH_BYTES at least; None where that is too large to suggest.
    """
    sizes, what = experiment.sizes, experiment.what
    free = [
        dim
        for dim in _by_size(experiment)
        if not any(dim in (rule.dim, rule.other) for rule in what.size_rules)
    ]
    enough = max(ENOUGH_BYTES, GROWN * what.operand_bytes(sizes, experiment.dtype))
    for turn in range(MOST_DOUBLINGS if free else 0):
        if what.operand_bytes(sizes, experiment.dtype) >= enough:
            break
        sizes[free[turn % len(free)]] *= 2
    if not free or what.operand_bytes(sizes, experiment.dtype) > MOST_BYTES:
        return None
    return varied(experiment, dims=sizes)


def varied(experiment: Experiment, **changes: Any) -> Experiment | None:
    """The experiment with fields changed; None where the rules refuse it."""
    try:
        return experiment.vary(**changes)
    except RequestError:
        return None


def _by_size(experiment: Experiment) -> list[str]:
    """Dims of the operands and results, the largest first; those that are summed over last."""
    summed = experiment.what.contracted
    return sorted(experiment.sizes, key=lambda dim: (dim in summed, -experiment.sizes[dim]))


def _grown_sizes(facts: Facts, larger: Experiment) -> str:
    sizes = facts.experiment.sizes
    return listed([f"{dim}={size}" for dim, size in larger.dims if sizes[dim] != size])


def _over(axes: Sequence[str]) -> str:
    return listed([f"`{axis}`" for axis in axes])


def _table_json(table: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    return {dim: axes_json(axes) for dim, axes in table.items() if axes}
