"""A golden: what a step requests, or what is compiled for a target, as a short text for a reviewer."""

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field, ValidationError

from spmd_core.base import Frozen, RequestError, by_key, mesh_text, refuse, shorten
from spmd_core.results import StepArray, StepCollective, StepDescription
from spmd_core.workloads import Leaf, patterns

SCHEMA = 1
REQUEST = "request"
FIELDS = ("kind", "axes", "dtype", "bytes")  # of a collective, that may be compared
UPDATE = "run `pytest --spmd-update` (or `spmd-lab check --update`)"
_HEAD = (
    "# What this step communicates and holds, written by SPMD Lab: `pytest --spmd-update`.\n"
    "# `at` is where a line was, and is not compared.\n"
)
_ROWS = ("arguments", "results", "collectives")
_MARKS = ("<<<<<<< ", "=======\n", ">>>>>>> ", "||||||| ")


class GoldenArray(Frozen):
    """Arguments or results of equal shape, spec and donation; in `path`, `*` is the number of a
    layer.
    """

    path: str
    array: str
    spec: str
    donated: bool = False
    arrays: int = 1


class GoldenCollective(Frozen):
    """Collectives of one line. `bytes` are per device and step, None in a loop of unknown length."""

    kind: str
    axes: tuple[str, ...]
    dtype: str
    bytes: int | None = None
    function: str = ""
    line: str = ""
    at: str = ""


class Golden(Frozen):
    """A step as its golden has it. `of` is `request` or a target; `peak_bytes` are of a target."""

    schema_number: int = Field(SCHEMA, alias="schema")
    test: str
    step: str
    of: str = REQUEST
    mesh: str
    axis_types: str = ""
    versions: dict[str, str]
    peak_bytes: int | None = None
    arguments: tuple[GoldenArray, ...] = ()
    results: tuple[GoldenArray, ...] = ()
    collectives: tuple[GoldenCollective, ...] = ()

    def to_text(self) -> str:
        """Returns the TOML of its file: a row for each kind of array, and for each line."""
        given = self.model_dump(by_alias=True, exclude_none=True, exclude=set(_ROWS))
        rows = {name: getattr(self, name) for name in _ROWS}
        lines = [f"{name} = {_toml(value)}" for name, value in given.items()]
        for name, listed in rows.items():
            lines += ["", f"{name} = ["]
            lines += [f"    {_toml(row.model_dump(exclude_defaults=True))}," for row in listed]
            lines.append("]")
        return _HEAD + "\n".join(lines) + "\n"


def array_text(each: StepArray) -> str:
    """Element type and sizes.

    >>> array_text(StepArray(path="w", shape=(8, 4), dtype="int8", spec=None, bytes=32,
    ...     bytes_per_device=None, copies=None))
    'int8[8,4]'
    """
    return f"{each.dtype}[{','.join(map(str, each.shape))}]"


def kind_of(each: StepCollective, is_request: bool) -> str:
    """The kind that a program requests, or the one that is compiled."""
    return (each.asked or each.kind) if is_request else each.kind


def golden_of(step: StepDescription, test: str, of: str = REQUEST) -> Golden:
    """Returns the golden of a step's description.

    Args:
        step: the description.
        test: the id of the test, or the name of the step.
        of: `request`, or the target that it is compiled for.
    """
    packages = ("jax", "jaxlib", *(["libtpu"] if of.startswith("tpu") else []))
    return Golden(
        schema=SCHEMA,
        test=test,
        step=step.function,
        of=of,
        mesh=mesh_text(step.mesh),
        axis_types=", ".join(step.axis_types),
        versions={name: step.versions[name] for name in packages if name in step.versions},
        peak_bytes=None if of == REQUEST else step.peak_bytes,
        arguments=golden_arrays(step.arguments),
        results=golden_arrays(step.outputs),
        collectives=golden_collectives(step.collectives or (), of == REQUEST),
    )


def golden_arrays(arrays: Sequence[StepArray]) -> tuple[GoldenArray, ...]:
    """Returns rows of arrays, sorted: layers share one where nothing else differs."""
    leaves = [
        Leaf(path=each.path, sizes=tuple(map(str, each.shape)), dtype=each.dtype) for each in arrays
    ]
    names = patterns(leaves)
    rows = by_key((names[each.path], each) for each in arrays)
    return tuple(
        sorted(
            (row for name, group in rows.items() for row in _rows(name, group)),
            key=lambda row: row.path,
        )
    )


def _rows(name: str, group: Sequence[StepArray]) -> Iterator[GoldenArray]:
    listed = [golden_array(each) for each in group]
    if len({(row.array, row.spec, row.donated) for row in listed}) == 1:
        path = name if len(listed) > 1 else listed[0].path
        yield listed[0].model_copy(update={"path": path, "arrays": len(listed)})
    else:
        yield from listed


def golden_array(each: StepArray) -> GoldenArray:
    """Returns the row of one array."""
    return GoldenArray(path=each.path, array=array_text(each), spec=each.code, donated=each.donated)


def golden_collectives(
    collectives: Iterable[StepCollective], is_request: bool
) -> tuple[GoldenCollective, ...]:
    """Returns rows of collectives, sorted: those of one line share one."""
    groups = by_key(
        ((kind_of(each, is_request), each.axes, each.dtype, each.function, each.line), each)
        for each in collectives
    )
    rows = [
        GoldenCollective(
            kind=kind,
            axes=axes,
            dtype=dtype,
            bytes=None
            if any(each.count is None for each in group)
            else sum(each.bytes_total or each.bytes for each in group),
            function=function,
            line=line,
            at=group[0].source or "",
        )
        for (kind, axes, dtype, function, line), group in groups.items()
    ]
    return tuple(
        sorted(rows, key=lambda row: (row.kind, row.axes, row.function, row.line, row.dtype))
    )


def read_golden(text: str, name: str) -> Golden:
    """Returns the golden that a text holds.

    Args:
        text: what its file has.
        name: the path of the file, for messages.

    Raises:
        RequestError: it has conflict marks, another schema, or is no golden.
    """
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.startswith(_MARKS):
            rule = f"has the conflict marks of a merge (line {number})"
            raise refuse(f"golden {name}", rule, f"resolve them, or {UPDATE}")
    try:
        given = tomllib.loads(text)
        schema = given.get("schema")
        if schema != SCHEMA:
            rule = f"has schema {shorten(schema)}, and this SPMD Lab reads {SCHEMA}"
            raise refuse(f"golden {name}", rule, f"use the SPMD Lab that wrote it, or {UPDATE}")
        return Golden.model_validate(given)
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        reason = shorten(str(error).partition("\n")[0], 120)
        raise RequestError(f"golden {name} cannot be read ({reason}): {UPDATE}") from error


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return (
            f"{{ {', '.join(f'{_name(name)} = {_toml(each)}' for name, each in value.items())} }}"
        )
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    # TOML's strings are those of JSON, but for DEL
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _name(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else json.dumps(name)
