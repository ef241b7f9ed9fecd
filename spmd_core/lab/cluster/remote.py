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


async def member(key: str, topic: str, target: str, place: tuple[int, int, str]) -> str:
    """Start a member of a run on several hosts, and carry its lines until it ends; how it did, as
    JSON. `place`: its number, how many there are, and where they meet.
    """
    from distributed import get_worker

    from spmd_core.lab.cluster.member import carried

    return await carried(get_worker(), key, topic, target, place)


def about(dask_worker: Any) -> dict[str, object]:
    """What the host of a Dask worker is."""
    from spmd_core.lab.cluster.member import about

    return about(dask_worker)


def passed_on(topic: str, line: str, dask_worker: Any) -> None:
    """Pass a command on to the member of this Dask worker."""
    from spmd_core.lab.cluster.member import passed_on

    passed_on(dask_worker, topic, line)


def fetched(topic: str, dask_worker: Any) -> str:
    """A long line of the member of this Dask worker."""
    from spmd_core.lab.cluster.member import fetched

    return fetched(dask_worker, topic)
