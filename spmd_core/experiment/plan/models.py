"""Decoders by their published sizes, and their FLOPs as MaxText counts them."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from spmd_core.base import refuse, shorten


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Sizes of a decoder. `windows`: the layers of one scanned block, each a sliding window or None
    for all of the past.
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

    def varied(self, **changes: Any) -> "ModelSize":
        """A copy with other sizes or choices; RequestError if they make no valid decoder."""
        for name in changes:
            if name not in (*VARIABLE, *CHOICES):
                raise refuse(
                    f"size {shorten(name)}",
                    "is not one of a decoder's",
                    f"use {', '.join((*VARIABLE, *CHOICES))}",
                )
        if "heads" in changes:
            changes = {"kv_heads": self.keys_of(changes["heads"])} | changes
        model = replace(self, **changes)
        _check(model, set(changes))
        return model

    def keys_of(self, heads: int) -> int:
        """Key heads for another number of query heads: the same number if each head has its own
        keys, else the model's.
        """
        return heads if self.kv_heads == self.heads else self.kv_heads

    @property
    def largest_weight(self) -> tuple[str, int]:
        """The largest weight of one matmul: its dim besides `embed`, and its elements."""
        sizes = {"mlp": self.mlp, "heads": self.heads * self.head_dim, "vocab": self.vocab}
        name = max(sizes, key=lambda each: sizes[each])
        return name, self.embed * sizes[name]

    @property
    def matmul_parameters(self) -> int:
        """Parameters that a token is multiplied by: projections, the experts it visits, and the
        output table; no embedding rows.
        """
        attention = self.embed * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        mlp = self.embed * self.mlp * (3 if self.gated else 2) * self.experts_per_token
        router = self.embed * self.experts if self.experts > 1 else 0
        return self.layers * (attention + mlp + router) + self.embed * self.vocab

    @property
    def parameters(self) -> int:
        """All parameters, embedding and norms included."""
        attention = self.embed * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        mlp = self.embed * self.mlp * (3 if self.gated else 2) * self.experts
        router = self.embed * self.experts if self.experts > 1 else 0
        norms = self.embed * (2 + 2 * self.post_norms) * (2 if self.norm == "layer" else 1)
        tables = self.embed * self.vocab * (1 if self.tied else 2) + self.positions * self.embed
        return self.layers * (attention + mlp + router + norms) + tables + self.embed

    def train_flops(self, tokens: int, sequence: int) -> int:
        """FLOPs of a training step over `tokens`, as MaxText counts them: 6 per matmul parameter
        and token, plus attention
        12 x layers x heads x head_dim x sequence per token (not halved for causality), and nothing
        for rematerialization."""
        attention = 12 * self.layers * self.heads * self.head_dim * sequence
        return tokens * (6 * self.matmul_parameters + attention)


CHOICES = ("activation", "gated", "tied")  # other fields of a decoder that a user may change
ACTIVATIONS = ("relu", "gelu", "silu")


def _check(size: ModelSize, changed: set[str]) -> None:
    """RequestError if changed sizes are inconsistent with the others."""

    for name in VARIABLE:
        if getattr(size, name) < 1:
            raise refuse(f"{name}={getattr(size, name)}", "is not a size", "use at least 1")
    for names, value, rule, fix in _inconsistent(size):
        if names & changed:
            raise refuse(value, rule, fix)


def _inconsistent(size: ModelSize) -> Iterator[tuple[set[str], str, str, str]]:
    """(sizes that do not go together, value, rule, fix)."""
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
    if size.layers % len(size.windows):
        yield (
            {"layers"},
            f"layers={size.layers}",
            f"do not divide into blocks of {len(size.windows)}, as {size.name} has them",
            f"use {len(size.windows) * max(1, size.layers // len(size.windows))}",
        )
    if size.experts_per_token > size.experts:
        yield (
            {"experts", "experts_per_token"},
            f"experts_per_token={size.experts_per_token}",
            f"is more than experts={size.experts}",
            f"use at most {size.experts}",
        )
    if size.experts > 1 and (not size.gated or size.activation != "silu"):
        yield (
            {"experts", *CHOICES},
            f"experts={size.experts}",
            "are gated with silu in this program",
            "leave activation and gated out, or use experts=1",
        )


LANES = 128  # of a vector register: the attention kernel's arrays are tiled by these
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
)

_LLAMA_2 = "arXiv:2307.09288 table 1, and the released configurations"
_LLAMA_3 = "arXiv:2407.21783 table 3"
_GEMMA_2 = "arXiv:2408.00118 table 1"

PRESETS: dict[str, ModelSize] = {
    size.name: size
    for size in (
        ModelSize("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, _LLAMA_2),
        ModelSize("llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000, _LLAMA_2),
        ModelSize("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000, _LLAMA_2),
        ModelSize(
            "llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, _LLAMA_3, logits_float32=False
        ),
        ModelSize(
            "llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256, _LLAMA_3, logits_float32=False
        ),
        ModelSize(
            "llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256, _LLAMA_3, logits_float32=False
        ),
        ModelSize(
            "gemma-2-9b",
            42,
            3584,
            16,
            8,
            256,
            14336,
            256128,
            _GEMMA_2,
            activation="gelu",
            post_norms=True,
            tied=True,
            windows=(4096, None),
            attention_cap=50.0,
            logits_cap=30.0,
            logits_float32=False,
        ),
        ModelSize(
            "gemma-2-27b",
            46,
            4608,
            32,
            16,
            128,
            36864,
            256128,
            _GEMMA_2,
            activation="gelu",
            post_norms=True,
            tied=True,
            windows=(4096, None),
            attention_cap=50.0,
            logits_cap=30.0,
            logits_float32=False,
        ),
        ModelSize(
            "gpt-3-175b",
            96,
            12288,
            96,
            96,
            128,
            49152,
            50304,
            "arXiv:2005.14165 table 2.1; vocabulary padded as MLPerf does",
            gated=False,
            activation="gelu",
            norm="layer",
            positions=2048,
            tied=True,
        ),
        ModelSize(
            "mixtral-8x7b",
            32,
            4096,
            32,
            8,
            128,
            14336,
            32000,
            "arXiv:2401.04088 table 1",
            logits_float32=False,
            experts=8,
            experts_per_token=2,
        ),
    )
}

_SCALED = re.compile(r"scaled(-2023)?:([0-9]{1,5})")
_SCALED_2023_SOURCE = (
    "MaxText base.yml before 2024-02-14, of which its v5e and v5p tables of 2023 are"
)
_SCALED_SOURCE = "MaxText base.yml and get_individual_scales: heads and mlp, then width, then layers doubled in turn"


def scaled(scale: int, of_2023: bool = False) -> ModelSize:
    """The scaled decoder: width 2048, 16 heads of 128, mlp 7168, 16 layers, doubled in turn.
    RequestError unless a power of two.

    `of_2023`: as it was until February 2024: width 2560, 8 heads of 256, an ungated relu mlp of
    8192, one vocabulary table of 32,768.
    """
    name = "scaled-2023" if of_2023 else "scaled"
    if scale < 1 or scale & (scale - 1):
        lower = 1 << max(0, scale.bit_length() - 1)
        raise refuse(
            f"model {name}:{scale}",
            "is not a power of two",
            f"use {name}:{lower} or {name}:{2 * lower}",
        )
    rounds, rest = divmod(scale.bit_length() - 1, 3)
    wide, tall = rounds + (rest > 0), rounds + (rest > 1)
    if of_2023:
        heads = 8 << wide
        sizes = (2560 << tall, heads, heads, 256, 8192 << wide, 32768, _SCALED_2023_SOURCE)
        others = {"gated": False, "activation": "relu", "tied": True}
    else:
        heads = 16 << wide
        sizes = (2048 << tall, heads, heads, 128, 7168 << wide, 32000, _SCALED_SOURCE)
        others = {}
    return ModelSize(f"{name}:{scale}", 16 << rounds, *sizes, **others)


def get_model(name: str) -> ModelSize:
    """The preset or scaled decoder of that name; RequestError where there is none."""
    text = name.strip().lower()
    if match := _SCALED.fullmatch(text):
        return scaled(int(match[2]), of_2023=match[1] is not None)
    if text in PRESETS:
        return PRESETS[text]
    raise refuse(
        f"model {shorten(name)}", "does not exist", f"use scaled:16 or one of {', '.join(PRESETS)}"
    )


def mfu(flops: int, chips: int, seconds: float, peak_flops: float) -> float:
    """Model FLOPs utilization: useful FLOPs over what the chips could do in that time."""
    return flops / (chips * peak_flops * seconds) if seconds > 0 else math.nan
