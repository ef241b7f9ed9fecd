"""Sizes and choices of a decoder, its parameters, and its FLOPs as MaxText counts them."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from spmd_core.base import refuse, shorten
from spmd_core.experiment.plan.model_rules import VARIABLE, check


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Sizes of a decoder. `windows`: the layers of one scanned block, each a sliding window or None
    for all of the past; layers that are left over repeat the first of them.
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
    post_norms: bool = False
    positions: int = 0
    tied: bool = False
    windows: tuple[int | None, ...] = (None,)
    attention_cap: float | None = None
    logits_cap: float | None = None
    logits_float32: bool = True
    experts: int = 1
    experts_per_token: int = 1
    shared_mlp: int = 0  # width of the experts that every token visits
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    router_bias: bool = False
    qk_norm: bool = False  # of each query and key head
    sinks: bool = False  # one learned score for each head, which attends to nothing
    # latent attention: widths that queries, and keys with values, are projected from; 0: neither
    q_rank: int = 0
    kv_rank: int = 0
    rope_dim: int = 0  # of head_dim: has positions, and one key for all heads
    value_dim: int = 0  # of a head's values; 0: head_dim
    dense_layers: int = 0  # the first, which have an mlp of `dense_mlp` and no experts
    dense_mlp: int = 0
    routing: str = "softmax"
    expert_groups: int = 1
    groups_per_token: int = 1  # groups of which a token may visit experts
    score_bias: bool = False  # of the experts' scores, which only chooses among them
    routed_scale: float = 1.0  # of what the chosen experts add
    mtp_layers: int = 0  # heads that predict later tokens, each with one layer

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
    def _matrices(self) -> int:
        """Matrices of an mlp: with a gate, or without."""
        return 3 if self.gated else 2

    @property
    def value_size(self) -> int:
        """Elements of a head's values."""
        return self.value_dim or self.head_dim

    @property
    def nope_dim(self) -> int:
        """Elements of a key that each head has of its own, without positions."""
        return self.head_dim - self.rope_dim

    @property
    def expert_layers(self) -> int:
        """Layers with experts, or of a model without any, all; those of later tokens too."""
        return self.layers - self.dense_layers + self.mtp_layers

    @property
    def all_layers(self) -> int:
        """Layers of the stack and of the heads that predict later tokens."""
        return self.layers + self.mtp_layers

    @property
    def _attention_matmuls(self) -> int:
        """Parameters of the matmuls of one layer's attention."""
        queries, values = self.heads * self.head_dim, self.heads * self.value_size
        if not self.kv_rank:
            keys = self.kv_heads * (self.head_dim + self.value_size)
            return self.embed * (queries + keys + values)
        down = self.kv_rank + self.rope_dim
        up = self.kv_rank * (self.heads * self.nope_dim + values)
        query = self.q_rank * (self.embed + queries) if self.q_rank else self.embed * queries
        return self.embed * (down + values) + up + query

    def _mlp_matmuls(self, experts: int) -> int:
        """Parameters of the mlp's matmuls of one layer, with so many of its experts."""
        router = self.experts if self.experts > 1 else 0
        wide = self._matrices * (self.mlp * experts + self.shared_mlp)
        return self.embed * (wide + router)

    def _matmuls(self, experts: int, mtp: int) -> int:
        """Parameters of all layers' matmuls, those of `mtp` later tokens among them."""
        dense = self.dense_layers * self._matrices * self.dense_mlp * self.embed
        layers = self.layers - self.dense_layers + mtp
        attention = (self.layers + mtp) * self._attention_matmuls
        return attention + dense + layers * self._mlp_matmuls(experts) + mtp * 2 * self.embed**2

    def _layer_vectors(self, experts: int) -> int:
        """Parameters of a layer's norms, biases and sinks, with so many of its experts."""
        norms = self.embed * (2 + 2 * self.post_norms) * (2 if self.norm == "layer" else 1)
        norms += self.q_rank + self.kv_rank
        qkv = self.head_dim * (self.heads + 2 * self.kv_heads)
        attention = self.qkv_bias * qkv + self.out_bias * self.embed + self.sinks * self.heads
        mlp = self.mlp_bias * ((self._matrices - 1) * self.mlp + self.embed) * experts
        return norms + attention + 2 * self.qk_norm * self.head_dim + mlp

    def _counted(self, experts: int, mtp: int = 0) -> int:
        vectors = (self.layers + mtp) * self._layer_vectors(experts)
        routers = (self.router_bias + self.score_bias) * self.experts
        vectors += routers * (self.layers - self.dense_layers + mtp) + mtp * 3 * self.embed
        tables = self.embed * self.vocab * (1 if self.tied else 2) + self.positions * self.embed
        return self._matmuls(experts, mtp) + vectors + tables + self.embed

    @property
    def matmul_parameters(self) -> int:
        """Parameters that a token is multiplied by: projections, the experts it visits, and the
        output table, again for each later token; no embedding rows.
        """
        tables = (1 + self.mtp_layers) * self.embed * self.vocab
        return self._matmuls(self.experts_per_token, self.mtp_layers) + tables

    @property
    def parameters(self) -> int:
        """All parameters, embedding and norms included, without heads of later tokens, as they are
        published.
        """
        return self._counted(self.experts)

    @property
    def stored_parameters(self) -> int:
        """All parameters, with the heads that predict later tokens."""
        return self._counted(self.experts, self.mtp_layers)

    @property
    def active_parameters(self) -> int:
        """Parameters without the experts that a token does not visit; both tables are counted."""
        return self._counted(self.experts_per_token)

    def train_flops(self, tokens: int, sequence: int) -> int:
        """FLOPs of a training step over `tokens`, as MaxText counts them: 6 per matmul parameter
        and token, plus attention
        12 x layers x heads x head_dim x sequence per token (not halved for causality), and nothing
        for rematerialization."""
        attention = self._pair_flops * self.all_layers * sequence
        return tokens * (6 * self.matmul_parameters + attention)

    def causal_flops(self, tokens: int, sequence: int) -> int:
        """The same with the pairs of a query and a key that the mask keeps, and no others."""
        pairs = sum(_kept_pairs(window, sequence) for window in self.layer_windows)
        pairs += self.mtp_layers * _kept_pairs(self.windows[0], sequence)
        attention = self._pair_flops * pairs * tokens // sequence
        return tokens * 6 * self.matmul_parameters + attention

    @property
    def _pair_flops(self) -> int:
        """FLOPs of a training step for a query and a key, in one layer's attention."""
        return 6 * self.heads * (self.head_dim + self.value_size)

    @property
    def layer_windows(self) -> tuple[int | None, ...]:
        """The window of every layer."""
        times = -(-self.layers // len(self.windows))
        return (self.windows * times)[: self.layers]


def _kept_pairs(window: int | None, sequence: int) -> int:
    """Pairs of a query and a key at most at its position, within a window of keys.

    >>> _kept_pairs(None, 4), _kept_pairs(2, 4)
    (10, 7)
    """
    width = min(window or sequence, sequence)
    return width * (width + 1) // 2 + (sequence - width) * width


_VARIED = {each.name for each in fields(ModelSize)} - {"name", "source"}
