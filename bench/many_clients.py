"""Command lines at once on one data folder, some of them killed: each other one gets its answer.

python -m bench.many_clients [--rounds 40] [--kills 10] [--clients 8] [--dashboard]
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.dashboard import asking
from bench.figures import Asked, Figures, measure
from bench.kills import ORPHAN_S, ROOT, is_running
from bench.server import Server
from spmd_core.base import seconds_text

STAGGER_S = 2.0  # within which the command lines of a round start
STUCK_S = 900.0  # a round may take so long
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def spec(command: str, dice: random.Random) -> dict[str, Any]:
    """A small experiment for that command, unlike those of the other command lines."""
    devices = dice.choice((2, 4))
    return {
        "workload": "layer",
        "target": f"cpu:{devices}" if command == "run" else "tpu:v5e:2x2",
        "mesh": {"x": devices},
        "seed": dice.randrange(2**20),
        "strategies": ["auto"],
        "sharding": {"in": "x"},
        "timing": {"samples": 3, "min_seconds": 0.01},
    }


class Client:
    """One command line, started after a moment of chance."""

    def __init__(self, folder: Path, dice: random.Random):
        self.command = dice.choice(("run", "run", "predict"))
        self.is_hit = False  # it was sent a signal before it had ended
        fresh = ["--fresh"] if self.command == "predict" else []
        self._out, self._err = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spmd_core", self.command, "-", "--json", *fresh],
            cwd=ROOT,
            env=os.environ | {"SPMD_LAB_DATA": str(folder)},
            stdin=subprocess.PIPE,
            stdout=self._out,
            stderr=self._err,
            text=True,
        )
        assert self.process.stdin
        self.process.stdin.write(json.dumps(spec(self.command, dice)))
        self.process.stdin.close()

    def hit(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.process.poll() is None:
            self.is_hit = True
            self.process.send_signal(number)

    def answered(self) -> bool:
        """Whether it ended with an answer; what it wrote instead is printed."""
        for stream in (self._out, self._err):
            stream.seek(0)
        out, err = self._out.read(), self._err.read()
        with contextlib.suppress(ValueError):
            if self.process.returncode == 0 and json.loads(out):
                return True
        print(f"{self.command} ended with {self.process.returncode}: {err or out}", flush=True)
        return False

    def close(self) -> None:
        """End it, and close its files."""
        self.process.kill()
        self.process.wait()
        for stream in (self._out, self._err):
            stream.close()


class Trial:
    """Rounds on one data folder, and what came of them."""

    def __init__(self, folder: Path, clients: int, seed: int):
        self.folder, self.clients, self.dice = folder, clients, random.Random(seed)
        self.answered = self.expected = self.hits = self.orphans = 0
        self.round_s = [20.0]  # how long rounds took, the first a guess

    def round(self, is_hit: bool, dashboard: int | None) -> None:
        """Start the command lines, kill up to half of them if it is to be hit, and wait."""
        begun, started = time.monotonic(), []
        moments = self._moments() if is_hit else []
        try:
            while time.monotonic() - begun < STUCK_S:
                if len(started) < self.clients:
                    time.sleep(self.dice.random() * STAGGER_S / self.clients)
                    started.append(Client(self.folder, self.dice))
                elif all(client.process.poll() is not None for client in started):
                    break
                while moments and time.monotonic() - begun >= moments[0]:
                    self.dice.choice(started).hit(self.dice.choice(SIGNALS))
                    del moments[0]
                time.sleep(0.02)
            left = [client for client in started if not client.is_hit]
            self.hits += len(started) - len(left)
            self.expected += len(left)
            self.answered += sum(client.answered() for client in left)
        finally:
            for client in started:
                client.close()
        self.round_s.append(time.monotonic() - begun)
        self.orphans += self._orphans(dashboard)

    def _moments(self) -> list[float]:
        """Seconds from a round's beginning at which one command line is killed, in order."""
        hits = self.dice.randint(1, self.clients // 2)
        return sorted(self.dice.random() * self.round_s[-1] for _ in range(hits))

    def _orphans(self, dashboard: int | None) -> int:
        """Workers on this folder that live on after all command lines, the dashboard's left out."""
        deadline = time.monotonic() + ORPHAN_S
        while (pids := self._workers(dashboard)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return len(pids)

    def _workers(self, dashboard: int | None) -> list[int]:
        mark, found = f"SPMD_LAB_DATA={self.folder}\0".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):  # it ends just now
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if mark in (folder / "environ").read_bytes() and parent != dashboard:
                    found.append(int(folder.name))
        return [pid for pid in found if pid != dashboard and is_running(pid)]


def main(options: Asked, figures: Figures) -> None:
    # a background job's SIGINT is ignored, and its children would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="spmd-lab-clients-") as name,
        contextlib.ExitStack() as end,
    ):
        trial, server = Trial(Path(name) / "data", options.clients, options.seed), None
        if options.dashboard:
            server = Server(Path(name))
            end.callback(server.stop)
            server.start()
            end.enter_context(asking(server))
        hit = set(trial.dice.sample(range(options.rounds), min(options.kills, options.rounds)))
        for number in range(options.rounds):
            trial.round(number in hit, server.process.pid if server and server.process else None)
            print(
                f"round {number + 1}: {trial.answered} of {trial.expected} answered, "
                f"{trial.hits} killed, {seconds_text(trial.round_s[-1])}",
                flush=True,
            )
        said = (
            f"{options.rounds} rounds of {options.clients}, {trial.hits} killed in "
            f"{len(hit)} rounds"
        )
        figures.add("not killed", trial.expected, least=1, note=said)
        figures.add("of these, answered", trial.answered, least=trial.expected)
        figures.add(f"orphans after {ORPHAN_S:.0f} s", trial.orphans, most=0)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        rounds=40,
        kills=(10, "rounds in which some are killed"),
        clients=(8, "command lines at once"),
        dashboard=(False, "beside a dashboard"),
        seed=7,
    )
