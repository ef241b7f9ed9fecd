"""Has a process of our own for a step's compile for a target: none of the caller's devices is used."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spmd_core.base import RequestError, WorkerError, ask_child
from spmd_core.lab import worker_environment
from spmd_core.machine import dump_folder, read_hardware
from spmd_core.results import CompiledStep

SECONDS = 3600.0  # of a core


def compiled_elsewhere(
    data: bytes, function: str, target: str, mesh: Mapping[str, int] | None, specs: Any
) -> CompiledStep:
    """The facts of an exported step, compiled for a target.

    Raises:
        RequestError: the mesh does not fit the step or the target.
        WorkerError: the compiler is missing, or refuses the program.
    """
    request: dict[str, Any] = {"target": target, "function": function}
    request |= {"mesh": dict(mesh)} if mesh is not None else {}
    request |= {"specs": dict(specs)} if specs else {}
    with dump_folder() as folder:
        (folder / "step.jaxexport").write_bytes(data)
        (folder / "request.json").write_text(json.dumps(request))
        text = answer_of("spmd_core.engine.step.elsewhere", str(folder), target, folder)
    return CompiledStep.model_validate_json(text)


def answer_of(module: str, argument: str, target: str, folder: Path) -> str:
    """The answer of a process of our own that has a target's devices, and `folder` for its data.

    Raises:
        RequestError: it refuses the request.
        WorkerError: it ends without an answer.
    """
    environ = worker_environment(target, read_hardware()) | {"SPMD_LAB_DATA": str(folder)}
    answer = ask_child(module, (argument,), environ, SECONDS)
    if answer.text.startswith("!"):
        raise RequestError(answer.text[1:])
    if not answer.text:
        ending = f"took more than {SECONDS:g} s of a core" if answer.stopped else answer.ending
        raise WorkerError(f"the process that compiles for {target} ended {ending}")
    return answer.text
