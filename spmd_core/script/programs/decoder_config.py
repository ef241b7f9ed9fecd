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


def weight_dims(c: Decoder) -> dict:
    """The weights of a layer: name -> (dim, size) of each dim."""
    embed, heads, head_dim = ("embed", c.embed), ("heads", c.heads), ("head_dim", c.head_dim)
    kv = ("kv_heads", c.kv_heads)
    width = (("mlp", c.mlp),) if not c.fused_mlp else (("gate_up", 2), ("mlp", c.mlp))
    experts = (("experts", c.experts),) if c.experts > 1 else ()
    weights = {
        "out": (heads, head_dim, embed),
        "up": (*experts, embed, *width),
        "down": (*experts, ("mlp", c.mlp), embed),
    }
    if c.fused_qkv:
        weights["qkv"] = (embed, ("qkv", 3), heads, head_dim)
    else:
        weights["query"] = (embed, heads, head_dim)
        weights |= {"key": (embed, kv, head_dim), "value": (embed, kv, head_dim)}
    if c.gated and not c.fused_mlp:
        weights["gate"] = (*experts, embed, ("mlp", c.mlp))
    if experts:
        weights["router"] = (embed, ("router", c.experts))
    if c.shared_mlp:
        shared = ("mlp", c.shared_mlp)
        weights |= {"shared_gate": (embed, shared), "shared_up": (embed, shared)}
        weights["shared_down"] = (shared, embed)
    return weights


def bias_dims(c: Decoder) -> dict:
    """The biases and sinks of a layer, as `weight_dims` has its weights."""
    heads, head_dim = ("heads", c.heads), ("head_dim", c.head_dim)
    width = (("mlp", c.mlp),) if not c.fused_mlp else (("gate_up", 2), ("mlp", c.mlp))
    experts = (("experts", c.experts),) if c.experts > 1 else ()
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
            biases["gate_bias"] = (*experts, ("mlp", c.mlp))
    if c.router_bias:
        biases["router_bias"] = (("router", c.experts),)
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
    return norms


def parameter_dims(c: Decoder) -> dict:
    """The tree of parameters: each leaf a tuple of (dim, size)."""
    embed = ("embed", c.embed)
    block = {**norm_dims(c), **weight_dims(c), **bias_dims(c)}
    stacked = {
        name: (("layers", c.layers // len(c.windows)), *dims) for name, dims in block.items()
    }
    tree = {
        "embedding": (("vocab", c.vocab), embed),
        "blocks": [stacked for _ in c.windows],
        "final_norm": (("norm", c.embed),),
    }
    if rest := c.layers % len(c.windows):
        tree["tail"] = [block for _ in range(rest)]
    if not c.tied:
        tree["logits"] = (embed, ("vocab", c.vocab))
    if c.positions:
        tree["position_embedding"] = (("positions", c.positions), embed)
    return tree


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
