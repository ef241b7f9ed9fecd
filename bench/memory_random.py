"""Memory by the plan's sizes against the compiler's account: plans drawn at random.

Drawn are model, chips (v5e, v5p, v6e, TPU7x), mesh, batch, sequence, policy, and names that are
saved and offloaded. What was compiled is kept in `--data`, one line of JSON for each plan;
`--compile N` draws and compiles on (half a minute to three minutes of two cores each), and may be
stopped at any time.
"""

import argparse
import itertools
import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from bench.figures import Asked, Figures, measure
from spmd_core.base import RequestError, bytes_text, read_settings
from spmd_core.experiment import experiment_of
from spmd_core.facts import Fits
from spmd_core.lab import Lab
from spmd_core.machine import get_topology
from spmd_core.plan import NAMES, Plan
from spmd_core.search.chips import named_meshes
from spmd_core.search.neighborhood import policies
from spmd_core.time import estimate_memory
from spmd_core.workloads import parse_plan

PLANS, WITHIN, SHARE, INSIDE, TIMEOUT_S = 120, 0.10, 0.90, 0.95, 1800.0
STORED = Path(__file__).parent / "memory_random.jsonl"
TARGETS = (
    *("v5e:2x4", "v5e:4x4", "v5e:4x8", "v5e:8x8", "v5p:2x2x1", "v5p:2x2x2", "v5p:2x2x4"),
    *("v5p:2x4x4", "v6e:2x4", "v6e:4x4", "v6e:4x8", "v6e:8x8", "tpu7x:2x2x1", "tpu7x:2x2x2"),
    *("tpu7x:2x2x4", "v6e:2x4", "v6e:4x4", "v5p:4x4x4", "v5e:4x4*2", "v6e:4x4*2"),
)
MODELS = (
    *("llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3.1-8b", "llama-3.1-8b", "llama-3.1-70b"),
    *("gemma-2-9b", "scaled:1", "scaled:8", "scaled:16", "scaled:32"),
)
EXPERTS = (
    *("mixtral-8x7b", "mixtral-8x22b", "gpt-oss-20b", "gpt-oss-120b", "qwen3-30b-a3b"),
    "qwen3-235b-a22b",
)
AXES = ("data", "fsdp", "fsdp_transpose", "sequence", "tensor")
WITH_EXPERTS = 61  # seeds from here on draw models with experts too, one of three
FILLED = (0.3, 1.08)  # of the capacity, by the estimate of its time: others teach nothing


def drawn(seed: int) -> Plan:
    """The plan of a seed."""
    draws = random.Random(f"memory {seed}")
    while True:
        try:
            plan = parse_plan(_fields(draws, seed >= WITH_EXPERTS and draws.random() < 1 / 3))
        except RequestError:
            continue
        filled = estimate_memory(plan).peak / plan.topology.chip.device_hbm_bytes
        if not plan.kernel_refusal and FILLED[0] <= filled <= FILLED[1]:
            return plan


def _fields(draws: random.Random, experts: bool) -> dict[str, Any]:
    target = f"tpu:{draws.choice(TARGETS)}"
    count = draws.choice((1, 1, 2, 2, 3))
    axes = (*AXES, "expert") if experts else AXES
    meshes = list(named_meshes(get_topology(target).devices, axes, count))
    return {
        "target": target,
        "model": draws.choice(EXPERTS if experts else MODELS),
        "mesh": draws.choice(meshes),
        "sequence": draws.choice((2048, 4096, 8192)),
        "batch_per_device": draws.choice((0.25, 0.5, 1, 1, 2, 2, 3, 4, 6, 8)),
        **_policy(draws),
        **({"dropless": draws.random() < 2 / 3} if experts else {}),
    }


def _policy(draws: random.Random) -> dict[str, Any]:
    kind = draws.choice(("plain", "search", "search", "names", "names"))
    if kind == "plain":
        return {"remat": draws.choice(("none", "minimal", "full"))}
    if kind == "search":
        return draws.choice(policies(("full",), True, True)).fields
    ways = {name: draws.choice(("", "", "save", "offload")) for name in NAMES}
    named = {way: [name for name in NAMES if ways[name] == way] for way in ("save", "offload")}
    return {"remat": draws.choice(("full", "full", "minimal")), **named}


def compiled(lab: Lab, plan: Plan) -> dict[str, Any]:
    """The compiler's account of a plan, as one line of the stored file."""
    status = lab.wait(lab.submit(experiment_of(plan)))
    result = lab.result(status.run)
    found = result.strategies["auto"] if result else None
    row: dict[str, Any] = {"plan": plan.to_json(), "error": str(status.error or "")}
    if found is None or found.prediction is None:
        return row | {"error": str(found.error if found else status.error or status.state)}
    held, seconds = found.prediction.memory_bytes, found.prediction.predicted_s
    return row | {
        "fits": found.prediction.fits,
        "peak": held.peak,
        "argument": held.argument,
        "temp": held.temp,
        "host": held.host,
        "seconds": seconds.estimate if seconds else None,
    }


def stored(path: Path) -> list[dict[str, Any]]:
    """What was compiled."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def compile_more(path: Path, folder: Path, seeds: list[int]) -> None:
    """Compile the plans of these seeds that are not stored."""
    settings = replace(read_settings(os.environ), predict_timeout_s=TIMEOUT_S)
    lab = Lab.open(folder, settings=settings)
    try:
        for seed in seeds:
            if any(row["seed"] == seed for row in stored(path)):
                continue
            row = {"seed": seed, **compiled(lab, drawn(seed))}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{seed:4} {row.get('peak')} {row['plan']['target']}", flush=True)
    finally:
        lab.close()


def missing(asked: argparse.Namespace) -> list[int]:
    """The first seeds that are not stored, as many as are to be compiled."""
    known = {row["seed"] for row in stored(asked.data)}
    return list(itertools.islice((n for n in itertools.count() if n not in known), asked.compile))


def held() -> tuple[int, int]:
    """Returns how many stored peaks are in the range of their estimate, and how many there are."""
    rows = [row for row in stored(STORED) if row.get("peak") is not None]
    memories = [estimate_memory(parse_plan(row["plan"])) for row in rows]
    pairs = zip(memories, rows, strict=True)
    return sum(each.low <= row["peak"] <= each.high for each, row in pairs), len(rows)


def main(asked: Asked, figures: Figures) -> None:
    if seeds := [int(each) for each in asked.seeds.split(",") if each] or missing(asked):
        compile_more(asked.data, asked.folder, seeds)
    errors, inside, wrong = [], 0, 0
    verdicts: Counter[str] = Counter()
    for row in stored(asked.data):
        if row.get("peak") is None:
            continue
        plan = parse_plan(row["plan"])
        found = estimate_memory(plan)
        errors.append(found.peak / row["peak"] - 1)
        verdict = found.fits(plan.topology.chip.capacity)
        inside += found.low <= row["peak"] <= found.high
        wrong += verdict == "yes" and not row["fits"]
        verdicts[verdict] += 1
        mesh = ",".join(f"{name}={size}" for name, size in plan.mesh)
        policy = f"{plan.remat} s:{','.join(plan.save)} o:{','.join(plan.offload)}"
        print(
            f"{row['seed']:3} {plan.target[4:]:12} {plan.model:13} {mesh:34} "
            f"{plan.batch_per_device:5g}x{plan.sequence:<5} {bytes_text(found.peak):>9} "
            f"{bytes_text(row['peak']):>9} {errors[-1]:+6.1%} {verdict:6} {'fits' if row['fits'] else 'over'} {policy}"
        )
    count = len(errors)
    figures.add("plans compiled", count, least=PLANS)
    if count:
        close = sum(abs(error) <= WITHIN for error in errors)
        figures.add("share within 10 %", close / count, least=SHARE)
        figures.add("share in the interval", inside / count, least=INSIDE)
        note = ", ".join(f"{verdicts[each]} {each}" for each in get_args(Fits))
        figures.add("fits: yes, and does not", wrong, most=0, note=note)


if __name__ == "__main__":
    measure(
        main,
        __doc__,
        data=(STORED, "lines of what was compiled"),
        folder=(Path("memory-random"), "of the compiles"),
        compile=(0, "how many more"),
        seeds=("", "which to compile, with commas between, instead of the next ones"),
    )
