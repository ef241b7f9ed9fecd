"""`spmd-lab check`, as docs/ci.md has it: its settings, its workflow."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.calls import told
from tests.own.expected.test_plugin import MODEL

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/ci.md").read_text("utf-8")
SETTINGS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
WORKFLOW = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
STEP = "\nbase = step\ndef step():\n    return base, arguments()\n"
BROKEN = "\ndef broken():\n    return base, (arguments()[0], jax.numpy.ones((3, 3)))\n"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "model.py").write_text(MODEL + STEP + BROKEN)
    command = tmp_path / "bin" / "spmd-lab"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m spmd_core "$@"\n')
    command.chmod(0o755)
    return tmp_path


def run(folder, line, **environ):
    """A line of a shell, with the command `spmd-lab` and without simulated devices."""
    names = ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS", "JAX_PLATFORMS")
    given = {name: value for name, value in os.environ.items() if name not in names}
    given |= {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    given |= {"SPMD_LAB_DATA": str(folder / "data"), **environ}
    return subprocess.run(
        ["bash", "-ec", line], cwd=folder, env=given, capture_output=True, text=True, timeout=300
    )


def test_the_page_is_followed(project):
    done = run(project, "spmd-lab check")
    assert (
        done.returncode == 1 and "golden spmd_goldens/model.step.toml is not there" in done.stdout
    )
    assert run(project, "spmd-lab check --update").returncode == 0
    line = re.findall(r"run: (spmd-lab check.*)", WORKFLOW)[0]
    assert len(WORKFLOW.splitlines()) == 10
    summary = project / "summary.md"
    done = run(project, line, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout == "### Steps: 1 as their goldens have them\n\n- `` model:step ``: no change\n"
    )
    assert summary.read_text() == done.stdout
    model = project / "model.py"
    model.write_text(model.read_text().replace('up=("fsdp", "tensor")', 'up=("fsdp",)'))
    done = run(project, line, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert (
        "- `` model:step ``: **2 changes** since `` spmd_goldens/model.step.toml ``" in done.stdout
    )
    assert "`` changed: params/up lost its axis \"tensor\" (was P('fsdp', 'tensor')" in done.stdout
    assert summary.read_text().endswith(done.stdout)


def test_a_step_that_cannot_be_compared_leaves_the_others(project):
    (project / "pyproject.toml").write_text(
        '[tool.spmd-lab]\nsteps = ["model:broken", "model:nothing", "model:step"]\n'
    )
    done = run(project, "spmd-lab check --update --json")
    assert done.returncode == 1, done.stderr
    broken, nothing, step = json.loads(done.stdout)
    assert broken["error"].startswith("TypeError: ")
    assert nothing["error"].startswith("function 'model:nothing' is not there")
    assert (step["error"], step["changed"]) == ("", [])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "pyproject.toml here names no steps: add `[tool.spmd-lab] steps = "),
        ("[", "pyproject.toml cannot be read ("),
        ("[tool.spmd-lab]\nsteps = 3\n", "steps in [tool.spmd-lab] is not valid ("),
    ],
)
def test_settings_that_name_no_steps_are_one_sentence(project, monkeypatch, text, sentence):
    (project / "pyproject.toml").write_text(text)
    monkeypatch.chdir(project)
    done = told("check")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(sentence) and done.stderr.count("\n") == 1
