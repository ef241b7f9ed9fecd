"""Everything that must hold before a change goes in: `python -m tests.check`; with `--fast`, what needs no process and no device."""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests import needs

ROOT = Path(__file__).resolve().parents[1]
# Tests of values, texts and screens, in the process that runs them.
FAST = tuple(f"tests/{room}" for room in (
    "communication", "cost", "experiment", "hlo", "house/test_layers.py", "house/test_units.py", "ir", "machine", "plan", "reference", "results",
    "runs", "store", "sweep", "ui", "words"))
# What also runs on the newer Python and JAX: what JAX has a part in. No pages and browsers, and none of what is about processes alone.
ONCE = ("ui", "browser", "house", "commands", "lab", "worker", "workloads", "words", "plan", "cost", "store", "sweep", "script/test_absent.py")
CORE = tuple(f"--ignore=tests/{name}" for name in ONCE)
# A group of tests (tests/conftest.py) stays in one process, and shares what is slow to start. The groups that take longest come first.
GROUPS = ("--dist", "loadgroup", "--no-loadscope-reorder")


def quick_commands() -> Iterator[tuple[str, ...]]:
    """What reads the source; the import rules are tests/house/test_layers.py."""
    yield (sys.executable, "-m", "ruff", "check")
    yield (sys.executable, "-m", "pyright", "--pythonpath", sys.executable)


def test_commands(newer: str | None) -> Iterator[tuple[str, ...]]:
    """The tests, and those in which JAX has a part once more on a newer Python: a browser mostly waits, so three run beside it."""
    yield (sys.executable, "-m", "pytest", "-n", "3", *GROUPS)
    if newer:
        yield (newer, "-m", "pytest", "-n", "2", *GROUPS, *CORE)


def passes(command: tuple[str, ...]) -> bool:
    """Run a command, and say which it is and how long it took."""
    print(f"+ {words(command)}", flush=True)
    start = time.monotonic()
    status = subprocess.run(command, cwd=ROOT).returncode
    print(f"  {time.monotonic() - start:.0f} s", flush=True)
    return status == 0


def words(command: tuple[str, ...]) -> str:
    """A command as it is typed in the folder of the project."""
    return shlex.join(os.path.relpath(word) if word.startswith("/") else word for word in command)


def main() -> int:
    """Run them all; 1 where any fails, or where something is missing that this process may not install."""
    ask = argparse.ArgumentParser(prog="python -m tests.check", description=__doc__)
    ask.add_argument("--fast", action="store_true", help="ruff, pyright, the import rules and the tests that start no process")
    if ask.parse_args().fast:
        commands = [*quick_commands(), (sys.executable, "-m", "pytest", "-n", "2", *GROUPS, *FAST)]
        failed = [command for command in commands if not passes(command)]
    else:
        if missing := needs.browser():
            print(missing, file=sys.stderr)
            return 1
        with needs.NewerPython() as newer:  # which installs while these run
            failed = [command for command in quick_commands() if not passes(command)]
            failed += [command for command in test_commands(newer.ready()) if not passes(command)]
    for command in failed:
        print(f"FAILED: {words(command)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
