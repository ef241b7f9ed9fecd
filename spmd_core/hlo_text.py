"""Reads the text of a compiled HLO module: computations, instructions, shapes with layouts, attributes. Pure Python."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

DTYPE_BITS = {
    "pred": 8, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32, "u32": 32, "s64": 64, "u64": 64,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128, "f4e2m1fn": 4, "f8e8m0fnu": 8, "token": 0, "opaque": 0,
}
HBM, VMEM, HOST = 0, 1, 5  # memory spaces, as `S(n)` in a layout; 2, 4 and 6 are flags and scalar memory
_SHAPE = re.compile(r"([a-z][a-z0-9]*)\[([0-9,<=]*)\](?:\{([0-9,]*)(?::([^{}]*))?\})?")
_NAME = re.compile(r"%([\w.\-]+)")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = ")
_OPCODE = re.compile(r"\s*([a-z][a-z0-9\-]*)\(")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_KERNEL_BODY = re.compile(r'"body":"[^"]*"')
_KEY = re.compile(r",\s*([a-z_]+)=")


@dataclass(frozen=True, slots=True)
class Shape:
    """One array: dtype, dims, the order of dims from minor to major, the first tile, the memory space."""

    dtype: str
    dims: tuple[int, ...]
    minor_to_major: tuple[int, ...] = ()
    tile: tuple[int, ...] = ()
    space: int = HBM

    @property
    def elements(self) -> int:
        """Product of the dims."""
        count = 1
        for dim in self.dims:
            count *= dim
        return count

    @property
    def bytes(self) -> int:
        """Bytes of the elements, padding left aside."""
        return self.elements * bits_of(self.dtype) // 8

    @property
    def padded_bytes(self) -> int:
        """Bytes as stored: the minor dims are filled up to whole tiles."""
        order = self.minor_to_major or tuple(reversed(range(len(self.dims))))
        sizes = [self.dims[dim] for dim in order]
        for place, step in enumerate(reversed(self.tile)):
            if place < len(sizes):
                sizes[place] = -(-sizes[place] // step) * step
        count = 1
        for size in sizes:
            count *= size
        return count * bits_of(self.dtype) // 8


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction. `shapes` has one entry per array of the result; `rest` is the attributes' text."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    literal: str
    rest: str
    is_root: bool
    computation: str
    position: int
    is_tuple: bool
    _attributes: dict[str, str] | None = field(default=None, repr=False)

    @property
    def shape(self) -> Shape:
        """The first array of the result."""
        return self.shapes[0]

    @property
    def attributes(self) -> dict[str, str]:
        """Attribute -> its text; computations without their percent sign."""
        if self._attributes is None:
            self._attributes = dict(split_attributes(self.rest))
        return self._attributes

    def attribute(self, name: str) -> str | None:
        """The text of an attribute, or None."""
        return self.attributes.get(name)

    def called(self, name: str = "calls") -> str | None:
        """The computation that an attribute names."""
        text = self.attributes.get(name)
        return text.lstrip("%") if text else None

    @property
    def op_name(self) -> str | None:
        """The JAX operation that this instruction comes from."""
        match = re.search(r'op_name="([^"]*)"', self.rest)
        return match[1] if match else None

    @property
    def stack_frame(self) -> int | None:
        """Index into the module's stack frames."""
        match = re.search(r"stack_frame_id=(\d+)", self.rest)
        return int(match[1]) if match else None

    @property
    def estimated_cycles(self) -> int | None:
        """The compiler's own estimate, where it made one."""
        match = re.search(r'"estimated_cycles":"(\d+)"', self.rest)
        return int(match[1]) if match else None

    @property
    def backend_config(self) -> dict[str, Any]:
        """The backend's JSON object; empty where there is none or it is not JSON."""
        text = self.attributes.get("backend_config", "")
        try:
            value = json.loads(text)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def channel(self) -> int | None:
        """The channel id of a collective."""
        text = self.attributes.get("channel_id")
        return int(text) if text else None

    @property
    def bytes(self) -> int:
        """Bytes of all arrays of the result."""
        return sum(shape.bytes for shape in self.shapes)


@dataclass(slots=True, eq=False)
class Computation:
    """Instructions in their order, which is the schedule where the module is scheduled."""

    name: str
    instructions: dict[str, Instruction] = field(default_factory=dict)
    root: Instruction | None = None

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions.values())

    def __getitem__(self, name: str) -> Instruction:
        return self.instructions[name]

    @property
    def parameters(self) -> list[Instruction]:
        """Parameters in order of their number."""
        return sorted((i for i in self if i.opcode == "parameter"), key=lambda i: int(i.literal))

    def users(self) -> dict[str, list[Instruction]]:
        """Instruction name -> the instructions that use it."""
        found: dict[str, list[Instruction]] = {name: [] for name in self.instructions}
        for instruction in self:
            for operand in dict.fromkeys(instruction.operands):
                if operand in found:
                    found[operand].append(instruction)
        return found


@dataclass(slots=True, eq=False)
class Module:
    """A module: computations by name, the entry, and the header's text."""

    name: str
    header: str
    computations: dict[str, Computation]
    entry: Computation
    preamble: str = ""

    @property
    def is_scheduled(self) -> bool:
        """Whether the order of instructions is the order of execution."""
        return "is_scheduled=true" in self.header

    def called(self, instruction: Instruction, name: str = "calls") -> Computation | None:
        """The computation that an instruction calls."""
        found = instruction.called(name)
        return self.computations.get(found) if found else None


def bits_of(dtype: str) -> int:
    """Bits of one element of a dtype as HLO spells it."""
    if dtype in DTYPE_BITS:
        return DTYPE_BITS[dtype]
    if dtype.startswith("f8"):
        return 8
    raise ValueError(f"HLO dtype {dtype!r} has no known width: add it to DTYPE_BITS")


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """All arrays in a shape's text, tuples flattened in order."""
    return tuple(_shape(match) for match in _SHAPE.finditer(text) if match[1] in DTYPE_BITS or match[1].startswith("f8"))


def _shape(match: re.Match[str]) -> Shape:
    dims = tuple(int(part.lstrip("<=")) for part in match[2].split(",") if part)
    order = tuple(int(part) for part in (match[3] or "").split(",") if part)
    layout = match[4] or ""
    tile = re.search(r"T\(([0-9,]+)\)", layout)
    space = re.search(r"S\((\d+)\)", layout)
    return Shape(match[1], dims, order, tuple(int(part) for part in tile[1].split(",")) if tile else (), int(space[1]) if space else HBM)


def closing(text: str, start: int) -> int:
    """Index of the bracket that closes the one at `start`; quotes are skipped."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    stack: list[str] = []
    position = start
    while position < len(text):
        char = text[position]
        if char == '"':
            position += 1
            while position < len(text) and text[position] != '"':
                position += 2 if text[position] == "\\" else 1
        elif char in pairs:
            stack.append(pairs[char])
        elif stack and char == stack[-1]:
            stack.pop()
            if not stack:
                return position
        position += 1
    raise ValueError(f"bracket not closed in {text[start:start + 80]!r}")


def split_attributes(text: str) -> Iterator[tuple[str, str]]:
    """`, key=value, key=value` at depth 0, values as text."""
    depth_from = 0
    while match := _KEY.search(text, depth_from):
        start = match.end()
        end = start
        while end < len(text) and text[end] != ",":
            if text[end] in "({[":
                end = closing(text, end)
            elif text[end] == '"':
                end += 1
                while end < len(text) and text[end] != '"':
                    end += 2 if text[end] == "\\" else 1
            end += 1
        yield match[1], text[start:end].strip()
        depth_from = end


def _logical_lines(text: str) -> Iterator[str]:
    """Lines, with the raw newlines of kernel metadata joined: a continuation is neither indented as an instruction nor a lone `}`."""
    held: str | None = None
    for line in text.split("\n"):
        if held is not None and _INSTRUCTION.match(held) and line != "}" and not _INSTRUCTION.match(line):
            held += " " + line
            continue
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held


def _instruction(line: str, computation: str, position: int) -> Instruction | None:
    match = _INSTRUCTION.match(line)
    if not match:
        return None
    start = match.end()
    is_tuple = line[start] == "("
    shape_end = closing(line, start) + 1 if is_tuple else line.index(" ", start)
    opcode = _OPCODE.match(line, shape_end)
    if opcode is None:
        raise ValueError(f"no opcode in {line[:120]!r}")
    close = closing(line, opcode.end() - 1)
    inside = line[opcode.end():close]
    operands = () if opcode[1] in ("constant", "parameter") else tuple(_NAME.findall(inside))
    return Instruction(match[2], opcode[1], parse_shapes(line[start:shape_end]), operands, inside, line[close + 1:], bool(match[1]), computation,
                       position, is_tuple)


def parse_module(text: str) -> Module:
    """The module that a text describes; ValueError where a line cannot be read."""
    text = _COMMENT.sub("", _KERNEL_BODY.sub('"body":""', text))
    computations: dict[str, Computation] = {}
    entry: Computation | None = None
    current: Computation | None = None
    header, preamble = "", []
    for line in _logical_lines(text):
        if not header and line.startswith("HloModule"):
            header = line
        elif current is None:
            if match := _COMPUTATION.match(line):
                current = Computation(match[2])
                computations[current.name] = current
                entry = current if match[1] else entry
            elif header:
                preamble.append(line)
        elif line.startswith("}"):
            current = None
        else:
            instruction = _instruction(line, current.name, len(current.instructions))
            if instruction is not None:
                current.instructions[instruction.name] = instruction
                current.root = instruction if instruction.is_root else current.root
    if entry is None:
        raise ValueError("the text has no ENTRY computation: it is not an HLO module")
    return Module(header.split(",")[0].removeprefix("HloModule").strip(), header, computations, entry, "\n".join(preamble))


class Callers:
    """Who calls whom, for looking upward through a module."""

    def __init__(self, module: Module) -> None:
        self.module = module

    @cached_property
    def of(self) -> dict[str, list[Instruction]]:
        """Computation name -> the instructions that call it."""
        found: dict[str, list[Instruction]] = {}
        for computation in self.module.computations.values():
            for instruction in computation:
                for key in ("calls", "body", "condition", "to_apply"):
                    if called := instruction.called(key) if f"{key}=" in instruction.rest else None:
                        found.setdefault(called, []).append(instruction)
        return found
