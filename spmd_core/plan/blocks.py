"""Blocks of the attention kernel: queries, keys, and keys per matmul."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spmd_core.base import bytes_text, refuse, shorten
from spmd_core.fields import Field, Integer

# Values of the published runs. Sources: base.yml of MaxText, its v6e configurations, and the recipe
# training/ironwood/llama3.1-70b/8k-bf16-tpu7x-4x4x4 of AI-Hypercomputer/tpu-recipes.
DEFAULT_BLOCKS = {"v6e": (2048, 2048, 2048), "tpu7x": (2048, 1024, 512)}
OTHER_BLOCKS = (512, 512, 512)
# KiB of vector memory that a kernel may take unless a flag is set; from the compiler's error
# messages
VMEM_LIMITS_KIB = {"v4": 16384, "v5e": 16384, "v5p": 16384}
VMEM_FLAG = "xla_tpu_scoped_vmem_limit_kib"
MIN_BLOCK, MAX_BLOCK = 128, 8192  # a block of keys is a multiple of the 128 lanes of a register

Blocks = tuple[int, int, int]


def read_blocks(given: Any) -> int | Blocks | None:
    """Blocks as one number or as three; three equal ones as one. RequestError for anything else."""
    if given is None:
        return None
    numbers = tuple(given) if isinstance(given, list | tuple) else (given,)
    are_integers = all(isinstance(each, int) and not isinstance(each, bool) for each in numbers)
    if len(numbers) not in (1, 3) or not are_integers:
        raise refuse(
            f"attention_blocks={shorten(given)}",
            "is neither one number nor three",
            "write for example 512, or 2048,1024,512",
        )
    for each in numbers:
        if not MIN_BLOCK <= each <= MAX_BLOCK:
            raise refuse(
                f"attention_blocks={shorten(each)}",
                f"is not between {MIN_BLOCK} and {MAX_BLOCK}",
                f"use {min(max(each, MIN_BLOCK), MAX_BLOCK)}",
            )
    queries, keys, part = numbers * 3 if len(numbers) == 1 else numbers
    return queries if queries == keys == part else (queries, keys, part)


def kernel_blocks(
    requested: int | Blocks | None, generation: str, attended: tuple[int, int]
) -> Blocks:
    """The requested blocks, else those of the published runs adjusted to divide what is attended:
    queries and keys.
    """
    if requested is None:
        queries, keys, part = DEFAULT_BLOCKS.get(generation, OTHER_BLOCKS)
        queries, keys = math.gcd(queries, attended[0]), math.gcd(keys, attended[1])
        return queries, keys, math.gcd(keys, part)
    queries, keys, part = (
        (requested, requested, requested) if isinstance(requested, int) else requested
    )
    keys = min(keys, attended[1])
    return min(queries, attended[0]), keys, min(part, keys)


def check_blocks(blocks: Blocks, attended: tuple[int, int], sequence: int) -> None:
    """RequestError if the kernel cannot split queries and keys into these blocks."""
    queries, keys, part = blocks
    for block, length in zip((queries, keys), attended, strict=True):
        if length % block:
            what = f"sequence={sequence}"
            if length != sequence:
                what = f"the {length} tokens that a device attends from or to at once"
            raise refuse(
                f"attention_blocks={block}",
                f"does not divide {what}",
                f"use {math.gcd(block, length)}",
            )
    text = f"attention_blocks={queries},{keys},{part}"
    if keys % part:
        raise refuse(
            text,
            f"computes with {part} keys of blocks of {keys}, which does not divide",
            f"use {queries},{keys},{math.gcd(keys, part)}",
        )
    if part % MIN_BLOCK:
        raise refuse(
            text,
            f"computes with a number of keys that is no multiple of {MIN_BLOCK}",
            f"use {queries},{keys},{max(MIN_BLOCK, part // MIN_BLOCK * MIN_BLOCK)}",
        )


def kernel_bytes(blocks: Blocks, head_dim: int) -> int:
    """Bytes of vector memory that the attention kernel takes at least: the scores of a block in
    float32, two sets of what comes and goes in bfloat16, and its sums in float32.
    """
    queries, keys, part = blocks
    scores, moved = 4 * queries * part, 2 * 2 * 2 * (queries + keys) * head_dim
    return scores + moved + 4 * queries * (head_dim + 2 * MIN_BLOCK)


def smaller_blocks(blocks: Blocks, head_dim: int, limit: int) -> Blocks:
    """The largest blocks, halved in turn, whose lower bound is at most half of `limit` bytes:
    compiled kernels need up to twice the bound.
    """
    queries, keys, part = blocks
    while kernel_bytes((queries, keys, part), head_dim) > limit / 2 and queries > MIN_BLOCK:
        if part > 4 * MIN_BLOCK:
            part //= 2
        elif queries >= keys:
            queries //= 2
        else:
            keys, part = keys // 2, min(part, keys // 2)
    return queries, keys, part


def too_large(blocks: Blocks, head_dim: int, limit_kib: int | None) -> str | None:
    """Why a kernel of these blocks cannot be compiled, in a sentence; None if the sizes do not rule
    it out. `limit_kib` is what it may take of vector memory, None if unknown.
    """
    if limit_kib is None or (needed := kernel_bytes(blocks, head_dim)) <= limit_kib * 1024:
        return None
    limit = limit_kib * 1024
    use = ",".join(map(str, smaller_blocks(blocks, head_dim, limit)))
    return (
        f"attention blocks {','.join(map(str, blocks))} need at least {bytes_text(needed)} of "
        f"vector memory, {bytes_text(needed - limit)} more than the {bytes_text(limit)} that a "
        f"kernel may take: use {use}"
    )


@dataclass(frozen=True, slots=True)
class BlocksField(Field):
    """Blocks of the attention kernel: one number, or three; an option for each, 0 where it follows
    from the one before.
    """

    @property
    def options(self) -> dict[str, Field]:
        """Of queries, keys, and keys per matmul."""
        return _OPTIONS

    def take(self, name: str, value: Any) -> int | Blocks | None:
        """Blocks as one number or as three."""
        return read_blocks(value)

    def decode(self, name: str, option: Any) -> int | Blocks | None:
        """The blocks of a flag's text: `512`, or `2048,1024,512`."""
        parts = [part for each in str(option).split(",") if (part := each.strip())]
        are_numbers = all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts)
        return read_blocks([int(part) for part in parts] if parts and are_numbers else option)

    def read(self, options: Mapping[str, Any]) -> int | Blocks | None:
        """The blocks of the three options."""
        given = (options.get(name, 0) for name in _OPTIONS)
        queries, keys, part = map(Field.decode, _OPTIONS.values(), _OPTIONS, given)
        if not queries and (keys or part):
            named = f"keys_block={keys}" if keys else f"compute_block={part}"
            raise refuse(named, "has no block of queries beside it", "give attention_blocks too")
        return read_blocks((queries, keys or queries, part or keys or queries) if queries else None)

    def encode(self, value: Any) -> Mapping[str, object]:
        """The three options."""
        queries, keys, part = value if isinstance(value, tuple) else (value or 0,) * 3
        parts = queries, keys if keys != queries else 0, part if part != keys else 0
        return dict(zip(_OPTIONS, parts, strict=True))

    def text(self, value: Any) -> str:
        """`512`, or `2048,1024,512`."""
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


_OPTIONS: dict[str, Field] = {
    "attention_blocks": Integer(0, 0, MAX_BLOCK, "published", label="Block of queries"),
    "keys_block": Integer(0, 0, MAX_BLOCK, "as queries", label="Block of keys"),
    "compute_block": Integer(0, 0, MAX_BLOCK, "all", label="Keys per matmul"),
}
