"""What CONTRIBUTING.md says: its commands exist, and what it counts is what `docs/extending.md` does."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.house.test_extending import blocks
from tests.layers import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
LINES = [
    line.strip()
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.strip().splitlines()
]
ROWS = {
    "a-plan-option": ("A plan option", "1"),
    "a-column": ("A column", "1"),
    "a-workload": ("A workload", "2"),
}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[pytest.mark.whole] if line.endswith("figures") else [])
        for line in LINES
        if line.startswith(".venv/bin/python")
    ],
)
def test_a_command_of_the_page_is_there(line):
    """Checks are only asked what they take; tests are collected."""
    _, *words = shlex.split(line)
    ask = "--collect-only" if words[1] == "pytest" else "--help"
    if words[1] == "tests.house.figures":  # it takes nothing, and reads the tree alone
        ask = ""
    command = [sys.executable, *words, *ask.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout, done.stderr


def test_the_first_line_sets_up_a_clone():
    assert LINES[0].startswith("python3 -m venv .venv && ")
    assert (ROOT / LINES[0].rpartition("-r ")[2]).exists()


@pytest.mark.parametrize("anchor", ROWS)
def test_what_is_added_touches_as_many_files_as_the_page_counts(anchor):
    heading, count = ROWS[anchor]
    row = next(line for line in PAGE.splitlines() if f"#{anchor})" in line)
    files = {each.file for each in blocks(heading)}
    program = [name for name in files if not name.startswith(("tests/", "bench/"))]
    assert row.split("|")[2].strip().startswith(f"{len(program)}") and str(len(program)) == count


def test_an_option_of_the_decoder_touches_three_files():
    files = {each.file for each in blocks("A plan option of the decoder's own")}
    assert len([name for name in files if not name.startswith("tests/")]) == 3
    assert "3 where the decoder computes something new" in PAGE
