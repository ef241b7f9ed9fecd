"""The configuration of a decoder, its parameters by their dims, and the table that shards them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

# dim of a parameter or activation -> mesh axes; an axis that an earlier dim of the same array uses is skipped
TRAIN_RULES = {
    "batch": ("data", "fsdp", "fsdp_transpose", "expert"),
    "expert_batch": ("data", "fsdp", "fsdp_transpose"),  # where experts have the axis
    "length": ("sequence", "context"),
    "context_length": ("context",),  # of queries, or keys, in attention
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


# of a state that is sharded over `data` too (ZeRO-1, Rajbhandari et al., arXiv:1910.02054)
STATE_RULES = TRAIN_RULES | {dim: (*TRAIN_RULES[dim], "data") for dim in ("embed", "rank")}
PROJECTIONS = ("query", "key", "value", "out", "mlp_up", "mlp_gate", "mlp_down")


@dataclass(frozen=True)
class Decoder:
    """Sizes and choices of a decoder, or of one of its layers. `stages`: (layers of a block, how often it is scanned) in turn, each layer by the values that differ from these; none: all layers are alike."""

    layers: int
    embed: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    gated: bool = True
    activation: str = "silu"
    norm: str = "rms"
    pre_norms: bool = True
    post_norms: bool = False
    positions: int = 0  # rows of a learned position table; 0: rotary embedding
    tied: bool = False
    stages: tuple[tuple[tuple[dict, ...], int], ...] = ()
    mixer: str = "attention"  # or delta, mamba, none
    window: int | None = None  # keys that a query attends to; None: all of the past
    chunked: bool = False  # a query attends within its own chunk of `window` positions
    has_mlp: bool = True
    attention_cap: float | None = None
    logits_cap: float | None = None
    logits_float32: bool = True
    experts: int = 1
    experts_per_token: int = 1
    shared_mlp: int = 0
    shared_gate: bool = False  # of what shared experts add
    split_norms: bool = False  # the shared mlp and the experts have norms of their own each
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    router_bias: bool = False
    qk_norm: bool = False
    qk_norms: str = "head"  # of each head with a scale; all: of all heads as one; plain: without
    value_norm: bool = False  # plain
    shared_kv: bool = False  # values are what keys are normalized from
    out_gate: bool = False  # of each head's mixed values, by a projection beside the query's
    sinks: bool = False
    q_rank: int = 0  # latent attention: queries by a projection of this width; 0: by one matmul
    kv_rank: int = 0
    rope_dim: int = 0  # of head_dim: the part with positions, whose key all heads share
    value_dim: int = 0  # 0: head_dim
    # a mixer with a state for each head: keys of `state_dim` in groups, values, a convolution first
    state_heads: int = 0
    state_groups: int = 0
    state_dim: int = 0
    state_value: int = 0
    conv: int = 4
    chunk: int = 64
    routing: str = "softmax"
    expert_groups: int = 1
    groups_per_token: int = 1
    score_bias: bool = False  # of scores, to choose experts by; weights are without
    routed_scale: float = 1.0
    mtp_layers: int = 0  # heads of later tokens
    capacity_factor: float = 1.25  # rows that an expert takes, over an even share of them
    dropless: bool = False
    group_rows: int = 512  # dropless: of a block of the kernel
    imbalance: float = 1.0  # dropless: rows that a device takes, over an even share of them
    remat: str = "full"  # none, minimal (projections are kept) or full
    save: tuple[str, ...] = ()
    offload: tuple[str, ...] = ()
    fused_qkv: bool = False
    fused_mlp: bool = False
    attention_blocks: tuple[int, int, int] = (512, 512, 512)  # queries, keys, keys per matmul
    fused_attention_backward: bool = False
    gpu: bool = False  # attention by one call, embedding rows by a gather
    parameter_dtype: str = "float32"
    optimizer: str = "adamw"
    moment_dtypes: tuple[str, ...] = ("float32", "float32")
    # of the operands of a layer's matmuls, forward and backward, and of weights that are gathered
    matmul_dtype: str = "bfloat16"
    backward_dtype: str = "bfloat16"
    gathered_dtype: str = "bfloat16"
    static_scales: bool = False
    microbatches: int | None = None  # of a batch: their gradients are added up
    logit_parts: int = 1  # of the logits, one after the other
    context_attention: str = "all-gather"  # of keys and values over `context`; or ring, ulysses
    context_order: str = "balanced"  # of tokens over `context`; or contiguous
    lora_rank: int | None = None  # of adapters, which alone are trained
    shard_optimizer_over_data: bool = False  # ZeRO-1: the state is, weights are gathered once
    fsdp_on_experts: bool = False  # weights of experts are sharded over fsdp by their experts

    @property
    def blocks(self) -> tuple[tuple[tuple[Any, ...], int], ...]:
        """(configurations of a block's layers, how often it is scanned) in turn."""
        alike: tuple[tuple[tuple[dict, ...], int], ...] = ((({},), self.layers),)
        return tuple(
            (tuple(replace(self, stages=(), **layer) for layer in block), times)
            for block, times in self.stages or alike
        )


def attention_dims(c: Decoder) -> dict:
    """The weights of a layer's attention: name -> (dim, size) of each dim."""
    embed, heads, head_dim = ("embed", c.embed), ("heads", c.heads), ("head_dim", c.head_dim)
    value = ("head_dim", c.value_dim or c.head_dim)
    weights: dict = {"out": (heads, value, embed)}
    if c.out_gate:
        weights["out_gate"] = (embed, heads, value)
    if c.kv_rank:
        both = ("head_dim", c.head_dim - c.rope_dim + value[1])
        weights["kv_down"] = (embed, ("kv_rank", c.kv_rank + c.rope_dim))
        weights["kv_up"] = (("rank", c.kv_rank), heads, both)
        if c.q_rank:
            weights["query_down"] = (embed, ("q_rank", c.q_rank))
        first = ("rank", c.q_rank) if c.q_rank else embed
        weights["query"] = (first, heads, head_dim)
    elif c.fused_qkv:
        weights["qkv"] = (embed, ("qkv", 3), heads, head_dim)
    else:
        kv = ("kv_heads", c.kv_heads)
        weights["query"] = (embed, heads, head_dim)
        weights |= {"key": (embed, kv, head_dim), "value": (embed, kv, value)}
        if c.shared_kv:
            del weights["value"]
    return weights


def state_dims(c: Decoder) -> dict:
    """The weights of a mixer with a state: of its keys and queries, its values, their gate, and its steps, with the convolutions over each."""
    embed, taps = ("embed", c.embed), ("taps", c.conv)
    heads, values = ("heads", c.state_heads), ("head_dim", c.state_value)
    groups = (("kv_heads", c.state_groups), ("head_dim", c.state_dim))
    steps = ("steps", 2 if c.mixer == "delta" else 1)
    return {
        **dict.fromkeys(("query", "key"), (embed, *groups)),
        **dict.fromkeys(("value", "mixed_gate"), (embed, heads, values)),
        **dict.fromkeys(("query_conv", "key_conv"), (taps, *groups)),
        "value_conv": (taps, heads, values),
        "steps": (embed, steps, heads),
        "out": (heads, values, embed),
    }


def state_vectors(c: Decoder) -> dict:
    """The other parameters of a mixer with a state."""
    heads, values = ("heads", c.state_heads), ("head_dim", c.state_value)
    vectors: dict = dict.fromkeys(("step_bias", "decay"), (heads,))
    if c.mixer == "delta":
        return vectors | {"state_norm": (values,)}
    groups = (("kv_heads", c.state_groups), ("head_dim", c.state_dim))
    biases = dict.fromkeys(("query_conv_bias", "key_conv_bias"), groups)
    biases |= {"value_conv_bias": (heads, values)}
    return vectors | biases | {"skip": (heads,), "state_norm": (heads, values)}


def mixer_dims(c: Decoder) -> dict:
    """The weights of what mixes the tokens of a layer."""
    makers = {"attention": attention_dims, "delta": state_dims, "mamba": state_dims}
    return makers[c.mixer](c) if c.mixer in makers else {}


def weight_dims(c: Decoder) -> dict:
    """The weights of a layer, as `attention_dims` has those of attention."""
    weights: dict = mixer_dims(c)
    if not c.has_mlp:
        return weights
    embed, mlp = ("embed", c.embed), ("mlp", c.mlp)
    width = (mlp,) if not c.fused_mlp else (("gate_up", 2), mlp)
    experts = (("experts", c.experts),) if c.experts > 1 else ()
    every = embed
    if experts and c.fsdp_on_experts:
        experts, embed = (("fsdp_experts", c.experts),), ("unsharded_embed", c.embed)
    weights |= {"up": (*experts, embed, *width), "down": (*experts, mlp, embed)}
    if c.gated and not c.fused_mlp:
        weights["gate"] = (*experts, embed, mlp)
    if experts:
        weights["router"] = (every, ("router", c.experts))
    if c.shared_mlp and experts:
        shared = ("mlp", c.shared_mlp)
        weights |= dict.fromkeys(
            (*(("shared_gate",) if c.gated else ()), "shared_up"), (every, shared)
        )
        weights["shared_down"] = (shared, every)
        if c.shared_gate:
            weights["shared_share"] = (every, ("one", 1))
    return weights


def bias_dims(c: Decoder) -> dict:
    """The biases and sinks of a layer, as `weight_dims` has its weights."""
    heads, head_dim = ("heads", c.heads), ("head_dim", c.head_dim)
    mlp = ("mlp", c.mlp)
    width = (mlp,) if not c.fused_mlp else (("gate_up", 2), mlp)
    experts = (("experts", c.experts),) if c.experts > 1 else ()
    biases = {}
    if c.mixer == "attention":
        if c.qkv_bias and c.fused_qkv:
            biases["qkv_bias"] = (("qkv", 3), heads, head_dim)
        elif c.qkv_bias:
            kv = (("kv_heads", c.kv_heads), head_dim)
            biases |= {"query_bias": (heads, head_dim), "key_bias": kv, "value_bias": kv}
        if c.out_bias:
            biases["out_bias"] = (("norm", c.embed),)
        if c.sinks:
            biases["sinks"] = (("act_heads", c.heads),)
    if c.mlp_bias and c.has_mlp:
        biases |= {"up_bias": (*experts, *width), "down_bias": (*experts, ("norm", c.embed))}
        if c.gated and not c.fused_mlp:
            biases["gate_bias"] = (*experts, mlp)
    for name, has in (("router_bias", c.router_bias), ("score_bias", c.score_bias)):
        if has and experts and c.has_mlp:
            biases[name] = (("router", c.experts),)
    return biases


def norm_dims(c: Decoder) -> dict:
    """The scales and biases of a layer's norms, as `weight_dims` has its weights."""
    parts = [name for name, has in (("attention", c.mixer != "none"), ("mlp", c.has_mlp)) if has]
    names = [f"{part}_norm" for part in parts] if c.pre_norms else []
    if c.post_norms:
        names += [f"{part}_post_norm" for part in parts]
    if c.norm == "layer":
        names += [f"{part}_norm_bias" for part in parts]
    if c.split_norms:
        names += ["experts_norm", "experts_post_norm", "shared_post_norm", "router_scale"]
    norms: dict = dict.fromkeys(names, (("norm", c.embed),))
    if c.split_norms:
        norms["expert_scale"] = (("router", c.experts),)
    if c.mixer != "attention":
        return norms | (state_vectors(c) if c.mixer != "none" else {})
    if c.qk_norm and c.qk_norms == "all":
        norms["query_norm"] = (("heads", c.heads), ("head_dim", c.head_dim))
        norms["key_norm"] = (("kv_heads", c.kv_heads), ("head_dim", c.head_dim))
    elif c.qk_norm and c.qk_norms == "head":
        norms |= dict.fromkeys(("query_norm", "key_norm"), (("head_dim", c.head_dim),))
    for name, rank in (("query_rank_norm", c.q_rank), ("kv_rank_norm", c.kv_rank)):
        if rank:
            norms[name] = (("norm", rank),)
    return norms


def layer_dims(c: Decoder) -> dict:
    """All parameters of a layer."""
    return {**norm_dims(c), **weight_dims(c), **bias_dims(c)}


def mtp_dims(c: Decoder) -> dict:
    """Parameters of a head that predicts a later token: a layer, what joins the stream to the token's embedding, and norms."""
    norm, embed = (("norm", c.embed),), ("embed", c.embed)
    norms = dict.fromkeys(("stream_norm", "token_norm", "final_norm"), norm)
    return {**layer_dims(c), **norms, "joined": (("joined", 2), embed, ("joined_embed", c.embed))}


def parameter_dims(c: Decoder) -> dict:
    """The tree of parameters: each leaf a tuple of (dim, size)."""
    embed = ("embed", c.embed)
    tree = {
        "embedding": (("vocab", c.vocab), embed),
        "stages": [
            [_stacked(layer_dims(layer), times) for layer in block] for block, times in c.blocks
        ],
        "final_norm": (("norm", c.embed),),
    }
    if c.mtp_layers:
        tree["mtp"] = [mtp_dims(c.blocks[-1][0][-1]) for _ in range(c.mtp_layers)]
    if not c.tied:
        tree["logits"] = (embed, ("vocab", c.vocab))
    if c.positions:
        tree["position_embedding"] = (("positions", c.positions), embed)
    return tree


def adapter_dims(c: Decoder) -> dict:
    """The trained parameters beside frozen ones (LoRA, Hu et al., arXiv:2106.09685): two narrow matrices for each of a layer."""

    def of_layer(layer):
        dims, rank = {}, ("lora", layer.lora_rank)
        for name, each in weight_dims(layer).items():
            inputs = 1 if each[0][0] == "embed" else len(each) - 1
            dims |= {f"{name}_lora_in": (*each[:inputs], rank)}
            dims |= {f"{name}_lora_out": (rank, *each[inputs:])}
        return dims

    return {
        "stages": [[_stacked(of_layer(each), times) for each in block] for block, times in c.blocks]
    }


def _stacked(block: dict, layers: int) -> dict:
    return {name: (("layers", layers), *dims) for name, dims in block.items()}


def axes_of(entry) -> tuple[str, ...]:
    """The mesh axes of an entry of a PartitionSpec."""
    return (entry,) if isinstance(entry, str) else tuple(entry or ())


def spec(dims: tuple[tuple[str, int], ...], rules: Mapping[str, tuple[str, ...]], mesh: Mesh) -> P:
    """The PartitionSpec of an array by the table; axes that are not in the mesh, used already or that do not divide are left out."""
    used: set[str] = set()
    entries = []
    for dim, size in dims:
        axes = []
        for axis in rules.get(dim, ()):
            if (
                axis in mesh.shape
                and axis not in used
                and size % (mesh.shape[axis] * math.prod(mesh.shape[a] for a in axes)) == 0
            ):
                axes.append(axis)
        used.update(axes)
        entries.append(None if not axes else axes[0] if len(axes) == 1 else tuple(axes))
    return P(*entries)
