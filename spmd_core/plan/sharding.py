"""The sharding of a decoder's training step: dim -> mesh axes, as in
`programs/decoder_config.py`, applied to a plan's mesh.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from spmd_core.base import mesh_text
from spmd_core.plan.model_size import ModelSize
from spmd_core.plan.plan import Plan

Dims = tuple[tuple[str, int], ...]
ADAPTERS = ("_lora_in", "_lora_out")  # how names of adapters end
# An axis that an earlier dim of the same array uses is skipped, and so is one that does not divide
# the dim. A test compares this with the program's.
RULES: Mapping[str, tuple[str, ...]] = {
    "batch": ("data", "fsdp", "fsdp_transpose", "expert"),
    "expert_batch": ("data", "fsdp", "fsdp_transpose"),
    "length": ("sequence", "context"),
    "context_length": ("context",),
    "act_embed": ("tensor",),
    "act_heads": ("tensor", "sequence"),
    "context_heads": ("tensor", "sequence", "context"),
    "act_mlp": ("tensor",),
    "act_vocab": ("tensor", "sequence"),
    "embed": ("fsdp", "fsdp_transpose", "sequence", "context", "expert"),
    "mlp": ("fsdp_transpose", "tensor"),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "vocab": ("tensor",),
    "norm": ("tensor",),
    "experts": ("expert",),
    "fsdp_experts": ("fsdp", "fsdp_transpose"),
    "stacked": ("fsdp", "fsdp_transpose", "sequence", "context"),
    "rank": ("fsdp", "fsdp_transpose", "sequence", "context", "expert"),
}

OF_STATE = ("embed", "rank")  # dims that ZeRO-1 shards over `data`, behind the axes of the weights
# keys of weights: a search comes back to each of its meshes under every option
_KEPT = 1024
# how attention goes over `context` -> dims of heads, of queries and of keys there
CONTEXT_DIMS = {
    "all-gather": ("act_heads", "context_length", "whole"),
    "ring": ("act_heads", "context_length", "context_length"),
    "ulysses": ("context_heads", "whole", "whole"),
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

    @property
    def weight(self) -> str:
        """Its name in the program: without the kind of its layers."""
        return next(
            (self.name.removeprefix(each) for each in KINDS if self.name.startswith(each)),
            self.name,
        )

    @property
    def is_adapter(self) -> bool:
        """Whether it is one of the two matrices that are trained beside a frozen one."""
        return self.name.endswith(ADAPTERS)

    def held(self, mesh: Mapping[str, int]) -> tuple[int, ...]:
        """Shape of one device's shard."""
        return tuple(
            size // math.prod(mesh[axis] for axis in axes)
            for (_, size), axes in zip(self.dims, self.axes, strict=True)
        )


def spec(
    dims: Sequence[tuple[str, int]], mesh: Mapping[str, int], of_state: bool = False
) -> tuple[tuple[str, ...], ...]:
    """The mesh axes that shard each dim, by the table; `of_state`: over `data` too."""
    used: set[str] = set()
    entries = []
    for dim, size in dims:
        axes: list[str] = []
        for axis in (*RULES.get(dim, ()), *(("data",) * (of_state and dim in OF_STATE))):
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
    return math.prod(plan.axis_sizes[axis] for axis in batch_axes(plan))


def batch_axes(plan: Plan) -> tuple[str, ...]:
    """Mesh axes over which the sequences of a batch are divided."""
    return _batch_axes(plan.batch, plan.mesh)


@lru_cache(maxsize=4096)
def _batch_axes(batch: int, mesh: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    return spec((("batch", batch),), dict(mesh))[0]


def group_rows(plan: Plan) -> int:
    """Rows of a block of the grouped matmul: a power of two, of which an expert has at least two
    when all have as many rows, since one that two experts share is multiplied twice.
    """
    rows = plan.tokens // (batch_shards(plan) * plan.length_shards)
    size = plan.size
    each = max(1, rows * size.experts_per_token // (2 * size.experts))
    return min(512, max(128, 1 << (each.bit_length() - 1)))


class _WeightKey(NamedTuple):
    """Fields of a plan that say how its parameters are sharded, the same for every batch and policy."""

    size: ModelSize
    mesh: tuple[tuple[str, int], ...]
    lora_rank: int | None
    fused_qkv: bool
    fused_mlp: bool
    fsdp_on_experts: bool


def _weight_key(plan: Plan) -> _WeightKey:
    return _WeightKey(*(getattr(plan, name) for name in _WeightKey._fields))


def arrays(plan: Plan) -> tuple[ShardedArray, ...]:
    """The main arrays under a plan's mesh; axes of size 1 shard nothing and are left out."""
    mesh = {name: length for name, length in plan.mesh if length > 1}
    own = (
        ShardedArray("activations", name, dims, spec(dims, mesh))
        for name, dims in _activations(plan).items()
    )
    return (*own, *_parameter_arrays(_weight_key(plan)))


def stored_arrays(plan: Plan) -> tuple[ShardedArray, ...]:
    """`arrays` as they are kept between steps: parameters over `data` too, where their optimizer is."""
    is_wide, mesh = plan.shard_optimizer_over_data, plan.axis_sizes
    return tuple(
        replace(each, axes=spec(each.dims, mesh, of_state=is_wide and each.group == "parameters"))
        for each in arrays(plan)
    )


@lru_cache(maxsize=_KEPT)
def _parameter_arrays(key: _WeightKey) -> tuple[ShardedArray, ...]:
    mesh = {name: length for name, length in key.mesh if length > 1}
    return tuple(
        ShardedArray("parameters", name, dims, spec(dims, mesh), times)
        for name, (dims, times) in parameters(key).items()
    )


def weight_key(plan: Plan) -> Hashable:
    """Returns a key of plans with the same weights, sharded alike, whatever their batch and policy."""
    return _weight_key(plan)


def weights(plan: Plan) -> tuple[ShardedArray, ...]:
    """Returns the parameters that are matrices, under a plan's mesh."""
    return _weights(_weight_key(plan))


def weight_shards(
    plan: Plan, layer: ModelSize | None = None
) -> Mapping[tuple[str, str | None], int]:
    """Returns the shards over `tensor` and `expert` of each dim of the weights, or of those of a layer:
    in the first array that has it, as (dim, None), and in each array, as (dim, its name).
    """
    return _shards(_weight_key(plan), layer)


@lru_cache(maxsize=_KEPT)
def _shards(key: _WeightKey, layer: ModelSize | None) -> Mapping[tuple[str, str | None], int]:
    mesh, shards = dict(key.mesh), dict[tuple[str, str | None], int]()
    for array in _layer_weights(key, layer) if layer else _weights(key):
        for (dim, _), axes in zip(array.dims, array.axes, strict=True):
            over = math.prod(mesh[axis] for axis in axes if axis in ("tensor", "expert"))
            shards.setdefault((dim, None), over)
            shards.setdefault((dim, array.name), over)
    return shards


def layer_weights(plan: Plan, layer: ModelSize) -> tuple[ShardedArray, ...]:
    """The matrices of one layer."""
    return _layer_weights(_weight_key(plan), layer)


@lru_cache(maxsize=_KEPT)
def _layer_weights(key: _WeightKey, layer: ModelSize) -> tuple[ShardedArray, ...]:
    mesh = {name: length for name, length in key.mesh if length > 1}
    return tuple(
        ShardedArray("parameters", name, dims, spec(dims, mesh))
        for name, dims in _of_layer(key, layer).items()
    )


def by_dim(plan: Plan) -> dict[str, dict[str, tuple[tuple[str, ...], ...]]]:
    """Dim in plain words -> "activations" and "parameters" -> the different sets of axes that shard
    it there; () is replicated.
    """
    axes_by_dim: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {}
    for array in stored_arrays(plan):
        for (dim, _), axes in zip(array.dims, array.axes, strict=True):
            if dim in WORDS:
                groups = axes_by_dim.setdefault(WORDS[dim], {})
                groups[array.group] = tuple(dict.fromkeys((*groups.get(array.group, ()), axes)))
    order = list(dict.fromkeys(WORDS.values()))
    return {dim: axes_by_dim[dim] for dim in order if dim in axes_by_dim}


def parameter_share(plan: Plan) -> float:
    """The share of the model's weights (without norms and adapters) that one device holds: more than
    1 / devices if a dim does not divide.
    """
    return _parameter_share(_weight_key(plan))


def state_share(plan: Plan) -> float:
    """The part of the weights that a device's matmuls read whose optimizer state it holds."""
    return _state_share(_weight_key(plan)) if plan.shard_optimizer_over_data else 1.0


@lru_cache(maxsize=_KEPT)
def _state_share(key: _WeightKey) -> float:
    mesh, read, held = {name: size for name, size in key.mesh if size > 1}, 0, 0
    for array in _weights(key):
        read += array.times * math.prod(array.held(mesh))
        own = replace(array, axes=spec(array.dims, mesh, of_state=True))
        held += array.times * math.prod(own.held(mesh))
    return held / read


@lru_cache(maxsize=_KEPT)
def _parameter_share(key: _WeightKey) -> float:
    total, per_device, mesh = 0, 0, dict(key.mesh)
    for array in (each for each in _weights(key) if not each.is_adapter):
        total += array.times * math.prod(size for _, size in array.dims)
        per_device += array.times * math.prod(array.held(mesh))
    return per_device / total


def plan_notes(plan: Plan) -> list[str]:
    """What the sizes of a plan show before it is compiled, a sentence each."""
    more = (plan.beyond_context, plan.kernel_refusal, plan.little_compared)
    return [*undivided_axes(plan), *filter(None, more)]


def undivided_axes(plan: Plan) -> tuple[str, ...]:
    """A sentence for each mesh axis that should shard the weights but divides none of their dims,
    so that they are replicated along it.
    """
    matrices, mesh, sentences = weights(plan), dict(plan.mesh), []
    used = {axis for array in matrices for axes in array.axes for axis in axes}
    for axis, size in plan.mesh:
        over = dict[
            tuple[str, ...], dict[tuple[str, int], None]
        ]()  # dims by the axes that they fail
        both = (zip(array.dims, array.axes, strict=True) for array in matrices)
        for dim, axes in chain.from_iterable(both):
            if axis in (rule := RULES.get(dim[0], ())):
                before = (each for each in axes if rule.index(each) < rule.index(axis))
                over.setdefault((*before, axis), {})[dim] = None
        if size > 1 and axis not in used and over:
            failed = ", and ".join(_undivided(dims, axes, mesh) for axes, dims in over.items())
            effect = f"are not sharded over {axis}" if used else "are replicated on every device"
            sentences.append(f"{failed}: parameters {effect}")
    return tuple(sentences)


def _undivided(
    dims: Iterable[tuple[str, int]], axes: Iterable[str], mesh: Mapping[str, int]
) -> str:
    sizes = [f"{dim}={length}" for dim, length in dims]
    do, product = (
        "does" if len(sizes) == 1 else "do",
        mesh_text(((e, mesh[e]) for e in axes), " × "),
    )
    return f"{' and '.join(sizes)} {do} not divide over {product}"


@lru_cache(maxsize=_KEPT)
def _weights(key: _WeightKey) -> tuple[ShardedArray, ...]:
    return tuple(each for each in _parameter_arrays(key) if not each.name.endswith("norm"))


WORDS = {
    "batch": "batch",
    "length": "sequence",
    "whole": "sequence",
    "context_length": "sequence",
    "act_embed": "embed",
    "embed": "embed",
    "act_heads": "heads",
    "context_heads": "heads",
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
    heads, of_queries, of_keys = CONTEXT_DIMS[plan.context_attention]
    queries, keys = ((heads, each) for each in (size.heads, size.kv_heads))
    over, own = (spec((each,), plan.axis_sizes) for each in (queries, keys))
    if over != own:  # fewer key heads than shards: each has those of its queries
        shards = math.prod(plan.axis_sizes[axis] for axis in over[0])
        keys = (heads, math.lcm(size.kv_heads, shards))
    head_dim = ("head_dim", size.head_dim)
    activations: dict[str, Dims] = {
        "tokens": rows,
        "between the blocks": (*rows, ("act_embed", size.embed)),
        "query, in attention": (rows[0], queries, (of_queries, plan.sequence), head_dim),
        "key and value, in attention": (rows[0], keys, (of_keys, plan.sequence), head_dim),
    }
    if size.experts == 1:
        activations["inside the mlp"] = (*rows, ("act_mlp", size.mlp))
    return activations | {"logits": (*rows, ("act_vocab", size.vocab))}


# how names of weights begin of which a layer of another kind has one of other dims: an mlp beside
# experts, heads without a window, mixers with a state
KINDS = ("dense_", "full_", "state_")


def parameters(plan: Plan | _WeightKey) -> dict[str, tuple[Dims, int]]:
    """Parameters by their names in the program, with how many layers have them: dims without that of
    layers, with which those of a block begin.
    """
    size, listed = plan.size, dict[str, tuple[Dims, int]]()
    embed, vocab = ("embed", size.embed), ("vocab", size.vocab)
    listed["embedding"] = (vocab, embed), 1
    if not size.tied:
        listed["logits"] = (embed, vocab), 1
    usual: dict[str, Dims] = {}
    for layer, count in sorted(size.layer_counts, key=lambda each: _oddness(size, each[0])):
        norms = _norms(layer)
        for name, dims in {**_of_layer(plan, layer), **norms}.items():
            if usual.setdefault(name, dims) != dims:
                name = f"{_kind(layer, name)}{name}"
            listed[name] = dims, count + listed.get(name, (dims, 0))[1]
    if size.mtp_layers:
        joined: Dims = (("joined", 2), embed, ("joined_embed", size.embed))
        listed["joined"] = joined, size.mtp_layers
    return listed | {"final_norm": ((("norm", size.embed),), 1)}


def _oddness(size: ModelSize, layer: ModelSize) -> tuple[bool, bool, bool]:
    """Layers whose weights have names of their own come last."""
    is_full = any(size.windows) and layer.windows[0] is None
    return layer.mixers[0] != "attention", layer.experts != size.experts, is_full


def _kind(layer: ModelSize, name: str) -> str:
    """How a layer's own weight of that name begins."""
    if name in ("up", "gate", "down"):
        return KINDS[0]
    return KINDS[1] if layer.mixers[0] == "attention" else KINDS[2]


def _norms(layer: ModelSize) -> dict[str, Dims]:
    parts = [("attention", layer.mixers[0] != "none"), ("mlp", layer.mlps[0] != "none")]
    listed = [name for name, has in parts if has and layer.pre_norms]
    return {f"{name}_norm": (("norm", layer.embed),) for name in listed}


def _of_layer(plan: Plan | _WeightKey, layer: ModelSize) -> dict[str, Dims]:
    """The matrices of a layer, with the adapters of each."""
    weights = _frozen(plan, layer)
    for name, dims in [*weights.items()] if plan.lora_rank else ():
        rank, inputs = ("lora", plan.lora_rank or 0), 1 if dims[0][0] == "embed" else len(dims) - 1
        both = (*dims[:inputs], rank), (rank, *dims[inputs:])
        weights |= {f"{name}{end}": each for end, each in zip(ADAPTERS, both, strict=True)}
    return weights


def _frozen(plan: Plan | _WeightKey, layer: ModelSize) -> dict[str, Dims]:
    mixer, embed = layer.mixers[0], ("embed", layer.embed)
    weights = {}
    if mixer == "attention":
        weights = _of_attention(plan, layer)
    elif mixer != "none":
        weights = _of_state(layer)
    if layer.mlps[0] == "none":
        return weights
    experts: Dims = (("experts", layer.experts),) if layer.experts > 1 else ()
    if experts and plan.fsdp_on_experts:
        experts = (("fsdp_experts", layer.experts),)
    weights |= _of_mlp(plan, layer, experts)
    if layer.shared_mlp:
        shared = ("mlp", layer.shared_mlp)
        names = ("shared_gate", "shared_up") if layer.gated else ("shared_up",)
        weights |= dict.fromkeys(names, (embed, shared)) | {"shared_down": (shared, embed)}
    return weights


def _of_state(layer: ModelSize) -> dict[str, Dims]:
    embed, heads = ("embed", layer.embed), ("heads", layer.state_heads)
    keys: Dims = (embed, ("kv_heads", layer.state_groups), ("head_dim", layer.state_dim))
    values: Dims = (embed, heads, ("head_dim", layer.state_value))
    steps: Dims = (embed, ("steps", 2 if layer.mixers[0] == "delta" else 1), heads)
    weights = dict.fromkeys(("query", "key"), keys) | dict.fromkeys(("value", "mixed_gate"), values)
    return weights | {"steps": steps, "out": (heads, values[2], embed)}


def _of_attention(plan: Plan | _WeightKey, layer: ModelSize) -> dict[str, Dims]:
    embed, of_heads = ("embed", layer.embed), ("heads", layer.heads)
    head_dim, value = ("head_dim", layer.head_dim), ("head_dim", layer.value_size)
    out: dict[str, Dims] = {"out": (of_heads, value, embed)}
    if layer.out_gate:
        out["out_gate"] = (embed, of_heads, value)
    if layer.kv_rank:
        both = ("head_dim", layer.nope_dim + layer.value_size)
        weights: dict[str, Dims] = {
            "kv_down": (embed, ("kv_rank", layer.kv_rank + layer.rope_dim)),
            "kv_up": (("rank", layer.kv_rank), of_heads, both),
        }
        if layer.q_rank:
            weights["query_down"] = (embed, ("q_rank", layer.q_rank))
        first = ("rank", layer.q_rank) if layer.q_rank else embed
        return weights | {"query": (first, of_heads, head_dim)} | out
    if plan.fused_qkv:
        return {"qkv": (embed, ("qkv", 3), of_heads, head_dim)} | out
    kv = ("kv_heads", layer.kv_heads)
    values: dict[str, Dims] = {} if layer.full_shared_kv else {"value": (embed, kv, value)}
    query: dict[str, Dims] = {"query": (embed, of_heads, head_dim), "key": (embed, kv, head_dim)}
    return query | values | out


def _of_mlp(plan: Plan | _WeightKey, layer: ModelSize, experts: Dims) -> dict[str, Dims]:
    by_experts, mlp = bool(experts) and plan.fsdp_on_experts, ("mlp", layer.mlp)
    embed = ("unsharded_embed" if by_experts else "embed", layer.embed)
    up: Dims = (*experts, embed, *((("gate_up", 2),) if plan.fused_mlp else ()), mlp)
    gate = {"gate": up} if layer.gated and not plan.fused_mlp else {}
    return gate | {"up": up, "down": (*experts, mlp, embed)}
