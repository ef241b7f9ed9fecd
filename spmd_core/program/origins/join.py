"""Joins the module of a propagation, which has no source lines, with the HLO that the compiler makes
of it, which has them.
"""

from dataclasses import dataclass, field

from spmd_core.program.hlo.module import Computation, Instruction, Module
from spmd_core.program.origins.graph import CONSTRAINTS, MANUAL, Graph, Op, Value

_OPCODES = {
    "dot_general": "dot",
    "broadcast_in_dim": "broadcast",
    "case": "conditional",
    "if": "conditional",
    "optimization_barrier": "opt-barrier",
}
Place = tuple[str, str]  # a computation and an instruction of it


@dataclass(slots=True)
class Joined:
    """Which instruction is which value. `refused` counts pairs of another kind or shape."""

    values: dict[Place, Value] = field(default_factory=dict)
    instructions: dict[int, Instruction] = field(default_factory=dict)  # by id of an op
    parameters: dict[int, Instruction] = field(default_factory=dict)  # by number of an argument
    refused: int = 0


def join(graph: Graph, module: Module) -> Joined:
    """Joins both from their results backward: an instruction is an op's if its users are joined, and
    its kind and shape are the op's.
    """
    return _Joiner(graph, module).joined


@dataclass(frozen=True, slots=True)
class _Call:
    """Where a computation is called, to follow its parameters to the caller's operands."""

    computation: Computation
    instruction: Instruction
    index: int  # of the computation among those that the instruction calls


class _Joiner:
    def __init__(self, graph: Graph, module: Module) -> None:
        self.graph, self.module, self.joined = graph, module, Joined()
        self._calls: dict[str, _Call] = {}
        self._number = {id(value): at for at, value in enumerate(graph.arguments)}
        self._loops: dict[int, tuple[Op, int]] = {
            id(argument): (op, at)
            for op in graph.ops
            if op.kind == "stablehlo.while"
            for region in op.regions
            for at, argument in enumerate(region.arguments)
        }
        self._waiting: list[tuple[Computation, Instruction, Value]] = []
        root = module.entry.root
        if root.opcode == "tuple":
            self._all(module.entry, root.operands, graph.returned)
        elif graph.returned:
            self._waiting.append((module.entry, root, graph.returned[0]))
        while self._waiting:
            self._pair(*self._waiting.pop())

    def _all(self, inside: Computation, names: tuple[str, ...], values: list[Value]) -> None:
        if len(names) != len(values):
            self.joined.refused += 1
            return
        for name, value in zip(names, values, strict=True):
            self._waiting.append((inside, inside.by_name[name], value))

    def _pair(self, inside: Computation, each: Instruction, value: Value) -> None:
        place = inside.name, each.name
        if place in self.joined.values:
            return
        self.joined.values[place] = value
        if each.opcode == "get-tuple-element":
            self._part(inside, each, value)
        elif each.opcode == "parameter":
            self._parameter(inside, each, value)
        elif value.op is None:
            self._through(inside, each, value)
        else:
            self._op(inside, each, value, value.op)

    def _through(self, inside: Computation, each: Instruction, value: Value) -> None:
        """A copy of what is joined with a value."""
        if _is_copy(inside, each):
            self._waiting.append((inside, inside.by_name[each.operands[0]], value))
        else:
            self._refuse(inside, each)

    def _refuse(self, inside: Computation, each: Instruction) -> None:
        self.joined.refused += 1
        self.joined.values.pop((inside.name, each.name), None)

    def _op(self, inside: Computation, each: Instruction, value: Value, op: Op) -> None:
        if op.kind == MANUAL:
            self._manual(inside, each, op)
            return
        is_copy = _is_copy(inside, each)
        if op.kind in CONSTRAINTS:
            if is_copy:
                self.joined.instructions.setdefault(id(op), each)
                self._waiting.append((inside, inside.by_name[each.operands[0]], op.operands[0]))
            else:  # the constraint left no instruction
                self.joined.values.pop((inside.name, each.name))
                self._waiting.append((inside, each, op.operands[0]))
            return
        if is_copy and _opcode(op) != each.opcode:
            self._through(inside, each, value)
            return
        if _opcode(op) != each.opcode or each.shape.dims not in ((), value.shape):
            self._refuse(inside, each)
            return
        self.joined.instructions.setdefault(id(op), each)
        if op.regions and each.opcode == "while":  # of one array
            self._loop(inside, each, op, 0, 0)
        elif op.regions and each.opcode == "conditional":
            self._regions(inside, each, op)
        elif each.opcode != "constant":
            self._all(inside, each.operands, op.operands[: len(each.operands)])

    def _manual(self, inside: Computation, each: Instruction, op: Op) -> None:
        """A shard_map: a call between the custom calls that enter and leave its shards."""
        target = each.attributes.get("custom_call_target", "")
        if each.opcode == "copy" or "ShardToFullShape" in target:
            self.joined.instructions.setdefault(id(op), each)
            self._waiting.append((inside, inside.by_name[each.operands[0]], op.results[0]))
            return
        if each.opcode != "call":
            self._refuse(inside, each)
            return
        for name, value in zip(each.operands, op.operands, strict=False):
            at = inside.by_name[name]
            while at.opcode == "copy" or "FullToShardShape" in at.attributes.get(
                "custom_call_target", ""
            ):
                at = inside.by_name[at.operands[0]]
            self._waiting.append((inside, at, value))

    def _part(self, inside: Computation, each: Instruction, value: Value) -> None:
        """An element of a tuple: of a loop, of an op with several results, of what a region gets."""
        index = int(each.attributes.get("index") or 0)
        of = inside.by_name[each.operands[0]]
        op = value.op
        if of.opcode == "parameter":
            self._entering(inside, of, index, value)
        elif of.opcode == "while" and op is not None and op.kind == "stablehlo.while":
            self.joined.instructions.setdefault(id(op), of)
            self._loop(inside, of, op, index, value.index)
        elif of.opcode == "opt-barrier" and op is not None and len(op.operands) > value.index:
            self.joined.instructions.setdefault(id(op), of)
            given = inside.by_name[of.operands[0]]
            names = given.operands if given.opcode == "tuple" else of.operands
            if index < len(names):
                self._waiting.append(
                    (inside, inside.by_name[names[index]], op.operands[value.index])
                )
        elif of.opcode == "call" and op is not None and op.kind == MANUAL:
            self._manual(inside, of, op)
        elif op is not None:
            self._op(inside, of, value, op)

    def _loop(
        self, inside: Computation, each: Instruction, op: Op, index: int, result: int
    ) -> None:
        """What a loop carries at one place: it begins with an operand, and the body returns it."""
        start = _element(inside, inside.by_name[each.operands[0]], index)
        if start is not None and result < len(op.operands):
            self._waiting.append((inside, start, op.operands[result]))
        for key, region in zip(("condition", "body"), op.regions, strict=False):
            called = self.module.callee(each, key)
            if called is None or not region.yields:
                continue
            self._calls.setdefault(called.name, _Call(inside, each, 0))
            if key == "condition":
                self._waiting.append((called, called.root, region.yields[0]))
            elif (end := _element(called, called.root, index)) is not None:
                self._waiting.append((called, end, region.yields[result]))

    def _regions(self, inside: Computation, each: Instruction, op: Op) -> None:
        called = [name for name in each.called() if name in self.module.by_name]
        for at, (name, region) in enumerate(zip(called, op.regions, strict=False)):
            branch = self.module.by_name[name]
            self._calls.setdefault(name, _Call(inside, each, at))
            if branch.root.opcode == "tuple":
                self._all(branch, branch.root.operands, region.yields)
            elif region.yields:
                self._waiting.append((branch, branch.root, region.yields[0]))
        if op.operands and each.operands:
            self._waiting.append((inside, inside.by_name[each.operands[0]], op.operands[0]))

    def _parameter(self, inside: Computation, each: Instruction, value: Value) -> None:
        if inside.is_entry and id(value) in self._number:
            self.joined.parameters.setdefault(self._number[id(value)], each)
        elif not inside.is_entry:
            self._entering(inside, each, 0, value)

    def _entering(self, inside: Computation, of: Instruction, index: int, value: Value) -> None:
        """An element of a region's parameter: what the loop carries, or a value of the caller."""
        if inside.is_entry:
            self._parameter(inside, of, value)
            return
        if (call := self._calls.get(inside.name)) is None:
            return
        outer, caller = call.computation, call.instruction
        if (carried := self._loops.get(id(value))) is not None:
            self._loop(outer, caller, carried[0], index, carried[1])
            return
        given = outer.by_name[caller.operands[0 if caller.opcode == "while" else 1 + call.index]]
        if given.opcode == "parameter" and given.shape.element == "tuple":
            self._entering(outer, given, index, value)
        elif (at := _element(outer, given, index)) is not None:
            self._waiting.append((outer, at, value))


def _element(inside: Computation, each: Instruction, index: int) -> Instruction | None:
    """An element of a tuple, where the tuple is made; an array itself."""
    if each.opcode == "tuple":
        return inside.by_name[each.operands[index]] if index < len(each.operands) else None
    return None if each.shape.element == "tuple" else each


def _opcode(op: Op) -> str:
    name = op.kind.rpartition(".")[2]
    return _OPCODES.get(name, name.replace("_", "-"))


def _is_copy(inside: Computation, each: Instruction) -> bool:
    if each.opcode in ("copy", "bitcast"):
        return True
    if each.opcode == "reshape":  # of a layout, where the dims remain
        return inside.by_name[each.operands[0]].shape.dims == each.shape.dims
    return "Sharding" in each.attributes.get("custom_call_target", "")
