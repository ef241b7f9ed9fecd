"""Checks a call of `ApproxTopK`, to which JAX lowers an approximate top-k on every platform."""

import re
from collections.abc import Mapping, Sequence

from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]

from spmd_core.engine.exported.signature import ArrayType

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
