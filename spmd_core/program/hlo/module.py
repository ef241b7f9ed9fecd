"""A compiled program as values: its computations and instructions, read from HLO."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from spmd_core.base import LabError

# bits of an element; from xla/primitive_util.h
_BITS = {
    "pred": 8,
    "s2": 2,
    "s4": 4,
    "s8": 8,
    "s16": 16,
    "s32": 32,
    "s64": 64,
    "u2": 2,
    "u4": 4,
    "u8": 8,
    "u16": 16,
    "u32": 32,
    "u64": 64,
    "bf16": 16,
    "f16": 16,
    "f32": 32,
    "f64": 64,
    "c64": 64,
    "c128": 128,
    "f8e5m2": 8,
    "f8e4m3": 8,
    "f8e4m3fn": 8,
    "f8e4m3b11fnuz": 8,
    "f8e5m2fnuz": 8,
    "f8e4m3fnuz": 8,
    "f8e3m4": 8,
    "f8e8m0fnu": 8,
    "f4e2m1fn": 4,
    "s1": 1,
    "u1": 1,
}
# as `S(n)` in a TPU's layout; 1 is VMEM, 2, 4 and 6 are flags and scalar memory
HBM, HOST_MEMORY_SPACE = 0, 5


class HloError(LabError):
    """A compiled program that cannot be read; the message quotes the place."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An array's element type and dims; or a tuple, whose `parts` are shapes. Tokens and opaque
    values have neither.

    `minor_to_major` is the order in which dims are stored, fastest first; `tile` the sizes that the
    fastest dims are filled up to.
    """

    element: str
    dims: tuple[int, ...] = ()
    parts: tuple["Shape", ...] = ()
    memory_space: int = 0
    minor_to_major: tuple[int, ...] = ()
    tile: tuple[int, ...] = ()

    @property
    def arrays(self) -> tuple["Shape", ...]:
        """The arrays of a tuple, nested ones in order; an array itself; nothing of a token."""
        if self.element == "tuple":
            return tuple(array for part in self.parts for array in part.arrays)
        return () if self.element in ("token", "opaque") else (self,)

    @property
    def elements(self) -> int:
        """Elements of an array."""
        return math.prod(self.dims)

    @property
    def padded_bytes(self) -> int:
        """Bytes as stored: the minor dims padded to full tiles; of a tuple, of all its parts."""
        if self.element not in _BITS:
            return sum(part.padded_bytes for part in self.parts)
        sizes = (
            [self.dims[dim] for dim in self.minor_to_major]
            if self.minor_to_major
            else list(reversed(self.dims))
        )
        for place, step in enumerate(
            reversed(self.tile[: len(sizes)] if len(self.tile) <= len(sizes) else self.tile)
        ):
            if place < len(sizes):
                sizes[place] = -(-sizes[place] // step) * step
        return (math.prod(sizes) * _BITS[self.element] + 7) // 8

    @property
    def bytes(self) -> int:
        """Bytes without padding; of a tuple, of all its parts. HloError for an element type of
        unknown size.
        """
        if self.element in ("tuple", "token", "opaque"):
            return sum(part.bytes for part in self.parts)
        if self.element not in _BITS:
            raise HloError(
                f"element type {self.element!r} of a compiled program has no known size: add it "
                f"to hlo_module.py"
            )
        return (math.prod(self.dims) * _BITS[self.element] + 7) // 8


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in a source file."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `argument` is the raw text between its parentheses, `attributes` the raw
    texts behind them.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    argument: str = ""
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    is_root: bool = False
    op_name: str | None = None
    frames: tuple[Frame, ...] = ()  # innermost first

    @property
    def arrays(self) -> tuple[Shape, ...]:
        """The arrays of its result."""
        return self.shape.arrays

    @property
    def channel(self) -> int | None:
        """The channel of a collective."""
        text = self.attributes.get("channel_id")
        return int(text) if text else None

    def called(self) -> tuple[str, ...]:
        """Names of the computations that it runs, in order."""
        return tuple(
            name
            for key in (
                "calls",
                "to_apply",
                "body",
                "condition",
                "true_computation",
                "false_computation",
                "called_computations",
                "branch_computations",
            )
            if key in self.attributes
            for name in re.findall(r"[^%{}, ]+", self.attributes[key])
        )


@dataclass(frozen=True)
class Computation:
    """A computation: its instructions in the order in which they are written (the schedule, where
    there is one).
    """

    name: str
    instructions: tuple[Instruction, ...]
    is_entry: bool = False

    @cached_property
    def by_name(self) -> Mapping[str, Instruction]:
        """Instruction by its name."""
        return {instruction.name: instruction for instruction in self.instructions}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place of an instruction by its name."""
        return {name: at for at, name in enumerate(self.by_name)}

    @cached_property
    def users(self) -> Mapping[str, tuple[Instruction, ...]]:
        """The users of an instruction's value."""
        users: dict[str, list[Instruction]] = {
            instruction.name: [] for instruction in self.instructions
        }
        for instruction in self.instructions:
            for operand in dict.fromkeys(instruction.operands):
                users[operand].append(instruction)
        return {name: tuple(readers) for name, readers in users.items()}

    @cached_property
    def parameters(self) -> tuple[Instruction, ...]:
        """Parameters in order of their number."""
        return tuple(
            sorted(
                (i for i in self.instructions if i.opcode == "parameter"),
                key=lambda i: int(i.argument),
            )
        )

    @cached_property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        for instruction in self.instructions:
            if instruction.is_root:
                return instruction
        raise HloError(f"computation {self.name!r} of a compiled program has no root")


@dataclass(frozen=True)
class Module:
    """A compiled program. `partitions` and `replicas` are the devices that it runs on, as the
    compiler counts them.
    """

    name: str
    computations: tuple[Computation, ...]
    partitions: int = 1
    replicas: int = 1

    @cached_property
    def by_name(self) -> Mapping[str, Computation]:
        """Computation by its name."""
        return {computation.name: computation for computation in self.computations}

    @cached_property
    def started(self) -> frozenset[tuple[int | None, str]]:
        """(channel, opcode) of each collective that one fusion starts and others continue."""
        return frozenset(
            (operand.channel, operand.opcode)
            for computation in self.computations
            for each in computation.instructions
            if each.attributes.get("custom_call_target") == '"AsyncCollectiveStart"'
            for operand in (computation.by_name[name] for name in each.operands)
        )

    @cached_property
    def appliers(self) -> Counter[str]:
        """How many instructions apply a computation (as the arithmetic of a reduction), by name."""
        return Counter(
            each.attributes["to_apply"].lstrip("%")
            for computation in self.computations
            for each in computation.instructions
            if "to_apply" in each.attributes
        )

    def computation(self, name: str, caller: Instruction) -> Computation:
        """The computation that `caller` calls by this name; HloError where there is none."""
        if name not in self.by_name:
            raise HloError(
                f"instruction {caller.name!r} calls {name!r}, which the compiled "
                "program does not contain"
            )
        return self.by_name[name]

    def callee(self, instruction: Instruction, key: str = "calls") -> Computation | None:
        """The computation that an attribute of an instruction names."""
        text = instruction.attributes.get(key)
        return self.by_name.get(text.lstrip("%")) if text else None

    @property
    def entry(self) -> Computation:
        """Where the program begins."""
        for computation in self.computations:
            if computation.is_entry:
                return computation
        raise HloError(f"compiled program {self.name!r} has no entry computation")

    @property
    def device_count(self) -> int:
        """Partitions times replicas."""
        return self.partitions * self.replicas
