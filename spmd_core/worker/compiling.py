"""Compiles for absent TPUs in a child process of its own: a compiler that crashes, hangs or swells costs one request."""

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spmd_core.cost.predicting import Answer
from spmd_core.errors import WorkerError
from spmd_core.machine.hardware import Hardware
from spmd_core.worker.environment import worker_environment

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 2400.0
GRACE_S = 3.0
_TAIL_CHARACTERS = 1500
Report = Callable[[float], bool]  # told the seconds elapsed, answers whether to go on


def compile_in_child(request: Mapping[str, Any], target: str, flags: Mapping[str, str], hardware: Hardware, report: Report | None = None,
                     timeout_s: float = TIMEOUT_S) -> Answer:
    """Compile a request. WorkerError where the process crashed, was cancelled or took too long; the compiler's refusals are in the answer."""
    environ = worker_environment(target, hardware, os.environ, flags)
    environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spmd-compile-") as name, tempfile.TemporaryFile() as errors:
        folder = Path(name)
        child = subprocess.Popen([sys.executable, "-m", "spmd_core.engine.compile_child", name], cwd=ROOT, env=environ, stdin=subprocess.PIPE,
                                 stdout=errors, stderr=errors, start_new_session=True)
        try:
            assert child.stdin is not None
            with contextlib.suppress(BrokenPipeError), child.stdin:
                child.stdin.write(json.dumps(request).encode())
            _wait(child, started, timeout_s, report)
        finally:
            _end(child)
        if not (folder / "done.json").exists():
            raise WorkerError(f"the compiler crashed ({_status(child.returncode)}): {_tail(errors)}")
        return _answer(folder, time.monotonic() - started)


def _wait(child: subprocess.Popen[bytes], started: float, timeout_s: float, report: Report | None) -> None:
    while child.poll() is None:
        elapsed = time.monotonic() - started
        if elapsed > timeout_s:
            raise WorkerError(f"the compile took longer than {timeout_s:g} s and was ended: allow it more time, or make the program smaller")
        if report is not None and not report(elapsed):
            raise WorkerError(f"the compile was cancelled after {elapsed:.0f} s")
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.25)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child's process group, gently first."""
    if child.poll() is None:
        for number, grace in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(grace)
                return


def _status(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _tail(errors: Any) -> str:
    errors.seek(0)
    words = errors.read().decode("utf-8", "replace").strip()
    return " ".join(words[-_TAIL_CHARACTERS:].split()) or "it left no words"


def _answer(folder: Path, elapsed_s: float) -> Answer:
    done = json.loads((folder / "done.json").read_text())
    if "error" in done:
        return Answer(error_kind=done["error"]["kind"], error=done["error"]["message"], facts={"elapsed_s": elapsed_s})
    with gzip.open(folder / "module.txt.gz", "rt") as file:
        text = file.read()
    facts = {name: done[name] for name in ("lower_s", "compile_s", "peak_rss_bytes", "versions")} | {"elapsed_s": elapsed_s}
    return Answer(text, done["memory"], tuple(tuple(place) for place in done["devices"]), done["asked"], facts)
