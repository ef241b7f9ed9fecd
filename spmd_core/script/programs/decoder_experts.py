"""Experts without dropped tokens: rows sorted by expert, multiplied in groups by a Pallas kernel."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu.megablox import gmm

from spmd_core.script.programs.decoder_parts import mlp_hidden
from spmd_core.script.programs.decoder_precision import scaled_grouped, stored_grouped

LANES = 128  # of a vector register
GROUP_SIDE = 1024  # of a block of the kernel, columns and what is summed over


@functools.partial(jax.custom_vjp, nondiff_argnums=())
def taken(x, index, inverse):
    """x[index], zero where the index is past the end; `inverse` says where each row of x went, so that the gradient is such a gather too, and no scatter."""
    del inverse
    return x.at[index].get(mode="fill", fill_value=0)


def _taken(x, index, inverse):
    return taken(x, index, inverse), inverse


def _taken_gradient(inverse, gradient):
    return gradient.at[inverse].get(mode="fill", fill_value=0), None, None


taken.defvjp(_taken, _taken_gradient)


def grouped_matmul(rows, weights, sizes, block):
    """Rows [row, in], sorted by expert, by the weights [expert, in, out] of their own; what is past the last expert's is undefined. `block`: rows of the kernel's, 0 for devices without it."""
    if not block:
        return jax.lax.ragged_dot(rows, weights, sizes)
    # in full lanes, as both passes tile either dim by it
    side = min(GROUP_SIDE, -(-min(weights.shape[1:]) // LANES) * LANES)
    return gmm(rows, weights, sizes, rows.dtype, (math.gcd(block, len(rows)), side, side))


def gathered_axes(stored, expert):
    """(mesh axes, dim) over which the shards of a weight are gathered; None where a dim of its spec has no such axes."""
    for dim, axes in enumerate(stored):
        names = (axes,) if isinstance(axes, str) else tuple(axes or ())
        if names := tuple(name for name in names if name not in ("tensor", expert)):
            return names, dim
    return None


def grouped_mlp(rows, owner, weights, activation, block, how=None, gather=None, stack=None):
    """The mlp of each row's expert; `owner` [row] is sorted, and a row whose owner is no expert gives zeros. `stack`: (layer, layers) where the matrices are those of the experts of all layers."""
    layer, layers = stack or (0, 1)
    experts = len(weights["down"]) // layers * _shards(gather)
    sizes = jnp.bincount(owner, length=experts).astype(jnp.int32)
    if stack:  # no rows for the other layers: a slice of the matrices would be a copy of them
        none = jnp.zeros(experts * layers, jnp.int32)
        sizes = jax.lax.dynamic_update_slice(none, sizes, (layer * experts,))

    def by(x, name):
        if f"{name}_scale" in weights:
            y = stored_grouped(x, weights[name], weights[f"{name}_scale"], sizes)
        elif how is None:
            y = grouped_matmul(x, weights[name], sizes, block)
        else:
            multiply = functools.partial(grouped_matmul, block=block)
            y = scaled_grouped(how, (gather or {}).get(name), multiply, x, weights[name], sizes)
        bias = weights.get(f"{name}_bias")
        return y if bias is None else y + bias[jnp.minimum(owner, experts - 1)]

    gate = None
    with jax.named_scope("gate"):
        if "gate" in weights:
            gate = checkpoint_name(by(rows, "gate"), "mlp_gate")
    with jax.named_scope("up"):
        up = checkpoint_name(by(rows, "up"), "mlp_up")
    with jax.named_scope("down"):
        down = checkpoint_name(by(mlp_hidden(gate, up, activation), "down"), "mlp_down")
    return jnp.where((owner < experts)[:, None], down, 0)


def through_peers(rows, owner, mlp, experts, peers, slots):
    """mlp(rows, owner) on the devices that have the experts: each of `peers` devices along the axis `expert` takes `slots` rows of every other one; a row past them gives zeros."""
    local, count = experts // peers, len(rows)
    peer = owner // local
    sizes = jnp.bincount(peer, length=peers)
    starts = jnp.cumsum(sizes) - sizes
    slot = jnp.arange(count) - starts[peer]
    place = jnp.where(slot < slots, peer * slots + slot, peers * slots)
    free = jnp.arange(slots) >= sizes[:, None]
    source = jnp.where(free, count, starts[:, None] + jnp.arange(slots)).reshape(-1)
    swap = functools.partial(
        jax.lax.all_to_all, axis_name="expert", split_axis=0, concat_axis=0, tiled=True
    )
    got = swap(taken(rows, source, place))
    who = swap((owner % local).at[source].get(mode="fill", fill_value=local))
    order = jnp.argsort(who)
    back = jnp.argsort(order)
    done = taken(mlp(taken(got, order, back), who[order]), back, order)
    return taken(swap(done), place, source)


def _shards(gather):
    axes, dim = (gather or {}).get("down") or ((), 1)
    return 1 if dim else math.prod(jax.lax.axis_size(axis) for axis in axes)


def dropless(
    x,
    chosen,
    shares,
    weights,
    experts,
    peers,
    imbalance,
    activation,
    block,
    sums,
    how,
    gather,
    stack=None,
):
    """The experts' part of one device: each token of x [batch, length, embed] by its chosen experts, added up by their shares [batch, length, choice], and over the axis `sums`."""
    own = chosen.reshape(-1)
    order = jnp.argsort(own)
    back = jnp.argsort(order)
    rows = jnp.repeat(x.reshape(-1, x.shape[-1]), chosen.shape[-1], axis=0)
    mlp = functools.partial(
        grouped_mlp,
        weights=weights,
        activation=activation,
        block=block,
        how=how,
        gather=gather,
        stack=stack,
    )
    if peers > 1:
        slots = -(-math.ceil(len(own) * imbalance / peers) // 128) * 128
        mlp = functools.partial(through_peers, mlp=mlp, experts=experts, peers=peers, slots=slots)
    out: Any = taken(mlp(taken(rows, order, back), own[order]), back, order)
    mixed = jnp.einsum("bske,bsk->bse", out.reshape(*chosen.shape, x.shape[-1]), shares)
    return mixed if sums is None else jax.lax.psum(mixed, sums)
