"""The instant estimate of plans whose layers are of several kinds, or whose matmuls have 8 bits,
against the compiled prediction: seconds and memory by kind.

    python -m bench.layer_kinds [--compile N]

Each plan has few layers of a published model, as many as its kinds take. What was compiled is kept
in `--data`, one line of JSON for each plan, with the versions of JAX and libtpu. The last two settled
which arrays of a scanned block wait; nothing else of the estimate was fitted to these.
"""

import argparse
import json
import os
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from bench.memory_random import TIMEOUT_S, compiled, stored
from bench.small_plans import key_of
from spmd_core.base import read_settings
from spmd_core.experiment import Plan, parse_plan
from spmd_core.lab import Lab
from spmd_core.time import estimate_memory, estimate_step

STORED = Path(__file__).parent / "layer_kinds.jsonl"
MEDIAN, MEMORY_WITHIN, MEMORY_SHARE = 0.04, 0.10, 0.90
_EIGHT = {"matmul_dtype": "float8", "scales": "static"}
_KEPT = {"remat": "minimal", "sizes": {"vocab": 32768}}  # so that a block is the worst moment
# kind, target, model, layers, mesh, sequences per device, tokens of each, more
ROWS: tuple[tuple[str, str, str, int, dict[str, int], float, int, dict[str, Any]], ...] = (
    ("delta", "v5p:2x2x4", "qwen3-next-80b-a3b", 4, {"fsdp": 16}, 1, 4096, {"dropless": True}),
    ("8 bits", "v5e:4x4", "llama-3.1-8b", 4, {"fsdp": 16}, 2, 4096, {"matmul_dtype": "int8"}),
    ("mamba", "v5p:2x2x4", "nemotron-3-nano-30b-a3b", 7, {"fsdp": 16}, 1, 4096, {"dropless": True}),
    (
        "8 bits",
        "v5p:2x2x4",
        "qwen3-30b-a3b",
        4,
        {"fsdp": 16},
        2,
        4096,
        {"dropless": True, **_EIGHT},
    ),
    ("heads", "v5p:2x2x4", "gemma-4-26b-a4b", 6, {"fsdp": 16}, 1, 4096, {"dropless": True}),
    ("chunks", "v5p:2x2x4", "llama-4-scout-17b-16e", 4, {"fsdp": 16}, 1, 16384, {"dropless": True}),
    ("heads", "v5e:4x4", "gemma-4-31b", 6, {"fsdp": 16}, 1, 4096, {}),
    ("windows", "v5e:4x4", "gemma-3-12b", 12, {"fsdp": 16}, 1, 4096, {}),
    ("windows", "v5e:4x4", "olmo-3-32b", 4, {"fsdp": 16}, 1, 8192, {}),
    ("heads", "v5p:2x2x4", "mimo-v2-flash", 6, {"fsdp": 16}, 1, 4096, {"dropless": True}),
    ("latent", "v5p:4x4x4", "deepseek-v3-671b", 5, {"fsdp": 64}, 1, 4096, {"dropless": True}),
    ("8 bits", "v5p:2x2x4", "llama-3.1-8b", 4, {"fsdp": 16}, 2, 4096, dict(_EIGHT)),
    ("delta", "v5e:4x4", "qwen3.5-35b-a3b", 4, {"fsdp": 16}, 1, 4096, {"dropless": True}),
    ("mamba", "v5e:4x4", "nemotron-3-nano-30b-a3b", 7, {"fsdp": 16}, 1, 4096, {"dropless": True}),
    ("windows", "v5p:2x2x4", "gemma-3-12b", 12, {"fsdp": 16}, 2, 4096, dict(_KEPT)),
    ("windows", "v5p:2x2x4", "gemma-3-12b", 12, {"fsdp": 16}, 1, 4096, _KEPT | {"remat": "none"}),
)


def plans() -> Iterator[tuple[str, Plan]]:
    """Each with its kind."""
    for kind, target, model, layers, mesh, batch, sequence, more in ROWS:
        yield (
            kind,
            parse_plan(
                {
                    "target": f"tpu:{target}",
                    "model": model,
                    "layers": layers,
                    "mesh": mesh,
                    "batch_per_device": batch,
                    "sequence": sequence,
                    **more,
                }
            ),
        )


def compile_more(asked: argparse.Namespace, known: dict[str, dict[str, Any]]) -> None:
    """Compile the next plans that are not stored, and keep each."""
    settings = replace(read_settings(os.environ), predict_timeout_s=TIMEOUT_S)
    versions = {name: version(name) for name in ("jax", "libtpu")}
    missing = [(kind, plan) for kind, plan in plans() if key_of(plan) not in known]
    lab = Lab.open(asked.folder, settings=settings)
    try:
        for kind, plan in missing[: asked.compile]:
            row = known[key_of(plan)] = {"kind": kind, **versions, **compiled(lab, plan)}
            with asked.data.open("a") as file:
                file.write(json.dumps(row) + "\n")
    finally:
        lab.close()


def main(asked: Asked, figures: Figures) -> None:
    known = {key_of(parse_plan(row["plan"])): row for row in stored(asked.data)}
    if asked.compile:
        compile_more(asked, known)
    of_kinds, near = defaultdict[str, list[float]](list), list[bool]()
    for kind, plan in plans():
        row = known.get(key_of(plan))
        if row is None or row["error"]:
            print(f"{kind:8} {plan.model:24} {row['error'][:90] if row else 'not compiled'}")
            continue
        time, memory = estimate_step(plan).predicted_s, estimate_memory(plan)
        off = memory.peak / row["peak"] - 1
        near.append(abs(off) <= MEMORY_WITHIN)
        late = time.estimate / row["seconds"] - 1 if time and row["seconds"] else float("nan")
        of_kinds[kind].append(late)
        print(
            f"{kind:8} {plan.target[4:]:10} {plan.model:24} {plan.layers or plan.size.layers} layers, "
            f"{row['seconds']:.4g} s compiled, {late:+.1%}; {row['peak'] / 1e9:.2f} GB, {off:+.1%}"
        )
    for kind, errors in of_kinds.items():
        middle = statistics.median(map(abs, errors))
        print(f"{kind}: {len(errors)} plans, median error of seconds {middle:.1%}")
    figures.add("plans compiled", len(near), least=50)
    if near:
        every = [abs(each) for errors in of_kinds.values() for each in errors]
        figures.add("median error of seconds", statistics.median(every), most=MEDIAN)
        figures.add("share of memory within 10 %", sum(near) / len(near), least=MEMORY_SHARE)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        data=(STORED, "lines of what was compiled"),
        folder=(Path("layer-kinds"), "of the compiles"),
        compile=(0, "how many more"),
    )
