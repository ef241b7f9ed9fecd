"""What an installed package adds by its entry points, and what is left out of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKLOAD = """
from spmd_core.declare import workload

@workload(operands={"x": ("rows", "cols")}, results={"y": ("rows",)}, defaults={"rows": 64, "cols": 16})
def row_sums(x):
    return x.sum(axis=1)
"""
MODELS = """
TINY = {"model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4,
        "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 32000, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False}
HALF = {**TINY, "hidden_size": "many"}
"""
POINTS = """
[spmd_lab.workloads]
sums = acme.steps
lost = acme.nowhere

[spmd_lab.models]
Acme-Tiny = acme.models:TINY
acme-half = acme.models:HALF
acme-gone = acme.models:GONE

[spmd_lab.targets]
acme-pod = acme.places:POD
acme-moon = acme.places:MOON
local = acme.places:POD
"""
PROGRAM = """
import json
from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.machine import parse_target
from spmd_core.plan import get_model, model_names
from spmd_core.workloads import files

def refused(call, text):
    try:
        return call(text)
    except RequestError as error:
        return str(error)

model = get_model("acme-tiny")
print(json.dumps({
    "workloads": sorted(files.workloads()), "problems": files.problems(),
    "run": parse_experiment({"workload": "row_sums", "mesh": {"x": 2}, "target": "cpu:2"}).workload,
    "model": [model.name, model.layers], "again": get_model(model.name) == model, "offered": model_names()[-1],
    "target": [parse_target("acme-pod").text, parse_target("local").text],
    "refused": [refused(get_model, "acme-half"), refused(parse_target, "acme-moon")],
}))
"""


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """What a process finds that has the package among its own."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in {
        "acme/__init__.py": "",
        "acme/steps.py": WORKLOAD,
        "acme/models.py": MODELS,
        "acme/places.py": 'POD = "v5p:64"\nMOON = "tpu:moon:4x4"\n',
        "acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
        "acme-1.0.dist-info/entry_points.txt": POINTS,
    }.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    environ = {
        **os.environ,
        "PYTHONPATH": f"{folder}:{ROOT}",
        "SPMD_LAB_DATA": str(folder / "data"),
    }
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_package_adds_workloads_models_and_targets(answer):
    assert answer["workloads"] == ["row_sums"] and answer["run"] == "row_sums"
    name, layers = answer["model"]
    assert name.startswith("llama(") and layers == 4
    assert answer["offered"] == "acme-tiny"  # where a model is chosen
    assert answer["target"] == ["tpu:v5p:4x4x4", "local"]


def test_a_model_is_read_by_its_sizes_where_the_package_is_not(answer):
    assert answer["again"] is True


def test_what_is_broken_is_named_and_left_out(answer):
    problems = answer["problems"]
    begins = [each.partition(" is left out: ")[0] for each in problems]
    assert begins == [
        "workload lost of package acme",
        "model acme-gone of package acme",
        "model acme-half of package acme",
        "target acme-moon of package acme",
    ]
    assert "module acme.nowhere has no file" in problems[0]
    assert "has no attribute 'GONE'" in problems[1]
    half, moon = answer["refused"]
    assert "model acme-half of package acme is left out" in half
    assert "target acme-moon of package acme is left out" in moon
