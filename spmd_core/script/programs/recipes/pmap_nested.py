"""Rows and columns normalised: pmap in pmap is no longer possible, a mesh of two axes is the way now."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P


def normalize(x):
    """Of each device's number: its share of its column, of its row, and of everything."""
    return (
        x / jax.lax.psum(x, "rows"),
        x / jax.lax.psum(x, "cols"),
        x / jax.lax.psum(x, ("rows", "cols")),
    )


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    shape = mesh.shape["rows"], mesh.shape["cols"]
    x = jnp.arange(float(mesh.size)).reshape(shape)
    try:
        nested = str(jax.pmap(jax.pmap(normalize, axis_name="cols"), axis_name="rows")(x))
    except ValueError as error:
        nested = f"ValueError: {error}"

    on_each_device = partial(
        jax.shard_map, mesh=mesh, in_specs=P("rows", "cols"), out_specs=P("rows", "cols")
    )
    row_normed, col_normed, doubly_normed = on_each_device(normalize)(x)
    mixed = jax.pmap(jax.vmap(normalize, axis_name="cols"), axis_name="rows")(
        x
    )  # rows over devices, columns within each
    agree = all(
        np.allclose(one, other, rtol=1e-6)
        for one, other in zip(mixed, (row_normed, col_normed, doubly_normed), strict=True)
    )
    return {
        "pmap in pmap": nested,
        "row_normed": row_normed,
        "col_normed": col_normed,
        "doubly_normed": doubly_normed,
        "row_normed_sums": row_normed.sum(0),
        "col_normed_sums": col_normed.sum(1),
        "doubly_normed_sum": doubly_normed.sum(),
        "pmap(vmap) agrees": str(agree),
    }
