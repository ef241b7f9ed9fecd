"""Why a collective is there, told from its kind, its axes and its op alone."""

from typing import Protocol

from spmd_core.experiment import DATA_AXES
from spmd_core.program.hlo.collectives import BETWEEN_SLICES


class Told(Protocol):
    """As much of a collective as its reason needs: one that was read, or one that is estimated.

    `wanted` is what the program asked for, `ring` the devices of each ring that a collective
    matmul passes shards along, 0 for any other.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def axes(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def asked(self) -> str | None: ...  # noqa: D102
    @property
    def wanted(self) -> str: ...  # noqa: D102
    @property
    def op_name(self) -> str | None: ...  # noqa: D102
    @property
    def reduction(self) -> str | None: ...  # noqa: D102
    @property
    def ring(self) -> int: ...  # noqa: D102


_BECAME = {
    ("reduce-scatter", "all-reduce"): "; the compiler uses an all-reduce, and each device "
    "keeps its shard",
    ("all-gather", "all-reduce"): "; the compiler pads each shard with zeros and adds them "
    "in an all-reduce",
}
_LOGICAL = {
    "maximum": "maximum",
    "minimum": "minimum",
    "and": "logical and",
    "or": "logical or",
    "multiply": "product",
}


def names(axes: tuple[str, ...]) -> str:
    """Mesh axes in words, e.g. `x and y`."""
    return " and ".join(axes) if axes else "no axis"


def became(found: Told) -> str:
    """The end of a sentence: what the compiler made of what was asked for."""
    return _BECAME.get((found.wanted, found.kind), "")


def generic(found: Told) -> str | None:
    """The sentence; None where the axes tell nothing."""
    if found.kind == BETWEEN_SLICES:
        return _between_slices(found)
    if not found.axes:
        return None
    if found.ring:
        return collective_matmul(found)
    of_rows = set(found.axes) <= set(DATA_AXES)
    return (_of_rows(found) if of_rows else of_shards(found)) + became(found)


def collective_matmul(found: Told) -> str:
    """A gather or a scattered sum that the compiler cut into steps beside the parts of a matmul."""
    along = f"a ring of {found.ring} along {names(found.axes)}"
    if found.wanted == "reduce-scatter":
        return (
            f"collective matmul: a reduce-scatter over {names(found.axes)} in steps; partial "
            f"sums pass around {along} while the matmul works on the next part"
        )
    return (
        f"collective matmul: an all-gather over {names(found.axes)} in steps; shards pass "
        f"around {along} while the matmul works on those that are there"
    )


def other_reduction(found: Told) -> str | None:
    """The sentence of a reduction that is no sum; None for a sum."""
    what = _LOGICAL.get(found.reduction or "")
    if what is None:
        return None
    use = ", as softmax needs it" if what == "maximum" and "max" in (found.op_name or "") else ""
    return (
        f"each device along {names(found.axes)} holds the {what} of its own shard, and the "
        f"{what} of all is taken{use}"
    )


def _between_slices(found: Told) -> str:
    along = f" along {names(found.axes)}" if found.axes else ""
    if found.asked in ("all-reduce", "reduce-scatter"):
        return f"each slice holds partial sums, which are added between slices{along}"
    return f"values move between slices{along}"


def _of_rows(found: Told) -> str:
    """Over axes that shard the batch, and with it the parameters."""
    along = names(found.axes)
    if found.wanted in ("all-reduce", "reduce-scatter"):
        if said := other_reduction(found):
            return said
        keeps = ", and each device keeps its shard" if found.wanted == "reduce-scatter" else ""
        what = "gradients" if "transpose(" in (found.op_name or "") else "sums"
        return f"each device holds {what} of its own rows, which are added over {along}{keeps}"
    if found.wanted == "all-gather":
        return f"parameters are stored sharded over {along}, but a matmul needs them replicated"
    return f"values move between devices along {along}"


def of_shards(found: Told) -> str:
    """Over axes that shard a matmul's dims, or those of a program that is no decoder."""
    along = names(found.axes)
    if found.wanted in ("all-reduce", "reduce-scatter"):
        if said := other_reduction(found):
            return said
        keeps = ", and each device keeps its shard" if found.wanted == "reduce-scatter" else ""
        return f"devices along {along} hold partial sums, which are added{keeps}"
    if found.wanted == "all-gather":
        return f"an intermediate value is sharded over {along}, but the next op needs it replicated"
    return f"an intermediate value is resharded for the next op: its shards move over {along}"
