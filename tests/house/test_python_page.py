"""The examples of docs/python.md run as they are written, one after another."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import spmd_lab

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/python.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run(tmp_path):
    assert len(EXAMPLES) > 4
    program = "\n".join([f"import sys; sys.path.insert(0, {str(ROOT)!r})", *EXAMPLES])
    run = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:spmd_core", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "all-gather over fsdp" in run.stdout
    assert "hidden = jax.nn.relu(batch @ params" in run.stdout
    assert "True low=" in run.stdout  # it fits v5e:4x4
    assert "gone: params is updated and not donated" in run.stdout
    assert (tmp_path / "step.html").read_text().count("<svg") == 4


@pytest.mark.parametrize("name", spmd_lab.__all__)
def test_every_name_is_on_the_page_or_is_what_one_of_them_returns(name):
    assert name in PAGE
    assert getattr(spmd_lab, name).__doc__


def test_every_key_of_the_schema_is_on_the_page():
    keys = spmd_lab.schema()["properties"]
    text = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    named = {word for cell in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", cell)}
    assert set(keys) <= named, set(keys) - named


def test_importing_it_loads_nothing_else():
    """`python -m bench.explain --only imports` measures its time."""
    program = (
        "import gc, sys; import spmd_lab\n"
        "print(sorted({'jax', 'numpy', 'pydantic', 'spmd_core'} & set(sys.modules)), gc.isenabled())"
    )
    words = [sys.executable, "-c", program]
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["[]", "True"]
