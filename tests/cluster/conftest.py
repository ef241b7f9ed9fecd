"""A real Dask cluster on this machine: a scheduler and workers, to be killed and started again."""

import os
import socket
import subprocess
import sys

import pytest

from tests.labs import ROOT, STANDIN, until


class Cluster:
    """Processes of a scheduler that keeps its address, and of workers whose engine takes a second
    for each run.
    """

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._folder, self.scheduler, self.workers = folder, None, []
        self._environ = os.environ | {"PYTHONPATH": f"{STANDIN}{os.pathsep}{ROOT}",
                                      "STANDIN_ROUNDS": "60",
                                      "STANDIN_LOG": str(folder / "compiled.log")}

    def ready(self, workers: int) -> str:
        """The address, once the scheduler and so many workers are there."""
        if self.scheduler is None:
            self.scheduler = self._start("dask_scheduler", "--port", str(self._port))
        self.workers = [each for each in self.workers if each.poll() is None]
        while len(self.workers) < workers:
            self.workers.append(self._start("dask_worker", self.address, "--nthreads", "1",
                                            "--no-nanny"))
        until(lambda: self._joined() == workers, 60)
        return self.address

    def end_scheduler(self) -> None:
        """Kill the scheduler, and the workers that wait for it."""
        self.close()
        self.scheduler, self.workers = None, []

    def close(self) -> None:
        """Kill everything."""
        for process in (self.scheduler, *self.workers):
            if process is not None:
                process.kill()
                process.wait()

    @property
    def compiled(self) -> list[str]:
        """What the workers' engines began to compile."""
        log = self._folder / "compiled.log"
        return log.read_text().splitlines() if log.exists() else []

    def _joined(self) -> int:
        from distributed import Client

        with Client(self.address, timeout=60, set_as_default=False) as client:
            return len(client.scheduler_info(n_workers=-1)["workers"])

    def _start(self, module: str, *words: str) -> subprocess.Popen:
        with (self._folder / f"{module}.log").open("a") as log:
            command = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard",
                       "--host", "127.0.0.1", *words]
            return subprocess.Popen(command, env=self._environ, cwd=self._folder, stdout=log,
                                    stderr=log)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    found = Cluster(tmp_path_factory.mktemp("cluster"))
    yield found
    found.close()
