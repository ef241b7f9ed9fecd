"""A timeline to what the component draws: names, kinds as the legend has them, columns of spans."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from spmd_core.base import by_key, numbered, seconds_text, sums_by_key
from spmd_core.facts import Collective
from spmd_core.pictures import BESIDE, COPIES, EXPOSED, LOOP, Span, Timeline, TimelineScene, mix
from spmd_core.time import KERNELS
from spmd_core.words import KINDS, names_of, row_words
from spmd_lab.ui.charts import colors

# Kinds of time of a traced step that a prediction does not have
TRACED_KINDS = {
    "memory": "other computation",
    "wait": "waiting for other devices",
    "hidden": "hidden collectives",
    "exposed": "exposed collectives",
}
COMPONENT = {  # labels of the component itself
    "title": "Timeline",
    "path": "Where you are in the timeline",
    "search": "Search operations",
    "in": "Zoom in",
    "out": "Zoom out",
    "all": "All",
    "one": "One pass of {}: {}",
    "here": "here",
    "in_all": "in all",
    "time": "Time",
    "times": "Times in a step",
    "total": "In all",
    "passes": "Passes",
    "hidden": "Hidden",
    "exposed": "Exposed",
    "bytes": "Bytes per device",
    "rate": "Rate",
    "source": "Source",
    "waits_for": "Waits, and who waits:",
    "needs": "Needs:",
    "needed_by": "Needed by:",
    "enter": "Enter the loop",
    "help": "Mouse and keys",
    "keys": "Click an operation for its facts, a loop to enter it. Drag or ← → to move, wheel "
    "or + − to zoom, Shift with ← → for the next operation, ↑ ↓ for another row, Enter "
    "for a loop, Backspace to go back, / to search. Passes too narrow to draw fill a loop by their "
    "shares.",
}


def short_name(name: str) -> str:
    """A name short enough for a bar.

    >>> short_name("backward, layer, gate matmul"), short_name("waits for a copy")
    ('gate matmul', 'waits')
    """
    if name.startswith("waits for"):
        return "waits"
    first, for_, whom = name.partition(" for ")
    last = name.rsplit(", ", 1)[-1]
    if for_:
        return f"{first} for {whom.rsplit(', ', 1)[-1]}"
    if last == "layers":
        return name
    return last


def scene_words(timeline: Timeline, number: int) -> str:
    """The title of a scene: the step, or the loop's name and how often it runs."""
    scene = timeline.scenes[number]
    if scene.parent is None:
        return "whole step" if timeline.predicted else "one step, as traced"
    above = timeline.scenes[scene.parent]
    at = next(at for at, span in enumerate(above.spans) if span.inside == number)
    return f"{names_of(above)[at]} × {scene.times // above.times:,}"


def scene_alt(timeline: Timeline, number: int) -> str:
    """A scene in a sentence, for screen readers: the longest operations."""
    scene, names = timeline.scenes[number], names_of(timeline.scenes[number])
    longest = sorted(range(len(names)), key=lambda at: -scene.spans[at].length_s)[:5]
    listed = "; ".join(f"{names[at]} {seconds_text(scene.spans[at].length_s)}" for at in longest)
    return (
        f"Timeline of {scene_words(timeline, number)}, {seconds_text(scene.length_s)}, "
        f"{numbered(len(names), 'operation')}. The longest: {listed}."
    )


def scene_summary(timeline: Timeline, number: int) -> str:
    """How long a scene takes, and what is too short to be drawn."""
    scene = timeline.scenes[number]
    passes = f", {scene.times:,} times in a step" if scene.times > 1 else ""
    exposed = scene.exposed_s or mix(timeline, number).get(EXPOSED, 0.0)
    waits = f", {seconds_text(exposed)} of it exposed communication" if exposed else ""
    left = (
        f" {scene.left_out:,} shorter operations, {seconds_text(scene.left_out_s)} together, "
        "are left out."
        if scene.left_out
        else ""
    )
    if scene.parent is not None:
        what = "One pass"
    elif timeline.predicted:
        what = "The whole step"
    else:
        what = "One step, as traced"
    return f"{what}: {seconds_text(scene.length_s)}{passes}{waits}.{left}"


Lanes = tuple[tuple[str, str], ...]  # a row, and its title


def lanes_of(timeline: Timeline, collectives: Iterable[Collective]) -> Lanes:
    """Returns each row that collectives run on, with a title by their mesh axes."""
    axes = {each.name: each.axes for each in collectives if each.name}
    of = by_key(
        (scene.rows[span.row], axis)
        for scene in timeline.scenes
        for span in scene.spans
        if span.row
        for axis in axes.get(span.name, ())
    )
    return tuple((row, row_words(row, tuple(dict.fromkeys(each)))) for row, each in of.items())


Scene = dict[str, object]  # of the component's JSON, whose keys `timeline.js` reads
_SEEN = 0.001  # of a scene: what takes less is no color that a legend could name
_SMALL = ("copy", "host in", "host out")  # rows of copies are drawn low


def drawn_kind(span: Span) -> str:
    """The kind of a span in the legend; of communication, what it is where nothing waits for it."""
    if span.kind in COPIES:
        return "copy"
    return "hidden" if span.is_communication else span.kind


@lru_cache(maxsize=8)  # half of a rerun of a prediction went into the names of its operations
def component_data(
    timeline: Timeline, name: str, lanes: Lanes = (), named: tuple[str, ...] = ()
) -> Mapping[str, object]:
    """What the component is given, as JSON values; `name` identifies a timeline, `lanes` has titles
    of its rows, and what the screen has `named` by its color is not in the legend.
    """
    words = KINDS | KERNELS | ({} if timeline.predicted else TRACED_KINDS)
    return {
        "id": hashlib.sha256(name.encode()).hexdigest()[:16],
        "scenes": [_scene(timeline, number, lanes) for number in range(len(timeline.scenes))],
        "colors": colors.KINDS,
        "words": COMPONENT,
        "legend": [
            (kind, words[kind])
            for kind in colors.KINDS
            if kind != LOOP and words[kind] not in named
        ],
    }


def _scene(timeline: Timeline, number: int, lanes: Lanes) -> Scene:
    scene = timeline.scenes[number]
    return {
        "title": scene_words(timeline, number),
        "alt": scene_alt(timeline, number),
        "summary": scene_summary(timeline, number),
        "length_s": scene.length_s,
        "end": max([scene.length_s, *(span.end_s for span in scene.spans)]),
        "times": scene.times,
        "parent": scene.parent,
        "rows": [dict(lanes).get(row) or row_words(row) for row in scene.rows],
        "small": [row in _SMALL or BESIDE in row for row in scene.rows],
        "tall": timeline.predicted,  # the first row, of the chip; devices are all alike
        "seen": _seen(timeline, scene),
        **_operations(scene),
        **_loops(timeline, scene),
    }


def _seen(timeline: Timeline, scene: TimelineScene) -> list[str]:
    """Returns the kinds that the eye can see in a scene, those inside its loops too."""
    shares = [
        (kind, share * span.length_s)
        for span in scene.spans
        if span.inside is not None
        for each in (
            _mix(timeline, span.inside),
            *_aside(timeline, scene, span.inside).values(),
        )
        for kind, share in each
    ]
    own = [each for span in scene.spans if span.inside is None for each in _split(span)]
    lengths = sums_by_key((*shares, *own))
    return [kind for kind, length_s in lengths.items() if length_s > _SEEN * scene.length_s]


def _split(span: Span) -> tuple[tuple[str, float], ...]:
    exposed = min(span.length_s, sum(high - low for low, high in span.exposed))
    return (EXPOSED, exposed), (drawn_kind(span), span.length_s - exposed)


def _operations(scene: TimelineScene) -> Scene:
    spans, names = scene.spans, names_of(scene)
    return {
        "names": names,
        "short": [short_name(name) for name in names],
        "kind": [drawn_kind(span) for span in spans],
        "row": [span.row for span in spans],
        "start": [span.start_s for span in spans],
        "length": [span.length_s for span in spans],
        "inside": [span.inside for span in spans],
        "exposed": [span.exposed for span in spans],
        "exposed_s": [span.exposed_s for span in spans],
        "beside": [span.is_communication for span in spans],
        "waits": [span.waits_for for span in spans],
        "waiter": [span.waiter for span in spans],
        "needs": [span.needs for span in spans],
        "users": _users(spans),
        "hlo": [span.name for span in spans],
        "op": [span.op for span in spans],
        "source": [span.source for span in spans],
        "line": [span.line for span in spans],
        "bytes": [span.nbytes for span in spans],
        "flops": [span.flops for span in spans],
    }


def _loops(timeline: Timeline, scene: TimelineScene) -> Scene:
    """Of each operation its passes, None of one that is no loop; of each loop what is inside."""
    inside = {at: span.inside for at, span in enumerate(scene.spans) if span.inside is not None}
    return {
        "count": [
            (None if span.inside is None else timeline.scenes[span.inside].times // scene.times)
            for span in scene.spans
        ],
        "mix": {at: _mix(timeline, number) for at, number in inside.items()},
        "aside": {at: _aside(timeline, scene, number) for at, number in inside.items()},
    }


def _mix(timeline: Timeline, number: int) -> list[tuple[str, float]]:
    busy = sums_by_key(
        (kind if kind in colors.KINDS else "hidden", seconds)
        for kind, seconds in mix(timeline, number).items()
    )
    total_s = sum(busy.values()) or 1.0
    return [(kind, busy[kind] / total_s) for kind in colors.KINDS if kind in busy]


def _aside(
    timeline: Timeline, above: TimelineScene, number: int
) -> dict[int, list[tuple[str, float]]]:
    """Of a loop, by row of the scene above: the shares of a pass in which that row is busy, exposed
    first."""
    scene = timeline.scenes[number]
    by_row: dict[int, dict[str, float]] = {}
    for span in scene.spans:
        row = scene.rows[span.row]
        if span.row == 0 or row not in above.rows:
            continue
        busy = by_row.setdefault(above.rows.index(row), {})
        for kind, seconds in _split(span):
            busy[kind] = busy.get(kind, 0.0) + seconds
    return {row: _shares(busy, scene.length_s) for row, busy in by_row.items()}


def _shares(busy: dict[str, float], length_s: float) -> list[tuple[str, float]]:
    total_s = max(length_s, sum(busy.values())) or 1.0
    return [(kind, seconds / total_s) for kind, seconds in busy.items() if seconds > 0]


def _users(spans: Sequence[Span]) -> list[list[int]]:
    users: list[list[int]] = [[] for _ in spans]
    for number, span in enumerate(spans):
        for needed in span.needs:
            users[needed].append(number)
    return users


def table(timeline: Timeline, number: int, most: int = 200) -> dict[str, list[Any]]:
    """The operations of a scene in rows, the longest first, for who reads no pictures."""
    scene = timeline.scenes[number]
    ranked = sorted(
        zip(names_of(scene), scene.spans, strict=True), key=lambda pair: -pair[1].length_s
    )[:most]
    return {
        "Operation": [name for name, _ in ranked],
        "Row": [row_words(scene.rows[span.row]) for _, span in ranked],
        "From": [seconds_text(span.start_s) for _, span in ranked],
        "Time": [seconds_text(span.length_s) for _, span in ranked],
        "In all": [seconds_text(span.length_s * scene.times) for _, span in ranked],
        "Exposed": [
            seconds_text(span.exposed_s) if span.is_communication else "–" for _, span in ranked
        ],
        "Source": [span.source or "–" for _, span in ranked],
        "Instruction": [span.name for _, span in ranked],
    }
