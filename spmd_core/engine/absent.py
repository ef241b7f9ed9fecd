"""Compiles an experiment's program for a TPU topology that is not attached: the same text, other devices, no arrays."""

import time
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from spmd_core.engine.lower import execute, file_name
from spmd_core.engine.topology import Compiled, compile_lowered, devices_of
from spmd_core.errors import refuse
from spmd_core.experiment import Experiment
from spmd_core.script import program_text
from spmd_core.topologies import get_topology


def compile_experiment(experiment: Experiment, strategy: str) -> Compiled:
    """The program of one strategy, lowered and compiled ahead of time. RequestError where the mesh is larger than the topology."""
    topology = get_topology(experiment.target)
    if experiment.device_count > topology.devices:
        raise refuse(f"mesh of {experiment.device_count} devices", f"is larger than {topology.name} with its {topology.devices}", "use smaller axes")
    devices = devices_of(topology)
    jax.devices = lambda *_: devices  # the program's text asks for devices; this process compiles nothing else
    names = execute(program_text(experiment, strategy), file_name(experiment.workload, strategy))
    started = time.perf_counter()
    lowered = names["program"].lower(*_structs(experiment, names))
    mesh = names.get("mesh")
    if not isinstance(mesh, Mesh):
        mesh = Mesh([devices[0]], ("one",))
    return compile_lowered(lowered, mesh, started)


def _structs(experiment: Experiment, names: dict[str, Any]) -> list[jax.ShapeDtypeStruct]:
    """Operands as shapes; one without a placement goes whole to every device of the mesh, since an absent device holds no array."""
    dtype = jnp.dtype(experiment.dtype)
    return [jax.ShapeDtypeStruct(experiment.shape(array.name), dtype, sharding=names["placed"][array.name]) for array in experiment.what.operands]
