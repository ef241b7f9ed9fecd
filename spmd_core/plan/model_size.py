"""Sizes and choices of a decoder, its parameters, and its FLOPs as MaxText counts them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from spmd_core.base import refuse, shorten
from spmd_core.plan.model_rules import VARIABLE, check


class Kind(NamedTuple):
    """A layer's parts: what mixes its tokens, the window of its attention, and what follows:
    "mlp" (experts, where the model has them), "dense" (an mlp beside layers with experts) or "none".
    """

    mixer: str
    window: int | None
    mlp: str


@dataclass(frozen=True)
class ModelSize:
    """Sizes of a decoder. `windows`, `mixers` and `mlps` name each layer's kind, and repeat: a sliding
    window or None for all of the past; "attention", "delta" (a gated delta rule), "mamba" or "none";
    "mlp", "dense" or "none".
    """

    name: str
    layers: int
    embed: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    source: str = field(compare=False)
    gated: bool = True
    activation: str = "silu"
    norm: str = "rms"
    pre_norms: bool = True
    post_norms: bool = False
    positions: int = 0
    tied: bool = False
    windows: tuple[int | None, ...] = (None,)
    mixers: tuple[str, ...] = ("attention",)
    mlps: tuple[str, ...] = ("mlp",)
    chunked: bool = False  # a window is a chunk, within which its queries attend
    attention_cap: float | None = None
    logits_cap: float | None = None
    logits_float32: bool = True
    experts: int = 1
    experts_per_token: int = 1
    shared_mlp: int = 0  # width of the experts that every token visits
    shared_gate: bool = False  # a share of them for each token
    split_norms: bool = False  # experts, and the mlp beside them, with norms of their own
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    router_bias: bool = False
    qk_norm: bool = False  # of queries and keys
    qk_norms: str = "head"  # of each head; "all" heads as one; "plain": without a scale
    value_norm: bool = False  # of each head's values, without a scale
    out_gate: bool = False  # of what attention makes, by a projection as wide as the query's
    sinks: bool = False  # one learned score for each head, which attends to nothing
    # of layers without a window, beside others with one; 0: as those
    full_head_dim: int = 0
    full_kv_heads: int = 0
    full_shared_kv: bool = False  # their values are their keys
    full_sinks: bool = True
    # latent attention: widths that queries, and keys with values, are projected from; 0: neither
    q_rank: int = 0
    kv_rank: int = 0
    rope_dim: int = 0  # of head_dim: has positions, and one key for all heads
    value_dim: int = 0  # of a head's values; 0: head_dim
    dense_layers: int = 0  # the first, which have an mlp of `dense_mlp` and no experts
    dense_mlp: int = 0
    # of mixers with a state for each head, [state_dim, state_value]: groups have keys in common
    state_heads: int = 0
    state_groups: int = 0
    state_dim: int = 0
    state_value: int = 0
    conv: int = 4  # places of the convolution before
    chunk: int = 64  # places that one step of the scan takes
    routing: str = "softmax"
    expert_groups: int = 1
    groups_per_token: int = 1  # groups of which a token may visit experts
    score_bias: bool = False  # of the experts' scores, which only chooses among them
    routed_scale: float = 1.0  # of what the chosen experts add
    mtp_layers: int = 0  # heads that predict later tokens, each with one layer
    context: int = field(default=0, compare=False)  # tokens that it sees at most; 0: not known

    def __hash__(self) -> int:  # of few fields: requested many times for each estimate
        kinds = (self.windows, self.mixers, self.mlps)
        return hash((self.name, self.layers, self.heads, self.mlp, self.vocab, *kinds))

    def varied(self, **changes: Any) -> "ModelSize":
        """A copy with other sizes or choices; RequestError if they make no valid decoder."""
        for name in changes:
            if name not in _VARIED:
                rule = "is not one of a decoder's"
                raise refuse(f"size {shorten(name)}", rule, f"use {', '.join(VARIABLE)}")
        if "heads" in changes:
            changes = {"kv_heads": self.keys_of(changes["heads"])} | changes
        model = replace(self, **changes)
        check(model, set(changes))
        return model

    def keys_of(self, heads: int) -> int:
        """Key heads for another number of query heads: the same number if each head has its own
        keys, else the model's.
        """
        return heads if self.kv_heads == self.heads else self.kv_heads

    @property
    def title(self) -> str:
        """The name in short: of a config its architecture, without its sizes."""
        return self.name.partition("(")[0]

    @property
    def largest_weight(self) -> tuple[str, int]:
        """The largest weight of one matmul: its dim besides `embed`, and its elements."""
        sizes = {
            "mlp": max(self.mlp, self.dense_mlp),
            "heads": self.heads * self.head_dim,
            "vocab": self.vocab,
        }
        name = max(sizes, key=lambda each: sizes[each])
        return name, self.embed * sizes[name]

    @property
    def value_size(self) -> int:
        """Elements of a head's values."""
        return self.value_dim or self.head_dim

    @property
    def nope_dim(self) -> int:
        """Elements of a key that each head has of its own, without positions."""
        return self.head_dim - self.rope_dim

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of every layer, without those of later tokens."""
        return _kinds(self)

    @cached_property
    def stages(self) -> tuple[tuple[tuple[Kind, ...], int], ...]:
        """(kinds of a block's layers, how often it is scanned) in turn."""
        return _stages(self.kinds)

    def divides(self, stages: int) -> bool:
        """Returns True if the layers of each stage of a pipeline are of all kinds, as often as of the
        others: patterns of mixers and of what follows end with it, and it has each kind of window.
        """
        each = self.layers // stages
        patterns = self.mixers, self.mlps
        return each >= len(self.windows) and not any(each % len(kinds) for kinds in patterns)

    def fitting_stages(self, most: int, devices: int, repeats: int = 1) -> int:
        """Returns the largest number of stages up to `most` that has alike runs of layers, so many in
        each stage, and divides the devices.
        """
        runs = self.most_runs(repeats) // repeats
        most = 1 if self.dense_layers or self.mtp_layers else min(most, self.layers, runs)
        counts = (count for count in range(2, most + 1) if self.divides(count))
        return max((count for count in counts if devices % count == 0), default=1)

    def most_runs(self, repeats: int) -> int:
        """Returns the most runs of layers in a pipeline. With several in each stage the embedding and
        the logits may be a run, as with Megatron-LM's `account_for_embedding_in_pipeline_split`.
        """
        return self.layers + 2 * (repeats > 1)

    def layer(self, kind: Kind) -> "ModelSize":
        """A model of one layer of that kind alone."""
        return _layer(self, kind)

    @cached_property
    def layer_counts(self) -> tuple[tuple["ModelSize", int], ...]:
        """Each kind's layer with how many the model has, those of later tokens among them."""
        kinds = self.kinds + self.kinds[-1:] * self.mtp_layers
        return tuple((self.layer(kind), count) for kind, count in Counter(kinds).items())

    @property
    def all_layers(self) -> int:
        """Layers of the stack and of the heads that predict later tokens."""
        return self.layers + self.mtp_layers

    @property
    def beyond_windows(self) -> str:
        """In which part layers differ by more than windows and dense first layers, or attention is of
        another kind; "" where neither is so.
        """
        differs = {
            "mixers with a state": self.mixers != ("attention",),
            "layers without experts": self.mlps != ("mlp",),
            "heads of other sizes": bool(self.full_head_dim or self.full_kv_heads),
            "attention in chunks": self.chunked,
            "a gate of attention": self.out_gate,
        }
        return next((name for name, has in differs.items() if has), "")

    @property
    def state_keys(self) -> int:
        """Elements of a mixer's keys, or of its queries."""
        return self.state_groups * self.state_dim

    @property
    def state_values(self) -> int:
        """Elements of a mixer's values."""
        return self.state_heads * self.state_value

    @cached_property
    def matmul_parameters(self) -> int:
        """Parameters that a token is multiplied by: projections, the experts it visits, and the
        output table, again for each later token; no embedding rows.
        """
        tables = (1 + self.mtp_layers) * self.embed * self.vocab
        layers = sum(layer_matmuls(each) * count for each, count in self.layer_counts)
        return layers + self.mtp_layers * 2 * self.embed**2 + tables

    @cached_property
    def parameters(self) -> int:
        """All parameters, embedding and norms included, without heads of later tokens, as they are
        published.
        """
        return self._counted(active=False)

    @cached_property
    def stored_parameters(self) -> int:
        """All parameters, with the heads that predict later tokens."""
        last = self.layer(self.kinds[-1])
        head = layer_matmuls(last, active=False) + layer_vectors(last, active=False)
        head += 2 * self.embed**2 + 3 * self.embed
        return self.parameters + self.mtp_layers * head

    @cached_property
    def active_parameters(self) -> int:
        """Parameters without the experts that a token does not visit; both tables are counted."""
        return self._counted(active=True)

    def _counted(self, active: bool) -> int:
        each_kind = ((self.layer(kind), count) for kind, count in Counter(self.kinds).items())
        layers = sum(
            count * (layer_matmuls(each, active) + layer_vectors(each, active))
            for each, count in each_kind
        )
        tables = self.embed * self.vocab * (1 if self.tied else 2) + self.positions * self.embed
        return layers + tables + self.embed

    def adapters(self, rank: int) -> int:
        """Parameters of adapters of that rank, beside every matrix of layers with attention (LoRA)."""
        total = 0
        for each, count in self.layer_counts:
            heads, keys = each.heads * each.head_dim, 2 * each.kv_heads * each.head_dim
            wide = heads + keys + each.heads * each.value_size
            mlps = 3 if each.gated else 2
            total += count * rank * ((4 + mlps) * each.embed + wide + mlps * each.mlp)
        return total

    def train_flops(self, tokens: int, sequence: int) -> int:
        """FLOPs of a training step over `tokens`, as MaxText counts them: 6 per matmul parameter
        and token, plus attention
        12 x layers x heads x head_dim x sequence per token (not halved for causality), and nothing
        for rematerialization."""
        mixed = sum(count * _mixing_flops(each, sequence) for each, count in self.layer_counts)
        return tokens * (6 * self.matmul_parameters + mixed)

    def causal_flops(self, tokens: int, sequence: int) -> int:
        """The same with the pairs of a query and a key that the mask keeps, and no others."""
        flops = tokens * 6 * self.matmul_parameters
        for each, count in self.layer_counts:
            if each.mixers[0] == "attention":
                pairs = _kept_pairs(each.windows[0], sequence, self.chunked)
                flops += _mixing_flops(each, 1) * count * pairs * tokens // sequence
            else:
                flops += _mixing_flops(each, sequence) * count * tokens
        return flops


def _kinds(size: ModelSize) -> tuple[Kind, ...]:
    kinds = []
    for place in range(size.layers):
        mixer = size.mixers[place % len(size.mixers)]
        window = size.windows[place % len(size.windows)]
        mlp = size.mlps[place % len(size.mlps)]
        if size.experts > 1 and place < size.dense_layers:
            mlp = "dense"
        kinds.append(Kind(mixer, window if mixer == "attention" else None, mlp))
    return tuple(kinds)


@lru_cache(maxsize=512)
def _stages(kinds: tuple[Kind, ...]) -> tuple[tuple[tuple[Kind, ...], int], ...]:
    """Blocks that repeat: from each layer on the one that covers most layers, of these the shortest;
    a layer that begins none is alone.
    """
    stages, place = [], 0
    while place < len(kinds):
        rest = kinds[place:]
        length, times = max(
            ((period, _repeats(rest, period)) for period in range(1, len(rest) // 2 + 1)),
            key=lambda each: (each[0] * each[1] if each[1] > 1 else 0, -each[0]),
            default=(1, 1),
        )
        length = length if times > 1 else 1
        stages.append((rest[:length], times))
        place += length * times
    return tuple(stages)


def _repeats(kinds: Sequence[Kind], period: int) -> int:
    """How often the first so many kinds follow one another."""
    alike = 0
    while alike + period < len(kinds) and kinds[alike] == kinds[alike + period]:
        alike += 1
    return 1 + alike // period


@lru_cache(maxsize=1024)
def _layer(size: ModelSize, kind: Kind) -> ModelSize:
    one = replace(
        size,
        layers=1,
        mtp_layers=0,
        dense_layers=0,
        mixers=(kind.mixer,),
        windows=(kind.window,),
        mlps=("none" if kind.mlp == "none" else "mlp",),
        full_shared_kv=size.full_shared_kv and kind.window is None,
    )
    if kind.mlp != "mlp":
        one = replace(
            one,
            experts=1,
            experts_per_token=1,
            shared_mlp=0,
            expert_groups=1,
            groups_per_token=1,
            router_bias=False,
            score_bias=False,
            split_norms=False,
            shared_gate=False,
            mlp=size.dense_mlp or size.mlp,
        )
    if kind.window is None and any(size.windows):
        one = replace(
            one,
            head_dim=size.full_head_dim or size.head_dim,
            kv_heads=size.full_kv_heads or size.kv_heads,
            sinks=size.sinks and size.full_sinks,
        )
    return one


@lru_cache(maxsize=1024)
def layer_matmuls(layer: ModelSize, active: bool = True) -> int:
    """Parameters of one layer's matmuls and convolutions, with the experts that a token visits, or
    with all of them.
    """
    experts = layer.experts_per_token if active else layer.experts
    return _mixer_matmuls(layer) + _mlp_matmuls(layer, experts)


def _mixer_matmuls(size: ModelSize) -> int:
    mixer, embed = size.mixers[0], size.embed
    if mixer == "none":
        return 0
    if mixer != "attention":
        keys, values, steps = size.state_keys, size.state_values, 1 + (mixer == "delta")
        wide = 2 * keys + 3 * values + steps * size.state_heads
        return embed * wide + size.conv * (2 * keys + values)
    queries, values = size.heads * size.head_dim, size.heads * size.value_size
    gate = values * size.out_gate
    if not size.kv_rank:
        key_sizes = size.head_dim + (0 if size.full_shared_kv else size.value_size)
        return embed * (queries + gate + size.kv_heads * key_sizes + values)
    down = size.kv_rank + size.rope_dim
    up = size.kv_rank * (size.heads * size.nope_dim + values)
    query = size.q_rank * (embed + queries) if size.q_rank else embed * queries
    return embed * (down + gate + values) + up + query


def _mlp_matmuls(size: ModelSize, experts: int) -> int:
    if size.mlps[0] == "none":
        return 0
    router = size.experts if size.experts > 1 else 0
    matrices = 3 if size.gated else 2
    wide = matrices * (size.mlp * experts + size.shared_mlp)
    return size.embed * (wide + router + size.shared_gate)


@lru_cache(maxsize=1024)
def layer_vectors(size: ModelSize, active: bool = True) -> int:
    """Parameters of one layer's norms, biases and sinks, and of what a mixer has besides matmuls."""
    mixer, has_mlp = size.mixers[0], size.mlps[0] != "none"
    experts = size.experts_per_token if active else size.experts
    parts = (mixer != "none") + has_mlp
    norms = parts * (size.pre_norms * (2 if size.norm == "layer" else 1) + size.post_norms)
    vectors = size.embed * (norms + 4 * size.split_norms) + size.split_norms * size.experts
    if has_mlp:
        matrices = 3 if size.gated else 2
        vectors += size.mlp_bias * ((matrices - 1) * size.mlp + size.embed) * experts
        if size.experts > 1:
            vectors += (size.router_bias + size.score_bias) * size.experts
    if mixer == "delta":
        return vectors + 2 * size.state_heads + size.state_value
    if mixer == "mamba":  # the biases of its convolution, its norm
        return vectors + 3 * size.state_heads + 2 * size.state_keys + 2 * size.state_values
    if mixer == "none":
        return vectors
    of_heads = {"head": 2 * size.head_dim, "plain": 0}
    of_all = size.head_dim * (size.heads + size.kv_heads)
    vectors += size.qk_norm * of_heads.get(size.qk_norms, of_all) + size.q_rank + size.kv_rank
    qkv = size.head_dim * (size.heads + 2 * size.kv_heads)
    return vectors + size.qkv_bias * qkv + size.out_bias * size.embed + size.sinks * size.heads


def _mixing_flops(layer: ModelSize, pairs: int) -> int:
    """FLOPs of a training step for a token, beside matmuls with parameters: of attention with so many
    keys; of a state as MaxText counts a gated delta rule (maxtext_utils.py: 4 products of a head's
    keys and values) and Megatron-LM Mamba-2 (mamba_layer_flops: 7 for each element of the state).
    """
    if layer.mixers[0] == "attention":
        return 6 * layer.heads * (layer.head_dim + layer.value_size) * pairs
    each = {"delta": 24, "mamba": 21, "none": 0}[layer.mixers[0]]
    return each * layer.state_values * layer.state_dim


def _kept_pairs(window: int | None, sequence: int, chunked: bool) -> int:
    """Pairs of a query and a key at most at its position, within a window of keys or its chunk.

    >>> _kept_pairs(None, 4, False), _kept_pairs(2, 4, False), _kept_pairs(2, 5, True)
    (10, 7, 7)
    """
    width = min(window or sequence, sequence)
    of_one = width * (width + 1) // 2
    if chunked:
        rest = sequence % width
        return sequence // width * of_one + rest * (rest + 1) // 2
    return of_one + (sequence - width) * width


_VARIED = {each.name for each in fields(ModelSize)} - {"name", "source"}
