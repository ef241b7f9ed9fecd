"""Right answers refused: seeds over all workloads, dtypes, data and strategies, each judged as a
run is.

    python -m bench.right_answers [--seeds 2000] [--of WORKLOAD]

Programs run on 8 simulated devices; each is compiled once, and given the operands of many seeds.
Seed 2134 of a sum of
64 rows over 8 devices, which lies near 0, is among them. Exits with 1 where any answer is refused.
"""

import itertools
import os
import time
from collections import Counter
from typing import Any

os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}

from bench.figures import Asked, Figures, measure
from bench.judging import Case
from spmd_core.experiment import parse_experiment
from spmd_core.workloads import WORKLOADS
from spmd_core.workloads.strategies import MAP_STRATEGIES, SHARDING_STRATEGIES

Spec = tuple[
    str, dict[str, Any], dict[str, int], dict[str, Any]
]  # workload, options, dims, sharding
XY, YX = ["x", "y"], ["y", "x"]
BLOCK = {
    "batch": 2,
    "sequence": 16,
    "embed": 32,
    "heads": 8,
    "kv_heads": 4,
    "head_dim": 8,
    "mlp": 64,
}
ATTENTION = {"batch": 2, "sequence": 32, "heads": 8, "kv_heads": 4, "head_dim": 16}
SPECS: tuple[Spec, ...] = (
    ("elementwise", {}, {"rows": 8, "cols": 96}, {"rows": XY}),
    ("elementwise", {}, {"rows": 4096}, {"rows": "y"}),
    ("contraction", {}, {"rows": 64, "cols": 16}, {"rows": XY}),
    ("contraction", {}, {"rows": 4096, "cols": 32}, {"rows": "x", "cols": "y"}),
    ("contraction", {}, {"rows": 20_000, "cols": 4}, {"rows": "y"}),
    ("layer", {}, {"in": 32, "out": 4}, {"in": XY}),
    ("layer", {}, {"batch": 8, "in": 512, "out": 16}, {"in": "y", "batch": "x"}),
    ("layer", {"precision": "highest"}, {"batch": 16, "in": 1024, "out": 8}, {"in": YX}),
    ("dot", {}, {"n": 8, "k": 128}, {"n": XY}),
    ("dot", {}, {"n": 64, "k": 2048}, {"k": "y", "n": "x"}),
    ("matmul", {}, {"batch": 8, "m": 8, "k": 64, "n": 16}, {"batch": XY}),
    ("matmul", {}, {"m": 32, "k": 1024, "n": 32}, {"k": "y", "m": "x"}),
    ("product", {}, {"m": 32, "k": 1024, "n": 16}, {"k": "y", "m": "x"}),
    ("convolve", {}, {"rows": 8, "length": 64, "width": 5}, {"rows": XY}),
    ("convolve", {}, {"rows": 4, "length": 256, "width": 16}, {"length": XY}),
    ("normalize", {"over": "rows"}, {"rows": 512, "cols": 16}, {"rows": "y", "cols": "x"}),
    ("normalize", {"over": "cols"}, {"rows": 8, "cols": 64}, {"rows": XY}),
    ("normalize", {"over": "both"}, {"rows": 128, "cols": 128}, {"rows": "x", "cols": "y"}),
    ("mlp", {}, {"batch": 8, "in": 64, "hidden": 128, "out": 16}, {"in": "x", "hidden": "y"}),
    ("mlp", {}, {"batch": 8, "in": 16, "hidden": 32, "out": 16}, {"batch": XY}),
    ("attention", {}, ATTENTION, {"heads": "y", "kv_heads": "y", "sequence": "x"}),
    ("attention", {}, ATTENTION, {"head_dim": "y", "kv_heads": "x"}),
    ("transformer_block", {}, BLOCK, {"heads": "y", "kv_heads": "y", "mlp": XY}),
    ("transformer_block", {}, BLOCK, {"batch": "x", "sequence": "y", "embed": XY}),
    ("transformer_block", {}, BLOCK, {"head_dim": "x", "kv_heads": "y", "mlp": YX}),
    (
        "train_step",
        {"model": "linear"},
        {"batch": 64, "in": 16, "out": 4},
        {"batch": "x", "in": "y"},
    ),
    ("train_step", {"model": "linear"}, {"batch": 256, "in": 32, "out": 8}, {"batch": XY}),
    (
        "train_step",
        {"model": "two-layer"},
        {"batch": 32, "in": 8, "hidden": 32, "out": 4},
        {"batch": "x", "hidden": "y"},
    ),
    (
        "train_step",
        {"model": "two-layer"},
        {"batch": 64, "in": 16, "hidden": 16, "out": 8},
        {"in": "x", "out": "y"},
    ),
    ("transfer", {"direction": "resident"}, {"bytes": 4096}, {"bytes": XY}),
    ("array", {}, {"d0": 16, "d1": 32}, {"d0": "x", "d1": "y"}),
    ("pipeline", {}, {"microbatches": 16, "rows": 4, "stages": 8, "embed": 16}, {"stages": XY}),
)
SUM_NEAR_0: Spec = ("contraction", {}, {"rows": 64, "cols": 64}, {"rows": XY})


def experiment_of(spec: Spec, dtype: str) -> Any:
    """Under every strategy that may express it."""
    workload, options, dims, sharding = spec
    what = WORKLOADS[workload]
    strategies = [
        name for name in (*SHARDING_STRATEGIES, *MAP_STRATEGIES, "place") if name in what.strategies
    ]
    return parse_experiment(
        {
            "target": "cpu:8",
            "mesh": {"x": 2, "y": 4},
            "workload": workload,
            "options": options,
            "dims": dims,
            "sharding": sharding,
            "dtype": dtype,
            "strategies": strategies,
        }
    )


def kinds_of_data(spec: Spec, dtype: str) -> list[dict[str, str]]:
    """Normal operands; and each kind of data that the workload may take, in its first operand
    and in all."""
    what = experiment_of(spec, dtype).what
    first, names = what.operands[0].name, [array.name for array in what.operands]
    kinds: list[dict[str, str]] = [{}]
    for kind in what.draws[1:]:
        kinds += [{first: kind}, dict.fromkeys(names, kind)]
    return kinds


def main(options: Asked, figures: Figures) -> None:
    cases = [
        (spec, dtype)
        for spec in SPECS
        for dtype in WORKLOADS[spec[0]].dtypes
        if options.of in (None, spec[0])
    ]
    seeds = {place: range(place, options.seeds, len(cases)) for place in range(len(cases))}
    counts: Counter[str] = Counter()
    began = time.monotonic()
    for place, (spec, dtype) in enumerate(cases):
        before = counts.copy()
        refusals = judged(
            Case(experiment_of(spec, dtype)), kinds_of_data(spec, dtype), seeds[place], counts
        )
        new = counts - before
        print(
            f"{spec[0]} {spec[3]} {dtype}: {new['answers']} answers, {new['refused']} refused",
            *refusals[:3],
            sep="\n  ",
            flush=True,
        )
    for dtype in ("float32", "bfloat16", "float16"):
        for refusal in judged(Case(experiment_of(SUM_NEAR_0, dtype)), [{}], [2134], counts):
            print(refusal)
    figures.add(
        "right answers refused",
        counts["refused"],
        f"of {counts['answers']}",
        most=0,
        note=f"{options.seeds:,} seeds, {counts['beyond']} not judged since beyond the dtype; "
        f"{time.monotonic() - began:.0f} s",
    )


def judged(case: Case, data: list[dict[str, str]], seeds: Any, counts: Counter[str]) -> list[str]:
    """What was refused, in words; `counts` gains how many answers there were, and how many of
    each kind."""
    told = []
    for seed, kinds in zip(seeds, itertools.cycle(data), strict=False):
        for trial in case.judged(seed=seed, data=kinds):
            counts["answers"] += 1
            if trial.correct is None:
                counts["beyond"] += 1
            elif not trial.correct:
                counts["refused"] += 1
                told.append(
                    f"{trial.strategy}, seed {seed}, data {kinds or 'normal'}: {trial.wrong}"
                )
    return told


if __name__ == "__main__":
    measure(main, __doc__, seeds=2000, of={"choices": sorted({spec[0] for spec in SPECS})})
