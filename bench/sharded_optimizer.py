"""Estimates of steps whose optimizer is sharded over `data` (ZeRO-1) against their compiled ones.

    python -m bench.sharded_optimizer

The first six settled how gradients are counted; the last three were compiled after it.
"""

from typing import Any

from bench.compiled import own_lab, results
from bench.figures import Asked, Figures, measure
from spmd_core.experiment import experiment_of
from spmd_core.facts import Prediction
from spmd_core.plan import Plan
from spmd_core.time import estimate_step
from spmd_core.workloads import parse_plan

ALL = {"sequence": 2048, "batch_per_device": 1, "shard_optimizer_over_data": True}
LLAMA = {"model": "llama-3.1-8b", "layers": 8}
V5E = {"target": "tpu:v5e:4x4", "mesh": {"data": 16}}
PLANS: tuple[dict[str, Any], ...] = (
    LLAMA | V5E,
    LLAMA | V5E | {"layers": 4, "microbatches": 2, "batch_per_device": 2},
    LLAMA | V5E | {"parameter_dtype": "bfloat16"},
    LLAMA | V5E | {"mesh": {"data": 4, "fsdp": 4}},
    LLAMA | {"target": "tpu:v5p:4x4x4", "mesh": {"data": 64}},
    LLAMA | {"target": "tpu:v6e:8x8", "mesh": {"data": 64}},
    V5E | {"model": "qwen3-8b", "layers": 6},
    V5E | {"model": "llama-2-7b", "layers": 6, "mesh": {"data": 8, "tensor": 2}},
    {"model": "qwen3-4b", "layers": 6, "target": "tpu:v5p:2x2x4", "mesh": {"data": 16}},
)


def apart(plan: Plan, compiled: Prediction) -> tuple[float, float, int]:
    """(memory, seconds) of the estimate over the compiled ones, less 1; how many of both are inside
    its intervals.
    """
    estimate, peak = estimate_step(plan), compiled.memory_bytes.peak
    known, span, took = estimate.before_compiling, estimate.predicted_s, compiled.predicted_s
    assert estimate.memory_bytes.peak and peak and span and took, plan
    inside = (known["low"] <= peak <= known["high"]) + (span.low <= took.estimate <= span.high)
    return estimate.memory_bytes.peak / peak - 1, span.estimate / took.estimate - 1, inside


def main(_: Asked, figures: Figures) -> None:
    plans, found = [parse_plan(ALL | plan) for plan in PLANS], []
    specs = [experiment_of(plan).to_json() for plan in plans]
    wrong = 0
    with own_lab() as lab:
        answers = results(lab, specs, ("auto",))
        for plan, answer in zip(plans, answers, strict=True):
            compiled = answer[1].strategies["auto"].prediction
            assert compiled is not None, plan
            found.append(apart(plan, compiled))
            wrong += compiled.fits != estimate_step(plan).fits
            memory, seconds, _ = found[-1]
            print(f"{plan.target} {plan.model}: memory {memory:+.0%}, time {seconds:+.0%}")
    memory, seconds, inside = zip(*found, strict=True)
    of = 2 * len(plans)
    figures.add("inside their intervals", sum(inside), f"of {of} peaks and times", least=of)
    figures.add("fits, as estimated and not as compiled", wrong, most=0)
    figures.add("memory, worst", max(map(abs, memory)))
    figures.add("time, worst", max(map(abs, seconds)))


if __name__ == "__main__":
    measure(main, __doc__)
