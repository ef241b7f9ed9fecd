"""What a step's devices say to one another: weights, gradients, activations, and slices."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from spmd_core.experiment import DATA_AXES, Plan, ShardedArray
from spmd_core.time.cost.constants import DCN_LATENCY_S, RING
from spmd_core.time.cost.links import (
    EXPECTED,
    NOMINAL,
    Route,
    collective_s,
    dcn_bandwidth,
    route_of,
)
from spmd_core.time.estimate.constants import (
    FIRST_PART,
    LINE_GATHER,
    LONE_GATHER,
    RING_ALONE,
    RING_LONG,
    RING_SHORT,
)
from spmd_core.time.estimate.shapes import NOT_OF_A_LAYER, Shapes

SPARSE_CORES = ("v5p", "tpu7x")  # generations whose flags leave collectives to these
# weight -> the matmul of a layer that needs it
_MATMULS = {
    "query": "query",
    "key": "key",
    "value": "value",
    "out": "out",
    "up": "mlp_up",
    "gate": "mlp_gate",
    "down": "mlp_down",
}
GRADIENT = "transpose("  # in the name of an operation that makes gradients, as JAX writes it


@dataclass(frozen=True, slots=True)
class StepTransfer:
    """One collective: `seconds` of one execution, `count` in a step. `beside`: what it can hide
    under.

    "layers": the layers' work; "": nothing but for the share of it that is not `alone`, the rest
    holds the chip.
    """

    kind: str
    axes: tuple[str, ...]
    nbytes: float
    count: int
    seconds: float
    bound_s: float
    where: Route
    beside: str
    asked: str | None = None
    op_name: str = ""
    name: str = ""
    alone: float = 1.0

    @property
    def wanted(self) -> str:
        """What the program asks for."""
        return self.asked or self.kind

    @property
    def reduction(self) -> str:
        """What a reduction computes: a training step's are all sums."""
        return "add"

    @property
    def ring(self) -> int:
        """Devices of a collective matmul's ring: none is estimated, the compiler makes them."""
        return 0

    @property
    def source(self) -> None:
        """The line that causes it: no program is written."""


def transfers(
    shapes: Shapes, matmuls: Mapping[str, float], recomputed: Collection[str]
) -> list[StepTransfer]:
    """All collectives of a step that take time. `matmuls`: seconds of a layer's, forward;
    `recomputed`: names of what the backward pass computes again.
    """
    listed = [
        *_of_weights(shapes, matmuls),
        *(
            _of_tensor_on_gpus(shapes, recomputed)
            if shapes.chip.is_gpu
            else _of_tensor(shapes, matmuls, recomputed)
        ),
        *_of_activations(shapes, recomputed),
        *_of_replicas(shapes),
    ]
    return [
        each for each in listed if each.where.spans or each.where.cores > 1 or each.where.slices > 1
    ]


def _where(shapes: Shapes, axes: tuple[str, ...]) -> Route:
    plan: Plan = shapes.plan
    return route_of(shapes.topology, plan.mesh, plan.device_order, axes)


def _transfer(
    shapes: Shapes,
    kind: str,
    axes: tuple[str, ...],
    nbytes: float,
    count: int,
    beside: str,
    asked: str | None = None,
    op_name: str = "",
    name: str = "",
) -> StepTransfer:
    where, topology = _where(shapes, axes), shapes.topology
    seconds, bound = (
        collective_s(topology, kind, where, nbytes, rates) for rates in (EXPECTED, NOMINAL)
    )
    return StepTransfer(
        kind, axes, nbytes, count, seconds, bound, where, beside, asked, op_name, name
    )


def _gathered(shapes: Shapes, array: ShardedArray) -> tuple[str, ...]:
    """Mesh axes over which a weight is stored in parts but needed whole, in the mesh's order."""
    sharded = {
        axis
        for (dim, _), axes in zip(array.dims, array.axes, strict=True)
        for axis in axes
        if dim != "experts"
    }
    return tuple(name for name, _ in shapes.plan.mesh if name in sharded and name != "tensor")


def _of_weights(shapes: Shapes, matmuls: Mapping[str, float]) -> Iterator[StepTransfer]:
    """Gathers of weights for the forward and the backward pass, and sums of their gradients."""
    groups: dict[tuple[tuple[str, ...], bool], list[ShardedArray]] = defaultdict(list)
    for array in shapes.weights:
        if axes := _gathered(shapes, array):
            groups[axes, array.name in NOT_OF_A_LAYER].append(array)
    for (axes, once), arrays in groups.items():
        times = 1 if once else shapes.size.layers
        gather, beside, reduce, held = _as_compiled(shapes, axes)
        for array in arrays:
            nbytes = shapes.whole_bytes(array)
            if shapes.has_rings and shapes.ring > 1 and array.name in _MATMULS:
                yield from _by_rings(shapes, array, axes, matmuls[_MATMULS[array.name]])
                continue
            yield _transfer(
                shapes,
                gather,
                axes,
                nbytes,
                2 * times,
                beside,
                None if gather == "all-gather" else "all-gather",
                name=f"gather {array.name}",
            )
            sync = held == "by weight" and array.name in ("down", "out", "embedding", "logits")
            yield _transfer(
                shapes,
                reduce,
                axes,
                nbytes,
                times,
                "" if sync or held == "" else "layers",
                None if reduce == "reduce-scatter" else "reduce-scatter",
                GRADIENT,
                f"gradient {array.name}",
            )


def _by_rings(
    shapes: Shapes, array: ShardedArray, axes: tuple[str, ...], matmul_s: float
) -> Iterator[StepTransfer]:
    """A weight's gathers and the sum of its gradient in a ring beside parts of a matmul: each shard
    passes over one link after the other.
    """
    nbytes, devices = shapes.whole_bytes(array), shapes.ring
    share = (devices - 1) / devices
    seconds = share * nbytes / (shapes.chip.link_bandwidth * EXPECTED.link)
    longer = matmul_s / seconds
    shown = min(1.0, max(0.0, (RING_LONG - longer) / (RING_LONG - RING_SHORT)))
    alone = max(RING_ALONE * shown, 1.0 - longer)
    for asked, passes, op_name in (("all-gather", 2, ""), ("reduce-scatter", 1, GRADIENT)):
        plain = _transfer(
            shapes,
            asked,
            axes,
            nbytes,
            passes * shapes.size.layers,
            "",
            asked,
            op_name,
            f"{'gradient' if op_name else 'gather'} {array.name}",
        )
        yield replace(plain, kind="collective-permute", seconds=seconds, alone=alone)


def _as_compiled(shapes: Shapes, axes: tuple[str, ...]) -> tuple[str, str, str, str]:
    """(gather's kind, what hides it, sum's kind, what hides that) for weights cut over these axes.

    Read off compiled steps. Over a whole slice the compiler makes a reduce-scatter a sum on every
    device, which nothing hides (over fewer than 16 it stays one, as exposed, and only where the plan
    turns rings off); over three axes of v4, a gather too. v5p and TPU7x leave both to their
    SparseCores. Over part of a slice both run beside the work, but for sums of two weights of a
    layer.
    """
    if shapes.chip.is_gpu:
        return "all-gather", "layers", "reduce-scatter", "layers"
    where, generation = _where(shapes, axes), shapes.chip.generation
    full = math.prod(span.size for span in where.spans) == math.prod(shapes.topology.shape)
    if generation in SPARSE_CORES:
        return "all-gather", "layers", "reduce-scatter", "layers"
    if full and len(where.spans) == 3:
        return "all-reduce", "", "all-reduce", ""
    many = shapes.along(*axes) > RING
    if full and len(where.spans) == 2 and (many or not shapes.plan.makes_rings):
        summed = many or shapes.along(*axes) == RING
        return "all-gather", "layers", "all-reduce" if summed else "reduce-scatter", ""
    return "all-gather", "layers", "reduce-scatter", "by weight"


def _of_tensor(
    shapes: Shapes, matmuls: Mapping[str, float], recomputed: Collection[str]
) -> Iterator[StepTransfer]:
    """The stream made whole over `tensor` before matmuls, and added up in parts after them."""
    if shapes.tensor < 2:
        return
    layers, nbytes = shapes.size.layers, shapes.arrays.stream * shapes.tensor
    gather = _transfer(shapes, "all-gather", ("tensor",), nbytes, 0, "", name="activations")
    ring = all(span.wraps for span in gather.where.spans)
    matmuls = _fused(shapes, matmuls)
    inputs = [name for name in ("mlp_up", "mlp_gate", "mlp") if name in matmuls]
    heads = [name for name in ("query", "key", "value", "heads") if name in matmuls]
    again = [
        name for name in ("out", *inputs) if (name if name != "mlp" else "mlp_up") in recomputed
    ]
    backward = [*heads, *inputs]
    sums = ["out", "mlp_down", "out"] if not ring else []
    paired = ["out", "mlp_down", *inputs, *backward, "mlp_down", "out", *again]
    yield replace(
        gather,
        count=(2 + bool(again)) * layers,
        alone=LONE_GATHER if ring else LINE_GATHER,
        name="activations of several matmuls",
    )
    for name in sorted(set(paired)):
        beside = min(1.0, matmuls[name] / gather.seconds)
        alone = 1.0 if name in sums else max(FIRST_PART, 1.0 - beside)
        yield replace(
            gather,
            kind="collective-permute"
            if ring
            else "reduce-scatter"
            if name in sums
            else "all-gather",
            count=paired.count(name) * layers,
            alone=alone,
            name=f"activations of {name}",
            op_name=GRADIENT if name in heads else "",
        )


def _of_tensor_on_gpus(shapes: Shapes, recomputed: Collection[str]) -> Iterator[StepTransfer]:
    """The same on GPUs, where nothing runs beside them: before and after the matmuls of attention
    and of the mlp, forward and backward; what gradients of weights need is gathered beside work.
    """
    if shapes.tensor < 2:
        return
    layers, nbytes = shapes.size.layers, shapes.arrays.stream * shapes.tensor
    again = bool({"query", "mlp_up"} & set(recomputed))
    for kind, count, beside, name in (
        ("all-gather", 4 + 2 * again, "", "activations"),
        ("reduce-scatter", 4 + ("out" in recomputed), "", "sums of activations"),
        ("all-gather", 2, "layers", "activations of gradients"),
    ):
        yield _transfer(shapes, kind, ("tensor",), nbytes, count * layers, beside, name=name)


def _fused(shapes: Shapes, matmuls: Mapping[str, float]) -> dict[str, float]:
    """The matmuls with those that the plan fuses as one, which has one transfer."""
    merged = dict(matmuls)
    for fused, name, parts in (
        (shapes.plan.fused_qkv, "heads", ("query", "key", "value")),
        (shapes.plan.fused_mlp, "mlp", ("mlp_up", "mlp_gate")),
    ):
        if fused:
            merged[name] = sum(merged.pop(part) for part in parts)
    return merged


def _of_activations(shapes: Shapes, recomputed: Collection[str]) -> Iterator[StepTransfer]:
    """What passes between devices that share the rows of a batch."""
    layers, arrays = shapes.size.layers, shapes.arrays
    again = bool({"query", "mlp_up", "out"} & set(recomputed))
    if shapes.along("sequence") > 1:
        passes = 2 + ("query" in recomputed)
        each = 2 * arrays.query + 2 * arrays.key
        yield _transfer(
            shapes, "all-to-all", ("sequence",), each, passes * layers, "", name="heads for tokens"
        )
    if shapes.peers > 1 and shapes.size.experts > 1:
        slots = arrays.stream * shapes.tensor * shapes.plan.visits
        forth = (4 if again else 2) + 2  # there and back: forward, again, backward
        name = "rows to experts and back"
        yield _transfer(shapes, "all-to-all", ("expert",), slots, forth * layers, "", name=name)
    elif shapes.along("expert") > 1 and shapes.size.experts > 1:
        yield _transfer(
            shapes,
            "all-reduce",
            ("expert",),
            arrays.stream * shapes.tensor,
            (3 if again else 2) * layers,
            "",
            name="rows of experts",
        )


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
    gpus = shapes.chip.is_gpu
    if axes and (gpus or ((where := _where(shapes, axes)).slices == 1 and where.spans)):
        yield _transfer(
            shapes,
            "all-reduce",
            axes,
            nbytes / shapes.size.layers,
            shapes.size.layers,
            "layers" if gpus else "",
            op_name=GRADIENT,
            name="gradient of replicas",
        )
    if topology.slices > 1 and not gpus:
        yield _between_slices(shapes, nbytes)


def _between_slices(shapes: Shapes, nbytes: float) -> StepTransfer:
    """The sum of gradients over DCN, in four parts for each layer."""
    topology = shapes.topology
    between = tuple(name for name, _ in shapes.plan.mesh if _where(shapes, (name,)).slices > 1)
    each, count = nbytes / shapes.size.layers / 4, 4 * shapes.size.layers
    share = 2 * (1 - 1 / topology.slices) * each
    seconds = DCN_LATENCY_S + share / dcn_bandwidth(topology)
    return StepTransfer(
        "send",
        between,
        each,
        count,
        seconds,
        share / dcn_bandwidth(topology, NOMINAL),
        Route((), topology.slices),
        "layers",
        "all-reduce",
        GRADIENT,
        "gradient of slices",
    )
