"""Signatures of the custom calls that JAX lowers linear algebra to. A native routine does not check
the sizes of its buffers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]

from spmd_core.engine.exported.signature import (
    DTYPES,
    ArrayType,
    Attributes,
    Pattern,
    Signature,
    Sizes,
)

_HALVES = ("f16", "bf16")
_PREFIXES = dict(zip("sdcz", DTYPES, strict=True))  # of LAPACK's routines


def _always(sizes: Sizes) -> bool:
    return True


def _of(
    text: str,
    aliases: Mapping[int, int] = MappingProxyType({}),
    attributes: Attributes = MappingProxyType({}),
    holds: Callable[[Sizes], bool] = _always,
) -> Signature:
    operands, results = map(Pattern.of, text.split(" -> "))
    return Signature(operands, results, aliases=aliases, attributes=attributes, holds=holds)


def _of_xla(text: str, holds: Callable[[Sizes], bool] = _always, config: str = "") -> Signature:
    """A call that XLA expands itself, or a TPU has."""
    dtypes = (*DTYPES, *_HALVES)
    return replace(_of(text, holds=holds), is_ffi=False, dtypes=dtypes, config=config)


def _row_major(text: str, holds: Callable[[Sizes], bool] = _always) -> Signature:
    return replace(_of(text, holds=holds), is_column_major=lambda sizes: False)


def _letter(letters: str) -> tuple[str, tuple[int, ...]]:
    return "ui8", tuple(map(ord, letters))


def _is_svd(sizes: Sizes) -> bool:
    """Full or economic factors; where they are not computed, JAX allocates either."""
    full, small = (sizes["m"], sizes["n"]), (sizes["p"], sizes["p"])
    by_mode = {ord("A"): (full,), ord("S"): (small,), ord("N"): (full, small)}
    return (sizes["u"], sizes["v"]) in by_mode[sizes["mode"]]


def _is_gpu_svd(sizes: Sizes) -> bool:
    full, small = (sizes["m"], sizes["n"]), (sizes["p"], sizes["p"])
    return (sizes["u"], sizes["v"]) == (full if sizes["full_matrices"] else small)


_FIRST = {0: 0}
_FLAG = ("i1", (0, 1))
_UPLO = {"uplo": _letter("LU")}
_VECTORS = _letter("VN")
_MOST = 2**31
_SHARED = {  # by LAPACK and the libraries of GPUs
    "getrf": _of("T[m,n] -> T[m,n] i[p] i[]", _FIRST),
    "geqrf": _of("T[m,n] -> T[m,n] T[p]", _FIRST),
    "orgqr": _of(
        "T[m,n] T[k] -> T[m,n]", _FIRST, holds=lambda sizes: sizes["m"] >= sizes["n"] >= sizes["k"]
    ),
    "potrf": _of("T[n,n] -> T[n,n] i[]", _FIRST),
    "syevd": _of("T[n,n] -> T[n,n] R[n] i[]", _FIRST),
    "sytrd": _of("T[n,n] -> T[n,n] R[n] R[n-1] T[n-1] i[]", _FIRST),
}
_LAPACK = _SHARED | {
    "potrf": replace(_SHARED["potrf"], attributes=_UPLO),
    "syevd": replace(_SHARED["syevd"], attributes=_UPLO | {"mode": _VECTORS}),
    "sytrd": replace(_SHARED["sytrd"], attributes=_UPLO),
    "gesdd": _of(
        "T[m,n] -> T[m,n] R[p] T[m,u] T[v,n] i[]",
        _FIRST,
        attributes={"mode": _letter("ASN")},
        holds=_is_svd,
    ),
    "gehrd": _of(
        "T[n,n] -> T[n,n] T[n-1] i[]",
        _FIRST,
        attributes={"low": ("i32", (1,)), "high": ("i32", range(_MOST))},
        holds=lambda sizes: sizes["high"] == sizes["n"],
    ),
    "gtsv": _of("T[n] T[n] T[n] T[n,k] -> T[n] T[n] T[n] T[n,k] i[]", {at: at for at in range(4)}),
    "trsm": _of(
        "T[n,n] T[m,k] -> T[m,k]",
        {1: 0},
        attributes=_UPLO
        | {"side": _letter("LR"), "trans_x": _letter("NTC"), "diag": _letter("NU")},
        holds=lambda sizes: sizes["n"] == sizes["m" if sizes["side"] == ord("L") else "k"],
    ),
}
# by the kind of T: eigenvalues of a real matrix are two arrays, and LAPACK has other names
_REAL = {
    "geev": "T[n,n] -> T[n] T[n] C[n,n] C[n,n] i[]",
    "gees": "T[n,n] -> T[n,n] T[n,n] T[n] T[n] i[] i[]",
}
_COMPLEX = {
    "geev": "T[n,n] -> T[n] T[n,n] T[n,n] i[]",
    "gees": "T[n,n] -> T[n,n] T[n,n] T[n] i[] i[]",
}
_OF_COMPLEX = {"orgqr": "ungqr", "syevd": "heevd", "sytrd": "hetrd"}
_MORE: Mapping[str, tuple[Mapping[int, int], Attributes]] = {  # aliases and attributes
    "geev": ({}, {"compute_left": _VECTORS, "compute_right": _VECTORS}),
    # a routine that sorts calls a function that nobody passes
    "gees": (_FIRST, {"mode": _VECTORS, "sort": _letter("N")}),
}
_LOWER = {"lower": _FLAG}
_SVD = {"full_matrices": _FLAG, "compute_uv": _FLAG}
_SOLVER = _SHARED | {
    "potrf": replace(_SHARED["potrf"], attributes=_LOWER),
    "syevd": replace(_SHARED["syevd"], attributes=_LOWER | {"algorithm": ("ui8", range(3))}),
    "sytrd": replace(_SHARED["sytrd"], attributes=_LOWER),
    "gesvdj": _of(
        "T[m,n] -> T[m,n] R[p] T[m,u] T[n,v] i[]", _FIRST, attributes=_SVD, holds=_is_gpu_svd
    ),
}


def _gesvd(attributes: Mapping[str, int]) -> Signature:
    """Whose factors are scalars where they are not computed, and change places where transposed."""
    first, second = ("T[v,n]", "T[m,u]") if attributes.get("transposed") else ("T[m,u]", "T[v,n]")
    text, holds = f"T[m,n] -> T[m,n] R[p] {first} {second} i[]", _is_gpu_svd
    if not attributes.get("compute_uv"):
        text, holds = "T[m,n] -> T[m,n] R[p] T! T! i[]", _always
    attributes_of = _SVD | {"transposed": _FLAG}
    is_column_major = lambda sizes: not sizes["transposed"]  # noqa: E731
    return replace(
        _of(text, _FIRST, holds=holds, attributes=attributes_of), is_column_major=is_column_major
    )


_OTHERS = {
    "cusparse_gtsv2_ffi": _of("T[n] T[n] T[n] T[n,k] -> T[n,k]", {3: 0}),
    "Qr": _of_xla("T[m,n] -> T[m,n] T[p]"),
    "LuDecomposition": _of_xla("T[m,n] -> T[m,n] i[p] i[m]"),
    "Eigh": _of_xla("T[n,n] -> T[n,n] R[n]", config=r"[01],[01],\d{1,4},[\d.e-]{1,20}"),
    "ProductOfElementaryHouseholderReflectors": _of_xla(
        "T[m,n] T[k] -> T[m,n]", _SHARED["orgqr"].holds
    ),
    **{
        f"{maker}_{name}": signature
        for maker in ("cu", "hip")
        for name, signature in (
            (
                "lu_pivots_to_permutation",
                _row_major("i[k] -> i[n]", lambda sizes: sizes["n"] >= sizes["k"]),
            ),
            ("threefry2x32_ffi", _row_major("U[] U[] U[] U[] -> U[] U[]")),
        )
    },
}


def _lapack() -> dict[str, Signature]:
    table = {}
    for prefix, dtype in _PREFIXES.items():
        is_complex = dtype.startswith("complex")
        names = _OF_COMPLEX if is_complex else {}
        by_kind = {
            name: _of(text, *_MORE[name])
            for name, text in (_COMPLEX if is_complex else _REAL).items()
        }
        for name, signature in (_LAPACK | by_kind).items():
            target = f"lapack_{prefix}{names.get(name, name)}_ffi"
            table[target] = replace(signature, dtypes=(dtype,))
    return table


_TABLE: Mapping[str, Signature] = {
    **_lapack(),
    **{
        f"{maker}solver_{name}_ffi": signature
        for maker in ("cu", "hip")
        for name, signature in _SOLVER.items()
    },
    **_OTHERS,
}
_BY_ATTRIBUTES = {
    "cusolver_gesvd_ffi": _gesvd,
    "hipsolver_gesvd_ffi": _gesvd,
    "hipsolver_gesdd_ffi": _gesvd,
}
SIGNED = frozenset((*_TABLE, *_BY_ATTRIBUTES))


def signature_of(target: str, attributes: Mapping[str, int]) -> Signature:
    """Returns the signature of a target in SIGNED, called with these attributes."""
    by_attributes = _BY_ATTRIBUTES.get(target)
    return by_attributes(attributes) if by_attributes else _TABLE[target]


TARGET = "ApproxTopK"
_TYPED = {  # attribute -> what it may be
    "top_k": r"(\d{1,9}) : i64",
    "reduction_dim": r"(\d{1,2}) : i64",
    "reduction_input_size_override": r"(-?\d{1,9}) : i64",
    "recall_target": r"(0\.\d{1,12}|\d\.\d{1,12}(?:e[+-]\d\d)?) : f32",
    "aggregate_to_topk": "(true|false)",
}


def top_k_misfit(
    operands: Sequence[ArrayType], results: Sequence[ArrayType], attributes: Mapping[str, str]
) -> str | None:
    """Returns the mismatch of a call, to follow its name; None if all of it matches. Sizes are not
    compared where one is dynamic.

    Args:
        operands: arrays of one shape, then as many scalars.
        results: one for each array.
        attributes: as text by name.
    """
    count = len(results)
    if not count or len(operands) != 2 * count:
        return f"has {len(operands)} operands and {count} results"
    texts = {name: text for name, text in attributes.items() if name != "is_fallback"}
    matches = {name: re.fullmatch(_TYPED.get(name, ""), text) for name, text in texts.items()}
    values = {name: match[1] for name, match in matches.items() if match}
    if values.keys() != _TYPED.keys() or len(texts) != len(_TYPED):
        return "passes attributes that no approximate top-k has"
    if any(None in array.sizes for array in (*operands, *results)):
        return None
    shape = operands[0].sizes
    if (sizes := _result_sizes(shape, values)) is None:
        return f"takes no top-k of {operands[0]}"
    kinds = ((operands[:count], shape), (operands[count:], ()), (results, sizes))
    for arrays, its_sizes in kinds:
        for array, like in zip(arrays, results, strict=True):
            if array != (its := ArrayType(like.dtype, its_sizes)):
                return f"has an array of type {array}, not {its}"
    return None


def _result_sizes(
    shape: Sequence[int | None], values: Mapping[str, str]
) -> tuple[int | None, ...] | None:
    """Returns the sizes of each result; None where there is no such top-k."""
    dim, kept = int(values["reduction_dim"]), int(values["top_k"])
    size = shape[dim] if dim < len(shape) else None
    recall = float(values["recall_target"])
    if size is None or not 0 < kept <= size or not 0 < recall <= 1:
        return None
    if values["aggregate_to_topk"] == "false":
        override = int(values["reduction_input_size_override"])
        try:
            kept, _ = _jax.approx_top_k_reduction_output_size(
                size, len(shape), kept, recall, False, override
            )
        except RuntimeError:  # an override that is smaller than the dim
            return None
    return (*shape[:dim], kept, *shape[dim + 1 :])
