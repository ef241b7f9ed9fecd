"""Remedies for a collective, in words: the change, what it removes, and its cost."""

from collections.abc import Mapping, Sequence

from spmd_core.base import bytes_text, seconds_text
from spmd_core.experiment import Axes, Spec
from spmd_core.program import is_ring, kind_words
from spmd_core.results import Collective, Nothing, Ratio, Removal, Verdict
from spmd_core.words.names import listed, title
from spmd_core.words.strategies import paired_words

_MOST_NEW = 2  # collectives that replace it, in a sentence
_SUMS = ("all-reduce", "reduce-scatter")


def over_words(axes: Sequence[str]) -> str:
    """E.g. "`x` and `y`"."""
    return listed([f"`{axis}`" for axis in axes])


def dims_words(left: Mapping[str, Axes]) -> str:
    """Dims that are no longer sharded over some axes, with the remaining axes of each."""
    none = [dim for dim, axes in left.items() if not axes]
    parts = [f"leave {over_words(none)} replicated"] if none else []
    parts += [f"shard `{dim}` over {over_words(axes)} alone" for dim, axes in left.items() if axes]
    return listed(parts)


def moved_words(dims: Sequence[str], other: str, axes: Axes) -> str:
    """Another dim sharded in place of some."""
    return f"shard `{other}` over {over_words(axes)} in place of {over_words(dims)}"


def array_words(name: str, is_result: bool, dims: Sequence[str], spec: Spec) -> str:
    """One operand stored, or one result requested, in another sharding."""
    parts = [
        f"over {over_words(axes)} along `{dim}`"
        for dim, axes in zip(dims, spec, strict=True)
        if axes
    ]
    if not parts:
        return f"request `{name}` replicated" if is_result else f"store `{name}` replicated"
    return f"{'request' if is_result else 'store'} `{name}` sharded {' and '.join(parts)}"


def strategy_words(name: str, instead_of: str) -> str:
    """Another strategy."""
    return f"use {title(name)} in place of {title(instead_of)}"


def memory_words(name: str) -> str:
    """An operand in device memory."""
    return f"keep `{name}` in device memory"


def removal_words(removal: Removal) -> str:
    """What would remove a collective, or why nothing does."""
    return removal.reason if isinstance(removal, Nothing) else removal.sentence


def why_words(each: Collective) -> str:
    """Why a collective is there, and the compiler's warning; "" if unknown."""
    return ". ".join(part.rstrip(".") for part in (each.reason, each.warning) if part)


def what_words(each: Collective) -> str:
    """E.g. "all-reduce over `x`"."""
    kind = kind_words(each) if is_ring(each) else each.kind
    return f"{kind} over {over_words(each.axes)}" if each.axes else kind


def remedy_words(
    change: str,
    removed: str,
    new: Sequence[Collective],
    memory_bytes: int | None,
    seconds: tuple[float, float],
    measured: str = "",
) -> str:
    """The two sides of a compiled change: what it removes, and its cost. `new`: the collectives
    that replace it; `measured`: the times of both, where they were timed.
    """
    more = sorted({what_words(each) for each in new})
    comes = (
        f", {listed([f'{_a(each)} {each}' for each in more[:_MOST_NEW]])} instead" if more else ""
    )
    held = f"; {memory_change(memory_bytes)}" if memory_bytes is not None else ""
    return f"{change}: {removed}{comes}{held}; {measured or f'predicted {_times(*seconds)}'}"


def faster_words(ratio: Ratio, before: float, after: float) -> str:
    """A change that was timed beside the program, and is faster."""
    return f"measured {_times(before, after)}, {paired_words(ratio)}"


def not_faster_words(ratio: Ratio, before: float, after: float) -> str:
    """A change that was timed beside the program, and is not proven faster."""
    judged = _NOT_FASTER[ratio.verdict]
    return f"measured {_times(before, after)}, {judged}: {paired_words(ratio)}"


_NOT_FASTER: dict[Verdict, str] = {
    "the same": "the same time",
    "faster": "which is slower",
    "cannot tell": "not certain",
}


def removed_words(
    before: Sequence[Collective], left: Sequence[Collective], count: int, others: int
) -> str:
    """What a change removes: `before` the equal collectives in question, `left` those of them that
    remain; of `count` collectives of the kind over these axes `others` remain beside those.
    """
    if left:
        return _less(before, left)
    what = what_words(before[0])
    return f"{others} {what} in place of {count}" if others else f"no {what}"


def memory_change(nbytes: int) -> str:
    """E.g. "+4.0 MiB per device"."""
    if nbytes == 0:
        return "the same memory"
    return f"{'+' if nbytes > 0 else '-'}{bytes_text(abs(nbytes))} per device"


SMALL = "not tried: it takes less than 2 % of the predicted time"
_STAYS = "it stays"
_MOST_TRIED, _MOST_OUTCOMES = 3, 4  # changes of one outcome that are named, and outcomes


def nothing_words(
    each: Collective,
    dims: Sequence[str],
    tried: Sequence[tuple[str, str]],
    failed: int,
    best: tuple[str, float, float] | None,
    measured: str = "",
    is_open: bool = False,
) -> str:
    """Why no change removes a collective: what needs it, the changes that were tried, and the time
    of the best that removes it.

    `dims`: the contracted dims that it sums; `tried`: each change and its outcome; `best`:
    change, seconds before and after; `measured`: its times, where it was timed; `is_open`:
    whether it may take less time.
    """
    needs = (
        f"the sum over {listed([f'`{dim}`' for dim in dims])} needs it"
        if dims and each.kind in _SUMS
        else ""
    )
    if best is not None:
        change, before, after = best
        others = _tried([other for other in tried if other[0] != change])
        takes = measured or f"predicted {_times(before, after)}"
        if is_open:
            doubt = "" if measured else ", which predictions of this machine do not tell apart"
            return f"{change}: no {what_words(each)}; {takes}{doubt}{others}"
        lead = f"{needs}; " if needs else ""
        return f"nothing removes it in less time: {lead}{change}: {takes}{others}"
    none = f" ({len(tried)} tried, and none compiled)" if tried and failed == len(tried) else ""
    why = needs or each.reason or "the program needs it"
    return f"nothing removes it: {why}{none or _tried(tried)}"


def outcome_words(removes: bool | None, seconds: float) -> str:
    """The outcome of a change that was tried; `removes` None where it did not compile."""
    if removes is None:
        return "does not compile"
    return seconds_text(seconds) if removes else _STAYS


def _tried(changes: Sequence[tuple[str, str]]) -> str:
    """What else was tried, by outcome, what removes it first; "" for nothing."""
    by_outcome: dict[str, list[str]] = {}
    for change, outcome in changes:
        by_outcome.setdefault(outcome, []).append(change)
    outcomes = sorted(by_outcome.items(), key=lambda each: each[0] == _STAYS)
    named = [f"{_first(alike)} ({outcome})" for outcome, alike in outcomes[:_MOST_OUTCOMES]]
    left = sum(len(alike) for _, alike in outcomes[_MOST_OUTCOMES:])
    more = f"; and {left} more" if left else ""
    return f". Also tried: {'; '.join(named)}{more}" if named else ""


def _first(changes: Sequence[str]) -> str:
    """The first few of several changes, and how many more."""
    more = len(changes) - _MOST_TRIED
    return listed([*changes[:_MOST_TRIED], *([f"{more} more"] if more > 0 else [])])


def _less(before: Sequence[Collective], after: Sequence[Collective]) -> str:
    """The collective remains, and moves fewer bytes or overlaps better."""
    was, size = (
        sum(each.bytes * each.times for each in collectives) for collectives in (before, after)
    )
    what = f"less waiting for the {what_words(before[0])}"
    return f"{what}, {bytes_text(size)} in place of {bytes_text(was)}" if size < was else what


def _times(before: float, after: float) -> str:
    return f"{seconds_text(before)} -> {seconds_text(after)}"


def _a(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


GUESSED = (
    "the seconds of these are guesses: this target and mesh were not calibrated, and "
    "`calibrate` measures what they go by"
)


TRIES = (
    "Compiles up to 8 changes for each collective worth more than 2 % of the time, until one "
    "removes it, and up to 24 more where none of these does. Where predictions do not tell the best "
    "one from the program, both are timed side by side."
)
NOTHING_WORTH = "No collective takes more than 2 % of the predicted time: nothing was tried."


def out_of_time(seconds: float, left: int, of: int) -> str:
    """Why not all collectives were tried.

    >>> out_of_time(60.0, 2, 4)
    '2 of 4 collectives are left after 60.0 s'
    """
    return f"{left} of {of} collectives are left after {seconds_text(seconds)}"


def doing_words(done: int, of: int, change: str) -> str:
    """The progress of trying changes."""
    if not of:
        return "looking for collectives that are worth it"
    return (
        f"collective {min(done + 1, of)} of {of}, {change}"
        if change
        else f"{done} of {of} collectives tried"
    )
