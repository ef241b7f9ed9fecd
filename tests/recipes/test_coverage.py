"""Every cell of the tutorials is in the table of docs/coverage.md, and every recipe named there
exists.
"""

import json
import re
from pathlib import Path

from spmd_core.recipes import RECIPES, problems

DOCS = Path(__file__).resolve().parents[2] / "docs"
# Code cells as counted in the pages themselves; with them, the stretches of prose between.
CODE, ALL = (
    {"000": 30, "001": 21, "002": 5, "003": 54, "004": 0},
    {"000": 35, "001": 29, "002": 14, "003": 93, "004": 25},
)


def table(text):
    """The rows of the table as (file, line, cell, recipes column, note)."""
    rows, file = [], ""
    for line in text.splitlines():
        if heading := re.match(r"## (\d{3}): ", line):
            file = heading[1]
        elif re.match(r"\| \d+ \|", line):
            number, cell, recipes, note = (part.strip() for part in line.strip("|").split(" | "))
            rows.append((file, int(number), cell, recipes, note.strip("| ")))
    return rows


def cells():
    return [
        (cell["file"], cell["line"], cell["cell"])
        for cell in json.loads((DOCS / "tutorial_cells.json").read_text("utf-8"))
    ]


def missing(text):
    """Cells of the list that a table does not have, in the order of the list."""
    listed = {row[:3] for row in table(text)}
    return [cell for cell in cells() if cell not in listed]


def test_no_cell_is_missing_and_none_is_there_twice():
    text = (DOCS / "coverage.md").read_text("utf-8")
    assert missing(text) == []
    assert [row[:3] for row in table(text)] == cells()


def test_a_missing_row_is_noticed():
    text = (DOCS / "coverage.md").read_text("utf-8")
    without = "\n".join(
        line for line in text.splitlines() if not line.startswith("| 161 | In [42]")
    )
    assert missing(without) == [("000", 161, "In [42]")]


def test_the_list_has_as_many_cells_as_the_pages():
    for counts, chosen in (
        (CODE, [cell for cell in cells() if cell[2].startswith("In [")]),
        (ALL, cells()),
    ):
        assert {file: sum(cell[0] == file for cell in chosen) for file in counts} == counts


def test_every_named_recipe_exists_and_what_has_none_says_why():
    for file, line, cell, recipes, note in table((DOCS / "coverage.md").read_text("utf-8")):
        names = re.findall(r"`(\w+)`", recipes)
        assert all(name in RECIPES for name in names), (file, line, recipes)
        assert names or (recipes == "prose" and len(note) > 10), (file, line, cell)


def test_every_group_of_the_course_is_reached_from_the_pages():
    named = {
        name
        for row in table((DOCS / "coverage.md").read_text("utf-8"))
        for name in re.findall(r"`(\w+)`", row[3])
    }
    of_pages = {recipe.group for recipe in RECIPES.values()} - {problems.GROUP}
    assert of_pages == {RECIPES[name].group for name in named}
