"""Trip counts of the loops of a compiled program."""

import json
import re

from spmd_core.program.hlo.module import Computation, Instruction, Module

_KNOWN = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)"?')
_KNOWN_ATTRIBUTE = re.compile(r'\{\s*"?n"?\s*[:=]\s*"?(\d+)"?')
_SAME_VALUE = ("copy", "bitcast", "convert", "reshape", "transpose", "copy-done", "copy-start")


def trip_count(module: Module, computation: Computation, loop: Instruction) -> int | None:
    """Iterations of a `while`: the compiler's own count, else derived from start, step and bound;
    None if unknown.
    """
    for key, pattern in (("backend_config", _KNOWN), ("known_trip_count", _KNOWN_ATTRIBUTE)):
        if match := pattern.search(loop.attributes.get(key, "")):
            return int(match[1])
    return _derive(module, computation, loop)


def _derive(module: Module, computation: Computation, loop: Instruction) -> int | None:
    """Count a loop `for (i = start; i < bound; i += step)` whose three numbers are constants."""
    condition = module.by_name.get(loop.attributes.get("condition", "").lstrip("%"))
    body = module.by_name.get(loop.attributes.get("body", "").lstrip("%"))
    if condition is None or body is None:
        return None
    compared = _compare(module, condition)
    if compared is None:
        return None
    index, direction, bound = compared
    start = _start(computation, loop, index)
    step = _step(module, body, index)
    if start is None or not step or direction not in ("LT", "LE", "GT", "GE"):
        return None
    distance = bound - start if direction in ("LT", "LE") else start - bound
    stride = step if direction in ("LT", "LE") else -step
    if stride <= 0:
        return None
    return max(0, -(-(distance + (direction in ("LE", "GE"))) // stride))


def _compare(module: Module, condition: Computation) -> tuple[int, str, int] | None:
    """(tuple index, direction, bound) of a condition that compares an element of the loop's state
    with a constant.
    """
    root, operands = _unfused(module, condition, condition.root)
    if root.opcode != "compare" or len(operands) != 2:
        return None
    left, bound = operands[0], _integer(operands[1])
    if left.opcode != "get-tuple-element" or bound is None:
        return None
    return int(left.attributes["index"]), root.attributes.get("direction", ""), bound


def _unfused(
    module: Module, outside: Computation, result: Instruction
) -> tuple[Instruction, list[Instruction]]:
    """The op that makes a result, where that is a fusion the op inside of it; and what produces its
    operands, followed out of the fusion through its parameters.
    """
    inside, fusion = outside, None
    if result.opcode == "fusion" and len(result.called()) == 1:
        fusion, inside = result, module.by_name[result.called()[0]]
        result = inside.root
    sources = [same_value(inside, inside.by_name[name]) for name in result.operands]
    return result, [
        same_value(outside, outside.by_name[fusion.operands[int(source.argument)]])
        if fusion is not None and source.opcode == "parameter"
        else source
        for source in sources
    ]


def same_value(computation: Computation, instruction: Instruction) -> Instruction:
    """What makes the value that an instruction hands on, in another place, shape or dtype."""
    while instruction.opcode in _SAME_VALUE and instruction.operands:
        instruction = computation.by_name[instruction.operands[0]]
    return instruction


def _integer(instruction: Instruction) -> int | None:
    if instruction.opcode != "constant" or instruction.shape.dims:
        return None
    try:
        value = json.loads(instruction.argument)
    except ValueError:
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _start(computation: Computation, loop: Instruction, index: int) -> int | None:
    state = same_value(computation, computation.by_name[loop.operands[0]])
    if state.opcode != "tuple" or index >= len(state.operands):
        return None
    return _integer(same_value(computation, computation.by_name[state.operands[index]]))


def _step(module: Module, body: Computation, index: int) -> int | None:
    state = body.root
    if state.opcode != "tuple" or index >= len(state.operands):
        return None
    changed = same_value(body, body.by_name[state.operands[index]])
    added, parts = _unfused(module, body, changed)
    if added.opcode != "add" or len(parts) != 2:
        return None
    own = [
        part.opcode == "get-tuple-element" and int(part.attributes["index"]) == index
        for part in parts
    ]
    steps = [_integer(part) for part in parts]
    if own[0] and steps[1] is not None:
        return steps[1]
    return steps[0] if own[1] else None
