"""The reason of a collective, from its kind, mesh axes and op name alone."""

from typing import Protocol

from spmd_core.experiment import DATA_AXES
from spmd_core.program.hlo.collective_ops import BETWEEN_SLICES


class CollectiveFacts(Protocol):
    """The fields of a collective that its reason depends on: of a parsed or an estimated one.

    `wanted` is the kind that the program requested, `ring` the devices of each ring that a
    collective matmul passes shards along, 0 for any other.
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


def became(collective: CollectiveFacts) -> str:
    """The end of a sentence: what the compiler made of the requested collective."""
    return _BECAME.get((collective.wanted, collective.kind), "")


def generic(collective: CollectiveFacts) -> str | None:
    """The reason as a sentence; None if the axes do not determine it."""
    if collective.kind == BETWEEN_SLICES:
        return _between_slices(collective)
    if not collective.axes:
        return None
    if collective.ring:
        return collective_matmul(collective)
    others = set(collective.axes) - set(DATA_AXES)
    # sequences and weights are sharded over `expert` too; an all-to-all there is of experts' rows
    of_rows = not others or (others == {"expert"} and collective.wanted != "all-to-all")
    return (_of_rows(collective) if of_rows else of_shards(collective)) + became(collective)


def collective_matmul(collective: CollectiveFacts) -> str:
    """The reason of an all-gather or reduce-scatter that the compiler overlaps with a matmul in
    steps.
    """
    along = f"a ring of {collective.ring} along {names(collective.axes)}"
    if collective.wanted == "reduce-scatter":
        return (
            f"collective matmul: a reduce-scatter over {names(collective.axes)} in steps; partial "
            f"sums pass around {along} while the matmul works on the next part"
        )
    return (
        f"collective matmul: an all-gather over {names(collective.axes)} in steps; shards pass "
        f"around {along} while the matmul works on those that are there"
    )


def other_reduction(collective: CollectiveFacts) -> str | None:
    """The reason of a reduction other than a sum; None for a sum."""
    what = _LOGICAL.get(collective.reduction or "")
    if what is None:
        return None
    use = (
        ", as softmax needs it" if what == "maximum" and "max" in (collective.op_name or "") else ""
    )
    return (
        f"each device along {names(collective.axes)} holds the {what} of its own shard, and the "
        f"{what} of all is taken{use}"
    )


def _between_slices(collective: CollectiveFacts) -> str:
    along = f" along {names(collective.axes)}" if collective.axes else ""
    if collective.asked in ("all-reduce", "reduce-scatter"):
        return f"each slice holds partial sums, which are added between slices{along}"
    return f"values move between slices{along}"


def _of_rows(collective: CollectiveFacts) -> str:
    """The reason of a collective over axes that shard the batch, and with it the parameters."""
    along = names(collective.axes)
    if collective.wanted in ("all-reduce", "reduce-scatter"):
        if sentence := other_reduction(collective):
            return sentence
        keeps = ", and each device keeps its shard" if collective.wanted == "reduce-scatter" else ""
        what = "gradients" if "transpose(" in (collective.op_name or "") else "sums"
        return f"each device holds {what} of its own rows, which are added over {along}{keeps}"
    if collective.wanted == "all-gather":
        return f"parameters are stored sharded over {along}, but a matmul needs them replicated"
    return f"values move between devices along {along}"


def of_shards(collective: CollectiveFacts) -> str:
    """The reason of a collective over axes that shard other dims, or of a program that is not a
    decoder.
    """
    along = names(collective.axes)
    if collective.wanted in ("all-reduce", "reduce-scatter"):
        if sentence := other_reduction(collective):
            return sentence
        keeps = ", and each device keeps its shard" if collective.wanted == "reduce-scatter" else ""
        return f"devices along {along} hold partial sums, which are added{keeps}"
    if collective.wanted == "all-gather":
        return f"an intermediate value is sharded over {along}, but the next op needs it replicated"
    return f"an intermediate value is resharded for the next op: its shards move over {along}"
