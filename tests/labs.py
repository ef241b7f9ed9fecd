"""Labs to test with: opened on a folder, closed at the end, and the processes around them."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spmd_core.base import Settings
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.lab import Lab
from spmd_core.lab.supervisor.partitioning import Partitioning

ROOT = Path(__file__).resolve().parents[1]
STANDIN = ROOT / "tests" / "standin"
PATIENCE_S = 120.0  # what takes a second takes thirty where others use the cores
HASTY = Settings(
    run_timeout_s=PATIENCE_S,
    idle_s=60,
    cancel_grace_s=0.4,
    terminate_grace_s=0.4,
    lock_retry_s=0.2,
    poll_s=0.05,
    note_s=0.1,
    compilers=1,
)
# for what is cancelled and is to answer itself: no machine is so slow that it would be ended
# instead
PATIENT = replace(HASTY, cancel_grace_s=PATIENCE_S, terminate_grace_s=PATIENCE_S)


def experiment(behaviour: int = 0, **changes: Any) -> Experiment:
    """A small experiment; the stand-in engine takes the seed as its behaviour."""
    spec = {
        "workload": "elementwise",
        "target": "cpu:8",
        "mesh": {"x": 8},
        "dims": {"rows": 16, "cols": 8},
        "sharding": {"rows": "x"},
        "strategies": ["single"],
        "seed": behaviour,
    }
    return parse_experiment(spec | changes)


def lab_of_module(settings: Settings | None = None) -> Any:
    """A fixture: one Lab, and so one warm worker, for all tests of a file."""

    @pytest.fixture(scope="module")
    def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
        with closing(Lab.open(tmp_path_factory.mktemp("data"), settings=settings)) as lab:
            yield lab

    return lab


def until(condition: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
    """The first true value of `condition`, asked every few milliseconds, and less often later: it is
    a read of the store that the others wait for. It fails after `timeout_s`.
    """
    deadline, pause_s = time.monotonic() + timeout_s, 0.003
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail("it did not happen in time")
        time.sleep(pause_s)
        pause_s = min(1.3 * pause_s, 0.05)
    return value


def run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns, on a thread of its own: a browser of this process keeps a loop on
    the main one.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


_answer, _answers = Partitioning._answer, dict[tuple[object, ...], Any]()


def partitioned_once(process: Partitioning, question: Any) -> Any:
    """What a process that partitions answered this question, in whichever folder it was asked: in
    place of `Partitioning._answer`.
    """
    key = question.experiment.id, question.strategy, process._is_quick
    if key not in _answers:
        _answers[key] = _answer(process, question)
    return _answers[key]


def is_running(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Whether a process rests where a signal has stopped it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def start_python(program: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Another process on the same data folder; its standard output can be read line by line."""
    environ = {
        **os.environ,
        "SPMD_LAB_DATA": str(folder),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-m", "tests.called", program, *arguments]
    return subprocess.Popen(
        command, env=environ, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
