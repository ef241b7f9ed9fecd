"""Fifteen faults of the kind that sharding makes, planted in programs and their results, in every
dtype: which are caught. And twelve in what functions of one's own return, of which some pass the
dtype's largest number, some lose all digits, and some are scans: none may be called right.

    python -m bench.planted_faults [--seeds 3]

Each program runs on 8 simulated devices and is judged as a run is. A fault counts as caught in a
dtype where every seed catches it, and the same program without it is right. Of a function of one's
own, it may also be not judged. Exits with 1 where one is missed, or a right program is refused.
"""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}

import numpy as np

from bench.figures import Asked, Figures, measure
from bench.judging import Arrays, Case, Edit
from bench.own_faults import OUTPUTS, OWN, own_functions
from spmd_core.experiment import parse_experiment

DTYPES: tuple[str, ...] = ("float32", "bfloat16", "float16")
ALL = ["x", "y"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong: a change of the program's text (old, new), or of what it returns;
    `operands` is done to what it takes."""

    name: str
    workload: str
    dims: dict[str, int]
    sharding: dict[str, Any]
    text: tuple[tuple[str, str], ...] = ()
    output: Edit | None = None
    operands: Edit | None = None
    options: tuple[tuple[str, Any], ...] = ()
    strategy: str = "shard_map"


def zeros(arrays: Arrays) -> None:
    """Nothing was computed."""
    arrays["y"][...] = 0


def halves_swapped(arrays: Arrays) -> None:
    """Two shards exchanged."""
    arrays["y"][...] = np.roll(arrays["y"], len(arrays["y"]) // 2, axis=0)


def small_one_doubled(arrays: Arrays) -> None:
    """An element below 1, where another is e^8 or more."""
    flat = arrays["y"].reshape(-1)
    flat[np.abs(flat.astype(np.float64) - 0.5).argmin()] *= 2


def one_is_large(operands: Arrays) -> None:
    """One element of the result is 1e8, or what float16 holds of that."""
    operands["c"].reshape(-1)[0] = min(1e8, 6e4) if operands["c"].dtype == np.float16 else 1e8


def zeros_but_the_largest(arrays: Arrays) -> None:
    """The largest value alone is right."""
    flat = arrays["y"].reshape(-1)
    flat[np.abs(flat.astype(np.float64)) < np.abs(flat.astype(np.float64)).max()] = 0


def spread_over_e8(operands: Arrays) -> None:
    """Results from e^-8 to e^8."""
    operands["x"][...] = np.linspace(-2, 2, operands["x"].size).reshape(operands["x"].shape)


LOST = "(jax.lax.axis_index(CONTRACTED_AXES) > 0)"
BLOCK = {
    "batch": 2,
    "sequence": 16,
    "embed": 64,
    "heads": 8,
    "kv_heads": 8,
    "head_dim": 8,
    "mlp": 128,
}
FAULTS: tuple[Fault, ...] = (
    Fault(
        "an eighth of a sum is lost",
        "contraction",
        {"rows": 1024, "cols": 64},
        {"rows": ALL},
        (
            (
                "psum(x.sum(axis=0, dtype=SUM_DTYPE), ",
                f"psum(x.sum(axis=0, dtype=SUM_DTYPE) * {LOST}, ",
            ),
        ),
    ),
    Fault("all zeros, k=1024", "dot", {"n": 64, "k": 1024}, {"k": ALL}, output=zeros),
    Fault(
        "a replica is added",
        "matmul",
        {"batch": 2, "m": 16, "k": 1024, "n": 16},
        {"k": "x"},
        (
            ("CONTRACTED_AXES = ('x',)", "CONTRACTED_AXES = ('x', 'y')"),
            ("shard_map, mesh=mesh", "shard_map, check_vma=False, mesh=mesh"),
        ),
    ),
    Fault(
        "one 1e8 is right, the rest zeros",
        "matmul",
        {"batch": 2, "m": 16, "k": 64, "n": 16},
        {"k": "x"},
        output=zeros_but_the_largest,
        operands=one_is_large,
    ),
    Fault(
        "an eighth of a layer's sum is lost",
        "layer",
        {"batch": 16, "in": 1024, "out": 16},
        {"in": ALL},
        (("psum(product, ", f"psum(product * {LOST}, "),),
    ),
    Fault(
        "no sum over devices",
        "layer",
        {"batch": 16, "in": 64, "out": 16},
        {"in": ALL},
        (
            ("jax.lax.psum(product, CONTRACTED_AXES)", "product"),
            ("shard_map, mesh=mesh", "shard_map, check_vma=False, mesh=mesh"),
        ),
    ),
    Fault(
        "halos exchanged",
        "convolve",
        {"rows": 4, "length": 256, "width": 5},
        {"length": ALL},
        (("concatenate([before, x, after]", "concatenate([after, x, before]"),),
    ),
    Fault(
        "a halo is lost",
        "convolve",
        {"rows": 4, "length": 256, "width": 3},
        {"length": ALL},
        (("concatenate([before, x, after]", "concatenate([before * 0, x, after]"),),
    ),
    Fault(
        "each shard by its own sum",
        "normalize",
        {"rows": 1024, "cols": 16},
        {"rows": "x"},
        (("jax.lax.psum(", "("), (", CONTRACTED_AXES\n    )", "\n    )")),
    ),
    Fault(
        "shards exchanged",
        "elementwise",
        {"rows": 64, "cols": 16},
        {"rows": ALL},
        output=halves_swapped,
    ),
    Fault(
        "a small element doubled",
        "exponential",
        {"rows": 64},
        {"rows": ALL},
        output=small_one_doubled,
        operands=spread_over_e8,
        strategy="auto",
    ),
    Fault(
        "a quarter of the hidden layer is lost",
        "mlp",
        {"batch": 16, "in": 64, "hidden": 512, "out": 16},
        {"in": "x", "hidden": "y"},
        (
            (
                "psum(product, HIDDEN_AXES)",
                "psum(product * (jax.lax.axis_index(HIDDEN_AXES) > 0), HIDDEN_AXES)",
            ),
        ),
    ),
    Fault(
        "queries see too little",
        "attention",
        {"batch": 2, "sequence": 64, "heads": 8, "kv_heads": 8, "head_dim": 16},
        {"sequence": "x"},
        (("first=query.shape[-3] * jax.lax.axis_index(SEQUENCE_AXES)", "first=0"),),
    ),
    Fault(
        "an eighth of the block's mlp is lost",
        "transformer_block",
        BLOCK,
        {"mlp": ALL},
        (
            (
                "psum(dense(hidden, down_weights, dtype=SUM_DTYPE), ",
                "psum(dense(hidden, down_weights, dtype=SUM_DTYPE) * "
                "(jax.lax.axis_index(MLP_AXES) > 0), ",
            ),
        ),
    ),
    Fault(
        "gradients of one device alone",
        "train_step",
        {"batch": 256, "in": 32, "out": 8},
        {"batch": ALL},
        (
            ("jax.lax.pmean(gradients, BATCH_AXES)", "gradients"),
            ("shard_map, mesh=mesh", "shard_map, check_vma=False, mesh=mesh"),
        ),
    ),
)


def caught(fault: Fault, dtype: str, seeds: Sequence[int]) -> str | None:
    """Why a fault does not count as caught; None where it does."""
    experiment = parse_experiment(
        {
            "target": "cpu:8",
            "mesh": {"x": 2, "y": 4},
            "workload": fault.workload,
            "dims": fault.dims,
            "sharding": fault.sharding,
            "dtype": dtype,
            "strategies": [fault.strategy],
            "options": dict(fault.options),
        }
    )
    right = Case(experiment, operands=fault.operands)
    wrong = Case(
        experiment,
        change=lambda text: edited(text, fault.text),
        operands=fault.operands,
        output=fault.output,
    )
    for seed in seeds:
        if not all(trial.correct is True for trial in right.judged(seed=seed)):
            return f"seed {seed}: the program without it is not called right"
        if not all(trial.correct is False for trial in wrong.judged(seed=seed)):
            return f"seed {seed}: not caught"
    return None


def edited(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    """A program's text with the fault in it; a text that has no place for it is an error of
    this script."""
    for old, new in pairs:
        if old not in text:
            raise SystemExit(f"{old!r} is not in the program's text:\n{text}")
        text = text.replace(old, new)
    return text


def main(options: Asked, figures: Figures) -> None:
    seeds = range(options.seeds)
    with tempfile.NamedTemporaryFile("w", suffix=".py") as own:
        own.write(OWN)
        own.flush()
        os.environ["SPMD_LAB_WORKLOADS"] = own.name
        right = {dtype: own_functions(dtype, seeds) for dtype in DTYPES}
        missed = dict.fromkeys(DTYPES, 0)
        for fault in FAULTS:
            told = {dtype: caught(fault, dtype, seeds) for dtype in DTYPES}
            for dtype, why in told.items():
                missed[dtype] += why is not None
            print(
                f"{fault.workload}: {fault.name}: "
                + (
                    "caught"
                    if not any(told.values())
                    else "; ".join(f"{dtype}: {why}" for dtype, why in told.items() if why)
                ),
                flush=True,
            )
    for dtype in DTYPES:
        figures.add(
            f"planted faults caught, {dtype}",
            len(FAULTS) - missed[dtype],
            f"of {len(FAULTS)}",
            least=len(FAULTS),
        )
        called_right = sum(len(set(told) - {"honest"}) for told in right[dtype])
        count = len(right[dtype]) * len(OUTPUTS)
        what = f"faults of own functions called right, {dtype}"
        figures.add(what, called_right, f"of {count}", most=0)
        refused = sum("honest" in told for told in right[dtype])
        figures.add(f"right answers of these refused, {dtype}", refused, most=0)


if __name__ == "__main__":
    measure(main, __doc__, seeds=3)
