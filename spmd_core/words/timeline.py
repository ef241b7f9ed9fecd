"""Names of the operations of a timeline: "backward, layer, gate matmul"."""

import re
from collections.abc import Sequence

from spmd_core.base import seconds_text
from spmd_core.pictures import EXPOSED, LOOP, WAIT, Span, Timeline, TimelineScene, mix

_TRANSFORMS = ("jvp", "transpose")
# Parts of a path that come from JAX's transformations, not from the program
_MACHINERY = {
    "while",
    "body",
    "cond",
    "closed_call",
    "core_call",
    "checkpoint",
    "remat",
    "pjit",
    "rematted_computation",
    "shard_map",
    "custom_jvp_call",
    "custom_vjp_call",
    "scan",
}
_WHAT = {
    "matmul": "matmul",
    "kernel": "kernel",
    "loop": "loop",
    "copy": "copy",
    "host": "copy to or from the host",
}
_PRIMITIVES = {
    "reduce_sum": "sum",
    "reduce_max": "maximum",
    "convert_element_type": "conversion",
    "mul": "multiply",
    "sub": "subtract",
    "broadcast_in_dim": "broadcast",
    "pallas_call": "kernel",
}
_NAMED = re.compile(r"(\w+)\((.*)\)$")
_NUMBERED = re.compile(r"[._-]?\d+$|\.clone.*$")
_FUNCTION = re.compile(r"^\S+:\d+ (?:.*\.)?([A-Za-z]\w*)(?:\.<.*)?$")
_WAITS = {"copy": "waits for a copy", "host": "waits for the host"}


def names_of(scene: TimelineScene) -> list[str]:
    """A readable name for each span of a scene, in order.

    An operation whose path the compiler did not keep is named after the first that needs it.
    """
    names = [_own_name(span) for span in scene.spans]
    users: dict[int, int] = {}
    for number, span in enumerate(scene.spans):
        for needed in span.needs:
            users.setdefault(needed, number)
    for number, span in enumerate(scene.spans):
        if names[number] is None and span.kind not in (WAIT, EXPOSED):
            user, seen = users.get(number), {number}
            while user is not None and names[user] is None and user not in seen:
                seen.add(user)
                user = users.get(user)
            after = names[user] if user is not None else None
            names[number] = f"{_what(span, '')} for {after}" if after else _what(span, "")
    return [name or _wait_name(span, names) for name, span in zip(names, scene.spans, strict=True)]


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


def _wait_name(span: Span, names: Sequence[str | None]) -> str:
    if span.name in _WAITS:
        return _WAITS[span.name]
    if span.name.startswith("device "):
        return f"waits for {span.name}"
    awaited = names[span.waits_for] if span.waits_for is not None else None
    return f"waits for {awaited or path_words(span.op, span.name) or span.name}"


def _own_name(span: Span) -> str | None:
    """The name from the path and the source; None if neither gives one."""
    if span.kind in (WAIT, EXPOSED) or not (span.op and "/" in span.op):
        return None
    primitive = span.op.rsplit("/", 1)[-1]
    return path_words(span.op, _what(span, primitive), span.source, _base(span))


def _base(span: Span) -> str:
    """An instruction's name without its numbers."""
    return _NUMBERED.sub("", _NUMBERED.sub("", span.name)).replace("_", " ")


def _what(span: Span, primitive: str) -> str:
    """What an operation does: `matmul`, `sum`, `all-gather`."""
    if span.kind in _WHAT:
        return _WHAT[span.kind]
    if span.kind == "memory" and span.flops:  # a matmul that HBM bounds
        return _WHAT["matmul"]
    if span.is_communication:
        return span.kind
    if primitive == "dot_general":
        return "around the matmul"  # what it needs in addition, such as another layout
    if primitive and not _NAMED.match(primitive):
        return _PRIMITIVES.get(primitive, primitive.replace("_", " "))
    return _base(span)


def operation_kind(kind: str, op: str) -> str:
    """What an operation of a kind does, by its path.

    >>> operation_kind("matmul", "jit(f)/dot_general"), operation_kind("compute", "jit(f)/mul")
    ('matmul', 'multiply')
    """
    primitive = op.rsplit("/", 1)[-1]
    plain = kind in ("compute", "copy", "wait")
    return _PRIMITIVES.get(primitive, primitive.replace("_", " ")) if plain else kind


def path_words(op: str, what: str, source: str = "", but: str = "") -> str:
    """Direction, scopes (`but` one), and what is done.

    >>> path_words("jit(f)/transpose(jvp(layers))/while/body/layer/gate/dot_general", "matmul")
    'backward, layer, gate matmul'
    >>> path_words("jit(step)/optimizer/sub", "subtract")
    'optimizer subtract'
    """
    *path, _ = _split(op)
    scopes = [scope for part in path for scope in _scopes(part) if scope != but]
    if "layer" in scopes and "layers" in scopes:
        scopes.remove("layers")
    if not scopes and (function := _FUNCTION.match(source)):
        scopes = [function[1].strip("_").replace("_", " ")]
    scopes = list(dict.fromkeys(scopes))
    direction = _direction(op)
    if what == _WHAT[LOOP] and scopes and scopes[-1] == "layers":
        what = ""
    last = " ".join(each for each in (*scopes[-1:], what) if each)
    return ", ".join(each for each in (direction, *scopes[:-1], last) if each)


def _direction(op: str) -> str:
    if "rematted_computation" in op:
        return "recomputed"
    if "transpose(" in op:
        return "backward"
    if "jvp(" in op:
        return "forward"
    return ""


def _split(path: str) -> list[str]:
    """The parts of a path; a slash inside parentheses does not part."""
    parts, depth = [""], 0
    for letter in path:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _scopes(part: str) -> list[str]:
    """The scopes of a part of a path: none for JAX internals, those inside a transform."""
    named = _NAMED.match(part)
    if named:
        inside = [scope for each in _split(named[2]) for scope in _scopes(each)]
        return inside if named[1] in _TRANSFORMS else []
    if part in _MACHINERY or "->" in part or not part or part.startswith("branch_"):
        return []
    return [part.replace("_", " ")]


def scene_words(timeline: Timeline, number: int) -> str:
    """The title of a scene: the step, or the loop's name and how often it runs."""
    scene = timeline.scenes[number]
    if scene.parent is None:
        return "whole step" if timeline.predicted else "one step, as traced"
    above = timeline.scenes[scene.parent]
    at = next(at for at, span in enumerate(above.spans) if span.inside == number)
    return f"{names_of(above)[at]} × {scene.times // above.times:,}"


def row_words(row: str) -> str:
    """A row of the timeline.

    >>> row_words("ici x++ici x-+ici y+"), row_words("dcn"), row_words("device 3")
    ('links along x, y', 'between slices', 'device 3')
    """
    axes = [name for name in "xyz" if f"ici {name}" in row]
    named = {
        "dcn": "between slices",
        "nvlink": "over NVLink",
        "network": "between NVLink domains",
        "core": "within a chip",
        "host in": "from the host",
        "host out": "to the host",
        "copy": "copies",
    }
    other = [words for part, words in named.items() if part in row.split("+")]
    return ", ".join(([f"links along {', '.join(axes)}"] if axes else []) + other) or row


def scene_alt(timeline: Timeline, number: int) -> str:
    """A scene in a sentence, for screen readers: the longest operations."""
    scene, names = timeline.scenes[number], names_of(timeline.scenes[number])
    longest = sorted(range(len(names)), key=lambda at: -scene.spans[at].length_s)[:5]
    listed = "; ".join(f"{names[at]} {seconds_text(scene.spans[at].length_s)}" for at in longest)
    return (
        f"Timeline of {scene_words(timeline, number)}, {seconds_text(scene.length_s)}, "
        f"{len(names)} operations. The longest: {listed}."
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


ABOUT = (
    "The compiler's schedule, timed by the cost model. Links and copies have rows of their "
    "own: communication is hidden beside the chip's work, and exposed where the chip waits "
    "for it. A line joins what is waited for with the wait."
)
STORED_BEFORE = (
    "This prediction was stored without its timeline: press Predict again to see every operation."
)
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
    "keys": "Click an operation for its facts, a loop to enter it. Drag or ← → to move, wheel "
    "or + − to zoom, Shift with ← → for the next operation, ↑ ↓ for another row, Enter "
    "for a loop, Backspace to go back, / to search.",
}
