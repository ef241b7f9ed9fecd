"""Where the value of a collective comes from and who reads it, through whatever only moves it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spmd_core.program.hlo.collective_ops import Site
from spmd_core.program.hlo.module import Instruction, Module
from spmd_core.program.ir.needed import ELEMENTWISE

_MOVES = frozenset(
    (
        "bitcast",
        "copy",
        "transpose",
        "reshape",
        "convert",
        "slice",
        "dynamic-slice",
        "concatenate",
        "pad",
        "copy-start",
        "copy-done",
        "broadcast",
        "all-gather",
        "all-gather-start",
        "all-gather-done",
        "all-to-all",
        "collective-permute",
        "collective-permute-start",
        "collective-permute-done",
        "get-tuple-element",
        "tuple",
        "parameter",
        "constant",
        "partition-id",
        "optimization-barrier",
    )
)
_INDEX_ARITHMETIC = frozenset(("multiply", "add", "compare", "select", "clamp"))


@dataclass(frozen=True, slots=True)
class Flow:
    """The data flow of a compiled program around its collectives."""

    module: Module

    def maker(self, site: Site) -> Instruction | None:
        """The instruction, or the parameter, whose one value a collective moves; None where it
        carries several.
        """
        at = site.start.outer
        for _ in site.computation.instructions:
            sources = {
                name
                for name in at.operands
                if site.computation.by_name[name].opcode not in ("constant", "partition-id")
            }
            if len(sources) != 1:
                return None if at is site.start.outer or self.only_moves(at) else at
            at = site.computation.by_name[sources.pop()]
            if at.opcode == "parameter" or not self.only_moves(at):
                return at
        return None

    def readers(self, site: Site) -> Iterator[Instruction]:
        """The instructions that compute with what a collective moved, in their order."""
        return self._reached(site, self.only_moves)

    def result(self, site: Site) -> int | None:
        """The number of the program's result that a collective's value becomes, element by element;
        None where it becomes several, or something else.
        """
        if not site.computation.is_entry or any(self._reached(site, self._keeps_elements)):
            return None
        root, numbers, seen = site.computation.root, set[int](), {site.start.outer.name}
        for each in site.computation.instructions:  # operands come before their users
            if not seen & set(each.operands) and each.name not in seen:
                continue
            seen.add(each.name)
            if each is root and each.opcode != "tuple":
                numbers.add(0)
            elif each is root:
                numbers |= {at for at, name in enumerate(each.operands) if name in seen}
        return numbers.pop() if len(numbers) == 1 else None

    def _reached(self, site: Site, passes: Callable[[Instruction], bool]) -> Iterator[Instruction]:
        """The first instructions that a collective's value comes to that do not pass it on."""
        seen = {site.start.outer.name}
        for each in site.computation.instructions:
            if seen & set(each.operands):
                if passes(each):
                    seen.add(each.name)
                else:
                    yield each

    def only_moves(self, instruction: Instruction) -> bool:
        """Whether it computes nothing with its value; arithmetic of indices in a fusion may be."""
        return self._consists_of(instruction, lambda each: each.opcode in _MOVES)

    def _keeps_elements(self, instruction: Instruction) -> bool:
        """Whether it only moves values, or makes each element of the same elements."""
        return self._consists_of(
            instruction, lambda each: each.opcode in _MOVES or each.opcode in ELEMENTWISE
        )

    def _consists_of(self, instruction: Instruction, fits: Callable[[Instruction], bool]) -> bool:
        if instruction.opcode != "fusion":
            return fits(instruction)
        inner = [
            each for name in instruction.called() for each in self.module.by_name[name].instructions
        ]
        return all(
            fits(each) or (each.opcode in _INDEX_ARITHMETIC and each.shape.element[0] in "su")
            for each in inner
        )
