"""The devices of a worker as JAX lists them, checked against the target that was requested, and what
is free of their memory.
"""

import os
import platform
import socket
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import jax

from spmd_core.base import WorkerError, bytes_text, refuse
from spmd_core.engine.members import gathered
from spmd_core.machine import (
    Coordinates,
    Topology,
    accelerator_files,
    available_cores,
    parse_target,
    spare_bytes,
)
from spmd_core.results import Device, Environment

MAX_LISTED_DEVICES = 256
JaxDevice = Any  # jax.Device, which type checkers take for a variable


def describe(target: str, expected_device_count: int | None = None) -> Environment:
    """The environment of this process. WorkerError where it is not what `target` means, e.g. a busy
    TPU that became a CPU.
    """
    devices = _devices(target)
    first = devices[0]
    _check(target, first, len(devices), expected_device_count)
    simulated = parse_target(target).is_simulated or (first.platform == "cpu" and len(devices) > 1)
    memory = _default_memory(first)
    return Environment(
        jax=jax.__version__,
        jaxlib=version("jaxlib"),
        python=platform.python_version(),
        platform=first.platform,
        platform_version=" ".join(first.client.platform_version.split()),
        device_kind=first.device_kind,
        device_count=len(devices),
        process_count=jax.process_count(),
        process_index=jax.process_index(),
        hosts=tuple(gathered(socket.gethostname())) if jax.process_count() > 1 else (),
        devices=tuple(map(_device, devices[:MAX_LISTED_DEVICES])),
        default_memory=memory,
        cores=available_cores(),
        host_memory_bytes=host_memory_bytes(),
        load=load(),
        xla_flags=os.environ.get("XLA_FLAGS", ""),
        libtpu_init_args=os.environ.get("LIBTPU_INIT_ARGS", ""),
        simulated=simulated,
    )


def _devices(target: str) -> list[JaxDevice]:
    try:
        return jax.devices()
    except RuntimeError as error:
        raise WorkerError(
            f"target {target} has no usable device: {' '.join(str(error).split())}"
        ) from error


def _check(target: str, first: JaxDevice, count: int, expected_device_count: int | None) -> None:
    wanted = parse_target(target)
    if wanted.is_absent:
        raise WorkerError(
            f"target {target} is compile-only: nothing runs on it; use local or cpu:8"
        )
    if wanted.is_simulated and first.platform != "cpu":
        raise WorkerError(
            f"target {target} got platform {first.platform}, not cpu: start the worker with "
            f"JAX_PLATFORMS=cpu"
        )
    if wanted.is_attached and first.platform == "cpu" and (files := accelerator_files()):
        raise WorkerError(
            f"target {target} got the CPU although {files[0]} exists: release the accelerator in the "
            f"process that holds it, or use cpu:8"
        )
    expected = expected_device_count if expected_device_count is not None else wanted.device_count
    if expected is not None and count != expected:
        raise WorkerError(
            f"target {target} got {count} devices, not {expected}: release the devices and start "
            f"the worker again"
        )


def _device(device: JaxDevice) -> Device:
    coords = getattr(device, "coords", None)
    return Device(
        id=device.id,
        process=device.process_index,
        coords=None if coords is None else tuple(coords),
        core=getattr(device, "core_on_chip", None),
        memory_kinds=tuple(memory.kind for memory in _one_here(device).addressable_memories()),
        memory_bytes=memory_limit_bytes(_one_here(device)),
    )


def _one_here(device: JaxDevice) -> JaxDevice:
    """The device, or one of this process like it: the memory of another process's device cannot be read."""
    is_here = device.process_index == jax.process_index()
    return device if is_here else jax.local_devices()[0]


def memory_limit_bytes(device: JaxDevice) -> int | None:
    """Bytes that this process may use of the device's memory; None where the platform does not
    report it.
    """
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return int(limit) if limit else None


def _default_memory(device: JaxDevice) -> str | None:
    try:
        return device.default_memory().kind
    except jax.errors.JaxRuntimeError:
        return None


def host_memory_bytes() -> int | None:
    """Physical memory of this machine; None where the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def load() -> float | None:
    """Processes that wanted a core over the last minute, on average."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def coordinates(
    devices: Sequence[Any], topology: Topology | None = None
) -> tuple[Coordinates, ...]:
    """(x, y, z, core, slice) of each device; of a GPU its number in its NVLink domain, and the
    domain.
    """
    if topology is not None and topology.chip.is_gpu:
        each = topology.shape[0]
        return tuple((device.id % each, 0, 0, 0, device.id // each) for device in devices)
    return tuple(
        (
            *(int(c) for c in device.coords),
            int(getattr(device, "core_on_chip", 0) or 0),
            int(getattr(device, "slice_index", 0) or 0),
        )
        for device in devices
    )


def check_room(compiled: Any, devices: int) -> None:
    """Checks the temporaries and results of a program, once compiled, against free memory.

    Args:
        compiled: for CPU devices, which share the memory of their host: without a limit of its own
            it takes all of that. Others refuse by themselves.
        devices: how many of this process run it at once.

    Raises:
        RequestError: they need more than may be taken.
    """
    stats, spare = compiled.memory_analysis(), spare_bytes()
    if jax.default_backend() != "cpu" or stats is None or spare is None:
        return
    each = stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
    if (needed := each * devices) > spare:
        raise refuse(
            f"{bytes_text(needed)} of temporaries and results on {devices} simulated devices",
            f"exceed the {bytes_text(spare)} that may be taken of what is free",
            "use smaller sizes, or a topology such as tpu:v5e:4x4",
        )
