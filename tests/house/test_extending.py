"""What `docs/extending.md` says is enough: its blocks, applied to a copy of the tree, pass the tests
that it names, and change no more files than it counts.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cover import whole
from tests.layers import ROOT

PAGE = (ROOT / "docs/extending.md").read_text("utf-8")
_BLOCK = re.compile(
    r"^\*\*`(?P<file>[^`]+)`\*\*, (?P<where>a new file|at its end|above `(?P<line>[^`]+)`):\n\n"
    r"```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_TREE = ("spmd_core", "spmd_lab", "pages", "tests", "bench", "docs")
_FILES = ("home.py", "app.py", "pyproject.toml")


class Block(NamedTuple):
    """Code of the page, and where it goes."""

    file: str
    where: str
    line: str | None
    code: str


def section(heading: str) -> str:
    """The text below a heading of the page."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def blocks(heading: str) -> list[Block]:
    """The blocks of a section, in order."""
    return [Block(**found.groupdict()) for found in _BLOCK.finditer(section(heading))]


def commands(heading: str) -> list[list[str]]:
    """The command lines of a section, without the interpreter."""
    found = re.search(r"```bash\n(.*?)```", section(heading), re.DOTALL)
    assert found is not None
    return [shlex.split(line)[1:] for line in found[1].strip().splitlines()]


def paste(root: Path, block: Block) -> None:
    """Put a block where the page says; one that is there already, by who followed it here, stays."""
    path = root / block.file
    text = path.read_text("utf-8") if path.exists() else ""
    if block.code.strip() in text:
        return
    if block.where == "a new file":
        new = block.code
    elif block.line is None:
        new = text + block.code
    else:
        lines = text.splitlines(keepends=True)
        (at,) = (place for place, line in enumerate(lines) if line.strip() == block.line)
        new = "".join([*lines[:at], block.code, *lines[at:]])
    path.write_text(new, "utf-8")


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the tree, as a clone has it."""
    copy = tmp_path_factory.mktemp("copied")
    for name in _TREE:  # with what is compiled: the times of the files are copied too
        skipped = shutil.ignore_patterns("*.pyc.*")  # those that are being written
        shutil.copytree(ROOT / name, copy / name, ignore=skipped)
    for name in _FILES:
        shutil.copy(ROOT / name, copy)
    return copy


def test_a_step_that_was_left_out_fails(copied):
    """The tests of the page can fail: without its chip, the generation has no topology."""
    _, test = blocks("A TPU generation")
    paste(copied, test)
    (command,) = commands("A TPU generation")
    done = subprocess.run(
        [sys.executable, *command],
        cwd=copied,
        env={**os.environ, "PYTHONPATH": str(copied)},
        capture_output=True,
        timeout=600,
    )
    assert done.returncode == 1


FILES = {
    "A workload": 3,
    "A strategy": 3,
    "A TPU generation": 2,
    "A GPU": 2,
    "A screen": 3,
    "A sweep variable": 2,
    "A plan option": 2,
    "A plan option of the decoder's own": 4,  # the fourth is its test, as below
    "A column": 2,  # the second is its test
}


HOUSE = [f"tests/house/test_{name}.py" for name in ("layers", "names", "shape", "spoken", "units")]
IN_TURN = """
import json, sys, pytest
codes = [pytest.main(words) for words in json.loads(sys.argv[1])]
sys.exit(max(codes))
"""


def in_turn(lines: Sequence[list[str]]) -> list[list[str]]:
    """The command lines; those of pytest in one process, which imports once what all of them use."""
    others = dict.fromkeys(tuple(line) for line in lines if line[1] != "pytest")
    tests = [line[2:] for line in lines if line[1] == "pytest"]
    return [*map(list, others), ["-c", IN_TURN, json.dumps(tests)]]


@pytest.mark.parametrize(
    "more", [pytest.param([["-m", "pytest", *HOUSE]], marks=whole), []], ids=["house", "named"]
)
def test_the_blocks_of_the_page_pass_the_tests_that_it_names(copied, more):
    """Those of all sections in one tree: each adds to what its own files and lines have."""
    assert PAGE.count("```python") == len(_BLOCK.findall(PAGE))
    for heading, files in FILES.items():
        assert len({block.file for block in blocks(heading)}) == files
    found = [block for heading in FILES for block in blocks(heading)]
    for block in found:
        paste(copied, block)
    environ = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    named = [line for heading in FILES for line in commands(heading)]
    for command in in_turn([*named, *more]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=copied,
            env=environ | {"PYTHONPATH": str(copied)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        wrote = command[-1] == "tests.house.tables" and "wrote docs/" in done.stderr
        assert done.returncode == 0 or wrote, done.stdout + done.stderr
    changed = {
        path.relative_to(copied).as_posix()
        for path in copied.rglob("*.py")
        if not (ROOT / path.relative_to(copied)).exists()
        or (ROOT / path.relative_to(copied)).read_bytes() != path.read_bytes()
    }
    assert changed <= {block.file for block in found}
