"""The instant estimate of plans whose layers are of several kinds, or whose matmuls have 8 bits,
against the compiled prediction: seconds and memory by kind.

    python -m bench.layer_kinds [--compile N] [--again N]

Each plan has few layers of a published model, as many as its kinds take: blocks. The first are
listed; the others are drawn at random (model, chips, mesh, batch, sequence, policy, dtypes), in
turn on v5e or v5p and on TPU7x. What was compiled is kept in `--data`, one line of JSON for each
plan, with the versions of JAX and libtpu. Nine of the list settled which arrays of a scanned block
wait, and what experts with a capacity move; the rule when their weights pass in rings was read off
Scout in bfloat16 and in float8 (drawn), and held on Qwen3 in both; integers off Mixtral.
The last thirteen were drawn before they were compiled, in the order of their seeds, and estimated
after: passes over dropless rows and their scattered sums on TPU7x were read off five of them (on
v5e and v5p three, on TPU7x two) and off Nemotron, the floor of what is given up off the one that
does not fit.
Eight more, of the kinds that are covered least, have seeds of their own (`LATER`).
`--again N` compiles N of those that are kept once more, in a folder of its own.
"""

import argparse
import itertools
import json
import os
import random
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
from spmd_core.base import RequestError, read_settings
from spmd_core.lab import Lab
from spmd_core.machine import get_topology
from spmd_core.plan import Plan
from spmd_core.search.chips import named_meshes
from spmd_core.time import estimate_memory, estimate_step
from spmd_core.workloads import parse_plan

STORED = Path(__file__).parent / "layer_kinds.jsonl"
MEDIAN, MEMORY_WITHIN, MEMORY_SHARE = 0.04, 0.10, 0.90
V5, TPU7X, AGAIN = 50, 30, 5  # plans asked, and of them compiled again
LATER = range(1001, 1017, 2)  # seeds of the kinds that are covered least, on TPU7x alone
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
    ("capacity", "v5p:2x2x2", "qwen3-30b-a3b", 4, {"fsdp": 4, "tensor": 2}, 1, 4096, {}),
    ("capacity", "v5p:2x2x2", "qwen3-30b-a3b", 4, {"fsdp": 8}, 1, 4096, {}),
    ("capacity", "v5p:2x2x4", "llama-4-scout-17b-16e", 4, {"fsdp": 16}, 1, 4096, {}),
    ("capacity", "v5p:2x2x2", "qwen3-30b-a3b", 3, {"fsdp": 8}, 4, 4096, {}),
    (
        "capacity",
        "v5p:2x2x2",
        "qwen3-30b-a3b",
        2,
        {"fsdp": 8},
        2,
        4096,
        {"remat": "none", **_EIGHT},
    ),
    ("capacity", "v5p:2x2x2", "qwen3-30b-a3b", 2, {"fsdp": 8}, 4, 4096, {"remat": "none"}),
    (
        "capacity",
        "v5p:2x2x2",
        "mixtral-8x7b",
        2,
        {"fsdp": 8},
        1,
        4096,
        {"matmul_dtype": "int8", "scales": "static"},
    ),
)
PLACES = (
    ("v5e:2x4", "v5e:4x4", "v5e:4x4", "v5p:2x2x1", "v5p:2x2x2", "v5p:2x2x4"),
    ("tpu7x:2x2x1", "tpu7x:2x2x2", "tpu7x:2x2x4"),
)
BLOCKS = (  # kind, model, layers that show all of its kinds
    ("delta", "qwen3-next-80b-a3b", 4),
    ("delta", "qwen3.5-35b-a3b", 4),
    ("mamba", "nemotron-3-nano-30b-a3b", 7),
    ("heads", "gemma-4-26b-a4b", 6),
    ("heads", "gemma-4-31b", 6),
    ("heads", "mimo-v2-flash", 6),
    ("chunks", "llama-4-scout-17b-16e", 4),
    ("windows", "gemma-3-12b", 6),
    ("windows", "olmo-3-32b", 4),
    ("windows", "gpt-oss-20b", 4),
    ("latent", "deepseek-v3-671b", 4),
    ("latent", "kimi-k2-1t", 3),
    ("8 bits", "llama-3.1-8b", 4),
    ("8 bits", "qwen3-30b-a3b", 4),
)
FEW = tuple(each for each in BLOCKS if each[0] in ("mamba", "chunks", "latent"))


def drawn(seed: int) -> tuple[str, Plan]:
    """The plan of a seed, and its kind."""
    draws = random.Random(f"kinds {seed}")
    while True:
        kind, model, layers = draws.choice(FEW if seed in LATER else BLOCKS)
        try:
            plan = parse_plan({"model": model, "layers": layers, **_fields(draws, kind, seed)})
        except RequestError:
            continue
        filled = estimate_memory(plan).peak / plan.topology.chip.device_hbm_bytes
        if not plan.kernel_refusal and filled <= 1.02:
            return kind, plan


def _fields(draws: random.Random, kind: str, seed: int) -> dict[str, Any]:
    target = f"tpu:{draws.choice(PLACES[seed in LATER or (seed % 2 and seed < 2 * TPU7X)])}"
    others = draws.choice(((), (), ("data",), ("fsdp_transpose",), ("tensor",), ("expert",)))
    meshes = named_meshes(get_topology(target).devices, ("fsdp", *others), 1 + len(others))
    bits = {"matmul_dtype": draws.choice(("float8", "int8"))}
    return {
        "target": target,
        "mesh": draws.choice([each for each in meshes if len(each) == 1 + len(others)]),
        "batch_per_device": draws.choice((0.5, 1, 1, 2, 2, 4)),
        "sequence": draws.choice((2048, 4096, 4096, 8192)),
        "remat": draws.choice(("full", "full", "minimal", "none")),
        "offload": draws.choice(((), (), ("input",))),
        "dropless": draws.random() < 2 / 3,
        "scales": draws.choice(("dynamic", "static")),
        **(bits if kind == "8 bits" or draws.random() < 1 / 8 else {}),
    }


def plans() -> Iterator[tuple[str, Plan]]:
    """Each with its kind: the listed ones, then others that are drawn."""
    listed = [*_listed()]
    yield from listed
    others = (each for each in map(drawn, itertools.count()) if each not in listed)
    yield from itertools.islice(others, V5 + TPU7X - len(listed))
    yield from map(drawn, LATER)


def _listed() -> Iterator[tuple[str, Plan]]:
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
    versions = {name: version(name) for name in ("jax", "libtpu")}
    missing = [(kind, plan) for kind, plan in plans() if key_of(plan) not in known]
    lab = _opened(asked.folder)
    try:
        for kind, plan in missing[: asked.compile]:
            row = known[key_of(plan)] = {"kind": kind, **versions, **compiled(lab, plan)}
            with asked.data.open("a") as file:
                file.write(json.dumps(row) + "\n")
    finally:
        lab.close()


def _opened(folder: Path) -> Lab:
    return Lab.open(
        folder, settings=replace(read_settings(os.environ), predict_timeout_s=TIMEOUT_S)
    )


def compile_again(asked: argparse.Namespace, rows: list[dict[str, Any]], figures: Figures) -> None:
    """Compile some that are kept once more, those at equal distances in the file."""
    lab, worst = _opened(asked.folder / "again"), 0.0
    try:
        for row in rows[:: max(1, len(rows) // asked.again)][: asked.again]:
            found = compiled(lab, parse_plan(row["plan"]))
            parts = [abs(found[name] / row[name] - 1) for name in ("peak", "seconds") if row[name]]
            worst = max(worst, *parts)
            print(f"{row['plan']['model']:24} again: {found['seconds']:.4g} s, {found['peak']}")
    finally:
        lab.close()
    figures.add("compiled again: largest difference", worst, f"of {asked.again}", most=0.001)


def main(asked: Asked, figures: Figures) -> None:
    known = {key_of(parse_plan(row["plan"])): row for row in stored(asked.data)}
    if asked.compile:
        compile_more(asked, known)
    if asked.again:
        compile_again(asked, [row for row in known.values() if not row["error"]], figures)
    of_kinds, near, wrong = defaultdict[str, list[float]](list), dict[Plan, bool](), 0
    for row in known.values():
        kind, plan = row["kind"], parse_plan(row["plan"])
        step = estimate_step(plan)
        wrong += row.get("fits") is not True and step.fits is True
        if row["error"]:
            print(f"{kind:8} {_named(plan)} {row['error'][:90]}")
            continue
        time, memory = step.predicted_s, estimate_memory(plan)
        off = memory.peak / row["peak"] - 1
        near[plan] = abs(off) <= MEMORY_WITHIN
        print(f"{kind:8} {_named(plan)} {row['peak'] / 1e9:6.2f} GB {off:+6.1%}", end=" ")
        if time and row["seconds"]:
            of_kinds[kind].append(time.estimate / row["seconds"] - 1)
            print(f"{row['seconds']:.4g} s {of_kinds[kind][-1]:+.1%}", end="")
        print()
    for kind, errors in of_kinds.items():
        middle = statistics.median(map(abs, errors))
        print(f"{kind}: {len(errors)} plans, median error of seconds {middle:.1%}")
    later = sum(plan.target.startswith("tpu:tpu7x") for plan in near)
    figures.add("plans compiled, v5e and v5p", len(near) - later, least=V5)
    figures.add("plans compiled, TPU7x", later, least=TPU7X)
    if near:
        every = [abs(each) for errors in of_kinds.values() for each in errors]
        figures.add("median error of seconds", statistics.median(every), most=MEDIAN)
        share = sum(near.values()) / len(near)
        figures.add("share of memory within 10 %", share, least=MEMORY_SHARE)
        figures.add("that should fit and do not", wrong, most=0)


def _named(plan: Plan) -> str:
    """The fields of a plan that are drawn."""
    mesh = ",".join(f"{name}={size}" for name, size in plan.mesh)
    words = [plan.remat, *(f"off:{each}" for each in plan.offload), "dropless" * plan.dropless]
    if plan.matmul_dtype != "bfloat16":
        words.append(f"{plan.matmul_dtype} {plan.scales}")
    return (
        f"{plan.target[4:]:11} {plan.model:23} {mesh:22} {plan.batch_per_device:g} x "
        f"{plan.sequence:<5} {' '.join(filter(None, words)):32}"
    )


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        data=(STORED, "lines of what was compiled"),
        folder=(Path("layer-kinds"), "of the compiles"),
        compile=(0, "how many more"),
        again=(0, f"how many of those kept to compile once more: {AGAIN} are asked"),
    )
