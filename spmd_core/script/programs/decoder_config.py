"""The configuration of a decoder, its parameters by their dims, and the table that shards them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

# dim of a parameter or activation -> mesh axes; an axis that an earlier dim of the same array uses is skipped
TRAIN_RULES = {
    "batch": ("data", "fsdp", "fsdp_transpose", "expert"),
    "expert_batch": ("data", "fsdp", "fsdp_transpose"),  # where experts have the axis
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


PROJECTIONS = ("query", "key", "value", "out", "mlp_up", "mlp_gate", "mlp_down")


@dataclass(frozen=True)
class Decoder:
    """Sizes and choices of a decoder; `windows` has one entry per layer of a scanned block: a sliding window, or None for all of the past. Layers that are left over follow the scan."""

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
    post_norms: bool = False
    positions: int = 0  # rows of a learned position table; 0: rotary embedding
    tied: bool = False
    windows: tuple[int | None, ...] = (None,)
    attention_cap: float | None = None
    logits_cap: float | None = None
    logits_float32: bool = True
    experts: int = 1
    experts_per_token: int = 1
    shared_mlp: int = 0
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    router_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    q_rank: int = 0  # latent attention: queries by a projection of this width; 0: by one matmul
    kv_rank: int = 0
    rope_dim: int = 0  # of head_dim: the part with positions, whose key all heads share
    value_dim: int = 0  # 0: head_dim
    dense_layers: int = 0  # the first, without experts
    dense_mlp: int = 0
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
    moment_dtypes: tuple[str, str] = ("float32", "float32")
    # of the operands of a layer's matmuls, forward and backward, and of weights that are gathered
    matmul_dtype: str = "bfloat16"
    backward_dtype: str = "bfloat16"
    gathered_dtype: str = "bfloat16"
    static_scales: bool = False
    fsdp_on_experts: bool = False  # weights of experts are sharded over fsdp by their experts


def attention_dims(c: Decoder) -> dict:
    """The weights of a layer's attention: name -> (dim, size) of each dim."""
    embed, heads, head_dim = ("embed", c.embed), ("heads", c.heads), ("head_dim", c.head_dim)
    value = ("head_dim", c.value_dim or c.head_dim)
    weights: dict = {"out": (heads, value, embed)}
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
    return weights


def weight_dims(c: Decoder, dense: bool = False) -> dict:
    """The weights of a layer, as `attention_dims` has those of attention; `dense`: one of the first layers, without experts."""
    embed, mlp = ("embed", c.embed), ("mlp", c.dense_mlp if dense else c.mlp)
    width = (mlp,) if not c.fused_mlp else (("gate_up", 2), mlp)
    experts = (("experts", c.experts),) if c.experts > 1 and not dense else ()
    weights: dict = attention_dims(c)
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
        weights |= {"shared_gate": (every, shared), "shared_up": (every, shared)}
        weights["shared_down"] = (shared, every)
    return weights


def bias_dims(c: Decoder, dense: bool = False) -> dict:
    """The biases and sinks of a layer, as `weight_dims` has its weights."""
    heads, head_dim = ("heads", c.heads), ("head_dim", c.head_dim)
    mlp = ("mlp", c.dense_mlp if dense else c.mlp)
    width = (mlp,) if not c.fused_mlp else (("gate_up", 2), mlp)
    experts = (("experts", c.experts),) if c.experts > 1 and not dense else ()
    biases = {}
    if c.qkv_bias and c.fused_qkv:
        biases["qkv_bias"] = (("qkv", 3), heads, head_dim)
    elif c.qkv_bias:
        kv = (("kv_heads", c.kv_heads), head_dim)
        biases |= {"query_bias": (heads, head_dim), "key_bias": kv, "value_bias": kv}
    if c.out_bias:
        biases["out_bias"] = (("norm", c.embed),)
    if c.mlp_bias:
        biases |= {"up_bias": (*experts, *width), "down_bias": (*experts, ("norm", c.embed))}
        if c.gated and not c.fused_mlp:
            biases["gate_bias"] = (*experts, mlp)
    for name, has in (("router_bias", c.router_bias), ("score_bias", c.score_bias)):
        if has and not dense:
            biases[name] = (("router", c.experts),)
    if c.sinks:
        biases["sinks"] = (("act_heads", c.heads),)
    return biases


def norm_dims(c: Decoder) -> dict:
    """The scales and biases of a layer's norms, as `weight_dims` has its weights."""
    names = ["attention_norm", "mlp_norm"]
    if c.post_norms:
        names += ["attention_post_norm", "mlp_post_norm"]
    if c.norm == "layer":
        names += ["attention_norm_bias", "mlp_norm_bias"]
    norms: dict = dict.fromkeys(names, (("norm", c.embed),))
    if c.qk_norm:
        norms |= dict.fromkeys(("query_norm", "key_norm"), (("head_dim", c.head_dim),))
    for name, rank in (("query_rank_norm", c.q_rank), ("kv_rank_norm", c.kv_rank)):
        if rank:
            norms[name] = (("norm", rank),)
    return norms


def layer_dims(c: Decoder, dense: bool = False) -> dict:
    """All parameters of a layer."""
    return {**norm_dims(c), **weight_dims(c, dense), **bias_dims(c, dense)}


def mtp_dims(c: Decoder) -> dict:
    """Parameters of a head that predicts a later token: a layer, what joins the stream to the token's embedding, and norms."""
    norm, embed = (("norm", c.embed),), ("embed", c.embed)
    norms = dict.fromkeys(("stream_norm", "token_norm", "final_norm"), norm)
    return {**layer_dims(c), **norms, "joined": (("joined", 2), embed, ("joined_embed", c.embed))}


def parameter_dims(c: Decoder) -> dict:
    """The tree of parameters: each leaf a tuple of (dim, size)."""
    embed = ("embed", c.embed)
    scanned = c.layers - c.dense_layers
    block = layer_dims(c)
    tree = {
        "embedding": (("vocab", c.vocab), embed),
        "blocks": [_stacked(block, scanned // len(c.windows)) for _ in c.windows],
        "final_norm": (("norm", c.embed),),
    }
    if c.dense_layers:
        tree["dense"] = [_stacked(layer_dims(c, dense=True), c.dense_layers)]
    if rest := scanned % len(c.windows):
        tree["tail"] = [block for _ in range(rest)]
    if c.mtp_layers:
        tree["mtp"] = [mtp_dims(c) for _ in range(c.mtp_layers)]
    if not c.tied:
        tree["logits"] = (embed, ("vocab", c.vocab))
    if c.positions:
        tree["position_embedding"] = (("positions", c.positions), embed)
    return tree


def _stacked(block: dict, layers: int) -> dict:
    return {name: (("layers", layers), *dims) for name, dims in block.items()}


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
