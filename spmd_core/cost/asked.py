"""What a program asked for, where the compiler made another collective of it: by the name of the call, or by what surrounds a sum."""

from spmd_core.hlo.module import Computation, Instruction, Module

_CALLS = {"psum": "all-reduce", "pmax": "all-reduce", "pmin": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter",
          "psum_scatter": "reduce-scatter", "all_to_all": "all-to-all", "ppermute": "collective-permute"}
_SAME_VALUE = ("bitcast", "copy", "copy-start", "copy-done", "convert", "reshape", "transpose", "get-tuple-element", "all-reduce-done", "async-done")
_DEPTH = 12


def asked(module: Module, computation: Computation, instruction: Instruction, kind: str, op_name: str | None, members: int) -> str | None:
    """The kind of collective that was asked for, where `kind` is another; None where both are the same or nothing tells.

    A call that names its collective tells. Else a sum over `members` of which everyone keeps one part was a reduce-scatter, and a sum
    of arrays that are zero but for one part each was an all-gather: the compiler falls back on a sum for both.
    """
    last = (op_name or "").rsplit("/", 1)[-1].split("[")[0]
    named = next((wanted for call, wanted in _CALLS.items() if last == call or last.startswith(f"{call}_invariant") or last == f"{call}2"), None)
    if named is not None:
        return named if named != kind else None
    if kind != "all-reduce" or members < 2:
        return None
    if _is_sliced(module, computation, instruction, members):
        return "reduce-scatter"
    return "all-gather" if _is_padded(module, computation, instruction, members) else None


def _is_sliced(module: Module, computation: Computation, instruction: Instruction, members: int) -> bool:
    """Whether every reader of the large arrays of a sum takes one of `members` parts."""
    large = max((shape.elements for shape in instruction.arrays), default=0)
    if large < members:
        return False
    found = _readers(module, computation, instruction, large, _DEPTH)
    return bool(found) and all(reader.opcode == "dynamic-slice" and reader.shape.elements * members == size for reader, size in found)


def _readers(module: Module, computation: Computation, value: Instruction, least: int, depth: int) -> list[tuple[Instruction, int]]:
    """(who reads a value, its elements), seen through copies and into fusions; arrays smaller than a `least`-th part are left out."""
    found: list[tuple[Instruction, int]] = []
    for user in computation.users[value.name]:
        size = max((shape.elements for shape in (user if value.shape.element == "tuple" else value).arrays), default=0)
        if size * 1000 < least:  # a bias or a norm that was summed along
            continue
        if user.opcode in _SAME_VALUE and depth > 0:
            found += _readers(module, computation, user, least, depth - 1)
        elif user.opcode == "fusion" and depth > 0 and (callee := module.callee(user)):
            for number, name in enumerate(user.operands):
                if name == value.name:
                    found += _readers(module, callee, callee.parameters[number], least, depth - 1)
        else:
            found.append((user, size))
    return found


def _is_padded(module: Module, computation: Computation, instruction: Instruction, members: int) -> bool:
    """Whether the large operands of a sum are zeros into which one of `members` parts was written."""
    operands = [computation.by_name[name] for name in instruction.operands if name in computation.by_name]
    large = max((operand.shape.elements for operand in operands), default=0)
    told = [_writes_part(module, computation, operand, members) for operand in operands if operand.shape.elements * 1000 >= large]
    return bool(told) and all(told)


def _writes_part(module: Module, computation: Computation, value: Instruction, members: int, depth: int = _DEPTH) -> bool:
    if depth == 0:
        return False
    if value.opcode == "dynamic-update-slice":
        part = computation.by_name[value.operands[1]].shape
        return part.elements * members == value.shape.elements and _is_zero(module, computation, computation.by_name[value.operands[0]])
    if value.opcode in _SAME_VALUE and value.operands:
        return _writes_part(module, computation, computation.by_name[value.operands[0]], members, depth - 1)
    if value.opcode == "fusion" and (callee := module.callee(value)) and callee.root is not None:
        return _writes_part(module, callee, callee.root, members, depth - 1)
    return False


def _is_zero(module: Module, computation: Computation, value: Instruction) -> bool:
    """A broadcast of zero; what a fusion is given is taken for one, since nothing else is padded so."""
    if value.opcode == "broadcast" and value.operands:
        source = computation.by_name[value.operands[0]]
        return source.opcode != "constant" or source.argument in ("0", "-0", "false")
    if value.opcode == "fusion" and (callee := module.callee(value)) and callee.root is not None:
        return _is_zero(module, callee, callee.root)
    return value.opcode in ("parameter", "constant", "custom-call", *_SAME_VALUE)
