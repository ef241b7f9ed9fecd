"""What pmap returns: an ordinary jax.Array whose sharding shows which device holds which row."""

import jax
import jax.numpy as jnp


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    rows = jax.pmap(lambda x: 10 * x, devices=list(mesh.devices.flat))(jnp.arange(float(mesh.size)))
    try:
        old_name = repr(jax.interpreters.pxla.ShardedDeviceArray)  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError as error:
        old_name = f"AttributeError: {error}"
    total = jnp.sum(
        rows
    )  # not a pmap: jit follows the shards, nothing is moved to one device first
    return {
        "rows": rows,
        "total": total,
        "ShardedDeviceArray": old_name,
        "is a jax.Array": str(isinstance(rows, jax.Array)),
        "sharding": f"{type(rows.sharding).__name__} over {len(rows.sharding.device_set)} devices",
        "who holds what": "; ".join(
            f"device {shard.device.id}: row {shard.index[0].start or 0}"
            for shard in rows.addressable_shards
        ),
        "the total lies on": f"{len(total.sharding.device_set)} devices",
    }
