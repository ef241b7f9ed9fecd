"""Dependencies among the operations that take time."""

from collections.abc import Mapping

from spmd_core.program import Computation, Instruction

MOST = 8


class Needs:
    """Follows operands back through instructions that take no time to the operations that do.

    `at` numbers those operations by name; `instructions` has every instruction with its
    computation.
    """

    def __init__(
        self, at: Mapping[str, int], instructions: Mapping[str, tuple[Instruction, Computation]]
    ) -> None:
        self._at, self._instructions = at, instructions
        self._sources: dict[str, frozenset[int]] = {}

    def of(self, instruction: Instruction, computation: Computation) -> tuple[int, ...]:
        """Numbers of the operations that an instruction needs, the latest in the order last."""
        numbers = frozenset[int]()
        for name in instruction.operands:
            if name in computation.by_name:
                numbers |= self._source(name, computation)
        return tuple(sorted(numbers - {self._at.get(instruction.name)})[-MOST:])

    def _source(self, name: str, computation: Computation) -> frozenset[int]:
        """The operations that a value comes from; of one element of a tuple, of that element."""
        waiting = [name]
        while waiting:  # without recursion: chains are as long as programs
            at = waiting[-1]
            if at in self._sources:
                waiting.pop()
                continue
            inputs = self._inputs(computation.by_name[at], computation)
            missing = [each for each in inputs if each not in self._sources]
            if at in self._at or not missing:
                own = (
                    frozenset({self._at[at]})
                    if at in self._at
                    else frozenset[int]().union(*(self._sources[each] for each in inputs))
                )
                self._sources[at] = own
                waiting.pop()
            else:
                waiting += missing
        return self._sources[name]

    def _inputs(self, instruction: Instruction, computation: Computation) -> list[str]:
        if instruction.opcode == "get-tuple-element":
            tuple_ = computation.by_name.get(instruction.operands[0])
            index = int(instruction.attributes.get("index") or 0)
            if tuple_ is not None and tuple_.opcode == "tuple" and tuple_.name not in self._at:
                return [tuple_.operands[index]]
        return [each for each in instruction.operands if each in computation.by_name]
