"""Who sharded an axis, in words: an argument, a constraint, an output or a shard_map, and the way from
there.
"""

from collections.abc import Iterable, Sequence

from spmd_core.base import agreed, by_key, firsts_by_key, numbered
from spmd_core.experiment import spec_code
from spmd_core.facts import AxisOrigin, Collective, NoOrigin, Reshard, Step
from spmd_core.program import is_covered, without_layers
from spmd_core.results import StepCollective, StepDescription, StrategyResult
from spmd_core.terms import listed

_NAME = 60  # characters of a path
_MOST = 2  # origins that a sentence names
_MOST_SENTENCES = (
    3  # of collectives that share a row: of a step with many layers every matmul is one
)
_INFERRED = "the nearest by the shardings: the compiler kept no record"
_NONE = {
    NoOrigin.NO_RECORD: "an unknown origin: the compiler wrote no record of its propagation",
    NoOrigin.TOO_LARGE: "an unknown origin: the record of the propagation is too large to be read",
    NoOrigin.UNREADABLE: "an unknown origin: the record of the propagation is in no known form",
    NoOrigin.NO_OPERATION: "an unknown origin: the compiler gave it a name that no operation has",
    NoOrigin.NO_VALUE: "no argument or constraint: the compiler moves shards over it",
    NoOrigin.NOT_FOLLOWED: "an unknown origin: a step of the propagation was not recorded",
}


def axis_words(origin: AxisOrigin) -> str:
    """What put an axis somewhere: what is written there, and the last step before the value.

    >>> axis_words(AxisOrigin(axis="x", kind="argument", name="w", spec=((), ("x",))))
    "argument `w` P(None, 'x')"
    """
    parts = [
        _named(origin),
        f"of {origin.source}" if origin.source else "",
        f"called at {origin.called}" if origin.called else "",
    ]
    if origin.spec:
        parts.append(spec_code(origin.spec))
    # the last step adds nothing where it is the origin's own line, or its argument under its name
    last = origin.steps[-1] if origin.steps else None
    if last and last.operation != origin.name and (not last.source or last.source != origin.source):
        of = f" of {last.source}" if last.source else ""
        parts.append(f"through `{last.operation}`{of}")
    return " ".join(filter(None, parts))


def set_by_words(each: Collective | StepCollective, *, is_brief: bool = False) -> str:
    """Who put the axes of a collective on its value, and on what that is moved to; `is_brief`: with
    the first alone of what else would put them there, and without ways and counts of the other side.

    A collective over several axes names each: "x: argument `w` P('x'); y: …".
    """
    by_words: dict[str, list[str]] = {}
    for axis in each.axes:
        own = [origin for origin in each.origin if origin.axis == axis]
        if words := _each(origin for origin in own if not origin.also):
            others = [each for each in own if each.also and not each.elsewhere]
            if others:
                words += f" (else by {_each(others[: 1 if is_brief else None])})"
        elif each.no_origin is not None:
            words = _NONE[each.no_origin]
        else:
            continue
        by_words.setdefault(words, []).append(axis)
    several = len(by_words) > 1
    parts = [f"{', '.join(of)}: {words}" if several else words for words, of in by_words.items()]
    if parts and each.against:
        ways = {"steps": ()} if is_brief else {}
        needs = _each(other.model_copy(update=ways) for other in each.against)
        parts.append(f"needed otherwise by {needs}")
    return _sentence(parts, each.origin, each.against, is_brief)


def all_set_by_words(
    members: Iterable[Collective | StepCollective], *, is_brief: bool = False
) -> list[str]:
    """Returns who put the axes of several collectives there: a sentence of those that are needed alike,
    of many the first ones, `is_brief`: the first. The layers of a model are one.
    """
    places = lambda some: frozenset(each.place for each in _without_layers(some))  # noqa: E731
    needs = lambda one: (one.axes, one.no_origin, places(one.against))  # noqa: E731
    words = dict[str, None]()
    for some in by_key((needs(one), one) for one in members).values():
        origin, against = ({(o.axis, o.also, o.place): o for one in some for o in getattr(one, side)} for side in ("origin", "against"))  # fmt: skip
        sides = {"origin": _without_layers(origin.values()), "against": _without_layers(against.values())}  # fmt: skip
        words[set_by_words(some[0].model_copy(update=sides), is_brief=is_brief)] = None
    listed = [*filter(None, words)]
    if is_brief and len(listed) > 1:
        return [f"{listed[0]} (and {len(listed) - 1} more)"]
    more = len(listed) - _MOST_SENTENCES
    return listed[:_MOST_SENTENCES] + ([f"and {more} more"] if more > 0 else [])


def _without_layers(origins: Iterable[AxisOrigin]) -> tuple[AxisOrigin, ...]:
    return tuple(each.model_copy(update={"name": without_layers(each.name)}) for each in origins)


def _sentence(
    parts: Sequence[str],
    origins: Sequence[AxisOrigin],
    against: Sequence[AxisOrigin],
    is_brief: bool = False,
) -> str:
    """Who put axes somewhere, which side to change, and from what that is known if not the record."""
    inferred = _INFERRED if any(each.inferred for each in origins) else ""
    change = change_words(origins, against)
    if is_brief:  # which side is smaller is a count that the full sentence has
        change = change.partition(":")[0]
    return "; ".join([*parts, *filter(None, [change, inferred])])


def _each(origins: Iterable[AxisOrigin]) -> str:
    """Origins in words, each once, whichever its ways; of many the first ones."""
    known = firsts_by_key(
        (axis_words(each.model_copy(update={"steps": ()})), each) for each in origins
    )
    words = [*map(axis_words, known.values())]
    if (rest := len(words) - _MOST) > 1:
        words[_MOST:] = [f"{rest} more"]
    return listed(words) if words else ""


def own_words(origins: Sequence[AxisOrigin] | None) -> str:
    """Returns what has put an axis somewhere, of at most two origins; "" where nothing has."""
    return _each([each for each in origins or () if not each.also][:_MOST])


def other_warnings(of: StrategyResult | StepDescription) -> list[str]:
    """Returns the compiler warnings that are in no sentence of a collective."""
    return [each for each in of.warnings if not is_covered(each, of.collectives or ())]


def named_words(origins: Sequence[AxisOrigin] | None) -> str:
    """Returns who names an axis for a value that does not have it; "" where that is unknown.

    >>> named_words(())
    'named there by no argument or constraint: '
    """
    if origins is None:
        return ""
    return f"named there by {_each(origins[:_MOST]) or 'no argument or constraint'}: "


def change_words(origins: Sequence[AxisOrigin], against: Sequence[AxisOrigin]) -> str:
    """Returns which side of two that disagree shards fewer values, and so is the smaller change; ""
    where that is unknown.
    """
    sides = [[each for each in some if not each.also] for some in (origins, against)]
    counts = [sum(each.values or 0 for each in side) for side in sides]
    is_known = all(side and all(each.values for each in side) for side in sides)
    # the same place on both sides, on another dim: no side is the smaller change
    is_shared = not {each.place for each in sides[0]}.isdisjoint(each.place for each in sides[1])
    if not is_known or is_shared or counts[0] == counts[1]:
        return ""
    least = sides[counts[1] < counts[0]]
    named = list(dict.fromkeys(map(_what, least)))[:_MOST]
    follow = f"only {numbered(min(counts), 'value')} {agreed(min(counts), 'is')} sharded by it"
    return f"if unwanted, change {listed(named)}: {follow}, {max(counts)} by the other"


def step_words(step: Step) -> str:
    """Who put the axes of a value there; "" where it has none, or that is unknown."""
    several = len(step.origins) > 1
    return "; ".join(
        f"{each.axis}: {axis_words(each)}" if several else axis_words(each) for each in step.origins
    )


def origin_name(origin: AxisOrigin) -> str:
    """Returns what an origin is called in a few characters: its path, or its line."""
    return _end(origin.name) or origin.called or origin.source or origin.kind


def _end(path: str) -> str:
    return path if len(path) <= _NAME else f"…{path[1 - _NAME :]}"


def marks(step: Step) -> dict[str, str]:
    """Returns the lines through which the axes of a value came to it, each with what it did."""
    marked: dict[str, list[str]] = {}
    for each in step.origins:
        ends = [(each.source, "set here"), (each.called, "called here")]
        ways = ((way.source, "passed back" if way.backward else "passed on") for way in each.steps)
        for source, what in (*ends, *ways):
            if source:
                marked.setdefault(source, []).append(f"{each.axis} {what}")
    return {source: ", ".join(dict.fromkeys(each)) for source, each in marked.items()}


def disagreement_words(each: Reshard) -> str:
    """Which two origins disagree where a value is resharded, and which to change."""
    if not each.origins:
        return ""
    parts = [listed([f"{one.axis} by {axis_words(one)}" for one in each.origins])]
    if each.against:
        needed = [f"{one.axis} by {axis_words(one)}" for one in each.against]
        parts.append(f"needed {listed(needed)}")
    return _sentence(parts, each.origins, each.against)


def _what(origin: AxisOrigin) -> str:
    at = "" if origin.name else f" of {origin.called or origin.source}"
    return f"{_named(origin)}{at}"


def _named(origin: AxisOrigin) -> str:
    """The kind of an origin and its path; an output without one is called `output 0`."""
    kind = "" if origin.name.startswith(f"{origin.kind} ") else origin.kind
    return " ".join(filter(None, (kind, f"`{_end(origin.name)}`" if origin.name else "")))
