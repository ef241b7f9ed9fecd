"""Each bad input of an explanation gets one sentence: the value, the rule, and what to do."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from jax.sharding import PartitionSpec as P

import spmd_lab
from spmd_core.base import LabError
from spmd_core.own import explaining
from tests.own import steps

pytestmark = [pytest.mark.newer, pytest.mark.newer_whole]
ROOT = Path(__file__).resolve().parents[2]


def refused(step=steps.train_step, arguments=None, **given):
    with pytest.raises(LabError) as error:
        spmd_lab.explain(step, **given)(*(arguments or steps.arguments(steps.no_devices())))
    sentence = str(error.value)
    assert "\n" not in sentence and len(sentence) < 400
    return sentence


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"mesh": {"fsdp": 3, "tensor": 1}},
            "=128 of params/down does not divide over mesh axis fsdp=3: use fsdp=2 or 4",
        ),
        (
            {"mesh": {"data": 8}},
            "mesh data=8 lacks axis fsdp of the program: add fsdp=4, or fsdp=1",
        ),
        (
            {"mesh": {"fsdp": 2, "tensor": 2, "expert": 2}},
            "mesh axis expert=2 is not one of the step: name it in specs=, such as",
        ),
        ({"target": "tpu:v9:2x4"}, "generation 'v9' is not one that the TPU compiler knows: use"),
        ({"specs": {"params/*": P("fsdp")}}, "specs= change a step for a target: name one"),
    ],
)
def test_what_does_not_fit_is_refused(given, sentence):
    assert sentence in refused(**given)


def test_an_axis_that_the_step_does_not_know_shards_what_specs_name():
    mesh = {"fsdp": 2, "tensor": 2, "expert": 2}
    specs = {"params/up": P("expert", "tensor")}
    explained = spmd_lab.explain(steps.train_step, mesh=mesh, specs=specs)(
        *steps.arguments(steps.no_devices())
    )
    assert explained.mesh == (("fsdp", 2), ("tensor", 2), ("expert", 2))
    up = next(each for each in explained.arguments if each.path == "params/up")
    assert up.spec == ("expert", "tensor")
    assert any("expert" in each.axes for each in explained.collectives)


@pytest.mark.parametrize(
    ("target", "package", "extra"),
    [
        ("tpu:v5e:2x4", "libtpu", "spmd-lab[tpu]"),
        ("gpu:h100:8", "jax-cuda12-plugin", "spmd-lab[gpu]"),
    ],
)
def test_a_target_without_its_compiler_names_the_extra(monkeypatch, target, package, extra):
    there = explaining.package_version
    hidden = lambda name: None if name.startswith(package[:6]) else there(name)  # noqa: E731
    monkeypatch.setattr(explaining, "package_version", hidden)
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)  # JAX sets it to what is installed
    assert refused(target=target) == (
        f'target {target} needs {package}, which is not installed: run `pip install "{extra}"`'
    )


def test_one_of_several_processes_is_refused(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    sentence = refused(arguments=steps.arguments(steps.devices()))
    assert sentence == (
        '4 processes cannot be explained from within one of them: pass a target such as "tpu:v5e:4x4"'
    )


def test_a_tpu_that_another_process_holds_is_named(monkeypatch):
    def busy():
        raise RuntimeError(
            "Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with "
            "pid 4711. Not attempting to load libtpu.so in this process."
        )

    monkeypatch.setattr(jax, "process_count", busy)
    sentence = refused(arguments=steps.arguments(steps.devices()))
    assert sentence.startswith(
        "the TPU of this machine is already in use by process with pid 4711:"
    )


def test_an_old_jax_is_refused(monkeypatch):
    monkeypatch.setattr(explaining, "package_version", lambda name: "0.7.2")
    assert refused() == "JAX 0.7.2 is older than 0.8: install a newer one"


PROGRAM = """
import sys; sys.path.insert(0, ".")
import spmd_lab
from tests.own import steps
step = spmd_lab.expect(steps.train_step)(*steps.arguments(steps.devices()))
print(step.on().collectives[0].kind, any(each.origin for each in step.on().collectives))
"""


def run(**environ):
    dropped = {name: None for name, value in environ.items() if value is None}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    kept |= {name: value for name, value in environ.items() if value is not None}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=kept, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("home", [None, "/proc"])
def test_without_a_home_folder_or_with_one_that_is_read_only_a_step_is_explained(home):
    given = {"HOME": home, "SPMD_LAB_DATA": None, "XDG_DATA_HOME": None}
    assert run(**given).split()[1] == "True"


def test_an_authors_own_dump_stays_and_gets_no_file_of_ours(tmp_path):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={tmp_path}"
    assert run(XLA_FLAGS=flags).split()[1] == "True"
    names = [each.name for each in tmp_path.rglob("*")]
    assert not [name for name in names if "shardy" in name]


def test_a_step_without_shardings_is_told_what_gives_it_some():
    step, x = lambda x: x @ x.T, jax.ShapeDtypeStruct((8, 16), "float32")
    sentence = refused(step, (x,), target="cpu:8")
    assert "has no shardings, and mesh= and specs= name none: name both" in sentence
    given = {"mesh": {"x": 8}, "specs": {"*": P("x")}}
    assert spmd_lab.explain(step, target="cpu:8", **given)(x).mesh == (("x", 8),)
