"""Collections are put off while a process of ours imports, and only then."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

import spmd_core
from spmd_core.base import imported

ROOT = Path(spmd_core.__file__).parents[1]
PROCESSES = [
    path
    for path in sorted(Path(spmd_core.__file__).parent.rglob("*.py"))
    if 'if __name__ == "__main__":' in path.read_text("utf-8")
]


@pytest.mark.parametrize("path", PROCESSES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_process_collects_once_it_is_imported(path):
    text = path.read_text("utf-8")  # who answers as a child collects in `base.answer`
    assert "\n    imported()\n" in text or "\n    answer(" in text


def test_a_process_of_ours_imports_without_collections_and_no_other_does():
    """`python -m`, as processes are started: the module named has the state before its own code."""
    program = (
        "import gc, spmd_core.base as base; print(gc.isenabled()); base.imported(); "
        "print(gc.isenabled())"
    )
    for words, expected in (
        (["python", "-m", "spmd_core.worker"], ["False", "True"]),
        (["python", "-m", "package.train"], ["True", "True"]),
        (["python", "train.py", "-m", "spmd_core"], ["True", "True"]),
    ):
        first = "-m" if words[1] == "-m" else words[1]
        code = f"import sys; sys.argv[0] = {first!r}; sys.orig_argv[:] = {words!r}; {program}"
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert ran.stdout.split() == expected


def test_nothing_changes_where_collections_were_never_off():
    kept = gc.get_freeze_count()
    imported()
    assert gc.isenabled()
    assert gc.get_freeze_count() == kept
