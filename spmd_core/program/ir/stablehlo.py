"""Reads the text of a StableHLO module line by line: its functions, their ops, and the source lines
in its `loc` tables.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from spmd_core.program.hlo.module import Frame
from spmd_core.program.ir.text import Op, ProgramText, Section

COLLECTIVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "collective_permute",
        "collective_broadcast",
    )
)
_FUNCTION = re.compile(r"(\s*)func\.func (?:public |private )?@([\w.$\-]+|\"[^\"]*\")\(")
_OP = re.compile(
    r"\s*(?:(%[\w$.\-]+)\S*(?:, %\S+)* = "
    r')?"?((?:stablehlo|sdy|chlo|mhlo|mpmd)\.\w+|call|func\.call)\b"?'
)
_NOT_OPS = ("stablehlo.return", "sdy.return", "sdy.mesh")
_CALL = re.compile(r"call @([\w.$\-]+)\(")
_LOC = r'loc\((?:[^()"]|"(?:[^"\\]|\\.)*"|\((?:[^()"]|"(?:[^"\\]|\\.)*"|\([^()]*\))*\))*\)'
_ANY_LOC = re.compile(rf" ?{_LOC}")
_LAST_LOC = re.compile(rf"({_LOC})\s*$")
_TABLE = re.compile(rf"(#loc\d*) = ({_LOC})")
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):\d+')
_NAME = re.compile(r"#loc\d*")


def read_stablehlo(text: str) -> ProgramText:
    """The functions of a module: the public one first, then the others as written; at the end its
    meshes and tables of locations.
    """
    lines = tuple(text.splitlines())
    locations = _Locations(
        {
            match[1]: match[2]
            for line in lines
            if line.startswith("#loc") and (match := _TABLE.match(line))
        }
    )
    sections = _functions(lines, locations)
    return ProgramText("stablehlo", lines, (*sections, *_ends(lines, sections)), quiet)


def _functions(lines: tuple[str, ...], locations: "_Locations") -> list[Section]:
    functions, notes, at = list[Section](), dict[str, str](), 0
    while at < len(lines):
        match = _FUNCTION.match(lines[at])
        if not match:
            at += 1
            continue
        stop = next(
            (end + 1 for end in range(at + 1, len(lines)) if lines[end].startswith(match[1] + "}")),
            len(lines),
        )
        name = match[2].strip('"')
        functions.append(
            Section(
                name,
                at,
                stop,
                _ops(lines, at, stop, locations),
                is_entry=" public @" in lines[at] or name == "main",
            )
        )
        for line in lines[at:stop]:
            for callee in _CALL.findall(line):
                notes.setdefault(callee, f"called by @{name}")
        at = stop
    sections = [replace(function, note=notes.get(function.name, "")) for function in functions]
    sections.sort(key=lambda section: not section.is_entry)
    return sections


def _ends(lines: tuple[str, ...], sections: list[Section]) -> Iterator[Section]:
    first = min((section.start for section in sections), default=len(lines))
    last = max((section.stop for section in sections), default=0)
    tables = next(
        (at for at in range(last, len(lines)) if lines[at].startswith("#loc")), len(lines)
    )
    if first:
        note = "its meshes and shared locations"
        yield Section("Head of the module", 0, first, note=note, is_details=True)
    if tables < len(lines):
        note = "where in which file each op comes from"
        yield Section("Table of locations", tables, len(lines), note=note, is_details=True)


def _ops(lines: tuple[str, ...], start: int, stop: int, locations: "_Locations") -> tuple[Op, ...]:
    """Ops of a function. One with regions has its location behind the brace that closes the last of
    them.
    """
    ops, owners, last = list[Op](), list[int | None](), None
    for at in range(start + 1, stop):
        line = lines[at]
        if line.lstrip().startswith(("}", "^")):
            last = owners.pop() if owners and line.lstrip().startswith("}") else None
        match = _OP.match(line)
        if match and match[2] not in _NOT_OPS:
            last = len(ops)
            ops.append(Op(at, match[1] or "", match[2], (), match[2] in COLLECTIVES))
        where = _LAST_LOC.search(line)
        if where and last is not None and not ops[last].frames:
            ops[last] = replace(ops[last], frames=locations.frames(where[1]))
        if _ANY_LOC.sub("", line).rstrip().endswith("{"):
            owners.append(last)
    return tuple(ops)


class _Locations:
    """The table of locations of a module; each is looked up once."""

    def __init__(self, table: dict[str, str]):
        self._table = table
        self._frames: dict[str, tuple[Frame, ...]] = {}

    def frames(self, text: str) -> tuple[Frame, ...]:
        """Files and lines of a location, innermost first."""
        if text not in self._frames:
            self._frames[text] = ()  # in case of a cycle
            file = _FILE.search(text)
            parts = (
                [(Frame(file[1], int(file[2])),)]
                if file
                else [self.frames(self._table.get(name, "")) for name in _NAME.findall(text)]
            )
            self._frames[text] = tuple(dict.fromkeys(frame for part in parts for frame in part))
        return self._frames[text]


def quiet(line: str) -> str:
    """A line without its locations."""
    return _ANY_LOC.sub("", line) if "loc(" in line else line
