"""Starts the worker of a target."""

import os
from collections.abc import Mapping

from spmd_core.base import Settings, WorkerError
from spmd_core.lab.supervisor.environment import (
    dask_environment,
    without_secrets,
    worker_environment,
)
from spmd_core.lab.supervisor.process import Worker
from spmd_core.machine import parse_target, read_hardware
from spmd_core.workloads import files


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
