"""Rules for the sizes and choices of a decoder, and for the mesh that it is sharded over."""

import math
from collections.abc import Iterator
from typing import Any

from spmd_core.base import check_known, refuse, shorten
from spmd_core.machine import Topology

CONTEXT = "context"  # of a sequence, also inside attention
AXES = ("data", "fsdp", "fsdp_transpose", "expert", "sequence", CONTEXT, "tensor")
STAGE = "stage"  # of a pipeline: layers are divided along it
MESH_AXES = (*AXES, STAGE)
DATA_AXES = ("data", "fsdp", "fsdp_transpose")  # those that shard the batch
LONG_SEQUENCE = 32768  # tokens from which on a search tries `context`
AXES_HELP = {  # mesh axis -> what is sharded over it
    "data": "the batch; parameters are replicated",
    "fsdp": "the batch, and parameters, which each layer gathers",
    "fsdp_transpose": "as fsdp, with parameters over mlp where that is their first dim",
    "expert": "experts",
    "sequence": "tokens between the blocks, and heads in attention",
    CONTEXT: "tokens, in attention too",
    "tensor": "heads, mlp and vocabulary",
    STAGE: "layers, as stages of a pipeline",
}
AXES_LINES = tuple(f"{axis}: {words}" for axis, words in AXES_HELP.items())
LENGTH_AXES = ("sequence", CONTEXT)  # a sequence
# of weights that are gathered again
GATHERED_AXES = ("fsdp", "fsdp_transpose", *LENGTH_AXES, "expert")
# fields of a plan that mean nothing on a mesh without an axis
OF_AXES = {
    STAGE: ("schedule", "repeats"),
    CONTEXT: ("context_attention", "context_order"),
    "data": ("shard_optimizer_over_data",),
}


def check_mesh(mesh: tuple[tuple[str, int], ...], topology: Topology) -> None:
    """RequestError if a mesh has other axes, or does not fill the topology."""
    names, devices = [name for name, _ in mesh], math.prod(size for _, size in mesh)
    for name in names:
        check_known("mesh axis", name, MESH_AXES, "is not one that a decoder is sharded over")
        if names.count(name) > 1:
            raise refuse(f"mesh axis {name!r}", "appears twice in the mesh", "give it once")
    if devices != topology.devices:
        raise refuse(
            f"mesh of {devices} devices",
            f"does not fill {topology.name} with its {topology.devices}",
            f"make the axes multiply to {topology.devices}",
        )
    if topology.slices > 1 and devices % topology.slices:
        raise refuse(
            f"{topology.slices} slices",
            "do not divide over the mesh",
            f"put data={topology.slices} first",
        )


ACTIVATIONS = ("relu", "gelu", "silu", "relu2")
MOST = 2**40  # of a size: far above any model, and small enough to count with
MAX_LAYERS = 1024
LANES = 128  # of a vector register: the attention kernel's arrays are tiled by these
_KNOWN = {
    "activation": (*ACTIVATIONS, "clamped_silu"),
    "norm": ("rms", "layer"),
    "routing": ("softmax", "sigmoid"),
    "qk_norms": ("head", "all", "plain"),
}
_SEARCHED = 4096  # sizes are up to MOST
_KINDS = {"mixers": ("attention", "delta", "mamba", "none"), "mlps": ("mlp", "dense", "none")}
VARIABLE = (
    "layers",
    "embed",
    "heads",
    "kv_heads",
    "head_dim",
    "mlp",
    "vocab",
    "experts",
    "experts_per_token",
    "shared_mlp",
)


def nearest_divisor(number: int, near: int) -> int:
    """Returns the divisor of a number that is nearest to another, of two as near the smaller.

    >>> nearest_divisor(128, 3), nearest_divisor(256, 7), nearest_divisor(40, 400)
    (2, 8, 40)
    """
    near = min(near, number)
    steps = range(min(near, _SEARCHED))
    near_ones = (
        each for step in steps for each in (near - step, near + step) if number % each == 0
    )
    return next(near_ones, math.gcd(number, near))


def check(size: Any, changed: set[str]) -> None:
    """RequestError if changed sizes are inconsistent with the others."""
    for name in VARIABLE:
        least = 0 if name == "shared_mlp" else 1
        most = MAX_LAYERS if name == "layers" else MOST
        if not least <= (value := getattr(size, name)) <= most:
            fix = f"at least {least}" if value < least else f"at most {most}"
            raise refuse(f"{name}={shorten(value)}", "is not a size", f"use {fix}")
    for names, value, rule, fix in _inconsistent(size):
        if names & changed:
            raise refuse(value, rule, fix)


def _inconsistent(size: Any) -> Iterator[tuple[set[str], str, str, str]]:
    """(sizes that do not go together, value, rule, fix)."""
    for name, known in _KNOWN.items():
        if (word := getattr(size, name)) not in known:
            yield ({name}, f"{name}={shorten(word)}", "is not one", f"use {', '.join(known)}")
    for name in ("attention_cap", "logits_cap"):
        cap = getattr(size, name)
        if cap is not None and not 0 < cap <= MOST:  # NaN is not above it
            yield ({name}, f"{name}={cap}", "is no cap", "use a number above 0")
    if size.heads % size.kv_heads:
        yield (
            {"heads", "kv_heads"},
            f"kv_heads={size.kv_heads}",
            f"does not divide heads={size.heads}",
            f"use {nearest_divisor(size.heads, size.kv_heads)}",
        )
    if (size.value_size % LANES and size.value_size > LANES) or size.head_dim % 2:
        name = "value_dim" if size.value_dim and not size.head_dim % 2 else "head_dim"
        value = getattr(size, name)
        yield (
            {"head_dim", "value_dim"},
            f"{name}={value}",
            f"does not fit the attention kernel's lanes of {LANES}",
            f"use {max(1, round(value / LANES)) * LANES}",
        )
    yield from _inconsistent_layers(size)
    yield from _inconsistent_latent(size)
    yield from _inconsistent_experts(size)
    yield from _inconsistent_groups(size)


def _inconsistent_layers(size: Any) -> Iterator[tuple[set[str], str, str, str]]:
    for name, known in _KINDS.items():
        for word in (each for each in getattr(size, name) if each not in known):
            yield {name}, f"{name}={shorten(word)}", "is not one", f"use {', '.join(known)}"
    if (full := size.full_kv_heads) and size.heads % full:
        fix = f"use {nearest_divisor(size.heads, full)}"
        rule = f"does not divide heads={size.heads}"
        yield {"full_kv_heads", "heads"}, f"full_kv_heads={full}", rule, fix
    if not {"delta", "mamba"} & {*size.mixers}:
        return
    names = {"mixers", "state_heads", "state_groups", "state_dim", "state_value", "conv", "chunk"}
    for name in sorted(names - {"mixers"}):
        if getattr(size, name) < 1:
            yield names, f"{name}={getattr(size, name)}", "is no size of a state", "use at least 1"
    heads, groups = max(1, size.state_heads), max(1, size.state_groups)
    if heads % groups:
        fix = f"use {nearest_divisor(heads, groups)}"
        yield names, f"state_groups={groups}", f"does not divide state_heads={heads}", fix
    if 128 % max(1, size.chunk):
        rule = "does not divide sequences, which are a multiple of 128"
        yield names, f"chunk={size.chunk}", rule, f"use {nearest_divisor(128, size.chunk)}"


def _inconsistent_experts(size: Any) -> Iterator[tuple[set[str], str, str, str]]:
    if size.experts_per_token > size.experts:
        yield (
            {"experts", "experts_per_token"},
            f"experts_per_token={size.experts_per_token}",
            f"is more than experts={size.experts}",
            f"use at most {size.experts}",
        )
    for name in ("shared_mlp", "dense_layers") if size.experts == 1 else ():
        if value := getattr(size, name):
            rule = "is beside experts, and this model has none"
            yield {"experts", name}, f"{name}={value}", rule, "leave it out, or use more experts"
    dense = f"dense_layers={size.dense_layers}"
    if size.dense_layers >= size.layers:
        rule = f"leaves none of {size.layers} layers with experts"
        yield {"dense_layers"}, dense, rule, f"use at most {size.layers - 1}"
        fewer = f"leaves none with experts after dense_layers={size.dense_layers}"
        yield {"layers"}, f"layers={size.layers}", fewer, f"use at least {size.dense_layers + 1}"
    if size.dense_layers and not size.dense_mlp:
        yield {"dense_layers", "dense_mlp"}, dense, "have no width", "add dense_mlp"


def _inconsistent_groups(size: Any) -> Iterator[tuple[set[str], str, str, str]]:
    names = {"experts", "experts_per_token", "expert_groups", "groups_per_token"}
    groups, value = size.expert_groups, f"expert_groups={size.expert_groups}"
    if groups < 1 or size.experts % groups:
        rule = f"does not divide experts={size.experts}"
        yield names, value, rule, f"use {nearest_divisor(size.experts, max(1, groups))}"
        return
    least = -(-size.experts_per_token * groups // size.experts)
    if not least <= size.groups_per_token <= groups:
        rule = f"and groups_per_token={size.groups_per_token} leave no {size.experts_per_token}"
        near = max(1, least, min(size.groups_per_token, groups))
        yield names, value, f"{rule} experts to choose", f"use groups_per_token={near}"


def _inconsistent_latent(size: Any) -> Iterator[tuple[set[str], str, str, str]]:
    """The same of latent attention: its key without positions, one for all heads."""
    names = {"kv_rank", "q_rank", "rope_dim", "heads", "kv_heads", "head_dim"}
    if not size.kv_rank and (size.q_rank or size.rope_dim):
        yield names, f"kv_rank={size.kv_rank}", "is no rank of keys and values", "use 512"
    if not size.kv_rank:
        return
    half = size.head_dim // 2 // 2 * 2
    if not 0 < size.rope_dim < size.head_dim or size.rope_dim % 2:
        rule = f"is not an even part of head_dim={size.head_dim}"
        yield names, f"rope_dim={size.rope_dim}", rule, f"use {half}"
    if size.kv_heads != size.heads:
        rule = f"of latent attention is not heads={size.heads}"
        yield names, f"kv_heads={size.kv_heads}", rule, f"use {size.heads}"
    if size.qk_norm or size.qkv_bias:
        more = "qk_norm" if size.qk_norm else "qkv_bias"
        yield names, more, "is not of latent attention in this program", "leave it out"
