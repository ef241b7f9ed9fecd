"""Who sharded an axis, in words: an argument, a constraint, an output or a shard_map, and the way from
there.
"""

from collections.abc import Iterable, Sequence

from spmd_core.experiment import spec_code
from spmd_core.results import AxisOrigin, Collective, NoOrigin, Reshard, Step, StepCollective
from spmd_core.words.names import listed

_NAME = 60  # characters of a path
_MOST = 2  # origins that a sentence names
_NONE = {
    NoOrigin.NO_RECORD: "unknown: the compiler wrote no record of its propagation",
    NoOrigin.TOO_LARGE: "unknown: the record of the propagation is too large to be read",
    NoOrigin.UNREADABLE: "unknown: the record of the propagation is in no known form",
    NoOrigin.NO_OPERATION: "unknown: the compiler gave it a name that no operation has",
    NoOrigin.NO_VALUE: "no argument or constraint: the compiler moves shards over it",
    NoOrigin.NOT_FOLLOWED: "unknown: a step of the propagation was not recorded",
}


def axis_words(origin: AxisOrigin) -> str:
    """What put an axis somewhere: what is written there, and the last step before the value.

    >>> axis_words(AxisOrigin(axis="x", kind="argument", name="w", spec=((), ("x",))))
    "argument `w` P(None, 'x')"
    """
    name = origin.name if len(origin.name) <= _NAME else f"…{origin.name[1 - _NAME :]}"
    parts = [
        origin.kind,
        f"`{name}`" if name else "",
        f"of {origin.source}" if origin.source else "",
        f"called at {origin.called}" if origin.called else "",
    ]
    if origin.spec:
        parts.append(spec_code(origin.spec))
    if origin.steps:
        last = origin.steps[-1]
        of = f" of {last.source}" if last.source else ""
        parts.append(f"through `{last.operation}`{of}")
    return " ".join(filter(None, parts))


def set_by_words(each: Collective | StepCollective) -> str:
    """Who put the axes of a collective on its value, and on what that is moved to.

    A collective over several axes names each: "x: argument `w` P('x'); y: …".
    """
    parts = list[str]()
    for axis in each.axes:
        own = [origin for origin in each.origin if origin.axis == axis]
        if own:
            words = _each(origin for origin in own if not origin.also)
            if others := _each(origin for origin in own if origin.also):
                words += f" (else by {others})"
        elif each.no_origin is not None:
            words = _NONE[each.no_origin]
        else:
            continue
        parts.append(f"{axis}: {words}" if len(each.axes) > 1 else words)
    if parts and each.against:
        parts.append(f"moved for {_each(each.against)}")
    return "; ".join([*parts, *filter(None, [change_words(each.origin, each.against)])])


def _each(origins: Iterable[AxisOrigin]) -> str:
    """Origins in words, each once; of many the first ones."""
    words = [*dict.fromkeys(map(axis_words, origins))]
    if (rest := len(words) - _MOST) > 1:
        words[_MOST:] = [f"{rest} more"]
    return listed(words) if words else ""


def change_words(origins: Sequence[AxisOrigin], against: Sequence[AxisOrigin]) -> str:
    """Which of two that disagree fewer values depend on, and so is the smaller change; "" where that
    is unknown.
    """
    ours, theirs = (
        [each for each in some if each.values and not each.also] for some in (origins, against)
    )
    if len(ours) != 1 or len(theirs) != 1 or ours[0].values == theirs[0].values:
        return ""
    least, most = sorted((ours[0], theirs[0]), key=lambda each: each.values or 0)
    return (
        f"the smaller change is the {_what(least)}: its axis is on {least.values} values, "
        f"that of the {_what(most)} on {most.values}"
    )


def step_words(step: Step) -> str:
    """Who put the axes of a value there; "" where it has none, or that is unknown."""
    several = len(step.origins) > 1
    return "; ".join(
        f"{each.axis}: {axis_words(each)}" if several else axis_words(each) for each in step.origins
    )


def disagreement_words(each: Reshard) -> str:
    """Which two origins disagree where a value is resharded, and which to change."""
    if not each.origins:
        return ""
    parts = [listed([f"{one.axis} by {axis_words(one)}" for one in each.origins])]
    if each.against:
        needed = [f"{one.axis} by {axis_words(one)}" for one in each.against]
        parts.append(f"needed {listed(needed)}")
    return "; ".join([*parts, *filter(None, [change_words(each.origins, each.against)])])


def _what(origin: AxisOrigin) -> str:
    name = f"`{origin.name}`" if origin.name else f"of {origin.called or origin.source}"
    return f"{origin.kind} {name}"
