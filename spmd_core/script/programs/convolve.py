"""Each row of x convolved with a kernel, as np.convolve(row, kernel, mode="same"): zeros beyond the ends, of the length of the row."""

import jax
import jax.numpy as jnp

PRECISION = None
LENGTH_AXES = ()


def convolve_one(x, kernel):
    return jnp.convolve(x, kernel, mode="same", precision=PRECISION)


def convolve(x, kernel):
    return jax.vmap(convolve_one, in_axes=(0, None))(x, kernel)


def convolve_shards(x, kernel):
    """A halo exchange: each device gets the elements beyond both ends of its part from its neighbors along the length.

    Where there is no neighbor, ppermute gives zeros, which is the padding that mode "same" asks for.
    """
    devices, width, length = jax.lax.axis_size(LENGTH_AXES), kernel.shape[0], x.shape[1]
    tail, head = x[:, length - width // 2 :], x[:, : (width - 1) // 2]
    before = jax.lax.ppermute(
        tail, LENGTH_AXES, [(device, device + 1) for device in range(devices - 1)]
    )
    after = jax.lax.ppermute(
        head, LENGTH_AXES, [(device + 1, device) for device in range(devices - 1)]
    )
    padded = jnp.concatenate([before, x, after], axis=1)
    return jax.vmap(lambda row: jnp.convolve(row, kernel, mode="valid", precision=PRECISION))(
        padded
    )


convolve_explicit = convolve
