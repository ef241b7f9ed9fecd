"""The estimate of XLA's own program of a step beside what was compiled, and below no bound."""

import json
import statistics
from itertools import pairwise
from pathlib import Path

import pytest

import bench
from spmd_core.experiment import parse_experiment, step_experiment
from spmd_core.plan import ServedPlan
from spmd_core.time import contiguous_time, step_time
from spmd_core.time.serving.step import StepLoad

STORED = Path(bench.__file__).parent / "serving_programs.jsonl"
ROWS = [json.loads(line) for line in STORED.read_text().splitlines()]


@pytest.mark.parametrize(("platform", "count"), [("tpu", 25), ("gpu", 15)])
@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_half_of_the_compiled_steps_are_within_6_percent(platform, count, kind):
    off = []
    for row in ROWS:
        step = parse_experiment(row["step"]).served
        if step.plan.target.startswith(platform) and (step.chunk == 1) == (kind == "decode"):
            found = contiguous_time(step)
            assert found.least <= found.seconds and found.least <= row["seconds"]
            off.append(abs(found.seconds / row["seconds"] - 1))
    assert len(off) >= count and statistics.median(off) <= 0.06


def test_experts_in_8_bits_are_copied_before_they_are_multiplied():
    mesh = (("tensor", 4), ("expert", 4))
    plans = [
        ServedPlan(model="qwen3-30b-a3b", target="tpu:v6e:2x2", mesh=mesh, weights_dtype=dtype)
        for dtype in ("bf16", "int8", "fp8")
    ]
    few, narrow, widened = (
        contiguous_time(step_experiment(plan, 4, 1024).served).parts["weights"] for plan in plans
    )
    assert few < narrow < widened
    assert step_time(plans[1], StepLoad(4, 1024)).parts["weights"] < few


def test_a_gpu_keeps_its_scores_in_memory():
    plan = ServedPlan(model="llama-3.1-8b", target="gpu:h100:8", mesh=(("tensor", 8),))
    one, many = (contiguous_time(step_experiment(plan, 1, 8192, n).served) for n in (1, 1024))
    scores = 4 * 4 * 1024 * 8192 * 32  # bytes of all layers, in float32
    more = many.parts["cache"] - one.parts["cache"]
    assert more > 3 * scores / plan.topology.chip.device_hbm_bandwidth


@pytest.mark.parametrize(
    ("model", "requests", "ms"),
    [
        ("qwen3-30b-a3b", 32, 22.84),
        ("qwen3-30b-a3b", 128, 51.03),
        ("qwen3-30b-a3b", 512, 161.4),
        ("gpt-oss-20b", 10, 8.759),
    ],
)
def test_a_decode_step_of_experts_grows_without_a_cliff(model, requests, ms):
    """Beside compiled steps on H100; 256 rows of experts were estimated at six times the seconds."""
    plan = ServedPlan(model=model, target="gpu:h100:8", mesh=(("tensor", 8),))
    found = contiguous_time(step_experiment(plan, requests, 2048).served)
    assert found.seconds * 1e3 == pytest.approx(ms, rel=0.03)
    few = [contiguous_time(step_experiment(plan, n, 2048).served).seconds for n in range(1, 65)]
    assert all(0.95 < after / before < 1.1 for before, after in pairwise(few))
