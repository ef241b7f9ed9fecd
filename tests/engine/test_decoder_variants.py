"""Decoders of other families, executed small on simulated devices, against NumPy in float64."""

import functools
import itertools
import math
from dataclasses import replace
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from spmd_core.plan import PRESETS
from spmd_core.plan.own_models import own_model
from spmd_core.script.decoder import configuration
from spmd_core.script.programs import (
    decoder,
    decoder_config,
    decoder_context,
    decoder_experts,
)
from spmd_core.script.programs.decoder_step import make_train_step, parameter_count
from spmd_core.workloads import parse_plan
from tests.cover import cover, whole

pytestmark = pytest.mark.this_python

SIZES = {"embed": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "mlp": 96, "vocab": 128}
LENGTH = 32  # and windows and chunks of a fourth: XLA optimizes no test's loops
BLOCK = 128  # of the kernels
VARIANTS = {
    "qwen2": {
        "layers": 2,
        "qkv_bias": True,
        "tied": True,
        "mlp_bias": True,
        "out_bias": True,
        "attention_cap": 5.0,
    },
    "qwen3": {"layers": 2, "qk_norm": True},
    "gemma3": {
        "layers": 4,
        "activation": "gelu",
        "post_norms": True,
        "qk_norm": True,
        "windows": (8, None),
        "logits_cap": 3.0,
    },
    "gpt_oss": {
        "layers": 3,
        "activation": "clamped_silu",
        "windows": (8, None),
        "experts": 4,
        "experts_per_token": 2,
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
        "router_bias": True,
        "sinks": True,
    },
    # one layer of them: what experts compute does not depend on how many there are
    "experts": {
        "layers": 1,
        "activation": "clamped_silu",
        "experts": 4,
        "experts_per_token": 2,
        "mlp_bias": True,
        "router_bias": True,
    },
    "shared": {"layers": 1, "experts": 4, "experts_per_token": 2, "shared_mlp": 32},
    # the dense layer first, two groups of which one is chosen, queries with and without a rank
    "deepseek_v3": {
        "layers": 3,
        "kv_heads": 4,
        "head_dim": 24,
        "rope_dim": 8,
        "value_dim": 16,
        "q_rank": 48,
        "kv_rank": 32,
        "experts": 4,
        "experts_per_token": 2,
        "shared_mlp": 32,
        "dense_layers": 2,
        "dense_mlp": 160,
        "routing": "sigmoid",
        "score_bias": True,
        "expert_groups": 2,
        "groups_per_token": 1,
        "routed_scale": 2.5,
    },
    "latent": {
        "layers": 2,
        "kv_heads": 4,
        "head_dim": 24,
        "rope_dim": 8,
        "value_dim": 16,
        "kv_rank": 32,
    },
    # three layers with a state and one with a gate, twice; a share of the experts all visit
    "qwen3_next": {
        "layers": 8,
        "mixers": ("delta",) * 3 + ("attention",),
        "state_heads": 4,
        "state_groups": 2,
        "state_dim": 16,
        "state_value": 8,
        "chunk": 8,
        "qk_norm": True,
        "out_gate": True,
        "experts": 4,
        "experts_per_token": 2,
        "shared_mlp": 32,
        "shared_gate": True,
    },
    # layers of one part each, experts without a gate
    "nemotron_h": {
        "layers": 5,
        "mixers": ("mamba", "none", "mamba", "attention", "none"),
        "mlps": ("none", "mlp", "none", "none", "mlp"),
        "state_heads": 4,
        "state_groups": 2,
        "state_dim": 8,
        "state_value": 16,
        "chunk": 8,
        "gated": False,
        "activation": "relu2",
        "experts": 4,
        "experts_per_token": 2,
        "shared_mlp": 32,
        "routing": "sigmoid",
        "score_bias": True,
    },
    # an mlp where others have experts
    "mamba": {
        "layers": 4,
        "mixers": ("mamba", "none", "attention", "none"),
        "mlps": ("none", "dense", "none", "dense"),
        "dense_mlp": 96,
        "state_heads": 4,
        "state_groups": 2,
        "state_dim": 8,
        "state_value": 16,
        "chunk": 32,
        "gated": False,
        "activation": "relu2",
    },
    # experts and an mlp beside them after every mixer, one of which has a state
    "granite": {
        "layers": 2,
        "mixers": ("mamba", "attention"),
        "state_heads": 4,
        "state_groups": 1,
        "state_dim": 8,
        "state_value": 16,
        "chunk": 32,
        "experts": 4,
        "experts_per_token": 2,
        "shared_mlp": 32,
    },
    # norms of all heads as one beside experts, of which groups are chosen by softmax
    "minimax": {
        "layers": 2,
        "qk_norm": True,
        "qk_norms": "all",
        "experts": 4,
        "experts_per_token": 2,
        "expert_groups": 2,
        "groups_per_token": 1,
        "shared_mlp": 32,
        "shared_gate": True,
    },
    # wider heads, and fewer whose values are their keys, where there is no window
    "gemma4": {
        "layers": 4,
        "activation": "gelu",
        "post_norms": True,
        "qk_norm": True,
        "value_norm": True,
        "windows": (8, None),
        "full_head_dim": 32,
        "full_kv_heads": 1,
        "full_shared_kv": True,
        "experts": 4,
        "experts_per_token": 2,
        "shared_mlp": 32,
        "split_norms": True,
    },
    # chunks, norms without scales, and experts in every other layer
    "llama4": {
        "layers": 4,
        "windows": (8, 8, 8, None),
        "chunked": True,
        "qk_norm": True,
        "qk_norms": "plain",
        "mlps": ("dense", "mlp"),
        "dense_mlp": 160,
        "experts": 4,
        "experts_per_token": 1,
        "shared_mlp": 32,
        "routing": "sigmoid",
    },
    "mimo": {
        "layers": 4,
        "windows": (None, 8, 8, 8),
        "value_dim": 8,
        "full_kv_heads": 1,
        "sinks": True,
        "full_sinks": False,
        "dense_layers": 1,
        "dense_mlp": 160,
        "experts": 4,
        "experts_per_token": 2,
        "routing": "sigmoid",
        "score_bias": True,
    },
    "olmo3": {
        "layers": 4,
        "windows": (8, 8, 8, None),
        "pre_norms": False,
        "post_norms": True,
        "qk_norm": True,
        "qk_norms": "all",
    },
}

BIASES = dict.fromkeys(("qkv_bias", "out_bias", "mlp_bias", "router_bias", "sinks"), True)
OF_DELTA = {"layers": 2, "mixers": ("delta", "attention")}
VARIANTS["delta"] = VARIANTS["qwen3_next"] | BIASES | OF_DELTA
OF_PARTS = {"layers": 2, "mixers": ("mamba", "none"), "mlps": ("none", "mlp")}
VARIANTS["of_parts"] = VARIANTS["nemotron_h"] | OF_PARTS
PLAIN = (("data", 2), ("tensor", 2))
MIXER_MESHES = [(("fsdp", 8),), (("fsdp", 2), ("tensor", 4)), (("sequence", 4), ("tensor", 2))]
KINDS = cover(["qwen3_next", "nemotron_h", "gemma4", "llama4", "mimo"], MIXER_MESHES)
MESH_OF = dict(case.values for case in KINDS if not case.marks)  # of each kind, in every check
# whose every part another one has; and those of experts alone, which have a test of their own
PARTS, ALONE = (
    ("qwen3", "latent", "mamba", "granite", "minimax"),
    ("experts", "shared", "delta", "of_parts"),
)
OTHERS = [
    pytest.param(name, PLAIN, marks=[whole] * (name in PARTS))
    for name in VARIANTS
    if name not in (*MESH_OF, *ALONE)
]


def model_of(variant, mesh_axes=PLAIN, kernel=False, **choices: Any):
    size = own_model(variant, SIZES | VARIANTS[variant])
    plan = parse_plan(
        {
            "target": f"tpu:v5e:2x{math.prod(dict(mesh_axes).values()) // 2}",
            "model": size.name,
            "mesh": mesh_axes,
            "batch_per_device": 1,
            "sequence": 4 * BLOCK,
        }
    )
    config = replace(decoder_config.Decoder(**configuration(plan)), **choices)
    names, sizes = zip(*mesh_axes, strict=True)
    mesh = jax.make_mesh(
        sizes,
        names,
        axis_types=(AxisType.Auto,) * len(names),
        devices=jax.devices()[: math.prod(sizes)],
    )
    return size, decoder.Model(config, mesh, kernel=kernel)


@functools.cache
def compiled(variant, mesh):
    """A variant's size, its model, and its logits: compiled once for all tests of them."""
    size, model = model_of(variant, mesh, capacity_factor=8.0)  # room for every row
    return size, model, jax.jit(model.logits)


def is_leaf(x):
    return isinstance(x, tuple) and all(isinstance(each, tuple) for each in x)


def drawn(config):
    """Parameters, larger than a model's first ones so that no part of it vanishes beside others: of
    NumPy, since JAX would compile a conversion and a slice for each shape.
    """
    numbers = np.random.default_rng(0)
    dims = decoder_config.parameter_dims(config)

    def leaf(dims):
        shape = tuple(size for _, size in dims)
        return np.float32(numbers.normal(size=shape) / 4)

    return jax.tree.map(leaf, dims, is_leaf=is_leaf)


def batch_of(count):
    tokens = np.random.default_rng(1).integers(0, SIZES["vocab"], (count, LENGTH), np.int32)
    places = np.broadcast_to(np.arange(LENGTH, dtype=np.int32), tokens.shape)
    return tokens, places, np.ones(tokens.shape, np.int32)


def rms(x, scale):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def turned(x):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None, None] / 10000.0 ** (np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def gelu(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x, times=1.0):
    return x / (1 + np.exp(-times * x))


def expected(size, config, parameters, tokens):
    """Logits, one step of the definition after the other."""
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), parameters)
    x = p["embedding"][tokens]
    layers = [
        {name: leaf[i] for name, leaf in part.items()}
        for stage, (_, times) in zip(p["stages"], config.blocks, strict=True)
        for i in range(times)
        for part in stage
    ]
    for w, kind in zip(layers, size.kinds, strict=True):
        own = size.layer(kind)
        if kind.mixer != "none":
            mix = attention if kind.mixer == "attention" else state
            y = rms(x, w["attention_norm"]) if size.pre_norms else x
            x = x + post(w, mix(own, w, y), "attention")
        if kind.mlp != "none":
            x = x + post(w, feed_forward(own, w, x), "mlp")
    logits = rms(x, p["final_norm"]) @ (p["embedding"].T if size.tied else p["logits"])
    return np.tanh(logits / size.logits_cap) * size.logits_cap if size.logits_cap else logits


def feed_forward(size, w, x):
    y = rms(x, w["mlp_norm"]) if size.pre_norms else x
    if "router" not in w:
        return mlp(size, w, y)
    shared = 0.0
    if "shared_up" in w:
        gate = y @ w["shared_gate"] if size.gated else None
        shared = hidden(size, gate, y @ w["shared_up"]) @ w["shared_down"]
    if size.shared_gate:
        shared = shared / (1 + np.exp(-(y @ w["shared_share"])))
    if not size.split_norms:
        return experts(size, w, y, y) + shared
    found = experts(size, w, rms(x, w["experts_norm"]), x)
    return rms(found, w["experts_post_norm"]) + rms(shared, w["shared_post_norm"])


def state(size, w, x):
    """A state for each head, one position after the other."""
    arrays = []
    for name in ("query", "key", "value"):
        y = np.einsum("bse,ehd->bshd", x, w[name])
        taps = w[f"{name}_conv"]
        padded = np.pad(y, ((0, 0), (len(taps) - 1, 0), (0, 0), (0, 0)))
        y = sum(padded[:, i : i + y.shape[1]] * taps[i] for i in range(len(taps)))
        arrays.append(silu(y + w.get(f"{name}_conv_bias", 0)))
    q, k, v = arrays
    q, k = (np.repeat(each, size.state_heads // size.state_groups, 2) for each in (q, k))
    steps = np.einsum("bse,eqh->qbsh", x, w["steps"])
    width = np.log1p(np.exp(steps[-1] + w["step_bias"]))
    left = np.exp(-np.exp(w["decay"]) * width)[..., None, None]
    is_delta = size.mixers[0] == "delta"
    if is_delta:
        q, k = (each / np.sqrt((each**2).sum(-1, keepdims=True) + 1e-6) for each in (q, k))
        q = q / math.sqrt(size.state_dim)
    held, read = np.zeros((len(x), size.state_heads, size.state_dim, size.state_value)), []
    for i in range(x.shape[1]):
        held = held * left[:, i]
        if is_delta:
            rate = 1 / (1 + np.exp(-steps[0][:, i, :, None]))
            new = (v[:, i] - np.einsum("bhd,bhde->bhe", k[:, i], held)) * rate
        else:
            new = v[:, i] * width[:, i, :, None]
        held = held + k[:, i, :, :, None] * new[:, :, None]
        read.append(np.einsum("bhd,bhde->bhe", q[:, i], held))
    mixed, gate = np.stack(read, 1), silu(np.einsum("bse,ehd->bshd", x, w["mixed_gate"]))
    if is_delta:
        mixed = rms(mixed, w["state_norm"]) * gate
    else:
        mixed = (mixed + v * w["skip"][:, None]) * gate
        grouped = mixed.reshape(*mixed.shape[:2], size.state_groups, -1)
        mixed = rms(grouped, 1.0).reshape(mixed.shape) * w["state_norm"]
    return np.einsum("bshd,hde->bse", mixed, w["out"])


def post(w, x, name):
    scale = w.get(f"{name}_post_norm")
    return x if scale is None else rms(x, scale)


def latent(size, w, x):
    """Queries, keys and values by narrow projections; one key with positions for all heads."""
    narrow = rms(x @ w["query_down"], w["query_rank_norm"]) if size.q_rank else x
    q = np.einsum("bse,ehd->bshd", narrow, w["query"])
    down = x @ w["kv_down"]
    both = rms(down[..., : size.kv_rank], w["kv_rank_norm"])
    both = np.einsum("bse,ehd->bshd", both, w["kv_up"])
    shared = np.repeat(turned(down[:, :, None, size.kv_rank :]), size.heads, 2)
    q = np.concatenate([q[..., : size.nope_dim], turned(q[..., size.nope_dim :])], -1)
    return q, np.concatenate([both[..., : size.nope_dim], shared], -1), both[..., size.nope_dim :]


def projected(size, w, x):
    names = ("query", "key", "key" if size.full_shared_kv else "value")
    q, k, v = (np.einsum("bse,ehd->bshd", x, w[name]) + w.get(f"{name}_bias", 0) for name in names)
    if size.value_norm:
        v = rms(v, 1.0)
    if size.qk_norm and size.qk_norms == "all":
        q, k = (
            rms(each.reshape(*each.shape[:2], -1), w[name].ravel()).reshape(each.shape)
            for each, name in ((q, "query_norm"), (k, "key_norm"))
        )
    elif size.qk_norm:
        q, k = rms(q, w.get("query_norm", 1.0)), rms(k, w.get("key_norm", 1.0))
    return turned(q), turned(k), v


def attention(size, w, x):
    window = size.windows[0]
    q, k, v = (latent if size.kv_rank else projected)(size, w, x)
    k, v = (np.repeat(each, size.heads // size.kv_heads, 2) for each in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k)
    if size.attention_cap:
        scores = np.tanh(scores / size.attention_cap) * size.attention_cap
    places = np.arange(LENGTH)
    back, chunks = np.subtract.outer(places, places), places // (window or LENGTH)
    near = np.equal.outer(chunks, chunks) if size.chunked else back < (window or LENGTH)
    scores = np.where((back >= 0) & near, scores, -1e30)
    if size.sinks:
        none = np.broadcast_to(w["sinks"][None, :, None, None], (*scores.shape[:-1], 1))
        scores = np.concatenate([scores, none], -1)
    mixed = np.einsum("bhqk,bkhd->bqhd", softmax(scores)[..., :LENGTH], v)
    if size.out_gate:
        mixed = mixed / (1 + np.exp(-np.einsum("bse,ehd->bshd", x, w["out_gate"])))
    return np.einsum("bshd,hde->bse", mixed, w["out"]) + w.get("out_bias", 0)


def hidden(size, gate, up):
    if size.activation == "clamped_silu":
        return silu(np.minimum(gate, 7), 1.702) * (np.clip(up, -7, 7) + 1)
    if size.activation == "relu2":
        return np.maximum(up, 0) ** 2
    return (gelu if size.activation == "gelu" else silu)(gate) * up


def mlp(size, w, x, expert: Any = ...):
    def by(x, name):
        bias = w.get(f"{name}_bias")
        return x @ w[name][expert] + (0 if bias is None else bias[expert])

    gate = by(x, "gate") if size.gated else None
    return by(hidden(size, gate, by(x, "up")), "down")


def experts(size, w, x, scored):
    if size.split_norms:
        scored = rms(scored, w["router_scale"]) / math.sqrt(size.embed)
    routes = scored @ w["router"] + w.get("router_bias", 0)
    scores = 1 / (1 + np.exp(-routes)) if size.routing == "sigmoid" else softmax(routes)
    ranked = scores + w.get("score_bias", 0)
    groups = ranked.reshape(*ranked.shape[:-1], size.expert_groups, -1)
    best = np.sort(groups, -1)[..., -2:].sum(-1)
    worse = np.argsort(-best, -1)[..., size.groups_per_token :]
    np.put_along_axis(groups, worse[..., None], -1e30, axis=-2)
    chosen = np.argsort(-groups.reshape(ranked.shape), -1)[..., : size.experts_per_token]
    best = np.take_along_axis(scores, chosen, -1)
    shares = best / best.sum(-1, keepdims=True) * size.routed_scale
    shares = shares * w["expert_scale"][chosen] if size.split_norms else shares
    total = np.zeros_like(x)
    for expert in range(size.experts):
        share = np.where(chosen == expert, shares, 0).sum(-1, keepdims=True)
        total += share * mlp(size, w, x, expert)
    return total


def close(found, wanted):
    """How far the logits of a token are off, by their mean square; at the median over tokens, since
    bfloat16 in between sends a few of them to other experts.
    """
    found = np.asarray(found, np.float64)
    return np.median(np.sqrt(((found - wanted) ** 2).mean(-1) / (wanted**2).mean(-1)))


@pytest.mark.parametrize(("variant", "mesh"), [*OTHERS, *KINDS])
def test_a_variant_computes_what_its_definition_says(variant, mesh):
    size, model, logits = compiled(variant, mesh)
    parameters, (tokens, places, segments) = drawn(model.config), batch_of(8)
    found = logits(parameters, tokens, places, segments)
    assert close(found, expected(size, model.config, parameters, tokens)) < 0.06
    assert parameter_count(model.config) == size.parameters


EXPERT_MESHES = [
    (("data", 2), ("tensor", 2)),
    (("expert", 4),),
    (("fsdp", 2), ("expert", 2), ("tensor", 2)),
    (("expert", 2), ("sequence", 2)),
]


@functools.cache
def loss_of(variant, mesh, **narrow):
    """A variant's loss, the gradient of each of its arrays, and the text of its program."""
    by_experts = "experts" in VARIANTS[variant]
    more = {"dropless": by_experts, "fsdp_on_experts": by_experts}
    _, model = model_of(variant, mesh, **more, **narrow)
    parameters = jax.tree.map(lambda leaf: leaf / 4, drawn(model.config))
    tokens, places, segments = batch_of(4)
    batch = {"tokens": tokens, "targets": tokens, "positions": places, "segments": segments}
    lowered = jax.jit(jax.value_and_grad(model.loss)).lower(parameters, batch)
    loss, gradients = lowered.compile()(parameters, batch)
    arrays = {
        jax.tree_util.keystr(path): np.asarray(leaf, np.float64).ravel()
        for path, leaf in jax.tree.leaves_with_path(gradients)
    }
    return float(loss), arrays, lowered.as_text()


def cosine(one, other):
    """Of the angle between two arrays; 0 where the first vanishes."""
    return one @ other / max(np.linalg.norm(one) * np.linalg.norm(other), 1e-300)


EIGHT_BITS = {"matmul_dtype": "float8_e4m3fn", "backward_dtype": "float8_e5m2"}
STATIC = EIGHT_BITS | {"static_scales": True, "gathered_dtype": "float8_e4m3fn"}


@pytest.mark.parametrize(
    ("variant", "mesh", "narrow"),
    [
        pytest.param("qwen3", (("fsdp", 4), ("tensor", 2)), EIGHT_BITS, marks=whole),
        ("qwen3", (("fsdp", 4), ("tensor", 2)), {"matmul_dtype": "int8"}),
        pytest.param("deepseek_v3", (("fsdp", 2), ("fsdp_transpose", 2)), EIGHT_BITS, marks=whole),
        pytest.param("deepseek_v3", (("fsdp", 4),), STATIC, marks=whole),
        ("shared", (("fsdp", 4),), STATIC),
    ],
)
def test_matmuls_in_8_bits_are_those_in_bfloat16_within_their_rounding(variant, mesh, narrow):
    loss, found, text = loss_of(variant, mesh, **narrow)
    expected_loss, wanted, _ = loss_of(variant, mesh)
    assert loss == pytest.approx(expected_loss, rel=0.05)
    alike = {name: cosine(found[name], each) for name, each in wanted.items() if each.any()}
    assert 0.8 < min(alike.values()) < 1 - 1e-6, alike  # near, and not the same program
    assert ("i8" if "int8" in narrow.values() else "f8E4M3FN") in text


@pytest.mark.parametrize(
    ("mesh", "variant", "dropless"), cover(EXPERT_MESHES, ["experts", "shared"], [False, True])
)
def test_experts_compute_the_same_over_every_mesh(variant, mesh, dropless):
    more: dict[str, Any] = (
        {"dropless": True, "imbalance": 2.0} if dropless else {"capacity_factor": 8.0}
    )
    size, model = model_of(variant, mesh, **more)
    parameters, (tokens, places, segments) = drawn(model.config), batch_of(4)
    found = jax.jit(model.logits)(parameters, tokens, places, segments)
    assert close(found, expected(size, model.config, parameters, tokens)) < 0.06


def test_rows_past_the_imbalance_are_zeros():
    """All tokens to the same two of four experts, each on a device of its own."""
    size, model = model_of("shared", (("expert", 4),), dropless=True, imbalance=2.0)
    weights = {name: leaf[0] for name, leaf in drawn(model.config)["stages"][0][0].items()}
    weights["router"][:], weights["router"][0] = 0, [9.0, 8.0, 0.0, 0.0]
    x = jnp.zeros((8, BLOCK, size.embed)).at[..., 0].set(1.0)
    found = jax.jit(model.dropless_mlp)(x, weights, x)
    kept = np.any(np.asarray(found) != 0, axis=-1)
    assert kept.mean() == 1.0
    _, narrow = model_of("shared", (("expert", 4),), dropless=True, imbalance=1.0)
    dropped = np.asarray(jax.jit(narrow.dropless_mlp)(x, weights, x))
    assert np.any(dropped != 0, axis=-1).mean() == 0.5


def test_rows_past_the_capacity_are_zeros_and_no_array_has_routes_for_each_choice():
    """All tokens to the same two of four experts, with room for half of them."""
    size, model = model_of("shared", (("expert", 4),), capacity_factor=1.0)
    weights = {name: leaf[0] for name, leaf in drawn(model.config)["stages"][0][0].items()}
    weights["router"][:], weights["router"][0] = 0, [9.0, 8.0, 0.0, 0.0]
    x = jnp.zeros((8, BLOCK, size.embed)).at[..., 0].set(1.0)
    kept = np.any(np.asarray(jax.jit(model.expert_mlp)(x, weights, x)) != 0, axis=-1)
    assert kept[:, : BLOCK // 2].all() and not kept[:, BLOCK // 2 :].any()
    made = jax.make_jaxpr(jax.grad(lambda x: model.expert_mlp(x, weights, x).sum()))(x)
    sizes = [math.prod(shape) for shape in shapes_of(made.jaxpr)]
    assert max(sizes) == 8 * BLOCK * 4 * (BLOCK // 2)


def shapes_of(jaxpr):
    for equation in jaxpr.eqns:
        yield from (each.aval.shape for each in equation.outvars)
        for inside in jax.extend.core.jaxprs_in_params(equation.params):
            yield from shapes_of(inside)


@pytest.mark.parametrize("columns", [pytest.param(128, marks=whole), 192])  # in full lanes, or not
@pytest.mark.parametrize("block", [128, pytest.param(256, marks=whole)])
def test_the_grouped_matmul_s_kernel_is_ragged_dot(monkeypatch, columns, block):
    make = functools.partial(decoder_experts.gmm, interpret=True)
    monkeypatch.setattr(decoder_experts, "gmm", make)
    numbers = np.random.default_rng(0)
    rows, weights = (
        jnp.asarray(numbers.normal(size=shape), jnp.float32)
        for shape in ((256, 256), (3, 256, columns))
    )
    sizes = jnp.array([100, 0, 156], jnp.int32)

    def by(rows, weights, block):
        return jnp.sum(jnp.sin(decoder_experts.grouped_matmul(rows, weights, sizes, block)))

    found, wanted = (jax.grad(by, argnums=(0, 1))(rows, weights, each) for each in (block, 0))
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=2e-3), found, wanted)


@pytest.mark.parametrize(
    ("variant", "without"),
    [
        ("qwen2", {"qkv_bias": False}),
        ("gemma3", {"windows": (None, None)}),
        ("gemma3", {"post_norms": False}),
        ("gpt_oss", {"sinks": False}),
        ("gpt_oss", {"activation": "silu"}),
        ("llama4", {"chunked": False}),
        ("qwen3_next", {"out_gate": False}),
        ("qwen3_next", {"shared_gate": False}),
        ("gemma4", {"value_norm": False}),
    ],
)
def test_the_definition_without_one_of_its_parts_is_another(variant, without):
    size, model, logits = compiled(variant, MESH_OF.get(variant, PLAIN))
    parameters, (tokens, places, segments) = drawn(model.config), batch_of(8)
    for block in itertools.chain(*parameters["stages"]):
        for name in [each for each in block if each.endswith("sinks")]:
            block[name] += 3  # large enough to be seen beside the rounding of bfloat16
    found = logits(parameters, tokens, places, segments)
    dropped = {"qkv_bias": "y_bias", "sinks": "sinks", "post_norms": "post_norm"}
    for part in (name for name in without if name in dropped):
        for block in itertools.chain(*parameters["stages"]):
            for name in [each for each in block if each.endswith(dropped[part])]:
                del block[name]
    changed = replace(size, **without)
    assert close(found, expected(changed, model.config, parameters, tokens)) > 0.1


def test_the_kernel_has_sinks_and_windows_too(monkeypatch):
    size, model = model_of("gpt_oss", (("tensor", 4),), kernel=True)
    make = functools.partial(decoder_context.splash.make_splash_mha, interpret=True)
    monkeypatch.setattr(decoder_context.splash, "make_splash_mha", make)
    numbers = np.random.default_rng(0)
    query, key, value = (
        jnp.asarray(numbers.normal(size=(1, heads, BLOCK, 128)) / 8, jnp.float32)
        for heads in (size.heads, size.kv_heads, size.kv_heads)
    )
    segments, sinks = jnp.zeros((1, BLOCK), jnp.int32), jnp.linspace(-1.0, 2.0, size.heads)
    for own in ({"window": None}, {"window": 32}, {"window": 32, "chunked": True}):
        layer = model.of(replace(model.config, **own))
        found = jax.jit(layer.flash)(query, key, value, segments, sinks=sinks)
        wanted = layer.plain_attention(query, key, value, segments, sinks)
        np.testing.assert_allclose(found, wanted, atol=1e-5)


# in every check the update of one of them: of the others, what it is made of
@pytest.mark.parametrize(
    ("variant", "mesh", "dropless", "is_updated"),
    [
        pytest.param("gemma3", PLAIN, False, True, marks=whole),
        pytest.param("gpt_oss", PLAIN, False, False, marks=whole),
        pytest.param("shared", (("fsdp", 2), ("expert", 2)), False, True, marks=whole),
        ("delta", (("fsdp", 2), ("tensor", 2)), True, False),
        ("of_parts", (("fsdp", 2), ("tensor", 2)), False, True),
        pytest.param("of_parts", (("fsdp", 2), ("tensor", 2)), True, True, marks=whole),
        pytest.param("gemma4", (("fsdp", 2), ("tensor", 2)), False, True, marks=whole),
        pytest.param("experts", (("fsdp", 2), ("expert", 2)), True, False, marks=whole),
    ],
)
def test_a_variant_trains(variant, mesh, dropless, is_updated):
    _, model = model_of(variant, mesh, dropless=dropless, imbalance=2.0)
    parameters, (tokens, places, segments) = drawn(model.config), batch_of(4)
    batch = {"tokens": tokens, "targets": tokens, "positions": places, "segments": segments}
    if is_updated:
        zeros = jax.tree.map(np.zeros_like, parameters)
        state = {"parameters": parameters, "mean": zeros, "square": zeros, "step": jnp.int32(0)}
        after, metrics = jax.jit(make_train_step(model))(state, batch)
        loss, gradients = metrics["loss"], after["mean"]
    else:
        loss, gradients = jax.jit(jax.value_and_grad(model.loss))(parameters, batch)
    assert np.isfinite(float(loss))
    moved = jax.tree.map(lambda each: np.any(np.asarray(each) != 0), gradients)
    for part in itertools.chain(*moved["stages"]):
        part.pop("score_bias", None)  # which only chooses
    assert all(jax.tree.leaves(moved)), moved  # every other parameter has a gradient


@pytest.mark.parametrize("name", PRESETS)
def test_the_program_of_a_preset_has_its_parameters(name):
    size = PRESETS[name]
    plan = parse_plan(
        {"target": "tpu:v5p:2x2x1", "model": name, "mesh": {"fsdp": 4}, "batch_per_device": 1}
    )
    assert parameter_count(decoder_config.Decoder(**configuration(plan))) == size.parameters
