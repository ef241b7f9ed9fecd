"""Follows a property of values through a program: through its tuples, loops, calls and branches."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from spmd_core.program.hlo.module import Computation, Instruction, Module, Shape

T = TypeVar("T")
_ROUNDS = 3  # in which what a loop carries is settled


class Flow(Generic[T]):
    """A property of each array; subclasses have the rule of an operation. A tuple has a list."""

    rounds = _ROUNDS

    def __init__(self, module: Module) -> None:
        self.module = module

    def of_array(
        self, each: Instruction, of: Computation, operands: Sequence[T], shapes: Sequence[Shape]
    ) -> T:
        """The property of what an operation returns."""
        raise NotImplementedError

    def of_arrays(
        self, each: Instruction, operands: Sequence[T], shapes: Sequence[Shape]
    ) -> list[T]:
        """The same of an operation with several results, such as a sort."""
        raise NotImplementedError

    def union(self, one: T, other: T) -> T:
        """The property of what comes from either of two values."""
        raise NotImplementedError

    def judge(self, each: Instruction, of: Computation, known: dict[str, list[T]]) -> None:
        """Look at an instruction; what it changes in `known` holds for its users."""

    def computation(self, of: Computation, given: Sequence[list[T]]) -> list[T]:
        """The property of what a computation returns, by that of its parameters."""
        known: dict[str, list[T]] = {}
        for each in of.instructions:
            is_given = each.opcode == "parameter"
            known[each.name] = (
                list(given[int(each.argument)]) if is_given else self._parts(each, of, known)
            )
            self.judge(each, of, known)
        return known[of.root.name]

    def _parts(self, each: Instruction, of: Computation, known: Mapping[str, list[T]]) -> list[T]:
        operands = [known[name] for name in each.operands]
        match each.opcode:
            case "tuple":
                return [part for parts in operands for part in parts]
            case "get-tuple-element":
                index = int(each.attributes.get("index") or 0)
                if index < len(operands[0]):
                    return [operands[0][index]]
                operands = []
            case "opt-barrier" | "optimization-barrier":
                return operands[0]
            case "while":
                return self.loop(each, of, operands[0])
            case "call" | "conditional":
                if called := self.called(each, operands):
                    return called
                operands = []
        firsts = [parts[0] for parts in operands if parts]
        shapes = [of.by_name[name].shape for name in each.operands]
        if each.shape.element == "tuple":
            return self.of_arrays(each, firsts, shapes)
        return [self.of_array(each, of, firsts, shapes)]

    def loop(self, each: Instruction, of: Computation, carried: list[T]) -> list[T]:
        """What a loop carries: what enters it, with what its body adds."""
        body = self.module.callee(each, "body")
        if body is None:
            return carried
        for _ in range(self.rounds):
            returned = self.computation(body, [carried])
            after = [self.union(a, b) for a, b in zip(carried, returned, strict=True)]
            if after == carried:
                break
            carried = after
        return carried

    def called(self, each: Instruction, operands: Sequence[list[T]]) -> list[T]:
        """The result of what is called; of branches, which take an operand each, of all."""
        names = [name for name in each.called() if name in self.module.by_name]
        given = [list(operands)] if each.opcode == "call" else [[one] for one in operands[1:]]
        results = [
            self.computation(self.module.by_name[name], one)
            for name, one in zip(names, given, strict=False)
        ]
        joined = results[0] if results else []
        for other in results[1:]:
            joined = [self.union(a, b) for a, b in zip(joined, other, strict=True)]
        return joined
