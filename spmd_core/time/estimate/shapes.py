"""Sizes of a plan's arrays on one device, worked out once per estimate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property

from spmd_core.machine import Chip, Topology
from spmd_core.plan import (
    DATA_AXES,
    ModelSize,
    Plan,
    ShardedArray,
    batch_shards,
    layer_weights,
    weight_shards,
    weights,
)
from spmd_core.time.cost.constants import RING
from spmd_core.time.estimate.constants import HALF_BYTES, LARGE_BYTES, NOT_OF_A_LAYER
from spmd_core.time.estimate.memory import (
    LANES,
    Arrays,
    has_ring,
    layer_arrays,
    moved_rows,
    remakes_experts,
)
from spmd_core.time.gpu.matmuls import sustained

# in place of names of what is computed again: the least of all policies, which keeps nothing either
LEAST = frozenset({"least"})
PROJECTIONS = ("query", "key", "value", "out", "mlp_up", "mlp_gate")
_ELEMENTS = {
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2",
    "int8": "s8",
}


@dataclass(frozen=True, eq=False)  # a key of what follows from it
class Shapes:
    """A plan with what follows from it, or one of its layers; `topology`, `size` and `mesh` are read
    once.
    """

    plan: Plan
    topology: Topology
    size: ModelSize
    mesh: Mapping[str, int]
    is_layer: bool = False

    @cached_property
    def layers(self) -> tuple[tuple["Shapes", int], ...]:
        """Each kind of layer, with how many there are."""
        counts = self.size.layer_counts
        return tuple((replace(self, size=layer, is_layer=True), count) for layer, count in counts)

    @property
    def chip(self) -> Chip:
        """The chip of the topology."""
        return self.topology.chip

    @cached_property
    def arrays(self) -> Arrays:
        """Bytes of one layer's arrays on a device; on average over a plan's."""
        if self.is_layer:
            return layer_arrays(self.plan, self.size)
        total = self.size.all_layers
        return Arrays(
            *(
                sum(getattr(each.arrays, part.name) * count / total for each, count in self.layers)
                for part in fields(Arrays)
            )
        )

    @cached_property
    def weights(self) -> tuple[ShardedArray, ...]:
        """Parameters that are matrices, with the axes that shard them."""
        if self.is_layer:
            return layer_weights(self.plan, self.size)
        return weights(self.plan)

    def along(self, *names: str) -> int:
        """Devices along these mesh axes together."""
        return math.prod(self.mesh.get(name, 1) for name in names)

    @property
    def parts(self) -> int:
        """Parts of a layer, each of which adds to the stream."""
        return (self.size.mixers[0] != "none") + (self.size.mlps[0] != "none")

    @property
    def tensor(self) -> int:
        """Size of the axis `tensor`."""
        return self.along("tensor")

    def element(self, way: str) -> str:
        """The type of the operands of a layer's matmuls in that pass, as HLO writes it."""
        precision = self.plan.precision
        forward = _ELEMENTS[precision.matmul_dtype]
        return forward if way == "forward" else _ELEMENTS[precision.backward_dtype]

    @cached_property
    def sequences(self) -> float:
        """Sequences of one device's attention."""
        return self.plan.batch / batch_shards(self.plan)

    @property
    def length(self) -> float:
        """Tokens of a sequence that a device's matmuls see."""
        return self.plan.sequence / self.plan.length_shards

    @property
    def matmul_rows(self) -> float:
        """Rows of a device's matmuls: its tokens, unsharded over `tensor`."""
        return self.sequences * self.length

    def shards_of(self, dim: str, name: str | None = None) -> int:
        """Shards of a dim of the weights over `tensor` and `expert`; 1 where they do not divide it."""
        return self._shards.get((dim, name), 1)

    @cached_property
    def _shards(self) -> Mapping[tuple[str, str | None], int]:
        return weight_shards(self.plan, self.size if self.is_layer else None)

    @property
    def projected_heads(self) -> float:
        """Heads that a device projects queries to."""
        return self.size.heads / self.shards_of("heads")

    @property
    def projected_keys(self) -> float:
        """Heads that a device projects keys to."""
        if self.size.kv_rank:
            return self.projected_heads
        keys = self.shards_of("kv_heads") if not self.plan.fused_qkv else self.shards_of("heads")
        return self.size.kv_heads / keys

    @property
    def state_values(self) -> float:
        """Elements of a mixer's values that a device projects to."""
        return self.size.state_values / self.shards_of("heads")

    @property
    def state_heads(self) -> float:
        """Heads of a device's state, which sees full sequences."""
        both = self.along("tensor", "sequence")
        return self.size.state_heads / (both if self.size.state_heads % both == 0 else self.tensor)

    @property
    def attention_heads(self) -> float:
        """Heads of a device's attention."""
        exchanged = ("context",) * (self.plan.context_attention == "ulysses")
        both = self.along("tensor", "sequence", *exchanged)
        return self.size.heads / (both if self.size.heads % both == 0 else self.tensor)

    @property
    def experts_here(self) -> int:
        """Experts of which a device has weights."""
        return self.size.experts // self.shards_of("experts")

    @property
    def expert_rows(self) -> float:
        """Rows of one expert on a device, padded to its capacity: of all devices that share the
        experts.
        """
        if self.size.experts == 1:
            return self.matmul_rows
        rows = self.matmul_rows * self.plan.expert_repeats
        return rows * self.peers * self.plan.visits / self.size.experts

    @cached_property
    def peers(self) -> int:
        """Devices whose sequences an expert sees: those along `expert` that share the batch; dropless,
        all of them, with the same sequences too.
        """
        among = self.along("expert")
        if self.plan.dropless:
            return among if self.plan.size.experts % among == 0 else 1
        apart = batch_shards(self.plan) % (self.along(*DATA_AXES) * among) == 0
        return among if apart else 1

    @property
    def mlp_here(self) -> float:
        """Columns of the mlp on a device."""
        return self.size.mlp / self.shards_of("mlp", "down")

    @property
    def extra_backward(self) -> float:
        """Matmuls of routes in the backward pass beyond two for each in the forward pass."""
        return -0.5 if self.size.experts > 1 else 0.0

    @cached_property
    def ring(self) -> int:
        """Devices among which weights pass in a ring beside parts of their matmul; else 1."""
        return self.topology.devices if has_ring(self.plan) else 1

    @cached_property
    def turned_bytes(self) -> float:
        """Bytes of a layer's experts' matrices that are gathered in another layout than the products
        read: those that do not fill the lanes of tiles, as a shard along their last dim does not,
        and on TPU7x those whose last dim does not.
        """
        total = 0.0
        for array in self.weights if self.moved_rows == 1 else ():
            (_, size), axes = array.dims[-1], array.axes[-1]
            shards = math.prod(self.mesh[axis] for axis in axes if axis != "tensor")
            is_part = shards > 1 or self.chip.generation == "tpu7x"
            columns = size / shards / (self.tensor if "tensor" in axes else 1)
            if "experts" in dict(array.dims) and is_part and columns % LANES:
                total += self.unsharded_bytes(array)
        return total if self.plan.precision.gathered_dtype == "bfloat16" else total / 2

    @cached_property
    def moved_rows(self) -> int:
        """Devices over which experts' rows are gathered in place of their weights; else 1."""
        return moved_rows(self.plan)

    @property
    def rings_layers(self) -> bool:
        """Returns True if layers' weights pass in rings, too: none that are gathered to be scaled."""
        return self.ring > 1 and not self.plan.precision.scales_gathered

    @property
    def sum_width(self) -> int:
        """Bytes of sums of a layer's products, over those in bfloat16: products of operands in 8 bits
        are added, and gradients of stored weights summed, in float32.
        """
        return 1 if self.plan.precision.gathered_dtype == "bfloat16" else 2

    @property
    def has_rings(self) -> bool:
        """Whether matmuls' operands or sums pass around rings on a topology of few devices, where
        those may take longer than the matmuls.
        """
        few = self.topology.devices <= RING and self.plan.makes_rings
        return few and (self.ring > 1 or self.tensor > 1)

    @cached_property
    def layer_weight_bytes(self) -> float:
        """Bytes in bfloat16 of one layer's weights, sharded only over `tensor` and `expert`; on
        average over the layers.
        """
        of_layers = (each for each in self.weights if each.name not in NOT_OF_A_LAYER)
        total = sum(self.unsharded_bytes(each) * each.times for each in of_layers)
        return total / self.size.all_layers

    def result_bytes(self, matmul: str) -> float:
        """Bytes in bfloat16 of what a matmul of a layer makes on a device."""
        head = self.size.head_dim
        columns = {
            "query": self.projected_heads * head,
            "key": self.projected_keys * head,
            "value": self.projected_keys * head,
            "mlp_up": self.mlp_here,
            "mlp_gate": self.mlp_here,
        }
        return 2.0 * self.matmul_rows * columns.get(matmul, self.size.embed)

    def wide_bytes(self, matmul: str) -> float:
        """Bytes in bfloat16 of the operand or result of a layer's matmul that is not the stream."""
        out = 2.0 * self.matmul_rows * self.projected_heads * self.size.value_size
        inside = {"out": out, "mlp_down": self.result_bytes("mlp_up")}
        return inside.get(matmul) or self.result_bytes(matmul)

    def passed_bytes(self, nbytes: float) -> float:
        """Of a pass over an array, the bytes that move in HBM: part of a small one is in vector
        memory.
        """
        if self.chip.is_gpu:
            return nbytes
        share = nbytes / (nbytes + HALF_BYTES) * (1 + HALF_BYTES / LARGE_BYTES)
        return nbytes * min(1.0, share)

    def unsharded_bytes(self, array: ShardedArray) -> float:
        """Bytes of a weight in bfloat16, sharded as a matmul needs it."""
        kept = [
            self.mesh[axis]
            for (dim, _), axes in zip(array.dims, array.axes, strict=True)
            for axis in axes
            if axis == "tensor" or dim == "experts"
        ]
        return 2.0 * math.prod(size for _, size in array.dims) / math.prod(kept)

    @cached_property
    def trained(self) -> tuple[ShardedArray, ...]:
        """The weights that are trained: all, or adapters."""
        rank = self.plan.lora_rank
        return tuple(each for each in self.weights if rank is None or each.is_adapter)

    @cached_property
    def own_parameters(self) -> float:
        """Parameters that a device trains."""
        return sum(each.times * math.prod(each.held(self.mesh)) for each in self.trained)


def shapes_of(plan: Plan) -> Shapes:
    """The sizes of a plan."""
    return Shapes(plan, sustained(plan.topology), plan.size, plan.axis_sizes)


def shapes_under(shapes: Shapes, plan: Plan) -> Shapes:
    """The shapes of a plan that differs from theirs only in what it saves: on GPUs, where time goes
    into what is kept, its own; else the same.
    """
    return shapes_of(plan) if shapes.chip.is_gpu else shapes


def recomputed(plan: Plan) -> frozenset[str]:
    """Names of what the backward pass computes again."""
    if plan.remat == "none":
        return frozenset()
    kept = {*plan.save, *plan.offload}
    if plan.remat == "minimal":
        of_experts = {"mlp_up", "mlp_gate", "mlp_down"} if remakes_experts(plan) else set[str]()
        kept |= {*PROJECTIONS, "mlp_down"} - of_experts
    # what weights an expert's rows, or a norm behind the mlp, needs the mlp's result again
    routed = ("mlp_down", "dispatch") if plan.size.experts > 1 else ()
    normed = ("mlp_down",) if plan.size.post_norms else ()
    joined = ("joined",) if plan.size.mtp_layers else ()
    # a policy by names keeps no projection without one
    by_name = plan.remat != "minimal" or plan.save or plan.offload or plan.dropless
    has_gate = plan.size.out_gate or plan.size.state_heads
    gates = ("mixed_gate",) if by_name and has_gate else ()
    return frozenset({*PROJECTIONS, "attention", *gates, *joined, *routed, *normed} - kept)
