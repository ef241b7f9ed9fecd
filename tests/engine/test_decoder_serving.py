"""Decoders that serve: what prefill and decode steps generate beside a cache, against the forward pass of all tokens without one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from spmd_core.plan.own_models import own_model
from spmd_core.script.decoder import sizes_of
from spmd_core.script.programs.decoder_config import Decoder
from spmd_core.script.programs.decoder_precision import LIMITS
from spmd_core.script.programs.decoder_serving import Cache, Serving, Stored, serving_dims
from tests.cover import cover, whole

pytestmark = pytest.mark.this_python

SIZES = {"layers": 2, "embed": 64, "heads": 8, "kv_heads": 4, "head_dim": 16, "mlp": 128}
EXPERTS = {"experts": 8, "experts_per_token": 2}
OF_EXPERTS = [f"{name}{end}" for name in ("gate", "up", "down") for end in ("", "_bias")]
STATES = {"state_heads": 8, "state_groups": 4, "state_dim": 16, "state_value": 8, "chunk": 16}
LATENT = {"kv_heads": 8, "head_dim": 24, "rope_dim": 8, "value_dim": 16, "kv_rank": 32}
VARIANTS: dict[str, dict[str, Any]] = {
    "biases": {
        "qkv_bias": True,
        "mlp_bias": True,
        "attention_cap": 5.0,
        "tied": True,
        "logits_cap": 9.0,
    },
    "gpt_oss": EXPERTS
    | {"windows": (16, None), "mlp_bias": True, "router_bias": True, "sinks": True}
    | {"activation": "clamped_silu", "out_bias": True},
    "deepseek": EXPERTS
    | LATENT
    | {
        "q_rank": 48,
        "shared_mlp": 32,
        "dense_layers": 1,
        "dense_mlp": 96,
        "routing": "sigmoid",
        "score_bias": True,
        "routed_scale": 2.5,
    },
    # layers with a state; one with a gate of each head, and one of the experts that all visit
    "qwen3_next": EXPERTS
    | STATES
    | {"mixers": ("delta", "attention"), "qk_norm": True, "out_gate": True}
    | {"shared_mlp": 32, "shared_gate": True},
    "nemotron_h": EXPERTS
    | STATES
    | {"layers": 3, "mixers": ("mamba", "none", "attention")}
    | {"mlps": ("none", "mlp", "none"), "gated": False, "activation": "relu2"}
    | {"shared_mlp": 32, "routing": "sigmoid", "score_bias": True},
    "chunked": {
        "layers": 5,
        "windows": (16, None),
        "chunked": True,
        "post_norms": True,
        "activation": "gelu",
    },
}
# none of these options depends on another
VARIANTS["chunked"] |= VARIANTS["biases"]
IN_8_BITS = ("biases", "deepseek")  # in every check with weights and caches of 8 bits
# axes, and those that whole experts are spread over
MESHES = (
    ({"tensor": 4, "data": 2}, ("data", "tensor")),
    ({"data": 4, "tensor": 2}, ("tensor",)),
    ({"replica": 2, "data": 2, "tensor": 2}, ()),
)
SLOTS, CHUNK, NEW, VOCAB = 64, 24, 9, 128
PROMPTS = (33, 7, 24, 40, 1, 12, 19, 30)  # tokens of each request


def config_of(variant, **more) -> Decoder:
    given = SIZES | {"vocab": VOCAB} | VARIANTS[variant]
    sizes = sizes_of(own_model(variant, given | {"logits_float32": True}))
    return Decoder(**sizes | more, dropless="experts" in given)


def mesh_of(axes):
    kinds = (AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=kinds)


class Uncached(Stored):
    """The decoder without a cache, whose keys and values are rounded as a cache of `kept` would."""

    kept = jnp.dtype("bfloat16")

    def embedded(self, parameters, tokens):
        return parameters["embedding"][tokens]

    def rounded(self, *arrays):
        return [each.astype(self.kept).astype(each.dtype) for each in arrays]

    def heads(self, x, weights, positions):
        query, key, value = super().heads(x, weights, positions)
        return (query, key, value) if self.config.kv_rank else (query, *self.rounded(key, value))

    def narrow(self, x, weights, positions):
        query, latent, shared = super().narrow(x, weights, positions)
        return query, *self.rounded(latent, shared)

    def dropless_mlp(self, x, weights, scored):
        """Every expert on every token, as one mlp after the other."""
        chosen, shares = self.router(scored, weights)
        total = jnp.zeros_like(x)
        for expert in range(self.config.experts):
            own = {name: each[expert] for name, each in weights.items() if name in OF_EXPERTS}
            own |= {name: each for name, each in weights.items() if name.endswith("_scale")}
            share = jnp.where(chosen == expert, shares, 0).sum(-1, keepdims=True)
            total += self.dense_mlp(x, own) * share
        return total


def drawn(config, wide):
    """Parameters as they are stored, so large that no part of a model vanishes beside others; `wide`: the dtype of those that have 16 bits."""
    numbers = np.random.default_rng(0)

    def leaf(entry):
        (*_, (last, _)), dtype = dims, _ = entry
        shape = tuple(size for _, size in dims)
        if last == "scales":  # of a weight and of what it multiplies
            return np.broadcast_to(np.float32([0.004, 0.05]), shape)
        # NumPy's: JAX would compile a conversion and a slice for each shape
        many = 60 if dtype in LIMITS else 0.25
        drawn = np.float32(numbers.normal(size=shape) * many)
        kind = jnp.dtype(wide if dtype == "bfloat16" else dtype)
        return (np.clip(drawn, -128, 127) if kind == np.int8 else drawn).astype(kind)

    return jax.tree.map(leaf, serving_dims(config), is_leaf=lambda x: isinstance(x, tuple))


def generated(model, parameters, prompts):
    """(tokens, logits before each of the later ones) of each request, by chunks of prefill and steps of decode."""
    run = jax.jit(model.last_logits, donate_argnums=1)
    cache = jax.tree.map(
        lambda each: np.zeros([size for _, size in each[0]], jnp.dtype(each[1])),
        model.cache.leaves(model.config),
        is_leaf=lambda x: isinstance(x, tuple),
    )
    lengths = np.zeros(len(prompts), np.int32)
    logits = np.zeros((len(prompts), VOCAB))
    left = [list(each) for each in prompts]
    while any(left):
        counts = np.array([min(CHUNK, len(each)) for each in left], np.int32)
        tokens = np.zeros((len(prompts), CHUNK), np.int32)
        for row, each in enumerate(left):
            tokens[row, : counts[row]] = each[:CHUNK]
        after, cache = run(parameters, cache, tokens, lengths, counts)
        logits[counts > 0] = np.asarray(after)[counts > 0]
        lengths, left = lengths + counts, [each[CHUNK:] for each in left]
    texts, seen = [list(each) for each in prompts], []
    for _ in range(NEW):
        seen.append(logits)
        new = logits.argmax(-1).astype(np.int32)
        for text, token in zip(texts, new, strict=True):
            text.append(int(token))
        after, cache = run(parameters, cache, new[:, None], lengths, np.ones_like(lengths))
        logits, lengths = np.asarray(after), lengths + 1
    return texts, np.stack(seen, axis=1)


def uncached(config, parameters, texts, kept):
    """Logits of the forward pass over each text, at the places from which the later tokens follow."""
    mesh = jax.make_mesh((1,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])
    model = Uncached(config, mesh, kernel=False)
    model.kept = kept
    tokens = np.zeros((len(texts), SLOTS), np.int32)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = text
    places = np.broadcast_to(np.arange(SLOTS, dtype=np.int32), tokens.shape)
    logits = np.asarray(jax.jit(model.logits)(parameters, tokens, places, np.ones_like(tokens)))
    return np.stack(
        [logits[row, len(text) - NEW - 1 : len(text) - 1] for row, text in enumerate(texts)]
    )


def prompts():
    numbers = np.random.default_rng(1)
    return [numbers.integers(0, VOCAB, length).tolist() for length in PROMPTS]


def compared(variant, axes, spread, wide="float32", kept="float32", **more):
    """(logits of the steps, those of the forward pass): [request, token, vocab]."""
    config = config_of(variant, **more)
    parameters = drawn(config, wide)
    model = Serving(config, mesh_of(axes), Cache(len(PROMPTS), SLOTS, kept), spread)
    texts, logits = generated(model, parameters, prompts())
    return logits, uncached(config, parameters, texts, jnp.dtype(kept))


@pytest.mark.parametrize(
    ("variant", "mesh"),
    [
        *cover([name for name in VARIANTS if name not in IN_8_BITS], MESHES),
        *(pytest.param(name, mesh, marks=whole) for name in IN_8_BITS for mesh in MESHES),
    ],
)
def test_cached_steps_generate_what_the_forward_pass_without_a_cache_does(variant, mesh):
    logits, wanted = compared(variant, *mesh)
    assert np.abs(logits - wanted).max() <= 1e-4 * wanted.std()
    assert (logits.argmax(-1) == wanted.argmax(-1)).all()


@pytest.mark.parametrize(("variant", "dtype"), cover(IN_8_BITS, ["int8", "float8_e4m3fn"]))
def test_weights_and_caches_of_8_bits_serve_what_a_forward_pass_with_them_makes(variant, dtype):
    logits, wanted = compared(variant, *MESHES[0], kept="float8_e4m3fn", parameter_dtype=dtype)
    # a value beside the middle of two of 8 bits is rounded to either: few are, and by one step
    assert np.median(np.abs(logits - wanted)) <= 1e-3 * wanted.std()
    assert np.abs(logits - wanted).max() <= 0.25 * wanted.std()


def test_a_window_bounds_the_slots_of_its_layers():
    config = config_of("chunked")
    (near, far), (tail,) = Cache(2, SLOTS).leaves(config)
    assert [dict(each["key"][0])["slots"] for each in (near, far, tail)] == [32, SLOTS, 32]
