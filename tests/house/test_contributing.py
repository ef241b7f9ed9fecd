"""What CONTRIBUTING.md says: its commands exist, and what it counts is what `docs/extending.md` does."""

import re
import shlex

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


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith(".venv/bin/python")])
def test_a_command_of_the_page_is_there(line):
    """Without a process: a module that runs with the options of the line, or folders of tests."""
    _, _, module, *words = shlex.split(line)
    if module == "pytest":
        assert words and all(any((ROOT / word).rglob("test_*.py")) for word in words)
    else:
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8")
        assert 'if __name__ == "__main__":' in source
        assert all(f'"{word}"' in source for word in words)


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
