"""A short-lived process of our own that answers on a file descriptor, with limits of time and
memory; and the line that names why a process aborted.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from spmd_core.base.errors import LabError
from spmd_core.base.imports import imported

# glog's prefix of a fatal line, e.g. `F1121 17:15:50.123456  42 rendezvous.cc:12] Check failed: …`
_FATAL = re.compile(r"^F\d{4} (?:[\d:.]+ +\d+ )?(?:[^\]\s]+:\d+\] )?|^F(?=\d{4}\b)")
_CHECK = re.compile(
    r"check fail|LLVM ERROR|terminate called|what\(\):|assertion .{0,200}fail"
    r"|^[\w.]*Error: |rendezvous",
    re.IGNORECASE,
)
# first lines of dumps of faulthandler, glog and the kernel, which do not name the cause
_DUMP = re.compile(
    r"^(Fatal Python error|\*\*\* |Current thread|Thread 0x|Extension modules:"
    r"|  File \"|\s*@ +0x|PC: @|<no Python frame>|#\d+ )"
)
# what libtpu writes wherever it is loaded without its chips, and as it ends
_LOADING = re.compile(
    r"^(WARNING: Logging before |Failed to find host bounds|[IWE]\d{4} .* common_lib\.cc:"
    r"|=== Source Location Trace|[\w./-]+\.cc:\d+$"
    r"|https://symbolize|[IWE]\d{4} .*\] RAW: )"
)
MAX_CHARACTERS = 500
SILENT = "it said nothing"


def failing_line(text: str) -> str:
    """The line that names why a process ended: its failed check, else the last line before a dump.

    >>> failing_line("starting\\nF1121 17:15:50.1 42 a.cc:7] Check failed: x\\nFatal Python error: Aborted")
    'Check failed: x'
    """
    written = [line.rstrip() for line in text.splitlines() if line.strip()]
    lines = [line for line in written if not _LOADING.match(line)]
    kept = [line for line in lines if not _DUMP.match(line)]
    for is_cause in (_FATAL.match, _CHECK.search):
        if cause := next((line for line in kept if is_cause(line)), None):
            words = _FATAL.sub("", cause).strip() or cause
            return words[:MAX_CHARACTERS]
    if not kept:
        return lines[0].strip()[:MAX_CHARACTERS] if lines else SILENT
    return (_before_dump(lines) or kept[-1]).strip()[:MAX_CHARACTERS]


def _before_dump(lines: list[str]) -> str | None:
    """The last line before the first line of a dump; None where there is no dump."""
    dumped = (place for place, line in enumerate(lines) if _DUMP.match(line) and line[0] != " ")
    at = next(dumped, None)  # frames alone are those of an exception, which its last line names
    return lines[at - 1] if at else None


ROOT = Path(__file__).resolve().parents[2]
TAIL_BYTES = 2**16  # of what it printed that is read: dumps of threads follow the cause
MOST_OUTPUT_BYTES = 64 * 2**20  # that it may print, or answer, which the server then holds
LOOK_S = 0.02  # between two looks at what it has taken
# seconds of the clock for each second of a core: a child that waits, on a machine with other work
CLOCK_TIMES = 6
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ChildAnswer:
    """What a child wrote to its descriptor, how it ended, and the tail of its standard error."""

    text: str
    status: int
    errors: str
    stopped: str = ""  # "time", "memory" or "output": the limit that ended it

    @property
    def ending(self) -> str:
        """How the process ended, to follow `the process … ended`."""
        name = signal.Signals(-self.status).name if self.status < 0 else ""
        how = f"with {name}" if name else f"with exit status {self.status}"
        return f"{how} ({failing_line(self.errors)})" if self.errors.strip() else how


class AnsweringChild:
    """A process `python -P -m MODULE FD ARGUMENTS…`. It writes its answer to the descriptor, and may be
    started before it is asked: its question is what it reads from standard input.
    """

    def __init__(self, module: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it. `environ` is its full environment, to which this project's path is added."""
        path = os.pathsep.join(part for part in (str(ROOT), environ.get("PYTHONPATH", "")) if part)
        self._open = contextlib.ExitStack()
        temporary = tempfile.TemporaryFile
        self._answer = self._open.enter_context(temporary())
        self._errors = self._open.enter_context(temporary())
        number = self._answer.fileno()
        self._process = subprocess.Popen(
            # -P: modules beside a file of the user's are not imported
            [sys.executable, "-P", "-m", module, str(number), *arguments],
            cwd=ROOT,
            env={**environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=self._errors,
            stderr=self._errors,
            pass_fds=(number,),
            start_new_session=True,
        )
        self._open.enter_context(self._process)
        self._open.callback(self._kill)
        self._started = time.monotonic()

    @property
    def is_there(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def age_s(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._started

    def ask(self, question: bytes, seconds: float, most_bytes: int | None) -> ChildAnswer:
        """Wait for its answer and its end. `seconds` of a core end it, and CLOCK_TIMES as many of the
        clock; `most_bytes` bounds its resident memory (a limit of address space breaks XLA), and
        MOST_OUTPUT_BYTES what it prints, or answers.
        """
        assert self._process.stdin is not None
        with self._open:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as asked:
                asked.write(question)  # small enough for a pipe; broken: it has ended
            stopped = self._watch(seconds, most_bytes)
            self._kill()
            status = self._process.wait()
            if self._has_too_much_output():  # a limit may be passed between two looks
                stopped = stopped or "output"
            answer = "" if stopped else _tail(self._answer, MOST_OUTPUT_BYTES)
            return ChildAnswer(answer, status, _tail(self._errors, TAIL_BYTES), stopped)

    def end(self) -> None:
        """End it, and let go of what it wrote."""
        self._open.close()

    def _watch(self, seconds: float, most_bytes: int | None) -> str:
        until, child = time.monotonic() + CLOCK_TIMES * seconds, self._process
        while time.monotonic() < until and core_s(child.pid) < seconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(LOOK_S)
                return ""
            if most_bytes and resident_bytes(child.pid) > most_bytes:
                return "memory"
            if self._has_too_much_output():
                return "output"
        return "time"

    def _has_too_much_output(self) -> bool:
        files = (self._answer, self._errors)
        return max(os.fstat(file.fileno()).st_size for file in files) > MOST_OUTPUT_BYTES

    def _kill(self) -> None:
        if self.is_there:
            os.killpg(self._process.pid, signal.SIGKILL)


def ask_child(
    module: str,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    seconds: float,
    most_bytes: int | None = None,
) -> ChildAnswer:
    """Start a child and wait for its answer; its standard input is empty."""
    return AnsweringChild(module, arguments, environ).ask(b"", seconds, most_bytes)


def _tail(file: IO[bytes], most_bytes: int) -> str:
    start = max(0, os.fstat(file.fileno()).st_size - most_bytes)
    return os.pread(file.fileno(), most_bytes, start).decode(errors="replace")


def core_s(pid: int) -> float:
    """Seconds of a core that a process and the children it waited for have used; 0 where the system
    does not report it, or it is gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_A_SECOND


def resident_bytes(pid: int) -> int:
    """Bytes of memory that a process holds; 0 where the system does not report it, or it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


WAIT_S = 900.0  # that a child waits for its question before it ends by itself
_SURE_S = 30.0  # before that it is used no more
_SEPARATOR = "\0"


class Spare:
    """At most one child that is ready. Each is asked once: what a question does to it cannot reach
    the next. The children `answer` with `waits`.
    """

    def __init__(self, module: str, environ: Mapping[str, str]) -> None:
        self._module, self._environ = module, environ
        self._child: AnsweringChild | None = None
        self._guard = threading.Lock()

    def prepare(self) -> None:
        """Start one where none is ready. It ends once it waited WAIT_S, or with this process."""
        with self._guard:
            self._child = self._taken() or AnsweringChild(self._module, (), self._environ)

    def ask(self, question: tuple[str, ...], seconds: float, most_bytes: int) -> ChildAnswer:
        """The answer of the one that is ready, else of a new one; limits as of `AnsweringChild.ask`."""
        with self._guard:
            child = self._taken()
        child = child or AnsweringChild(self._module, (), self._environ)
        return child.ask(_SEPARATOR.join(question).encode(), seconds, most_bytes)

    def _taken(self) -> AnsweringChild | None:
        """The one that is ready, which is not kept any more."""
        child, self._child = self._child, None
        if child is None or (child.is_there and child.age_s < WAIT_S - _SURE_S):
            return child
        child.end()
        return None


def answer(made: Callable[..., str], waits: bool = False, limit_s: float | None = None) -> NoReturn:
    """In the child: write what is made (of the question, if it `waits` for one) to the descriptor, or
    `!` and why nothing is; and end, even if threads were started. `limit_s`: the seconds of a core
    that its parent grants.
    """
    if limit_s:  # ends this process, even inside native code, if its parent is gone
        signal.alarm(int(2 * CLOCK_TIMES * limit_s))
    imported()
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    try:
        text = made(*(asked() if waits else ()))
    except LabError as error:
        text = f"!{error}"
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def asked() -> list[str]:
    """In the child: the question, once there is one. The process ends where none comes."""
    if not select.select([sys.stdin], [], [], WAIT_S)[0] or not (text := sys.stdin.read()):
        os._exit(0)
    return text.split(_SEPARATOR)
