"""What a compiled program has each device do besides communicating, in terms that a calibration has
measured: matmuls, elementwise loops, loops across the order of memory, transcendental functions.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator

from spmd_core.program import Computation, Instruction, Module, kind_of, trip_count
from spmd_core.results import Operation
from spmd_core.time import matmul, moved_bytes

MOST = 300  # different operations: a program of more is not read
_NOTHING = frozenset(
    (
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "partition-id",
        "replica-id",
        "after-all",
        "iota",
        "broadcast",
        "opt-barrier",
        "add-dependency",
        "reshape",
    )
)
_TRANSCENDENTAL = frozenset(
    (
        "exponential",
        "tanh",
        "logistic",
        "log",
        "power",
        "sine",
        "cosine",
        "exponential-minus-one",
        "log-plus-one",
        "rsqrt",
        "erf",
        "atan2",
    )
)
_COUNTER_BYTES = 16  # that a loop's own counter reads and writes
Entry = tuple[str, tuple[int, ...]]


def operations_of(module: Module) -> tuple[Operation, ...] | None:
    """The operations of one execution, in their order, equal ones counted; None where a loop's
    length is unknown, or there are too many to list.
    """
    entries: Counter[Entry] = Counter()
    if not _walk(module, module.entry, 1, entries) or len(entries) > MOST:
        return None
    entries["result", (module.entry.root.shape.bytes,)] += 1
    return tuple(
        Operation.model_validate({"kind": kind, "sizes": sizes, "count": count})
        for (kind, sizes), count in entries.items()
    )


def operations_of_turn(module: Module) -> tuple[Operation, ...]:
    """The operations of one turn of a program's only loop, without those that count its turns."""
    entries: Counter[Entry] = Counter()
    for computation in module.computations:
        for each in computation.instructions:
            if each.opcode == "while" and (body := module.callee(each, "body")):
                _walk(module, body, 1, entries)
    return tuple(
        Operation.model_validate({"kind": kind, "sizes": sizes, "count": count})
        for (kind, sizes), count in entries.items()
        if max(sizes) > _COUNTER_BYTES
    )


def _walk(module: Module, computation: Computation, times: int, entries: Counter[Entry]) -> bool:
    """Count the operations of a computation that runs so many times; False where that is unknown."""
    for each in computation.instructions:
        if each.opcode in _NOTHING or kind_of(each.opcode) or each.opcode.endswith("-done"):
            continue
        if each.opcode == "while":
            count, body = trip_count(module, computation, each), module.callee(each, "body")
            if count is None or body is None or not _walk(module, body, times * count, entries):
                return False
        elif each.opcode in ("call", "conditional", "async-start"):
            inner = [module.by_name[name] for name in each.called() if name in module.by_name]
            if inner and not _walk(module, inner[0], times, entries):
                return False
        else:
            for entry, count in _of(module, each, computation):
                entries[entry] += times * count
    return True


def _of(
    module: Module, instruction: Instruction, computation: Computation
) -> Iterator[tuple[Entry, int]]:
    inside = module.callee(instruction) if instruction.opcode == "fusion" else None
    parts = list(inside.instructions) if inside else [instruction]
    holder = inside or computation
    products = [each for each in parts if each.opcode in ("dot", "convolution")]
    for each in products:
        product = matmul(each, holder)
        if product.rows and product.columns:
            left = holder.by_name[each.operands[0]].shape
            dims = re.findall(r"\d+", each.attributes.get("lhs_batch_dims") or "")
            count = math.prod(left.dims[int(dim)] for dim in dims)
            yield ("matmul", (max(1, product.rows // count), product.inner, product.columns)), count
        else:
            yield ("matmul", (1, max(1, product.flops // 2), 1)), 1
    elements = sum(each.shape.elements for each in parts if each.opcode in _TRANSCENDENTAL)
    if elements:
        yield ("transcendental", (elements,)), 1
    if not products:
        across = any(_reorders(each, holder) for each in parts)
        nbytes = moved_bytes(module, instruction, computation)
        yield ("relayout" if across else "copy", (nbytes,)), 1


def _reorders(instruction: Instruction, computation: Computation) -> bool:
    """Whether neighbors in memory do not stay neighbors."""
    if instruction.opcode not in ("copy", "transpose") or not instruction.operands:
        return False
    source = computation.by_name.get(instruction.operands[0])
    if source is None:
        return False
    here, there = instruction.shape, source.shape
    order = [int(dim) for dim in re.findall(r"\d+", instruction.attributes.get("dimensions") or "")]
    before = there.minor_to_major or tuple(reversed(range(len(there.dims))))
    after = here.minor_to_major or tuple(reversed(range(len(here.dims))))
    moved = [order[dim] for dim in after] if order else list(after)
    return [dim for dim in moved if there.dims[dim] > 1] != [
        dim for dim in before if there.dims[dim] > 1
    ]
