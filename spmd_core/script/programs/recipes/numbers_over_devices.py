"""The same key gives the same array on any number of devices, each device drawing its own part."""

import re

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

COUNT = 32
SEED = 42


def draw(key):
    return jax.random.normal(key, (COUNT,))


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    key = jax.random.key(SEED)
    results: dict[str, jax.Array | str] = {}
    for count in (size for size in (1, 2, 8) if size <= mesh.size):
        some = jax.make_mesh(
            (count,), ("x",), axis_types=(AxisType.Auto,), devices=list(mesh.devices.flat)[:count]
        )
        sharded = jax.jit(draw, out_shardings=NamedSharding(some, P("x")))
        results[f"on_{count}"] = sharded(key)
        hlo = sharded.lower(key).compile().as_text() or ""
        found = sorted(set(re.findall(r"all-\w+|collective-permute|reduce-scatter", hlo)))
        results[f"on {count}: collectives"] = ", ".join(found) or "none"
    values = [np.asarray(array) for array in results.values() if isinstance(array, jax.Array)]
    results["bit for bit"] = (
        "the same" if all((array == values[0]).all() for array in values) else "not the same"
    )
    return results
