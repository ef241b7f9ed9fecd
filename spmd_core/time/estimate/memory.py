"""Whether a training step fits, from its sizes alone, before anything is compiled.

What is live at the worst moment, which is either the backward pass of one block or that of the
logits: parameters with their optimizer
state (donated), their bfloat16 copies, gradients, what the forward pass keeps, and the working set
of that moment. The counts of arrays
in the working sets were read off the buffers of compiled steps.
"""

import math
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from spmd_core.facts import Fits
from spmd_core.machine import Capacity, Topology
from spmd_core.plan import (
    GATHERED_AXES,
    Basis,
    ModelSize,
    Plan,
    arrays as arrays_of,
    batch_shards,
    makes_rings,
    parameter_share,
    state_share,
)
from spmd_core.time.cost.constants import NEARLY_FULL, RING
from spmd_core.time.cost.expert_memory import Experts, expert_memory
from spmd_core.time.estimate.constants import RING_STEPS, SCATTERS_EXPERTS, SPARSE_CORES
from spmd_core.time.estimate.optimizers import BYTES, moment_bytes

_HEADS = {"query", "key", "value"}
_TURNED = "saved arrays in another layout"
_STATE = "frozen weights", "parameters and optimizer", "bfloat16 copies"
VMEM_BYTES = 128 * 2**20  # of a chip, with what a kernel may take; v5e and TPU7x, read off
LANES = 128  # the attention kernel leaves its row sums once per lane; they are kept once
# How far the peak may be off, either way: the worst of compiled plans, with some to spare. More of
# it may be missing where the compiler moves arrays to the host, and heads for the sequence with them
OFF, OFF_OFFLOADED, OFF_SEQUENCE = 0.08, 0.11, 0.16
OFF_EXPERTS = 0.12  # compared with few plans
OFF_SHARDED = 0.3  # of a sharded optimizer: compared with nine plans, 6 to 36 % too high
# arrays that JAX keeps for the gradient of an activation and of the matmul behind it
_OF_ACTIVATION = {"silu": 4.0, "clamped_silu": 4.0, "gelu": 6.0, "relu": 1.5, "relu2": 2.5}
# and of a Mamba-2 mixer: bytes for each pair of places of a chunk (three in float32, five in
# bfloat16), arrays of values, and of keys; read off what Nemotron-3-Nano keeps
_OF_MAMBA = (22.0, 21.0, 14.0)


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes per device: `peak` between `low` and `high`, and its parts by name; `host` is what is
    offloaded.
    """

    peak: int
    low: int
    high: int
    host: int
    parts: dict[str, int]

    @property
    def of_any_batch(self) -> float:
        """Bytes of the state, as far below its estimate as the low end is: those of the smallest batch."""
        return sum(self.parts.get(name, 0) for name in _STATE) * self.low / self.peak

    def scaled(self, ratio: float) -> "MemoryEstimate":
        """The same, its peak and interval times a ratio."""
        peak, low, high = (int(each * ratio) for each in (self.peak, self.low, self.high))
        return MemoryEstimate(peak, low, high, self.host, self.parts)

    def known(self, capacity: Capacity) -> dict[str, object]:
        """What a prediction keeps of it: bytes, and whether they fit."""
        parts = {"parts": self.parts, "fits": self.is_held(capacity)}
        return {"peak": self.peak, "low": self.low, "high": self.high, "host": self.host, **parts}

    def is_held(self, capacity: Capacity) -> bool:
        """Whether its peak fits on the device, and what is offloaded in the host's share."""
        return self.peak <= capacity.device and self.host <= capacity.host

    def fits(self, capacity: Capacity) -> Fits:
        """Whether a device and its share of the host hold it: "likely" where they hold its peak but
        not all of its interval, "unlikely" where no more than the low end.
        """
        if self.host > capacity.host:
            return "no"
        if self.high <= capacity.device:
            return "yes"
        if self.peak <= capacity.device:
            return "likely"
        return "unlikely" if self.low <= capacity.device else "no"


@dataclass(frozen=True, slots=True)
class Arrays:
    """Bytes of one layer's arrays on a device: residual stream, one projection of the mlp, queries,
    keys, values, attention's output, row sums, gathered mlp weights, and what a mixer with a state
    makes of all chunks.
    """

    stream: float
    wide: float
    query: float
    key: float
    value: float
    mixed: float
    sums: float
    weights: float
    state: float = 0.0


def estimate_memory(plan: Plan, parameters: float | None = None) -> MemoryEstimate:
    """The peak of a plan's step. `parameters` of a device: worked out where they are not given."""
    size = plan.size
    usual = max(_layers(plan.basis, plan.remat), key=attrgetter("count"))
    stored, host = kept_bytes(plan)
    if parameters is None:
        parameters = size.stored_parameters * parameter_share(plan)
    parts = {"frozen weights": 2 * parameters} if plan.lora_rank else {}
    if plan.lora_rank:
        mesh = {name: length for name, length in plan.mesh if length > 1}
        trained = (each for each in arrays_of(plan) if each.is_adapter)
        parameters = sum(each.times * math.prod(each.held(mesh)) for each in trained)
    own, is_sharded = state_share(plan) * parameters, plan.shard_optimizer_over_data
    parts |= {
        "parameters and optimizer": own * (BYTES[plan.parameter_dtype] + moment_bytes(plan)),
        "bfloat16 copies": 2 * parameters * (is_sharded or plan.parameter_dtype == "float32"),
        "kept by the forward pass": stored,
    }
    experts = next(
        (each.experts for each in _layers(plan.basis, plan.remat) if each.size.experts > 1), None
    )
    gradients = _gradients(plan, own, parameters) + (experts.empty if experts else 0.0)
    worst, spare, may_turn = _worst_moment(plan, usual, gradients, bool(experts))
    parts |= worst
    if plan.size.mtp_layers:  # kept for their gradients
        kept = _rows(plan) * plan.size.vocab * 4 * plan.size.mtp_layers
        parts["logits of later tokens"] = kept * (plan.logit_parts == 1)
    unsure = experts.more if experts else 0.0
    turned, off, total = parts.get(_TURNED, 0.0), _off(plan), sum(parts.values())
    more = max(off, OFF_SEQUENCE if plan.offload and plan.exchanged_axes else 0.0)
    # near the capacity the compiler makes spare arrays anew or later, and no more than it has to
    peak = max(min(total, NEARLY_FULL * plan.topology.chip.device_hbm_bytes), total - spare)
    parts |= _without({name: worst[name] for name in worst if name != _TURNED}, total - peak)
    return MemoryEstimate(
        int(peak),
        int((peak - turned) * (1 - off)),
        int((peak + may_turn - turned + unsure) * (1 + more)),
        int(host),
        {name: int(value) for name, value in parts.items()},
    )


def _without(worst: Mapping[str, float], spared: float) -> dict[str, float]:
    """Returns what is left of the arrays of the worst moment without bytes that are made anew or later:
    the last named ones go first, gradients at the end.
    """
    left = dict(worst)
    for name in reversed(left):
        less = min(left[name], spared)
        left[name] -= less
        spared -= less
    return left


def _gradients(plan: Plan, own: float, parameters: float) -> float:
    """Bytes of all gradients at once. With a sharded optimizer each is scattered as it is made, but
    for a sum between slices of TPUs.
    """
    is_scattered = plan.topology.chip.is_gpu or plan.topology.slices == 1
    return (own if is_scattered else parameters) * BYTES[plan.parameter_dtype]


def _experts(plan: Plan, layer: ModelSize, a: Arrays) -> Experts | None:
    if layer.experts == 1 or not a.wide:
        return None
    times = plan.axis_sizes.get("tensor", 1) * plan.visits * plan.expert_repeats
    in_ring = experts_ring(plan, 2.0 if plan.precision.matmul_dtype == "bfloat16" else 4.0)
    if plan.dropless:
        is_complete = plan.topology.chip.generation != SCATTERS_EXPERTS
    else:
        is_complete = has_ring(plan) and _gathered_by(plan) <= RING and not in_ring
    moved = moved_rows(plan)
    all_rows = 2 * _rows(plan) * times * layer.mlp * moved * (moved > 1)
    return expert_memory(plan, a.stream * times, a.wide, is_complete, in_ring, all_rows)


class _Layer(NamedTuple):
    """A kind of layer, with how many there are; bytes of its arrays, of what it may keep by name, of
    its experts, and of its backward pass where nothing is offloaded.
    """

    size: ModelSize
    count: int
    arrays: Arrays
    named: Mapping[str, float]
    experts: Experts | None
    working: tuple[float, float, float]


@lru_cache(maxsize=64)
def _layers(basis: Basis, remat: str) -> tuple[_Layer, ...]:
    """Every kind of layer of plans that differ only in what they save."""
    plan = basis.plan
    return tuple(
        _Layer(
            layer,
            count,
            arrays := _layer_arrays(basis, layer),
            _named(plan, layer, arrays),
            experts := _experts(plan, layer, arrays),
            _working_set(plan, layer, arrays, experts, remat),
        )
        for layer, count in plan.size.layer_counts
    )


@lru_cache(maxsize=64)
def _blocks(basis: Basis, remat: str) -> tuple[tuple[_Layer, ...], ...]:
    """The layers of each block that is scanned."""
    size, layers = basis.plan.size, {each.size: each for each in _layers(basis, remat)}
    return tuple(tuple(layers[size.layer(kind)] for kind in kinds) for kinds, _ in size.stages)


def _worst_moment(
    plan: Plan, usual: _Layer, gradients: float, has_experts: bool
) -> tuple[dict[str, float], float, float]:
    """What is live beside the state and what is kept at the worst moment, by name; the bytes of it
    that the compiler can do without; and the most that it may copy to another layout.
    """
    block, spare = max(_of_block(plan, layers) for layers in _blocks(plan.basis, plan.remat))
    again = plan.remat == "full" or remakes_experts(plan)
    operands, late = _waiting(plan.basis, has_experts, again)
    block += operands
    logits, of_logits = _logits(plan.basis, bool(plan.offload))
    heads, gate, may_turn = _turned(plan, usual.named)
    # a loop that offloads has one block's backward pass outside of it, beside that of the logits
    first = 0.0
    if plan.offload and _gathered_by(plan) <= RING:
        first = block - 2 * usual.arrays.weights
        first -= 0.0 if plan.exchanged_axes else _attention(plan, usual.size, usual.arrays)
    turned = heads
    if plan.topology.slices > 1:
        both = _logit_rows(plan) * plan.size.vocab * (4 if plan.size.logits_float32 else 2)
        parts = {"gradients": gradients, "one block's backward pass": block, "logits": both}
        spare += both  # or after it
    elif gate and gradients + gate > (logits + first) / 2:
        # the copy is made in that block, beside the gradient of the logits
        parts = {"gradients": gradients, "logits and output table": logits / 2}
        parts |= {"one block's backward pass": first / 2}
        turned += gate
    elif block + gradients + late >= logits + first:
        parts = {"gradients": gradients, "one block's backward pass": block}
        parts |= (
            {f"gradient of the {('logits', 'table')[plan.logit_parts > 1]}": late} if late else {}
        )
        spare += late * (has_experts or plan.logit_parts > 1)  # beside rings it waits all the same
        # the other moment is left
        spare = min(spare, block + gradients + late - (logits - of_logits))
    else:
        parts = {"logits and output table": logits, "one block's backward pass": first}
        spare = min(of_logits + first, logits + first - (block + gradients - spare))
    return parts | ({_TURNED: turned} if turned else {}), spare, may_turn


@lru_cache(maxsize=64)
def _waiting(basis: Basis, has_experts: bool, again: bool) -> tuple[float, float]:
    """Bytes that wait until the loop over blocks has ended: operands of the gradients of a last block
    that is no loop, and what the gradient of a trained table needs. A block that computes nothing
    `again` lets the product of the logits go before the loop.
    """
    plan = basis.plan
    stages, operands, frozen = plan.size.stages, 0.0, plan.lora_rank is not None
    is_lone = len(stages) > 1 == stages[-1][1]
    for kind in stages[-1][0] if is_lone else ():
        if (last := plan.size.layer(kind)).experts == 1:
            operands += (2 + last.gated) * layer_arrays(plan, last).wide
    if plan.logit_parts > 1:  # gradients of the table are summed over parts in float32
        tensor = plan.axis_sizes.get("tensor", 1)
        table = plan.size.embed * plan.size.vocab / tensor
        if plan.topology.chip.generation not in SPARSE_CORES:
            # the loop over parts that makes the loss alone is left to the end
            operands += 2 * table + _rows(plan) * plan.size.embed * 2
        return operands, 4.0 * table * (not frozen)
    # a ring of both ways, whose product comes before the loop over blocks, has no need to wait; but
    # for a table with another sum, and where SparseCores add up
    both_ways = has_ring(plan) and not has_experts and _gathered_by(plan) > 4
    waits = plan.size.tied or plan.topology.chip.generation in SPARSE_CORES
    waits |= not (is_lone or both_ways)
    is_late = (has_experts or has_ring(plan)) and waits and again and not frozen
    return operands, _logit_rows(plan) * plan.size.vocab * 2 * is_late


def _off(plan: Plan) -> float:
    if plan.shard_optimizer_over_data:
        return OFF_SHARDED
    if plan.size.experts > 1:
        return OFF_EXPERTS
    return OFF_OFFLOADED if plan.offload else OFF


def _rows(plan: Plan) -> float:
    """Tokens of a device's rows, sharded over `tensor` and the length as its activations are."""
    shards = batch_shards(plan) * plan.axis_sizes.get("tensor", 1) * plan.length_shards
    return plan.tokens / shards


def _logit_rows(plan: Plan) -> float:
    """The same of those whose logits are there at once."""
    return _rows(plan) / plan.logit_parts


def layer_arrays(plan: Plan, layer: ModelSize) -> Arrays:
    """Bytes of one layer's arrays on a device, as the plan shards them."""
    return _layer_arrays(plan.basis, layer)


@lru_cache(maxsize=256)
def _layer_arrays(basis: Basis, layer: ModelSize) -> Arrays:
    plan, weights, wide = basis.plan, 0.0, 0.0
    rows, tensor = _rows(plan), plan.axis_sizes.get("tensor", 1)
    if layer.mlps[0] != "none":
        visits, apart = 1.0, 1
        if layer.experts > 1:
            visits = plan.visits * plan.expert_repeats
            apart = plan.axis_sizes.get("expert", 1)
        matrices = 3 if layer.gated else 2
        all_mlps = layer.mlp * layer.experts / apart + layer.shared_mlp
        weights = matrices * layer.embed * all_mlps * 2 / tensor
        wide = rows * (layer.mlp * visits + layer.shared_mlp) * 2
    mixer = layer.mixers[0]
    if mixer == "none":
        return Arrays(rows * layer.embed * 2, wide, 0.0, 0.0, 0.0, 0.0, 0.0, weights)
    if mixer != "attention":
        keys, values = 2 * rows * layer.state_keys, 2 * rows * layer.state_values
        state = rows * layer.state_heads * _of_state(layer)
        return Arrays(rows * layer.embed * 2, wide, keys, keys, values, values, 0.0, weights, state)
    keys = rows * tensor * layer.kv_heads * 2 / min(tensor, layer.kv_heads)
    return Arrays(
        rows * layer.embed * 2,
        wide,
        rows * layer.heads * layer.head_dim * 2,
        keys * layer.head_dim,
        keys * layer.value_size,
        rows * layer.heads * layer.value_size * 2,
        rows * layer.heads * LANES * 4,
        weights,
    )


def _of_state(layer: ModelSize) -> float:
    """Bytes for each head and place that a mixer's chunks keep: the states between them in float32,
    pairs of places (their decay in float32; of a delta rule also its own matrix), and queries, keys
    and values of all heads.
    """
    key, value, chunk = layer.state_dim, layer.state_value, layer.chunk
    pairs = chunk * (10 if layer.mixers[0] == "delta" else 6)
    solved = 4 * (key + value) if layer.mixers[0] == "delta" else 0
    return 4 * key * value / chunk + pairs + 2 * (2 * key + value) + solved


def _named(plan: Plan, layer: ModelSize, a: Arrays) -> dict[str, float]:
    """Bytes of what a layer may keep, by its name. The output of `mlp_down` is not kept, since the
    next block's input holds it, but where its rows are weighted, or a norm follows.
    """
    weighted = plan.visits * plan.expert_repeats if layer.experts > 1 else 0.0
    full = plan.axis_sizes.get("tensor", 1) if plan.dropless else 1  # added up after it
    return {
        "input": a.stream,
        "query": a.query,
        "key": a.key,
        "value": a.value,
        "out": a.stream if layer.mixers[0] != "none" else 0.0,
        "mlp_up": a.wide,
        "mlp_gate": a.wide if layer.gated else 0.0,
        "mlp_down": a.stream * (weighted or layer.post_norms) * full if a.wide else 0.0,
        "attention": a.mixed + a.sums / LANES if layer.mixers[0] == "attention" else 0.0,
    }


def _saved_names(plan: Plan) -> set[str]:
    """What the forward pass keeps on the device, but for what is offloaded."""
    projections = ("query", "key", "value", "out", "mlp_up", "mlp_gate", "mlp_down")
    return {"input", *plan.save, *(projections if plan.remat == "minimal" else ())}


def remakes_experts(plan: Plan) -> bool:
    """Returns True if a plan that keeps projections computes those of experts with a capacity again:
    without names JAX keeps matmuls that have no batch dim.
    """
    is_plain = plan.remat == "minimal" and not (plan.save or plan.offload or plan.dropless)
    return is_plain and plan.size.experts > 1


def kept_bytes(plan: Plan) -> tuple[float, float]:
    """(bytes kept on the device, bytes offloaded) by the forward pass of all layers."""
    size, names = plan.size, _saved_names(plan) - {*plan.offload}
    # a scanned block of several layers has one input, as a head of later tokens
    blocks = sum(times for _, times in size.stages) + size.mtp_layers
    kept = moved = 0.0
    of_experts = {"mlp_up", "mlp_gate", "mlp_down"} if remakes_experts(plan) else set[str]()
    for layer, count, _, named, _, _ in _layers(plan.basis, plan.remat):
        if plan.remat == "none":
            kept += count * unsaved_bytes(plan, layer)
        else:
            named = {**named, "input": named["input"] * (blocks / size.all_layers)}
            own = names - of_experts if layer.experts > 1 else names
            kept += count * sum([nbytes for name, nbytes in named.items() if name in own])
        moved += count * sum([named[name] for name in plan.offload])
    return kept, moved


def unsaved_bytes(plan: Plan, layer: ModelSize) -> float:
    """What JAX keeps of a layer where nothing is computed again, with its experts or a norm behind."""
    own = next(each for each in _layers(plan.basis, plan.remat) if each.size == layer)
    routed = own.experts.kept if own.experts else 0.0
    return routed + residual_bytes(layer, own.arrays) + own.named["mlp_down"]


def residual_bytes(layer: ModelSize, a: Arrays) -> float:
    """What JAX keeps of a layer for its gradients, where nothing is computed again: of each norm
    its input in float32 and two results, queries, what attention makes of them twice, keys, values,
    and the mlp's.
    """
    norms = 4 * (4 if layer.post_norms and layer.pre_norms else 2) * a.stream
    norms += 4 * (a.query + a.key) * layer.qk_norm
    wide = _OF_ACTIVATION[layer.activation] + 2 * layer.gated
    mixed = a.query + 2 * a.mixed + a.key + a.value + a.sums / LANES + a.state
    if layer.mixers[0] == "mamba":
        pairs = layer.chunk * a.state / _of_state(layer)
        mixed = sum(map(operator.mul, _OF_MAMBA, (pairs, a.value, a.key)))
    return norms + mixed + wide * a.wide


def _of_block(plan: Plan, block: Sequence[_Layer]) -> tuple[float, float]:
    """(working set of one block's backward pass, the part that the compiler can do without): of the
    largest layer, and of the others what they computed again, or took out of what all layers keep,
    which waits; a block that computes nothing again reads that in place.
    """
    layers = [_of_layer(plan, each) for each in block]
    own = max(range(len(layers)), key=lambda place: layers[place][0])
    waits = sum(
        each[2] for place, each in enumerate(layers) if place != own and plan.remat != "none"
    )
    # what a kernel made is not made anew
    return layers[own][0] + waits, layers[own][1] + waits * (plan.size.experts == 1)


def _of_layer(plan: Plan, layer: _Layer) -> tuple[float, float, float]:
    """(working set of a layer's backward pass, what the compiler can do without, what waits where it
    is not at work)."""
    if not plan.offload:
        return layer.working
    block, spare, waits = layer.working
    # those at work are counted; one set is on its way to or from the host unless memory is short
    offloaded = sum([layer.named[name] for name in plan.offload])
    return block + offloaded, offloaded + spare, waits


def _working_set(
    plan: Plan, layer: ModelSize, a: Arrays, experts: Experts | None, remat: str
) -> tuple[float, float, float]:
    """The same where nothing is offloaded."""
    tensor = plan.axis_sizes.get("tensor", 1)
    narrow = 1.0 if plan.precision.gathered_dtype == "bfloat16" else 0.5
    rings = has_ring(plan) and not plan.precision.scales_gathered
    count, gathered = 3 + layer.gated, (1 + narrow) * a.weights
    if rings and remat == "minimal":  # what is kept is read in place, and weights pass in rings
        count, gathered = 2 + layer.gated, 0.0
    elif rings:
        # gathered is what is computed again: `down` is not; what rings stand between is not fused.
        # Two arrays of the mlp's width are used at once, in vector memory where there is room
        beside = int(_vector_room(plan) / a.wide) if a.wide else 0
        count += (plan.topology.chip.generation not in SPARSE_CORES) - min(2, beside)
        gathered = (1 + layer.gated) / (2 + layer.gated) * a.weights
        gathered += 4 * layer.embed * layer.heads * layer.head_dim
    mlp = count * a.wide + gathered
    block = experts.block if experts else mlp
    block += _attention(plan, layer, a)
    block += _gathered_streams(plan, a)
    is_attention = layer.mixers[0] == "attention"
    if is_attention and tensor > layer.kv_heads:  # keys and values are sums over `tensor`
        block += 4 * a.key * layer.kv_heads
    spare = 4 * a.stream + (a.wide if layer.experts == 1 else 0.0)
    again = experts.waits if experts else (2 + layer.gated) * a.wide
    if is_attention:
        again += 2 * (a.query + a.value) + a.mixed + a.key + a.sums
    return block, spare, again + (4 + 2 * layer.post_norms) * a.stream + a.state


def _gathered_streams(plan: Plan, a: Arrays) -> float:
    """Streams of full width, on the way into and out of the projections over `tensor`."""
    tensor = plan.axis_sizes.get("tensor", 1)
    return 0.0 if tensor == 1 else (2 if tensor > plan.size.kv_heads else 4) * a.stream * tensor


def _attention(plan: Plan, layer: ModelSize, a: Arrays) -> float:
    """What a block's backward pass holds of attention, or of a state."""
    held = a.query + a.mixed + a.key + a.value + a.sums + 4 * a.stream
    if layer.mixers[0] != "attention":
        return held + 2 * a.state
    # one kernel for all gradients leaves that of the queries once per block of keys
    queries, keys = plan.attended
    blocks = keys // plan.kernel_blocks[1] if plan.fused_attention_backward else 0
    both, among = a.key + a.value, plan.context_shards
    if among > 1 and plan.context_attention == "ring":
        # sums in float32, and what comes beside what is there
        return held + a.query * (2 + blocks * queries * among / plan.sequence) + 5 * both
    # gathered, and their gradients
    return held + a.query * blocks + 2 * among * both * (among > 1)


def _turned(plan: Plan, named: Mapping[str, float]) -> tuple[float, float, float]:
    """Bytes of the arrays kept by all layers that a program which offloads some copies to another
    layout: heads, the gate, and the most that it may copy.

    Heads: where none of them is computed again and attention comes from the host, the saved ones
    are all that changes places with the sequence. The gate: TPU7x converts layouts by its
    SparseCores, a slice at a time in the loop and all layers at once in the block outside of it,
    unless `mlp_up` is read beside it; v6e one of the two, where weights are gathered over part of a
    slice, or there are several. Which others are copied is not known: some of the same plans on
    other meshes are.
    """
    if not plan.offload:
        return 0.0, 0.0, 0.0
    layers = plan.size.all_layers
    on_device = _saved_names(plan) - set(plan.offload)
    is_sequence = bool(plan.exchanged_axes)
    changing = is_sequence and "attention" in plan.offload
    changing &= on_device | set(plan.offload) >= _HEADS
    heads = sum(named[name] for name in _HEADS & on_device) if changing else 0.0
    is_alone = "mlp_gate" in on_device and "mlp_up" not in on_device and plan.remat == "full"
    is_alone &= not is_sequence
    gate = named["mlp_gate"] if is_alone and plan.topology.chip.generation == "tpu7x" else 0.0
    in_parts = 1 < _gathered_by(plan) < plan.topology.devices
    if plan.topology.chip.generation == "v6e" and plan.remat == "full" and in_parts:
        heads += max((named[name] for name in {"mlp_up", "mlp_gate"} & on_device), default=0.0)
    most = sum(named[name] for name in ("input", "mlp_up", "mlp_gate") if name in on_device)
    most += 2 * named["query"] if is_sequence else 0.0
    return layers * heads, layers * gate, layers * max(heads + gate, most)


def may_pass_in_rings(topology: Topology, flags: Collection[str]) -> bool:
    """Returns True if weights pass in rings on some mesh of a topology, as `has_ring` has it; `flags`:
    compiler flags of the plan.
    """
    return topology.slices == 1 and topology.devices <= RING_STEPS and makes_rings(topology, flags)


def has_ring(plan: Plan) -> bool:
    """Returns True if weights pass in rings beside parts of their matmuls.

    The compiler makes rings of up to 32 steps (XLA's windowed einsum, spmd/dot_handler.cc), and
    none where a weight is replicated over any axis (along `data`, or between slices), or the rows
    are (fewer sequences than devices).
    """
    among, topology, chip = _gathered_by(plan), plan.topology, plan.topology.chip
    # of 4 devices the first and the last permute have nothing beside them: the compiler makes
    # such a ring on 2D topologies, where matmuls take half as long as their gathers at least
    rows = _rows(plan) * plan.axis_sizes.get("tensor", 1)
    shares = rows * chip.link_bandwidth / chip.device_flops
    worth = among > 4 or (chip.torus_dims == 2 and shares > 0.5 * 3 / 4)
    alone = 1 < among == topology.devices == plan.tokens / rows
    return alone and worth and may_pass_in_rings(topology, plan.compiler_flags)


def experts_ring(plan: Plan, width: float) -> bool:
    """Returns True if experts' weights, or the sums of their gradients, of `width` bytes an element
    pass in rings: those with a capacity, sharded over all devices, where that is worth it.

    The partitioner (XLA's `disable_windowed_einsum`, spmd/dot_handler.cc) makes no ring where the
    longer of product and transfer, with two more shards, is no shorter than both one after the
    other. It counts the peak in bfloat16, and links of one dimension, both ways.
    """
    chip, among = plan.topology.chip, plan.topology.devices
    is_plain = plan.axis_sizes.get("expert", 1) == 1 and not plan.precision.scales_gathered
    if plan.dropless or not is_plain or not has_ring(plan):
        return False
    rows = _rows(plan) * plan.visits / plan.size.experts
    product, moved = 2 * rows / chip.device_flops, width / (2 * chip.link_bandwidth)
    return max(product, moved) + 2 * moved / among < product + moved


def moved_rows(plan: Plan) -> int:
    """Returns the devices over which rows of experts with a capacity are gathered; 1 where their
    weights are gathered.

    Shardy gives an axis to the dim whose arrays have most elements in all (`findCommonAxesHeuristic`,
    shardy/dialect/sdy/transforms/export/explicit_reshards_util.cc): sequences are a dim of the slots
    and of their products, the width one of the weights.
    """
    size, axes = plan.size, plan.axis_sizes
    is_gathered = plan.dropless or plan.precision.scales_gathered or plan.fsdp_on_experts
    if size.experts == 1 or is_gathered or axes.get("fsdp_transpose", 1) > 1:
        return 1
    layer = next(each for each, _ in size.layer_counts if each.experts > 1)
    rows = plan.tokens * plan.visits * (layer.embed + layer.mlp)
    is_fewer = rows < layer.experts * layer.embed * layer.mlp
    return axes.get("fsdp", 1) if is_fewer else 1


def _vector_room(plan: Plan) -> float:
    """Bytes of vector memory that kernels leave."""
    return VMEM_BYTES - 1024 * (plan.kernel_kib or 0)


def _gathered_by(plan: Plan) -> int:
    """Devices over which weights are gathered."""
    axes = plan.axis_sizes
    return math.prod(axes.get(name, 1) for name in GATHERED_AXES)


@lru_cache(maxsize=64)
def _logits(basis: Basis, offloads: bool) -> tuple[float, float]:
    """(logits with their gradients and the gathered tables, the part that the compiler can do
    without).

    Gradients of float32 logits are bfloat16, and the gradient of the table is all that is left of
    it beside them. Those of bfloat16 logits take their place where weights are gathered over more
    devices than a ring has, beside the table and its gradient, and the embedding where the loop
    beside it offloads. Else they are beside the logits, with the table and the last block's output.
    """
    plan, a = basis.plan, max(_layers(basis, basis.plan.remat), key=attrgetter("count")).arrays
    model, tensor = plan.size, plan.axis_sizes.get("tensor", 1)
    each = _logit_rows(plan) * model.vocab * 2
    table = model.embed * model.vocab * 2 / tensor
    if model.logits_float32:
        if plan.lora_rank:  # one product alone needs their gradient, and makes it
            return 2 * each + table + _gathered_streams(plan, a), 0.0
        if has_ring(plan):
            # the last block's output, its norm, and that turned; of the tables' sums a shard for
            # each way around, from zero on; the gradient where vector memory has no room for it
            shards = (1 + (_gathered_by(plan) > 4)) * (2 + 4 * (plan.logit_parts == 1))
            gradient = each * (each + a.stream > _vector_room(plan))
            sums = shards * model.embed * model.vocab / _gathered_by(plan)
            return 2 * each + gradient + table + 3 * a.stream + sums, 0.0
        return 3 * each + 2 * table, 0.0
    tables = (2 if model.tied else 3) * table
    if model.logits_cap:
        return 2 * each + tables, 0.0
    if _gathered_by(plan) > RING:
        return each + (tables if offloads else 2 * table), 0.0
    return max(2 * each + table + 4 * a.stream, each + 2 * table), table
