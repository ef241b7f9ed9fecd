"""A decoder-only transformer and its loss: scanned blocks, rematerialization by name, flash attention by a Pallas kernel."""

import copy
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from spmd_core.script.programs.decoder_config import (
    PROJECTIONS,
    TRAIN_RULES,
    Decoder,
    axes_of,
    layer_dims,
    spec,
)
from spmd_core.script.programs.decoder_context import (
    CONTEXT_DIMS,
    attend_shard,
    splash_kernel,
    splash_mask,
    token_order,
)
from spmd_core.script.programs.decoder_experts import dropless, gathered_axes
from spmd_core.script.programs.decoder_parts import (
    all_heads_norm,
    capped,
    cross_entropy,
    layer_norm,
    mlp_hidden,
    rms_norm,
    rotate,
)
from spmd_core.script.programs.decoder_precision import scaled_einsum
from spmd_core.script.programs.decoder_state import convolved, delta_rule, state_space

LATER_SHARE = 0.1  # of the loss of later tokens: mtp_loss_scaling_factor of MaxText


class Model:
    """A decoder over a mesh: the functions that need the table of shardings."""

    def __init__(
        self,
        config: Decoder,
        mesh: Mesh,
        rules: Mapping[str, tuple[str, ...]] = TRAIN_RULES,
        kernel: bool = True,
    ):
        self.config, self.mesh, self.rules, self.kernel = config, mesh, rules, kernel

    def of(self, config: Decoder):
        """The same for a layer of its own configuration."""
        one = copy.copy(self)
        one.config = config
        return one

    def cut(self, x, *dims):
        """Constrain an activation by the names of its dims."""
        return jax.lax.with_sharding_constraint(
            x,
            NamedSharding(
                self.mesh, spec(tuple(zip(dims, x.shape, strict=True)), self.rules, self.mesh)
            ),
        )

    def times(self, equation, x, weights, name) -> Any:
        """A matmul with the weight of that name, in the dtypes of the configuration."""
        c, weight = self.config, weights[name]
        if c.lora_rank:
            frozen = jnp.einsum(equation, x, weight.astype(x.dtype))
            return frozen + self.adapted(equation, x, weights, name)
        if c.matmul_dtype == "bfloat16":
            return jnp.einsum(equation, x, weight.astype(x.dtype))
        if c.gathered_dtype == "bfloat16":
            weight = self.gathered(weight.astype(x.dtype), name)
        return scaled_einsum(equation, self.how, x, weight)

    def adapted(self, equation, x, weights, name):
        """What the adapters of a frozen weight add."""
        given, weight, made = equation.replace("->", ",").split(",")
        kept = "".join(letter for letter in given if letter in made)
        inside = "".join(letter for letter in given if letter not in made)
        ends = (weights[f"{name}_lora_{end}"].astype(x.dtype) for end in ("in", "out"))
        narrow = jnp.einsum(f"{given},{inside}r->{kept}r", x, next(ends))
        outside = "".join(letter for letter in weight if letter not in given)
        return jnp.einsum(f"{kept}r,r{outside}->{made}", narrow, next(ends))

    @property
    def how(self):
        """Dtypes of operands forward and backward, and whether scales of each are static: of gradients on GPUs alone, where both are those of earlier steps."""
        c = self.config
        return c.matmul_dtype, c.backward_dtype, c.static_scales, c.static_scales and c.gpu

    def gathered(self, weight, name):
        """A weight as a matmul needs it: sharded over `tensor`, and its experts over `expert`."""
        kept = {"mlp": "act_mlp", **{dim: dim for dim in ("heads", "kv_heads", "experts")}}
        dims = layer_dims(self.config)[name]
        return self.cut(weight, *(kept.get(dim, "whole") for dim, _ in dims))

    def flash(self, query, key, value, segments, sinks=None):
        """Causal attention over [batch, heads, length, head_dim] by the splash kernel, one call per shard. sinks: a score for each head, or None."""
        c, devices = self.config, self.mesh.shape.get("context", 1)
        heads, *places = CONTEXT_DIMS[c.context_attention]

        def specs(x, place):
            names = ("batch", heads, place, "head_dim")
            return spec(tuple(zip(names, x.shape, strict=True)), self.rules, self.mesh)

        of_queries, of_keys = specs(query, places[0]), specs(key, places[1])
        shards = math.prod(self.mesh.shape[axis] for axis in axes_of(of_queries[1]))
        if of_keys[1] != of_queries[1]:
            # fewer key heads than shards: each has those of its queries
            times = math.lcm(key.shape[1], shards) // key.shape[1]
            key, value = (jnp.repeat(each, times, axis=1) for each in (key, value))
            of_keys = P(of_queries[0], of_queries[1], of_keys[2])
        rows = [P(each[0], each[2]) for each in (of_queries, of_keys)]
        kernel = of_kernel = None
        if devices > 1 and c.context_attention == "all-gather":  # queries differ by device
            mask = splash_mask(c, query.shape[2])
            mask.q_sequence = token_order(c, query.shape[2], devices)
            kernel = splash_kernel(c, query.shape[1] // shards, mask, devices)
            place = NamedSharding(self.mesh, P(None, "context"))
            of_kernel = kernel.manual_sharding_spec(place)
        shard = functools.partial(attend_shard, c, devices)
        return jax.shard_map(
            shard,
            mesh=self.mesh,
            in_specs=(
                *(of_kernel, of_queries, of_keys, of_keys, *rows),
                *([] if sinks is None else [P(of_queries[1])]),
            ),
            out_specs=of_queries,
            check_vma=False,
        )(kernel, query, key, value, segments, segments, *([] if sinks is None else [sinks]))

    def plain_attention(self, query, key, value, segments, sinks=None):
        """The same by matmuls and a softmax, for devices without the kernel."""
        c, groups = self.config, query.shape[1] // key.shape[1]
        key, value = jnp.repeat(key, groups, axis=1), jnp.repeat(value, groups, axis=1)
        scores = jnp.einsum("bhqd,bhkd->bhqk", query, key).astype(jnp.float32)
        scores = capped(scores, c.attention_cap)
        order = token_order(c, scores.shape[-1], self.mesh.shape.get("context", 1))
        queries = keys = jnp.asarray(order)
        back = queries[:, None] - keys
        seen = (back >= 0) & (segments[:, None, :, None] == segments[:, None, None, :])
        if c.window is not None:
            own = queries[:, None] // c.window == keys // c.window
            seen &= own if c.chunked else back < c.window
        scores = jnp.where(seen, scores, -1e30)
        if sinks is not None:
            none = jnp.broadcast_to(sinks[:, None, None], (*scores.shape[:-1], 1))
            scores = jnp.concatenate([scores, none.astype(scores.dtype)], axis=-1)
        shares = jax.nn.softmax(scores, axis=-1)[..., : key.shape[-2]]
        return jnp.einsum("bhqk,bhkd->bhqd", shares.astype(value.dtype), value)

    def attention(self, x, weights, positions, segments):
        query, key, value = self.heads(x, weights, positions)
        named = {}
        for name, array in (("query", query), ("key", key), ("value", value)):
            dims = "batch", "length", "act_heads", "head_dim"
            # cut on either side: else the partitioner exchanges all layers' before it slices one
            saved = self.cut(checkpoint_name(self.cut(array, *dims), name), *dims)
            named[name] = saved.swapaxes(1, 2)
        attend: Callable[..., jax.Array] = self.flash if self.kernel else self.plain_attention  # pyright: ignore[reportAssignmentType]
        c, devices = self.config, self.mesh.shape.get("context", 1)
        # the scope names the window, and who has the most keys: no table of a kernel shows it
        among = "chunks of " * c.chunked
        scope = f"attention within {among}{c.window}" if c.window else "attention"
        if devices > 1 and c.context_order == "contiguous":
            scope = f"{scope}/last of {devices}"
        with jax.named_scope(scope):
            mixed = jnp.swapaxes(
                attend(
                    named["query"], named["key"], named["value"], segments, weights.get("sinks")
                ),
                1,
                2,
            )
        mixed = self.cut(mixed, "batch", "length", "act_heads", "head_dim")
        return self.projected_out(self.gated(mixed, x, weights), weights)

    def gated(self, mixed, x, weights):
        """Mixed values times the gate of each, where the model has one."""
        if "out_gate" not in weights:
            return mixed
        with jax.named_scope("gate"):
            gate = self.times("bse,ehd->bshd", x, weights, "out_gate")
            return mixed * jax.nn.sigmoid(gate)

    def projected_out(self, mixed, weights):
        """Mixed values [batch, length, head, dim] back to the stream."""
        with jax.named_scope("out"):
            out = self.times("bshd,hde->bse", mixed, weights, "out")
            return checkpoint_name(self.biased(out, weights, "out"), "out")

    def heads(self, x, weights, positions):
        """Queries, keys and values [batch, length, heads, head_dim], with their norms and positions."""
        c = self.config
        if c.kv_rank:
            return self.latent(x, weights, positions)
        query, key, value = self.query_key_value(x, weights)
        if c.value_norm:
            value = rms_norm(value)
        if c.qk_norm:
            norm = all_heads_norm if c.qk_norms == "all" else rms_norm
            query = norm(query, weights.get("query_norm"))
            key = norm(key, weights.get("key_norm"))
        if not c.positions:
            query, key = rotate(query, positions), rotate(key, positions)
        return query, key, value

    def state_mixer(self, x, weights, positions, segments):
        """A mixer with a state for each head: queries, keys and values by projections and short convolutions, of full sequences."""
        del positions
        c, arrays = self.config, {}
        for name in ("query", "key", "value"):
            with jax.named_scope(name):
                array = checkpoint_name(self.times("bse,ehd->bshd", x, weights, name), name)
                array = self.cut(array, "batch", "whole", "act_heads", "head_dim")
                arrays[name] = self.convolved(array, weights, name, segments)
        repeats = c.state_heads // c.state_groups
        query, key = (jnp.repeat(arrays[name], repeats, axis=2) for name in ("query", "key"))
        value = arrays["value"]
        with jax.named_scope("steps"):
            steps = self.times("bse,eqh->qbsh", x, weights, "steps").astype(jnp.float32)
            width = jax.nn.softplus(steps[-1] + weights["step_bias"].astype(jnp.float32))
            rate = jax.nn.sigmoid(steps[0])
        query, key, value = (
            self.cut(each, "batch", "whole", "act_heads", "head_dim")
            for each in (query, key, value)
        )
        mixed = self.through_state(query, key, value, width, rate, weights, segments)
        with jax.named_scope("gate"):
            gate = jax.nn.silu(self.times("bse,ehd->bshd", x, weights, "mixed_gate"))
        mixed = self.cut(mixed, "batch", "length", "act_heads", "head_dim")
        if c.mixer == "delta":
            mixed = rms_norm(mixed, weights["state_norm"]) * gate
        else:  # a norm of each group's heads
            grouped = (mixed * gate).reshape(*mixed.shape[:2], c.state_groups, -1)
            mixed = rms_norm(grouped).reshape(mixed.shape) * weights["state_norm"].astype(x.dtype)
        return self.projected_out(mixed, weights)

    def convolved(self, x, weights, name, segments, before=None):
        """Queries, keys or values after their convolution."""
        del segments
        return convolved(x, weights[f"{name}_conv"], weights.get(f"{name}_conv_bias"), before)

    def through_state(self, query, key, value, width, rate, weights, segments):
        """Values that queries read from the states of full sequences."""
        del segments
        return self.states(query, key, value, width, rate, weights)[0]

    def states(self, query, key, value, width, rate, weights, state=None):
        """(values, the state after them) by steps of a width, which correct it by a rate."""
        c, decay = self.config, -jnp.exp(weights["decay"].astype(jnp.float32)) * width
        chunk = math.gcd(c.chunk, value.shape[1])
        if c.mixer == "delta":
            return delta_rule(query, key, value, decay, rate, chunk, state)
        scaled = value * width[..., None].astype(value.dtype)
        mixed, state = state_space(query, key, scaled, decay, chunk, state)
        return mixed + value * weights["skip"][:, None].astype(value.dtype), state

    def narrow(self, x, weights, positions):
        """Heads of queries, the latent of keys and values, and the part of a key with positions, which is one for all heads."""
        c, nope = self.config, self.config.head_dim - self.config.rope_dim
        narrow = x
        with jax.named_scope("query"):
            if c.q_rank:
                narrow = rms_norm(
                    self.times("bse,er->bsr", x, weights, "query_down"), weights["query_rank_norm"]
                )
            query = self.times("bse,ehd->bshd", narrow, weights, "query")
        with jax.named_scope("key"):
            latent, shared = jnp.split(
                self.times("bse,er->bsr", x, weights, "kv_down"), [c.kv_rank], axis=-1
            )
            latent = rms_norm(latent, weights["kv_rank_norm"])
        turned = rotate(query[..., nope:], positions)
        query = jnp.concatenate([query[..., :nope], turned], axis=-1)
        return query, latent, rotate(shared[:, :, None], positions)

    def latent(self, x, weights, positions):
        """Heads of queries, keys and values by narrow projections."""
        c = self.config
        query, latent, shared = self.narrow(x, weights, positions)
        with jax.named_scope("key"):
            both = self.times("bse,ehd->bshd", latent, weights, "kv_up")
        key, value = jnp.split(both, [c.head_dim - c.rope_dim], axis=-1)
        shared = jnp.broadcast_to(shared, (*key.shape[:3], c.rope_dim))
        return query, jnp.concatenate([key, shared], axis=-1), value

    def query_key_value(self, x, weights):
        """Heads of queries, keys and values, by one matmul or by three; or values are keys."""
        if self.config.fused_qkv:
            with jax.named_scope("qkv"):
                both = self.times("bse,eqhd->bsqhd", x, weights, "qkv")
                return jnp.moveaxis(self.biased(both, weights, "qkv"), 2, 0)
        with jax.named_scope("query"):
            query = self.projected(x, weights, "query")
        with jax.named_scope("key"):
            key = self.projected(x, weights, "key")
        if self.config.shared_kv:
            return query, key, key
        with jax.named_scope("value"):
            return query, key, self.projected(x, weights, "value")

    def projected(self, x, weights, name):
        """Heads of queries, keys or values."""
        return self.biased(self.times("bse,ehd->bshd", x, weights, name), weights, name)

    def biased(self, x, weights, name):
        """With the bias of that name, where the model has one; of experts, one for each of them."""
        bias = weights.get(f"{name}_bias")
        if bias is None:
            return x
        if "router" in weights and name in ("gate", "up", "down"):
            bias = bias[:, None, None]
        return x + bias.astype(x.dtype)

    def dense_mlp(self, x, weights):
        c = self.config
        if c.fused_mlp:
            with jax.named_scope("gate and up"):
                both = self.times("bse,egm->bsgm", x, weights, "up")
                both = self.biased(both, weights, "up")
            gate, up = (
                checkpoint_name(both[:, :, 0], "mlp_gate"),
                checkpoint_name(both[:, :, 1], "mlp_up"),
            )
        else:
            with jax.named_scope("up"):
                up = self.biased(self.times("bse,em->bsm", x, weights, "up"), weights, "up")
                up = checkpoint_name(up, "mlp_up")
            with jax.named_scope("gate"):
                gate = None
                if c.gated:
                    gate = self.times("bse,em->bsm", x, weights, "gate")
                    gate = self.biased(gate, weights, "gate")
                    gate = checkpoint_name(gate, "mlp_gate")
        hidden = self.cut(mlp_hidden(gate, up, c.activation), "batch", "length", "act_mlp")
        with jax.named_scope("down"):
            down = self.times("bsm,me->bse", hidden, weights, "down")
            down = self.biased(down, weights, "down")
            return checkpoint_name(down, "mlp_down")

    @jax.named_scope("experts")
    def expert_mlp(self, x, weights, scored):
        """Each token to its best experts, each expert up to its capacity per sequence; the rest is dropped."""
        c = self.config
        capacity = math.ceil(x.shape[1] * c.experts_per_token / c.experts * c.capacity_factor)
        chosen, shares = self.router(scored, weights)
        picked = jax.nn.one_hot(
            chosen, c.experts, dtype=jnp.int32
        )  # [batch, length, choice, expert]
        flat = picked.reshape(picked.shape[0], -1, c.experts)
        place = (jnp.cumsum(flat, axis=1) * flat).reshape(picked.shape).sum(2) - 1
        # -1 and past the capacity: no slot
        dispatch = jax.nn.one_hot(place, capacity, dtype=x.dtype)
        weighted = jnp.einsum("bske,bsk->bse", picked.astype(x.dtype), shares)
        combine = dispatch * weighted[..., None]
        rows = self.exchanged(jnp.einsum("bse,bsxc->xbce", x, dispatch), "batch", "experts")
        gate = None
        with jax.named_scope("gate"):
            if c.gated:
                gate = self.times("xbce,xem->xbcm", rows, weights, "gate")
                gate = checkpoint_name(self.biased(gate, weights, "gate"), "mlp_gate")
        with jax.named_scope("up"):
            up = self.times("xbce,xem->xbcm", rows, weights, "up")
            up = checkpoint_name(self.biased(up, weights, "up"), "mlp_up")
        with jax.named_scope("down"):
            hidden = mlp_hidden(gate, up, c.activation)
            down = self.times("xbcm,xme->xbce", hidden, weights, "down")
            down = self.exchanged(self.biased(down, weights, "down"), "experts", "batch")
            down = checkpoint_name(down, "mlp_down")  # as it is read: see `attention`
        return jnp.einsum("xbce,bsxc->bse", down, combine)

    def router(self, x, weights):
        """(chosen experts, their shares) of each token: [batch, length, choice]."""
        c = self.config
        if c.split_norms:
            x = rms_norm(x, weights["router_scale"]) * c.embed**-0.5
        routes = self.biased(x @ weights["router"].astype(x.dtype), weights, "router")
        wide = routes.astype(jnp.float32)
        scores = jax.nn.sigmoid(wide) if c.routing == "sigmoid" else jax.nn.softmax(wide, axis=-1)
        ranked = self.ranked(scores, weights)
        best, chosen = jax.lax.top_k(ranked, c.experts_per_token)
        if ranked is not scores:
            best = jnp.take_along_axis(scores, chosen, axis=-1)
        shares = best / best.sum(-1, keepdims=True)
        if c.split_norms:
            shares = shares * weights["expert_scale"].astype(shares.dtype)[chosen]
        return chosen, (shares if c.routed_scale == 1 else shares * c.routed_scale).astype(x.dtype)

    def ranked(self, scores, weights):
        """Returns the scores to choose experts by: with a bias, within the best groups."""
        c = self.config
        if c.score_bias:
            scores = scores + jax.lax.stop_gradient(weights["score_bias"].astype(scores.dtype))
        if c.expert_groups == 1:
            return scores
        groups = scores.reshape(*scores.shape[:-1], c.expert_groups, -1)
        best = jax.lax.top_k(groups, min(2, groups.shape[-1]))[0].sum(-1)
        _, kept = jax.lax.top_k(best, c.groups_per_token)
        is_kept = jax.nn.one_hot(kept, c.expert_groups, dtype=bool).any(-2)
        return jnp.where(is_kept[..., None], groups, -1e30).reshape(scores.shape)

    def exchanged(self, rows, *sharded):
        """Slots [experts, batch, slot, embed] between devices of the axis `expert`: each has all slots of its own sequences, then those of all sequences for its own experts; or back."""
        if self.mesh.shape.get("expert", 1) > 1:
            dims = {"batch": ("all", "batch"), "experts": ("experts", "expert_batch")}
            for each in sharded:
                rows = self.cut(rows, *dims[each], "slot", "whole")
        return rows

    @jax.named_scope("experts")
    def dropless_mlp(self, x, weights, scored):
        """Each token to its best experts, and none dropped while no device gets more rows of another than `imbalance` allows."""
        c, mesh = self.config, self.mesh
        tensor, peers = (mesh.shape.get(axis, 1) for axis in ("tensor", "expert"))
        peers = peers if c.experts % peers == 0 else 1
        names = ("batch", "length", "whole")
        tokens = spec(tuple(zip(names, x.shape, strict=True)), self.rules, mesh)
        expert, wide = "expert" if peers > 1 else None, "tensor" if tensor > 1 else None
        up, down = P(expert, None, wide), P(expert, wide, None)
        specs = {"gate": up, "up": up, "down": down, "down_bias": P(expert, None)}
        specs |= dict.fromkeys(("gate_bias", "up_bias"), P(expert, wide))
        stored = self.stored_experts()
        specs |= stored
        parts = {name: weights[name] for name in specs if name in weights}
        parts = {
            name: part if name in stored else part.astype(x.dtype) for name, part in parts.items()
        }
        if "down_bias" in parts:  # added by each device of `tensor`
            parts["down_bias"] = parts["down_bias"] / tensor
        shard = functools.partial(
            dropless,
            experts=c.experts,
            peers=peers,
            imbalance=c.imbalance,
            activation=c.activation,
            block=c.group_rows if self.kernel else 0,
            sums="tensor" if tensor > 1 else None,
            how=None if c.matmul_dtype == "bfloat16" else self.how,
            gather={name: gathered_axes(each, expert) for name, each in stored.items()},
        )
        chosen, shares = self.router(scored, weights)
        return jax.shard_map(
            shard,
            mesh=mesh,
            in_specs=(tokens, tokens, tokens, {name: specs[name] for name in parts}),
            out_specs=tokens,
            check_vma=False,
        )(x, chosen, shares, parts)

    def stored_experts(self):
        """Specs of the experts' weights that are gathered in 8 bits, as they are stored: by name."""
        c = self.config
        names = ("gate", "up", "down") if c.gathered_dtype != "bfloat16" else ()
        dims = {name: each for name, each in layer_dims(c).items() if name in names}
        return {name: spec(each, self.rules, self.mesh) for name, each in dims.items()}

    @jax.named_scope("shared experts")
    def shared_mlp(self, x, weights):
        """The experts that every token visits, as one mlp."""
        c, gate = self.config, None
        if c.gated:
            gate = self.times("bse,em->bsm", x, weights, "shared_gate")
        up = self.times("bse,em->bsm", x, weights, "shared_up")
        hidden = self.cut(mlp_hidden(gate, up, c.activation), "batch", "length", "act_mlp")
        added = self.times("bsm,me->bse", hidden, weights, "shared_down")
        if "shared_share" in weights:
            added = added * jax.nn.sigmoid(x @ weights["shared_share"].astype(x.dtype))
        return added

    def normalize(self, x, weights, name):
        c = self.config
        if not c.pre_norms:
            return x
        if c.norm == "layer":
            return layer_norm(x, weights[name], weights[f"{name}_bias"])
        return rms_norm(x, weights[name])

    def stream(self, y):
        """The stream, or what is added to it, as it passes between the parts of a layer."""
        return self.cut(y, "batch", "length", "act_embed")

    def layer(self, x, weights, positions, segments):
        """A layer of this model's configuration: what mixes tokens, then what each passes alone."""
        c, mixers = self.config, {"attention": self.attention}
        if c.mixer != "none":
            mix = mixers.get(c.mixer, self.state_mixer)
            normal = self.stream(self.normalize(x, weights, "attention_norm"))
            mixed = mix(normal, weights, positions, segments)
            if c.post_norms:
                mixed = rms_norm(mixed, weights["attention_post_norm"])
            x = x + self.stream(mixed)
        if not c.has_mlp:
            return x
        added = self.feed_forward(x, weights)
        if c.post_norms:
            added = rms_norm(added, weights["mlp_post_norm"])
        return self.stream(x + self.stream(added))

    def feed_forward(self, x, weights):
        """The mlp of a stream, or its experts and those that every token visits."""
        c, normal = self.config, self.stream(self.normalize(x, weights, "mlp_norm"))
        if "router" not in weights:
            return self.dense_mlp(normal, weights)
        experts = self.dropless_mlp if c.dropless else self.expert_mlp
        if c.split_norms:
            own = self.stream(rms_norm(x, weights["experts_norm"]))
            added = rms_norm(experts(own, weights, x), weights["experts_post_norm"])
            return added + rms_norm(self.shared_mlp(normal, weights), weights["shared_post_norm"])
        added = experts(normal, weights, normal)
        return added + self.shared_mlp(normal, weights) if "shared_up" in weights else added

    def policy(self):
        """The arrays saved for the backward pass: by name, and with `minimal` every projection that is not offloaded by name."""
        c = self.config
        by_name = c.dropless and c.remat == "minimal"  # a kernel is no dot of the policy's
        if not (c.save or c.offload or by_name):
            return (
                jax.checkpoint_policies.dots_with_no_batch_dims_saveable
                if c.remat == "minimal"
                else None
            )
        projections = PROJECTIONS if c.remat == "minimal" else ()
        saved = tuple(
            name for name in dict.fromkeys((*c.save, *projections)) if name not in c.offload
        )
        return jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=saved,
            names_which_can_be_offloaded=c.offload,
            offload_src="device",
            offload_dst="pinned_host",
        )

    @jax.named_scope("embedding")
    def embedded(self, parameters, tokens):
        """Rows of the embedding: a matmul with the one-hot tokens, or a gather on GPUs."""
        c, table = self.config, parameters["embedding"].astype(jnp.bfloat16)
        one_hot = None if c.gpu else tokens[..., None] == jnp.arange(c.vocab)
        rows = table[tokens] if one_hot is None else one_hot.astype(jnp.bfloat16) @ table
        return self.cut(rows, "batch", "length", "act_embed")

    def hidden(self, parameters, tokens, positions, segments):
        """Hidden states [batch, length, embed] in bfloat16."""
        c = self.config
        x = self.embedded(parameters, tokens)
        if c.positions:
            rows = (positions[..., None] == jnp.arange(c.positions)).astype(jnp.bfloat16)
            x = x + rows @ parameters["position_embedding"].astype(jnp.bfloat16)

        for (layers, times), weights in zip(c.blocks, parameters["stages"], strict=True):
            block = self.block(layers, positions, segments)
            if c.remat != "none":  # one that is not repeated could be merged with its own copy
                block = jax.checkpoint(block, prevent_cse=times == 1, policy=self.policy())
            with jax.named_scope("layers"):
                x = jax.lax.scan(block, x, weights)[0]
        return x

    def block(self, layers, positions, segments):
        """The layers of one step of a scan."""

        @jax.named_scope("layer")
        def block(x, weights):
            x = checkpoint_name(self.stream(x), "input")
            for layer, part in zip(layers, weights, strict=True):
                x = self.of(layer).layer(x, part, positions, segments)
            return x, None

        return block

    def logits(self, parameters, tokens, positions, segments):
        """Logits [batch, length, vocab] in float32."""
        x = self.hidden(parameters, tokens, positions, segments)
        return self.table(parameters, rms_norm(x, parameters["final_norm"]))

    def table(self, parameters, x):
        """Logits of a normalized stream."""
        c = self.config
        dtype = jnp.float32 if c.logits_float32 else x.dtype
        table = parameters["embedding"].T if c.tied else parameters["logits"]
        with jax.named_scope("logits"):
            logits = self.cut(
                x.astype(dtype) @ table.astype(dtype), "batch", "length", "act_vocab"
            ).astype(jnp.float32)
        return capped(logits, c.logits_cap)

    def loss(self, parameters, batch):
        """Mean cross entropy over the tokens of a batch of tokens, targets, positions and segments, each [batch, length]; with heads of later tokens a share of theirs."""
        x = self.hidden(parameters, batch["tokens"], batch["positions"], batch["segments"])
        last = rms_norm(x, parameters["final_norm"])
        loss = self.entropy(parameters, last, batch["targets"], batch["segments"])
        for head in parameters.get("mtp", ()):
            x, later = self.later(parameters, head, x, batch)
            loss = loss + later * LATER_SHARE / self.config.mtp_layers
            batch = batch | {"targets": jnp.roll(batch["targets"], -1, axis=1)}
        return loss

    @jax.named_scope("later token")
    def later(self, parameters, head, x, batch):
        """(stream, loss) of a head that predicts the token after the targets: one more layer on the stream beside the embedding of the targets."""
        c, targets = self.config, batch["targets"]

        def block(x, head):
            token = rms_norm(self.embedded(parameters, targets), head["token_norm"])
            both = jnp.stack([rms_norm(x, head["stream_norm"]), token], axis=2)
            x = jnp.einsum("bsje,jef->bsf", both, head["joined"].astype(x.dtype))
            x = checkpoint_name(self.cut(x, "batch", "length", "act_embed"), "input")
            last = self.of(c.blocks[-1][0][-1])
            return last.layer(x, head, batch["positions"], batch["segments"])

        if c.remat != "none":
            block = jax.checkpoint(block, policy=self.policy())
        x = block(x, head)
        last, wanted = rms_norm(x, head["final_norm"]), jnp.roll(targets, -1, axis=1)
        return x, self.entropy(parameters, last, wanted, batch["segments"])

    def entropy(self, parameters, x, targets, segments):
        """Mean cross entropy of a normalized stream over the tokens of a segment: of its parts one after the other, whose logits are computed again for their gradients."""
        count = self.config.logit_parts
        axes = axes_of(spec((("length", x.shape[1]),), self.rules, self.mesh)[0])
        shards = math.prod(self.mesh.shape[axis] for axis in axes)

        def split(rows, *names):
            apart = rows.reshape(rows.shape[0], shards, count, -1, *rows.shape[2:])
            apart = jnp.moveaxis(apart, 2, 0).reshape(count, rows.shape[0], -1, *rows.shape[2:])
            return self.cut(apart, "parts", "batch", "length", *names)

        def add(total, part):
            return total + self.part_entropy(parameters, *part), None

        if count == 1:
            total = self.part_entropy(parameters, x, targets, segments)
        else:  # one gather of the table for all parts, as MaxText's vocabulary tiling
            c = self.config
            name, dims = ("embedding", -1) if c.tied else ("logits", 1)
            table = parameters[name] if c.logits_float32 else parameters[name].astype(x.dtype)
            whole = self.cut(table, *("whole", "act_vocab")[::dims])
            parameters = parameters | {name: whole}
            parts = split(x, "act_embed"), split(targets), split(segments)
            total, _ = jax.lax.scan(jax.checkpoint(add), jnp.zeros(()), parts)
        return total / (jnp.sum(segments != 0) + 1e-8)

    def part_entropy(self, parameters, x, targets, segments):
        """Cross entropy over the tokens of a segment, added up."""
        logits = self.table(parameters, x)
        one_hot = jax.nn.one_hot(targets, self.config.vocab, dtype=jnp.float32)
        with jax.named_scope("loss"):
            entropy = self.cut(cross_entropy(logits, one_hot), "batch", "length")
        return jnp.sum(entropy * (segments != 0))
