import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.exported import written
from spmd_core.advice import expected_words
from spmd_core.experiment import as_exported
from spmd_core.workloads import programs

pytestmark = [pytest.mark.newer, pytest.mark.newer_whole]
ROOT = Path(__file__).resolve().parents[3]
MODEL = """
import jax, jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

AUTO = (AxisType.Auto,) * 2

def step(params, x):
    h = jnp.tanh(x @ params["up"])
    return (h @ params["down"]).sum()

def arguments(up=("fsdp", "tensor"), make=AbstractMesh):
    mesh = make((4, 2), ("fsdp", "tensor"), axis_types=AUTO)
    place = lambda shape, *spec: jax.ShapeDtypeStruct(
        shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))
    return {"up": place((64, 256), *up), "down": place((256, 64), "tensor", "fsdp")}, place((32, 64), "fsdp")
"""
TESTS = """
import jax, pytest
import model

def test_abstract(spmd):
    spmd.expect(model.step)(*model.arguments()).matches_golden()

@pytest.mark.spmd(devices=8)
def test_devices(spmd):
    step = spmd.expect(model.step)(*model.arguments(make=jax.make_mesh))
    step.has_no("all-gather", over="tensor").matches_golden()

@pytest.mark.spmd(devices=8)
def test_fails():
    print("printed there")
    assert jax.device_count() == 7
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\npythonpath = ['.']\n"
        "addopts = '-p spmd_lab.pytest_plugin --strict-markers'\nfilterwarnings = ['error']\n"
    )
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "test_model.py").write_text(TESTS)
    return tmp_path


def run(folder, *words):
    """pytest as its user runs it, on one CPU device."""
    names = ("JAX_NUM_CPU_DEVICES", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER")
    environ = {name: value for name, value in os.environ.items() if name not in names}
    environ |= {"PYTHONPATH": str(ROOT), "SPMD_LAB_DATA": str(folder / "data")}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others' import NumPy in each process
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.this_python
def test_goldens_are_written_compared_and_reviewed(project):
    printed = run(project, "--spmd-update")
    assert "assert 8 == 7" in printed and "printed there" in printed
    assert "1 failed, 2 passed" in printed
    assert "spmd_goldens/test_model.test_devices.toml: written" in printed
    texts = [(project / f"spmd_goldens/test_model.{name}.toml").read_text() for name in ("test_abstract", "test_devices")]  # fmt: skip
    assert texts[0].replace("test_abstract", "test_devices") == texts[1]
    model = project / "model.py"
    model.write_text(model.read_text().replace("    h = ", "    # a comment\n    hidden = ").replace("(h @", "(hidden @"))  # fmt: skip
    printed = run(project, "-p", "xdist", "-n", "2", "-k", "abstract or devices")
    assert "2 passed" in printed
    assert "test_devices.toml: moved: all-gather over fsdp" in printed
    model.write_text(model.read_text().replace('("fsdp", "tensor"), make', '("fsdp",), make'))
    printed = run(project, "-k", "devices")
    assert "params/up lost its axis \"tensor\" (was P('fsdp', 'tensor')" in printed
    assert "1 failed" in printed
    # docs/ci.md quotes it
    assert (
        "changes since spmd_goldens/test_model.test_devices.toml; to accept, run `pytest" in printed
    )


def test_a_process_that_dies_fails_its_test_alone_and_others_are_told_what_to_mark(project):
    """One that names a target is slow; one with too few devices is told the ways to more; a refusal
    is its sentence at the line that asked.
    """
    (project / "test_model.py").write_text(
        "import os, jax, model, pytest\n"
        "@pytest.mark.spmd(devices=2)\n"
        "def test_dies():\n    os.write(2, b'out of luck'); os._exit(7)\n"
        "@pytest.mark.spmd(devices=2)\n"
        "def test_lives():\n    pass\n"
        "def test_a(spmd):\n    model.arguments(make=jax.make_mesh)\n"
        "def test_slow(spmd):\n    print('tpu:v5e:4x4')\n"
    )
    (project / "test_refused.py").write_text(
        "import model\n"
        "def test_a(spmd):\n    expected = spmd.expect(model.step)(*model.arguments())\n"
        "    expected.arguments_at_most('3 apples')\n"
    )
    printed = run(project, "-m", "not slow")
    assert "3 failed, 1 passed, 1 deselected" in printed
    assert "the process with 2 devices ended with status 7" in printed
    assert "mark it `@pytest.mark.spmd(devices=8)`" in printed
    assert "RequestError: '3 apples' is not a number of bytes" in printed
    assert "\ntest_refused.py:4: RequestError" in printed and "spmd_core/own" not in printed
    printed = run(project, "--full-trace", "test_refused.py")
    assert "spmd_core/own/expected/selection.py" in printed


def test_without_the_fixture_neither_jax_nor_the_core_is_loaded():
    program = (
        "import sys, pytest, spmd_lab.pytest_plugin\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('jax', 'spmd_core', 'numpy')])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True)  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.this_python
def test_the_test_that_programs_shows_passes_and_fails_where_a_spec_is_lost(
    project, data_folder, read_here
):
    """Of a program that another process exported: the text is a file of its own."""
    given: dict[str, Any] = {}
    exec(MODEL, given)
    params, x = given["arguments"]()
    described = programs.take(written(given["step"], {"params": params, "x": x}))
    (project / "test_model.py").write_text(expected_words(as_exported(described)))
    train = project / "train.py"
    train.write_text(MODEL)
    assert "1 passed" in run(project)
    train.write_text(MODEL.replace('up=("fsdp", "tensor")', 'up=("fsdp",)'))
    printed = run(project)
    assert "1 failed" in printed and "expected params/up to be P('fsdp', 'tensor')" in printed
