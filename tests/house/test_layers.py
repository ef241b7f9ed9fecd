"""The import rules of the house hold, and a file that broke them would be found."""

import json
import subprocess
import sys

import pytest

from tests.layers import (
    FLOORS,
    HEAVY,
    ROOT,
    UI_FLOORS,
    broken_rules,
    circles,
    circles_of_siblings,
    rooms,
    source_files,
    ui_rooms,
)

pytestmark = pytest.mark.fast


def test_every_file_keeps_the_import_rules():
    files = source_files()
    assert len(files) > 20
    assert [
        line
        for path in files
        for line in broken_rules(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    ] == []


def test_every_room_has_a_floor_and_every_floor_a_room():
    """A rule about a room that was renamed would check nothing; a room without a floor would be
    checked by none.
    """
    listed = [room for floor in FLOORS for room in floor]
    assert len(listed) == len(set(listed))
    assert set(listed) == rooms()
    in_ui = [room for floor in UI_FLOORS for room in floor]
    assert len(in_ui) == len(set(in_ui))
    assert set(in_ui) == ui_rooms()
    for prefixes in HEAVY.values():
        assert all((ROOT / prefix).exists() for prefix in prefixes)


def test_no_files_import_each_other_in_a_circle():
    assert circles() == []


def test_a_circle_would_be_found(tmp_path):
    house = tmp_path / "spmd_core"
    house.mkdir()
    (house / "__init__.py").write_text("")
    (house / "one.py").write_text("from spmd_core import two")
    (house / "two.py").write_text("def late():\n    from spmd_core.three import name")
    (house / "three.py").write_text("from spmd_core.one import other")
    (house / "four.py").write_text("from spmd_core import one")
    assert circles(tmp_path) == [["spmd_core.one", "spmd_core.three", "spmd_core.two"]]


def test_no_folder_imports_a_sibling_that_imports_it():
    assert circles_of_siblings() == []


def test_a_circle_of_siblings_would_be_found(tmp_path):
    """Of a folder and a file beside it, deep inside; no file is in a circle."""
    files = {
        "a/b/__init__.py": "",
        "a/b/one.py": "from spmd_core.a import c",
        "a/b/two.py": "",
        "a/c.py": "def late():\n    from spmd_core.a.d.inside.three import name",
        "a/d/inside/three.py": "from spmd_core.a.b.two import other\nimport spmd_core.a.d.four",
        "a/d/four.py": "",
        "e.py": "from spmd_core.a import b",
    }
    for name, source in files.items():
        path = tmp_path / "spmd_core" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert circles(tmp_path) == []
    found = circles_of_siblings(tmp_path)
    assert found == [["spmd_core.a.b", "spmd_core.a.c", "spmd_core.a.d"]]


@pytest.mark.parametrize("room", sorted({room for floor in FLOORS[:-1] for room in floor}))
def test_an_import_from_a_floor_above_would_be_found_in_any_room(room):
    """Every room but the highest gets a forbidden import, of the room right above it."""
    floor = next(number for number, rooms in enumerate(FLOORS) if room in rooms)
    above = FLOORS[floor + 1][0]
    name = {"ui": "spmd_lab.ui"}.get(above) or (
        above if above in ("pages", "app") else f"spmd_core.{above}"
    )
    path = "spmd_lab/ui/tables.py" if room == "ui" else f"spmd_core/{room}.py"
    assert any("a floor above it" in line for line in broken_rules(path, f"import {name}"))


@pytest.mark.parametrize("room", sorted({room for floor in UI_FLOORS[:-1] for room in floor}))
def test_an_import_from_a_floor_above_would_be_found_in_any_room_of_ui(room):
    floor = next(number for number, rooms in enumerate(UI_FLOORS) if room in rooms)
    found = broken_rules(
        f"spmd_lab/ui/{room}.py", f"from spmd_lab.ui import {UI_FLOORS[floor + 1][0]}"
    )
    assert any("a floor above it" in line for line in found)


# A file of each workload or recipe, whose name is its own: no room of one idea
PROGRAMS = [ROOT / "spmd_core/script/programs", ROOT / "spmd_core/script/programs/recipes"]


@pytest.mark.parametrize("folder", ["spmd_core", "spmd_lab", "pages", "tests"])
def test_no_folder_holds_more_than_20_modules(folder):
    crowded = {}
    for path in [ROOT / folder, *(ROOT / folder).rglob("*/")]:
        count = sum(1 for file in path.glob("*.py") if file.name != "__init__.py")
        if count > 20 and path not in PROGRAMS:
            crowded[path.relative_to(ROOT).as_posix()] = count
    assert crowded == {}


@pytest.mark.parametrize(
    ("path", "source", "words"),
    [
        ("spmd_core/experiment/layout.py", "import jax", "imports jax; only spmd_core/engine/"),
        ("spmd_core/experiment/layout.py", "import jax.numpy as jnp", "imports jax.numpy"),
        (
            "spmd_core/experiment/layout.py",
            "from jax.sharding import NamedSharding",
            "imports jax.sharding.NamedSharding",
        ),
        (
            "spmd_lab/ui/charts/base.py",
            "def late():\n    if True:\n        import jax",
            ":3 imports jax",
        ),
        ("spmd_lab/ui/charts/base.py", "__import__('jax')", "imports jax"),
        (
            "spmd_lab/ui/charts/base.py",
            "import importlib\nimportlib.import_module('jaxlib.xla')",
            "imports jaxlib.xla",
        ),
        (
            "spmd_lab/ui/charts/base.py",
            "import importlib\nimportlib.import_module(name)",
            "a computed name",
        ),
        ("spmd_core/lab/lab.py", "import streamlit as st", "imports streamlit; only app.py"),
        ("spmd_core/engine/measured/run.py", "import streamlit", "imports streamlit"),
        ("spmd_lab/ui/tables.py", "import sqlite3", "imports sqlite3; only spmd_core/lab/store"),
        ("spmd_core/experiment/layout.py", "from spmd_core.lab import Lab", "a floor above it"),
        ("spmd_core/lab/store/store.py", "from spmd_core import trials", "a floor above it"),
        ("spmd_core/lab/store/store.py", "from ... import trials", "a floor above it"),
        ("spmd_core/engine/measured/run.py", "from ...worker import __main__", "a floor above it"),
        ("spmd_core/lab/lab.py", "from spmd_lab.ui import charts", "a floor above it"),
        (
            "spmd_core/engine/measured/run.py",
            "from spmd_core.words import runs",
            "a floor above it",
        ),
        ("spmd_core/lab/store/store.py", "from spmd_core.words import runs", "no sentences"),
        ("spmd_lab/ui/shell.py", "import pages.layout", "a floor above it"),
        (
            "spmd_lab/ui/charts/base.py",
            "from spmd_core.lab import Lab",
            "only spmd_lab/ui/lab.py may",
        ),
        ("pages/compare.py", "from spmd_core import lab", "only spmd_lab/ui/lab.py may"),
        (
            "spmd_core/lab/lab.py",
            "from spmd_core.engine.measured.run import run_experiment",
            "which loads jax",
        ),
        (
            "spmd_core/lab/supervisor/supervisor.py",
            "from spmd_core import engine",
            "which loads jax",
        ),
        (
            "spmd_core/script/program.py",
            "import spmd_core.script.programs.layer",
            "which loads jax",
        ),
        ("spmd_core/experiment/layout.py", "from numpy import *", "imports everything of numpy"),
        (
            "spmd_core/results/result.py",
            "from spmd_core.experiment.link import decode",
            "past the face of experiment",
        ),
        ("pages/layout.py", "import spmd_core.machine.chips", "past the face of machine"),
        ("spmd_core/results/result.py", "from ..machine.chips import CHIPS", "past the face"),
    ],
)
def test_the_checker_finds_what_the_rules_forbid(path, source, words):
    found = broken_rules(path, source)
    assert any(words in line for line in found), found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "spmd_core/engine/measured/run.py",
            "import jax\nfrom spmd_core.results import Result\nfrom .. import lower",
        ),
        (
            "spmd_core/worker/__main__.py",
            "from spmd_core.engine.measured import run",
        ),
        ("spmd_lab/ui/lab.py", "from spmd_core.lab import Lab\nimport streamlit as st"),
        (
            "pages/layout.py",
            "import streamlit as st\nfrom spmd_lab.ui import shell\nfrom spmd_core.experiment import "
            "layout_of",
        ),
        ("spmd_core/experiment/layout.py", "import numpy as np\nimport jaxtyping"),
    ],
)
def test_the_checker_allows_what_the_rules_allow(path, source):
    assert broken_rules(path, source) == []


def test_the_command_line_and_what_pages_use_load_neither_jax_nor_streamlit():
    modules = [
        "spmd_core.__main__",
        "spmd_core.lab",
        "spmd_core.script.program",
        "spmd_core.script.export",
        "spmd_core.experiment.layout",
        "spmd_core.experiment.link",
        "spmd_core.recipes",
    ]
    code = (
        f"import json, sys, {', '.join(modules)}\nprint(json.dumps([name for name in ('jax', "
        f"'jaxlib', 'streamlit') if name in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout) == []
