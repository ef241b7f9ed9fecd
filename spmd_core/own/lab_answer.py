"""An answer of the lab: printed as the command line prints it, drawn in a notebook, as JSON."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from spmd_core.own.cell import cell


@dataclass(frozen=True, repr=False)
class LabAnswer:
    """The answer of `layout`, `run`, `predict`, `search`, `remedies` or `best_mesh`.

    Attributes:
        value: the value behind it, such as a `Result`.
        lines: the lines that it is printed as.
        data: its JSON form.
        pictures: SVG, for a notebook.
    """

    value: Any
    lines: tuple[str, ...]
    data: Any
    pictures: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Any, lines: Iterable[str], data: Any, *pictures: str) -> "LabAnswer":
        """Returns an answer, whose texts may have several lines."""
        each_line = tuple(line for each in lines for line in each.split("\n"))
        return cls(value, each_line, data, pictures)

    def json(self) -> Any:
        """Returns plain values, as the command of that name prints them with `--json`."""
        return self.data

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if self.pictures:  # which show what the text draws with characters
            return cell(self.lines[:2], (), self.pictures)
        return cell(self.lines[:1], self.lines[1:], ())
