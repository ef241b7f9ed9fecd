"""Reads the text of a compiled HLO module into values; knows nothing of jax."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType

from spmd_core.base import shorten
from spmd_core.program.hlo.module import Computation, Frame, HloError, Instruction, Module, Shape

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|[()\[\]{}]|,', re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/")
_ARRAY = re.compile(r"(?P<element>[a-z]\w*)\[(?P<dims>[^\]]*)\](?:\{(?P<layout>.*)\})?")
_START = re.compile(r"(?P<root>ROOT )?%?(?P<name>[^\s=]+) = ", re.DOTALL)
_COMPUTATION = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[^\s(]+) (?=\(|\{)")
_TABLE_ROW = re.compile(r"(\d+) (.*)")
_DEEPEST = 200  # frames of a chain: JAX writes ten
_FIELD = re.compile(r"(\w+)=(-?\d+)")
_METADATA = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^\s}]+)', re.DOTALL)
_MEMORY_SPACE = re.compile(r"S\((\d+)\)")
_TILE = re.compile(r"T\(([0-9,]+)\)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_NO_OPERANDS = ("parameter", "constant", "iota", "partition-id", "replica-id", "after-all")
_SHORT_FORMS = {
    f"{name}-{end}"
    for name in ("slice", "dynamic-slice", "dynamic-update-slice", "copy")
    for end in ("start", "done")
}
_CLOSES = {"(": ")", "[": "]", "{": "}"}


def parse_module(text: str) -> Module:
    """The module that a text describes, as `compiled.as_text()` gives it; HloError where it cannot
    be read.
    """
    lines = _logical_lines(text)
    header = next(lines, "")
    if not header.startswith("HloModule "):
        raise HloError(
            f"text {shorten(header)} is not a compiled program: it does not begin with HloModule"
        )
    attributes = _attributes(header.removeprefix("HloModule "))
    head: list[str] = []
    frames: dict[int, tuple[Frame, ...]] = {}
    computations: list[Computation] = []
    for line in lines:
        if line.endswith("{") and (match := _COMPUTATION.match(line)):
            frames = frames or read_frames(head)
            computations.append(
                Computation(
                    match["name"], tuple(_instructions(lines, frames)), bool(match["entry"])
                )
            )
        elif not computations and (line in _TABLES or (head and _TABLE_ROW.fullmatch(line))):
            head.append(line)
        else:
            raise HloError(f"line {shorten(line, 120)} of a compiled program cannot be read")
    name = header.removeprefix("HloModule ").split(",")[0].strip()
    return Module(
        name,
        _as_final(computations),
        int(attributes.get("num_partitions", 1)),
        int(attributes.get("replica_count", 1)),
    )


def _as_final(computations: list[Computation]) -> tuple[Computation, ...]:
    """Rewrites a program that is scheduled but not yet lowered to code into the form of a final
    one: asynchronous slices have `async-start` with a computation of their own in place of
    `slice-start` and, since JAX 0.12, tuple elements are written `%name#1` instead of having their
    own instruction.
    """
    computations = [_with_parts(each) for each in computations]
    roots = {each.name: each.root.opcode for each in computations if each.root is not None}
    return tuple(_with_short_forms(each, roots) for each in computations)


def _with_parts(computation: Computation) -> Computation:
    """With a get-tuple-element for each `name#index` among the operands, before its first use."""
    if not any("#" in name for each in computation.instructions for name in each.operands):
        return computation
    parts: dict[str, Instruction] = {}
    for each in computation.instructions:
        for name in each.operands:
            _add_part(name, parts)
        parts[each.name] = each
    return replace(computation, instructions=tuple(parts.values()))


def _add_part(name: str, parts: dict[str, Instruction]) -> None:
    tuple_name, mark, index = name.rpartition("#")
    if name in parts or not mark or not index.isdigit():
        return
    _add_part(tuple_name, parts)
    if tuple_name not in parts or int(index) >= len(parts[tuple_name].shape.parts):
        raise HloError(f"operand {shorten(name)} of a compiled program is no part of a tuple")
    shape = parts[tuple_name].shape.parts[int(index)]
    parts[name] = Instruction(
        name,
        "get-tuple-element",
        shape,
        (tuple_name,),
        f"%{tuple_name}",
        MappingProxyType({"index": index}),
    )


def _with_short_forms(computation: Computation, roots: dict[str, str]) -> Computation:
    short: dict[str, str] = {}
    instructions: list[Instruction] = []
    for each in computation.instructions:
        opcode = each.opcode
        if opcode == "async-start" and (called := each.called()):
            opcode = f"{roots.get(called[0])}-start"
        elif opcode == "async-done" and each.operands:
            opcode = short.get(each.operands[0], opcode).replace("-start", "-done")
        if opcode in _SHORT_FORMS:
            short[each.name] = opcode
            each = replace(each, opcode=opcode)
        instructions.append(each)
    return replace(computation, instructions=tuple(instructions)) if short else computation


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without indent, without empty ones; one whose brackets or quotes are still open
    continues on the next.
    """
    pending = ""
    for line in text.splitlines():
        joined = f"{pending}\n{line}" if pending else line.strip()
        if not joined:
            continue
        if (
            joined.endswith("{")
            and _COMPUTATION.match(joined)
            and " = " not in joined.split("(")[0]
        ):
            yield joined
        elif joined.startswith("}") or _is_closed(joined):
            pending = ""
            yield joined.strip()
        else:
            pending = joined
    if pending:
        raise HloError(f"line {shorten(pending, 120)} of a compiled program has no end")


def _is_closed(line: str) -> bool:
    if (
        all(line.count(left) == line.count(right) for left, right in _CLOSES.items())
        and line.count('"') % 2 == 0
    ):
        return True
    bare = _PIECE.sub(lambda piece: "" if piece[0][0] == '"' else piece[0], line)
    return '"' not in bare and all(
        bare.count(left) == bare.count(right) for left, right in _CLOSES.items()
    )


def _instructions(
    lines: Iterator[str], frames: dict[int, tuple[Frame, ...]]
) -> Iterator[Instruction]:
    for line in lines:
        if line.startswith("}"):
            return
        yield parse_instruction(line, frames)
    raise HloError("a computation of a compiled program has no end")


def parse_instruction(line: str, frames: dict[int, tuple[Frame, ...]] | None = None) -> Instruction:
    """One instruction, e.g. `ROOT %add.1 = f32[4]{0} add(%a, %b), metadata={...}`."""
    start = _START.match(line)
    if not start:
        raise HloError(f"line {shorten(line, 120)} of a compiled program is no instruction")
    at = start.end()
    end = closing(line, at) + 1 if line[at] == "(" else line.index(" ", at)
    opening = line.index("(", end)
    last = closing(line, opening)
    opcode, argument = line[end:opening].strip(), line[opening + 1 : last]
    attributes = _attributes(line[last + 1 :])
    metadata = dict(_METADATA.findall(attributes.get("metadata", "")))
    operands = (
        ()
        if opcode in _NO_OPERANDS
        else tuple(
            part.split()[-1].lstrip("%") for part in split(_COMMENT.sub("", argument)) if part
        )
    )
    if opcode == "after-all" and argument:
        operands = tuple(part.split()[-1].lstrip("%") for part in split(argument))
    return Instruction(
        start["name"],
        opcode,
        parse_shape(line[at:end]),
        operands,
        argument,
        MappingProxyType(attributes),
        bool(start["root"]),
        _unquoted(metadata.get("op_name")),
        _frames_of(metadata, frames or {}),
    )


@lru_cache(4096)  # layers of a program repeat their shapes
def parse_shape(text: str) -> Shape:
    """A shape, e.g. `f32[8,4]{1,0:T(8,128)S(5)}` or `(f32[], s32[2])`."""
    text = _COMMENT.sub("", text).strip()
    if text.startswith("("):
        return Shape("tuple", parts=tuple(parse_shape(part) for part in split(text[1:-1]) if part))
    match = _ARRAY.fullmatch(text)
    if not match:
        raise HloError(f"shape {shorten(text)} of a compiled program cannot be read")
    if match["element"] in ("token", "opaque"):
        return Shape(match["element"])
    dims = tuple(
        int(size.strip().removeprefix("<=").removeprefix("?") or 0)
        for size in match["dims"].split(",")
        if size.strip()
    )
    layout = match["layout"] or ""
    space, tile = _MEMORY_SPACE.search(layout), _TILE.search(layout)
    order = tuple(int(dim) for dim in layout.split(":")[0].split(",") if dim)
    return Shape(
        match["element"],
        dims,
        (),
        int(space[1]) if space else 0,
        order,
        tuple(int(size) for size in tile[1].split(",")) if tile else (),
    )


def closing(text: str, opening: int) -> int:
    """Index of the bracket that closes the one at `opening`."""
    depth = 0
    for piece in _PIECE.finditer(text, opening):
        if piece[0] in _CLOSES:
            depth += 1
        elif piece[0] in ")]}":
            depth -= 1
            if depth == 0:
                return piece.start()
    raise HloError(f"bracket in {shorten(text, 120)} of a compiled program is not closed")


def split(text: str) -> list[str]:
    """Parts between commas that no bracket or quote encloses."""
    parts, depth, last = [], 0, 0
    for piece in _PIECE.finditer(text):
        if piece[0] in _CLOSES:
            depth += 1
        elif piece[0] in ")]}":
            depth -= 1
        elif piece[0] == "," and depth == 0:
            parts.append(text[last : piece.start()].strip())
            last = piece.end()
    parts.append(text[last:].strip())
    return parts


def _attributes(text: str) -> dict[str, str]:
    """`, key=value, key={...}` as a dict; a part without a key belongs to the value before it."""
    attributes: dict[str, str] = {}
    key = None
    for part in split(text):
        opening = re.match(r"([A-Za-z_][\w.-]*)=(?!=)", part)
        # mesh['x'=2], device_ids=([2,4]T(1,0)) {'x'}: one value written with a comma
        if opening and not (opening[1] == "device_ids" and key == "replica_groups"):
            key = opening[1]
            attributes[key] = part[opening.end() :]
        elif key is not None and part:
            attributes[key] += f", {part}"
    return attributes


def _unquoted(text: str | None) -> str | None:
    if text is None:
        return None
    return text.strip('"').replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\")


def read_frames(head: Iterable[str]) -> dict[int, tuple[Frame, ...]]:
    """Stack frame id -> frames, innermost first, by the tables at the head of a module."""
    tables: dict[str, dict[int, str]] = {name: {} for name in _TABLES}
    table, places = dict[int, str](), {}
    for line in head:
        table = tables.get(line, table)
        if row := _TABLE_ROW.fullmatch(line):
            table[int(row[1])] = row[2]
    for number, row in tables["FileLocations"].items():
        values = {key: int(value) for key, value in _FIELD.findall(row)}
        file = _unquoted(tables["FileNames"].get(values.get("file_name_id", 0))) or ""
        function = _unquoted(tables["FunctionNames"].get(values.get("function_name_id", 0))) or ""
        places[number] = Frame(file, values.get("line", 0), function)
    links = {
        number: {key: int(value) for key, value in _FIELD.findall(row)}
        for number, row in tables["StackFrames"].items()
    }
    # The first frame has no parent: XLA writes that as 1 where it counts parents from 1, else as 0.
    offset = links.get(1, {}).get("parent_frame_id", 0)
    chains: dict[int, tuple[Frame, ...]] = {}
    for number in links:
        chain, at = [], number
        while at in links and len(chain) < min(len(links), _DEEPEST):
            chain.append(places[links[at]["file_location_id"]])
            at = links[at].get("parent_frame_id", 0) - offset
        chains[number] = tuple(chain)
    return chains


def _frames_of(metadata: dict[str, str], frames: dict[int, tuple[Frame, ...]]) -> tuple[Frame, ...]:
    if "stack_frame_id" in metadata:
        return frames.get(int(metadata["stack_frame_id"]), ())
    if "source_file" in metadata:
        return (
            Frame(_unquoted(metadata["source_file"]) or "", int(metadata.get("source_line", 0))),
        )
    return ()
