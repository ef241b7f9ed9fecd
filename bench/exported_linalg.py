"""Programs of linear algebra as JAX lowers them: routines by name, on matrices of each dtype."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import linalg

DTYPES = ("float32", "float64", "complex64", "complex128")
# name -> function, and the shapes of its arguments without a batch
ROUTINES: Mapping[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "cholesky": (jnp.linalg.cholesky, ((4, 4),)),
    "lu": (lax.linalg.lu, ((6, 4),)),
    "lu, wide": (lax.linalg.lu, ((3, 5),)),
    "qr": (jnp.linalg.qr, ((6, 4),)),
    "qr, complete": (lambda x: jnp.linalg.qr(x, mode="complete"), ((6, 4),)),
    "qr, wide": (jnp.linalg.qr, ((3, 5),)),
    "svd": (jnp.linalg.svd, ((6, 4),)),
    "svd, economic": (lambda x: jnp.linalg.svd(x, full_matrices=False), ((3, 5),)),
    "svd, values": (lambda x: jnp.linalg.svd(x, compute_uv=False), ((6, 4),)),
    "svd, economic values": (
        lambda x: lax.linalg.svd(x, compute_uv=False, full_matrices=False),
        ((6, 4),),
    ),
    "eigh": (jnp.linalg.eigh, ((4, 4),)),
    "eigh, upper": (lambda x: jnp.linalg.eigh(x, UPLO="U"), ((4, 4),)),
    "eigvalsh": (jnp.linalg.eigvalsh, ((4, 4),)),
    "eig": (jnp.linalg.eig, ((4, 4),)),
    "eig, left": (lax.linalg.eig, ((4, 4),)),
    "schur": (lax.linalg.schur, ((4, 4),)),
    "schur, values": (lambda x: lax.linalg.schur(x, compute_schur_vectors=False), ((4, 4),)),
    "hessenberg": (lax.linalg.hessenberg, ((4, 4),)),
    "tridiagonal": (lax.linalg.tridiagonal, ((4, 4),)),
    "householder product": (lax.linalg.householder_product, ((6, 4), (3,))),
    "solve": (jnp.linalg.solve, ((4, 4), (4, 3))),
    "inv": (jnp.linalg.inv, ((4, 4),)),
    "det": (jnp.linalg.det, ((4, 4),)),
    "pinv": (jnp.linalg.pinv, ((6, 4),)),
    "triangular solve": (
        lambda a, b: linalg.solve_triangular(a, b, lower=True, trans=2),
        ((4, 4), (4, 3)),
    ),
    "triangular solve, right": (
        lambda a, b: lax.linalg.triangular_solve(a, b, unit_diagonal=True),
        ((4, 4), (3, 4)),
    ),
    "tridiagonal solve": (
        lambda dl, d, du, b: lax.linalg.tridiagonal_solve(dl, d, du, b),
        ((4,), (4,), (4,), (4, 3)),
    ),
}
CPU_ONLY = ("schur", "schur, values", "hessenberg", "eig", "eig, left")


def arguments(
    name: str, dtype: str, batch: tuple[int, ...] = (), scale: int = 1
) -> list[jax.ShapeDtypeStruct]:
    """Abstract arguments of a routine; `batch` are the sizes of dims before its own, which are
    `scale` times as large.
    """
    shapes = (tuple(scale * size for size in shape) for shape in ROUTINES[name][1])
    return [jax.ShapeDtypeStruct((*batch, *shape), dtype) for shape in shapes]
