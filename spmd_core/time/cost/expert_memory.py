"""What experts hold at the worst moment of a block's backward pass, beside attention.

Dropless, their grouped matmul is a kernel. Nothing is fused into it: rows are materialized, once for
each expert that a token visits. Its weights are gathered as they are, and a gradient has the layout
of its dims, of which the last two fill tiles. With a capacity, the one-hot routes of rows to slots
are arrays too. The counts were read off the live buffers of compiled steps at their peak
(docs/prediction.md).
"""

import math
from dataclasses import dataclass

from spmd_core.plan import Plan, arrays
from spmd_core.time.cost.flops import narrow_cycles

_SUBLANES, _LANES = 8, 128  # of a tile
_MATRICES = ("gate", "up", "down")


@dataclass(frozen=True, slots=True)
class Experts:
    """Bytes on a device: what a layer's experts hold, the part that waits while another layer of the
    block is at work, what more of them may be there, what tiles leave empty of all layers'
    gradients, and what a layer keeps that is not rematerialized, beside what has a name.
    """

    block: float
    waits: float
    more: float
    empty: float
    kept: float


def expert_memory(
    plan: Plan,
    rows: float,
    wide: float,
    is_complete: bool,
    in_ring: bool = False,
    all_rows: float = 0.0,
) -> Experts:
    """The experts of a plan. `rows`: bytes of the rows that they get, at full width; `wide`: of
    those of the mlp; `is_complete`: the sums of their gradients are, on every device; `in_ring`: they
    pass in shards; `all_rows`: of the mlp's rows of all devices, where those are gathered in place of
    weights.

    Such sums of a block's layers wait for its end, each beside its operand, and beside two matrices
    that are gathered for the last; of sums that are scattered the operands wait.
    """
    size, mesh = plan.size, plan.axis_sizes
    experts = size.experts // mesh.get("expert", 1)
    sides = (size.embed, size.mlp // mesh.get("tensor", 1))
    matrix = 2.0 * max(_filled((experts, *order)) for order in (sides, sides[::-1]))
    blocks = [sum(size.layer(kind).experts > 1 for kind in kinds) for kinds, _ in size.stages]
    sums = (1 + is_complete) * (2 + size.gated) * (max(blocks) > 1)
    if all_rows:
        return _with_all_rows(plan, rows, wide, all_rows)
    if not plan.dropless:
        complete = sums if is_complete else None
        return _with_capacity(plan, rows, wide, matrix, complete, blocks[-1] > 0, in_ring)
    # biases are gathered for rows
    waits = 2 * rows + (5 if size.mlp_bias else 3) * wide + max(3, sums) * matrix
    # one gradient, and the sums of all; of a block before, all gradients. Weights in 8 bits are
    # turned into float32 for the gradient of their rows where the chip does not multiply them
    before = is_complete and sum(map(bool, blocks)) > 1
    summed = max(sums + 2, 3 + size.gated + (2 + size.gated) * before)
    narrow = {"bfloat16": "bf16", "int8": "s8"}.get(plan.precision.gathered_dtype, "f8")
    summed *= 1 + (narrow != "bf16" and narrow_cycles(plan.topology.chip, narrow) >= 1)
    own = 3 * rows + 3 * wide + max(3 * rows, summed * matrix)
    shards = [each.held(mesh) for each in arrays(plan) if each.name in _MATRICES]
    empty = sum(_filled(shape) - math.prod(shape) for shape in shards)
    layers = sum(count for each, count in size.layer_counts if each.experts > 1)
    return Experts(own, waits, matrix, 4.0 * layers * empty, rows)


def _with_all_rows(plan: Plan, rows: float, wide: float, all_rows: float) -> Experts:
    """Experts with a capacity whose rows are gathered, and whose weights are not."""
    routes, own = rows / plan.size.embed * plan.sequence, 2 * rows + 3 * wide
    # what `down` and both gradients multiply; outside of the loop once for each product
    held = (2 + plan.size.gated) * all_rows * (1 + bool(plan.offload))
    return Experts(routes + own + held, own - rows, routes + all_rows, 0.0, 2 * routes + rows)


def _with_capacity(
    plan: Plan,
    rows: float,
    wide: float,
    matrix: float,
    complete: int | None,
    is_last: bool,
    in_ring: bool,
) -> Experts:
    """Experts with a capacity. `complete`: matrices whose sums on every device wait for a block's
    end, None where each device has its shard of a sum; `is_last`: the last block has experts.
    """
    size, tensor = plan.size, plan.axis_sizes.get("tensor", 1)
    # to all slots of a sequence, from its tokens; rows of slots are sharded by width
    routes, rows = rows / size.embed * plan.sequence / plan.length_shards, rows / tensor
    gathered = matrix if plan.precision.gathered_dtype == "bfloat16" else matrix / 2
    # products of operands in 8 bits are added up in float32: of complete ones two sums, and one
    # beside its operand; of others one, beside the next. Of a last block that is no loop a
    # gradient waits for the links of the loop before
    summed = 0.0 if in_ring else matrix * (1 + (plan.precision.matmul_dtype != "bfloat16"))
    is_complete, sums = complete is not None, complete or 0
    held = max((2 + 2 * is_complete) * summed, sums * summed + 2 * gathered)
    held += is_complete * summed * (len(size.stages) > 1 == size.stages[-1][1] and is_last)
    waits = rows + 3 * wide + max(3 * gathered, sums * summed)
    # the gradient of routes alone, and their sum beside it: others are made where they are used
    own = routes * (1 + (tensor > 1)) + 2 * rows + 3 * wide + max(held, 3 * gathered + summed)
    return Experts(own, waits, routes + matrix, 0.0, 2 * routes + rows)


def _filled(shape: tuple[int, ...]) -> int:
    """Elements that an array takes in tiles.

    >>> _filled((128, 1536, 64)) == 2 * 128 * 1536 * 64
    True
    """
    *outer, high, wide = shape
    return math.prod(outer) * -(-high // _SUBLANES) * _SUBLANES * -(-wide // _LANES) * _LANES
