"""Data folders that are moved, replaced, swapped, copied, restored and deleted under processes that
store results in them: each result that was stored stays in its folder, and in no other.

python -m bench.moved_folders [--rounds 200] [--dashboard 20] [--writers 3] [--by check]
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import Asked, Figures, measure
from bench.kills import QUICK, ROOT, STANDIN, spec
from bench.server import Server
from bench.values import result, strategy
from spmd_core.base import StorageError
from spmd_core.lab.store import held_file
from spmd_core.lab.store.database import FILE_NAME, Database
from spmd_core.lab.store.store import Store

BETWEEN_S = 0.15  # at most, from one change to the next: about twenty transactions
STORED = result({"auto": strategy(1e-5)})
WRITER = "from bench.moved_folders import write; write()"
# Which protection is tried: all of it, without the descriptor (as on other systems), or none
WAYS = ("descriptor", "check", "path")


def unprotected(way: str) -> None:
    """Take a protection away, to measure what it is for."""
    if way != "descriptor":
        held_file._vfs = lambda: None  # pyrefly: ignore[bad-assignment]
    if way == "path":
        Database.check = lambda self: None


def write() -> None:
    """A bare process: stores results in whatever folder is at the path, and prints each that is
    stored, with the file that it is in; it opens the path anew where the folder was moved.
    """
    path, way = Path(sys.argv[1]), sys.argv[2]
    unprotected(way)
    number = 0
    while True:
        with contextlib.suppress(StorageError):
            store = Store(path)
            try:
                while True:
                    number += 1
                    run = f"{os.getpid()}-{number}"
                    store.submit(run, STORED.experiment)
                    mine = STORED.model_copy(update={"run": run})
                    if store.finish(run, "succeeded", result=mine):
                        print(store.identity, run, flush=True)
            finally:
                store.close()
                del store  # which is what lets go of the folder


class Trial:
    """Folders in one place, the first of which processes write to by its path."""

    def __init__(self, place: Path, seed: int):
        self.place, self.dice = place, random.Random(seed)
        self.data, self.other = place / "data", place / "other"
        self.writers: list[subprocess.Popen[str]] = []
        self.came_from: dict[str, str] = {}  # the file that a file is a copy of
        self.deleted: dict[str, int] = {}  # an open file of each: its inode stays its own
        self._number = 0

    def start(self, writers: int, way: str) -> None:
        """Start processes at both paths."""
        for number in range(writers):
            path = self.other if number == 1 else self.data
            with (self.place / f"stored {number}").open("w") as log:
                self.writers.append(
                    subprocess.Popen(
                        [sys.executable, "-c", WRITER, str(path), way],
                        cwd=ROOT,
                        stdout=log,
                        text=True,
                    )
                )

    def stop(self) -> None:
        """End the processes, in the middle of what they do."""
        for process in self.writers:
            process.kill()
            process.wait()

    def away(self) -> Path:
        """A path that nothing is at."""
        self._number += 1
        return self.place / f"away {self._number}"

    def wait(self, most_s: float = BETWEEN_S) -> None:
        """Wait a moment of chance."""
        time.sleep(self.dice.random() * most_s)

    def put(self, folder: Path) -> None:
        """Put a folder at the path, and what a process made there meanwhile aside."""
        while True:
            with contextlib.suppress(OSError):
                if self.data.exists():
                    self.data.rename(self.away())
                folder.rename(self.data)
                return

    def moved(self) -> None:
        """Move the folder away, and put it back."""
        away = self.data.rename(self.away())
        self.wait()
        self.put(away)

    def replaced(self) -> None:
        """Move the folder away for good: a process makes another."""
        self.data.rename(self.away())

    def swapped(self) -> None:
        """Let the two folders change places, with writers in both."""
        aside = self.data.rename(self.away())
        with contextlib.suppress(OSError):
            self.other.rename(self.data)
        with contextlib.suppress(OSError):  # a process has made one already
            aside.rename(self.other)

    def copied(self) -> None:
        """Put a copy in place of the folder, made while all processes stand."""
        copy = self.away()
        for process in self.writers:
            process.send_signal(signal.SIGSTOP)
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(self.data, copy)
            self.came_from[identity(copy)] = identity(self.data)
        for process in self.writers:
            process.send_signal(signal.SIGCONT)
        if copy.exists():
            self.put(copy)

    def restored(self) -> None:
        """Put a folder of before in place of this one."""
        kept = [each for each in self.place.glob("away *") if (each / FILE_NAME).exists()]
        if kept:
            self.put(self.dice.choice(kept))

    def removed(self) -> None:
        """Delete the folder under its writers: what is in it is meant to go."""
        file = os.open(self.data / FILE_NAME, os.O_RDONLY)
        status = os.fstat(file)
        self.deleted[f"{status.st_dev}:{status.st_ino}"] = file
        shutil.rmtree(self.data.rename(self.away()), ignore_errors=True)

    def check(self) -> tuple[int, int, int]:
        """Results that are stored, lost, and in a folder that is not theirs."""
        expected: dict[str, set[str]] = {}
        for log in self.place.glob("stored *"):
            for line in log.read_text().splitlines():
                if len(words := line.split()) == 2:
                    expected.setdefault(words[0], set()).add(words[1])
        present = {}
        for file in self.place.glob(f"*/{FILE_NAME}"):
            present[identity(file.parent)] = runs_of(file)
        lost = mixed = 0
        for file, runs in expected.items():
            if file not in self.deleted:
                lost += len(runs - present.get(file, set()))
        for file, runs in present.items():
            mixed += len(runs & self._foreign(file, expected))
        return sum(len(runs) for runs in expected.values()), lost, mixed

    def _foreign(self, file: str, expected: dict[str, set[str]]) -> set[str]:
        """Results of files that a file is no copy of."""
        own = {file}
        while file in self.came_from:
            file = self.came_from[file]
            own.add(file)
        return {run for other, runs in expected.items() if other not in own for run in runs}


def identity(folder: Path) -> str:
    """Device and inode of the database in a folder, as `Store.identity`."""
    status = (folder / FILE_NAME).stat()
    return f"{status.st_dev}:{status.st_ino}"


def runs_of(file: Path) -> set[str]:
    """The runs of a database whose results are there; none where it is damaged."""
    query = "SELECT id FROM runs JOIN results ON run = id WHERE state = 'succeeded'"
    with contextlib.closing(sqlite3.connect(file)) as db:
        try:
            words = db.execute("PRAGMA integrity_check").fetchone()[0]
            if words == "ok":
                return {row[0] for row in db.execute(query)}
        except sqlite3.Error as error:
            words = str(error)
    print(f"{file.parent.name}: {words}, {file.stat().st_size} bytes", flush=True)
    return set()


def bare(asked: Asked, figures: Figures, place: Path) -> None:
    """Processes that only store, and a change every moment."""
    trial = Trial(place, asked.seed)
    trial.start(asked.writers, asked.by)
    kinds = (
        trial.moved,
        trial.swapped,
        trial.replaced,
        trial.copied,
        trial.swapped,
        trial.restored,
        trial.removed,
    )
    done = 0
    while done < asked.rounds:
        trial.wait()
        if (trial.data / FILE_NAME).exists():
            with contextlib.suppress(FileNotFoundError):
                kinds[done % len(kinds)]()
                done += 1
    trial.stop()
    stored, lost, mixed = trial.check()
    said = f"of {stored} in {done} changes, {len(trial.deleted)} of them deletions, by {asked.by}"
    figures.add("results lost, of bare processes", lost, said, most=0)
    figures.add("results in another folder", mixed, said, most=0)


def run_command(folder: Path) -> Callable[[], tuple[int, str | None, str]]:
    """Start `run` on the command line; a function that waits for its code, run and words."""
    process = subprocess.Popen(
        [sys.executable, "-m", "spmd_core", "run", "-", "--json"],
        cwd=ROOT,
        env=os.environ | {"SPMD_LAB_DATA": str(folder), "SPMD_LAB_WRITE_S": "2"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    process.stdin.write(json.dumps(spec(QUICK)))
    process.stdin.close()
    process.stdin = None

    def ended() -> tuple[int, str | None, str]:
        out, words = process.communicate(timeout=600)
        with contextlib.suppress(ValueError):
            return process.returncode, json.loads(out)["run"], words
        return process.returncode, None, words

    return ended


def with_dashboard(asked: Asked, figures: Figures, place: Path) -> None:
    """A dashboard works the queue of a folder that is changed under it and two command lines."""
    os.environ |= {"PYTHONPATH": f"{STANDIN}{os.pathsep}{ROOT}", "SPMD_LAB_EXAMPLES": "off"}
    trial, server = Trial(place, asked.seed), Server(place)
    server.start()
    kinds = (trial.moved, trial.swapped, trial.replaced, trial.copied, trial.restored)
    finished, silent = set[str](), 0
    for number in range(asked.dashboard):
        commands = [run_command(trial.data)]
        trial.wait(4.0)
        home = identity(trial.data) if (trial.data / FILE_NAME).exists() else None
        with contextlib.suppress(FileNotFoundError):
            kinds[number % len(kinds)]()
        commands.append(run_command(trial.data))
        for code, run, words in (ended() for ended in commands):
            if code == 0 and run:
                finished.add(run)
            elif "Traceback" in words or not words.strip():
                silent += 1
                print(words, flush=True)
        for folder in place.glob("*/"):
            is_home = (folder / FILE_NAME).exists() and identity(folder) == home
            if is_home and folder != trial.data:
                trial.put(folder)
    server.stop()
    every = [run for file in place.glob(f"*/{FILE_NAME}") for run in runs_of(file)]
    said = f"of {len(finished)} in {asked.dashboard} changes"
    figures.add("command lines' results lost", len(finished - set(every)), said, most=0)
    figures.add("command lines that ended without a sentence", silent, most=0)
    figures.add("tracebacks of the dashboard", server.log.count("Traceback"), most=0)


def main(options: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="spmd-lab-moved-") as name:
        for part in [bare] * bool(options.rounds) + [with_dashboard] * bool(options.dashboard):
            place = Path(name) / part.__name__
            place.mkdir()
            part(options, figures, place)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        rounds=(200, "changes under bare processes"),
        dashboard=(20, "changes under a dashboard and command lines"),
        writers=3,
        by={"choices": WAYS, "default": WAYS[0]},
        seed=7,
    )
