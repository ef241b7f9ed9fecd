"""Starts the worker of a target, with the environment variables that are set before jax loads."""

import os
from collections.abc import Mapping

from spmd_core.base import Settings, WorkerError
from spmd_core.lab.supervisor.process import Worker
from spmd_core.machine import ENVIRONMENT, USUAL_DEVICES, Hardware, parse_target, read_hardware
from spmd_core.workloads import files

# A TPU host that is one of several of a slice waits for the others for ever, unless variables limit
# it to its own chips. GKE describes the slice in each pod, so every variable that does is
# set or dropped together (pytorch/xla #7714, for the hosts' names and bounds).
_CHIP_BOUNDS = {1: "1,1,1", 4: "2,2,1", 8: "2,4,1"}
_NEEDED = frozenset(
    (
        *("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR", "TZ", "LANG", "XLA_FLAGS"),
        *("SPMD_LAB_DATA", "HOME", "XDG_DATA_HOME"),  # where the data folder is
    )
)
_NEEDED_BEGINNINGS = ("LC_", "TPU_", "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "XLA_PYTHON_CLIENT_")
# JAX takes 75 % of each GPU at once, and holds it while its process idles; others get none of it
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
_OF_THE_SLICE = (
    "TPU_PROCESS_ADDRESSES",
    "TPU_PROCESS_PORT",
    "TPU_TOPOLOGY",
    "TPU_TOPOLOGY_ALT",
    "TPU_TOPOLOGY_WRAP",
    "TPU_ACCELERATOR_TYPE",
    "TPU_VISIBLE_DEVICES",
    "MEGASCALE_COORDINATOR_ADDRESS",
    "MEGASCALE_NUM_SLICES",
    "MEGASCALE_SLICE_ID",
    "MEGASCALE_PORT",
)
# where no chip is owned: what the compiler for absent topologies wants, should a study need it
_COMPILER = {**ENVIRONMENT, "LIBTPU_INIT_ARGS": ""}


def simulated_devices(count: int, cores: int) -> dict[str, str]:
    """What gives a process that many simulated devices.

    XLA takes the size of its thread pool from NPROC. By default there is a thread for each device:
    one that is busy with
    anything else when a collective begins leaves its device without one, and XLA aborts the process
    ("7 of 8 threads
    arrived": in 4 of 31 runs on two busy cores, in none of 33 with 32 threads for 8 devices).
    """
    threads = max(cores, min(4 * count, count + 64))
    return {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(count), "NPROC": str(threads)}


# what Python needs to load Dask; whoever reaches the scheduler can run code in that process
_GIVEN = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")


def dask_environment() -> dict[str, str]:
    """The variables that a process of a Dask client inherits: anything else may be a secret."""
    return {name: os.environ[name] for name in _GIVEN if name in os.environ}


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a worker needs, of which none is a secret: whatever else is set may be."""
    return {
        name: value
        for name, value in environ.items()
        if name in _NEEDED or name.startswith(_NEEDED_BEGINNINGS)
    }


def worker_environment(
    target: str,
    hardware: Hardware,
    inherited: Mapping[str, str] = os.environ,
    flags: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Environment variables of a worker process. `flags` are the TPU compiler's, of a compile-only
    target: it reads them as it is loaded.

    Inherited JAX settings are dropped: a precision, x64 mode or a compile cache from the shell
    would change what is measured. XLA_FLAGS stay, and are stored with each result.
    """
    environ = {name: value for name, value in inherited.items() if not name.startswith("JAX_")}
    environ.pop("ALLOW_MULTIPLE_LIBTPU_LOAD", None)  # set only where no chip is owned
    if "XLA_FLAGS" in environ:
        # jax refuses the count twice: here and as JAX_NUM_CPU_DEVICES
        count, flags_given = "--xla_force_host_platform_device_count", environ["XLA_FLAGS"].split()
        environ["XLA_FLAGS"] = " ".join(f for f in flags_given if not f.startswith(count))
    parsed = parse_target(target)
    environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"
    if parsed.is_cluster and hardware.accelerator is None:
        return environ | _COMPILER | simulated_devices(USUAL_DEVICES, hardware.cores)
    if parsed.is_simulated and parsed.device_count:
        each = parsed.device_count // parsed.hosts
        return environ | _COMPILER | simulated_devices(each, hardware.cores)
    if parsed.is_absent:
        given = " ".join(f"--{name}={value}" for name, value in (flags or {}).items())
        return environ | ENVIRONMENT | {"LIBTPU_INIT_ARGS": given}
    platforms = {"tpu": "tpu,cpu", "nvidia": "cuda,cpu", "amd": "rocm,cpu", None: "cpu"}[
        hardware.accelerator
    ]
    if hardware.accelerator != "tpu":
        environ |= _COMPILER
    environ["JAX_PLATFORMS"] = platforms
    if hardware.accelerator in ("nvidia", "amd"):
        environ.setdefault(_PREALLOCATE, "false")
    if hardware.accelerator == "tpu" and hardware.slice_hosts > 1 and not parsed.is_cluster:
        environ = _alone(environ, hardware.chips)
    return environ


def _alone(environ: dict[str, str], chips: int) -> dict[str, str]:
    """The environment of a host of a slice that uses its own chips alone; unchanged where the user
    has set TPU_PROCESS_BOUNDS, or for a number of chips that no host has.
    """
    bounds = _CHIP_BOUNDS.get(chips)
    if bounds is None or "TPU_PROCESS_BOUNDS" in environ:
        return environ
    kept = {name: value for name, value in environ.items() if name not in _OF_THE_SLICE}
    return kept | {
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_CHIPS_PER_PROCESS_BOUNDS": bounds,
        "TPU_HOST_BOUNDS": "1,1,1",
        "TPU_CHIPS_PER_HOST_BOUNDS": bounds,
        "TPU_VISIBLE_CHIPS": ",".join(map(str, range(chips))),
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
        "CLOUD_TPU_TASK_ID": "0",
    }


def start_worker(settings: Settings, target: str, flags: Mapping[str, str], program: str) -> Worker:
    """A worker for `target` whose compiler has these flags; where it is to hold a `program` that
    somebody handed in, without the secrets of the environment. WorkerError where another process
    holds the devices.
    """
    hardware = read_hardware()
    if parse_target(target).is_here and hardware.holders:
        holder = hardware.holders[0]
        raise WorkerError(
            f"{holder.device_file} is held by process {holder.pid} ({holder.name}): end it, or "
            "use cpu:8"
        )
    if parse_target(target).is_cluster:  # its members are elsewhere: this one speaks to them
        address = settings.scheduler_of(target)
        words = [address, *settings.tls_of(address), "--workloads", files.fingerprint()]
        return Worker(target, dask_environment(), words, "spmd_core.lab.cluster")
    inherited = without_secrets(os.environ) if program else os.environ
    return Worker(target, worker_environment(target, hardware, inherited, flags))
