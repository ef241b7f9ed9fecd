"""What `docs/extending.md` says is enough: each is done in a copy of the tree, in no more files."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.layers import ROOT

PROGRAM = '''"""Rows times factors."""


def scale(x, factors):
    """Row by row."""
    return x * factors


def scale_one(x, factors):
    """A single row."""
    return x * factors
'''
STRATEGY = '''

def _twice(experiment: Experiment) -> list[str]:
    """As auto, and lowered under another name."""
    return _auto(experiment)


_BODIES["twice"] = _twice
'''
GENERATION = """        Chip(
            generation="v9", title="TPU v9", device_kinds=("TPU v9",), pci_id="0x0099",
            peak_flops=3e15, hbm_bytes=int(200 * GIB), hbm_bandwidth=8e12,
            link_bandwidth=100e9, dcn_bandwidth=12.5e9, host_bandwidth=32e9,
            clock_hz=2e9, matrix_unit=256,
            torus_dims=2, max_shape=(16, 16), wrap="full",
            sources=f"everything: {GUESS}"),
    )
}
"""
# Prints what a copy says of itself. No JAX: a text is a text.
ASK = """
import json
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.machine.chips import CHIPS, TITLES_BY_PCI_ID
from spmd_core.machine.topologies import get_topology, legal_shapes
from spmd_core.time.cost.attached import attached
from spmd_core.results.reference.formulas import has_formula
from spmd_core.script.program import program_text
from spmd_core.experiment.workloads.catalog import WORKLOADS
from spmd_core.experiment.workloads.strategies import STRATEGIES

def texts(spec):
    experiment = parse_experiment({"target": "cpu:8", "mesh": {"x": 8}, **spec})
    return {name: program_text(experiment, name) for name in experiment.strategies}

print(json.dumps(ANSWER))
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of what runs; the files that a test wrote in it are counted by `changed`."""
    shutil.copytree(
        ROOT / "spmd_core", tmp_path / "spmd_core", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def write(copied: Path, name: str, text: str) -> None:
    (copied / "spmd_core" / name).write_text(text, "utf-8")


def read(copied: Path, name: str) -> str:
    return (copied / "spmd_core" / name).read_text("utf-8")


def changed(copied: Path) -> set[str]:
    """Files of the copy that are not as in the tree."""
    files = {path.relative_to(copied).as_posix() for path in copied.rglob("*.py")}
    return {
        name
        for name in files
        if not (ROOT / name).exists() or (ROOT / name).read_bytes() != (copied / name).read_bytes()
    }


def ask(copied: Path, answer: str):
    """The value of an expression, as a fresh interpreter in the copy gives it."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.replace("ANSWER", answer)],
        cwd=copied,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def row_of_the_docs() -> str:
    text = (ROOT / "docs/extending.md").read_text("utf-8")
    found = re.search(r"   ```python\n(   SCALE = .*?)\n   ```", text, re.DOTALL)
    assert found is not None
    return "\n".join(line.removeprefix("   ") for line in found[1].splitlines())


def test_a_workload_is_its_program_its_row_and_its_test(copied):
    write(copied, "script/programs/scale.py", PROGRAM)
    rows = read(copied, "experiment/workloads/arrays.py")
    listed = rows.replace(
        "\n# In the order in which", f"\n{row_of_the_docs()}\n\n\n# In the order in which"
    )
    write(
        copied,
        "experiment/workloads/arrays.py",
        listed.replace("NORMALIZE, MLP)", "NORMALIZE, MLP, SCALE)"),
    )
    found = ask(
        copied,
        '[list(texts({"workload": "scale", "dims": {"rows": 8, "cols": 4}, "sharding": {"rows": "x"}, "strategies": '
        'list(WORKLOADS["scale"].strategies)}).values()), '
        'has_formula(WORKLOADS["scale"]), has_formula(WORKLOADS["layer"])]',
    )
    texts, *formulas = found
    assert all("x * factors" in text for text in texts) and len(texts) == 11
    assert formulas == [False, True]  # until it has one, it is compared with itself in float64
    assert changed(copied) == {
        "spmd_core/script/programs/scale.py",
        "spmd_core/experiment/workloads/arrays.py",
    }


def test_a_strategy_is_its_row_its_text_and_its_test(copied):
    rows = read(copied, "experiment/workloads/strategies.py")
    rows = rows.replace(
        '        Strategy("place"',
        '        Strategy("twice", "Twice", "a test"),\n        Strategy("place"',
    )
    write(
        copied,
        "experiment/workloads/strategies.py",
        rows.replace('"explicit", "shard_map")\nMAP', '"explicit", "shard_map", "twice")\nMAP'),
    )
    write(copied, "script/program.py", read(copied, "script/program.py") + STRATEGY)
    texts, title = ask(
        copied,
        '[texts({"workload": "layer", "strategies": ["auto", "twice"]}), '
        'STRATEGIES["twice"].title]',
    )
    assert texts["auto"] == texts["twice"] and title == "Twice"
    assert changed(copied) == {
        "spmd_core/experiment/workloads/strategies.py",
        "spmd_core/script/program.py",
    }


def test_a_generation_is_its_row_and_its_test(copied):
    chips = read(copied, "machine/chips.py")
    write(copied, "machine/chips.py", chips.replace("    )\n}\n", GENERATION, 1))
    found = ask(
        copied,
        '[get_topology("tpu:v9:4x4").devices, len(legal_shapes("v9")), '
        'TITLES_BY_PCI_ID["0x0099"], attached("TPU v9", [(x, y, 0, 0, 0) '
        'for x in range(2) for y in range(2)]).name, parse_experiment({"workload": '
        '"decoder", "target": "tpu:v9:4x4", "mesh": {"fsdp": 16}}).target]',
    )
    assert found == [16, 8, "TPU v9", "v9:2x2", "tpu:v9:4x4"]
    assert changed(copied) == {"spmd_core/machine/chips.py"}


SCREEN = '''"""A screen of a test."""

import streamlit as st

from ui import links, shell

share = shell.open_page("hello")
st.title("Hello")
links.share_box(share, "hello")
'''
# Draws the new screen of a copy, and prints its title and its menu.
DRAW = """
import json
from streamlit.testing.v1 import AppTest

shown = AppTest.from_file("home.py", default_timeout=60).switch_page("pages/hello.py").run()
assert not shown.exception, shown.exception
menu = [link.proto.label for link in shown.get("page_link")]
print(json.dumps([[title.value for title in shown.title], menu]))
"""


def test_a_screen_is_its_page_its_row_and_its_test(copied, data_folder):
    shutil.copytree(ROOT / "ui", copied / "ui", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "pages", copied / "pages")
    shutil.copy(ROOT / "home.py", copied)
    (copied / "pages/hello.py").write_text(SCREEN, "utf-8")
    shell = (copied / "ui/shell.py").read_text("utf-8")
    row = '    "hello": ("pages/hello.py", "Hello", ":material/waving_hand:"),\n'
    last = '    "history": ('
    (copied / "ui/shell.py").write_text(shell.replace(last, row + last), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", DRAW], cwd=copied, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    titles, menu = json.loads(done.stdout)
    assert titles == ["Hello"] and menu[-2:] == ["Hello", "History"]
    assert changed(copied) == {"pages/hello.py", "ui/shell.py"}


@pytest.mark.parametrize(
    "heading", ["A workload", "A strategy", "A TPU generation", "A screen", "A sweep variable"]
)
def test_the_page_tells_each(heading):
    text = (ROOT / "docs/extending.md").read_text("utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:spmd_core|tests|ui|pages)/[\w/.]+)`", section)
    assert section.strip() and all((ROOT / name).exists() for name in named if "NAME" not in name)
