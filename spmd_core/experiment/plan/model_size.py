"""Sizes and choices of a decoder, its parameters, and its FLOPs as MaxText counts them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from spmd_core.base import refuse, shorten


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
        sizes = {"mlp": self.mlp, "heads": self.heads * self.head_dim, "vocab": self.vocab}
        name = max(sizes, key=lambda each: sizes[each])
        return name, self.embed * sizes[name]

    @property
    def _matrices(self) -> int:
        """Matrices of an mlp: with a gate, or without."""
        return 3 if self.gated else 2

    def _layer_matmuls(self, experts: int) -> int:
        """Parameters of a layer's matmuls, with so many of its experts."""
        attention = self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        mlp = self._matrices * (self.mlp * experts + self.shared_mlp)
        router = self.experts if self.experts > 1 else 0
        return self.embed * (attention + mlp + router)

    def _layer_vectors(self, experts: int) -> int:
        """Parameters of a layer's norms, biases and sinks, with so many of its experts."""
        norms = self.embed * (2 + 2 * self.post_norms) * (2 if self.norm == "layer" else 1)
        qkv = self.head_dim * (self.heads + 2 * self.kv_heads)
        attention = self.qkv_bias * qkv + self.out_bias * self.embed + self.sinks * self.heads
        mlp = self.mlp_bias * ((self._matrices - 1) * self.mlp + self.embed) * experts
        router = self.router_bias * self.experts
        return norms + attention + 2 * self.qk_norm * self.head_dim + mlp + router

    def _counted(self, experts: int) -> int:
        layer = self._layer_matmuls(experts) + self._layer_vectors(experts)
        tables = self.embed * self.vocab * (1 if self.tied else 2) + self.positions * self.embed
        return self.layers * layer + tables + self.embed

    @property
    def matmul_parameters(self) -> int:
        """Parameters that a token is multiplied by: projections, the experts it visits, and the
        output table; no embedding rows.
        """
        return self.layers * self._layer_matmuls(self.experts_per_token) + self.embed * self.vocab

    @property
    def parameters(self) -> int:
        """All parameters, embedding and norms included."""
        return self._counted(self.experts)

    @property
    def active_parameters(self) -> int:
        """Parameters without the experts that a token does not visit; both tables are counted."""
        return self._counted(self.experts_per_token)

    def train_flops(self, tokens: int, sequence: int) -> int:
        """FLOPs of a training step over `tokens`, as MaxText counts them: 6 per matmul parameter
        and token, plus attention
        12 x layers x heads x head_dim x sequence per token (not halved for causality), and nothing
        for rematerialization."""
        attention = 12 * self.layers * self.heads * self.head_dim * sequence
        return tokens * (6 * self.matmul_parameters + attention)

    def causal_flops(self, tokens: int, sequence: int) -> int:
        """The same with the pairs of a query and a key that the mask keeps, and no others."""
        pairs = sum(_kept_pairs(window, sequence) for window in self.layer_windows)
        attention = 12 * self.heads * self.head_dim * pairs * tokens // sequence
        return tokens * 6 * self.matmul_parameters + attention

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


ACTIVATIONS = ("relu", "gelu", "silu")


def check(size: ModelSize, changed: set[str]) -> None:
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


def _inconsistent(size: ModelSize) -> Iterator[tuple[set[str], str, str, str]]:
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
            f"use {math.gcd(size.heads, size.kv_heads)}",
        )
    if (size.head_dim % LANES and size.head_dim > LANES) or size.head_dim % 2:
        yield (
            {"head_dim"},
            f"head_dim={size.head_dim}",
            f"does not fit the attention kernel's lanes of {LANES}",
            f"use {max(1, round(size.head_dim / LANES)) * LANES}",
        )
    yield from _inconsistent_experts(size)


def _inconsistent_experts(size: ModelSize) -> Iterator[tuple[set[str], str, str, str]]:
    if size.experts_per_token > size.experts:
        yield (
            {"experts", "experts_per_token"},
            f"experts_per_token={size.experts_per_token}",
            f"is more than experts={size.experts}",
            f"use at most {size.experts}",
        )
    if size.experts == 1 and size.shared_mlp:
        yield (
            {"experts", "shared_mlp"},
            f"shared_mlp={size.shared_mlp}",
            "is beside experts, and this model has none",
            "leave it out, or use more experts",
        )
    if size.experts > 1 and not size.gated:
        yield (
            {"experts", "gated"},
            f"experts={size.experts}",
            "have a gate in this program",
            "leave gated out, or use experts=1",
        )


MOST = 2**40  # of a size: far above any model, and small enough to count with
MAX_LAYERS = 1024
LANES = 128  # of a vector register: the attention kernel's arrays are tiled by these
_KNOWN = {"activation": (*ACTIVATIONS, "clamped_silu"), "norm": ("rms", "layer")}
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
_VARIED = {each.name for each in fields(ModelSize)} - {"name", "source"}
