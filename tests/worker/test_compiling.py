"""The real TPU compiler, in a child process, on a small topology of each generation; and what becomes of its refusals and crashes."""

import json
import os
import subprocess
import sys
import time

import pytest

from spmd_core.cost.predicting import of_experiment, of_plan
from spmd_core.errors import RequestError, WorkerError
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.machine.hardware import read_hardware
from spmd_core.plan.plan import parse_plan
from spmd_core.units import bytes_text
from spmd_core.worker.compiling import Answer, compile_in_child

pytest.importorskip("libtpu")

SMALLEST = {"v2": "2x2", "v3": "2x2", "v4": "2x2x1", "v5e": "2x2", "v5p": "2x2x1", "v6e": "2x2", "tpu7x": "2x2x1"}


def layer(target, devices, strategy="auto"):
    experiment = parse_experiment({"workload": "layer", "mesh": {"x": devices}, "target": target, "dtype": "bfloat16",
                                   "dims": {"batch": 1024, "in": 2048, "out": 2048}, "sharding": {"in": "x"}})
    request = {"experiment": experiment.to_json(), "strategy": strategy}
    return experiment, compile_in_child(request, target, {}, read_hardware(), timeout_s=300)


@pytest.mark.parametrize("generation", SMALLEST)
def test_a_small_topology_of_each_generation_is_compiled_for(generation):
    devices = 8 if generation in ("v2", "v3", "tpu7x") else 4
    experiment, answer = layer(f"tpu:{generation}:{SMALLEST[generation]}", devices)
    found = of_experiment(experiment, answer)
    assert found.fits
    assert found.predicted_s is not None
    assert 0 < found.predicted_s.low <= found.predicted_s.estimate <= found.predicted_s.high < 1e-2
    assert {each.kind for each in found.collectives} & {"all-reduce", "reduce-scatter"}
    assert all(each.axes == ("x",) for each in found.collectives if each.kind == "all-reduce")
    assert len(answer.devices) == devices


def test_a_train_step_is_predicted_from_the_command_line(tmp_path):
    kept, spec = tmp_path / "plan.json", tmp_path / "spec.json"
    small = {"batch": 4, "sequence": 256, "layers": 2, "embed": 256, "heads": 2, "kv_heads": 2, "mlp": 512, "vocab": 512}
    spec.write_text(json.dumps({"workload": "decoder", "target": "tpu:v5e:2x2", "mesh": {"fsdp": 2, "tensor": 2}, "dims": small,
                                "options": {"model": "scaled:1", "remat": "minimal"}}))
    words = [str(spec), "--keep", str(kept), "--json"]
    done = subprocess.run([sys.executable, "-m", "spmd_core", "predict", *words], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["fits"] is True
    assert found["predicted_s"]["low"] <= found["predicted_s"]["estimate"] <= found["predicted_s"]["high"]
    assert 0 < found["mfu"] < 1
    assert found["tflops_per_chip"] == pytest.approx(197 * found["mfu"])
    assert {axis for each in found["collectives"] for axis in each["axes"]} == {"fsdp", "tensor"}
    assert any("splash" in segment["name"] for segment in found["timeline"])
    kept_plan = json.loads(kept.read_text())
    assert kept_plan["plan"]["remat"] == "minimal"
    assert kept_plan["estimate_s"] == found["predicted_s"]["estimate"]
    kind, axes, size, count = kept_plan["collectives"][0]
    kept.write_text(json.dumps(kept_plan | {"collectives": [[kind, axes, size, count + 1], *kept_plan["collectives"][1:]]}))
    again = subprocess.run([sys.executable, "-m", "spmd_core", "predict", "--baseline", str(kept)], capture_output=True, text=True, timeout=600,
                           check=False)
    assert again.returncode == 1, again.stderr
    assert again.stdout == f"{kind} over {', '.join(axes)} of {bytes_text(size)}: {count + 1} before, {count} now\n"


def test_a_program_that_does_not_fit_is_a_prediction_that_says_by_how_much():
    plan = parse_plan({"target": "tpu:v5e:2x2", "model": "scaled:8", "mesh": {"fsdp": 4}, "batch_per_device": 2, "layers": 2, "sequence": 512})
    refusal = "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (20.00G) exceeds available HBM (15.75G)."
    found = of_plan(plan, Answer(error_kind="JaxRuntimeError", error=refusal))
    assert not found.fits
    assert found.predicted_s is None
    assert found.memory_bytes.missing == int(4.25 * 2**30)


def test_other_words_of_the_compiler_are_an_error():
    plan = parse_plan({"target": "tpu:v5e:2x2", "model": "scaled:1", "mesh": {"fsdp": 4}, "batch_per_device": 1})
    with pytest.raises(WorkerError, match=r"the compiler refused the program .*no such flag"):
        of_plan(plan, Answer(error_kind="JaxRuntimeError", error="INVALID_ARGUMENT: no such flag"))


def test_a_mesh_larger_than_the_topology_is_a_bad_request():
    experiment, answer = layer("tpu:v5e:2x2", 8)
    with pytest.raises(RequestError, match="mesh of 8 devices is larger than v5e:2x2 with its 4"):
        of_experiment(experiment, answer)


def test_a_compile_can_be_cancelled_and_leaves_no_process_behind():
    plan = parse_plan({"target": "tpu:v5e:16x16", "model": "scaled:16", "mesh": {"fsdp": 256}, "batch_per_device": 6})
    started = time.monotonic()
    with pytest.raises(WorkerError, match="the compile was cancelled after"):
        compile_in_child({"plan": plan.to_json()}, plan.target, plan.flags, read_hardware(), lambda elapsed: elapsed < 1.0)
    assert time.monotonic() - started < 15
    listed = subprocess.run(["ps", "-o", "args", "--ppid", str(os.getpid())], capture_output=True, text=True, check=False).stdout
    assert "compile_child" not in listed


def test_a_compiler_that_crashes_fails_the_request_with_its_words():
    with pytest.raises(WorkerError, match=r"the compiler crashed .*[Uu]nknown"):
        compile_in_child({"plan": parse_plan({"target": "tpu:v5e:2x2", "model": "scaled:1", "mesh": {"fsdp": 4}, "batch_per_device": 1}).to_json()},
                         "tpu:v5e:2x2", {"xla_tpu_no_such_flag": "true"}, read_hardware())
