"""a @ b + c: for one triple, for a batch by vmap, and for a batch on each device by pmap(vmap)."""

import jax
import numpy as np

BATCH = 5


def affine(a, b, c):
    return a @ b + c


def draw(rng, *lead):
    """Random a, b and c of shapes (2, 3), (3, 4) and (2, 4), with leading axes `lead`."""
    return tuple(rng.random((*lead, *shape), np.float32) for shape in [(2, 3), (3, 4), (2, 4)])


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    rng = np.random.default_rng(0)
    one, batch, spread = draw(rng), draw(rng, BATCH), draw(rng, mesh.size, BATCH)
    mapped = jax.vmap(affine)
    results: dict[str, jax.Array | str] = {
        "one": jax.jit(affine)(*one),
        "vmap": mapped(*batch),
        "jit(vmap)": jax.jit(mapped)(*batch),
        "pmap(vmap)": jax.pmap(mapped, devices=list(mesh.devices.flat))(*spread),
    }
    for name, operands in {
        "one": one,
        "vmap": batch,
        "jit(vmap)": batch,
        "pmap(vmap)": spread,
    }.items():
        exact = affine(*(operand.astype(np.float64) for operand in operands))
        results[f"{name}: largest error against float64"] = (
            f"{np.abs(np.asarray(results[name]) - exact).max():.1e}"
        )
    return results
