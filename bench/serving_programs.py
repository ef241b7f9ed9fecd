"""Steps of serving: the estimate beside the compiled program, of plans drawn at random.

    python -m bench.serving_programs [--compile N]

A step is the decoder's own program in plain XLA beside a contiguous cache; the estimate is of this
program (`spmd_core/time/serving/contiguous.py`), whose counts of small operations were read off
some of them. What a pool holds is compiled too: a decode step with as many requests as it says.
What was compiled is kept in `--data`, one line of JSON for each step, so that a run that was
stopped goes on there; a compile takes 10 to 30 s of one core. GPUs need
requirements-gpu-targets.txt and `--gpus`.
"""

import argparse
import json
import os
import random
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError, read_settings
from spmd_core.experiment import Experiment, parse_experiment, step_experiment
from spmd_core.lab import Lab
from spmd_core.plan import ServedPlan
from spmd_core.time import (
    StepTime,
    cache_bytes,
    check_dtypes,
    contiguous_time,
    pool_of,
    weight_bytes,
)

STORED = Path(__file__).parent / "serving_programs.jsonl"
PLANS, MEDIAN, WITHIN, SHARE = 60, 0.06, 0.10, 0.90
TPUS = ("v5e:2x2", "v5e:2x4", "v6e:2x2", "v6e:2x4", "v5p:2x2x1", "v5p:2x2x2", "tpu7x:2x2x1")
GPUS = ("h100:8", "h200:8", "b200:8", "a100:8")
MODELS = (
    *("llama-3.1-8b", "llama-3.1-70b", "qwen3-8b", "qwen3-14b", "qwen3-32b", "gemma-3-12b"),
    *("qwen3-30b-a3b", "gpt-oss-20b", "mixtral-8x7b", "deepseek-v3-671b"),
)
KINDS = ("decode", "prefill", "decode, experts", "prefill, experts")
SLOTS, CHUNKS = (1024, 2048, 4096, 8192), (1, 1, 1, 512, 1024, 2048)


def drawn(seed: int, is_gpu: bool) -> Experiment:
    """The step of a seed, whose pool holds its requests."""
    draws = random.Random(f"serving {seed} {is_gpu}")
    while True:
        try:
            if step := _step(draws, is_gpu):
                return step
        except RequestError:
            continue


def _step(draws: random.Random, is_gpu: bool) -> Experiment | None:
    target = f"gpu:{draws.choice(GPUS)}" if is_gpu else f"tpu:{draws.choice(TPUS)}"
    data, tensor = draws.choice((1, 1, 2, 4)), draws.choice((1, 2, 4, 8))
    mesh = [("data", data), ("tensor", tensor)]
    model, expert = draws.choice(MODELS), draws.choice((1, tensor, data * tensor))
    dtypes = draws.choice((("bf16", "bf16"), ("bf16", "bf16"), ("fp8", "bf16"), ("int8", "bf16")))
    is_of_experts = ServedPlan(model=model, target=target, mesh=tuple(mesh)).size.experts > 1
    mesh += [("expert", expert)] if is_of_experts and expert > 1 else []
    plan = ServedPlan(
        model=model, target=target, mesh=tuple(mesh), weights_dtype=dtypes[0], kv_dtype=dtypes[1]
    )
    plan.check()
    check_dtypes(plan)
    slots, chunk = draws.choice(SLOTS), draws.choice(CHUNKS)
    shards = plan.replicas * data
    most = pool_of(plan, slots).requests * plan.replicas // shards
    if most < 1 or chunk > slots:
        return None
    each = 1 if chunk > 1 else min(most, draws.choice((1, 4, 16, 64, most)))
    return step_experiment(plan, each * shards, slots, chunk)


def steps(is_gpu: bool) -> Iterator[Experiment]:
    """As many as are asked for."""
    for seed in range(PLANS):
        yield drawn(seed, is_gpu)


def compile_more(asked: argparse.Namespace, known: dict[str, dict[str, Any]]) -> None:
    """Compile the next steps that are not stored, and keep each."""
    settings = replace(read_settings(os.environ), predict_timeout_s=600.0)
    missing = [each for each in steps(asked.gpus) if each.id not in known]
    lab = Lab.open(asked.folder, settings=settings)
    try:
        for step in missing[: asked.compile]:
            row = known[step.id] = {"step": step.to_json(), **_compiled(lab, step)}
            with asked.data.open("a") as file:
                file.write(json.dumps(row) + "\n")
    finally:
        lab.close()


def _compiled(lab: Lab, step: Experiment) -> dict[str, Any]:
    status = lab.wait(lab.submit(step))
    result = lab.result(status.run)
    found = result.strategies["auto"] if result else None
    if found is None or found.prediction is None:
        return {"error": str(found.error if found else status.error)}
    held, seconds = found.prediction.memory_bytes, found.prediction.predicted_s
    return {
        "fits": found.prediction.fits,
        "argument": held.argument,
        "peak": held.peak,
        "seconds": seconds.estimate if seconds else None,
        "shares": found.prediction.shares_s,
    }


def estimated(step: Experiment) -> tuple[StepTime, float]:
    """(seconds by part, bytes of weights and cache) of a step by the estimate."""
    served = step.served
    assert served is not None
    plan = served.plan
    cache = served.requests // plan.replicas // plan.along("data") * cache_bytes(plan, served.slots)
    return contiguous_time(served), weight_bytes(plan) + cache


def main(asked: Asked, figures: Figures) -> None:
    lines = asked.data.read_text().splitlines() if asked.data.exists() else []
    known = {parse_experiment(row["step"]).id: row for row in (json.loads(line) for line in lines)}
    if asked.compile:
        compile_more(asked, known)
    off: dict[str, list[float]] = {name: [] for name in (*KINDS, "memory")}
    wrong = refused = fast = 0
    for row in known.values():
        step = parse_experiment(row["step"])
        if step.target.startswith("gpu") != asked.gpus:
            continue
        served, name = step.served, ",".join(f"{axis}={n}" for axis, n in step.mesh)
        assert served is not None
        kind = "decode" if served.chunk == 1 else "prefill"
        plan = served.plan
        what = f"{plan.model:18} {plan.target:16} {name:28} {plan.weights_dtype:5} {served.requests:5} x {served.slots:5} + {served.chunk:4}"
        if "error" in row:
            refused += 1
            print(f"{what} {row['error'][:160]}")
            continue
        if not row["fits"]:
            wrong += 1
            print(f"{what} does not fit: {row['peak']:,}")
            continue
        time, nbytes = estimated(step)
        off[kind].append(time.seconds / row["seconds"] - 1)
        fast += row["seconds"] < time.least
        if plan.size.experts > 1:
            off[f"{kind}, experts"].append(off[kind][-1])
        off["memory"].append(nbytes / row["argument"] - 1)
        print(
            f"{what} {row['seconds'] * 1e3:9.3f} ms {off[kind][-1]:+7.1%}, memory {off['memory'][-1]:+6.1%}"
        )
    figures.add("steps compiled", len(off["memory"]), least=PLANS)
    for kind in KINDS:
        if off[kind]:
            figures.add(
                f"median error, {kind}", statistics.median(map(abs, off[kind])), most=MEDIAN
            )
    if off["memory"]:
        inside = sum(abs(each) <= WITHIN for each in off["memory"]) / len(off["memory"])
        figures.add("share of memory within 10 %", inside, least=SHARE)
    figures.add("faster than weights and cache can be read", fast, most=0)
    figures.add("pools that hold what does not fit", wrong, most=0)
    figures.add("steps that were refused", refused, most=0)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        data=(STORED, "lines of what was compiled"),
        folder=(Path("serving-programs"), "of the compiles"),
        compile=(0, "how many more"),
        gpus={"action": "store_true", "help": "of GPUs"},
    )
