"""Compiles a program until the compiler has scheduled it and placed its buffers.

What follows is code generation, which takes most of a compile and which no prediction needs.
"""

import re
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from spmd_core.engine.codeless import own_buffers
from spmd_core.engine.lower import compile_with
from spmd_core.engine.shardings import PASSES
from spmd_core.machine import size_bytes

Until = Callable[[Any], AbstractContextManager[None]]
LOOK_S = 0.1  # how often the folder is looked at
MOST_BYTES = 2**30  # of a folder: a larger one is emptied, and the compile goes on to its end
# files that the compiler writes one after the other; of passes only those that mark a stage
STAGES = f"tpu-spmd-partitioning|latency-hiding-scheduler|{PASSES}"
_STAGES = (
    ("code", "*.after_optimizations.txt"),
    ("schedule", "*latency-hiding-scheduler*"),
    ("optimize", "*after_tpu-spmd-partitioning*"),
    ("partition", "*"),
)
_TEXT = "*.after_optimizations.txt"
_BUFFERS = "*.after_optimizations-buffer-assignment.txt"
_LAST = "*.after_optimizations_after_buffer_assignment.txt"  # not written where memory ran out
_ALLOCATION = re.compile(r"^allocation \d+: size (\d+)(.*)$", re.MULTILINE)
_UNKNOWN = re.compile(r"No such compile option: '(\w+)'")
_COLOR = re.compile(r"color (\d+)")
_HBM, _HOST = 0, (4, 5)  # colors of the compiler's memory spaces


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A scheduled program: its text, and the compiler's account of memory in bytes, by the names
    of its analysis without `_size_in_bytes`.
    """

    text: str
    memory: Mapping[str, int]


class _Compile(threading.Thread):
    """A compile in a thread of its own."""

    def __init__(
        self,
        lowered: Any,
        folder: Path,
        flags: Mapping[str, object],
        until: AbstractContextManager[None],
    ):
        super().__init__(name="compile", daemon=True)
        self.compiled: Any = None
        self.error: BaseException | None = None
        self._lowered, self._folder, self._flags, self._until = lowered, folder, flags, until

    def run(self) -> None:
        """Compile; what is raised is kept for who waits."""
        options = {
            "xla_dump_to": str(self._folder),
            "xla_dump_hlo_as_text": True,
            "xla_dump_hlo_pass_re": STAGES,
            **self._flags,
        }
        try:
            with self._until:
                self.compiled = compile_with(self._lowered, options)
        except BaseException as error:  # whatever it is, the caller of the compile gets it
            self.error = error


def compile_early(
    lowered: Any,
    folder: Path,
    report: Callable[[str], None],
    flags: Mapping[str, object] | None = None,
    until: Until = nullcontext,
) -> Any:
    """`Scheduled` where the compile ends `until` then; else the compiled program. What the compiler
    raises is raised.

    `report` gets the stage: partition, optimize, schedule, code. `flags` are the compiler's,
    beside those that it was loaded with. `until` gives the context of the compile.
    """
    compiling = _Compile(lowered, folder, flags or {}, until(lowered))
    stage, is_bounded = "", True
    compiling.start()
    while compiling.is_alive():
        compiling.join(LOOK_S)
        if is_bounded and size_bytes(folder) > MOST_BYTES:
            is_bounded = False
        if not is_bounded:
            for file in folder.glob("*.txt"):
                file.unlink(missing_ok=True)
        elif (now := stage_of(folder)) != stage:
            stage = now
            report(stage)
    if compiling.error is not None:
        raise compiling.error
    if (
        compiling.compiled is None
    ):  # without code: what the folder holds, or, where that was too much,
        return scheduled(folder) or compile_with(lowered, dict(flags or {}))
    return compiling.compiled


def compile_known(
    lowered: Any,
    folder: Path,
    report: Callable[[str], None],
    flags: Mapping[str, object],
    optional: Collection[str],
    until: Until = nullcontext,
) -> tuple[Any, tuple[str, ...]]:
    """As `compile_early`, without those of the `optional` flags that this version of the compiler
    does not have; they are named in sentences.
    """
    unknown = dict[str, str]()
    while True:
        known = {name: value for name, value in flags.items() if name not in unknown}
        try:
            return compile_early(lowered, folder, report, known, until), tuple(unknown.values())
        except jax.errors.JaxRuntimeError as error:
            name = match[1] if (match := _UNKNOWN.search(str(error))) else ""
            if name not in known or name not in optional:
                raise
            unknown[name] = f"this version of XLA has no flag {name}: compiled without it"


def stage_of(folder: Path) -> str:
    """How far the compiler is, by the files that it has written."""
    return next((stage for stage, files in _STAGES if any(folder.glob(files))), "partition")


def scheduled(folder: Path) -> Scheduled | None:
    """The scheduled program, once all of it is written and its buffers have a place in memory."""
    texts, buffers = sorted(folder.glob(_TEXT)), sorted(folder.glob(_BUFFERS))
    if not texts or not buffers or not any(folder.glob(_LAST)):
        return None
    text = texts[-1].read_text()
    return Scheduled(text, memory_account(own_buffers(text, buffers[-1].read_text())))


def memory_account(text: str) -> dict[str, int]:
    """Bytes of arguments, results and temporaries, by the compiler's assignment of buffers.

    `temp` is the heap that the temporaries share, gaps between them included.
    """
    account: dict[str, int] = {"argument": 0, "output": 0, "alias": 0, "temp": 0, "host_temp": 0}
    for match in _ALLOCATION.finditer(text):
        nbytes, what = int(match[1]), match[2]
        color = _COLOR.search(what)
        place = int(color[1]) if color else _HBM
        given, left = "parameter" in what, "maybe-live-out" in what
        if place in _HOST:
            account["host_temp"] += nbytes
        if place != _HBM or "thread-local" in what:
            continue
        account["argument"] += nbytes * given
        account["output"] += nbytes * left
        account["alias"] += nbytes * (given and left)
        account["temp"] += nbytes * ("preallocated-temp" in what)
    account["peak_memory"] = (
        account["argument"] + account["output"] - account["alias"] + account["temp"]
    )
    return account
