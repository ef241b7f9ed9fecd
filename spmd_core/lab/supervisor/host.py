"""The one live worker: reused while it fits, replaced when the target changes, ended when idle."""

import os
import time
from collections.abc import Mapping

from spmd_core.base import Settings, WorkerError
from spmd_core.experiment import files
from spmd_core.lab.supervisor.environment import (
    dask_environment,
    without_secrets,
    worker_environment,
)
from spmd_core.lab.supervisor.process import Worker
from spmd_core.machine import Hardware, parse_target, read_hardware


class WorkerHost:
    """Holds at most one worker. Used by the supervisor's thread alone; `pid` may be read by any."""

    def __init__(self, settings: Settings):
        self.pid: int | None = None
        self._settings = settings
        self._worker: Worker | None = None
        self._flags: dict[str, str] = {}
        self._program = ""  # that somebody handed in, and the worker holds
        self._idle_since = time.monotonic()

    @property
    def is_empty(self) -> bool:
        """Whether no worker holds any device."""
        return self._worker is None

    def get(self, target: str, flags: Mapping[str, str] | None = None, program: str = "") -> Worker:
        """A worker for `target`, started where none fits. WorkerError where another process holds
        the devices. One that holds a `program` that somebody handed in runs nothing else, and knows
        no secrets of the environment.

        One worker compiles for all topologies in turn; `flags` are its compiler's, None: whichever
        it was loaded with.
        """
        if (
            self._worker
            and self._program == program
            and self._fits(self._worker, target, flags)
            and self._is_there(self._worker)
        ):
            self._worker.target = target
            self._worker.begin_stderr()
            return self._worker
        self.release()
        hardware = read_hardware()
        if parse_target(target).is_here and hardware.holders:
            holder = hardware.holders[0]
            raise WorkerError(
                f"{holder.device_file} is held by process {holder.pid} ({holder.name}): end it, or "
                "use cpu:8"
            )
        self._flags, self._program = dict(flags or {}), program
        self._worker = self._started(target, hardware, program)
        self.pid = self._worker.pid
        return self._worker

    def _started(self, target: str, hardware: Hardware, program: str) -> Worker:
        if parse_target(target).is_cluster:  # its members are elsewhere: this one speaks to them
            address = self._settings.scheduler_of(target)
            words = [address, *self._settings.tls_of(address)]
            words += ["--workloads", files.fingerprint()]
            return Worker(target, dask_environment(), words, "spmd_core.lab.cluster")
        inherited = without_secrets(os.environ) if program else os.environ
        return Worker(target, worker_environment(target, hardware, inherited, self._flags))

    def _fits(self, worker: Worker, target: str, flags: Mapping[str, str] | None) -> bool:
        kinds = {parse_target(worker.target).kind, parse_target(target).kind}
        return (worker.target == target and flags in (None, self._flags)) or (
            kinds == {"tpu"} and flags == self._flags
        )

    def _is_there(self, worker: Worker) -> bool:
        """Whether an idle worker can be used: a frozen one would cost the next run all its time."""
        return not _is_lost(worker) and worker.answers(self._settings.ping_s)

    def rest(self) -> None:
        """The worker's work is done: it is idle from now on."""
        self._idle_since = time.monotonic()

    def let_go_when_idle(self) -> None:
        """Release a worker that was idle for long enough, or that has ended meanwhile."""
        if self._worker and (
            time.monotonic() - self._idle_since > self._settings.idle_s or _is_lost(self._worker)
        ):
            self.release()

    def release(self) -> int | None:
        """End the worker, so that its devices are free; its exit status."""
        worker, self._worker, self.pid = self._worker, None, None
        if worker is None:
            return None
        status = worker.stop(self._settings.terminate_grace_s)
        worker.close()
        return status


def _is_lost(worker: Worker) -> bool:
    """Whether an idle worker can no longer be used; events of its own are dropped."""
    try:
        worker.receive()
    except WorkerError:
        return True
    return worker.is_gone()
