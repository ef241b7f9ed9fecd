"""How often a loop runs: limit from its condition, start from its operand, step from its body."""

import re

from spmd_core.hlo_text import Computation, Instruction, Module

_LOOK = ("copy", "bitcast", "convert", "copy-done", "copy-start", "reshape")


def trip_count(module: Module, loop: Instruction, computation: Computation) -> int | None:
    """Iterations of a while loop, or None where the text does not tell."""
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.rest)
    if known:
        return int(known[1])
    condition, body = module.called(loop, "condition"), module.called(loop, "body")
    if condition is None or body is None or condition.root is None:
        return None
    compare, inside, bindings = _comparison(module, condition)
    if compare is None:
        return None
    sides = [_source(module, inside, name, bindings) for name in compare.operands]
    index = next((side[1] for side in sides if side[0] == "element"), None)
    limit = next((side[1] for side in sides if side[0] == "constant"), None)
    if index is None:
        return None
    if limit is None:  # the limit itself travels in the loop's tuple
        elements = [side[1] for side in sides if side[0] == "element"]
        values = {number: _initial(module, loop, computation, number) for number in elements}
        moving = [number for number in elements if _step(module, body, number) not in (0, None)]
        if len(moving) != 1 or len(elements) != 2:
            return None
        index = moving[0]
        limit = values[next(number for number in elements if number != index)]
    start, step = _initial(module, loop, computation, index), _step(module, body, index)
    if limit is None or start is None or not step:
        return None
    direction = compare.attribute("direction") or "LT"
    span = (limit - start) if step > 0 else (start - limit)
    span += 1 if direction in ("LE", "GE") else 0
    return max(0, -(-span // abs(step)))


def _comparison(module: Module, condition: Computation) -> tuple[Instruction | None, Computation, dict[str, tuple[Computation, str]]]:
    """The compare that decides, the computation that it is in, and what that computation's parameters stand for."""
    root, inside = condition.root, condition
    bindings: dict[str, tuple[Computation, str]] = {}
    while root is not None and root.opcode == "fusion":
        callee = module.called(root)
        if callee is None:
            return None, inside, bindings
        bindings = {parameter.name: (inside, root.operands[int(parameter.literal)]) for parameter in callee.parameters}
        root, inside = callee.root, callee
    return (root if root is not None and root.opcode == "compare" else None), inside, bindings


def _source(module: Module, inside: Computation, name: str, bindings: dict[str, tuple[Computation, str]]) -> tuple[str, int | None]:
    """("constant", value), ("element", number in the loop's tuple) or ("other", None)."""
    for _ in range(16):
        instruction = inside.instructions.get(name)
        if instruction is None:
            return "other", None
        if instruction.opcode == "constant":
            return "constant", _integer(instruction)
        if instruction.opcode == "get-tuple-element":
            return "element", int(instruction.attribute("index") or 0)
        if instruction.opcode == "parameter" and name in bindings:
            inside, name = bindings[name]
            bindings = {}
        elif instruction.opcode in _LOOK and instruction.operands:
            name = instruction.operands[0]
        else:
            return "other", None
    return "other", None


def _integer(instruction: Instruction) -> int | None:
    try:
        return int(instruction.literal)
    except ValueError:
        return None


def _initial(module: Module, loop: Instruction, computation: Computation, number: int) -> int | None:
    """The value that an element of the loop's tuple starts with."""
    init = computation.instructions.get(loop.operands[0])
    if init is None or init.opcode != "tuple":
        return None
    kind, value = _source(module, computation, init.operands[number], {})
    return value if kind == "constant" else None


def _step(module: Module, body: Computation, number: int) -> int | None:
    """What one iteration adds to an element of the loop's tuple; 0 where it is passed on."""
    if body.root is None or body.root.opcode != "tuple":
        return None
    return _added(module, body, body.root.operands[number], number, 0, {})


def _added(module: Module, inside: Computation, name: str, number: int, depth: int, bindings: dict[str, tuple[Computation, str]]) -> int | None:
    instruction = inside.instructions.get(name)
    if instruction is None or depth > 24:
        return None
    if instruction.opcode == "get-tuple-element":
        return 0 if int(instruction.attribute("index") or -1) == number else None
    if instruction.opcode == "parameter" and name in bindings:
        outer, outer_name = bindings[name]
        return _added(module, outer, outer_name, number, depth + 1, {})
    if instruction.opcode in _LOOK and instruction.operands:
        return _added(module, inside, instruction.operands[0], number, depth + 1, bindings)
    if instruction.opcode == "fusion" and (callee := module.called(instruction)) and callee.root is not None:
        inner = {parameter.name: (inside, instruction.operands[int(parameter.literal)]) for parameter in callee.parameters}
        return _added(module, callee, callee.root.name, number, depth + 1, inner)
    if instruction.opcode in ("add", "subtract"):
        sign = 1 if instruction.opcode == "add" else -1
        for base, step in ((0, 1), (1, 0)):
            kind, value = _source(module, inside, instruction.operands[step], bindings)
            if kind == "constant" and value is not None:
                before = _added(module, inside, instruction.operands[base], number, depth + 1, bindings)
                return None if before is None else before + sign * value
    return None
