"""The collective that a program requested, where the compiler emitted another kind.

It follows from the name of the call, from the operations around a sum, or from the ring of a
collective matmul.
"""

from collections.abc import Iterator

import numpy as np

from spmd_core.program.hlo.collective_ops import StartOp
from spmd_core.program.hlo.module import Computation, Instruction, Module

CALLS = {
    "psum": "all-reduce",
    "pmax": "all-reduce",
    "pmin": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "psum_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ppermute": "collective-permute",
}
_PRODUCTS = ("dot_general", "conv_general_dilated")  # by the last part of an op's name
_SAME_VALUE = (
    "bitcast",
    "copy",
    "copy-start",
    "copy-done",
    "convert",
    "reshape",
    "transpose",
    "get-tuple-element",
    "all-reduce-done",
    "async-done",
    "collective-permute-done",
)
_DEPTH = 12


def call_of(op_name: str | None) -> str | None:
    """The collective function of jax.lax that an op's name ends with, e.g. `psum`."""
    last = (op_name or "").rsplit("/", 1)[-1].split("[")[0]
    return next(
        (
            call
            for call in CALLS
            if last in (call, f"{call}2") or last.startswith(f"{call}_invariant")
        ),
        None,
    )


def asked(
    module: Module,
    start: StartOp,
    around: Computation,
    groups: np.ndarray,
    op_name: str | None,
    may_be_called: bool = True,
) -> str | None:
    """The requested kind of collective if it differs from `start.kind`.

    None if they are the same or the requested kind is unknown. `around` is the computation of
    `start.outer`; `groups` are those of the collective; `op_name` is the name that the program
    gives it. A call that names its collective decides, where the program may have called it over
    these devices. Otherwise a sum of which every member of a group keeps one part was a
    reduce-scatter, and a sum of arrays that are zero except for one part each was an all-gather
    (the compiler implements both as an all-reduce). Permutes in a ring around the parts of a matmul
    are the all-gather or reduce-scatter that the matmul needs.
    """
    call = call_of(op_name) if may_be_called else None
    if call is not None:
        return CALLS[call] if CALLS[call] != start.kind else None
    if start.kind == "collective-permute":
        return ring_of(module, start, around, groups, op_name)
    members = groups.shape[-1] if groups.ndim == 2 else 0
    if start.kind != "all-reduce" or members < 2:
        return None
    if _is_sliced(module, around, start.outer, members):
        return "reduce-scatter"
    return "all-gather" if _is_padded(module, around, start.outer, members) else None


def ring_of(
    module: Module,
    start: StartOp,
    around: Computation,
    pairs: np.ndarray,
    op_name: str | None,
) -> str | None:
    """What a permute of a collective matmul implements: an all-gather or a reduce-scatter.

    The first passes on shards of an operand to multiply with, the second partial sums of a matmul
    to add to. None for a permute that belongs to no matmul or no ring.
    """
    if (op_name or "").rsplit("/", 1)[-1] not in _PRODUCTS or ring_size(pairs) < 2:
        return None
    readers = {each.opcode for each, _ in _readers(module, around, start.outer, 0, _DEPTH)}
    if readers & {"dot", "convolution"}:
        return "all-gather"
    if "add" in readers:
        return "reduce-scatter"
    makers = _makers(module, around, start.outer, _DEPTH)
    return "reduce-scatter" if any(_multiplies(module, each) for each in makers) else "all-gather"


def ring_size(pairs: np.ndarray) -> int:
    """Devices of each ring that pairs [n, 2] of source and target form; 0 where they form none.

    >>> ring_size(np.array([[0, 1], [1, 2], [2, 0]]))
    3
    >>> ring_size(np.array([[0, 1], [1, 2]]))
    0
    """
    following = dict(pairs.tolist())
    sizes = set()
    for first in following:
        at, size = following[first], 1
        while at in following and at != first and size <= len(following):
            at, size = following[at], size + 1
        sizes.add(size if at == first else 0)
    return sizes.pop() if len(sizes) == 1 else 0


def _makers(
    module: Module,
    computation: Computation,
    value: Instruction,
    depth: int,
) -> Iterator[Instruction]:
    """The instructions that produce the operands of a value, looking through copies."""
    for name in value.operands:
        maker = computation.by_name[name]
        if maker.opcode in _SAME_VALUE and depth > 0:
            yield from _makers(module, computation, maker, depth - 1)
        else:
            yield maker


def _multiplies(module: Module, instruction: Instruction) -> bool:
    if instruction.opcode in ("dot", "convolution"):
        return True
    if instruction.opcode != "fusion":
        return False
    return any(
        _multiplies(module, each)
        for name in instruction.called()
        for each in module.by_name[name].instructions
    )


def _is_sliced(
    module: Module, computation: Computation, instruction: Instruction, members: int
) -> bool:
    """Whether every reader of the large arrays of a sum takes one of `members` parts."""
    large = max((shape.elements for shape in instruction.arrays), default=0)
    if large < members:
        return False
    readers = _readers(module, computation, instruction, large, _DEPTH)
    return bool(readers) and all(
        reader.opcode == "dynamic-slice" and reader.shape.elements * members == size
        for reader, size in readers
    )


def _readers(
    module: Module,
    computation: Computation,
    value: Instruction,
    least: int,
    depth: int,
) -> list[tuple[Instruction, int]]:
    """(reader of a value, its elements), looking through copies and into fusions.

    Arrays smaller than a thousandth of `least` are ignored, such as a bias that is summed in the
    same op.
    """
    readers: list[tuple[Instruction, int]] = []
    for user in computation.users[value.name]:
        arrays = (user if value.shape.element == "tuple" else value).arrays
        size = max((shape.elements for shape in arrays), default=0)
        if size * 1000 < least:
            continue
        if user.opcode in _SAME_VALUE and depth > 0:
            readers += _readers(module, computation, user, least, depth - 1)
        elif user.opcode == "fusion" and depth > 0 and (callee := module.callee(user)):
            for number, name in enumerate(user.operands):
                if name == value.name:
                    readers += _readers(module, callee, callee.parameters[number], least, depth - 1)
        else:
            readers.append((user, size))
    return readers


def _is_padded(
    module: Module,
    computation: Computation,
    instruction: Instruction,
    members: int,
) -> bool:
    """Whether the large operands of a sum are zeros into which one of `members` parts was written."""
    held = computation.by_name
    operands = [held[name] for name in instruction.operands if name in held]
    large = max((operand.shape.elements for operand in operands), default=0)
    padded = [
        _writes_part(module, computation, operand, members)
        for operand in operands
        if operand.shape.elements * 1000 >= large
    ]
    return bool(padded) and all(padded)


def _writes_part(
    module: Module,
    computation: Computation,
    value: Instruction,
    members: int,
    depth: int = _DEPTH,
) -> bool:
    held = computation.by_name
    if depth == 0:
        return False
    if value.opcode == "dynamic-update-slice":
        base, part = (held[name] for name in value.operands[:2])
        fits = part.shape.elements * members == value.shape.elements
        return fits and _is_zero(module, computation, base)
    if value.opcode in _SAME_VALUE and value.operands:
        return _writes_part(module, computation, held[value.operands[0]], members, depth - 1)
    if value.opcode == "fusion" and (callee := module.callee(value)):
        return _writes_part(module, callee, callee.root, members, depth - 1)
    return False


def _is_zero(module: Module, computation: Computation, value: Instruction) -> bool:
    """Whether it is a broadcast of zero. A fusion's parameter counts as one: nothing else is padded
    this way.
    """
    if value.opcode == "broadcast" and value.operands:
        source = computation.by_name[value.operands[0]]
        return source.opcode != "constant" or source.argument in ("0", "-0", "false")
    if value.opcode == "fusion" and (callee := module.callee(value)):
        return _is_zero(module, callee, callee.root)
    return value.opcode in ("parameter", "constant", "custom-call", *_SAME_VALUE)
