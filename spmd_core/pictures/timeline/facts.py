"""Facts of a compiled program about the instructions that a profiler names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from spmd_core.facts import Collective
from spmd_core.pictures.timeline.of_walk import line_of, source_of
from spmd_core.program import HloError, Instruction, Module, kind_of, sites

MATMUL, COMPUTE, COPY = "matmul", "compute", "copy"
_PRODUCTS = ("dot", "convolution", "ragged-dot")
_COPIES = ("copy", "copy-start", "copy-done", "infeed", "outfeed")
# Instructions that only group others that a profiler records too
CONTAINERS = ("while", "call", "conditional")
_LIBRARIES = re.compile(r"matmul|gemm|\$dot|convolution|\$conv", re.I)
_NUMBERED = re.compile(r"[._]\d+$")
# Kernels of NCCL by their own names, and copies, where a profiler lost the instruction
_NCCL = re.compile(r"^ncclDevKernel_([A-Za-z]+)")
_NCCL_KINDS = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "SendRecv": "collective-permute",
    "Broadcast": "collective-broadcast",
}
_MOVES = ("Memcpy", "Memset")


@dataclass(frozen=True, slots=True)
class Fact:
    """An instruction: its kind of time, and its source.

    `groups` are the devices, by JAX's numbers, that take part together; pairs of a permute. What
    ends something asynchronous has none.
    `is_part`: the start or the end of something asynchronous.
    """

    kind: str
    op: str = ""
    source: str = ""
    line: str = ""
    nbytes: int | None = None
    groups: tuple[tuple[int, ...], ...] | None = None
    is_part: bool = False
    contains: bool = False


class ProgramFacts:
    """Looks up instructions of a compiled program; classifies unknown ones by their names."""

    def __init__(self, module: Module | None, collectives: Sequence[Collective] = ()) -> None:
        self._module = module
        self._collectives = {each.name: each for each in collectives if each.name}
        self._known: dict[str, Fact] = {}

    def of(self, name: str) -> Fact:
        """The facts of an instruction."""
        if name not in self._known:
            known = self._instructions.get(name)
            self._known[name] = self._read(known) if known else _by_name(name)
        return self._known[name]

    @cached_property
    def _instructions(self) -> Mapping[str, Instruction]:
        if self._module is None:
            return {}
        return {
            each.name: each
            for computation in self._module.computations
            for each in computation.instructions
        }

    @cached_property
    def _started(self) -> Mapping[str, str]:
        """Instruction that starts a collective, wrapped ones included -> its kind."""
        try:
            return (
                {site.start.outer.name: site.start.kind for site in sites(self._module)}
                if self._module
                else {}
            )
        except HloError:
            return {}

    def _read(self, each: Instruction) -> Fact:
        start = each.operands[0] if each.opcode.endswith("-done") and each.operands else each.name
        kind = self._started.get(start) or kind_of(self._opcode(start))
        known = self._collectives.get(start)
        inner = self._inner(each)
        is_part = each.opcode.endswith(("-start", "-done"))
        op = (known.op if known else None) or inner.op_name or each.op_name or ""
        return Fact(
            kind or self._plain_kind(each),
            op,
            (known.source if known else None) or source_of(inner) or source_of(each),
            line_of(each),
            nbytes=known.bytes if known else None,
            groups=known.groups if known and not each.opcode.endswith("-done") else None,
            is_part=is_part,
            contains=each.opcode in CONTAINERS,
        )

    def _opcode(self, name: str) -> str:
        known = self._instructions.get(name)
        return known.opcode if known else ""

    def _inner(self, each: Instruction) -> Instruction:
        """The opcode that characterizes a fusion: its matmul, else its root."""
        callee = self._module.callee(each) if self._module and each.opcode == "fusion" else None
        if callee is None:
            return each
        product = next((inner for inner in callee.instructions if inner.opcode in _PRODUCTS), None)
        return product or (each if each.op_name else callee.root)

    def _plain_kind(self, each: Instruction) -> str:
        target = each.attributes.get("custom_call_target", "")
        if self._inner(each).opcode in _PRODUCTS or _LIBRARIES.search(target):
            return MATMUL
        return COPY if each.opcode in _COPIES else COMPUTE


def _by_name(name: str) -> Fact:
    """Facts from the name alone: for an instruction of another program."""
    if nccl := _NCCL.match(name):
        return Fact(_NCCL_KINDS.get(nccl[1], "all-reduce"))
    base = name
    while _NUMBERED.search(base):
        base = _NUMBERED.sub("", base)
    kind = kind_of(base.removesuffix("-done"))
    if base in _COPIES or base.startswith(_MOVES):
        plain = COPY
    elif base in _PRODUCTS or _LIBRARIES.search(base):
        plain = MATMUL
    else:
        plain = COMPUTE
    return Fact(
        kind or plain, is_part=base.endswith(("-start", "-done")), contains=base in CONTAINERS
    )
