"""A real Dask cluster on this machine: a scheduler and workers, to be killed and started again."""

import os
import secrets
import socket
import subprocess
import sys

import pytest

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
            self.scheduler = self._start("dask_scheduler", "--port", str(self._port))
        self.workers = [each for each in self.workers if each.poll() is None]
        for each in self.workers[workers:]:
            each.kill()
            each.wait()
        del self.workers[workers:]
        while len(self.workers) < workers:
            self.workers.append(
                self._start("dask_worker", self.address, "--nthreads", "1", "--no-nanny")
            )
        until(lambda: self._joined() == workers)
        return self.address

    def allow(self, runs: int) -> None:
        """So many runs may end from now on."""
        for ticket in self._tickets.iterdir():
            ticket.unlink(missing_ok=True)
        for _ in range(runs):
            (self._tickets / secrets.token_hex(8)).touch()

    def end(self) -> None:
        """Kill the scheduler, and the workers that wait for it."""
        for process in (self.scheduler, *self.workers):
            if process is not None:
                process.kill()
                process.wait()
        self.scheduler, self.workers = None, []

    def _joined(self) -> int:
        from distributed import Client

        with Client(self.address, timeout=PATIENCE_S, set_as_default=False) as client:
            return len(client.scheduler_info(n_workers=-1)["workers"])

    def _start(self, module: str, *words: str) -> subprocess.Popen:
        with (self._folder / f"{module}.log").open("a") as log:
            command = [
                sys.executable,
                "-m",
                f"distributed.cli.{module}",
                "--dashboard-address=127.0.0.1:0",
                "--host",
                "127.0.0.1",
                *words,
            ]
            return subprocess.Popen(
                command, env=self._environ, cwd=self._folder, stdout=log, stderr=log
            )


@pytest.fixture(scope="module")
def real_cluster(tmp_path_factory):
    """Its engine is JAX's."""
    found = Cluster(tmp_path_factory.mktemp("cluster"), str(ROOT))
    yield found
    found.end()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    yield found
    found.end()
