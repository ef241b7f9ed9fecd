"""What an optimizer holds, moves and multiplies beside one value for each parameter."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from spmd_core.plan import RULES, Basis, ModelSize, Plan, ShardedArray, arrays
from spmd_core.time.estimate.constants import NOT_OF_A_LAYER

BYTES = {"float32": 4, "bfloat16": 2, "float8_e4m3fn": 1}
_ROWS = ("embed", "unsharded_embed", "rank")  # dims that one side of a hidden matrix has alone
_STACKED = ("experts", "fsdp_experts", "gate_up", "qkv")  # dims of many matrices
NEWTON_SCHULZ = 5  # steps, each of three products; Jordan, kellerjordan.github.io/posts/muon


def moment_bytes(plan: Plan) -> float:
    """Bytes of an optimizer's moments for each parameter, on average."""
    return _moment_bytes(plan.basis)


@lru_cache(maxsize=64)
def _moment_bytes(basis: Basis) -> float:
    plan = basis.plan
    widths = [BYTES[dtype] for dtype in plan.moment_dtypes]
    if plan.optimizer not in ("adafactor", "muon") and min(widths) > 1:
        return sum(widths)
    listed = [each for each in arrays(plan) if each.group == "parameters"]
    listed = [each for each in listed if plan.lora_rank is None or each.is_adapter]
    total = sum(each.times * _elements(each.dims) for each in listed)
    held = 0.0
    for each in listed:
        for dims, width in zip(_moments(plan, each), widths, strict=False):
            scales = _elements(dims[:-1]) * 4 * (width == 1)  # of each row, in float32
            held += each.times * (_elements(dims) * width + scales)
    return held / total


def _moments(plan: Plan, array: ShardedArray) -> tuple[tuple[tuple[str, int], ...], ...]:
    dims = array.dims
    if plan.optimizer == "adafactor":  # of rows and of columns
        return (dims[:-1], (*dims[:-2], dims[-1])) if len(dims) > 1 else (dims,)
    if plan.optimizer == "muon" and array.name not in NOT_OF_A_LAYER and len(dims) > 1:
        return (dims,)
    return dims, dims


def hidden_matrices(
    weights: Iterable[ShardedArray], mesh: Mapping[str, int]
) -> Iterator[tuple[ShardedArray, int, int, int]]:
    """(weight, matrices of a layer on a device, their rows, their columns) of Muon's."""
    for array in weights:
        if array.name in NOT_OF_A_LAYER or array.name == "joined":
            continue
        here = 1
        for (dim, size), axes in zip(array.dims, array.axes, strict=True):
            if dim in _STACKED:
                here *= size // math.prod([mesh[axis] for axis in axes if dim == "experts"])
        sides = [pair for pair in array.dims if pair[0] not in _STACKED]
        inside = sides[1:] if sides[0][0] in _ROWS else sides[:-1]
        alone = sides[0] if sides[0][0] in _ROWS else sides[-1]
        yield array, here, alone[1], _elements(tuple(inside))


def matrix_axes(array: ShardedArray) -> set[str]:
    """Mesh axes that shard a matrix, but for those that part experts."""
    return {
        axis
        for (dim, _), axes in zip(array.dims, array.axes, strict=True)
        for axis in axes
        if dim != "experts"
    }


def layer_axes(size: ModelSize, mesh: Mapping[str, int], array: ShardedArray) -> tuple[str, ...]:
    """Mesh axes along which layers are exchanged for complete matrices; none where each is gathered."""
    times, shards, axes = math.gcd(*(count for _, count in size.stages), array.times), 1, []
    for axis in RULES["stacked"]:
        length = mesh.get(axis, 1)
        if length > 1 and times % (shards * length) == 0:
            shards *= length
            axes.append(axis)
    return tuple(axes)


def newton_schulz(rows: int, columns: int) -> tuple[tuple[int, int, int], ...]:
    """The products of a step: [rows, inner] by [inner, columns]."""
    narrow, wide = min(rows, columns), max(rows, columns)
    return (narrow, wide, narrow), (narrow, narrow, narrow), (narrow, narrow, wide)


def _elements(dims: tuple[tuple[str, int], ...]) -> int:
    return math.prod(size for _, size in dims)
