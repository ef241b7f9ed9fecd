"""HBM bytes that an instruction moves: slices and gathered rows as such, in-place updates as
updates, what is in VMEM not at all.
"""

from collections.abc import Mapping

from spmd_core.program import HBM, HOST_MEMORY_SPACE, Computation, Instruction, Module, Shape

# opcode -> the operand that it writes into its first operand, which stays where it is
IN_PLACE = {"dynamic-update-slice": 1, "scatter": 2}
MOVES = ("copy", "transpose")  # bytes to another place, where they stand alone
# inside a fusion: what is read through them is what their reader reads
RELABELS = ("bitcast", "reshape", "pad", *MOVES)


def hbm_bytes(shape: Shape) -> int:
    """Bytes of an array as stored, 0 unless it is in HBM."""
    return shape.padded_bytes if shape.memory_space == HBM else 0


def moved_bytes(module: Module, instruction: Instruction, computation: Computation) -> int:
    """HBM bytes read and written by one instruction."""
    if instruction.opcode == "fusion" and (callee := module.callee(instruction)):
        return _fusion_bytes(module, instruction, computation, callee)
    operands = [
        computation.by_name[name] for name in instruction.operands if name in computation.by_name
    ]
    read = [sum(hbm_bytes(shape) for shape in operand.arrays) for operand in operands]
    if instruction.opcode in ("dynamic-slice", "slice"):
        in_hbm = bool(operands) and operands[0].shape.memory_space == HBM
        return (instruction.shape.padded_bytes if in_hbm else 0) + hbm_bytes(instruction.shape)
    if instruction.opcode == "gather":  # of its rows alone
        return sum(read[1:]) + 2 * hbm_bytes(instruction.shape)
    if instruction.opcode == "async-start":  # has its operand among its results
        return sum(hbm_bytes(shape) for shape in instruction.arrays)
    if update_at := IN_PLACE.get(instruction.opcode):
        update = operands[update_at].shape
        return read[update_at] + (
            update.padded_bytes if instruction.shape.memory_space == HBM else 0
        )
    if instruction.opcode in (
        "copy-start",
        "slice-start",
        "dynamic-slice-start",
        "dynamic-update-slice-start",
    ):
        return async_copy_bytes(instruction, operands)[0]
    return sum(read) + sum(hbm_bytes(shape) for shape in instruction.arrays)


def async_copy_bytes(instruction: Instruction, operands: list[Instruction]) -> tuple[int, int]:
    """(HBM bytes, host bytes) of an asynchronous copy or slice: what is transferred, once per side."""
    spaces = {
        shape.memory_space
        for operand in operands
        for shape in operand.arrays
        if shape.elements > 64
    }
    spaces |= {shape.memory_space for shape in instruction.arrays if shape.elements > 64}
    sizes = [
        shape.padded_bytes
        for shape in instruction.arrays
        if shape.elements > 1 and shape.element != "u32"
    ]
    if instruction.opcode == "dynamic-update-slice-start" and len(operands) > 1:
        sizes = [operands[1].shape.padded_bytes]
    amount = min(sizes, default=0)
    return (amount if HBM in spaces else 0), (amount if HOST_MEMORY_SPACE in spaces else 0)


def _fusion_bytes(
    module: Module, instruction: Instruction, computation: Computation, callee: Computation
) -> int:
    users = callee.users
    passed = _passed_through(callee)
    total = 0
    for parameter in callee.parameters:
        number = int(parameter.argument)
        outer = (
            computation.by_name.get(instruction.operands[number])
            if number < len(instruction.operands)
            else None
        )
        space = (
            outer.shape.memory_space
            if outer is not None and outer.shape.element != "tuple"
            else parameter.shape.memory_space
        )
        if space == HBM and parameter.name not in passed:
            total += _read_bytes(module, callee, users, parameter)
    root = callee.root
    assert root is not None
    parts = [callee.by_name[name] for name in root.operands] if root.opcode == "tuple" else [root]
    return total + sum(
        _written_bytes(module, callee, part)
        for part, shape in zip(parts, instruction.arrays, strict=False)
        if shape.memory_space == HBM and part.opcode != "parameter" and not _is_collective(part)
    )


def _passed_through(callee: Computation) -> set[str]:
    """Parameters that only go on to the root tuple, or into a collective that another op finishes."""
    passed = set()
    users = callee.users
    for parameter in callee.parameters:
        used_by = users[parameter.name]
        if used_by and all(
            (user.is_root and user.opcode == "tuple")
            or _is_collective(user)
            or user.opcode == "custom-call"
            for user in used_by
        ):
            passed.add(parameter.name)
    return passed


def _is_collective(instruction: Instruction) -> bool:
    return instruction.opcode in (
        "all-gather",
        "all-reduce",
        "reduce-scatter",
        "all-to-all",
        "collective-permute",
    )


def _read_bytes(
    module: Module,
    callee: Computation,
    users: Mapping[str, tuple[Instruction, ...]],
    start: Instruction,
) -> int:
    """Bytes read of one array: the slices taken where it is only sliced, nothing where it is only
    updated in place.
    """
    all_bytes = start.shape.padded_bytes
    total, queue, seen = 0, [start], set()
    while queue:
        here = queue.pop()
        for user in users[here.name]:
            if user.name in seen:
                continue
            seen.add(user.name)
            if user.opcode in ("dynamic-slice", "slice") or (
                user.opcode == "gather" and user.operands[0] == here.name
            ):
                total += user.shape.padded_bytes
            elif user.opcode in IN_PLACE and user.operands[0] == here.name:
                continue
            elif _only_relabels(module, user):
                queue.append(user)
            elif user.opcode == "fusion" and (inner := module.callee(user)):
                numbers = [n for n, name in enumerate(user.operands) if name == here.name]
                inner_users = inner.users
                total += sum(
                    _read_bytes(module, inner, inner_users, inner.parameters[n]) for n in numbers
                )
            elif user.opcode == "tuple" and user.is_root:
                continue
            else:
                return all_bytes
    return min(total, all_bytes)


def _only_relabels(module: Module, user: Instruction) -> bool:
    """Whether an instruction inside a fusion only gives an array another shape or layout on its way
    to a reader.

    TPU7x's programs read stacked arrays, slice by slice, through nested fusions that do nothing
    else.
    """
    if user.opcode in RELABELS:
        return not (user.is_root and user.opcode in MOVES)
    callee = module.callee(user) if user.opcode == "fusion" and not user.is_root else None
    return callee is not None and all(
        each.opcode in ("parameter", *RELABELS) for each in callee.instructions
    )


def _written_bytes(module: Module, callee: Computation, part: Instruction) -> int:
    """Bytes written for one result: the update where it is an in-place update."""
    here, inside = part, callee
    for _ in range(16):
        if update := IN_PLACE.get(here.opcode):
            return inside.by_name[here.operands[update]].shape.padded_bytes
        if (
            here.opcode == "fusion"
            and (inner := module.callee(here))
            and inner.root is not None
            and inner.root.opcode != "tuple"
        ):
            here, inside = inner.root, inner
        elif here.opcode in ("bitcast", "reshape") and here.operands:
            here = inside.by_name[here.operands[0]]
        else:
            break
    return part.shape.padded_bytes
