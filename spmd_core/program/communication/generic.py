"""The reason of a collective, from its kind, mesh axes and op name alone."""

import re
from typing import Protocol

from spmd_core.plan import DATA_AXES
from spmd_core.program.hlo.collective_ops import BETWEEN_SLICES


class CollectiveFacts(Protocol):
    """The fields of a collective that its reason depends on: of a parsed or an estimated one.

    `wanted` is the kind that the program requested, `ring` the devices of each ring that a
    collective matmul passes shards along, 0 for any other; `source` names its line.
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
    @property
    def source(self) -> str | None: ...  # noqa: D102


_BECAME = {
    ("reduce-scatter", "all-reduce"): "; the compiler uses an all-reduce",
    ("all-gather", "all-reduce"): "; the compiler pads each shard with zeros and adds them "
    "in an all-reduce",
}
# parts of an op's path that JAX adds: what it traced through, and transformations of nothing named
_WRAPS = re.compile(
    r"(jit|pjit|jvp|transpose|vmap)\(|(while|body|cond|closed_call|checkpoint|shard_map|"
    r"rematted_computation|core_call|custom_jvp_call|custom_vjp_call|scan)$|$"
)
_WINDOW = re.compile(r"/(conv_general_dilated|reduce_window\w*)\)*$")  # each slides a window
_MOST_MERGED = 2  # of the operations that one was merged of, in a sentence
# a primitive, as programs call it
_CALLED = {"sharding_constraint": "with_sharding_constraint", "psum_invariant": "psum"}
# ops whose result comes from some shards alone
_TAKES = re.compile(r"/(gather|squeeze|(dynamic_)?slice)$")
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


def place_words(op_name: str | None, source: str | None) -> str:
    """An operation by its named scope and its source line, as `named_line` has it; "" where neither
    is known.

    >>> place_words("jit(program)/attention/dot_general", "step.py:31")
    '`attention/dot_general` (step.py:31)'
    """
    scopes = dict.fromkeys(filter(None, map(_scope, merged_names(op_name or ""))))
    if not scopes:
        return source or ""
    scope = " and ".join(f"`{each}`" for each in list(scopes)[:_MOST_MERGED])
    return f"{scope} ({source})" if source else scope


def _scope(op_name: str) -> str:
    parts = [_CALLED.get(part, part) for part in op_name.split("/") if not _WRAPS.match(part)]
    return "/".join(parts[-2:])


def merged_names(op_name: str) -> list[str]:
    """The names of the operations that the compiler merged into one, from the name that it gives
    this one.

    >>> merged_names("jit(step)/(reduce_sum:jvp()/dot_general)")
    ['jit(step)/reduce_sum', 'jit(step)/jvp()/dot_general']
    """
    head, mark, rest = op_name.partition("/(")
    if not mark or ":" not in rest or not rest.endswith(")"):
        return [op_name]
    return list(dict.fromkeys(f"{head}/{each}" for each in rest[:-1].split(":")))


def output_words(name: str) -> str:
    """An output in words: one without a name of its own begins with its number."""
    return f"output {name}" if name.partition("/")[0].isdecimal() else name


def _of(place: str) -> str:
    return f" of {place}" if place else ""


def became(collective: CollectiveFacts) -> str:
    """The end of a sentence: what the compiler made of the requested collective."""
    return _BECAME.get((collective.wanted, collective.kind), "")


def by_itself(collective: CollectiveFacts, call: str) -> str:
    """The reason of a collective that the program calls, where its value is no operand."""
    place = collective.source and f" ({collective.source})"
    is_backward = "transpose(" in (collective.op_name or "")
    who = "the backward pass of the program" if is_backward else "the program itself"
    return f"{who} calls {call} over {names(collective.axes)}{place or ''}"


def partial_sums(collective: CollectiveFacts) -> str:
    """The reason of a sum over a dim that has no name."""
    place, along = place_words(collective.op_name, collective.source), names(collective.axes)
    if all(map(_TAKES.search, merged_names(collective.op_name or ""))):
        return (
            f"each device along {along} holds the part of {place} that its shard has, and zeros for "
            "the rest, which are added"
        )
    return f"devices along {along} hold partial sums{_of(place)}, which are added"


def generic(collective: CollectiveFacts, value: str = "") -> str | None:
    """The reason as a sentence; None if the axes do not determine it. `value`: the name of what it
    moves, where no operation has one.
    """
    if collective.kind == BETWEEN_SLICES:
        return _between_slices(collective)
    if not collective.axes:
        return None
    if collective.ring:
        return collective_matmul(collective)
    others = set(collective.axes) - set(DATA_AXES)
    # sequences and weights are sharded over `expert` too, an all-to-all there is of experts' rows;
    # and weights over `context`, where data axes shard them
    shared = {"expert"} if others == set(collective.axes) else {"expert", "context"}
    of_rows = not others or (others <= shared and collective.wanted != "all-to-all")
    return (_of_rows(collective) if of_rows else of_shards(collective, value)) + became(collective)


def collective_matmul(collective: CollectiveFacts) -> str:
    """The reason of an all-gather or reduce-scatter that the compiler overlaps with a matmul in
    steps.
    """
    along = f"a ring of {collective.ring} along {names(collective.axes)}"
    place = _of(place_words(collective.op_name, collective.source))
    if collective.wanted == "reduce-scatter":
        return (
            f"collective matmul{place}: a reduce-scatter over {names(collective.axes)} in steps; "
            "partial "
            f"sums pass around {along} while the matmul works on the next part"
        )
    return (
        f"collective matmul{place}: an all-gather over {names(collective.axes)} in steps; shards "
        "pass "
        f"around {along} while the matmul works on those that are there"
    )


def other_reduction(collective: CollectiveFacts) -> str | None:
    """The reason of a reduction other than a sum; None for a sum."""
    what = _LOGICAL.get(collective.reduction or "")
    if what is None:
        return None
    is_softmax = what == "maximum" and re.search("softmax|logsumexp", collective.op_name or "")
    use = ", as softmax needs it" if is_softmax else ""
    place = place_words(collective.op_name, collective.source)
    own = f"its own shard in {place}" if place else "its own shard"
    return (
        f"each device along {names(collective.axes)} holds the {what} of {own}, and the "
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


def of_window(collective: CollectiveFacts) -> str | None:
    """The reason of a permute for an operation that slides a window; None for any other collective."""
    if collective.kind != "collective-permute" or not _WINDOW.search(collective.op_name or ""):
        return None
    place = place_words(collective.op_name, collective.source)
    return (
        f"halo exchange between neighbors along {names(collective.axes)}: the window of {place} "
        "reaches into the neighbors' shards"
    )


def of_shards(collective: CollectiveFacts, value: str = "", *, passes: bool = True) -> str:
    """The reason of a collective over axes that shard other dims, or of a program that is not a
    decoder. `value`: the name of what it moves; "" where only the operation that needs it is known:
    the partitioner gives the collective its name. `passes`: whether a permute's pairs are a ring.
    """
    along = names(collective.axes)
    if collective.wanted in ("all-reduce", "reduce-scatter"):
        if sentence := other_reduction(collective):
            return sentence
        keeps = ", and each device keeps its shard" if collective.wanted == "reduce-scatter" else ""
        return partial_sums(collective) + keeps
    place = place_words(collective.op_name, collective.source)
    if sentence := of_window(collective):
        return sentence
    is_gather = collective.wanted == "all-gather"
    if place and not value:
        if is_gather:
            return f"{place} needs a value replicated that is sharded over {along}"
        return f"{place} needs a value in another sharding: its shards move over {along}"
    if value and passes and collective.kind == "collective-permute":
        return f"{value}: shards pass around a ring along {along}"
    value = value.removeprefix("gather ") or "a computed value"
    needs = f"{place} needs it" if place else "it is needed"
    if is_gather:
        return f"{value} is sharded over {along}, but {needs} replicated"
    return f"{value} is sharded in another way than {place or 'the program'} needs it: its shards move over {along}"
