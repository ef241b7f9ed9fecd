"""Everything that must hold before a change goes in: `python -m tests.check`; with `--fast`, what
needs no process and no device.
"""

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from tests import needs

ROOT = Path(__file__).resolve().parents[1]
# Tests of values, texts and screens, in the process that runs them; without those that run a program
# or import what takes seconds.
FAST = (
    *(
        f"tests/{room}"
        for room in (
            "program/communication",
            "time/cost",
            "experiment",
            "program/hlo",
            "house/test_layers.py",
            "program/ir",
            "machine",
            "results",
            "lab/store",
            "search/sweep",
            "pictures/timeline",
            "ui",
            "words",
        )
    ),
    *(
        f"--ignore=tests/{name}.py"
        for name in (
            "experiment/test_layout",
            "machine/test_mesh_order",
            "results/test_stats",
            "ui/ir/test_viewer",
            "ui/predict/test_sweep",
            "ui/test_course",
            "ui/test_hostile_links",
            "ui/test_live",
            "ui/test_remedies",
            "ui/test_screens",
            "ui/test_search",
        )
    ),
)
# What also runs on the newer Python and JAX: programs that JAX traces, compiles and runs, and the
# texts that are read of them. What is a value is the same there, and so are the judgements of values,
# what becomes of a compiler, and what is cancelled; the longest recipes compute what others do.
NEWER = (
    *(
        f"tests/{room}"
        for room in (
            "recipes/test_recipes.py",
            "engine",
            "program/communication",
            "program/hlo",
            "machine/test_mesh_order.py",
            "experiment/test_layout.py",
        )
    ),
    *(
        f"--ignore=tests/engine/{name}.py"
        for name in (
            "absent/test_early",
            "absent/test_remat",
            "measured/test_attached",
            "measured/test_check",
            "measured/test_rounding_noise",
            "measured/test_study",
            "measured/test_timing",
            "test_decoder_attention",
            "test_stderr",
        )
    ),
    "-k",
    "not (ten_million_rows or two_processes or numpy_against_jit or crash_it or long_compile"
    " or missing_libtpu or several_topologies or small_topology or study_over or same_program"
    " or two_layers or falls_alike or cancel or progress or dispatch_bound or environment_is or that_hides"
    " or cache)",
)
# A group of tests (tests/conftest.py) stays in one process, and shares what is slow to start. The
# groups that take longest come first.
GROUPS = ("--dist", "loadscope", "--no-loadscope-reorder")
PROCESSES = "2"  # with a newer Python's beside them they keep two cores busy
RUFF = (sys.executable, "-m", "ruff", "check")
PYRIGHT = (sys.executable, "-m", "pyright", "--pythonpath", sys.executable)
PYTEST = ("-m", "pytest", "--durations", "40", *GROUPS)  # the time of all of them is limited


def passes(*commands: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Run commands side by side, each told with its output and seconds as one piece; those that
    failed.

    The first writes to the terminal as it runs.
    """
    first, *others = commands
    print(f"+ {words(first)}", flush=True)
    failed, start = [], time.monotonic()
    with contextlib.ExitStack() as stack:
        running = [(command, _started(command, stack), time.monotonic()) for command in others]
        if subprocess.run(first, cwd=ROOT).returncode:
            failed.append(first)
        print(f"  {time.monotonic() - start:.0f} s", flush=True)
        for command, (process, output), begun in running:
            print(f"+ {words(command)}", flush=True)
            if process.wait():
                failed.append(command)
            output.seek(0)
            print(output.read(), end="")
            print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    return failed


def _started(
    command: tuple[str, ...], stack: contextlib.ExitStack
) -> tuple[subprocess.Popen[str], IO[str]]:
    """A command that writes into a file meanwhile; it is ended where this process is left early."""
    output = stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))  # noqa: SIM115
    process = stack.enter_context(
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, text=True
        )
    )
    stack.callback(lambda: process.poll() is None and process.terminate())
    return process, output


def fast() -> list[tuple[str, ...]]:
    """What needs no process of the Lab, no device and no browser; those that failed."""
    return [*passes(RUFF), *passes((sys.executable, *PYTEST, "-n", "2", *FAST), PYRIGHT)]


def everything() -> list[tuple[str, ...]]:
    """All tests, and beside them those in which JAX has a part once more on a newer Python; those
    that failed.
    """
    another = needs.make_newer_python()
    if another is None:
        print(
            f"{needs.VARIABLE} names no newer Python: the tests run on this one alone", flush=True
        )
    else:
        os.environ[needs.VARIABLE] = another  # some tests read a text of its JAX
    again = [(another, *PYTEST, "-n", "1", *NEWER)] if another else []
    # one process after the other would leave a core idle
    return [*passes(RUFF), *passes((sys.executable, *PYTEST, "-n", PROCESSES), *again, PYRIGHT)]


def words(command: tuple[str, ...]) -> str:
    """A command as it is typed in the folder of the project."""
    return shlex.join(os.path.relpath(word) if word.startswith("/") else word for word in command)


def main() -> int:
    """Run them all; 1 where any fails, or where something is missing that this process may not
    install.
    """
    ask = argparse.ArgumentParser(prog="python -m tests.check", description=__doc__)
    ask.add_argument(
        "--fast",
        action="store_true",
        help="ruff, pyright, the import rules and the tests that start no process",
    )
    # Two hundred processes import the same modules: each is compiled once.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if ask.parse_args().fast:
        failed = fast()
    elif missing := needs.browser():
        print(missing, file=sys.stderr)
        return 1
    else:
        failed = everything()
    for command in failed:
        print(f"FAILED: {words(command)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
