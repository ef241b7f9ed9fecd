"""An expression of the user's: evaluated anew with other operands, and its text edited."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import PartitionSpec

from spmd_core.engine.explicit.source import Edit, EditedFile, Expression, Slot, Span

OPERATORS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "MatMult": operator.matmul,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "IAdd": operator.iadd,
    "ISub": operator.isub,
    "IMult": operator.imul,
    "IDiv": operator.itruediv,
    "IFloorDiv": operator.ifloordiv,
    "IMod": operator.imod,
    "IPow": operator.ipow,
    "IMatMult": operator.imatmul,
    "IBitAnd": operator.iand,
    "IBitOr": operator.ior,
    "IBitXor": operator.ixor,
    "ILShift": operator.ilshift,
    "IRShift": operator.irshift,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
}


@dataclass(frozen=True)
class Attempt:
    """The function of an expression with the values of its operands."""

    site: Expression
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self) -> Any:
        """Evaluate it."""
        return self.function(*self.args, **self.kwargs)

    def value(self, slot: Slot) -> Any:
        """The value of an operand."""
        first, *rest = slot
        owner = getattr(self.function, "__self__", None)
        if first == "self":
            return owner
        if first in ("array", "index"):
            return getattr(owner, str(first), None)
        value = self.args[first] if isinstance(first, int) else self.kwargs[first]
        return value[rest[0]] if rest else value

    def arrays(self) -> dict[Slot, Any]:
        """The operands that are arrays, and stand in the text."""
        values = {slot: self.value(slot) for slot in self.site.slots}
        return {slot: value for slot, value in values.items() if isinstance(value, jax.Array)}

    def with_values(self, values: Mapping[Slot, Any]) -> "Attempt":
        """The expression with other values of some operands."""
        function, args, kwargs = self.function, list(self.args), dict(self.kwargs)
        owner = getattr(function, "__self__", None)
        for (first, *rest), value in values.items():
            if first == "self":
                function = getattr(value, self.site.operator)
            elif first in ("array", "index"):
                parts = {name: getattr(owner, name) for name in ("array", "index")}
                parts |= {str(at[0]): each for at, each in values.items() if at[0] in parts}
                function = getattr(parts["array"].at[parts["index"]], self.site.operator)
            else:
                held: Any = args if isinstance(first, int) else kwargs
                if rest:
                    elements: list[Any] = list(held[first])
                    elements[int(rest[0])] = value
                    held[first] = type(held[first])(elements)
                else:
                    held[first] = value
        return Attempt(self.site, function, tuple(args), kwargs)


def spec_of(value: Any) -> PartitionSpec:
    """The spec in a value's type, an entry for each dim."""
    aval = jax.typeof(value)
    spec = tuple(aval.sharding.spec)
    return PartitionSpec(*spec, *[None] * (len(aval.shape) - len(spec)))


def guesses(result: Any, operands: list[Any]) -> Iterator[PartitionSpec]:
    """Specs that a result may have: each dim those of the first operand's dim of its size, then none."""
    used: set[str] = set()
    dims: list[Any] = [None] * result.ndim
    for operand in operands:
        for size, entry in zip(operand.shape, spec_of(operand), strict=True):
            axes = axes_in(entry)
            places = [
                at for at, each in enumerate(result.shape) if each == size and dims[at] is None
            ]
            if axes and places and not used & {*axes}:
                dims[places[0]] = entry
                used |= {*axes}
    yield PartitionSpec(*dims)
    yield PartitionSpec()


def axes_in(entry: Any) -> tuple[str, ...]:
    """The mesh axes of a spec's entry."""
    if entry is None:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


def trimmed(spec: PartitionSpec) -> PartitionSpec:
    """A spec without the dims at its end that are not sharded."""
    dims = list(spec)
    while dims and dims[-1] is None:
        dims.pop()
    return PartitionSpec(*dims)


def spec_text(tree: Any, name: str) -> str:
    """Specs as Python has them; ValueError where they are in a node of a library's own."""
    if isinstance(tree, PartitionSpec):
        return f"{name}({', '.join(repr(each) for each in trimmed(tree))})".replace("'", '"')
    if type(tree) in (tuple, list):
        inside = ", ".join(spec_text(each, name) for each in tree)
        return f"[{inside}]" if type(tree) is list else f"({inside}{',' * (len(tree) == 1)})"
    if type(tree) is dict and all(str(key).isidentifier() for key in tree):
        items = (f'"{key}": {spec_text(each, name)}' for key, each in tree.items())
        return f"{{{', '.join(items)}}}"
    if tree is None:
        return "None"
    raise ValueError(f"a {type(tree).__name__} of specs cannot be written out")


def distinct(specs: Sequence[Any]) -> list[Any]:
    """Specs, each once."""
    return list({repr(jax.tree.map(trimmed, each)): each for each in specs}.values())


Specs = Any  # a PartitionSpec, or a pytree of them


@dataclass(frozen=True)
class Fix:
    """A change of an expression: the function of JAX that it uses, and the edits of the text."""

    how: str
    edits: tuple[Edit, ...]


Proposal = tuple[Fix, Callable[[], Any]]


@dataclass(frozen=True)
class Editor:
    """Writes edits of an expression."""

    attempt: Attempt
    source: EditedFile

    def specs(self, specs: Specs) -> str:
        """Specs as the file has them."""
        return spec_text(specs, self.source.names()["P"])

    def name(self, path: str) -> str:
        """A name of JAX as the file has it, such as `jax.sharding.reshard`."""
        first, _, rest = path.partition(".")
        return f"{self.source.names()[first]}.{rest}"

    def around(self, span: Span, before: str, after: str) -> tuple[Edit, Edit]:
        """Edits that enclose a part of the text."""
        start, end = span
        return Edit(start, start - end, start, before), Edit(end, end - start, end, after)

    def reshard(self, slot: Slot, specs: Specs) -> tuple[Edit, Edit]:
        """Edits that reshard an operand."""
        span = self.attempt.site.slots[slot]
        return self.around(span, f"{self.name('jax.sharding.reshard')}(", f", {self.specs(specs)})")

    def keyword(self, text: str) -> tuple[Edit, ...]:
        """An edit that adds a keyword to a call."""
        site = self.attempt.site
        assert site.function is not None
        opening, end = self.source.after(site.function[1]), site.span[1] - 1
        inside = [span[1] for slot, span in site.slots.items() if slot[0] not in ("self", "array", "index")]  # fmt: skip
        comma = ""
        if self.source.text[opening + 1 : end].strip():
            last = self.source.after(max([opening + 1, *inside]))
            is_last = self.source.text[last] == "," and self.source.after(last + 1) >= end
            comma = "" if is_last and last < end else ", "
        return (Edit(end, end - site.span[0], end, f"{comma}{text}"),)

    def text(self, span: Span) -> str:
        """A part of the text."""
        return self.source.text[slice(*span)]
