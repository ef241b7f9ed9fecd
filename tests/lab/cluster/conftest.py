"""A real Dask cluster on this machine: a scheduler and workers, to be killed and started again."""

import os
import secrets
import socket

import pytest
from distributed import Client

from bench import dask_processes
from tests.labs import PATIENCE_S, ROOT, STANDIN, until


class Cluster:
    """Processes of a scheduler that keeps its address, and of workers whose engine ends a run for
    each that is allowed to.
    """

    def __init__(self, folder, path=f"{STANDIN}{os.pathsep}{ROOT}"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._folder, self.scheduler, self.workers = folder, None, []
        self._tickets = folder / "tickets"
        self._tickets.mkdir()
        self._environ = os.environ | {
            "PYTHONPATH": path,
            "STANDIN_TICKETS": str(self._tickets),
        }

    def ready(self, workers: int) -> str:
        """The address, once the scheduler and so many workers are there, and no run may end."""
        self.allow(0)
        if self.scheduler is None:
            self.scheduler = self._start("scheduler", "--port", str(self._port))
        self.workers = [each for each in self.workers if each.is_alive()]
        dask_processes.end(*self.workers[workers:])
        del self.workers[workers:]
        while len(self.workers) < workers:
            self.workers.append(self._start("worker", self.address))
        self._await(workers)
        return self.address

    def addresses(self) -> set[str]:
        """The addresses of the workers."""
        with Client(self.address, timeout=PATIENCE_S, set_as_default=False) as client:
            return {*client.scheduler_info(n_workers=-1)["workers"]}

    def allow(self, runs: int) -> None:
        """So many runs may end from now on."""
        for ticket in self._tickets.iterdir():
            ticket.unlink(missing_ok=True)
        for _ in range(runs):
            (self._tickets / secrets.token_hex(8)).touch()

    def end(self) -> None:
        """Kill the scheduler, and the workers that wait for it."""
        dask_processes.end(*filter(None, (self.scheduler, *self.workers)))
        self.scheduler, self.workers = None, []

    def _await(self, workers: int) -> None:
        with Client(self.address, timeout=PATIENCE_S, set_as_default=False) as client:
            until(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == workers)

    def _start(self, what: str, *words: str):
        return dask_processes.started(what, words, self._environ, self._folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    yield found
    found.end()
