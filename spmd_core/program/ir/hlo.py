"""Reads the text of a compiled HLO module line by line, for the screen: fast, and without refusing
what it does not know.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from spmd_core.program.hlo.module import Frame
from spmd_core.program.hlo.text import read_frames
from spmd_core.program.ir.text import Op, ProgramText, Section

COLLECTIVES = frozenset(
    (
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "all-to-all",
        "ragged-all-to-all",
        "collective-permute",
        "collective-broadcast",
        "all-reduce-start",
        "all-gather-start",
        "collective-permute-start",
        "reduce-scatter-start",
        "all-to-all-start",
        "send",
        "recv",
    )
)
_HEAD = "Head of the module"
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) (?=\(|\{)")
_END = re.compile(r"\}(, \w+=.*)?")
_START = re.compile(r"\s+(?:ROOT )?(%?[\w.\-]+) = ")
_OPCODE = re.compile(r" ?([a-z][\w\-]*)\(")
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="([^"]*)" source_line=(\d+)')
_CALLS = re.compile(
    r"\b(calls|to_apply|body|condition|true_computation|false_computation|called_computations|branch_computations)=(\{[^}]*\}|%?[\w.\-]+)"
)
_USES = {
    "calls": "called by",
    "to_apply": "the arithmetic of",
    "body": "body of",
    "condition": "condition of",
}
_DETAILS = re.compile(
    r", (?:metadata|backend_config|frontend_attributes|custom_call_config|origin)=(?=[{\"])"
)
_BRACE = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]|"')


def read_hlo(text: str) -> ProgramText:
    """The computations of a module: the entry first, then the others in the order in which they are
    called.
    """
    lines = tuple(text.splitlines())
    first = next(
        (
            at
            for at, line in enumerate(lines)
            if at and line.endswith("{") and _COMPUTATION.match(line)
        ),
        len(lines),
    )
    frames = read_frames(lines[:first])
    computations = {section.name: section for section in _computations(lines, first, frames)}
    ordered = _reading_order(lines, computations)
    head = Section(
        _HEAD, 0, first, note="its name, layouts and the tables of source lines", is_details=True
    )
    return ProgramText("hlo", lines, (*ordered, *((head,) if first else ())), quiet)


def _computations(
    lines: tuple[str, ...], first: int, frames: dict[int, tuple[Frame, ...]]
) -> Iterator[Section]:
    start, match, ops = 0, None, list[Op]()
    for at in range(first, len(lines)):
        line = lines[at]
        if match is None:
            match = _COMPUTATION.match(line) if line.endswith("{") else None
            start, ops = at, []
        elif _END.fullmatch(line):
            yield Section(match[2], start, at + 1, tuple(ops), is_entry=bool(match[1]))
            match = None
        elif op := _op(line, at, frames):
            ops.append(op)
        elif (
            ops and not ops[-1].frames and "stack_frame_id=" in line
        ):  # an attribute before it was broken over lines
            ops[-1] = replace(ops[-1], frames=_frames_of(line, frames))


def _op(line: str, at: int, frames: dict[int, tuple[Frame, ...]]) -> Op | None:
    start = _START.match(line)
    if not start:
        return None
    end = start.end()
    end = _tuple_end(line, end) if line.startswith("(", end) else line.find(" ", end)
    opcode = _OPCODE.match(line, end) if end >= 0 else None
    if not opcode:
        return None
    return Op(at, start[1], opcode[1], _frames_of(line, frames), opcode[1] in COLLECTIVES)


def _tuple_end(line: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(line)):
        depth += (line[at] == "(") - (line[at] == ")")
        if depth == 0:
            return at + 1
    return -1


def _frames_of(line: str, frames: dict[int, tuple[Frame, ...]]) -> tuple[Frame, ...]:
    if match := _FRAME.search(line):
        return frames.get(int(match[1]), ())
    match = _SOURCE.search(line)
    return (Frame(match[1], int(match[2])),) if match else ()


def _reading_order(lines: tuple[str, ...], computations: dict[str, Section]) -> list[Section]:
    """The entry, then the computations that it calls, depth first, then uncalled ones. Each notes
    its users.
    """
    notes, ordered = dict[str, str](), list[Section]()
    entries = {section.name for section in computations.values() if section.is_entry}
    waiting = list(entries) + [name for name in reversed(computations) if name not in entries]
    waiting.reverse()
    seen = set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        section = computations[name]
        called = list(_called(lines, section))
        for callee, note in called:
            notes.setdefault(callee, note)
        waiting += [
            callee
            for callee, _ in reversed(called)
            if callee in computations and callee not in seen
        ]
        ordered.append(section)
    return [replace(section, note=notes.get(section.name, "")) for section in ordered]


def _called(lines: tuple[str, ...], section: Section) -> Iterator[tuple[str, str]]:
    for op in section.ops:
        for key, names in _CALLS.findall(lines[op.line]):
            for name in names.strip("{} ").split(","):
                yield name.strip().lstrip("%"), f"{_USES.get(key, 'called by')} {op.name}"


def quiet(line: str) -> str:
    """A line without metadata, the backend's settings and the like."""
    at = 0
    while match := _DETAILS.search(line, at):
        end = _value_end(line, match.end())
        line, at = line[: match.start()] + line[end:], match.start()
    return line


def _value_end(line: str, start: int) -> int:
    depth = 0
    for piece in _BRACE.finditer(line, start):
        depth += (piece[0] == "{") - (piece[0] == "}")
        if depth == 0:
            return piece.end()
    return len(line)  # it continues on the next line
