"""Collectives of weights and of their gradients: gathers, sums, rings, and what the optimizer moves."""

import math
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from spmd_core.plan import DATA_AXES, LENGTH_AXES, STAGE, ShardedArray, batch_axes, weight_key
from spmd_core.time.cost.constants import DCN_LATENCY_S, RING
from spmd_core.time.cost.links import NOMINAL, Route, dcn_bandwidth
from spmd_core.time.estimate.constants import (
    NOT_OF_A_LAYER,
    SCATTERS_EXPERTS,
    SPARSE_CORES,
    TABLE_ALONE,
)
from spmd_core.time.estimate.memory import experts_ring
from spmd_core.time.estimate.optimizers import (
    NEWTON_SCHULZ,
    hidden_matrices,
    layer_axes,
    matrix_axes,
)
from spmd_core.time.estimate.rings import BACKWARD, FORWARD, parts_s, ring_of
from spmd_core.time.estimate.shapes import LEAST, Shapes
from spmd_core.time.estimate.step_transfer import (
    COMPLETE,
    GRADIENT,
    StepTransfer,
    route_along,
    that_move,
    transfer,
)
from spmd_core.time.estimate.work import product_s

# weight -> the matmul of a layer that needs it
_MATMULS = {
    "query": "query",
    "key": "key",
    "value": "value",
    "out": "out",
    "up": "mlp_up",
    "gate": "mlp_gate",
    "down": "mlp_down",
    "query_down": "query",
    "kv_down": "key",
    "kv_up": "key",
    "out_gate": "mixed_gate",
    "mixed_gate": "mixed_gate",
    "steps": "mixed_gate",
}
_OF_EXPERTS = ("gate", "up", "down")  # weights; with a capacity, the products beside the last's sum
_BESIDE_SUM = ("mlp_down", "mlp_gate", "mlp_gate", "mlp_up", "dispatch")


def weight_transfers(
    shapes: Shapes, matmuls: Mapping[str, float], recomputed: Collection[str]
) -> tuple[StepTransfer, ...]:
    """Collectives of weights and of their gradients that take time. `matmuls`: seconds of a layer's,
    forward, on average; `recomputed`: names of what the backward pass computes again, which matter
    where weights pass in rings.
    """
    if shapes.ring == 1:
        return _without_rings(_of_any_batch(shapes))
    return that_move(_of_weights(shapes, matmuls, recomputed))


@dataclass(frozen=True, slots=True)
class _OfAnyBatch:
    """A key of shapes whose weights move alike where none pass in rings; one of them."""

    key: Hashable
    shapes: Shapes = field(compare=False)


def _of_any_batch(shapes: Shapes) -> _OfAnyBatch:
    plan = shapes.plan
    ways = (plan.target, plan.device_order, batch_axes(plan), shapes.moved_rows, plan.logit_parts)
    steps = (plan.dropless, plan.precision, plan.optimizer, plan.shard_optimizer_over_data)
    return _OfAnyBatch((weight_key(plan), *ways, *steps), shapes)


@lru_cache(maxsize=512)  # a search tries each mesh with many batches and numbers of microbatches
def _without_rings(of: _OfAnyBatch) -> tuple[StepTransfer, ...]:
    return that_move(_of_weights(of.shapes, {}, ()))


def _gathered(shapes: Shapes, array: ShardedArray) -> tuple[str, ...]:
    """Mesh axes over which a weight is sharded and then gathered, in the mesh's order."""
    sharded = {
        axis
        for (dim, _), axes in zip(array.dims, array.axes, strict=True)
        for axis in axes
        if dim != "experts"
    }
    return tuple(name for name, _ in shapes.plan.mesh if name in sharded and name != "tensor")


def _of_weights(
    shapes: Shapes, matmuls: Mapping[str, float], recomputed: Collection[str]
) -> Iterator[StepTransfer]:
    """Gathers of weights for the forward and the backward pass, sums of their gradients, and what
    the optimizer moves.
    """
    for array in shapes.weights:
        axes = _gathered(shapes, array)
        is_table = array.name in NOT_OF_A_LAYER
        in_ring = shapes.ring > 1 if is_table else shapes.rings_layers
        in_ring &= "experts" not in dict(array.dims) and not array.is_adapter
        in_ring &= shapes.plan.logit_parts == 1 or array.name != "logits"
        moved = list[StepTransfer]()
        if shapes.moved_rows > 1 and "experts" in dict(array.dims):
            continue
        if axes and in_ring:
            moved += _by_rings(shapes, array, axes, matmuls, recomputed)
        elif axes:
            moved += _of_weight(shapes, array, axes, matmuls, recomputed)
        is_trained = array in shapes.trained
        yield from (each for each in moved if is_trained or each.op_name != GRADIENT)
    yield from _of_replicas(shapes)
    if shapes.plan.optimizer == "muon":
        yield from _of_muon(shapes)


def _of_weight(
    shapes: Shapes,
    array: ShardedArray,
    axes: tuple[str, ...],
    matmuls: Mapping[str, float],
    recomputed: Collection[str],
) -> Iterator[StepTransfer]:
    """The gathers and the sum of one weight; a table is gathered once, with little beside it, and
    experts' weights in a ring where that is worth it.
    """
    once = array.name in NOT_OF_A_LAYER
    gather, beside, reduce, held = _as_compiled(shapes, axes)
    asked, name = None if gather == "all-gather" else "all-gather", f"gather {array.name}"
    narrow = shapes.unsharded_bytes(array) * (1.0 if once else _gathered_share(shapes))
    plain = transfer(shapes, gather, axes, narrow, 2 * array.times, beside, asked, name=name)
    if is_table := once and not shapes.chip.is_gpu:
        plain = replace(plain, count=1, beside="", alone=TABLE_ALONE)
    if shapes.ring > 1 and "experts" in dict(array.dims) and not shapes.plan.dropless:
        yield from _experts_by_ring(shapes, array, plain, recomputed)
    else:
        yield plain
    is_exposed = is_table or not held or (held == "by weight" and array.weight in ("down", "out"))
    yield _sum_of_gradient(shapes, array, axes, reduce, is_exposed, matmuls)


def _experts_by_ring(
    shapes: Shapes, array: ShardedArray, plain: StepTransfer, recomputed: Collection[str]
) -> list[StepTransfer]:
    """Gathers of experts with a capacity, in a ring where that is worth it: the forward one, and the
    backward one of weights that one product reads. Of integers the product back reads weights that
    are gathered in bfloat16, which shares no gather with what is computed again.
    """
    is_alone = _MATMULS[array.weight] not in recomputed
    width, moved = 2 * _gathered_share(shapes), list[StepTransfer]()
    gathers = [(width, True), (width, is_alone)]
    if recomputed == LEAST:  # a ring may expose more than the gather that two products share
        gathers = gathers[:1]
    elif shapes.element("forward") == "s8":
        gathers[1:] = [(width, True)] * (not is_alone) + [(2.0, True)]
    for width, may in gathers:
        each = transfer(
            shapes,
            plain.kind,
            plain.axes,
            shapes.unsharded_bytes(array) * width / 2,
            array.times,
            plain.beside,
            name=plain.name,
        )
        in_ring = may and experts_ring(shapes.plan, width)
        moved.append(_ring_of_experts(shapes, array, each, True) if in_ring else each)
    return moved


def _ring_of_experts(
    shapes: Shapes, array: ShardedArray, plain: StepTransfer, is_gather: bool
) -> StepTransfer:
    """The same transfer in a ring beside parts of the experts' product."""
    held = ring_of(shapes, plain.nbytes)
    experts, inner, columns = (size for _, size in array.dims)
    element = shapes.element("forward" if is_gather else "backward")
    product = product_s(shapes.expert_rows, inner, columns, shapes.chip, element)
    exposed_s = held.gather_exposed_s if is_gather else held.sum_exposed_s
    late = exposed_s(experts * product / held.steps) / held.seconds
    passed = replace(plain, kind="collective-permute", asked=plain.wanted, beside="")
    return replace(passed, seconds=held.seconds, alone=late)


def _sum_of_gradient(
    shapes: Shapes,
    array: ShardedArray,
    axes: tuple[str, ...],
    reduce: str,
    is_exposed: bool,
    matmuls: Mapping[str, float],
) -> StepTransfer:
    """The sum of one weight's gradient. Dropless experts are a kernel over shards (`shard_map`), whose
    weights' gradients are summed by name: all-reduces (TPU7x scatters them), of which the first of a
    layer, that of `down`, has work beside it, unless the weights of that work pass in rings, which
    wait for its links. Read off DeepSeek-V3 on 64 chips of v5p and Nemotron-3-Nano on 16.
    """
    # no sum over axes that hold the same rows: each device keeps its shard of all of it
    summed = tuple(axis for axis in axes if axis in (*batch_axes(shapes.plan), *LENGTH_AXES))
    of_experts = shapes.size.experts > 1 and array.name in _OF_EXPERTS
    in_kernel, in_rings = of_experts and shapes.plan.dropless, shapes.ring > 1
    if in_kernel or (of_experts and 1 < shapes.ring == shapes.along(*axes) <= RING):
        is_exposed = array.name != "down" or (in_kernel and in_rings)
        if not in_kernel or shapes.chip.generation != SCATTERS_EXPERTS:
            reduce = "all-reduce"
    # a loop over parts of the logits adds to all of the table's gradient
    in_parts = array.name == "logits" and shapes.plan.logit_parts > 1
    if summed != axes or (in_parts and not shapes.chip.is_gpu):
        reduce = "all-reduce"
    moved = transfer(
        shapes,
        reduce,
        summed,
        shapes.unsharded_bytes(array) * (2 if _in_float32(shapes, array, in_kernel) else 1),
        array.times,
        "" if is_exposed else "layers",
        None if reduce == "reduce-scatter" else "reduce-scatter",
        GRADIENT,
        f"gradient {array.name}",
    )
    if not of_experts or not in_rings or in_kernel:
        return moved
    return _sum_beside_rings(shapes, array, moved, matmuls, is_exposed)


def _sum_beside_rings(
    shapes: Shapes,
    array: ShardedArray,
    moved: StepTransfer,
    matmuls: Mapping[str, float],
    is_exposed: bool,
) -> StepTransfer:
    """The sum of experts with a capacity, which is a ring where that is worth it."""
    if experts_ring(shapes.plan, moved.nbytes / shapes.unsharded_bytes(array) * 2):
        return _ring_of_experts(shapes, array, moved, False)
    if is_exposed or moved.kind != "all-reduce":
        return moved
    hidden = sum(matmuls.get(name, 0.0) for name in _BESIDE_SUM)
    return replace(moved, late=max(0.0, 1 - hidden / moved.seconds))


def _in_float32(shapes: Shapes, array: ShardedArray, in_kernel: bool) -> bool:
    """Returns True if a TPU sums a gradient in float32: of logits in float32, and of the products of
    operands in 8 bits, those of the experts' kernel excepted.
    """
    if shapes.chip.is_gpu or array.name in NOT_OF_A_LAYER:
        is_wide = array.name == "logits" and shapes.size.logits_float32
        return is_wide and not shapes.chip.is_gpu
    is_narrow = shapes.element("forward") != "bf16" and array.weight != "router"
    return is_narrow and not in_kernel


def _gathered_share(shapes: Shapes) -> float:
    """Bytes of a layer's gathered weights over those in bfloat16."""
    return 1.0 if shapes.plan.precision.gathered_dtype == "bfloat16" else 0.5


def _by_rings(
    shapes: Shapes,
    array: ShardedArray,
    axes: tuple[str, ...],
    matmuls: Mapping[str, float],
    recomputed: Collection[str],
) -> Iterator[StepTransfer]:
    """A weight's gathers and the sum of its gradient in a ring beside parts of a matmul.

    A gather that two matmuls share is no ring (XLA's `check_users_sharding`): of what the backward
    pass computes again, of the table of logits, and of one table for both ends, which comes first.
    """
    once, name = array.name in NOT_OF_A_LAYER, _MATMULS.get(array.weight, "logits")
    nbytes = shapes.unsharded_bytes(array) * (1.0 if once else _gathered_share(shapes))
    is_of_shared, held = array.weight.startswith("shared"), ring_of(shapes, nbytes)
    matmul_s = _shared_s(shapes, array) if is_of_shared else matmuls[name]
    part_s, added_s = matmul_s / held.steps, sum(parts_s(shapes, name, matmul_s)) / 2
    is_tied, count = once and shapes.size.tied, array.times
    is_shared = array.name == "logits" or is_tied or name in recomputed
    plain = transfer(shapes, "all-gather", axes, nbytes, 0, "layers", name=f"gather {array.name}")
    if is_shared:
        # hidden by as much as a ring's permutes leave the links idle: all, one way around
        late = min(1.0, held.seconds / matmul_s) * held.both
        where = {"beside": "", "alone": TABLE_ALONE} if is_tied else {"late": late}
        yield replace(plain, count=count, **where)  # pyrefly: ignore
    passed = replace(plain, kind="collective-permute", asked="all-gather", beside="", count=count)
    ways = () if once and is_shared else (FORWARD,)
    for way in ways if once or is_shared or recomputed == LEAST else (*ways, BACKWARD):
        late = held.gather_exposed_s(added_s if name in way else part_s)
        yield replace(passed, seconds=held.seconds, alone=late / held.seconds)
    width = 1 + _in_float32(shapes, array, False) if once else shapes.sum_width
    held = ring_of(shapes, shapes.unsharded_bytes(array) * width)
    yield replace(
        passed,
        asked="reduce-scatter",
        op_name=GRADIENT,
        name=f"gradient {array.name}",
        seconds=held.seconds,
        alone=held.sum_exposed_s(part_s) / held.seconds,
    )


def _shared_s(shapes: Shapes, array: ShardedArray) -> float:
    (_, inner), (_, columns) = array.dims
    return product_s(shapes.matmul_rows, inner, columns, shapes.chip)


def _as_compiled(shapes: Shapes, axes: tuple[str, ...]) -> tuple[str, str, str, str]:
    """(gather's kind, what hides it, sum's kind, what hides that) for weights sharded over these
    axes.

    Read off compiled steps. Over a full slice the compiler makes a reduce-scatter a sum on every
    device, which nothing hides (over fewer than 16 it stays one, as exposed); over three axes of v4
    and more than 16 devices, a gather too. v5p and TPU7x leave both to their SparseCores. Over part
    of a slice both run beside the work, but for sums of two weights of a layer, and on up to 16
    devices of all.
    """
    if shapes.chip.is_gpu:
        return "all-gather", "layers", "reduce-scatter", "layers"
    where, generation = route_along(shapes, axes), shapes.chip.generation
    full = math.prod(span.size for span in where.spans) == math.prod(shapes.topology.shape)
    if generation in SPARSE_CORES:
        return "all-gather", "layers", "reduce-scatter", "layers"
    if full and len(where.spans) == 3:
        if shapes.along(*axes) > RING:
            return "all-reduce", "", "all-reduce", ""
        return "all-gather", "layers", "all-reduce", ""
    many = shapes.along(*axes) > RING
    if full and len(where.spans) == 2 and (many or not shapes.rings_layers):
        summed = many or shapes.along(*axes) == RING
        return "all-gather", "layers", "all-reduce" if summed else "reduce-scatter", ""
    few = shapes.topology.devices <= RING
    return "all-gather", "layers", "reduce-scatter", "" if few else "by weight"


def _of_muon(shapes: Shapes) -> Iterator[StepTransfer]:
    """Hidden matrices in bfloat16, complete on each device in turn; or layers exchanged for them, and
    back. Where layers are too few for all devices, the others share the rows of each product, whose
    other operand is gathered: the matrix, and its square. Read off a step over fsdp=8, context=2.
    """
    for array, here, rows, columns in hidden_matrices(shapes.trained, shapes.mesh):
        among = matrix_axes(array)
        axes = tuple(name for name, _ in shapes.plan.mesh if name in among)
        if not axes:
            continue
        nbytes, name = 2.0 * here * rows * columns, f"{COMPLETE}{array.name}"
        exchanged = layer_axes(shapes.size, shapes.mesh, array)
        if not exchanged:
            yield transfer(shapes, "all-gather", axes, nbytes, array.times, "", name=name)
            continue
        moved = nbytes * array.times / shapes.along(*axes)
        yield transfer(shapes, "all-to-all", exchanged, moved, 2, "", name=name)
        if rest := tuple(axis for axis in axes if axis not in exchanged):
            layers = array.times / shapes.along(*exchanged)
            square = 2.0 * here * min(rows, columns) ** 2
            for each in (nbytes, square):
                count = NEWTON_SCHULZ
                yield transfer(shapes, "all-gather", rest, layers * each, count, "", name=name)


def _of_replicas(shapes: Shapes) -> Iterator[StepTransfer]:
    """Sums of gradients among devices that hold the same parameters: within a slice, and between
    slices.
    """
    topology = shapes.topology
    gathered = {axis for array in shapes.weights for axis in _gathered(shapes, array)}
    axes = tuple(
        name
        for name, size in shapes.plan.mesh
        if size > 1 and name in DATA_AXES and name not in gathered
    )
    nbytes = 2 * shapes.own_parameters
    gpus, is_sharded = shapes.chip.is_gpu, shapes.plan.shard_optimizer_over_data
    if axes and (gpus or ((where := route_along(shapes, axes)).slices == 1 and where.spans)):
        layers, kind = shapes.size.all_layers, "reduce-scatter" if is_sharded else "all-reduce"
        beside, name = "layers" if gpus else "", "gradient of replicas"
        # ZeRO-1, as MaxText's `shard_optimizer_over_data`: weights are gathered once a step. Beside
        # stages gradients are summed once too, as Megatron-LM's distributed optimizer does; it hides
        # part of both. Over slices a sum is both, in as many bytes
        if is_sharded:
            weights = f"{COMPLETE}weights"
            yield transfer(shapes, "all-gather", axes, nbytes / layers, layers, "", name=weights)
            if shapes.along(STAGE) > 1:
                beside, name = "", f"{COMPLETE}gradients"
        op_name = GRADIENT
        yield transfer(
            shapes, kind, axes, nbytes / layers, layers, beside, op_name=op_name, name=name
        )
    # stages of a pipeline, which are apart first, have parameters of their own
    slices = topology.slices // math.gcd(topology.slices, shapes.along(STAGE))
    if slices > 1 and not gpus:
        yield _between_slices(shapes, nbytes, slices)


def _between_slices(shapes: Shapes, nbytes: float, slices: int) -> StepTransfer:
    """The sum of gradients over DCN, in four parts for each layer."""
    topology = shapes.topology
    between = tuple(name for name, _ in shapes.plan.mesh if route_along(shapes, (name,)).slices > 1)
    each, count = nbytes / shapes.size.all_layers / 4, 4 * shapes.size.all_layers
    share = 2 * (1 - 1 / slices) * each
    seconds = DCN_LATENCY_S + share / dcn_bandwidth(topology)
    return StepTransfer(
        "send",
        between,
        each,
        count,
        seconds,
        share / dcn_bandwidth(topology, NOMINAL),
        Route((), slices),
        "layers",
        "all-reduce",
        GRADIENT,
        "gradient of slices",
    )
