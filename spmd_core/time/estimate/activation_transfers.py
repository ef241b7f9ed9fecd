"""Collectives of activations: over `tensor`, of experts, and of attention over a context."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from spmd_core.plan import CONTEXT, LENGTH_AXES
from spmd_core.time.cost.links import EXPECTED, NOMINAL, paths_along, permute_s
from spmd_core.time.estimate.constants import FIRST_PART, LINE_GATHER, LONE_GATHER
from spmd_core.time.estimate.shapes import Shapes
from spmd_core.time.estimate.step_transfer import (
    EXCHANGED,
    GRADIENT,
    PASSED,
    StepTransfer,
    that_move,
    transfer,
)
from spmd_core.time.estimate.work import mixing

# matmuls of the stream gathered over `tensor`, and those whose results are summed over it
_INPUTS, _HEADS = ("mlp_up", "mlp_gate", "mlp"), ("query", "key", "value", "heads")
_OUTPUTS, _AS = ("out", "mlp_down"), {"mlp": "mlp_up"}


def activation_transfers(
    shapes: Shapes, of_layers: Sequence[Mapping[str, float]], recomputed: Collection[str]
) -> tuple[StepTransfer, ...]:
    """Collectives of activations that take time. `of_layers`: the matmuls of each kind of layer."""
    listed = list[StepTransfer]()
    for (layer, count), own in zip(shapes.layers, of_layers, strict=True):
        if shapes.plan.context_shards > 1 and layer.size.mixers[0] == "attention":
            listed += _of_context(layer, count, recomputed)
        if shapes.chip.is_gpu:
            listed += _of_tensor_on_gpus(layer, count, recomputed)
        elif layer.size.experts > 1 and not layer.plan.dropless:
            listed += _of_slots(layer, count, recomputed)
            listed += _of_moved_rows(layer, count, recomputed)
            dense = {name: each for name, each in own.items() if not name.startswith("mlp_")}
            listed += _of_tensor(layer, count, dense, recomputed)
        else:
            listed += _of_tensor(layer, count, own, recomputed)
        listed += _of_activations(layer, count, recomputed)
    return that_move(_merged(listed) if len(of_layers) > 1 else listed)


def _merged(listed: list[StepTransfer]) -> list[StepTransfer]:
    merged = dict[tuple[object, ...], StepTransfer]()
    for each in listed:
        key = (each.kind, each.axes, each.name, each.op_name, each.nbytes, each.alone)
        known = merged.get(key)
        merged[key] = replace(known, count=known.count + each.count) if known else each
    return list(merged.values())


def _of_tensor(
    shapes: Shapes, layers: int, matmuls: Mapping[str, float], recomputed: Collection[str]
) -> Iterator[StepTransfer]:
    """The stream gathered over `tensor` before matmuls, and reduce-scattered after them, in so many
    layers of a kind.
    """
    if shapes.tensor < 2:
        return
    nbytes = shapes.arrays.stream * shapes.tensor
    gather = transfer(shapes, "all-gather", ("tensor",), nbytes, 0, "", name="activations")
    ring = all(span.wraps for span in gather.where.spans)
    matmuls = _fused(shapes, matmuls)
    inputs, heads, outputs = (
        [name for name in names if name in matmuls] for names in (_INPUTS, _HEADS, _OUTPUTS)
    )
    added = [name for name in outputs if name == "out"]
    again = [name for name in (*added, *inputs) if _AS.get(name, name) in recomputed]
    is_line = not any(span.wraps for span in gather.where.spans)
    if is_line and shapes.tensor < shapes.topology.devices:
        yield from _of_line(gather, matmuls, heads[:1] + inputs[:1], recomputed, layers)
        return
    sums, apart = outputs if not ring else [], ("all-gather", "reduce-scatter")
    paired = [*outputs, *inputs, *heads, *inputs, *outputs, *again]
    yield replace(
        gather,
        count=(len(outputs) + bool(again)) * layers,
        alone=LONE_GATHER if ring else LINE_GATHER,
        name="activations of several matmuls",
    )
    for name in sorted(set(paired)):
        beside = min(1.0, matmuls[name] / gather.seconds)
        alone = 1.0 if name in sums else max(FIRST_PART, 1.0 - beside)
        yield replace(
            gather,
            kind="collective-permute" if ring else apart[name in sums],
            count=paired.count(name) * layers,
            alone=alone,
            name=f"activations of {name}",
            op_name=GRADIENT if name in heads else "",
        )


def _of_line(
    gather: StepTransfer,
    matmuls: Mapping[str, float],
    first: list[str],
    recomputed: Collection[str],
    layers: int,
) -> Iterator[StepTransfer]:
    """The same on an axis that is no ring, beside others: no parts, so that the stream is gathered
    once for several matmuls, and sums stop the chip. Of the gathers for gradients of `out` and
    `mlp_down`, their matmuls hide what they can.
    """
    again = ("query" in recomputed) + ("mlp_up" in recomputed)
    outputs = [name for name in ("out", "mlp_down") if name in matmuls]
    yield replace(
        gather,
        count=(len(outputs) + again) * layers,
        alone=LINE_GATHER,
        name="activations of several matmuls",
    )
    for name in outputs:
        shown = max(0.0, 1 - 2 * matmuls[name] / gather.seconds)
        yield replace(gather, count=layers, alone=shown, name=f"activations of {name}")
    counts = dict.fromkeys((*outputs, *first), 1)
    if "out" in counts:
        counts["out"] += "out" in recomputed
    for name, count in counts.items():
        op_name = GRADIENT if name in first else ""
        yield replace(
            gather,
            kind="reduce-scatter",
            count=count * layers,
            name=f"sums of {name}",
            op_name=op_name,
        )


def _of_slots(shapes: Shapes, layers: int, recomputed: Collection[str]) -> Iterator[StepTransfer]:
    """What experts with a capacity move over `tensor`, where slots are sharded by width as the stream
    is: they are gathered before the experts, and sums scattered behind them. In 8 bits products with
    the shards are sums, scattered to those of the mlp (of gradients in float32), which are gathered
    for the product back. The gradient of routes is a sum of all of them.
    """
    if shapes.tensor < 2:
        return
    again, a, tensor = "mlp_up" in recomputed, shapes.arrays, shapes.tensor
    summed, narrow, count = a.stream * tensor * shapes.plan.visits, 1, 1 + again
    if shapes.element("forward") != "bf16":
        summed, narrow, count = a.wide * tensor, 2, (1 + again) * (1 + shapes.size.gated) + 2
    for kind, nbytes, times, name in (
        ("all-gather", summed / narrow, 2 + again, "slots of experts"),
        ("reduce-scatter", summed, count, "sums of slots"),
        (
            "all-reduce",
            2 * shapes.experts_here * shapes.expert_rows * shapes.length,
            1,
            "gradient of routes",
        ),
    ):
        yield transfer(shapes, kind, ("tensor",), nbytes, times * layers, "", name=name)


def _of_moved_rows(
    shapes: Shapes, layers: int, recomputed: Collection[str]
) -> Iterator[StepTransfer]:
    """What experts with a capacity move where their rows are gathered, and their weights are not: the
    products of all rows with a shard of the width are summed, what the last matrix and gradients
    multiply is gathered, and slots are exchanged for the width. Nothing runs beside it.
    """
    if shapes.moved_rows == 1:
        return
    slots, into = 2 * shapes.experts_here * shapes.expert_rows, 1 + shapes.size.gated
    again, back = "mlp_up" in recomputed, "mlp_down" in recomputed
    wide = slots * shapes.moved_rows * shapes.mlp_here
    for kind, nbytes, count, name in (
        ("all-reduce", wide, into * (1 + again) + 1, "sums of all rows"),
        ("all-gather", wide, 2 + into, "all rows"),
        ("all-to-all", slots * shapes.size.embed / shapes.tensor, 4 + again + back, "slots"),
    ):
        yield transfer(
            shapes, kind, ("fsdp",), nbytes, count * layers, "", name=f"{name} of experts"
        )


def _of_tensor_on_gpus(
    shapes: Shapes, layers: int, recomputed: Collection[str]
) -> Iterator[StepTransfer]:
    """The same on GPUs, where nothing runs beside them: before and after the matmuls of attention
    and of the mlp, forward and backward; what gradients of weights need is gathered beside work.
    """
    if shapes.tensor < 2:
        return
    nbytes, parts = shapes.arrays.stream * shapes.tensor, shapes.parts
    again = bool({"query", "mlp_up"} & set(recomputed))
    for kind, count, beside, name in (
        ("all-gather", (2 + again) * parts, "", "activations"),
        ("reduce-scatter", 2 * parts + ("out" in recomputed), "", "sums of activations"),
        ("all-gather", parts, "layers", "activations of gradients"),
    ):
        yield transfer(shapes, kind, ("tensor",), nbytes, count * layers, beside, name=name)


def _fused(shapes: Shapes, matmuls: Mapping[str, float]) -> dict[str, float]:
    """The matmuls with those that the plan fuses as one, which has one transfer."""
    merged = dict(matmuls)
    for fused, name, parts in (
        (shapes.plan.fused_qkv, "heads", ("query", "key", "value")),
        (shapes.plan.fused_mlp, "mlp", ("mlp_up", "mlp_gate")),
    ):
        if fused and parts[0] in merged:
            merged[name] = sum(merged.pop(part, 0.0) for part in parts)
    return merged


def _of_activations(
    shapes: Shapes, layers: int, recomputed: Collection[str]
) -> Iterator[StepTransfer]:
    """What passes between devices that share the rows of a batch, in so many layers of a kind."""
    arrays, plan, size = shapes.arrays, shapes.plan, shapes.size
    again = bool({"query", "mlp_up", "out"} & set(recomputed))
    if (inside := plan.exchanged_axes) and size.mixers[0] != "none":
        # exchanged arrays are not saved: the kernel, or its gradients, need them again
        passes, shards = (
            2 + bool({"query", "attention"} & set(recomputed)),
            shapes.tensor * shapes.along(*inside),
        )
        keys = math.lcm(size.kv_heads, shards) / math.lcm(size.kv_heads, shapes.tensor)
        each = arrays.query + arrays.mixed + keys * (arrays.key + arrays.value)
        yield transfer(shapes, "all-to-all", inside, each, passes * layers, "", name=EXCHANGED)
    if (repeats := plan.expert_repeats) > 1 and size.experts > 1:
        slots = arrays.stream * shapes.tensor * plan.visits * repeats
        count, name = (3 if again else 2) * layers, "slots of experts"
        apart = tuple(axis for axis, length in plan.mesh if axis in LENGTH_AXES and length > 1)
        yield transfer(shapes, "all-reduce", apart, slots, count, "", name=name)
    if shapes.peers > 1 and shapes.size.experts > 1:
        slots = arrays.stream * shapes.tensor * shapes.plan.visits
        # there and back: forward, again (back where that is not kept), backward
        forth = 2 + again + ("mlp_down" in recomputed) + 2
        name = "rows to experts and back"
        yield transfer(shapes, "all-to-all", ("expert",), slots, forth * layers, "", name=name)
    elif shapes.along("expert") > 1 and shapes.size.experts > 1:
        yield transfer(
            shapes,
            "all-reduce",
            ("expert",),
            arrays.stream * shapes.tensor,
            (3 if again else 2) * layers,
            "",
            name="rows of experts",
        )


def _of_context(shapes: Shapes, layers: int, recomputed: Collection[str]) -> Iterator[StepTransfer]:
    """Keys and values of a sequence over `context`, in so many layers of a kind, and their
    gradients: gathered, and summed in shards; or around a ring beside the kernel's calls, these in
    float32.
    """
    plan, among = shapes.plan, shapes.along(CONTEXT)
    each = shapes.arrays.key + shapes.arrays.value
    gather = transfer(shapes, "all-gather", (CONTEXT,), among * each, 2 * layers, "", name=PASSED)
    summed = f"gradient of {PASSED}"
    if plan.context_attention == "all-gather":
        yield gather
        yield replace(gather, kind="reduce-scatter", count=layers, op_name=GRADIENT, name=summed)
        return
    ways = paths_along(shapes.topology, plan.mesh, plan.device_order, CONTEXT)
    works = [mixing(shapes, way).seconds / among for way in ("forward", "backward")]
    for name, nbytes, count, work, op_name in (
        (gather.name, each, among * (1 + ("attention" in recomputed)), works[0], ""),
        (f"{gather.name}, backward", each, among, works[1] / 3, ""),
        (summed, 2 * each, among, works[1] * 2 / 3, GRADIENT),
    ):
        seconds, bound = (
            permute_s(shapes.topology, ways, nbytes, rates) for rates in (EXPECTED, NOMINAL)
        )
        yield replace(
            gather,
            kind="collective-permute",
            nbytes=nbytes,
            count=count * layers,
            seconds=seconds,
            bound_s=bound,
            op_name=op_name,
            name=name,
            alone=max(0.0, 1 - work / seconds),
        )
