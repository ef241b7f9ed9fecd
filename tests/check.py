"""Everything that must hold before a change goes in, one command after the other: `python -m tests.check`."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.newer_python import newer_python

ROOT = Path(__file__).resolve().parents[1]
# What also runs on the newer Python and JAX: what JAX has a part in. No pages and browsers, and none of what is about processes alone.
ONCE = ("ui", "browser", "house", "commands", "lab", "worker", "workloads", "script/test_absent.py")
CORE = tuple(f"--ignore=tests/{name}" for name in ONCE)
PYTEST = ("-m", "pytest", "-n", "2", "--dist", "loadfile")


def commands() -> Iterator[tuple[str, ...]]:
    """The commands, in order; the import rules are tests/test_layers.py."""
    yield (sys.executable, "-m", "ruff", "check")
    yield (sys.executable, "-m", "pyright", "--pythonpath", sys.executable)
    yield (sys.executable, *PYTEST)
    if newer := newer_python():
        yield (newer, *PYTEST, *CORE)


def main() -> int:
    """Run them all; 1 where any fails."""
    failed = []
    for command in commands():
        text = shlex.join(os.path.relpath(word) if word.startswith("/") else word for word in command)
        print(f"+ {text}", flush=True)
        start = time.monotonic()
        if subprocess.run(command, cwd=ROOT).returncode:
            failed.append(text)
        print(f"  {time.monotonic() - start:.0f} s", flush=True)
    for text in failed:
        print(f"FAILED: {text}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
