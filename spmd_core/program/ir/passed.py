"""Which dims of an operation's result are dims of its operands: labels of dims are passed on."""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from spmd_core.program.hlo.module import Instruction, Shape
from spmd_core.program.ir.needed import ELEMENTWISE, numbers

Labels = tuple[tuple[str, ...], ...]  # of each dim: the axes that sharded it
_BY_SIZE = (
    "slice",
    "pad",
    "reverse",
    "dynamic-update-slice",
    "concatenate",
    "scatter",
    "reduce-window",
    "cholesky",
    "custom-call",
)


def passed(each: Instruction, operands: Sequence[Labels], shapes: Sequence[Shape]) -> Labels:
    """The labels of a result's dims; () for a dim that is none of an operand's."""
    dims = each.shape.dims
    match each.opcode:
        case "transpose":
            return tuple(operands[0][dim] for dim in numbers(each, "dimensions"))
        case "broadcast":
            of = dict(zip(numbers(each, "dimensions"), operands[0], strict=True))
            return tuple(of.get(dim, ()) for dim in range(len(dims)))
        case "reshape":
            return _reshaped(dims, operands[0], shapes[0].dims)
        case "dynamic-slice":
            return _of_slice(dims, operands[0], shapes[0].dims)
        case "reduce":
            gone = numbers(each, "dimensions")
            return tuple(axes for dim, axes in enumerate(operands[0]) if dim not in gone)
        case "dot":
            return _of_dot(each, operands)
        case "gather":
            return _of_gather(each, operands, shapes)
        case "convolution":
            return _of_convolution(each, operands)
    labels: Labels = ((),) * len(dims)
    if each.opcode in ELEMENTWISE or each.opcode in _BY_SIZE:
        for given, shape in zip(operands, shapes, strict=False):
            if len(shape.dims) == len(dims):
                labels = tuple(
                    had or (axes if size == own else ())
                    for had, axes, size, own in zip(labels, given, shape.dims, dims, strict=True)
                )
    return labels


def _reshaped(dims: Sequence[int], given: Labels, before: Sequence[int]) -> Labels:
    """A dim keeps its label where the elements before it are as many: the major part of one that is
    split, and what major dims are merged into.
    """
    starts = [1, *accumulate(before, mul)]
    labels = {
        start: axes
        for start, size, axes in zip(starts, before, given, strict=False)
        if size > 1 and axes
    }
    after = [1, *accumulate(dims, mul)]
    return tuple(
        labels.get(start, ()) if size > 1 else () for start, size in zip(after, dims, strict=False)
    )


def _of_slice(dims: Sequence[int], given: Labels, before: Sequence[int]) -> Labels:
    """A dim keeps its label where it is taken in full; a batch that a loop takes apart, as
    microbatches, goes on in the next dim.
    """
    labels = [
        axes if size == own else () for axes, size, own in zip(given, before, dims, strict=True)
    ]
    for dim, axes in enumerate(given[:-1]):
        if dims[dim] == 1 < before[dim]:
            labels[dim + 1] = labels[dim + 1] or axes
    return tuple(labels)


def _of_dot(each: Instruction, operands: Sequence[Labels]) -> Labels:
    """Batch dims, then the free dims of both sides."""
    batch, free = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for side, labels in zip(("lhs", "rhs"), operands, strict=True):
        shared = numbers(each, f"{side}_batch_dims")
        gone = {*shared, *numbers(each, f"{side}_contracting_dims")}
        mine = [labels[dim] for dim in shared]
        batch = [a or b for a, b in zip(batch, mine, strict=True)] if batch else mine
        free += [axes for dim, axes in enumerate(labels) if dim not in gone]
    return (*batch, *free)


def _of_gather(each: Instruction, operands: Sequence[Labels], shapes: Sequence[Shape]) -> Labels:
    """Dims of the indices, and those dims of the operand that are taken in full."""
    offsets = numbers(each, "offset_dims")
    gone = {*numbers(each, "collapsed_slice_dims"), *numbers(each, "operand_batching_dims")}
    sizes, vector = numbers(each, "slice_sizes"), int(each.attributes.get("index_vector_dim", "-1"))
    rows = [axes for dim, axes in enumerate(operands[1]) if dim != vector]
    taken = [
        axes if size == full else ()
        for dim, (axes, size, full) in enumerate(
            zip(operands[0], sizes, shapes[0].dims, strict=True)
        )
        if dim not in gone
    ]
    left, right = iter(taken), iter(rows)
    return tuple(next(left if dim in offsets else right, ()) for dim in range(len(each.shape.dims)))


def _of_convolution(each: Instruction, operands: Sequence[Labels]) -> Labels:
    """The batch dim of the input is that of the result."""
    names = each.attributes.get("dim_labels", "").partition("->")
    given, result = names[0].partition("_")[0], names[2]
    labels = [()] * len(each.shape.dims)
    if "b" in given and "b" in result:
        labels[result.index("b")] = operands[0][given.index("b")]  # type: ignore[call-overload]
    return tuple(labels)
