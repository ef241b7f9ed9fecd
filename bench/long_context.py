"""Attention along a sharded sequence on 8 simulated devices: values against one device, bytes of
each collective against the closed form, and the same kinds requested from the TPU compiler.

    python -m bench.long_context

Through the worker: a minute. tests/workloads runs some of the cases.
"""

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.figures import Asked, Figures, measure
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.lab import Lab
from spmd_core.workloads import DTYPE_BYTES, SEQUENCE_STRATEGIES

MESH = {"x": 2, "y": 4}
ALL_DEVICES = ["x", "y"]
TPU = "tpu:v5e:2x4"
DIMS = {"batch": 2, "sequence": 64, "heads": 16, "kv_heads": 16, "head_dim": 8}
KINDS = ("shard_map", *SEQUENCE_STRATEGIES)
Moved = Counter[tuple[str, tuple[str, ...], int]]  # kind, axes, bytes of one execution -> times
# dims, sharding, mask, dtype
CASES: list[tuple[dict[str, int], dict[str, Any], str, str]] = [
    ({}, {"sequence": ALL_DEVICES}, "causal", "float32"),
    ({}, {"sequence": ALL_DEVICES}, "full", "float32"),
    ({"kv_heads": 4}, {"sequence": ALL_DEVICES}, "causal", "bfloat16"),
    ({"kv_heads": 1}, {"sequence": ALL_DEVICES}, "causal", "float32"),
    ({"kv_heads": 2}, {"sequence": "y", "batch": "x"}, "full", "bfloat16"),
    ({"kv_heads": 8}, {"sequence": "y", "heads": "x", "kv_heads": "x"}, "causal", "float32"),
    ({"kv_heads": 6, "heads": 24}, {"sequence": "y"}, "causal", "float32"),
    ({"kv_heads": 4}, {"sequence": "x", "head_dim": "y"}, "causal", "float32"),
    ({"batch": 1, "sequence": 512}, {"sequence": ALL_DEVICES}, "causal", "bfloat16"),
]


def experiment(case: tuple[dict[str, int], dict[str, Any], str, str], **more: Any) -> Experiment:
    """A case on 8 devices, under every kind of attention along the sequence."""
    dims, sharding, mask, dtype = case
    return parse_experiment(
        {
            "target": "cpu:8",
            "mesh": MESH,
            "workload": "attention",
            "dims": DIMS | dims,
            "sharding": sharding,
            "options": {"mask": mask},
            "dtype": dtype,
            "strategies": KINDS,
            "timing": {"samples": 1, "min_seconds": 0.0},
        }
        | more
    )


def closed_form(chosen: Experiment, strategy: str) -> Moved:
    """Bytes a device of each collective that moves queries, keys, values or results along the
    sequence: the larger of operand and result. Sums of scores over head_dim are not among them.
    """
    sizes, table = chosen.sizes, dict(chosen.sharding)
    parts = {
        dim: math.prod(chosen.axis_sizes[axis] for axis in table.get(dim, ()))
        for dim in chosen.what.dims
    }
    axes = tuple(axis for axis in chosen.axis_sizes if axis in table["sequence"])
    count = parts["sequence"]
    rows = math.prod(sizes[dim] // parts[dim] for dim in ("batch", "sequence", "head_dim"))
    # XLA moves bfloat16 as float32 on CPU devices
    head = rows * (DTYPE_BYTES[chosen.dtype] if chosen.place.is_absent else 4)
    heads, keys = (sizes[dim] // parts[dim] for dim in ("heads", "kv_heads"))
    query, key = heads * head, keys * head
    if strategy == "shard_map":
        return Counter({("all-gather", axes, count * key): 2})
    if strategy == "ulysses":
        repeated = math.lcm(keys, count) * head
        moved: Moved = Counter({("all-to-all", axes, query): 2})
        moved[("all-to-all", axes, repeated)] += 2
        return moved
    moved = Counter({("collective-permute", axes, key): 2 * (count - 1)})
    if strategy == "zigzag":  # halves of queries and results, then of keys and values
        for half in ((), axes) if count == 2 else (axes, axes):  # of two devices one half stays
            moved[("collective-permute", half, query // 2)] += 2
            moved[("collective-permute", half, key // 2)] += 2
    return moved


def differing(lab: Lab, case: Any, **more: Any) -> Iterator[str]:
    """What is not as it should be, a sentence each."""
    chosen = experiment(case, **more)
    run = lab.submit(chosen)
    lab.wait(run)
    result = lab.result(run)
    assert result is not None, run
    for name, outcome in result.strategies.items():
        absent = chosen.place.is_absent
        right = (outcome.status, outcome.correct) == ("ok", None if absent else True)
        if outcome.error and outcome.error.kind == "inexpressible":
            if not is_refused(chosen, name):
                yield f"{name} refused: {outcome.error.message}"
            continue
        if not right or is_refused(chosen, name):
            yield f"{name}: {outcome.status}, right {outcome.correct} {outcome.error or ''}"
            continue
        prediction = outcome.prediction
        listed = outcome.collectives or (prediction.collectives if prediction else ()) or ()
        found: Moved = Counter()
        for each in listed:
            kind = (each.asked or each.kind) if absent else each.kind
            if kind != "all-reduce":
                found[(kind, each.axes, each.bytes)] += each.count or 0
        expected = closed_form(chosen, name)
        if absent:  # a compiler may fuse, unroll and combine: the kinds that were requested
            if {kind for kind, *_ in found} != {kind for kind, *_ in expected}:
                yield f"{name} on {chosen.target}: {dict(found)} instead of {dict(expected)}"
        elif found != expected:
            yield f"{name}: {dict(found)} instead of {dict(expected)}"


def is_refused(chosen: Experiment, strategy: str) -> bool:
    """Whether a kind cannot compute a case by its rule: of all heads of a device, Ulysses needs a
    multiple of the shards; the balanced order is of a causal mask.
    """
    table = dict(chosen.sharding)
    shards, over_heads = (
        math.prod(chosen.axis_sizes[axis] for axis in table.get(dim, ()))
        for dim in ("sequence", "heads")
    )
    if strategy == "ulysses":
        return chosen.sizes["heads"] // over_heads % shards > 0
    return strategy == "zigzag" and chosen.option("mask") == "full"


def main(_: Asked, figures: Figures) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.open(Path(folder))
        for what, more in (
            ("values wrong, or bytes off the closed form", {}),
            (
                "kinds that differ on v5e",
                {"target": TPU, "dims": {**DIMS, "batch": 1, "sequence": 2048, "head_dim": 128}},
            ),
        ):
            bad = 0
            for case in CASES:
                for sentence in differing(lab, case, **_with_heads(case, more)):
                    bad += 1
                    print(f"{case}: {sentence}", flush=True)
            figures.add(what, bad, f"of {len(CASES)} cases x {len(KINDS)} kinds", most=0)
        lab.close()


def _with_heads(case: Any, more: dict[str, Any]) -> dict[str, Any]:
    """The sizes of a TPU's case, with the heads of the case and a batch that its mesh divides."""
    if not more:
        return more
    own = {dim: size for dim, size in case[0].items() if dim in ("heads", "kv_heads")}
    batch = {"batch": 2} if "batch" in case[1] else {}
    return more | {"dims": more["dims"] | own | batch}


if __name__ == "__main__":
    measure(main, __doc__)
