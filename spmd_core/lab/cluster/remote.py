"""The functions that Dask workers run, by name. The caller loads no more than this module."""

import json
from typing import Any

from spmd_core.time import versions


def versions_here() -> str:
    """The versions that a prediction depends on, as JSON."""
    return json.dumps(versions(), sort_keys=True)


def compiled(run: str, spec: str, timeout_s: float, topic: str) -> bytes:
    """`Compiled` as deflated JSON. `spec`: the experiment as JSON; events of `topic` report when
    the run leaves this worker's own queue, and its progress.
    """
    from distributed import get_worker

    from spmd_core.lab.cluster.compiling import packed

    worker: Any = get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled" and worker.status.name == "running"

    def report(phase: str | None, strategy: str | None) -> None:
        worker.log_event(topic, {"run": run, "phase": phase, "strategy": strategy})

    return packed(spec, timeout_s, worker.local_directory, is_wanted, report)
