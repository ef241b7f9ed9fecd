"""What must hold before a change goes in: `python -m tests.check`; with `--fast`, what needs no
process and no device; with `--whole`, every case of the sweeps, on the newer JAX too.
"""

import argparse
import contextlib
import json
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


def marked(name: str, *but: str) -> tuple[str, ...]:
    """Arguments of pytest for the tests with one mark and without others: the modules and folders
    that have the mark, so that no other is imported.
    """
    paths = sorted(
        path.parent if path.name == "__init__.py" else path
        for path in (ROOT / "tests").rglob("*.py")
        if f"pytest.mark.{name}" in path.read_text("utf-8")
    )
    return (*map(str, paths), "-m", " and not ".join((name, *but)))


# tests wait for workers and browsers: four of them left a fifth of two cores idle
PROCESSES = "5"
RUFF = (sys.executable, "-m", "ruff", "check")
# All but those of tests/types.json, which it finds where another checker finds none
TYPES = (sys.executable, "-m", "pyrefly", "check", "--python-interpreter-path", sys.executable)
PYTEST = ("-m", "pytest", "-p", "tests.costs")  # the time of all of them is limited
CACHE = "cache_dir="  # the option of a run of pytest, where it keeps which tests failed
# Tests that may run again alone: what else passes alone has a race, which is to be found
BROWSER = "tests/browser/"
MOST_ALONE = 3  # of them; more of them share a cause


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


def pass_alone(command: tuple[str, ...]) -> bool:
    """Whether the tests that failed in a run of pytest are few, all of the browser, and pass one
    after the other, with nothing beside them. They are counted and named.
    """
    folders = [word.removeprefix(CACHE) for word in command if word.startswith(CACHE)]
    kept = [path for each in folders if (path := ROOT / each / "v/cache/lastfailed").exists()]
    names = [name for path in kept for name in json.loads(path.read_text("utf-8"))]
    others = [name for name in names if not name.startswith(BROWSER)]
    if others or not 0 < len(names) <= MOST_ALONE:
        return False
    print(f"{len(names)} browser tests again, alone: {' '.join(names)}", flush=True)
    return not subprocess.run((command[0], "-m", "pytest", "-n", "0", *names), cwd=ROOT).returncode


def fast() -> list[tuple[str, ...]]:
    """What needs no process of the Lab, no device and no browser; those that failed."""
    tests = (sys.executable, *PYTEST, "-n", "2", *marked("fast", "slow"))
    return [*passes(RUFF), *passes(tests, TYPES)]


def everything(is_whole: bool) -> list[tuple[str, ...]]:
    """The tests, and beside them those in which JAX has a part once more on a newer Python; those
    that failed.
    """
    another = needs.make_newer_python()
    if another is None:
        print(
            f"{needs.VARIABLE} names no newer Python: the tests run on this one alone", flush=True
        )
    else:
        os.environ[needs.VARIABLE] = another  # some tests read a text of its JAX
    here = (sys.executable, *PYTEST, "-o", f"{CACHE}.pytest_cache/this", "-n", PROCESSES)
    left_out = ["this_python"]
    if not is_whole:
        here += ("-m", "not whole")
        left_out += ["whole", "newer_whole"]
    newer = ("-o", f"{CACHE}.pytest_cache/newer", "-n", "0", *marked("newer", *left_out))
    again = [(another, *PYTEST, *newer)] if another else []
    # one process after the other would leave a core idle
    failed = [*passes(RUFF), *passes(here, *again, TYPES)]
    return [command for command in failed if not pass_alone(command)]


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
        help="ruff, the import rules, the tests that start no process, types",
    )
    ask.add_argument(
        "--whole", action="store_true", help="every case of the sweeps too: before a release"
    )
    # Two hundred processes import the same modules: each is compiled once.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    asked = ask.parse_args()
    if asked.fast:
        failed = fast()
    elif missing := needs.browser():
        print(missing, file=sys.stderr)
        return 1
    else:
        failed = everything(asked.whole)
    for command in failed:
        print(f"FAILED: {words(command)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
