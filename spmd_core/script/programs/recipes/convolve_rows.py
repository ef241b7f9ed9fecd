"""A row per device, convolved with the same three weights: plain, and divided by the sum over the devices."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def convolve(x, w):
    """The weighted sums of every three neighbours, as (length - 2,)."""
    return jnp.stack([jnp.dot(x[i - 1 : i + 2], w) for i in range(1, len(x) - 1)])


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    devices = list(mesh.devices.flat)
    w = np.array([2.0, 3.0, 4.0], np.float32)
    xs = np.arange(5 * mesh.size).reshape(-1, 5)
    ws = np.stack([w] * mesh.size)

    @partial(jax.pmap, axis_name="p", devices=devices)
    def normalized(x, w):
        sums = convolve(x, w)
        return sums / jax.lax.psum(sums, axis_name="p")

    plain = jax.pmap(convolve, devices=devices)(xs, ws)
    one_copy = jax.pmap(convolve, in_axes=(0, None), devices=devices)(xs, w)
    shares = normalized(xs, ws)
    expected = np.stack([np.correlate(row, w.astype(np.float64), mode="valid") for row in xs])
    return {
        "xs": jnp.asarray(xs),
        "ws": jnp.asarray(ws),
        "two_stacked_rows": jnp.stack([jnp.array([1.0, 2.0, 3.0])] * 2),
        "plain": plain,
        "normalized": shares,
        "normalized_sums": shares.sum(axis=0),
        "one copy of w, in_axes (0, None)": "the same"
        if (one_copy == plain).all()
        else "not the same",
        "plain against numpy": f"largest error {np.abs(np.asarray(plain) - expected).max():.1e}",
        "normalized against numpy": f"largest error {np.abs(np.asarray(shares) - expected / expected.sum(axis=0)).max():.1e}",
    }
