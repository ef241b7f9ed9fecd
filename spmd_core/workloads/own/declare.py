"""Declare your own functions as workloads, and steps on pytrees as programs: name their file in
SPMD_LAB_WORKLOADS. Imports no jax.
"""

import inspect
import json
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from pydantic import TypeAdapter

from spmd_core.base import ask_child, refuse, shorten
from spmd_core.fields import MAX_SIZE, is_integer
from spmd_core.workloads.exported import programs
from spmd_core.workloads.exported.description import Described
from spmd_core.workloads.own import files
from spmd_core.workloads.own.description import Description, child_environ
from spmd_core.workloads.strategies import MAP_STRATEGIES
from spmd_core.workloads.table import WORKLOADS
from spmd_core.workloads.workload import DTYPE_BYTES, FLOATS

__all__ = ["workload"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
# What the text of a program defines or imports around the file's own functions.
DEFINED = frozenset(
    ("mesh", "device", "devices", "placed", "program", "make_operands", "arrange", "on_each_device")
)
RESERVED = DEFINED | {"jax", "jnp", "np", "P", "partial"}
_ALWAYS = ("single", "auto", "constrained", "explicit")
Function = TypeVar("Function", bound=Callable[..., Any])
Arrays = Mapping[str, Sequence[str]]

# to be called with the names that the file defines
declared: list[Callable[[Mapping[str, Any]], Description]] = []


def workload(
    *,
    operands: Arrays | None = None,
    results: Arrays | None = None,
    defaults: Mapping[str, int] | None = None,
    title: str | None = None,
    dtypes: Sequence[str] = FLOATS,
    integer_result: bool = False,
    mesh: Mapping[str, int] | None = None,
    **step: object,
) -> Callable[[Function], Function]:
    """Declare the decorated function, which takes the operands in order and returns the results,
    one array or a tuple of them.

    `operands` and `results` give each array's dims by name, `defaults` the size of each dim. The
    function runs under the strategies that need only the function itself. Functions of the same
    file add others: NAME_shards for shard_map, with collectives over constants such as `ROWS_AXES =
    ()`, whose value is replaced by the mesh axes of dim `rows`; NAME_one, for a single row, for
    vmap and pmap; NAME_explicit if types need an out_sharding, as in `Y_SHARDING = None`.
    RequestError if the declaration is inconsistent.

    With `mesh` it is a program on pytrees: the function returns a step, its abstract arguments by
    name, and rules; `step` are further fields of `DeclaredStep`.
    """

    def declare(function: Function) -> Function:
        shown = title or function.__name__.replace("_", " ").capitalize()
        if mesh:
            declare_step(function, shown, mesh, step)
        elif operands is None or results is None or defaults is None:
            rule = "has neither operands, results and defaults, nor a mesh"
            raise refuse(f"workload {function.__name__}", rule, "declare its arrays, or its mesh")
        else:
            arrays = operands, results, defaults
            declared.append(_of_arrays(function, shown, arrays, dtypes, integer_result))
        return function

    return declare


def _of_arrays(
    function: Callable[..., Any],
    title: str,
    arrays: tuple[Arrays, Arrays, Mapping[str, int]],
    dtypes: Sequence[str],
    integer_result: bool,
) -> Callable[[Mapping[str, Any]], Description]:
    """The description of a function of arrays, given the names that its file defines."""
    name, (operands, results, defaults) = function.__name__, arrays
    _check(name, operands, results, defaults, dtypes)
    _check_parameters(name, function, operands)
    return lambda names: Description(
        name=name,
        title=title,
        operands=_pairs(operands),
        results=_pairs(results),
        defaults=tuple(defaults.items()),
        dtypes=tuple(dtypes),
        strategies=_strategies(name, names),
        integer_result=integer_result,
    )


def _pairs(arrays: Arrays) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((array, tuple(dims)) for array, dims in arrays.items())


def _strategies(name: str, names: Mapping[str, Any]) -> tuple[str, ...]:
    shards = ("shard_map",) if callable(names.get(f"{name}_shards")) else ()
    maps = MAP_STRATEGIES if callable(names.get(f"{name}_one")) else ()
    return (*_ALWAYS, *shards, *maps)


def _check(
    name: str, operands: Arrays, results: Arrays, defaults: Mapping[str, int], dtypes: Sequence[str]
) -> None:
    if name in WORKLOADS:
        raise refuse(
            f"workload {name}",
            "has the name of one that comes with SPMD Lab",
            "give the function another name",
        )
    if not operands or not results:
        raise refuse(
            f"workload {name}",
            "has no operands or no results",
            'declare them, for example operands={"x": ("rows",)}',
        )
    _check_arrays(name, operands, results, defaults)
    for dim, size in defaults.items():
        if not is_integer(size) or not 1 <= size <= MAX_SIZE:
            raise refuse(
                f"{dim}={shorten(size)}",
                "is not a size",
                f"use a whole number from 1 to {MAX_SIZE}",
            )
    for dtype in dtypes:
        if dtype not in DTYPE_BYTES:
            raise refuse(
                f"dtype {shorten(dtype)} of {name}",
                "is not known here",
                f"use {', '.join(DTYPE_BYTES)}",
            )


def _check_arrays(
    name: str, operands: Arrays, results: Arrays, defaults: Mapping[str, int]
) -> None:
    for array, dims in (*operands.items(), *results.items()):
        if isinstance(dims, str):
            raise refuse(f"dims {dims!r} of {array}", "are not a tuple", f'write ("{dims}",)')
        for dim in dims:
            if dim not in defaults:
                raise refuse(
                    f"dim {shorten(dim)} of {array}",
                    "has no default size",
                    f'add it, for example defaults={{"{dim}": 64}}',
                )
        if len(set(dims)) != len(tuple(dims)):
            raise refuse(f"{array} of {name}", "names one dim twice", "name each dim once")
    _check_names(name, operands, results, defaults)


def _check_names(name: str, operands: Arrays, results: Arrays, defaults: Mapping[str, int]) -> None:
    if twice := set(operands) & set(results):
        raise refuse(
            f"array {min(twice)} of {name}",
            "is both operand and result",
            "give the result another name",
        )
    for word in (name, *operands, *results):
        if word in RESERVED or (word == name and word in (*operands, *results)):
            raise refuse(
                f"name {word} of {name}",
                "is one that the programs of a workload use themselves",
                "choose another name",
            )
    for word in (*operands, *results, *defaults):
        if (
            not isinstance(word, str)
            or not _NAME.fullmatch(word)
            or (keyword.iskeyword(word) and word not in defaults)
        ):
            raise refuse(
                f"name {shorten(word)} of {name}",
                "is not a Python name of at most 32 letters",
                "use letters, digits and underscores",
            )


def _check_parameters(name: str, function: Callable[..., Any], operands: Arrays) -> None:
    try:
        inspect.signature(function).bind(*operands)
    except TypeError:
        count = len(inspect.signature(function).parameters)
        raise refuse(
            f"{name}{inspect.signature(function)}",
            f"takes {count} arguments and declares {len(operands)} operands "
            f"({', '.join(operands)})",
            "declare an operand for each argument",
        ) from None


EXPORT_S = 120.0
_EXPORTER = "spmd_core.engine.exported.declared"
_AXIS = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")


@dataclass(frozen=True)
class DeclaredStep:
    """A function that returns a step, its abstract arguments by name, and the rules that shard
    them, on a mesh; `axes`: name of a dim -> mesh axes.
    """

    function: Callable[..., Any]
    title: str
    mesh: Mapping[str, int]
    axes: Mapping[str, str | tuple[str, ...] | None] = field(default_factory=dict)
    donated: Sequence[str] = ()
    platforms: Sequence[str] = ("tpu", "cpu")


declared_steps: list[DeclaredStep] = []


def declare_step(
    function: Callable[..., object], title: str, mesh: Mapping[str, int], more: Mapping[str, object]
) -> None:
    """Add a step to those of this process. RequestError where its mesh is none, or a field unknown."""
    for axis, size in mesh.items():
        if not _AXIS.fullmatch(axis) or not isinstance(size, int) or size < 1:
            raise refuse(
                f"mesh axis {axis}={size}", "is no name and size", 'write {"fsdp": 4, "tensor": 2}'
            )
    if unknown := sorted(more.keys() - {"axes", "donated", "platforms"}):
        raise refuse(f"{unknown[0]} of {title}", "is not read", "use axes, donated or platforms")
    read = TypeAdapter(DeclaredStep)
    declared_steps.append(
        read.validate_python({"function": function, "title": title, "mesh": mesh, **more})
    )


def take_declared() -> tuple[Described, ...]:
    """The steps of all files that the server's owner names, exported now and held as programs.
    RequestError where one cannot be.
    """
    return tuple(described for path in files.paths() for described in _of_file(path))


def _of_file(path: Path) -> list[Described]:
    with TemporaryDirectory() as folder:
        answer = ask_child(
            _EXPORTER, [str(path), folder], child_environ(), EXPORT_S, programs.PARSE_BYTES
        )
        if answer.stopped or not answer.text:
            raise refuse(
                path.name,
                "was not exported in time, printed too much, or ended its process",
                "make it smaller",
            )
        report = json.loads(answer.text)
        if "problem" in report:
            raise refuse(path.name, f"cannot be exported ({report['problem']})", "correct it")
        return [
            programs.take((Path(folder) / f"{number}.jaxexport").read_bytes(), title)
            for number, title in enumerate(report["titles"])
        ]
