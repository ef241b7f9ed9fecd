"""Absent TPUs and GPUs: the compiler's topology description, and programs lowered and compiled
for it without any device.
"""

import os
import platform
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import Mesh

from spmd_core.base import Inexpressible, WorkerError, package_version, refuse
from spmd_core.engine.absent.early import Scheduled
from spmd_core.engine.devices import (
    MAX_LISTED_DEVICES,
    coordinates,
    host_memory_bytes,
    load,
)
from spmd_core.engine.exported.lower import complete, quoted_files
from spmd_core.engine.lower import Steps, execute, memory_account, structs
from spmd_core.experiment import Experiment, experiment_of
from spmd_core.machine import (
    ENVIRONMENT,
    Topology,
    available_cores,
    compiler_refusal,
    description,
    get_topology,
    platform_of,
)
from spmd_core.program import file_name
from spmd_core.results import Device, Environment
from spmd_core.script import program_text
from spmd_core.time import CompiledText, versions
from spmd_core.workloads import STRATEGIES

_ASKED = re.compile(
    r"stablehlo\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute|collective_broadcast)"
)
_ABSENT = ("not installed", "not found", "no such file", "cannot open", "no module named")
# A libtpu that is newer than jaxlib writes what jaxlib cannot read; one that is older does not know
# its interface. These are the words that
# the two print then, more than single words of them: a compiler's message about a program
# ("Incompatible shapes") is no reason to reinstall.
_UNREADABLE = re.compile(
    r"mismatched pjrt plugin|plugin pjrt api version|built with (a|an) (later|earlier) version "
    r"than the framework|unexpected pjrt_\w+ size"
    r"|failed to deserialize (module|stablehlo|portable "
    r"artifact|hlomoduleproto|pjrt\w+|compileoptionsproto)"
    r"|failed to parse (serialized "
    r")?(hlomodule|pjrt|compileoptions|executableversion|executableabi|compactlayout|hlosharding)"
    r"|unknown opcode: |this could indicate forward incompatibility|unsupported version: "
    r"expected <= "
)


def devices_of(topology: Topology) -> list[Any]:
    """The compile-only devices of a topology; WorkerError where the compiler is missing or refuses."""
    if refusal := compiler_refusal(topology.target):
        raise WorkerError(refusal)
    missing = [name for name in ENVIRONMENT if not os.environ.get(name)]
    if missing and jax.default_backend() != "tpu":  # whose own compiler is loaded
        raise WorkerError(
            f"{', '.join(missing)} not set: a compile-only worker sets {ENVIRONMENT} before jax "
            f"is imported"
        )
    name, options = description(topology)
    try:
        devices = list(topologies.get_topology_desc(name, platform_of(topology), **options).devices)
    except (
        RuntimeError
    ) as error:  # JaxRuntimeError: libtpu absent, too new, or a name that it refuses
        raise WorkerError(explain(str(error))) from error
    if len(devices) != topology.devices:
        raise WorkerError(
            f"{topology.name} shows {len(devices)} devices where {topology.devices} were "
            f"expected: this compiler differs from the table"
        )
    return devices


def explain(message: str) -> str:
    """The words of an error, or a sentence with what to install where libtpu is missing or does not
    fit this jaxlib.
    """
    words, first = message.lower(), " ".join(message.split())[:200]
    install = f"run `pip install 'jax[tpu]=={jax.__version__}'`"
    if any(part in words for part in _ABSENT) and ("tpu support" in words or "libtpu" in words):
        return f"libtpu, which holds the TPU compiler, is not installed: {install}"
    if _UNREADABLE.search(" ".join(words.split())):
        libtpu = package_version("libtpu") or "of an unknown version"
        return (
            f"libtpu {libtpu} and jaxlib {package_version('jaxlib')} do not fit one another: "
            f"{install}, which brings the libtpu that fits ({first})"
        )
    return message


def compiled_program(lowered: Any, compiled: Any, mesh: Mesh, topology: Topology) -> CompiledText:
    """A compiled program as values: its text, the account of its memory, and the collectives that
    it requests by name.
    """
    return CompiledText(
        compiled.as_text(),
        memory_account(compiled),
        coordinates(list(mesh.devices.flat), topology),
        _asked(lowered),
        program="final",
    )


def scheduled_program(
    lowered: Any, scheduled: Scheduled, mesh: Mesh, topology: Topology
) -> CompiledText:
    """The same of a program that the compiler has scheduled, and not yet made code of."""
    return CompiledText(
        scheduled.text,
        scheduled.memory,
        coordinates(list(mesh.devices.flat), topology),
        _asked(lowered),
        program="scheduled",
    )


def _asked(lowered: Any) -> dict[str, int]:
    """How often each kind is requested, before the compiler's choices."""
    asked = Counter(_ASKED.findall(lowered.as_text()))
    return {kind.replace("_", "-"): count for kind, count in asked.items()}


def describe(target: str) -> Environment:
    """The environment of a topology; WorkerError where the compiler is missing, does not fit, or
    refuses.
    """
    topology = get_topology(target)
    devices = devices_of(topology)
    listed = zip(devices[:MAX_LISTED_DEVICES], coordinates(devices, topology), strict=False)
    seen = tuple(
        Device(
            id=device.id,
            process=device.process_index,
            coords=place[:3],
            core=getattr(device, "core_on_chip", None),
            memory_bytes=topology.chip.device_hbm_bytes,
        )
        for device, place in listed
    )
    return Environment(
        jax=jax.__version__,
        jaxlib=version("jaxlib"),
        python=platform.python_version(),
        platform=topology.chip.platform,
        device_kind=devices[0].device_kind,
        device_count=len(devices),
        process_count=len({device.process_index for device in devices}),
        devices=seen,
        cores=available_cores(),
        host_memory_bytes=host_memory_bytes(),
        load=load(),
        xla_flags=os.environ.get("LIBTPU_INIT_ARGS", ""),
        libtpu=None if topology.chip.is_gpu else versions()["libtpu"],
    )


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
