"""What dropless experts hold at the worst moment of a block's backward pass, beside attention.

Their grouped matmul is a kernel. Nothing is fused into it: rows are materialized, once for each
expert that a token visits. Its weights are gathered as they are, and a gradient has the layout of
its dims, of which the last two fill tiles. The counts were read off the live buffers of compiled
steps at their peak (docs/prediction.md).
"""

import math
from dataclasses import dataclass

from spmd_core.experiment import Plan, arrays

_SUBLANES, _LANES = 8, 128  # of a tile
_MATRICES = ("gate", "up", "down")


@dataclass(frozen=True, slots=True)
class Grouped:
    """Bytes on a device: what a block's experts hold, one gathered matrix of them, and what tiles
    leave empty of all layers' gradients.
    """

    block: float
    matrix: float
    empty: float


def grouped(plan: Plan, rows: float, wide: float) -> Grouped:
    """The experts of a plan that drops no token. `rows`: bytes of the rows of all experts that its
    tokens visit, at full width; `wide`: of those of the mlp.
    """
    size, mesh = plan.size, plan.axis_sizes
    layers = len(size.windows)  # of a scanned block
    shards = [each.held(mesh) for each in arrays(plan) if each.name in _MATRICES]
    experts = size.experts // mesh.get("expert", 1)
    sides = (size.embed, size.mlp // mesh.get("tensor", 1))
    matrix = 2.0 * max(_filled((experts, *order)) for order in (sides, sides[::-1]))
    # a layer whose turn has not come keeps what was computed again; biases are gathered for rows
    others = 2 * rows + (5 if size.mlp_bias else 3) * wide + 3 * matrix
    own = 3 * rows + 3 * wide + max(3 * rows, 4 * matrix)
    empty = sum(_filled(shape) - math.prod(shape) for shape in shards)
    return Grouped((layers - 1) * others + own, matrix, 4.0 * size.layers * empty)


def _filled(shape: tuple[int, ...]) -> int:
    """Elements that an array takes in tiles.

    >>> _filled((128, 1536, 64)) == 2 * 128 * 1536 * 64
    True
    """
    *outer, high, wide = shape
    return math.prod(outer) * -(-high // _SUBLANES) * _SUBLANES * -(-wide // _LANES) * _LANES
