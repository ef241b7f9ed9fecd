"""Kills (-9) of worker, command line and server, and freezes: nothing finished lost, nothing stuck,
no orphan.

Runs use the stand-in engine of the tests: what is tried is the queue, the store and the processes.
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
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Asked, Figures, measure
from spmd_core.base import Settings, seconds_text
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.runs import RunStatus

ROOT = Path(__file__).resolve().parents[1]
STANDIN = ROOT / "tests" / "standin"
QUICK, ROUNDS = 0, 5  # behaviours of the stand-in engine, by the seed
ORPHAN_S = 5.0  # a worker whose parent was killed may live so long
STUCK_S = 120.0
SERVE = """
import sys
from bench.kills import SETTINGS
from spmd_core.lab import Lab
Lab.open(settings=SETTINGS)
print("ready", flush=True)
sys.stdin.read()
"""
SETTINGS = Settings(
    run_timeout_s=60,
    idle_s=60,
    cancel_grace_s=1,
    terminate_grace_s=1,
    ping_s=2,
    lock_retry_s=0.2,
    poll_s=0.1,
    note_s=0.2,
)


def spec(seed: int, is_absent: bool = False) -> dict[str, object]:
    """A small experiment, to be timed here or compiled for an absent topology; the seed is how the
    stand-in engine behaves.
    """
    return {
        "workload": "elementwise",
        "target": "tpu:v5e:2x4" if is_absent else "cpu:8",
        "mesh": {"x": 8},
        "seed": seed,
        "strategies": ["single"],
        "dims": {"rows": 16, "cols": 8},
        "sharding": {"rows": "x"},
    }


class Trial:
    """One data folder on which processes are killed, and what went wrong there."""

    def __init__(self, folder: Path, seed: int):
        self.folder, self.dice = folder, random.Random(seed)
        self.lost = self.stuck = self.orphans = 0
        self.finished: set[str] = set()
        self.slowest_s = 0.0
        self.environ = os.environ | {
            "SPMD_LAB_DATA": str(folder),
            "SPMD_LAB_TARGET": "cpu:8",
            "PYTHONPATH": f"{STANDIN}{os.pathsep}{ROOT}",
            "STANDIN_LONG": "500",
        }  # rounds: a run that is not hit ends after ten seconds
        os.environ |= {
            name: self.environ[name] for name in ("SPMD_LAB_DATA", "PYTHONPATH", "STANDIN_LONG")
        }
        self.lab = Lab.open(folder, serve=False, settings=SETTINGS)

    @contextlib.contextmanager
    def server(self) -> Iterator[subprocess.Popen[str]]:
        """A process that works the queue as the dashboard does."""
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            cwd=ROOT,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout and process.stdin
        process.stdout.readline()
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def wait(self, run: str) -> RunStatus | None:
        """Wait for a run; None, counted as stuck, where it does not end."""
        status = self.lab.wait(run, STUCK_S)
        if not status.is_over:
            self.count_stuck(
                f"{run} is {status.state}, waits for {status.waiting_for}, "
                f"{len(self.lab.active())} not over, holder {self.lab.queue_holder}"
            )
            self.lab.cancel(run)
            return None
        if status.state == "succeeded":
            self.finished.add(run)
        return status

    def at_work(self, run: str) -> RunStatus | None:
        """Wait until a run is at work, and a moment of chance longer; None where it is over."""
        deadline = time.monotonic() + STUCK_S
        while time.monotonic() < deadline:
            status = self.lab.status(run)
            if status.is_over:
                return None
            if status.worker_pid and status.state == "running":
                time.sleep(self.dice.random() * 0.3)
                return status
            time.sleep(0.01)
        self.count_stuck(f"{run} was not begun in {STUCK_S:.0f} s")
        return None

    def count_stuck(self, what: str) -> None:
        """Count, and say what it was."""
        self.stuck += 1
        print(f"stuck: {what}", flush=True)

    def no_orphan(self, pid: int | None) -> None:
        """Count a worker that lives on after its parent."""
        began = time.monotonic()
        while pid and is_running(pid) and time.monotonic() - began < ORPHAN_S:
            time.sleep(0.02)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.orphans += bool(pid and is_running(pid))

    def count_lost(self) -> None:
        """Finished runs whose result is not there any more."""
        self.lost += sum(self.lab._store.result(run) is None for run in self.finished)

    def kill_worker(self) -> None:
        """Kill a worker in the middle of a run, or idle; a compile beside it, paused or not, or the
        run that it is paused for, ends as if nothing had been.
        """
        is_compile, has_other = self.dice.random() < 0.5, self.dice.random() < 0.5
        behaviour = self.dice.choice((QUICK, ROUNDS))
        run = self.lab.submit(parse_experiment(spec(behaviour, is_compile)))
        other = None
        if has_other:
            other = self.lab.submit(parse_experiment(spec(QUICK, not is_compile)))
        status = self.at_work(run)
        idle = self.lab.compiler_pid if is_compile else self.lab.worker_pid
        if pid := status.worker_pid if status else idle:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait(run)
        if other and (ended := self.wait(other)):
            self.lost += ended.state != "succeeded"

    def kill_server(self) -> None:
        """Kill the process that works the queue, while a run is at work and at times a compile is
        paused for it.
        """
        with self.server() as process:
            runs = [f"s{time.time_ns()}"]
            if self.dice.random() < 0.5:
                runs.insert(0, f"c{time.time_ns()}")
                self.lab._store.submit(runs[0], parse_experiment(spec(ROUNDS, is_absent=True)))
                self.at_work(runs[0])
            self.lab._store.submit(runs[-1], parse_experiment(spec(ROUNDS)))
            self.at_work(runs[-1])
            pids = [self.lab.status(name).worker_pid for name in runs]
            process.kill()
            process.wait()
            for name, pid in zip(runs, pids, strict=True):
                self.no_orphan(pid)
                if pid and not (seen := self.lab.status(name)).is_over:
                    self.count_stuck(f"{name} is {seen.state} after its server was killed")
        self.wait(self.lab.submit(parse_experiment(spec(QUICK))))

    def kill_command(self) -> None:
        """Kill `run` on the command line; its worker must go with it."""
        command = subprocess.Popen(
            [sys.executable, "-m", "spmd_core", "run", "-"],
            cwd=ROOT,
            env=self.environ,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert command.stdin
        command.stdin.write(json.dumps(spec(ROUNDS)))
        command.stdin.close()
        time.sleep(self.dice.random() * 3)
        in_progress = [status for status in self.lab.active() if status.worker_pid]
        command.kill()
        command.wait()
        for status in in_progress:
            self.no_orphan(status.worker_pid)
        for status in self.lab.active():  # what it had queued would be run in full before the next
            self.lab.cancel(status.run)
        self.wait(self.lab.submit(parse_experiment(spec(QUICK))))

    def freeze(self) -> None:
        """Stop an idle worker, or the server for a while: the next run is not held up by it."""
        if self.dice.random() < 0.5:
            self.wait(self.lab.submit(parse_experiment(spec(QUICK))))
            pid = self.lab.worker_pid
            if pid:
                os.kill(pid, signal.SIGSTOP)
            status = self.wait(self.lab.submit(parse_experiment(spec(QUICK))))
            self.lost += status is None or status.state != "succeeded"
            self.no_orphan(pid)
            return
        with self.server() as process:
            run = self.lab.submit(parse_experiment(spec(ROUNDS)))
            self.at_work(run)
            process.send_signal(signal.SIGSTOP)
            time.sleep(self.dice.random())
            process.send_signal(signal.SIGCONT)
            self.lab.cancel(run)
            self.wait(run)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def main(options: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory(prefix="spmd-lab-kills-") as name:
        trial = Trial(Path(name) / "data", options.seed)
        kinds = (trial.kill_worker, trial.kill_server, trial.kill_command)
        for number in range(options.kills):
            kinds[number % len(kinds)]()
        for _ in range(options.freezes):
            trial.freeze()
        trial.count_lost()
        said = f"of {options.kills} kills, {options.freezes} freezes"
        figures.add("finished runs lost", trial.lost, f"of {len(trial.finished)}", most=0)
        figures.add("stuck", trial.stuck, said, most=0)
        figures.add(
            f"orphans after {ORPHAN_S:.0f} s",
            trial.orphans,
            said,
            most=0,
            note=f"the last was gone after {seconds_text(trial.slowest_s)}",
        )
        trial.lab.close()


if __name__ == "__main__":
    measure(main, __doc__, kills=(300, "a third each: worker, server, command"), freezes=20, seed=5)
