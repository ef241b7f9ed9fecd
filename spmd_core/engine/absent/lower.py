"""Lowers an experiment's program for a TPU topology that is not attached: the same text, other
devices, no arrays.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import Mesh

from spmd_core.base import Inexpressible, refuse
from spmd_core.engine.absent.topology import devices_of
from spmd_core.engine.exported.lower import complete, quoted_files
from spmd_core.engine.lower import Steps, execute, structs
from spmd_core.experiment import Experiment, experiment_of
from spmd_core.machine import get_topology
from spmd_core.program import file_name
from spmd_core.script import program_text
from spmd_core.workloads import STRATEGIES


@dataclass(frozen=True, slots=True)
class Ahead:
    """A program lowered for absent devices: `mesh` has them in the order of the program's
    positions; `file` is what source lines quote. A model's step (`is_step`) is large: it is
    compiled until it is scheduled, and its text has no source lines.
    """

    lowered: Any
    mesh: Mesh
    texts: dict[str, str]
    file: str | tuple[str, ...]
    is_step: bool = False


def lower_experiment(experiment: Experiment, strategy: str, steps: Steps) -> Ahead:
    """The program of one strategy, traced and lowered. Inexpressible where it cannot be compiled
    ahead of time; RequestError where the
    mesh is larger than the topology."""
    if experiment.plan or experiment.served:
        plan = experiment.plan
        fitting = experiment_of(plan.with_fitting_blocks) if plan else experiment
        text = program_text(fitting, strategy)
        file = file_name(experiment.workload, strategy)
        with _standing_for(devices_of(get_topology(experiment.target))):
            names = execute(text, file)
        lowered = steps("lower", names["lower"])
        return Ahead(lowered, names["mesh"], {"program": text}, file, True)
    if STRATEGIES[strategy].is_map:
        raise Inexpressible(
            f"{strategy} is called on attached devices: there is nothing to compile for absent ones; use auto or shard_map"
        )
    topology = get_topology(experiment.target)
    if experiment.device_count > topology.devices:
        raise refuse(
            f"mesh of {experiment.device_count} devices",
            f"is larger than {topology.name} with its {topology.devices}",
            "use smaller axes",
        )
    devices, text, file = (
        devices_of(topology),
        program_text(experiment, strategy),
        file_name(experiment.workload, strategy),
    )
    with _standing_for(devices):
        names = complete(execute(text, file), experiment)
    shapes = structs(experiment, names)
    traced = steps("trace", lambda: names["program"].trace(*shapes))
    lowered = steps("lower", traced.lower)
    mesh = names.get("mesh")
    if not isinstance(mesh, Mesh):
        mesh = Mesh([devices[0]], ("one",))
    texts = {"program": text, "jaxpr": str(traced.jaxpr)}
    return Ahead(lowered, mesh, texts, quoted_files(experiment, strategy))


@contextmanager
def _standing_for(devices: list[Any]) -> Iterator[None]:
    """`jax.devices()` gives these meanwhile: a program's text queries devices while it is
    executed, and only then.
    """
    attached = jax.devices
    jax.devices = lambda *_: list(devices)  # pyrefly: ignore[bad-assignment]
    try:
        yield
    finally:
        jax.devices = attached
