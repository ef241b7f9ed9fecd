"""Absent TPUs: the compiler's topology description, meshes over it, and programs compiled for it without any device."""

import os
import re
import resource
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils, topologies
from jax.sharding import AxisType, Mesh

from spmd_core.errors import WorkerError, refuse
from spmd_core.machine.absent import ENVIRONMENT, description, split_over_slices
from spmd_core.machine.topologies import Topology

_ASKED = re.compile(r"stablehlo\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute|collective_broadcast)")
_ABSENT = ("not installed", "not found", "no such file", "cannot open", "no module named")
# A libtpu that is newer than jaxlib writes what jaxlib cannot read; one that is older does not know its interface. These are the words that
# the two print then, more than single words of them: what a compiler says of a program ("Incompatible shapes") is no reason to reinstall.
_UNREADABLE = re.compile(
    r"mismatched pjrt plugin|plugin pjrt api version|built with (a|an) (later|earlier) version than the framework|unexpected pjrt_\w+ size"
    r"|failed to deserialize (module|stablehlo|portable artifact|hlomoduleproto|pjrt\w+|compileoptionsproto)"
    r"|failed to parse (serialized )?(hlomodule|pjrt|compileoptions|executableversion|executableabi|compactlayout|hlosharding)"
    r"|unknown opcode: |this could indicate forward incompatibility|unsupported version: expected <= ")
Coordinates = tuple[int, ...]  # x, y, z, core, slice


def devices_of(topology: Topology) -> list[Any]:
    """The compile-only devices of a topology; WorkerError where libtpu is missing or refuses."""
    missing = [name for name in ENVIRONMENT if not os.environ.get(name)]
    if missing:
        raise WorkerError(f"{', '.join(missing)} not set: a compile-only worker sets {ENVIRONMENT} before jax is imported")
    name, options = description(topology)
    try:
        devices = list(topologies.get_topology_desc(name, "tpu", **options).devices)
    except RuntimeError as error:  # JaxRuntimeError: libtpu absent, too new, or a name that it refuses
        raise WorkerError(explain(str(error))) from error
    if len(devices) != topology.devices:
        raise WorkerError(f"{topology.name} shows {len(devices)} devices where {topology.devices} were expected: this libtpu differs from the table")
    return devices


def explain(message: str) -> str:
    """The words of an error, or a sentence with what to install where libtpu is missing or does not fit this jaxlib."""
    words, first = message.lower(), " ".join(message.split())[:200]
    install = f"run `pip install 'jax[tpu]=={jax.__version__}'`"
    if any(part in words for part in _ABSENT) and ("tpu support" in words or "libtpu" in words):
        return f"libtpu, which holds the TPU compiler, is not installed: {install}"
    if _UNREADABLE.search(" ".join(words.split())):
        return f"libtpu {_libtpu()} and jaxlib {version('jaxlib')} do not fit one another: {install}, which brings the libtpu that fits ({first})"
    return message


def _libtpu() -> str:
    try:
        return version("libtpu")
    except PackageNotFoundError:
        return "of an unknown version"


def coordinates(devices: Sequence[Any]) -> tuple[Coordinates, ...]:
    """(x, y, z, core, slice) of each device."""
    return tuple((*(int(c) for c in device.coords), int(getattr(device, "core_on_chip", 0) or 0), int(getattr(device, "slice_index", 0) or 0))
                 for device in devices)


def mesh_over(topology: Topology, axes: Sequence[tuple[str, int]], order: str = "topology") -> Mesh:
    """A mesh over a topology's devices; slices outermost. `order`: "topology" lets mesh_utils place axes, "plain" does not."""
    devices = devices_of(topology)
    sizes = [size for _, size in axes]
    count = int(np.prod(sizes))
    if count != len(devices):
        raise refuse(f"mesh of {count} devices", f"does not fill {topology.name} with its {len(devices)}",
                     f"make the axes multiply to {len(devices)}")
    names = tuple(name for name, _ in axes)
    return Mesh(_placed(topology, devices, sizes, order), names, axis_types=(AxisType.Auto,) * len(names))


def _placed(topology: Topology, devices: list[Any], sizes: list[int], order: str) -> np.ndarray:
    if order == "plain":
        return np.array(devices).reshape(sizes)
    if topology.slices == 1:
        return mesh_utils.create_device_mesh(sizes, devices, allow_split_physical_axes=True)
    split = split_over_slices(tuple(sizes), topology.slices)
    if split is None:
        raise refuse(f"{topology.slices} slices", f"do not divide over mesh axes {sizes}", "put an axis of that size first, for example data=2")
    return mesh_utils.create_hybrid_device_mesh(*split, devices, allow_split_physical_axes=True)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the compiler made: its text, memory account (bytes), and what making it cost."""

    text: str
    memory: Mapping[str, int]
    lower_s: float
    compile_s: float
    peak_rss_bytes: int
    devices: tuple[Coordinates, ...]
    asked: Mapping[str, int] = field(default_factory=dict)  # collectives that the program asks for by name, before the compiler's choices


def compile_lowered(lowered: Any, mesh: Mesh, started: float) -> Compiled:
    """Compile a lowered program for a mesh of absent devices; the compiler's own errors pass through."""
    begun = time.perf_counter()
    compiled = lowered.compile()
    return compiled_program(lowered, compiled, mesh, begun - started, time.perf_counter() - begun)


def compiled_program(lowered: Any, compiled: Any, mesh: Mesh, lower_s: float, compile_s: float) -> Compiled:
    """A compiled program as values, with what making it cost in seconds."""
    memory, asked = memory_account(compiled), Counter(_ASKED.findall(lowered.as_text()))
    return Compiled(compiled.as_text(), memory, lower_s, compile_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                    coordinates(list(mesh.devices.flat)), {kind.replace("_", "-"): count for kind, count in asked.items()})


def memory_account(compiled: Any) -> dict[str, int]:
    """The compiler's account of memory in bytes, by its own names without their endings."""
    analysis = compiled.memory_analysis()
    return {name.removesuffix("_size_in_bytes").removesuffix("_in_bytes"): int(getattr(analysis, name))
            for name in dir(analysis) if name.endswith("_in_bytes")}
