"""The instant estimate of small plans, of 4 to 16 chips, inside whose interval the compiled
prediction should lie: each with collective matmuls and with the flag that turns them off.

    python -m bench.small_plans [--which listed|read|held|long] [--compile N]

`listed` are 20 plans, of which the first 10 were read off once; `read` and `held` are drawn at
random (chips, sizes, meshes, batches, policies). `held` was compiled after the model was settled,
and is the test of it. `long` are blocks of plans of 2026, in turn on v5e and TPU7x: `context`, optimizers,
microbatches, logits in parts; of these the memory is compared, too. What was compiled is kept in `--data`, one line of JSON for each plan, so
that a run that was stopped goes on there; a compile takes 25 to 60 s of two cores.
"""

import argparse
import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from bench.memory_random import TIMEOUT_S, compiled, stored
from spmd_core.base import RequestError, read_settings
from spmd_core.lab import Lab
from spmd_core.machine import get_topology
from spmd_core.plan import Plan
from spmd_core.search.chips import named_meshes
from spmd_core.time import estimate_memory, estimate_step
from spmd_core.workloads import parse_plan

STORED = Path(__file__).parent / "small_plans.jsonl"
INSIDE, MEDIAN, READ, HELD, LONG = 0.9, 0.06, 20, 20, 40
NEAR, MEMORY = 0.1, 0.9  # of the compiled peak, and the share of plans that near
SMALL = {"embed": 1024, "mlp": 4096, "heads": 8, "kv_heads": 8}
# target, mesh, sequences per device, tokens of each, sizes
ROWS = (
    ("v5e:2x4", {"fsdp": 8}, 2, 1024, {}),
    ("v5e:2x4", {"fsdp": 8}, 16, 2048, {}),
    ("v5e:2x2", {"fsdp": 4}, 4, 1024, SMALL),
    ("v5e:4x4", {"fsdp": 16}, 8, 2048, {}),
    ("v5e:2x4", {"fsdp": 4, "tensor": 2}, 2, 1024, {}),
    ("v5e:4x4", {"fsdp": 4, "tensor": 4}, 2, 1024, {}),
    ("v5e:4x4", {"fsdp": 16}, 1, 1024, {}),
    ("v5p:2x2x2", {"fsdp": 8}, 2, 2048, {}),
    ("v5e:2x4", {"fsdp": 8}, 4, 2048, {}),
    ("v5e:2x2", {"fsdp": 4}, 1, 1024, {}),
    ("v5p:2x2x4", {"fsdp": 4, "tensor": 4}, 2, 2048, {}),
    ("v5e:2x2", {"fsdp": 2, "tensor": 2}, 4, 2048, SMALL),
    ("v5e:4x4", {"data": 4, "fsdp": 4}, 4, 1024, {}),
    ("v5p:2x2x1", {"fsdp": 4}, 8, 2048, {}),
    ("v5e:2x4", {"tensor": 4, "fsdp": 2}, 8, 1024, {}),
    ("v4:2x2x2", {"fsdp": 8}, 4, 2048, {}),
    ("v5e:4x4", {"fsdp": 8, "tensor": 2}, 2, 2048, SMALL),
    ("v5p:2x2x4", {"fsdp": 16}, 4, 1024, {}),
    ("v6e:2x2", {"fsdp": 4}, 4, 1024, SMALL),
    ("v6e:2x4", {"fsdp": 8}, 4, 2048, {}),
)
TARGETS = (
    *("v5e:2x2", "v5e:2x4", "v5e:4x4", "v5e:4x4", "v5p:2x2x1", "v5p:2x2x2", "v5p:2x2x4"),
    *("v4:2x2x2", "v4:2x2x4", "v6e:2x4", "v6e:4x4", "tpu7x:2x2x2"),
)
WIDTHS = (512, 1024, 1536, 2048, 3072, 4096)


def listed() -> Iterator[Plan]:
    """The 20 plans of one model."""
    for target, mesh, batch, sequence, sizes in ROWS:
        yield parse_plan(
            {
                "target": f"tpu:{target}",
                "model": "scaled:1",
                "mesh": mesh,
                "batch_per_device": batch,
                "sequence": sequence,
                "layers": 4,
                "sizes": sizes,
            }
        )


def drawn(which: str, seed: int) -> Plan:
    """The plan of a seed that fits with room to spare."""
    draws = random.Random(f"small {which} {seed}")
    while True:
        try:
            plan = parse_plan(_long_fields(draws, seed) if which == "long" else _fields(draws))
        except RequestError:
            continue
        filled = estimate_memory(plan).peak / plan.topology.chip.device_hbm_bytes
        if not plan.kernel_refusal and filled <= 0.85:
            return plan


def _fields(draws: random.Random) -> dict[str, Any]:
    target, width = f"tpu:{draws.choice(TARGETS)}", draws.choice(WIDTHS)
    devices, heads = get_topology(target).devices, width // 128
    kind = draws.choice(("fsdp", "fsdp", "fsdp", "two", "two", "any"))
    axes = {"fsdp": ("fsdp",), "any": ("data", "fsdp", "fsdp_transpose", "sequence", "tensor")}
    names = axes.get(kind) or draws.choice((("data", "fsdp"), ("fsdp", "tensor")))
    meshes = list(named_meshes(devices, names, min(len(names), 3)))
    return {
        "target": target,
        "model": "scaled:1",
        "mesh": draws.choice(meshes),
        "sequence": draws.choice((512, 1024, 2048, 2048, 4096, 8192)),
        "batch_per_device": draws.choice((0.5, 1, 1, 2, 2, 4, 4, 8, 16)),
        "layers": draws.choice((2, 4, 8, 12)),
        "remat": draws.choice(("full", "full", "minimal", "none")),
        "gated": draws.choice((True, True, False)),
        "sizes": {
            "embed": width,
            "heads": heads,
            "kv_heads": draws.choice([each for each in (1, 2, 4, 8, 16, 32) if heads % each == 0]),
            "mlp": width * draws.choice((5, 7, 8)) // 2,
            "vocab": draws.choice((8192, 32000, 32000)),
        },
    }


def _long_fields(draws: random.Random, seed: int) -> dict[str, Any]:
    places = ("v5e:4x4", "v5e:4x8") if seed % 2 == 0 else ("tpu7x:2x2x2", "tpu7x:2x2x4")
    target, among = f"tpu:{draws.choice(places)}", draws.choice((1, 2, 4, 4, 8))
    devices, width = get_topology(target).devices, draws.choice((1024, 2048, 4096))
    kind = draws.choice(("all-gather", "ring", "ulysses"))
    of_context = {"context_attention": kind, "context_order": "balanced"} if among > 1 else {}
    return of_context | {
        "target": target,
        "model": "scaled:1",
        "mesh": {"fsdp": devices // among, "context": among},
        "sequence": draws.choice((4096, 8192, 16384, 32768)),
        "batch_per_device": draws.choice((1, 2, 4)) / among,
        "layers": draws.choice((2, 4)),
        "optimizer": draws.choice(("adamw", "adamw", "momentum", "lion", "adafactor", "muon")),
        "state_dtype": draws.choice(("float32", "float32", "bfloat16")),
        "microbatches": draws.choice((1, 1, 1, 2)),
        "logit_parts": draws.choice((1, 1, 4)),
        "remat": draws.choice(("full", "full", "minimal")),
        "sizes": {
            "embed": width,
            "heads": width // 128,
            "kv_heads": min(8, width // 128),
            "mlp": 7 * width // 2,
            "vocab": 32000,
        },
    }


def plans(which: str) -> Iterator[Plan]:
    """Each with collective matmuls, then without; long ones as they are."""
    count = {"read": READ, "held": HELD, "long": LONG}.get(which, 0)
    for plan in listed() if not count else (drawn(which, seed) for seed in range(count)):
        yield from (plan,) if which == "long" else (plan, plan.without_rings)


def key_of(plan: Plan) -> str:
    """What a compiled plan is known by."""
    return json.dumps(plan.to_json(), sort_keys=True)


def compile_more(asked: argparse.Namespace, known: dict[str, dict[str, Any]]) -> None:
    """Compile the next plans that are not stored, and keep each."""
    settings = replace(read_settings(os.environ), predict_timeout_s=TIMEOUT_S)
    versions = {name: version(name) for name in ("jax", "libtpu")}
    missing = [plan for plan in plans(asked.which) if key_of(plan) not in known]
    lab = Lab.open(asked.folder, settings=settings)
    try:
        for plan in missing[: asked.compile]:
            row = {"which": asked.which, **versions, **compiled(lab, plan)}
            known[key_of(plan)] = row
            with asked.data.open("a") as file:
                file.write(json.dumps(row) + "\n")
    finally:
        lab.close()


def main(asked: Asked, figures: Figures) -> None:
    known = {key_of(parse_plan(row["plan"])): row for row in stored(asked.data)}
    if asked.compile:
        compile_more(asked, known)
    errors: list[float] = []
    peaks: list[float] = []
    inside = wrong = 0
    for plan in plans(asked.which):
        row, step = known.get(key_of(plan), {}), estimate_step(plan)
        found, time = row.get("seconds"), step.predicted_s
        wrong += row.get("fits") is False and step.fits
        if peak := row.get("peak"):
            peaks.append((step.memory_bytes.peak or 0) / peak - 1)
        if found is None or time is None:
            continue
        is_inside = time.low <= found <= time.high
        inside += is_inside
        errors.append(time.estimate / found - 1)
        size = plan.size
        print(
            f"{plan.target[4:]:11} {','.join(f'{name}={n}' for name, n in plan.mesh):24} "
            f"{plan.batch_per_device:4g} x {plan.sequence:<5} {size.embed}/{size.kv_heads}/{size.mlp}"
            f" {plan.remat:7} {'rings' if plan.makes_rings else 'no rings':8} {found:8.4g} s, "
            f"{errors[-1]:+6.1%} ({time.low:.4g} to {time.high:.4g}){'' if is_inside else ': OUTSIDE'}"
        )
    least = LONG if asked.which == "long" else 2 * len(ROWS)
    figures.add("plans compiled", len(errors), least=least)
    if asked.which == "long" and peaks:
        near = sum(abs(each) <= NEAR for each in peaks) / len(peaks)
        figures.add("memory within 10 %", near, f"of {len(peaks)}", least=MEMORY)
        figures.add("that should fit and do not", wrong, most=0)
        print(*(f"{each:+.1%}" for each in peaks))
    if errors:
        middle = sorted(abs(each) for each in errors)[len(errors) // 2]
        figures.add("share inside the interval", inside / len(errors), least=INSIDE)
        figures.add("median error", middle, most=MEDIAN)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        which={"choices": ("listed", "read", "held", "long"), "default": "listed"},
        data=(STORED, "lines of what was compiled"),
        folder=(Path("small-plans"), "of the compiles"),
        compile=(0, "how many more"),
    )
