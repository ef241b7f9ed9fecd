"""Every workload under every strategy, however it is cut: right values, or the sentence that a
strategy cannot express it; the cases whose outcome is another are named.

    python -m bench.every_cut

Through the worker, on 8 simulated devices: two minutes. tests/workloads runs one case of
each workload and of each word of its options.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.results import StrategyResult
from spmd_core.workloads.strategies import MAP_STRATEGIES, SHARDING_STRATEGIES

MESH = {"x": 2, "y": 4}
ALL_DEVICES = ["x", "y"]
QUICK = {"samples": 1, "min_seconds": 0.0}
# one device against the maps; the strategies that shard have cases of their own
MAPS = ("single", *MAP_STRATEGIES)
OVER_THE_MESH = tuple(name for name in SHARDING_STRATEGIES if name != "single")
ATTENTION = {"batch": 2, "sequence": 16, "heads": 8, "kv_heads": 4, "head_dim": 4}
BLOCK = {
    "batch": 2,
    "sequence": 16,
    "embed": 8,
    "heads": 8,
    "kv_heads": 4,
    "head_dim": 4,
    "mlp": 16,
}
SMALL = {"batch": 2, "sequence": 4, "heads": 4, "kv_heads": 2, "head_dim": 2}
TOO_MANY = ("pmap", "jit(pmap)", "pmap(jit)")
Mapped = tuple[str, dict[str, str], dict[str, int], dict[str, Any], tuple[str, ...]]
Sharded = tuple[str, dict[str, str], dict[str, int], dict[str, Any]]

# workload, options, dims, sharding, strategies that cannot express it
MAPPED: list[Mapped] = [
    ("elementwise", {}, {"rows": 8, "cols": 4}, {"rows": ALL_DEVICES}, ()),
    ("contraction", {}, {"rows": 6, "cols": 8}, {"cols": ALL_DEVICES}, ()),
    ("contraction", {}, {"rows": 16}, {"rows": ALL_DEVICES}, ("pmap(vmap)",)),
    ("layer", {}, {"batch": 8, "in": 6, "out": 4}, {"batch": ALL_DEVICES}, ()),
    (
        "layer",
        {"in_axes": "1, 0, None"},
        {"batch": 4, "in": 16, "out": 4},
        {"in": ALL_DEVICES},
        ("pmap(vmap)",),
    ),
    ("layer", {"in_axes": "None, 1, 0"}, {"batch": 4, "in": 6, "out": 8}, {"out": ALL_DEVICES}, ()),
    ("dot", {}, {"n": 8, "k": 3}, {"n": ALL_DEVICES}, ()),
    ("dot", {}, {"n": 16, "k": 3}, {"n": ALL_DEVICES}, TOO_MANY),
    ("matmul", {}, {"batch": 8, "m": 2, "k": 3, "n": 4}, {"batch": ALL_DEVICES}, ()),
    ("matmul", {}, {"m": 8, "k": 3, "n": 4}, {"m": ALL_DEVICES}, ()),
    ("product", {}, {"m": 8, "k": 3, "n": 4}, {"m": ALL_DEVICES}, ()),
    ("convolve", {}, {"rows": 8, "length": 32, "width": 5}, {"rows": ALL_DEVICES}, ()),
    (
        "normalize",
        {"over": "rows"},
        {"rows": 16, "cols": 4},
        {"rows": ALL_DEVICES},
        ("pmap(vmap)",),
    ),
    ("normalize", {"over": "cols"}, {"rows": 8, "cols": 4}, {"rows": ALL_DEVICES}, ()),
    (
        "normalize",
        {"over": "both"},
        {"rows": 16, "cols": 4},
        {"rows": ALL_DEVICES},
        ("pmap(vmap)",),
    ),
    ("mlp", {}, {"batch": 8, "in": 6, "hidden": 10, "out": 4}, {"batch": ALL_DEVICES}, ()),
    ("attention", {}, SMALL | {"batch": 8}, {"batch": ALL_DEVICES}, ()),
    ("attention", {"mask": "full"}, SMALL | {"batch": 8}, {"batch": ALL_DEVICES}, ()),
    (
        "attention",
        {"in_axes": "1, 1, 1"},
        SMALL | {"sequence": 16},
        {"sequence": ALL_DEVICES},
        ("pmap(vmap)",),
    ),
    (
        "transformer_block",
        {},
        SMALL | {"batch": 8, "embed": 8, "mlp": 6},
        {"batch": ALL_DEVICES},
        (),
    ),
    (
        "train_step",
        {"model": "linear"},
        {"batch": 16, "in": 6, "out": 4},
        {"batch": ALL_DEVICES},
        ("pmap(vmap)",),
    ),
    (
        "train_step",
        {"model": "two-layer"},
        {"batch": 16, "in": 6, "hidden": 10, "out": 4},
        {"batch": ALL_DEVICES},
        ("pmap(vmap)",),
    ),
    # Add a case that maps above this line.
]
SHARDED: list[Sharded] = [
    ("elementwise", {}, {"rows": 8, "cols": 8}, {"rows": "x", "cols": "y"}),
    ("contraction", {}, {"rows": 8, "cols": 8}, {"rows": "y", "cols": "x"}),
    ("layer", {}, {"batch": 4, "in": 16, "out": 8}, {"batch": "x", "in": "y"}),
    ("dot", {}, {"n": 4, "k": 16}, {"n": "x", "k": "y"}),
    ("product", {}, {"m": 8, "k": 8, "n": 6}, {"m": "x", "k": "y"}),
    ("matmul", {}, {"batch": 2, "m": 8, "k": 8, "n": 8}, {"batch": "x", "k": "y"}),
    ("matmul", {}, {"batch": 3, "m": 8, "k": 5, "n": 8}, {"m": "x", "n": "y"}),
    ("convolve", {}, {"rows": 4, "length": 32, "width": 4}, {"rows": "x", "length": "y"}),
    (
        "convolve",
        {},
        {"rows": 3, "length": 64, "width": 16},
        {"length": ALL_DEVICES, "width": ["x"]},
    ),
    ("normalize", {"over": "rows"}, {"rows": 8, "cols": 8}, {"rows": "x", "cols": "y"}),
    ("normalize", {"over": "cols"}, {"rows": 8, "cols": 8}, {"rows": "x", "cols": "y"}),
    ("normalize", {"over": "both"}, {"rows": 8, "cols": 8}, {"rows": "x", "cols": "y"}),
    ("mlp", {}, {"batch": 4, "in": 8, "hidden": 16, "out": 4}, {"batch": "x", "hidden": "y"}),
    ("mlp", {}, {"batch": 4, "in": 8, "hidden": 16, "out": 4}, {"in": "x", "out": "y"}),
    ("attention", {"mask": "causal"}, ATTENTION, {"heads": "y", "kv_heads": "y", "batch": "x"}),
    ("attention", {"mask": "full"}, ATTENTION, {"sequence": "x", "heads": "y", "kv_heads": "y"}),
    ("attention", {}, ATTENTION, {"heads": ALL_DEVICES}),
    ("attention", {}, ATTENTION, {"heads": ALL_DEVICES, "kv_heads": ["x"]}),
    ("attention", {}, ATTENTION, {"heads": "x", "kv_heads": "y"}),
    ("attention", {}, ATTENTION | {"kv_heads": 1}, {"heads": "x", "sequence": "y"}),
    ("attention", {}, ATTENTION, {"sequence": ["y", "x"]}),
    ("attention", {}, ATTENTION, {"head_dim": "y", "kv_heads": "x"}),
    ("transformer_block", {}, BLOCK, {"batch": "x", "embed": "x"}),
    ("transformer_block", {}, BLOCK, {"heads": "y", "kv_heads": "y", "mlp": "y"}),
    ("transformer_block", {}, BLOCK, {"batch": "x", "embed": "x", "heads": "y", "mlp": "y"}),
    ("transformer_block", {}, BLOCK, {"batch": "x", "sequence": "y", "embed": ["x", "y"]}),
    ("transformer_block", {}, BLOCK, {"head_dim": "x", "kv_heads": "y", "mlp": ["y", "x"]}),
    ("train_step", {"model": "linear"}, {"batch": 8, "in": 8, "out": 4}, {"batch": "x", "in": "y"}),
    (
        "train_step",
        {"model": "linear"},
        {"batch": 8, "in": 8, "out": 4},
        {"batch": "x", "out": "y"},
    ),
    (
        "train_step",
        {"model": "two-layer"},
        {"batch": 8, "in": 4, "hidden": 8, "out": 4},
        {"batch": "x", "hidden": "y"},
    ),
    (
        "train_step",
        {"model": "two-layer"},
        {"batch": 8, "in": 4, "hidden": 8, "out": 4},
        {"in": "x", "out": "y"},
    ),
    ("transfer", {"direction": "host_to_device"}, {"bytes": 64}, {"bytes": ALL_DEVICES}),
    ("transfer", {"direction": "device_to_host"}, {"bytes": 64}, {"bytes": "y"}),
    ("transfer", {"direction": "resident"}, {"bytes": 64}, {}),
    (
        "pipeline",
        {},
        {"microbatches": 6, "rows": 4, "repeats": 2, "stages": 8, "embed": 8},
        {"stages": "y", "rows": "x"},
    ),
    # Add a case that shards above this line.
]


def outcomes(
    lab: Lab, case: Sequence[Any], strategies: Sequence[str]
) -> Mapping[str, StrategyResult]:
    """Strategy -> what a run of a case gave; a run that was there before is not repeated."""
    workload, options, dims, sharding = case[:4]
    experiment = parse_experiment(
        {
            "target": "cpu:8",
            "mesh": MESH,
            "workload": workload,
            "options": options,
            "dims": dims,
            "sharding": sharding,
            "strategies": strategies,
            "timing": QUICK,
        }
    )
    run = lab.latest(experiment) or lab.submit(experiment)
    lab.wait(run)
    result = lab.result(run)
    assert result is not None, run
    return result.strategies


def wrong(found: Mapping[str, StrategyResult], beyond: Sequence[str] = ()) -> Iterator[str]:
    """What is not as it should be: right, and a refusal in a sentence where it is `beyond` the
    strategy.
    """
    for name, outcome in found.items():
        message = outcome.error.message if outcome.error else ""
        if name not in beyond:
            if outcome.status != "ok" or outcome.correct is not True:
                yield f"{name}: {outcome.status}, correct {outcome.correct} {message}"
        elif not (
            outcome.error
            and outcome.error.kind == "inexpressible"
            and message.startswith(f"{name} cannot ")
            and "; use " in message
        ):
            yield f"{name} should refuse: {outcome.status} {message}"


def main(_: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        bad = 0
        for case, strategies, beyond in (
            *((case, MAPS, case[4]) for case in MAPPED),
            *((case, OVER_THE_MESH, ()) for case in SHARDED),
        ):
            for sentence in wrong(outcomes(lab, case, strategies), beyond):
                bad += 1
                print(f"{case[0]} {case[1]} {case[3]}: {sentence}", flush=True)
        lab.close()
    figures.add(
        "cuts that are wrong, or refused for no reason",
        bad,
        f"of {len(MAPPED)} and {len(SHARDED)} cuts",
        most=0,
    )


if __name__ == "__main__":
    measure(main, __doc__)
