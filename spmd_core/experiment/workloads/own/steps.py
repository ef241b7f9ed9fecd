"""Steps on pytrees that a file of the user's own declares: programs, exported by a child process."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import TypeAdapter

from spmd_core.base import ask_child, refuse
from spmd_core.experiment.workloads.exported import programs
from spmd_core.experiment.workloads.exported.description import Described
from spmd_core.experiment.workloads.own import files
from spmd_core.experiment.workloads.own.description import child_environ

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
