"""Compiles an exported step for a target, in a process of its own: `python -m
spmd_core.engine.step.elsewhere FD FOLDER`. FOLDER has the file, and what is requested of it.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from jax._src.interpreters import mlir
from jax.export import Exported

from spmd_core.base import WorkerError, answer, refuse
from spmd_core.engine.absent.run import predict_experiment
from spmd_core.engine.absent.topology import describe as describe_topology, structs
from spmd_core.engine.exported.describe import describe, read
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.exported.module import (
    module_of,
    parsed,
    printed,
    serialized,
    with_axes,
)
from spmd_core.engine.lower import execute
from spmd_core.engine.step.here import compiling, facts_of
from spmd_core.engine.step.step_collectives import step_collectives
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.program import parse_module
from spmd_core.results import CompiledStep
from spmd_core.runs import Event, Texts
from spmd_core.script import program_text
from spmd_core.workloads import PROGRAM_FILE, programs

REQUEST, FILE = "request.json", "step.jaxexport"


def _compiled(folder: Path) -> CompiledStep:
    request = json.loads((folder / REQUEST).read_text())
    data = (folder / FILE).read_bytes()
    exported = read(data)
    if sizes := request.get("mesh"):
        exported = _on_axes(exported, sizes, request.get("specs", {}))
    described, kept = describe(exported, is_own=True)
    if not (described.mesh or request.get("mesh")):
        fix = 'name both, such as mesh={"x": 8} and specs={"*": P("x")}'
        raise refuse("this step", "has no shardings, and mesh= and specs= name none", fix)
    function = request.pop("function")
    named = {"program": sha256(data).hexdigest(), "name": function, "function": function}
    described = described.model_copy(update=named)
    programs.hold(described, bytes(replace(exported, mlir_module_serialized=kept).serialize()))
    given = {"workload": PROGRAM_FILE, "program": described.program, **request}
    experiment = parse_experiment({"mesh": dict(described.mesh), **given})
    return _absent(experiment) if experiment.place.is_absent else _simulated(experiment)


def _on_axes(exported: Exported, sizes: Mapping[str, int], specs: Mapping[str, Any]) -> Exported:
    """The program on a mesh with axes that it does not know, which specs name."""
    with mlir.make_ir_context():
        text = printed(module_of(exported))
    changed = with_axes(text, tuple(sizes))
    if changed == text:
        return exported
    named = {axis for spec in specs.values() for dim in spec for axis in ([dim] if isinstance(dim, str) else dim or ())}  # fmt: skip
    for axis in sizes:
        if f'"{axis}"' not in text and axis not in named:
            fix = f'name it in specs=, such as specs={{"params/**": P("{axis}")}}'
            raise refuse(f"mesh axis {axis}={sizes[axis]}", "is not one of the step", fix)
    with mlir.make_ir_context():
        return replace(exported, mlir_module_serialized=serialized(parsed(changed)))


def _absent(experiment: Experiment) -> CompiledStep:
    texts: dict[str, str] = {}

    def keep(event: Event) -> None:
        texts.update(event.texts if isinstance(event, Texts) else {})

    environment = describe_topology(experiment.target)
    finished = predict_experiment(experiment, "step", environment, keep, lambda: False)
    outcome, program = finished.result.strategies["auto"], experiment.exported
    if outcome.error is not None:
        raise WorkerError(outcome.error.message)
    prediction = outcome.prediction
    assert program is not None and prediction is not None
    collectives = None
    if outcome.collectives is not None:
        module = parse_module(texts["hlo"])
        collectives = step_collectives(module, outcome.collectives, program.described.files)
    return CompiledStep(
        described=program.described,
        mesh=program.mesh,
        specs=program.specs,
        target=experiment.target,
        collectives=collectives,
        memory_bytes=outcome.memory_bytes,
        capacity_bytes=prediction.memory_bytes.capacity,
        predicted_s=outcome.predicted_s,
        fits=prediction.fits,
        lost_batch=outcome.lost_batch,
        accidents=outcome.accidents,
        warnings=outcome.warnings,
    )


def _simulated(experiment: Experiment) -> CompiledStep:
    names = complete(execute(program_text(experiment, "auto"), "step.py"), experiment)
    lowered = names["program"].trace(*structs(experiment, names)).lower()
    program = experiment.exported
    assert program is not None
    with compiling(lowered) as made:
        facts = facts_of(made, program)
    return facts.model_copy(update={"target": experiment.target})


if __name__ == "__main__":
    answer(lambda: _compiled(Path(sys.argv[2])).model_dump_json())
