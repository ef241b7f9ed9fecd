"""Reads the texts of a program - Python, jaxpr, StableHLO, compiled HLO - into sections that fold,
and searches them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from spmd_core.program.ir.hlo import read_hlo
from spmd_core.program.ir.jaxpr import read_jaxpr
from spmd_core.program.ir.stablehlo import read_stablehlo
from spmd_core.program.ir.text import ProgramText, Section

# of a text that is not what JAX writes, as in an archive that was doctored
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _as_it_is(text: str, kind: str = "program", name: str = "The program") -> ProgramText:
    lines = tuple(text.splitlines())
    return ProgramText(kind, lines, (Section(name, 0, len(lines), is_entry=True),))


_READERS: dict[str, Callable[[str], ProgramText]] = {
    "program": _as_it_is,
    "jaxpr": read_jaxpr,
    "stablehlo": read_stablehlo,
    "hlo": read_hlo,
}


def read_text(text: str, kind: str) -> ProgramText:
    """A text of a program by its kind: program, jaxpr, stablehlo or hlo. One that cannot be read as
    that has its lines alone.
    """
    try:
        return _READERS[kind](text)
    except _UNREADABLE:
        return _as_it_is(text, kind, "The text, which is not as JAX writes it")


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches a search: its index, its section's index (None outside all sections), and
    the positions in the line as shown.
    """

    line: int
    section: int | None
    spans: tuple[tuple[int, int], ...]


def spans_of(line: str, wanted: str) -> tuple[tuple[int, int], ...]:
    """(start, stop) of each case-insensitive match of a text in a line; none for an empty text."""
    return (
        tuple(match.span() for match in re.finditer(re.escape(wanted), line, re.IGNORECASE))
        if wanted
        else ()
    )


def find(text: ProgramText, wanted: str, details: bool) -> list[Match]:
    """Lines that hold `wanted`, as they are shown with or without details; sections of details are
    searched only with them.
    """
    if not wanted:
        return []
    hidden = (
        set()
        if details
        else {number for number, section in enumerate(text.sections) if section.is_details}
    )
    return [
        Match(at, text.owners[at], spans)
        for at, line in enumerate(text.shown(details))
        if text.owners[at] not in hidden and (spans := spans_of(line, wanted))
    ]
