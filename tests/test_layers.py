"""The import rules of the house hold, and a file that broke them would be found."""

import json
import subprocess
import sys

import pytest

from tests.layers import FLOORS, HEAVY, ROOT, broken_rules, source_files


def test_every_file_keeps_the_import_rules():
    files = source_files()
    assert len(files) > 20
    assert [line for path in files for line in broken_rules(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))] == []


def test_every_room_of_the_rules_exists():
    """A rule about a room that was renamed would check nothing."""
    rooms = {room for floor in FLOORS for room in floor} | {room for rooms in (HEAVY["jax"], HEAVY["streamlit"]) for room in rooms}
    for room in rooms - {"spmd_core/commands/", "spmd_core/migrations"}:
        assert list(ROOT.glob(f"{room.rstrip('/')}*")), room


@pytest.mark.parametrize(("path", "source", "words"), [
    ("spmd_core/layout.py", "import jax", "imports jax; only spmd_core/engine/"),
    ("spmd_core/layout.py", "import jax.numpy as jnp", "imports jax.numpy"),
    ("spmd_core/layout.py", "from jax.sharding import NamedSharding", "imports jax.sharding.NamedSharding"),
    ("ui/charts.py", "def late():\n    if True:\n        import jax", ":3 imports jax"),
    ("ui/charts.py", "__import__('jax')", "imports jax"),
    ("ui/charts.py", "import importlib\nimportlib.import_module('jaxlib.xla')", "imports jaxlib.xla"),
    ("ui/charts.py", "import importlib\nimportlib.import_module(name)", "a computed name"),
    ("spmd_core/lab.py", "import streamlit as st", "imports streamlit; only app.py"),
    ("spmd_core/engine/run.py", "import streamlit", "imports streamlit"),
    ("ui/tables.py", "import sqlite3", "imports sqlite3; only spmd_core/store"),
    ("spmd_core/layout.py", "from spmd_core.lab import Lab", "a floor above it"),
    ("spmd_core/store.py", "from spmd_core import lab", "a floor above it"),
    ("spmd_core/store.py", "from . import lab", "a floor above it"),
    ("spmd_core/engine/run.py", "from ..worker import protocol", "a floor above it"),
    ("spmd_core/lab.py", "from ui import charts", "a floor above it"),
    ("ui/shell.py", "import pages.layout", "a floor above it"),
    ("ui/charts.py", "from spmd_core.lab import Lab", "only ui/lab.py may"),
    ("pages/compare.py", "from spmd_core import lab", "only ui/lab.py may"),
    ("spmd_core/lab.py", "from spmd_core.engine.run import run_experiment", "which loads jax"),
    ("spmd_core/worker/supervisor.py", "from spmd_core import engine", "which loads jax"),
    ("spmd_core/script.py", "import spmd_core.programs.layer", "which loads jax"),
    ("spmd_core/layout.py", "from numpy import *", "imports everything of numpy"),
])
def test_the_checker_finds_what_the_rules_forbid(path, source, words):
    found = broken_rules(path, source)
    assert any(words in line for line in found), found


@pytest.mark.parametrize(("path", "source"), [
    ("spmd_core/engine/run.py", "import jax\nfrom spmd_core.results import Result\nfrom . import lower"),
    ("spmd_core/worker/__main__.py", "from spmd_core.engine.run import run_experiment"),
    ("ui/lab.py", "from spmd_core.lab import Lab\nimport streamlit as st"),
    ("pages/layout.py", "import streamlit as st\nfrom ui import shell\nfrom spmd_core.layout import layout"),
    ("spmd_core/layout.py", "import numpy as np\nimport jaxtyping"),
])
def test_the_checker_allows_what_the_rules_allow(path, source):
    assert broken_rules(path, source) == []


def test_the_command_line_and_what_pages_use_load_neither_jax_nor_streamlit():
    modules = ["spmd_core.__main__", "spmd_core.lab", "spmd_core.script", "spmd_core.export", "spmd_core.layout",
               "spmd_core.link", "spmd_core.recipes"]
    code = f"import json, sys, {', '.join(modules)}\nprint(json.dumps([name for name in ('jax', 'jaxlib', 'streamlit') if name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []
