"""The sharding of a decoder's training step: dim -> mesh axes, as in
`programs/decoder_config.py`, applied to a plan's mesh.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spmd_core.experiment.plan.model_size import ModelSize
from spmd_core.experiment.plan.plan import Plan

Dims = tuple[tuple[str, int], ...]
# An axis that an earlier dim of the same array uses is skipped, and so is one that does not divide
# the dim. A test compares this with the program's.
RULES: Mapping[str, tuple[str, ...]] = {
    "batch": ("data", "fsdp", "fsdp_transpose", "expert"),
    "expert_batch": ("data", "fsdp", "fsdp_transpose"),
    "length": ("sequence",),
    "act_embed": ("tensor",),
    "act_heads": ("tensor", "sequence"),
    "act_mlp": ("tensor",),
    "act_vocab": ("tensor", "sequence"),
    "embed": ("fsdp", "fsdp_transpose", "sequence", "expert"),
    "mlp": ("fsdp_transpose", "tensor"),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "vocab": ("tensor",),
    "norm": ("tensor",),
    "experts": ("expert",),
    "fsdp_experts": ("fsdp", "fsdp_transpose"),
    "rank": ("fsdp", "fsdp_transpose", "sequence", "expert"),
}


@dataclass(frozen=True, slots=True)
class ShardedArray:
    """An array of the program: its group and name, its dims with sizes, and the mesh axes that
    shard each dim.
    """

    # "activations" or "parameters", of which those of a layer are shown without the dim of layers
    group: str
    name: str
    dims: tuple[tuple[str, int], ...]
    axes: tuple[tuple[str, ...], ...]
    times: int = 1  # arrays of these dims: one for each layer that has it

    def held(self, mesh: Mapping[str, int]) -> tuple[int, ...]:
        """Shape of one device's shard."""
        return tuple(
            size // math.prod(mesh[axis] for axis in axes)
            for (_, size), axes in zip(self.dims, self.axes, strict=True)
        )


def spec(dims: Sequence[tuple[str, int]], mesh: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """The mesh axes that shard each dim, by the table."""
    used: set[str] = set()
    entries = []
    for dim, size in dims:
        axes: list[str] = []
        for axis in RULES.get(dim, ()):
            if (
                axis in mesh
                and axis not in used
                and size % (mesh[axis] * math.prod(mesh[each] for each in axes)) == 0
            ):
                axes.append(axis)
        used.update(axes)
        entries.append(tuple(axes))
    return tuple(entries)


def batch_shards(plan: Plan) -> int:
    """Devices among which the sequences of a batch are divided."""
    (axes,) = spec((("batch", plan.batch),), plan.axis_sizes)
    return math.prod(plan.axis_sizes[axis] for axis in axes)


def group_rows(plan: Plan) -> int:
    """Rows of a block of the grouped matmul: a power of two, of which an expert has at least two
    when all have as many rows, since one that two experts share is multiplied twice.
    """
    rows = plan.tokens // (batch_shards(plan) * plan.axis_sizes.get("sequence", 1))
    size = plan.size
    each = max(1, rows * size.experts_per_token // (2 * size.experts))
    return min(512, max(128, 1 << (each.bit_length() - 1)))


def arrays(plan: Plan) -> tuple[ShardedArray, ...]:
    """The main arrays under a plan's mesh; axes of size 1 shard nothing and are left out."""
    mesh = {name: length for name, length in plan.mesh if length > 1}
    dims = {"activations": _activations(plan), "parameters": parameters(plan)}
    return tuple(
        ShardedArray(group, name, shape, spec(shape, mesh), times(plan.size, name))
        for group, shapes in dims.items()
        for name, shape in shapes.items()
    )


def times(size: ModelSize, name: str) -> int:
    """Layers that have a parameter of that name; 1 of what is beside the layers."""
    if name in ("embedding", "logits", "final_norm"):
        return 1
    if name.startswith("dense_"):
        return size.dense_layers
    if name == "joined":
        return size.mtp_layers
    of_experts = name in ("up", "gate", "down", "router") or name.startswith("shared_")
    return size.expert_layers if of_experts else size.all_layers


def by_dim(plan: Plan) -> dict[str, dict[str, tuple[tuple[str, ...], ...]]]:
    """Dim in plain words -> "activations" and "parameters" -> the different sets of axes that shard
    it there; () is replicated.
    """
    axes_by_dim: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {}
    for array in arrays(plan):
        for (dim, _), axes in zip(array.dims, array.axes, strict=True):
            if dim in WORDS:
                groups = axes_by_dim.setdefault(WORDS[dim], {})
                groups[array.group] = tuple(dict.fromkeys((*groups.get(array.group, ()), axes)))
    order = list(dict.fromkeys(WORDS.values()))
    return {dim: axes_by_dim[dim] for dim in order if dim in axes_by_dim}


def parameter_share(plan: Plan) -> float:
    """The share of the model's weights (without norms) that one device holds: more than 1 / devices
    if a dim does not divide.
    """
    total = per_device = 0
    for array in _weights(plan):
        total += array.times * math.prod(size for _, size in array.dims)
        per_device += array.times * math.prod(array.held(plan.axis_sizes))
    return per_device / total


def plan_notes(plan: Plan) -> list[str]:
    """What the sizes of a plan show before it is compiled, a sentence each."""
    more = (plan.kernel_refusal, plan.little_compared)
    return [*undivided_axes(plan), *filter(None, more)]


def undivided_axes(plan: Plan) -> tuple[str, ...]:
    """A sentence for each mesh axis that should shard the weights but divides none of their dims,
    so that they are replicated along it.
    """
    weights = _weights(plan)
    used = {axis for array in weights for axes in array.axes for axis in axes}
    sentences = []
    for axis, size in plan.mesh:
        meant = dict.fromkeys(
            dim for array in weights for dim in array.dims if axis in RULES.get(dim[0], ())
        )
        if size > 1 and axis not in used and meant:
            sizes = " and ".join(f"{dim}={length}" for dim, length in meant)
            do = "does" if len(meant) == 1 else "do"
            effect = f"are not sharded over {axis}" if used else "are replicated on every device"
            sentences.append(f"{sizes} {do} not divide over {axis}={size}: parameters {effect}")
    return tuple(sentences)


def _weights(plan: Plan) -> list[ShardedArray]:
    """The parameters that are matrices."""
    return [
        array
        for array in arrays(plan)
        if array.group == "parameters" and not array.name.endswith("norm")
    ]


WORDS = {
    "batch": "batch",
    "length": "sequence",
    "whole": "sequence",
    "act_embed": "embed",
    "embed": "embed",
    "act_heads": "heads",
    "heads": "heads",
    "kv_heads": "key and value heads",
    "act_mlp": "mlp",
    "mlp": "mlp",
    "act_vocab": "vocabulary",
    "vocab": "vocabulary",
    "norm": "norms",
    "experts": "experts",
    "fsdp_experts": "experts",
}


def _activations(plan: Plan) -> dict[str, Dims]:
    size = plan.size
    rows: Dims = (("batch", plan.batch), ("length", plan.sequence))
    full_sequence = ("whole", plan.sequence)  # attention reads the full sequence
    # with fewer key heads than shards, key heads are repeated, one for each query head
    alike = (
        len(
            {
                spec((("act_heads", heads),), plan.axis_sizes)
                for heads in (size.heads, size.kv_heads)
            }
        )
        == 1
    )
    keys = size.kv_heads if alike else size.heads
    activations: dict[str, Dims] = {
        "tokens": rows,
        "between the blocks": (*rows, ("act_embed", size.embed)),
        "query, in attention": (
            rows[0],
            ("act_heads", size.heads),
            full_sequence,
            ("head_dim", size.head_dim),
        ),
        "key and value, in attention": (
            rows[0],
            ("act_heads", keys),
            full_sequence,
            ("head_dim", size.head_dim),
        ),
    }
    if size.experts == 1:
        activations["inside the mlp"] = (*rows, ("act_mlp", size.mlp))
    return activations | {"logits": (*rows, ("act_vocab", size.vocab))}


def parameters(plan: Plan) -> dict[str, Dims]:
    """Parameters by their names in the program, without the dim of layers that those of a block
    begin with.
    """
    size = plan.size
    embed, vocab, mlp = ("embed", size.embed), ("vocab", size.vocab), ("mlp", size.mlp)
    norm: Dims = (("norm", size.embed),)
    experts: Dims = (("experts", size.experts),) if size.experts > 1 else ()
    parameters: dict[str, Dims] = {"embedding": (vocab, embed)}
    if not size.tied:
        parameters["logits"] = (embed, vocab)
    parameters |= _of_attention(plan)
    if plan.fsdp_on_experts:
        experts = (("fsdp_experts", size.experts),)
    parameters |= _of_mlp(plan, "", experts, mlp)
    if size.dense_layers:
        parameters |= _of_mlp(plan, "dense_", (), ("mlp", size.dense_mlp))
    if size.shared_mlp:
        shared = ("mlp", size.shared_mlp)
        parameters |= dict.fromkeys(("shared_gate", "shared_up"), (embed, shared))
        parameters["shared_down"] = (shared, embed)
    if size.mtp_layers:
        parameters["joined"] = (("joined", 2), embed, ("joined_embed", size.embed))
    return parameters | {"attention_norm": norm, "mlp_norm": norm, "final_norm": norm}


def _of_attention(plan: Plan) -> dict[str, Dims]:
    size = plan.size
    embed, of_heads = ("embed", size.embed), ("heads", size.heads)
    head_dim, value = ("head_dim", size.head_dim), ("head_dim", size.value_size)
    out = {"out": (of_heads, value, embed)}
    if size.kv_rank:
        both = ("head_dim", size.nope_dim + size.value_size)
        weights: dict[str, Dims] = {
            "kv_down": (embed, ("kv_rank", size.kv_rank + size.rope_dim)),
            "kv_up": (("rank", size.kv_rank), of_heads, both),
        }
        if size.q_rank:
            weights["query_down"] = (embed, ("q_rank", size.q_rank))
        first = ("rank", size.q_rank) if size.q_rank else embed
        return weights | {"query": (first, of_heads, head_dim)} | out
    if plan.fused_qkv:
        return {"qkv": (embed, ("qkv", 3), of_heads, head_dim)} | out
    kv = ("kv_heads", size.kv_heads)
    query = {"query": (embed, of_heads, head_dim)}
    return query | {"key": (embed, kv, head_dim), "value": (embed, kv, value)} | out


def _of_mlp(plan: Plan, prefix: str, experts: Dims, mlp: tuple[str, int]) -> dict[str, Dims]:
    """The matrices of an mlp, or of experts."""
    by_experts = bool(experts) and plan.fsdp_on_experts
    embed = ("unsharded_embed" if by_experts else "embed", plan.size.embed)
    up: Dims = (*experts, embed, *((("gate_up", 2),) if plan.fused_mlp else ()), mlp)
    gate = {"gate": up} if plan.size.gated and not plan.fused_mlp else {}
    of_mlp = gate | {"up": up, "down": (*experts, mlp, embed)}
    return {f"{prefix}{name}": dims for name, dims in of_mlp.items()}
