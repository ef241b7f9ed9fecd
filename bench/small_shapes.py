"""Results of rank 0, of sizes 0 and 1 and of one element per device, in every dtype, by every judge:
workloads with a formula, functions of one's own, exported programs and exported scripts. How many
end in an exception of ours, and in how many a planted fault is found.

    python -m bench.small_shapes

A refusal in one sentence counts as an answer. Exits with 1 where there is an exception, or a fault
that is not found.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "8"}

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.figures import Asked, Figures, measure
from bench.judging import Arrays, Case
from spmd_core.base import RequestError
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.exported.reference import program_references
from spmd_core.engine.lower import execute, structs
from spmd_core.experiment import parse_experiment
from spmd_core.script import program_text, script_text
from spmd_core.workloads import programs

FLOATS = ("float32", "bfloat16", "float16")
OWN = """
import jax.numpy as jnp
from spmd_core.declare import workload

ROWS = {"rows": 8}


@workload(operands={"x": ("rows",)}, results={"y": ()}, defaults=ROWS)
def own_total(x):
    return (x * x).sum() + 1


@workload(operands={"x": ("rows",)}, results={"y": ("rows",), "z": ()}, defaults=ROWS)
def own_both(x):
    return x * 2 + 1, (x * x).sum() + 1


@workload(operands={"x": (), "v": ("rows",)}, results={"y": ("rows",)}, defaults=ROWS)
def own_scaled(x, v):
    return x * v + 3


@workload(operands={"x": ("rows",)}, results={"y": ()}, defaults=ROWS)
def own_count(x):
    return (x > -9).sum()


@workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults=ROWS)
def own_positive(x):
    return x > -9


@workload(operands={"x": ("rows",)}, results={"y": ()}, defaults=ROWS)
def own_number(x):
    return 3.0
"""
OWN_FUNCTIONS = ("own_total", "own_both", "own_scaled", "own_count", "own_positive", "own_number")
FORMULAS: tuple[tuple[str, dict[str, int], tuple[str, ...]], ...] = (
    ("contraction", {"rows": 8, "cols": 1}, (*FLOATS, "int32")),
    ("dot", {"n": 1, "k": 8}, (*FLOATS, "int32")),
    ("layer", {"in": 8, "out": 1}, FLOATS),
    ("elementwise", {"rows": 1, "cols": 1}, FLOATS),
    ("normalize", {"rows": 8, "cols": 1}, FLOATS),
    ("array", {"d0": 1}, (*FLOATS, "int32", "int8")),
)


def _scattered(x: Any) -> Any:
    """Sums in one element; of bool, which has none, the largest."""
    at = jnp.ones((1,), x.dtype).at[jnp.zeros(8, int)]
    return at.max(x) if x.dtype == bool else at.add(x)


STEPS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "rank 0": (lambda x: x * 2 + 1, ()),
    "sum to rank 0": (lambda x: x.sum() + 1, (8,)),
    "size 0": (lambda x: x * 2 + 1, (0,)),
    "sum of size 0": (lambda x: x.sum(0) + 1, (0, 4)),
    "size 1": (lambda x: x * 2 + 1, (1,)),
    "one element per device": (lambda x: x * 2 + 1, (8,)),
    "scattered into size 1": (lambda x: _scattered(x), (8,)),
}
PROGRAM_DTYPES = (*FLOATS, "int32", "int8", "uint32", "bool", "complex64")


def changed(arrays: Arrays) -> None:
    """The first element of the last result is another."""
    last = list(arrays)[-1]
    arrays[last] = other(arrays[last])


def other(result: np.ndarray) -> np.ndarray:
    """With another first element; of none, itself."""
    flat = np.array(result).reshape(-1)
    if flat.size:
        flat[0] = not flat[0] if flat.dtype == bool else flat[0] * 2 + 5
    return flat.reshape(result.shape)


def of_experiment(fields: dict[str, Any]) -> tuple[bool | None, bool | None]:
    """(the verdict of the result, the verdict of that with a fault); None: not judged."""
    case = Case(parse_experiment({"target": "cpu:8", "mesh": {"x": 8}} | fields))
    right, wrong = case.judged_with([None, changed], seed=0)
    assert not any(fact.kind in ("function fails", "one device fails") for fact in right.facts)
    return right.correct, wrong.correct


def of_program(name: str, dtype: str) -> tuple[bool | None, bool | None]:
    """The same of an exported program; one that has no element is right as it is."""
    step, shape = STEPS[name]
    spec = P("x") if shape[:1] == (8,) else P()
    sharding = NamedSharding(abstract_mesh({"x": 8}), spec)
    x = jax.ShapeDtypeStruct(shape, jnp.dtype(dtype), sharding=sharding)
    program = programs.take(written(lambda x: step(x), {"x": x})).program
    fields = {"workload": "program_file", "program": program, "target": "cpu:8"}
    experiment = parse_experiment(fields | {"mesh": {"x": 8}})
    names = complete(execute(program_text(experiment, "auto"), "f.py"), experiment)
    found = names["program"].trace(*structs(experiment, names)).lower().compile()
    drawn = names["make_operands"]()
    assert experiment.exported is not None
    (right,) = program_references(experiment.exported, drawn, "cpu", 0).values()
    (given,) = found(*(jax.device_put(drawn[path], names["placed"][path]) for path in drawn))
    result = np.asarray(given)
    verdict = right.judge(other(result)).correct if result.size else False
    return right.judge(result).correct, verdict


def of_script(fields: dict[str, Any]) -> tuple[bool | None, bool | None]:
    """The same of an exported script, whose fault is in its report."""
    timing = {"samples": 2, "min_seconds": 0.01}
    spec = {"target": "cpu:8", "mesh": {"x": 8}, "timing": timing} | fields
    text = script_text(parse_experiment(spec))
    old = "        values = np.asarray(array)\n"
    assert old in text
    wrong = text.replace(old, "        values = np.asarray(array) * 2 + 5\n")
    return _ends_well(text), _ends_well(wrong)


def _ends_well(text: str) -> bool:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert "Traceback" not in done.stderr, done.stderr[-300:]
    return done.returncode == 0


def cells() -> Iterator[tuple[str, Callable[[], tuple[bool | None, bool | None]]]]:
    """Every cell by its name, and what judges it."""
    for workload, dims, dtypes in FORMULAS:
        for dtype in dtypes:
            fields = {"workload": workload, "dims": dims, "dtype": dtype}
            named = {**fields, "strategies": ["place" if workload == "array" else "auto"]}
            yield f"{workload} {dims} {dtype}", lambda named=named: of_experiment(named)
    for workload in OWN_FUNCTIONS:
        for dtype in FLOATS:
            fields = {"workload": workload, "dtype": dtype, "strategies": ["auto"]}
            yield f"{workload} {dtype}", lambda fields=fields: of_experiment(fields)
    for name in STEPS:
        for dtype in PROGRAM_DTYPES:
            yield f"{name} {dtype}", lambda name=name, dtype=dtype: of_program(name, dtype)
    for workload in ("own_total", "own_both", "own_count"):
        fields = {"workload": workload, "dtype": "bfloat16", "strategies": ["auto"]}
        yield f"script of {workload}", lambda fields=fields: of_script(fields)


def main(options: Asked, figures: Figures) -> None:
    count = raised = refused = missed = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, "own.py")
        own.write_text(OWN, "utf-8")
        os.environ |= {"SPMD_LAB_WORKLOADS": str(own), "SPMD_LAB_DATA": folder}
        for name, judge in cells():
            count += 1
            try:
                right, fault = judge()
            except RequestError as refusal:
                refused += 1
                print(f"{name}: refused: {refusal}", flush=True)
                continue
            except Exception as error:  # what the figure counts
                raised += 1
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                continue
            wrong += right is False
            missed += fault is not False
            if right is not True or fault is not False:
                print(f"{name}: {right}, with a fault {fault}", flush=True)
    figures.add("cells that end in an exception of ours", raised, f"of {count}", most=0)
    figures.add("right results called wrong", wrong, f"of {count}", most=0)
    figures.add("planted faults not found", missed, f"of {count - refused}", most=0)
    figures.add("refused in one sentence", refused, f"of {count}")


if __name__ == "__main__":
    measure(main, __doc__)
