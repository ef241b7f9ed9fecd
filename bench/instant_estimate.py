"""The instant estimate of a step against the compiled prediction: 60 plans, v4 to TPU7x, 1 to 8
slices.

Compiled predictions come from the data folder `--data`. `--compile N` makes N of those that are
missing there (5 to 45 s of two idle cores each). The published steps follow; docs/prediction.md
says what was read off them.
"""

import os
import random
import time
from dataclasses import replace
from pathlib import Path

from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError, read_settings
from spmd_core.experiment import experiment_of
from spmd_core.lab import Lab
from spmd_core.machine import get_topology
from spmd_core.plan import PRESETS, SCHEDULES, Plan
from spmd_core.search import named_meshes, staged_meshes
from spmd_core.time import estimate_step, is_current
from spmd_core.time.estimate.mesh_estimates import step_bound
from spmd_core.time.estimate.shapes import recomputed, shapes_of
from spmd_core.time.estimate.step import step_parts
from spmd_core.workloads import parse_plan

PLANS, MEDIAN, WITHIN, SHARE, EACH_MS, MANY, MANY_S = 60, 0.08, 0.20, 0.95, 10.0, 10_000, 30.0
DRAWN = 400  # plans of any model, mesh and schedule, whose estimates are timed
TIMEOUT_S = 1800.0
PUBLISHED_WITHIN = 0.05  # asked of the compiled prediction
OFFLOADED = ("input", "query", "key", "value", "out")
BLOCK = ("query", "key", "value", "out", "mlp_up", "mlp_gate", "mlp_down")
Row = tuple[str, str, str, float, int, dict]
# (target, model, mesh, sequences per device, tokens of each, more)
ROWS: tuple[Row, ...] = (
    ("v5p:4x4x4", "scaled:32", "fsdp=16,tensor=4", 6, 2048, {"remat": "minimal"}),
    ("v5p:4x4x4", "llama-2-70b", "fsdp=64", 2, 4096, {}),
    ("v5p:4x4x4", "gemma-2-9b", "fsdp=64", 2, 4096, {}),
    ("v5p:4x4x4", "mixtral-8x7b", "fsdp=64", 4, 4096, {}),
    ("v5p:4x4x4", "llama-2-7b", "fsdp=16,sequence=4", 1, 4096, {}),
    ("v5p:4x4x4", "llama-2-13b", "data=4,fsdp=16", 2, 4096, {}),
    ("v5p:4x4x4*2", "scaled:64", "data=2,fsdp=16,tensor=4", 2, 2048, {}),
    ("v5p:4x4x4*8", "llama-2-13b", "data=8,fsdp=64", 4, 2048, {"remat": "minimal"}),
    ("v5p:4x4x8", "gpt-3-175b", "fsdp=128", 1, 2048, {}),
    ("v5p:4x4x8", "llama-2-70b", "fsdp=16,tensor=8", 1, 4096, {}),
    ("v5p:8x8x8", "llama-3.1-405b", "fsdp=512", 1, 8192, {}),
    ("v5p:2x2x2", "llama-2-7b", "fsdp=8", 2, 2048, {}),
    ("v4:4x4x4", "llama-2-7b", "fsdp=64", 4, 2048, {}),
    ("v4:4x4x8*2", "scaled:16", "data=2,fsdp=128", 2, 2048, {}),
    ("v5e:16x16", "scaled-2023:16", "fsdp=256", 6, 2048, {}),
    (
        "v5e:16x16",
        "scaled:128",
        "fsdp=16,tensor=16",
        1,
        2048,
        {"offload": BLOCK, "fused_qkv": True, "fused_mlp": True},
    ),
    ("v5e:16x16*2", "scaled:16", "data=2,fsdp=256", 4, 2048, {}),
    ("v5e:16x16*4", "llama-2-13b", "data=4,fsdp=256", 2, 2048, {}),
    ("v5e:8x16", "scaled:8", "fsdp=128", 4, 2048, {}),
    ("v5e:8x8", "llama-2-7b", "fsdp=64", 2, 2048, {}),
    ("v5e:8x8", "llama-3.1-8b", "fsdp=16,tensor=4", 0.5, 4096, {}),
    ("v5e:4x4", "scaled:1", "fsdp=16", 8, 2048, {}),
    ("v6e:16x16", "llama-3.1-8b", "fsdp=256", 4, 8192, {"offload": OFFLOADED}),
    ("v6e:16x16*2", "llama-3.1-70b", "data=2,fsdp=256", 1, 8192, {"offload": OFFLOADED}),
    ("v6e:8x8", "llama-2-13b", "fsdp=64", 2, 2048, {}),
    ("v6e:8x8", "llama-3.1-70b", "fsdp=16,tensor=4", 0.25, 8192, {}),
    ("v6e:4x4", "llama-3.1-8b", "fsdp=16", 1, 8192, {}),
    (
        "tpu7x:4x4x4",
        "llama-3.1-70b",
        "fsdp=128",
        2,
        8192,
        {"save": ("attention", "query", "key", "value")},
    ),
    *(
        (target, model, f"fsdp={devices}", batch, 4096, {})
        for target, devices in (
            ("v5p:4x4x4", 64),
            ("v5e:16x16", 256),
            ("v6e:16x16", 256),
            ("v4:4x4x4", 64),
        )
        for model, batch in (("llama-2-13b", 1), ("llama-2-7b", 3))
    ),
    *(
        (target, model, mesh, 1, 4096, {"remat": "minimal"})
        for target, mesh in (
            ("v5p:4x4x4", "fsdp=32,tensor=2"),
            ("v5e:16x16", "fsdp=64,tensor=4"),
            ("v6e:16x16", "fsdp=64,tensor=4"),
            ("v4:4x4x4", "fsdp=16,tensor=4"),
        )
        for model in ("llama-2-7b", "scaled:8")
    ),
    *(
        (f"{target}*{slices}", "llama-3.1-8b", f"data={slices},fsdp={devices}", 1, 8192, {})
        for target, devices in (("v5p:4x4x4", 64), ("v5e:16x16", 256), ("v6e:16x16", 256))
        for slices in (2, 4, 8)
    ),
    *(
        ("tpu7x:4x4x4", model, mesh, 1, 8192, {})
        for model in ("llama-3.1-8b", "llama-2-70b")
        for mesh in ("fsdp=128", "data=2,fsdp=64", "fsdp=32,tensor=4")
    ),
    ("tpu7x:4x4x4*2", "llama-3.1-70b", "data=2,fsdp=128", 1, 8192, {}),
)
# name, row, seconds of the published step. Sources: AI-Hypercomputer/maxtext and tpu-recipes
PUBLISHED: tuple[tuple[str, Row, float], ...] = (
    ("scaled:32 on v5p", ROWS[0], 7.696),
    ("llama-3.1-8b on v6e", ROWS[22], 4.546),
    ("scaled:128 on v5e", ROWS[15], 12.681),
    (
        "llama-3.1-70b on TPU7x",
        (
            *ROWS[27][:5],
            {**ROWS[27][5], "state_dtype": "bfloat16", "second_moment_dtype": "float32"},
        ),
        12.515,
    ),
)


TARGETS = (
    *("tpu:v5e:16x16", "tpu:v5p:8x8x8", "tpu:v6e:16x16", "tpu:tpu7x:4x8x8", "tpu:v5p:4x4x4*4"),
    *("gpu:h100:32x8", "gpu:b200:8x8"),
)
STAGES = (2, 4, 8, 16, 32, 64)
OPTIMIZERS = ("adamw", "momentum", "lion", "adafactor", "muon")


def plan_of(row: Row, platform: str = "tpu") -> Plan:
    """The plan of a row, on TPUs or GPUs."""
    target, model, mesh, batch, sequence, more = row
    axes = {name: int(size) for name, _, size in (part.partition("=") for part in mesh.split(","))}
    return parse_plan(
        {
            "target": f"{platform}:{target}",
            "model": model,
            "mesh": axes,
            "sequence": sequence,
            "batch_per_device": batch,
            **more,
        }
    )


def compiled(lab: Lab, plan: Plan, may_compile: bool) -> float | None:
    """Seconds of the compiled prediction, from a stored run of the same versions or a new one; None
    where there is neither, or where it does not fit.
    """
    run = lab.latest(experiment_of(plan))
    result = lab.result(run) if run else None
    if may_compile and not (result and is_current(result)):
        result = lab.result(lab.wait(lab.submit(experiment_of(plan))).run)
    if not result or not is_current(result):
        return None
    found = result.strategies["auto"].prediction
    return found.predicted_s.estimate if found and found.predicted_s else None


def main(asked: Asked, figures: Figures) -> None:
    asked.data.mkdir(parents=True, exist_ok=True)
    plans, left = [plan_of(row) for row in ROWS], asked.compile
    errors: list[float] = []
    bounds: list[float] = []
    settings = replace(read_settings(os.environ), predict_timeout_s=TIMEOUT_S)
    lab = Lab.open(asked.data, settings=settings)
    for plan in plans:
        compiled_s = compiled(lab, plan, may_compile=False)
        if compiled_s is None and left:
            left -= 1
            compiled_s = compiled(lab, plan, may_compile=True)
        if compiled_s is not None:
            estimate = estimate_step(plan).predicted_s
            errors.append(estimate.estimate / compiled_s - 1 if estimate else float("nan"))
            bounds.append(bound_of(plan) / compiled_s)
            mesh = ",".join(f"{name}={size}" for name, size in plan.mesh)
            print(
                f"{plan.target[4:]:16} {plan.model:16} {mesh:24} {compiled_s:8.3f} s compiled, "
                f"{errors[-1]:+6.1%}",
                flush=True,
            )
    lab.close()
    _accuracy(figures, sorted(abs(error) for error in errors))
    if bounds:
        figures.add(
            "largest lower bound over compiled",
            max(bounds),
            most=1.0,
            note="what a search rules out by: no plan may stay below it",
        )
    _speed(figures, plans)
    for name, row, published_s in PUBLISHED:
        found = estimate_step(plan_of(row)).predicted_s
        assert found is not None
        note = f"{found.low:.3f} to {found.high:.3f} s, published {published_s:.3f} s"
        figures.add(
            f"estimate over published, {name}",
            found.estimate / published_s - 1,
            least=-PUBLISHED_WITHIN,
            most=PUBLISHED_WITHIN,
            note=note,
        )


def bound_of(plan: Plan) -> float:
    """The lower bound of a plan's step, in seconds."""
    return step_bound(step_parts(shapes_of(plan), recomputed(plan)))


def _accuracy(figures: Figures, errors: list[float]) -> None:
    count = len(errors)
    figures.add("plans with a compiled prediction", count, f"of {len(ROWS)}", least=PLANS)
    if count:
        figures.add("median error of the estimate", errors[count // 2], most=MEDIAN)
        figures.add(
            "share within 20 %",
            sum(error <= WITHIN for error in errors) / count,
            least=SHARE,
            note=f"worst {errors[-1]:.1%}",
        )


def drawn(seed: int) -> Plan:
    """The plan of a seed: any model, on chips that may have several slices, in half of the draws with
    stages.
    """
    draws = random.Random(f"instant {seed}")
    while True:
        target = get_topology(f"{draws.choice(TARGETS)}")
        names = ("data", "fsdp", "expert", "context", "tensor")
        meshes = staged_meshes(target.devices, names, STAGES) if seed % 2 else ()
        mesh = draws.choice([*(meshes or named_meshes(target.devices, names))])
        batch = draws.choice((1, 4, 16, 64, 256))
        try:
            return parse_plan(
                {
                    "target": target.target,
                    "model": draws.choice([*PRESETS]),
                    "mesh": mesh,
                    "sequence": draws.choice((4096, 8192, 131_072)),
                    "batch_per_device": batch / dict(mesh).get("stage", 1),
                    "microbatches": draws.choice((None, 8, 32, 256, 2048, 4096))
                    if seed % 2
                    else None,
                    "schedule": draws.choice([*SCHEDULES]),
                    "repeats": draws.choice((1, 1, 2)),
                    "remat": draws.choice(("none", "minimal", "full")),
                    "optimizer": draws.choice(OPTIMIZERS),
                    "context_attention": draws.choice(("all-gather", "ring", "ulysses")),
                }
            )
        except RequestError:
            continue


def _speed(figures: Figures, plans: list[Plan]) -> None:
    """Seconds of a core, which do not depend on what else the machine does."""
    took = []
    for seed in range(DRAWN):
        plan = drawn(seed)
        begun = time.process_time()
        estimate_step(plan)
        took.append(((time.process_time() - begun) * 1e3, seed))
    (slowest, seed), over = max(took), sum(each > EACH_MS for each, _ in took)
    plan = drawn(seed)
    mesh = ",".join(f"{name}={size}" for name, size in plan.mesh)
    note = f"{plan.model}, {mesh}, {plan.schedule}, {plan.parts} microbatches"
    figures.add("median estimate", sorted(took)[DRAWN // 2][0], "ms", most=EACH_MS)
    figures.add("slowest estimate", slowest, "ms", most=EACH_MS, note=note)
    figures.add(f"estimates over {EACH_MS:g} ms", over, f"of {DRAWN}", most=0)
    many = [
        parse_plan(plan.to_json() | {"layers": layers})
        for layers in range(2, 2 * (MANY // len(plans) + 2), 2)
        for plan in plans
    ][:MANY]
    begun = time.process_time()
    for plan in many:
        estimate_step(plan)
    figures.add(f"{len(many):,} estimates", time.process_time() - begun, "s", most=MANY_S)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        data=(Path("instant-estimate"), "folder of compiled predictions"),
        compile=(0, "how many of the missing to compile"),
    )
