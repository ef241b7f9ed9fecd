"""One serving step of a decoder: new tokens of each request beside a cache of the earlier ones, and the next token of each; one token is a decode step, more are a chunk of prefill."""

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from spmd_core.script.programs.decoder import Model
from spmd_core.script.programs.decoder_config import (
    Decoder,
    axes_of,
    layer_dims,
    parameter_dims,
    spec,
    weight_dims,
)
from spmd_core.script.programs.decoder_experts import dropless
from spmd_core.script.programs.decoder_parts import capped, rms_norm
from spmd_core.script.programs.decoder_precision import LIMITS, reduced

EVERY = ("tensor", "data")
# Attention has the requests of `data` apart, and its heads over `tensor`; what follows it takes the
# tokens of a whole replica, and has its weights over both axes.
SERVE_RULES = {
    "batch": ("replica", "data"),
    "act_heads": ("tensor",),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "act_mlp": EVERY,
    "mlp": EVERY,
    "vocab": EVERY,
    "act_vocab": EVERY,
}
STEPS = {"float8_e4m3fn": 1.0, "int8": 0.0625}  # between values of a cache of 8 bits, known before
OF_EXPERTS = ("gate", "up", "down")
LANES = 128  # the kernel of experts has blocks of so many columns
TILE = 32  # slots that a tile of memory has in 8 bits: those of a window are a multiple


@dataclass(frozen=True)
class Cache:
    """Sizes of a cache: requests, tokens of each, their dtype; `window` layers keep no more than theirs."""

    requests: int
    slots: int
    dtype: str = "bfloat16"

    def leaves(self, c: Decoder) -> list:
        """What each layer of each stage keeps: name -> (dims, dtype)."""
        return [[self.of_layer(layer, times) for layer in block] for block, times in c.blocks]

    def of_layer(self, c: Decoder, layers: int) -> dict:
        """Keys and values of so many layers alike, [layer, request, head, slot, head_dim]; of latent attention the latents, which all heads share; of a mixer with a state that, and what its convolutions still see."""
        first = (("layers", layers), ("batch", self.requests))
        if c.mixer == "none":
            return {}
        if c.mixer != "attention":
            return self.of_state(c, first)
        slots = self.slots if c.window is None else min(self.slots, -(-c.window // TILE) * TILE)
        if c.kv_rank:
            width = ("head_dim", c.kv_rank + c.rope_dim)
            return {"key": ((*first, ("latent", 1), ("slots", slots), width), self.dtype)}
        kept = (*first, ("kv_heads", c.kv_heads), ("slots", slots))
        sizes = {"key": c.head_dim, "value": c.value_dim or c.head_dim}
        return {name: ((*kept, ("head_dim", size)), self.dtype) for name, size in sizes.items()}

    def of_state(self, c: Decoder, first: tuple) -> dict:
        """The same of a mixer with a state."""
        heads, values = ("heads", c.state_heads), ("head_dim", c.state_value)
        groups = (("kv_heads", c.state_groups), ("head_dim", c.state_dim))
        taps = (*first, ("taps", c.conv - 1))
        dtype = "bfloat16" if self.dtype in LIMITS else self.dtype
        return {
            "state": ((*first, heads, ("state", c.state_dim), values), "float32"),
            **dict.fromkeys(("query", "key"), ((*taps, *groups), dtype)),
            "value": ((*taps, heads, values), dtype),
        }


@dataclass
class Held:
    """The cache of a block while one of its layers is traced, and how many tokens of each request are new."""

    arrays: dict
    layer: jax.Array
    counts: jax.Array

    def swapped(self, name, new):
        """What the layer kept by that name, in whose place there is something new."""
        before = self.arrays[name][self.layer]
        kept = self.arrays[name].at[self.layer].set(new(before).astype(before.dtype))
        self.arrays = self.arrays | {name: kept}
        return before


def narrow(x, dtype):
    """x as a cache of that dtype keeps it."""
    return reduced(x, STEPS[dtype], dtype) if dtype in STEPS else x.astype(dtype)


def widened(kept, dtype):
    """What was kept, in a dtype of 16 bits or more."""
    step = STEPS.get(str(kept.dtype), 1)
    return kept.astype(dtype) if step == 1 else kept.astype(dtype) * step


def taken_in(new, arrays, layer, positions, counts, total):
    """(the arrays with the new keys and values in them, those of the layer that may be seen, the position of each) of one device; the first `counts` of the new ones count."""
    slots, length, dtype = arrays["key"].shape[3], positions.shape[1], str(arrays["key"].dtype)
    new = {name: narrow(each, dtype) for name, each in new.items()}
    place = jnp.arange(length)
    kept = (place < counts[:, None]) & (place >= counts[:, None] - slots)
    slot = jnp.where(kept, positions % slots, slots)  # past the end: dropped
    # a window of one head's row: with more heads in it the compiler would keep another layout
    rows, heads = (jnp.arange(size) for size in arrays["key"].shape[1:3])
    to = (layer, rows[:, None, None], heads, slot[:, :, None])
    written = {name: arrays[name].at[to].set(each, mode="drop") for name, each in new.items()}
    if slots == total or length == 1:
        newest = positions[:, 0] + counts - 1
        return written, {name: each[layer] for name, each in written.items()}, at(newest, slots)
    seen = {  # the new ones take the place of some that are still seen
        name: jnp.concatenate([arrays[name][layer], jnp.swapaxes(each, 1, 2)], axis=2)
        for name, each in new.items()
    }
    own = jnp.where(place < counts[:, None], positions, -1)
    return written, seen, jnp.concatenate([at(positions[:, 0] - 1, slots), own], axis=1)


def at(newest, slots):
    """The position whose token is in each slot [request, slot], negative for none; `newest`: of each request."""
    return newest[:, None] - (newest[:, None] - jnp.arange(slots)) % slots


def attended(
    query, new, arrays, layer, positions, counts, sinks, window, chunked, total, cap, value_dim
):
    """(mixed values, the arrays with the new ones in them) of one device: query [request, length, head, head_dim] sees the cache and the new keys, up to its position and within its window."""
    written, seen, keys_at = taken_in(new, arrays, layer, positions, counts, total)
    keys = widened(seen["key"], query.dtype)
    values = widened(seen["value"], query.dtype) if "value" in seen else keys[..., :value_dim]
    grouped = query.reshape(*query.shape[:2], keys.shape[1], -1, query.shape[-1])
    scores = jnp.einsum("bskgd,bktd->bkgst", grouped, keys, preferred_element_type=jnp.float32)
    scores = capped(scores, cap)
    back = positions[:, :, None] - keys_at[:, None]
    visible = (back >= 0) & (keys_at >= 0)[:, None]
    if window is not None:
        own = positions[:, :, None] // window == keys_at[:, None] // window
        visible &= own if chunked else back < window
    scores = jnp.where(visible[:, None, None], scores, -1e30)
    if sinks is not None:
        none = sinks.reshape(1, keys.shape[1], -1, 1, 1).astype(scores.dtype)
        scores = jnp.concatenate([scores, jnp.broadcast_to(none, (*scores.shape[:-1], 1))], axis=-1)
    shares = jax.nn.softmax(scores, axis=-1)[..., : keys.shape[2]].astype(query.dtype)
    mixed = jnp.einsum("bkgst,bktd->bskgd", shares, values)
    return mixed.reshape(*query.shape[:3], -1), written


class Stored(Model):
    """A decoder whose matrices have their dtype in memory: 8 bits with a scale of their own and one of what they multiply."""

    def times(self, equation, x, weights, name):
        weight, scales = weights[name], weights.get(f"{name}_scale")
        if scales is None:
            return jnp.einsum(equation, x, weight.astype(x.dtype))
        wide = jnp.int32 if weight.dtype == jnp.int8 else jnp.float32
        few = reduced(x, scales[1], str(weight.dtype))
        y = jnp.einsum(equation, few, weight, preferred_element_type=wide)
        return (y * (scales[0] * scales[1])).astype(x.dtype)


class Serving(Stored):
    """A decoder that serves.

    `cache` says how large its cache is, `spread` over which mesh axes whole experts are; their
    rules shard attention, and those of `wide` what follows it.
    """

    def __init__(self, config: Decoder, mesh: Mesh, cache: Cache, spread: tuple[str, ...] = ()):
        rules = SERVE_RULES | {"experts": spread}
        kernel = mesh.devices.flat[0].platform == "tpu"
        super().__init__(config, mesh, rules, kernel)
        self.cache = cache
        self.wide = Stored(config, mesh, rules | {"batch": ("replica",)}, kernel)

    def of(self, config: Decoder):
        """The same for a layer of its own configuration."""
        one = super().of(config)
        one.wide = self.wide.of(config)
        return one

    def attention(self, x, weights, positions, segments):
        """As of the model without a cache, where `segments` is the layer's: `Held`."""
        c, nope = self.config, self.config.head_dim - self.config.rope_dim
        if c.kv_rank:
            # a query is multiplied by what makes keys of a latent: no key is made
            query, latent, shared = self.narrow(x, weights, positions)
            up_key, up_value = jnp.split(weights["kv_up"].astype(x.dtype), [nope], axis=-1)
            turned = query[..., nope:]
            query = jnp.einsum("bshd,rhd->bshr", query[..., :nope], up_key)
            query = jnp.concatenate([query, turned], axis=-1)
            new = {"key": jnp.concatenate([latent[:, :, None], shared], axis=-1)}
            mixed = self.attend(query, new, weights, positions, segments)
            mixed = jnp.einsum("bshr,rhd->bshd", mixed, up_value)
        else:
            query, key, value = self.heads(x, weights, positions)
            new = {"key": key, "value": value}
            mixed = self.attend(query, new, weights, positions, segments)
        return self.projected_out(self.gated(mixed, x, weights), weights)

    @jax.named_scope("attention")
    def attend(self, query, new, weights, positions, held):
        """Attention over the cache, which takes the new keys and values in: on each device its requests and heads."""
        c, mesh, sinks = self.config, self.mesh, weights.get("sinks")
        of = functools.partial(spec, rules=self.rules, mesh=mesh)
        batch, heads = ("batch", self.cache.requests), ("act_heads", c.heads)
        head = ("kv_heads", 1 if c.kv_rank else c.kv_heads)
        kept = of((("layers", 1), batch, head))
        fed = {name: P(kept[1], None, kept[2]) for name in new}
        shard = functools.partial(
            attended,
            window=c.window,
            chunked=c.chunked,
            total=self.cache.slots,
            cap=c.attention_cap,
            value_dim=c.kv_rank,
        )
        mixed, held.arrays = jax.shard_map(
            shard,
            mesh=mesh,
            in_specs=(
                of((batch, ("length", 1), heads)),
                fed,
                dict.fromkeys(held.arrays, kept),
                P(),
                P(kept[1]),
                P(kept[1]),
                None if sinks is None else of((heads,)),
            ),
            out_specs=(of((batch, ("length", 1), heads)), dict.fromkeys(held.arrays, kept)),
            check_vma=False,
        )(query, new, held.arrays, held.layer, positions, held.counts, sinks)
        return mixed

    def convolved(self, x, weights, name, segments):
        """As of the model, behind what the layer has kept of earlier tokens."""
        last = segments.counts[:, None] + jnp.arange(self.config.conv - 1)

        def new(before):
            both = jnp.concatenate([before.astype(x.dtype), x], axis=1)
            return jnp.take_along_axis(both, last[:, :, None, None], axis=1)

        before = segments.swapped(name, new)
        return super().convolved(x, weights, name, segments, before)

    def through_state(self, query, key, value, width, rate, weights, segments):
        """As of the model, on from the state that the layer has kept; tokens that do not count leave it as it is."""
        counted = (jnp.arange(value.shape[1]) < segments.counts[:, None])[..., None]
        width, rate = (jnp.where(counted, each, 0) for each in (width, rate))
        before = segments.arrays["state"][segments.layer]
        mixed, state = self.states(query, key, value, width, rate, weights, before)
        segments.swapped("state", lambda _: state)
        return mixed

    def all_tokens(self, x):
        """The tokens of all requests on each device."""
        return self.wide.cut(x, "batch", "length", "act_embed")

    def dense_mlp(self, x, weights):
        """As of the model, over all axes."""
        return self.wide.dense_mlp(self.all_tokens(x), weights)

    def shared_mlp(self, x, weights):
        """As of the model, over all axes."""
        return self.wide.shared_mlp(self.all_tokens(x), weights)

    @jax.named_scope("experts")
    def dropless_mlp(self, x, weights, scored):
        """Each token to its best experts: every device has all tokens, and adds what its experts or its part of them make. The experts' matrices are those of all layers alike, of which this is `layer`."""
        c, mesh = self.config, self.mesh
        chosen, shares = self.wide.router(self.all_tokens(scored), weights)
        x = self.all_tokens(x)
        tokens = spec((("batch", len(x)),), self.wide.rules, mesh)
        dims = layer_dims(c)
        each = {name: spec(dims[name], self.rules, mesh) for name in OF_EXPERTS if name in dims}
        by, inside = (axes_of(each["down"][dim]) for dim in (0, 1))
        specs = {name: P(None, *entries) for name, entries in each.items()}
        specs |= {f"{name}_bias": P(*at[:1], *at[2:]) for name, at in each.items()}
        specs |= {f"{name}_scale": P() for name in each} | {"layer": P()}
        parts = {name: weights[name] for name in specs if name in weights}
        if "down_bias" in parts:  # added by each device that has a part of the expert
            parts["down_bias"] = parts["down_bias"] / math.prod(mesh.shape[axis] for axis in inside)

        return jax.shard_map(
            functools.partial(self.own_experts, by, inside),
            mesh=mesh,
            in_specs=(tokens, tokens, tokens, {name: specs[name] for name in parts}),
            out_specs=tokens,
            check_vma=False,
        )(x, chosen, shares, parts)

    def own_experts(self, by, inside, x, chosen, shares, parts):
        """The same on one device, whose experts are those of its place along the axes `by`, each sharded along those `inside`."""
        c, layer, (layers, local) = self.config, parts.pop("layer"), parts["down"].shape[:2]
        stacks = {name: parts[name] for name in OF_EXPERTS if name in parts}
        lanes = all(side % LANES == 0 for each in stacks.values() for side in each.shape[2:])
        has_kernel = self.kernel and lanes and c.parameter_dtype not in LIMITS
        parts |= {
            name: each.reshape(-1, *each.shape[2:]) if has_kernel else each[layer]
            for name, each in stacks.items()
        }
        own = chosen - (jax.lax.axis_index(by) * local if by else 0)
        own = jnp.where((own >= 0) & (own < local), own, local)  # of no expert here
        given = (local, 1, 1.0, c.activation, c.group_rows * has_kernel, (*by, *inside) or None)
        stack = (layer, layers) if has_kernel else None
        # the scope names about how many experts have rows, and how many: no shape shows it
        share, tokens = c.experts_per_token / c.experts, math.prod(x.shape[:2])
        visited = max(1, round(local * (1 - (1 - share) ** tokens)))
        with jax.named_scope(f"{visited} experts, {round(tokens * share * local)} rows"):
            return dropless(x, own, shares, parts, *given, None, None, stack)

    @jax.named_scope("embedding")
    def embedded(self, parameters, tokens):
        """Rows of the embedding, by a gather: few of them are needed."""
        return self.cut(parameters["embedding"][tokens], "batch", "length", "act_embed")

    def hidden_states(self, parameters, cache, tokens, positions, counts):
        """(hidden states [request, length, embed], the cache with the new tokens in it)."""
        c, kept = self.config, []
        x = self.embedded(parameters, tokens)
        if c.positions:
            x = x + parameters["position_embedding"][positions]
        for (layers, times), parts, arrays in zip(
            c.blocks, parameters["stages"], cache, strict=True
        ):
            whole = [
                {name: part[name] for name in OF_EXPERTS if {"router", name} <= part.keys()}
                for part in parts
            ]
            scanned = [
                {name: each for name, each in part.items() if name not in stacks}
                for part, stacks in zip(parts, whole, strict=True)
            ]
            step = functools.partial(self.cached_block, layers, whole, positions, counts)
            with jax.named_scope("layers"):
                (x, arrays), _ = jax.lax.scan(step, (x, arrays), (scanned, jnp.arange(times)))
            kept.append(arrays)
        return x, kept

    @jax.named_scope("layer")
    def cached_block(self, layers, whole, positions, counts, carry, item):
        """One step of a scan over the layers of a stage: ((stream, cache), nothing). `whole`: what is not sliced by layer."""
        (x, arrays), (weights, place) = carry, item
        held = [Held(each, place, counts) for each in arrays]
        for layer, part, stacks, each in zip(layers, weights, whole, held, strict=True):
            weights = part | stacks | {"layer": place}
            x = self.of(layer).layer(x, weights, positions, each)
        return (x, [each.arrays for each in held]), None

    def last_logits(self, parameters, cache, tokens, lengths, counts):
        """(logits [request, vocab] in float32 after the last new token of each request, the cache). tokens: [request, length], of which `counts` count; `lengths` are in the cache."""
        positions = lengths[:, None] + jnp.arange(tokens.shape[1])
        x, cache = self.hidden_states(parameters, cache, tokens, positions, counts)
        x = jnp.take_along_axis(x, (counts - 1)[:, None, None], axis=1)
        x = self.all_tokens(rms_norm(x, parameters["final_norm"]))
        table = parameters["embedding"].T if self.config.tied else parameters["logits"]
        with jax.named_scope("logits"):
            logits = jnp.einsum("bse,ev->bsv", x, table, preferred_element_type=jnp.float32)
            logits = self.wide.cut(logits, "batch", "length", "act_vocab")[:, 0]
        return capped(logits, self.config.logits_cap), cache

    def step(self, parameters, cache, tokens, lengths, counts):
        """(the next token of each request, the cache)."""
        logits, cache = self.last_logits(parameters, cache, tokens, lengths, counts)
        return jnp.argmax(logits, axis=-1).astype(jnp.int32), cache


def serving_dims(c: Decoder) -> dict:
    """The tree of parameters: each leaf (dims, dtype); layers' matrices in the dtype of the configuration, with two scales each where it has 8 bits."""
    tree = parameter_dims(c)

    def leaves(layer, dims):
        few = {"router", "kv_up", "shared_share", "steps"}
        small = {name for name in weight_dims(layer) if name not in few and "_conv" not in name}
        kept = {
            name: (each, c.parameter_dtype if name in small else "bfloat16")
            for name, each in dims.items()
        }
        if c.parameter_dtype not in LIMITS:
            return kept
        stacked = [each for each in next(iter(dims.values())) if each[0] == "layers"]
        return kept | {f"{name}_scale": ((*stacked, ("scales", 2)), "float32") for name in small}

    stages = [
        [leaves(layer, dims) for layer, dims in zip(block, part, strict=True)]
        for (block, _), part in zip(c.blocks, tree["stages"], strict=True)
    ]
    others = {name: (part, "bfloat16") for name, part in tree.items() if name != "stages"}
    return others | {"stages": stages}


def serving_arguments(model: Serving, length: int):
    """(parameters, cache, tokens, lengths, counts) as jax.ShapeDtypeStruct with shardings: nothing is allocated."""

    def leaf(dims, dtype):
        place = NamedSharding(model.mesh, spec(dims, model.rules, model.mesh))
        return jax.ShapeDtypeStruct(tuple(size for _, size in dims), dtype, sharding=place)

    def is_leaf(x):
        return isinstance(x, tuple)

    c, batch = model.config, ("batch", model.cache.requests)
    parameters = jax.tree.map(lambda each: leaf(*each), serving_dims(c), is_leaf=is_leaf)
    cache = jax.tree.map(lambda each: leaf(*each), model.cache.leaves(c), is_leaf=is_leaf)
    each = leaf((batch,), jnp.int32)
    return parameters, cache, leaf((batch, ("length", length)), jnp.int32), each, each


def lower_serving_step(
    config: Decoder, mesh: Mesh, cache: Cache, length: int, spread: tuple[str, ...] = ()
):
    """The step lowered for a mesh, the cache donated; call `.compile()` to see the compiler's program, which chooses how weights and cache lie in memory: in the usual layout it would copy them at each step."""
    model = Serving(config, mesh, cache, spread)
    arguments = serving_arguments(model, length)
    places = jax.tree.map(lambda leaf: leaf.sharding, arguments)
    free = jax.tree.map(lambda place: Format(Layout.AUTO, place), places[:2])
    step = jax.jit(
        model.step,
        donate_argnums=1,
        in_shardings=(*free, *places[2:]),
        out_shardings=(places[3], free[1]),
    )
    return step.lower(*arguments)
