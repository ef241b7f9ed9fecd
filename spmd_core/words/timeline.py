"""Names of the operations of a timeline: "backward, layer, gate matmul"."""

import re
from collections.abc import Sequence

from spmd_core.base import firsts_by_key
from spmd_core.pictures import EXPOSED, LOOP, WAIT, Span, TimelineScene

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
    users = firsts_by_key(
        (needed, number) for number, span in enumerate(scene.spans) for needed in span.needs
    )
    for number, span in enumerate(scene.spans):
        if names[number] is None and span.kind not in (WAIT, EXPOSED):
            user, seen = users.get(number), {number}
            while user is not None and names[user] is None and user not in seen:
                seen.add(user)
                user = users.get(user)
            after = names[user] if user is not None else None
            names[number] = f"{_what(span, '')} for {after}" if after else _what(span, "")
    return [name or _wait_name(span, names) for name, span in zip(names, scene.spans, strict=True)]


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


def row_words(row: str, mesh_axes: tuple[str, ...] = ()) -> str:
    """A row of the timeline, by the mesh axes of what runs there where they are known.

    >>> row_words("ici x++ici x-+ici y+"), row_words("dcn"), row_words("device 3")
    ('links along x, y', 'between slices', 'device 3')
    >>> row_words("ici x++ici y+", ("fsdp",)), row_words("dcn", ("data", "fsdp"))
    ('fsdp (links x, y)', 'data, fsdp (between slices)')
    """
    if mesh_axes:
        return f"{', '.join(mesh_axes)} ({row_words(row).replace('links along', 'links')})"
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
