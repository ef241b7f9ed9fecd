"""`explain` of files that print, exit, or whose answer cannot be written where it is asked for."""

import json
import os
import subprocess
import sys

import pytest

from tests.commands.calls import told
from tests.cover import whole
from tests.labs import ROOT

pytestmark = [pytest.mark.newer]
FILE = """
import sys
import jax
from tests.own import steps

print("as it is imported")

def noisy():
    print("as it is made")
    def step(x):
        print("as it is traced")
        return x.sum()
    return step, (steps.place(steps.devices(), (16, 16), "fsdp"),)

def exits():
    sys.exit(0)

def says():
    sys.exit("bye")

def raises():
    raise ValueError("of my own")

def traced():
    return (lambda x: x + undefined), (steps.place(steps.devices(), (16, 16), "fsdp"),)

def lacks():
    import no_such_module_of_mine
"""

MESHED = """
import jax
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

def made():
    x = jax.ShapeDtypeStruct((8, 8), "float32", sharding=NamedSharding(mesh, P("x", "y")))
    return lambda x: x.sum(), (x,)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    (tmp_path / "noisy_file.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "noisy_file", raising=False)
    return "noisy_file"


def test_what_a_file_prints_is_no_part_of_the_answer(file):
    done = told("explain", f"{file}:noisy", "--json")
    assert json.loads(done.stdout)["mesh"] == [["fsdp", 4], ["tensor", 2]]
    printed = [line for line in done.stderr.splitlines() if line.startswith("as it is")]
    assert printed == ["as it is imported", "as it is made", "as it is traced"]
    assert done.returncode == 0


@pytest.mark.parametrize("path", ["none/x.html", ".", "-"])
def test_a_file_that_cannot_be_saved_is_refused_before_the_step_is_made(
    file, path, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    done = told("explain", f"{file}:noisy", "--save", path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"--save '{path}' ")


@pytest.mark.parametrize(("function", "code"), [("exits", "0"), ("says", "'bye'")])
def test_an_exit_is_no_success(file, function, code):
    done = told("explain", f"{file}:{function}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == (
        f"function '{file}:{function}' ends Python by sys.exit({code}): return (step, arguments), and "
        "exit below `if __name__ == '__main__'` alone"
    )


@pytest.mark.parametrize(
    ("function", "error", "line"),
    [
        ("raises", "ValueError", "raise ValueError"),
        ("traced", "NameError", "x + undefined"),
        ("lacks", "ModuleNotFoundError", "import no_such_module_of_mine"),
    ],
)
def test_what_a_file_raises_is_quoted_from_its_own_line(file, function, error, line):
    done = told("explain", f"{file}:{function}")
    assert (done.returncode, done.stdout) == (2, "")
    first, *_, last = done.stderr.partition("Traceback")[2].splitlines()[1:]
    assert "noisy_file.py" in first and line in done.stderr
    assert last == f"function '{file}:{function}' raises {error}: mend it, and ask again"


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("cpu:8", marks=whole),
        pytest.param("v5e:8", marks=pytest.mark.newer_whole),
        None,
    ],
)
def test_a_mesh_made_by_code_has_the_devices_of_the_target(target, tmp_path):
    (tmp_path / "meshed.py").write_text(MESHED)
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "NPROC"))}
    words = ["explain", "meshed:made", "--json", *([f"--target={target}"] if target else [])]
    done = subprocess.run(
        [sys.executable, "-m", "spmd_core", *words],
        cwd=tmp_path,
        env=environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    if target:
        assert json.loads(done.stdout)["mesh"] == [["x", 4], ["y", 2]]
    else:
        assert done.returncode == 2
        assert done.stderr.endswith("raises ValueError: name its devices, such as --target cpu:8\n")


def test_a_function_that_is_not_there_has_no_traceback(file):
    (*_, line) = told("explain", f"{file}:nowhere").stderr.splitlines()
    assert line.startswith(f"function '{file}:nowhere' is not there (module 'noisy_file' has no")
