"""Sentences about rings that send more than they need, and the lines that change them."""

from fractions import Fraction
from typing import Literal, get_args

from spmd_core.base import bytes_text
from spmd_core.experiment import spec_code
from spmd_core.facts import Accident, RingNote

RingKind = Literal["larger_rotated", "surplus_permute"]
RING_KINDS: tuple[str, ...] = get_args(RingKind)  # of notes: none is wrong
_MOST = 1000  # the largest denominator of a share in words


def ring_words(each: Accident) -> str:
    """Returns what a ring sends more than it needs, and what to change, in a sentence."""
    ring = each.ring or RingNote()
    if each.kind == "surplus_permute":
        share = Fraction(each.share).limit_denominator(_MOST)
        part = str(share) if share.numerator == 1 else f"{each.share:.0%}"
        return (
            f"{ring.permutes} permutes at {each.source} where {ring.needed} suffice: {part} of the "
            f"bytes, {bytes_text(each.bytes)} a device and step; {_without(ring)}"
        )
    moved, kept = ring.moved or "a block", each.path or "the other operand"
    return (
        f"rotating {kept}, {bytes_text(ring.kept_bytes)}, in place of {moved}, "
        f"{bytes_text(each.bytes)}, at {each.source} computes the same products and sends "
        f"{each.bytes / ring.kept_bytes:.3g} times less; the result then is {spec_code(each.spec)}"
    )


def _without(ring: RingNote) -> str:
    if ring.turns > 1:
        return (
            f"run {ring.turns - 1} turns of {ring.turns}, then the body once more without its last "
            "ppermute"
        )
    return "the last brings no block that is used, or the first one home: leave it out"


def ring_code(each: Accident) -> str:
    """Returns the lines that pass on the smaller block instead; "" of another change.

    >>> ring = RingNote(size=8, by=1, moved="x", kept_bytes=2**22, dim=1, shape=(4096, 256))
    >>> print(ring_code(Accident(kind="larger_rotated", path="w", axes=("x",), spec=(("x",), ()), ring=ring)))
    w = jax.lax.ppermute(w, 'x', [(j, (j + 1) % 8) for j in range(8)])
    # the product of turn k, into out of shape (4096, 2048)
    at = (jax.lax.axis_index('x') - k) % 8 * 256
    out = jax.lax.dynamic_update_slice(out, product, (0, at))
    # in jax.shard_map
    out_specs=P('x', None)
    """
    ring = each.ring
    if each.kind != "larger_rotated" or ring is None:
        return ""
    (axis,), size, back = each.axes, ring.size, ring.by == ring.size - 1
    name = each.path.rpartition("/")[2]
    name = name if name.isidentifier() else "block"
    to = "j - 1" if back else f"j + {ring.by}"
    turned = "+ k" if back else "- k" if ring.by == 1 else f"- {ring.by} * k"
    shape = tuple(n * (size if at == ring.dim else 1) for at, n in enumerate(ring.shape))
    starts = ", ".join("at" if at == ring.dim else "0" for at in range(len(shape)))
    return (
        f"{name} = jax.lax.ppermute({name}, {axis!r}, [(j, ({to}) % {size}) for j in range({size})])\n"
        f"# the product of turn k, into out of shape {shape}\n"
        f"at = (jax.lax.axis_index({axis!r}) {turned}) % {size} * {ring.shape[ring.dim]}\n"
        f"out = jax.lax.dynamic_update_slice(out, product, ({starts}))\n"
        "# in jax.shard_map\n"
        f"out_specs={spec_code(each.spec)}"
    )
