"""Dask schedulers and workers on loopback, forked from one process that has loaded Dask: it takes
longer to load than all that a test does with it.
"""

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from distributed.cli import dask_scheduler, dask_worker
from distributed.config import config

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["__main__", __name__, "spmd_core.lab.cluster.member"])
PLACE = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")


def started(
    what: str, words: tuple[str, ...], environ: Mapping[str, str], folder: Path
) -> ForkServerProcess:
    """A running `dask scheduler` or `dask worker`, with that environment; its log is in a file of
    `folder`, where it runs.
    """
    process = _FORKING.Process(target=_serve, args=(what, words, dict(environ), folder))
    process.daemon = True
    process.start()
    return process


def _serve(what: str, words: tuple[str, ...], environ: dict[str, str], folder: Path) -> None:
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    log = os.open(f"dask_{what}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    _measure_less()
    if what == "scheduler":
        dask_scheduler.main((*PLACE, *words))
    dask_worker.main((*PLACE, *words, "--nthreads", "1", "--no-nanny", "--memory-limit", "0"))


def _measure_less() -> None:
    """What Dask measures of its own processes costs 3 % of a core each, before they do anything."""
    options = config["distributed"]
    options["worker"]["profile"]["enabled"] = False
    options["admin"]["system-monitor"] |= {"interval": "60s", "gil": {"enabled": False}}
    options["admin"]["tick"]["interval"] = "1s"


def pid_of(process: ForkServerProcess) -> int:
    """Its number, once it was started."""
    assert process.pid
    return process.pid


def end(*processes: ForkServerProcess) -> None:
    """Kill them, and wait."""
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
