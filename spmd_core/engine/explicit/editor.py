"""Writes the edits of an expression's text."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spmd_core.engine.explicit.attempt import Attempt, spec_text
from spmd_core.engine.explicit.source import Edit, EditedFile, Slot, Span

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
