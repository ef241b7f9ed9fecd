"""Remedies for a collective, in words: the change, what it removes, and its cost."""

from collections.abc import Mapping, Sequence
from math import ceil, inf
from typing import Any

from spmd_core.advice.nearest import changes as changes_of_plan
from spmd_core.base import by_key, bytes_text, seconds_like, seconds_text
from spmd_core.experiment import Experiment, spec_code
from spmd_core.facts import (
    Change,
    Collective,
    CollectiveKind,
    Nothing,
    Predicted,
    Ratio,
    Remedy,
    Removal,
    TriedChange,
    Verdict,
)
from spmd_core.fields import Axes, axes_of
from spmd_core.plan import Plan
from spmd_core.program import is_ring, kind_words
from spmd_core.terms import listed, title
from spmd_core.time import NearestFit, estimate_step
from spmd_core.words import paired_words
from spmd_core.workloads import VALUE

_MOST_NEW = 2  # collectives that replace it, in a sentence
_SUMS = ("all-reduce", "reduce-scatter")


def over_words(axes: Sequence[str]) -> str:
    """E.g. "`x` and `y`"."""
    return listed([f"`{axis}`" for axis in axes])


def change_words(base: Experiment, changes: Sequence[Change]) -> str:
    """Changes that go together: of dims, an operand or a result, memory, the strategy, a plan."""
    if base.plan:
        near = _changed(base.plan, changes)
        return f"try {listed(list(changes_of_plan(base.plan, near)))}"
    last = changes[-1]
    if last.field == "strategies":
        return f"use {title(last.after)} in place of {title(last.before)}"
    if last.field == "memory":
        return f"keep `{last.name}` in device memory"
    if last.field == "overrides":
        return _array_words(base, last)
    if last.field == "specs" and not last.name.startswith(VALUE):
        first, *state = changes
        given = f"the spec {spec_code(tuple(map(axes_of, first.after)))}"
        if any(each.after != first.after for each in state):  # state over more axes, as of ZeRO
            return f"give `{first.name}` {given}, and move the axis of its optimizer state likewise"
        return f"give `{first.name}`{' and its optimizer state' * bool(state)} {given}"
    if last.field == "specs":
        return f"constrain {listed([value_words(each.name, each.after) for each in changes])}"
    over = {each.name: axes_of(each.after) for each in changes}
    if not last.shards_more:
        return _dims_words(over)
    *dims, other = over
    return f"shard `{other}` over {over_words(over[other])} in place of {over_words(dims)}"


def value_words(name: str, spec: Sequence[Any]) -> str:
    """The value of a source line, and the line of code that constrains it: under `grad` that line
    constrains the cotangent, too, also in loops, where this does not.
    """
    held = spec_code(tuple(map(axes_of, spec)))
    line = f"x = jax.lax.with_sharding_constraint(x, {held})"
    return f"the value of {name.removeprefix(VALUE)}, about as `{line}` does"


def _changed(plan: Plan, changes: Sequence[Change]) -> NearestFit:
    after = {each.name or each.field: each.after for each in changes}
    update: dict[str, object] = {name: tuple(of) for name, of in after.items() if name != "remat"}
    if "mesh" in after:
        update["mesh"] = tuple(after["mesh"].items())
    if "compiler_flags" in after:
        update["compiler_flags"] = tuple(after["compiler_flags"].split())
    near = plan.model_copy(update={**after, **update})
    return NearestFit(near, estimate_step(near))


def _dims_words(left: Mapping[str, Axes]) -> str:
    """Dims that are no longer sharded over some axes, with the remaining axes of each."""
    none = [dim for dim, axes in left.items() if not axes]
    parts = [f"leave {over_words(none)} replicated"] if none else []
    parts += [f"shard `{dim}` over {over_words(axes)} alone" for dim, axes in left.items() if axes]
    return listed(parts)


def _array_words(base: Experiment, change: Change) -> str:
    dims = base.what.array(change.name).present(base.sizes)
    parts = [
        f"over {_axis_words(axes_of(axes))} along dim `{dim}`"
        for dim, axes in zip(dims, change.after, strict=True)
        if axes
    ]
    is_result = change.name in {each.name for each in base.what.results}
    verb = f"{'request' if is_result else 'store'} array `{change.name}`"
    return f"{verb} sharded {' and '.join(parts)}" if parts else f"{verb} replicated"


def _axis_words(axes: Sequence[str]) -> str:
    """E.g. "axes `x` and `y`", where an array may have the name of an axis."""
    return f"{'axis' if len(axes) == 1 else 'axes'} {over_words(axes)}"


def removal_words(removal: Removal) -> str:
    """What would remove a collective, or why nothing does."""
    return removal.reason if isinstance(removal, Nothing) else removal.sentence


def effect_words(remedy: Remedy) -> str:
    """What a change does, without the change."""
    return remedy.sentence.partition(": ")[2]


def what_words(each: CollectiveKind) -> str:
    """E.g. "all-reduce over `x`"."""
    kind = kind_words(each) if is_ring(each) else each.kind
    return f"{kind} over {over_words(each.axes)}" if each.axes else kind


def with_sentence(removal: Removal, base: Experiment, each: Collective) -> Removal:
    """An answer with the sentence of its facts; those that an older version stored have theirs.

    `base`: what was changed, with the one strategy of the collective.
    """
    if removal_words(removal):
        return removal
    if isinstance(removal, Remedy):
        return removal.model_copy(update={"sentence": remedy_words([(removal, each)], base)})
    return removal.model_copy(update={"reason": _nothing_words(removal, base, each)})


def remedy_words(remedies: Sequence[tuple[Remedy, Collective]], base: Experiment) -> str:
    """The two sides of a compiled change: what it removes, and its cost; `remedies`: the change of
    each collective that it removes.
    """
    (remedy, _), *_others = remedies
    more = sorted({what_words(new) for one, _ in remedies for new in one.new})
    comes = (
        f", {listed([('an ' if new[0] in 'aeiou' else 'a ') + new for new in more[:_MOST_NEW]])} instead"
        if more
        else ""
    )
    memory = remedy.memory_bytes
    held = f"; {_memory_change(memory)}" if memory is not None else ""
    takes = f"predicted {times_words(remedy.predicted_s)}"
    if remedy.measured_s and remedy.ratio:
        ratio = paired_words(remedy.ratio, remedy.measured_s.quotient)
        takes = f"measured {times_words(remedy.measured_s)}, {ratio}"
    less = [each for each in remedies if each[0].lessens] or remedies  # else no other is named
    removed = listed(list(dict.fromkeys(_removed_words(one, each) for one, each in less)))
    change = _change_of(remedy, base, [each for _, each in remedies])
    return f"{change}: {removed}{comes}{held}; {takes}"


def _change_of(remedy: Remedy, base: Experiment, collectives: Sequence[Collective]) -> str:
    """A change; of a value that a constraint of the program shards, that constraint."""
    origins = [origin for each in collectives for origin in (*each.origin, *each.against)]
    last = remedy.changes[-1]
    line = last.name.removeprefix(VALUE)
    if len(remedy.changes) == 1 and any(
        origin.kind == "constraint" and origin.source == line for origin in origins
    ):
        spec = spec_code(tuple(map(axes_of, last.after)))
        return f"give the constraint of {line} the spec {spec}"
    return change_words(base, remedy.changes)


_NOT_FASTER: dict[Verdict, str] = {
    "the same": "the same time",
    "faster": "which is slower",
    "cannot tell": "not certain",
}


def _removed_words(remedy: Remedy, each: Collective) -> str:
    """What a change removes; of a collective that remains, that it moves fewer bytes or overlaps
    better.
    """
    what, (before, after) = what_words(each), remedy.bytes_moved
    if remedy.removes:
        return (
            f"{remedy.others} {what} in place of {remedy.count}" if remedy.others else f"no {what}"
        )
    if not remedy.lessens:
        return f"a shorter step, in which the {what} stays"
    less = f"less waiting for the {what}"
    return (
        f"{less}, {bytes_text(after)} in place of {bytes_text(before)}" if after < before else less
    )


def _memory_change(nbytes: int) -> str:
    """E.g. "+4.0 MiB of peak per device"."""
    if nbytes == 0:
        return "the same memory"
    return f"{'+' if nbytes > 0 else '−'}{bytes_text(abs(nbytes))} of peak per device"


SMALL = "not tried: it keeps the device waiting for less than 2% of the predicted time"
_STAYS = "the collective stays"
_OUTCOMES = {None: "does not compile", False: _STAYS}
_ALSO = ". Also tried: "
_MOST_TRIED, _MOST_OUTCOMES = 3, 4  # changes of one outcome that are named, and outcomes


def _nothing_words(nothing: Nothing, base: Experiment, each: Collective) -> str:
    """Why no change removes a collective: what needs it, the changes that were tried, and the time
    of the best that removes it.
    """
    if nothing.is_small:
        return SMALL
    dims, tried = base.summed_dims(each.axes), nothing.tried
    needs = f"the sum over {over_words(dims)} needs it" if dims and each.kind in _SUMS else ""
    if nothing.best is not None and nothing.seconds is not None:
        best = tried[nothing.best]
        others = _tried(base, [other for other in tried if other is not best])
        change = change_words(base, best.changes)
        predicted = Predicted(before=nothing.seconds, after=best.seconds or 0.0)
        is_timed = nothing.measured_s is not None and nothing.ratio is not None
        takes = _timed(nothing.measured_s, nothing.ratio) or f"predicted {times_words(predicted)}"
        if nothing.experiment is not None:
            doubt = "" if is_timed else ", which predictions of this machine do not tell apart"
            what = "no" if best.removes else "less waiting for the"
            return f"{change}: {what} {what_words(each)}; {takes}{doubt}{others}"
        lead = f"{needs}; " if needs else ""
        slower = change.removeprefix("try ") if base.plan else f"to {change}"
        is_known = nothing.ratio is None or nothing.ratio.verdict != "cannot tell"
        none = "nothing" if is_known else "nothing is known that"
        if is_timed and is_known and any(other.removes for other in tried if other is not best):
            none = "nothing that was timed"
        return (
            f"{none} removes it in less time: {lead}the best change that does is {slower}, "
            f"{takes}{others}"
        )
    why = needs or each.reason or "the program needs it"
    if tried and all(other.removes is None for other in tried):
        return f"nothing removes it: {why} ({len(tried)} tried, and none compiled)"
    return f"nothing removes it: {why}{_tried(base, tried)}"


def _timed(seconds: Predicted | None, ratio: Ratio | None) -> str:
    """A change that was timed beside the program, and is not proven faster; "" if it was not."""
    if seconds is None or ratio is None:
        return ""
    words = paired_words(ratio, seconds.quotient)
    return f"measured {times_words(seconds)}, {_NOT_FASTER[ratio.verdict]}: {words}"


def _tried(base: Experiment, tried: Sequence[TriedChange]) -> str:
    """What else was tried, by outcome, what removes it first; "" for nothing."""
    by_outcome = by_key(
        (
            (
                f"predicted {seconds_text(each.seconds)}"
                if each.removes
                else _OUTCOMES[each.removes]
            ),
            change_words(base, each.changes).removeprefix("try "),
        )
        for each in tried
    )
    outcomes = sorted(by_outcome.items(), key=lambda each: each[0] == _STAYS)
    named = [f"{first_words(alike)} ({outcome})" for outcome, alike in outcomes[:_MOST_OUTCOMES]]
    left = sum(len(alike) for _, alike in outcomes[_MOST_OUTCOMES:])
    more = f"; and {left} more" if left else ""
    return f"{_ALSO}{'; '.join(named)}{more}" if named else ""


def first_words(changes: Sequence[str]) -> str:
    """The first few of several changes, and how many more; where they have commas of their own, by
    points.
    """
    more = len(changes) - _MOST_TRIED
    named = [*changes[:_MOST_TRIED], *([f"{more} more"] if more > 0 else [])]
    return " · ".join(named) if any("," in each for each in named) else listed(named)


def times_words(seconds: Predicted) -> str:
    """E.g. "12 ms -> 9 ms", "5.32 ms -> 4.30 ms"."""
    text = seconds_like(seconds.before, seconds.after)
    return f"{text(seconds.before)} -> {text(seconds.after)}"


GUESSED = (
    "the seconds of these are guesses: this target and mesh were not calibrated, and "
    "`calibrate` measures what they go by"
)


def doing_words(done: int, of: int, change: str, left_s: float = inf) -> str:
    """The progress of trying changes, with the seconds in which one may still begin.

    >>> doing_words(0, 2, "compiling change 1 of 8: out over x", 41.2)
    'collective 1 of 2, compiling change 1 of 8: out over x, at most 42 s more'
    """
    if not of:
        return "looking for collectives that are worth it"
    if not change:
        return f"{done} of {of} collectives tried"
    limit = "" if left_s == inf else f", at most {ceil(left_s)} s more"
    is_of_one = of > 1 and not change.startswith("estimating")  # which is for all of them
    which = f"collective {min(done + 1, of)} of {of}, " if is_of_one else ""
    return f"{which}{change}{limit}"


def removal_parts(removal: Removal) -> tuple[str, str]:
    """That in two parts: the change with what it does, and what else was tried ("" if nothing)."""
    change, _, others = removal_words(removal).partition(_ALSO)
    return change, others and f"{_ALSO.lstrip('. ')}{others}"
