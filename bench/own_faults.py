"""Twelve faults in what functions of one's own return: of one that passes float16's largest number,
a scan, one that loses all digits, and one that is none of these."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.judging import Arrays, Case, Edit
from spmd_core.experiment import parse_experiment

OWN = """
import jax.numpy as jnp
from spmd_core.declare import workload

SIZES = {"rows": 64, "cols": 64}


@workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 64})
def exponential(x):
    return jnp.exp(4 * x)


@workload(operands={"x": ("rows", "cols")}, results={"y": ("rows", "cols")}, defaults=SIZES)
def unit_norm(x):
    return x / jnp.sqrt((x * x).sum())


@workload(operands={"x": ("rows", "cols")}, results={"y": ("rows", "cols")}, defaults=SIZES)
def running_sum(x):
    return jnp.cumsum(x, axis=1)


@workload(operands={"x": ("rows", "cols")}, results={"y": ("rows", "cols")}, defaults=SIZES)
def chaotic(x):
    x = 1 / (1 + jnp.exp(-x))
    for _ in range(40):
        x = 3.9 * x * (1 - x)
    return x


@workload(operands={"x": ("rows", "cols")}, results={"y": ("rows", "cols")}, defaults=SIZES)
def centered(x):
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
"""
OWN_FUNCTIONS = ("unit_norm", "running_sum", "chaotic", "centered")
OWN_COLS = (64, 512, 4096)  # of 64 rows, sharded over all devices


def changed(change: Callable[[np.ndarray], Any]) -> Edit:
    """A change of the result as one expression."""

    def edit(arrays: Arrays) -> None:
        arrays["y"] = np.asarray(change(arrays["y"])).astype(arrays["y"].dtype)

    return edit


def part(first: int, value: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """The result with one of its eight parts along the columns replaced."""

    def replaced(y: np.ndarray) -> np.ndarray:
        parts = np.split(y, 8, axis=1)
        parts[first] = np.broadcast_to(value(y), parts[first].shape)
        return np.concatenate(parts, axis=1)

    return replaced


OUTPUTS: dict[str, Edit] = {
    "zeros": changed(np.zeros_like),
    "negated": changed(np.negative),
    "doubled": changed(lambda y: 2 * y),
    "halved": changed(lambda y: y / 2),
    "0.5 everywhere": changed(lambda y: np.full_like(y, 0.5)),
    "its mean everywhere": changed(lambda y: np.full_like(y, y.astype(np.float64).mean())),
    "halves exchanged": changed(lambda y: np.roll(y, y.shape[1] // 2, axis=1)),
    "columns reversed": changed(lambda y: y[:, ::-1]),
    "the last part zeros": changed(part(7, lambda y: y.dtype.type(0))),
    "the first part again as the last": changed(part(7, lambda y: y[:, : y.shape[1] // 8])),
    "infinite": changed(lambda y: np.full_like(y, np.inf)),
    "no number": changed(lambda y: np.full_like(y, np.nan)),
}


def passed(function: str, cols: int, dtype: str, seed: int = 0) -> list[str]:
    """Of a function of one's own that is sharded along its columns: the faults of its result that
    are called right, and `honest` where the result itself is called wrong."""
    experiment = parse_experiment(
        {
            "target": "cpu:8",
            "mesh": {"x": 8},
            "workload": function,
            "dims": {"rows": 64, "cols": cols},
            "sharding": {"cols": "x"},
            "dtype": dtype,
            "strategies": ["auto"],
        }
    )
    honest, *trials = Case(experiment).judged_with([None, *OUTPUTS.values()], seed=seed)
    told = [name for name, trial in zip(OUTPUTS, trials, strict=True) if trial.correct]
    return [*told, *(["honest"] if honest.correct is False else [])]


def own_functions(dtype: str, seeds: Sequence[int]) -> list[list[str]]:
    """What `passed` says of each function, size and seed; a line for each that it says something
    of."""
    found = []
    for function, cols, seed in itertools.product(OWN_FUNCTIONS, OWN_COLS, seeds):
        found.append(passed(function, cols, dtype, seed))
        if found[-1]:
            print(f"{function}, {cols} columns, {dtype}, seed {seed}: {', '.join(found[-1])}")
    return found
