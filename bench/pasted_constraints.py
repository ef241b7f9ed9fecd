"""Compares constraints that the lab inserts into a program with the same line pasted into its source.

    python -m bench.pasted_constraints

20 constraints: five values of a step, two specs each, with and without gradients. Each is inserted at its
line, and pasted after it, traced again and exported. Equal are all collectives of the partitioned
programs: kind, axes, bytes, count. Under `grad` a pasted line constrains the cotangent, too, and so
does the inserted one, where one value of the backward pass is that.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spmd_core.machine import ENVIRONMENT

os.environ |= ENVIRONMENT  # before jax is imported
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.figures import Asked, Figures, measure
from bench.lost_batches import taken
from spmd_core.engine.partitioned import partitioned
from spmd_core.experiment import Experiment

MESH = abstract_mesh({"data": 2, "tensor": 4})
SOURCE: str = """def loss(w, x):
    a = x @ w["up"]
    b = jnp.tanh(a)
    c = b @ w["down"]
    d = c * jax.lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-6)
    e = d @ w["out"]
    return (e ** 2).mean()
"""
LINES = {2: "a", 3: "b", 4: "c", 5: "d", 6: "e"}
SPECS: tuple[tuple[str | None, ...], ...] = (("data", None), ("tensor", None))


def exported_source(source: str, folder: Path, is_trained: bool) -> Experiment:
    """Returns the experiment of a step whose loss is such a text, written to `model.py`."""
    path = folder / "model.py"
    path.write_text(source)
    names: dict[str, Any] = {
        "jnp": jnp,
        "jax": jax,
        "P": P,
        "MESH": MESH,
        "NamedSharding": NamedSharding,
    }
    exec(compile(source, str(path), "exec"), names)
    loss = names["loss"]
    step = (lambda w, x: jax.grad(loss)(w, x)) if is_trained else loss

    def array(*shape: int, spec: P) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, spec))

    w = {
        "up": array(64, 256, spec=P("data", "tensor")),
        "down": array(256, 64, spec=P("tensor", "data")),
        "out": array(64, 128, spec=P(None, "tensor")),
    }
    return taken(written(step, {"w": w, "x": array(32, 64, spec=P("data"))}))


def _pairs(folder: Path) -> Iterator[tuple[str, Experiment, Experiment]]:
    """Each constraint as it is inserted, and as it is pasted."""
    for is_trained in (False, True):
        base = exported_source(SOURCE, folder, is_trained)
        for line, name in LINES.items():
            for spec in SPECS:
                rows: list[str] = SOURCE.splitlines(keepends=True)
                held = f"NamedSharding(MESH, P{spec!r})"
                rows.insert(
                    line, f"    {name} = jax.lax.with_sharding_constraint({name}, {held})\n"
                )
                pasted = exported_source("".join(rows), folder, is_trained)
                specs = {f"@model.py:{line}": list(spec)}
                words = f"{name} as P{spec!r}{', trained' if is_trained else ''}"
                yield words, base.vary(specs=specs), pasted


def _facts(experiment: Experiment) -> Counter[Any]:
    found = partitioned(experiment, "auto").collectives
    return Counter((each.kind, each.axes, each.bytes, each.count) for each in found)


def main(asked: Asked, figures: Figures) -> None:
    """Compare each pair."""
    equal = Counter[bool]()
    with tempfile.TemporaryDirectory() as folder:
        for words, inserted, pasted in _pairs(Path(folder)):
            ours, theirs = _facts(inserted), _facts(pasted)
            trained = words.endswith("trained")
            equal[trained] += ours == theirs
            if ours != theirs:
                print(f"{words}: {dict(ours - theirs)} inserted, {dict(theirs - ours)} pasted")
    figures.add("equal collectives, forward, of 10", equal[False], least=10)
    figures.add("equal collectives, with gradients, of 10", equal[True], least=10)


if __name__ == "__main__":
    measure(main, __doc__)
