"""Decoders of other families, executed small on simulated devices, against NumPy in float64."""

import functools
import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from spmd_core.experiment import PRESETS, parse_plan
from spmd_core.experiment.plan.models import own_model
from spmd_core.script.decoder import configuration
from spmd_core.script.programs import decoder, decoder_config, decoder_experts
from spmd_core.script.programs.decoder_step import make_train_step, parameter_count

pytestmark = pytest.mark.this_python

SIZES = {"embed": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "mlp": 96, "vocab": 128}
LENGTH = 128
VARIANTS = {
    "qwen2": {"layers": 2, "qkv_bias": True, "tied": True},
    "qwen3": {"layers": 2, "qk_norm": True},
    "gemma3": {
        "layers": 4,
        "activation": "gelu",
        "post_norms": True,
        "qk_norm": True,
        "windows": (32, None),
        "logits_cap": 3.0,
    },
    "gpt_oss": {
        "layers": 3,
        "activation": "clamped_silu",
        "windows": (32, None),
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
    "biases": {"layers": 2, "mlp_bias": True, "out_bias": True, "attention_cap": 5.0},
}


def model_of(variant, mesh_axes=(("data", 2), ("tensor", 2)), kernel=False, **choices: Any):
    size = own_model(variant, SIZES | VARIANTS[variant])
    plan = parse_plan(
        {
            "target": f"tpu:v5e:2x{math.prod(dict(mesh_axes).values()) // 2}",
            "model": size.name,
            "mesh": mesh_axes,
            "batch_per_device": 1,
            "sequence": 2 * LENGTH,
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
def compiled(variant, mesh_axes=(("data", 2), ("tensor", 2)), **choices: Any):
    """A variant's size, its model, and its logits: compiled once for all tests of them."""
    size, model = model_of(variant, mesh_axes, **choices)
    return size, model, jax.jit(model.logits)


def is_leaf(x):
    return isinstance(x, tuple) and all(isinstance(each, tuple) for each in x)


def drawn(config):
    """Parameters, larger than a model's first ones so that no part of it vanishes beside others."""
    numbers = np.random.default_rng(0)
    dims = decoder_config.parameter_dims(config)

    def leaf(dims):
        shape = tuple(size for _, size in dims)
        return jnp.asarray(numbers.normal(size=shape) / 4, jnp.float32)

    return jax.tree.map(leaf, dims, is_leaf=is_leaf)


def batch_of(count):
    tokens = np.random.default_rng(1).integers(0, SIZES["vocab"], (count, LENGTH), np.int32)
    places = np.broadcast_to(np.arange(LENGTH, dtype=np.int32), tokens.shape)
    return jnp.asarray(tokens), jnp.asarray(places), jnp.ones(tokens.shape, jnp.int32)


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
    scanned = (config.layers - config.dense_layers) // len(config.windows)
    layers = [
        {k: v[i] for k, v in d.items()}
        for d in p.get("dense", [])
        for i in range(size.dense_layers)
    ]
    layers += [{k: v[i] for k, v in part.items()} for i in range(scanned) for part in p["blocks"]]
    layers += p.get("tail", [])
    assert len(layers) == size.layers
    x = p["embedding"][tokens]
    for w, window in zip(layers, size.layer_windows, strict=True):
        x = x + post(w, attention(size, w, rms(x, w["attention_norm"]), window), "attention")
        y = rms(x, w["mlp_norm"])
        added = experts(size, w, y) if "router" in w else mlp(size, w, y)
        if "shared_up" in w:
            added = added + (silu(y @ w["shared_gate"]) * (y @ w["shared_up"])) @ w["shared_down"]
        x = x + post(w, added, "mlp")
    logits = rms(x, p["final_norm"]) @ (p["embedding"].T if size.tied else p["logits"])
    return np.tanh(logits / size.logits_cap) * size.logits_cap if size.logits_cap else logits


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
    q, k, v = (
        np.einsum("bse,ehd->bshd", x, w[name]) + w.get(f"{name}_bias", 0)
        for name in ("query", "key", "value")
    )
    if size.qk_norm:
        q, k = rms(q, w["query_norm"]), rms(k, w["key_norm"])
    return turned(q), turned(k), v


def attention(size, w, x, window):
    q, k, v = (latent if size.kv_rank else projected)(size, w, x)
    k, v = (np.repeat(each, size.heads // size.kv_heads, 2) for each in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q, k)
    if size.attention_cap:
        scores = np.tanh(scores / size.attention_cap) * size.attention_cap
    back = np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH))
    scores = np.where((back >= 0) & (back < (window or LENGTH)), scores, -1e30)
    if size.sinks:
        none = np.broadcast_to(w["sinks"][None, :, None, None], (*scores.shape[:-1], 1))
        scores = np.concatenate([scores, none], -1)
    mixed = np.einsum("bhqk,bkhd->bqhd", softmax(scores)[..., :LENGTH], v)
    return np.einsum("bshd,hde->bse", mixed, w["out"]) + w.get("out_bias", 0)


def hidden(size, gate, up):
    if size.activation == "clamped_silu":
        return silu(np.minimum(gate, 7), 1.702) * (np.clip(up, -7, 7) + 1)
    return (gelu if size.activation == "gelu" else silu)(gate) * up


def mlp(size, w, x, expert: Any = ...):
    def by(x, name):
        bias = w.get(f"{name}_bias")
        return x @ w[name][expert] + (0 if bias is None else bias[expert])

    return by(hidden(size, by(x, "gate"), by(x, "up")), "down")


def experts(size, w, x):
    routes = x @ w["router"] + w.get("router_bias", 0)
    scores = 1 / (1 + np.exp(-routes)) if size.routing == "sigmoid" else softmax(routes)
    ranked = scores + w.get("score_bias", 0)
    groups = ranked.reshape(*ranked.shape[:-1], size.expert_groups, -1)
    best = np.sort(groups, -1)[..., -2:].sum(-1)
    worse = np.argsort(-best, -1)[..., size.groups_per_token :]
    np.put_along_axis(groups, worse[..., None], -1e30, axis=-2)
    chosen = np.argsort(-groups.reshape(ranked.shape), -1)[..., : size.experts_per_token]
    best = np.take_along_axis(scores, chosen, -1)
    shares = best / best.sum(-1, keepdims=True) * size.routed_scale
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


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_computes_what_its_definition_says(variant):
    size, model, logits = compiled(variant, capacity_factor=8.0)  # room for every row
    parameters, (tokens, places, segments) = drawn(model.config), batch_of(2)
    found = logits(parameters, tokens, places, segments)
    assert close(found, expected(size, model.config, parameters, tokens)) < 0.06
    assert parameter_count(model.config) == size.parameters


EXPERT_MESHES = [
    (("data", 2), ("tensor", 2)),
    (("expert", 4),),
    (("fsdp", 2), ("expert", 2), ("tensor", 2)),
    (("expert", 2), ("sequence", 2)),
]


EIGHT_BITS = {"matmul_dtype": "float8_e4m3fn", "backward_dtype": "float8_e5m2"}
STATIC = EIGHT_BITS | {"static_scales": True, "gathered_dtype": "float8_e4m3fn"}


@pytest.mark.parametrize(
    ("variant", "mesh", "narrow"),
    [
        ("qwen3", (("fsdp", 4), ("tensor", 2)), EIGHT_BITS),
        ("qwen3", (("fsdp", 4), ("tensor", 2)), {"matmul_dtype": "int8"}),
        ("deepseek_v3", (("fsdp", 2), ("fsdp_transpose", 2)), EIGHT_BITS),
        ("deepseek_v3", (("fsdp", 4),), STATIC),
    ],
)
def test_matmuls_in_8_bits_are_those_in_bfloat16_within_their_rounding(variant, mesh, narrow):
    by_experts = variant == "deepseek_v3"
    more = {"dropless": by_experts, "fsdp_on_experts": by_experts}
    _, wide = model_of(variant, mesh, **more)
    _, model = model_of(variant, mesh, **more, **narrow)
    parameters = jax.tree.map(lambda leaf: leaf / 4, drawn(model.config))
    tokens, places, segments = batch_of(8)
    batch = {"tokens": tokens, "targets": tokens, "positions": places, "segments": segments}
    (loss, gradients), (expected_loss, wanted) = (
        jax.jit(jax.value_and_grad(each.loss))(parameters, batch) for each in (model, wide)
    )
    assert float(loss) == pytest.approx(float(expected_loss), rel=0.05)
    flat, wanted = (
        np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(each)])
        for each in (gradients, wanted)
    )
    alike = flat @ wanted / np.linalg.norm(flat) / np.linalg.norm(wanted)
    assert 0.8 < alike < 1 - 1e-6, alike  # near, and not the same program
    text = jax.jit(model.loss).lower(parameters, batch).as_text()
    assert ("i8" if model.config.matmul_dtype == "int8" else "f8E4M3FN") in text


@pytest.mark.parametrize("mesh", EXPERT_MESHES, ids=str)
@pytest.mark.parametrize("variant", ["experts", "shared"])
@pytest.mark.parametrize("dropless", [False, True])
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
    weights = {name: leaf[0] for name, leaf in drawn(model.config)["blocks"][0].items()}
    weights["router"] = weights["router"].at[:].set(0).at[0].set(jnp.array([9.0, 8.0, 0.0, 0.0]))
    x = jnp.zeros((8, LENGTH, size.embed)).at[..., 0].set(1.0)
    found = jax.jit(model.dropless_mlp)(x, weights)
    kept = np.any(np.asarray(found) != 0, axis=-1)
    assert kept.mean() == 1.0
    _, narrow = model_of("shared", (("expert", 4),), dropless=True, imbalance=1.0)
    dropped = np.asarray(jax.jit(narrow.dropless_mlp)(x, weights))
    assert np.any(dropped != 0, axis=-1).mean() == 0.5


def test_the_grouped_matmul_s_kernel_is_ragged_dot(monkeypatch):
    make = functools.partial(decoder_experts.gmm, interpret=True)
    monkeypatch.setattr(decoder_experts, "gmm", make)
    numbers = np.random.default_rng(0)
    rows, weights = (
        jnp.asarray(numbers.normal(size=shape), jnp.float32)
        for shape in ((256, 256), (3, 256, 128))
    )
    sizes = jnp.array([100, 0, 156], jnp.int32)

    def by(rows, weights, block):
        return jnp.sum(jnp.sin(decoder_experts.grouped_matmul(rows, weights, sizes, block)))

    for block in (128, 256):
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
    ],
)
def test_the_definition_without_one_of_its_parts_is_another(variant, without):
    size, model, logits = compiled(variant, capacity_factor=8.0)
    parameters, (tokens, places, segments) = drawn(model.config), batch_of(2)
    for block in parameters["blocks"]:
        for name in [each for each in block if each.endswith("sinks")]:
            block[name] += 3  # large enough to be seen beside the rounding of bfloat16
    found = logits(parameters, tokens, places, segments)
    dropped = {"qkv_bias": "y_bias", "sinks": "sinks", "post_norms": "post_norm"}
    for part in (name for name in without if name in dropped):
        for block in (*parameters["blocks"], *parameters.get("tail", [])):
            for name in [each for each in block if each.endswith(dropped[part])]:
                del block[name]
    changed = replace(size, **without)
    assert close(found, expected(changed, model.config, parameters, tokens)) > 0.1


def test_the_kernel_has_sinks_and_windows_too(monkeypatch):
    size, model = model_of("gpt_oss", (("tensor", 4),), kernel=True)
    make = functools.partial(decoder.splash.make_splash_mha, interpret=True)
    monkeypatch.setattr(decoder.splash, "make_splash_mha", make)
    numbers = np.random.default_rng(0)
    query, key, value = (
        jnp.asarray(numbers.normal(size=(1, heads, LENGTH, 128)) / 8, jnp.float32)
        for heads in (size.heads, size.kv_heads, size.kv_heads)
    )
    segments, sinks = jnp.zeros((1, LENGTH), jnp.int32), jnp.linspace(-1.0, 2.0, size.heads)
    for window in (None, 32):
        attend = functools.partial(model.flash, window=window)
        found = jax.jit(attend)(query, key, value, segments, sinks=sinks)
        wanted = model.plain_attention(query, key, value, segments, window, sinks)
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("variant", "mesh", "dropless"),
    [
        ("gemma3", (("data", 2), ("tensor", 2)), False),
        ("gpt_oss", (("data", 2), ("tensor", 2)), False),
        ("shared", (("fsdp", 2), ("expert", 2)), False),
        ("experts", (("fsdp", 2), ("expert", 2)), True),
    ],
)
def test_a_variant_trains(variant, mesh, dropless):
    _, model = model_of(variant, mesh, dropless=dropless, imbalance=2.0)
    parameters, (tokens, places, segments) = drawn(model.config), batch_of(4)
    zeros = jax.tree.map(np.zeros_like, parameters)
    state = {"parameters": parameters, "mean": zeros, "square": zeros, "step": jnp.int32(0)}
    batch = {"tokens": tokens, "targets": tokens, "positions": places, "segments": segments}
    after, metrics = jax.jit(make_train_step(model))(state, batch)
    assert np.isfinite(float(metrics["loss"]))
    moved = jax.tree.map(lambda mean: np.any(np.asarray(mean) != 0), after["mean"])
    assert all(jax.tree.leaves(moved)), moved  # every parameter has a gradient


@pytest.mark.parametrize("name", PRESETS)
def test_the_program_of_a_preset_has_its_parameters(name):
    size = PRESETS[name]
    plan = parse_plan(
        {"target": "tpu:v5p:2x2x1", "model": name, "mesh": {"fsdp": 4}, "batch_per_device": 1}
    )
    assert parameter_count(decoder_config.Decoder(**configuration(plan))) == size.parameters
