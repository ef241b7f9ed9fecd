"""What each of the six ways makes of the function, as JAX traces it."""

import jax
import jax.numpy as jnp

BLOCK = 5


def dot(v, u):
    return jnp.vdot(v, u)


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    devices = list(mesh.devices.flat)
    vectors = jnp.ones((len(devices), 3))
    blocks = jnp.ones((len(devices), BLOCK, 3))
    ways = {
        "vmap": jax.vmap(dot),
        "pmap": jax.pmap(dot, devices=devices),
        "jit(vmap)": jax.jit(jax.vmap(dot)),
        "jit(pmap)": jax.jit(jax.pmap(dot, devices=devices)),
        "pmap(jit)": jax.pmap(jax.jit(dot), devices=devices),
    }
    texts: dict[str, jax.Array | str] = {
        name: str(jax.make_jaxpr(mapped)(vectors, vectors)) for name, mapped in ways.items()
    }
    texts["pmap(vmap)"] = str(
        jax.make_jaxpr(jax.pmap(jax.vmap(dot), devices=devices))(blocks, blocks)
    )
    texts["pmap of blocks: vdot flattens them"] = str(jax.make_jaxpr(ways["pmap"])(blocks, blocks))
    return texts
