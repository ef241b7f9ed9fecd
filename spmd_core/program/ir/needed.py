"""How the dims of an operation's operands and result belong together: how the operands must be
sharded, given the sharding of the result, and which dims of the result are dims of an operand.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from spmd_core.fields import padded
from spmd_core.program.hlo.module import Instruction, Shape

Spec = tuple[tuple[str, ...], ...]
# Elementwise operations
ELEMENTWISE = frozenset(
    (
        "abs",
        "add",
        "and",
        "atan2",
        "cbrt",
        "ceil",
        "clamp",
        "compare",
        "complex",
        "convert",
        "copy",
        "cosine",
        "divide",
        "erf",
        "exponential",
        "exponential-minus-one",
        "floor",
        "imag",
        "is-finite",
        "log",
        "log-plus-one",
        "logistic",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "not",
        "or",
        "power",
        "real",
        "remainder",
        "round-nearest-afz",
        "round-nearest-even",
        "rsqrt",
        "select",
        "shift-left",
        "shift-right-arithmetic",
        "shift-right-logical",
        "sign",
        "sine",
        "sqrt",
        "subtract",
        "tan",
        "tanh",
        "xor",
    )
)


def needed_specs(
    each: Instruction, result: Spec, shapes: Sequence[Shape], specs: Sequence[Spec | None]
) -> list[Spec | None]:
    """The spec of each operand with which the result's sharding needs no communication except for
    partial sums; None if there is no rule for this operation. Specs may end before the last dims,
    which are not sharded then.
    """
    ranks = [len(shape.dims) for shape in shapes]
    specs = [s if s is None else padded(s, rank) for s, rank in zip(specs, ranks, strict=True)]
    result = padded(result, len(each.shape.dims))
    if each.opcode in ELEMENTWISE:
        return [result if shape.dims == each.shape.dims else None for shape in shapes]
    if each.opcode == "transpose":
        order = numbers(each, "dimensions")
        return [tuple(result[order.index(dim)] for dim in range(len(order)))]
    if each.opcode == "broadcast":
        return [tuple(result[dim] for dim in numbers(each, "dimensions"))]
    if each.opcode == "reduce" and each.shape.element != "tuple":
        return [_of_reduced(each, result, specs[0]), *[None] * (len(shapes) - 1)]
    if each.opcode == "dot":
        return _of_dot(each, result, shapes, specs)
    return [None] * len(shapes)


def partial_sums(each: Instruction, specs: Sequence[Spec | None]) -> tuple[str, ...]:
    """The mesh axes of the dims that a product or a reduction sums over."""
    summed = [(spec, summed_dims(each, at)) for at, spec in enumerate(specs)]
    if any(spec is None and dims for spec, dims in summed):
        return ()
    axes = (
        tuple(axis for dim in dims for axis in padded(spec or (), max(dims) + 1)[dim])
        for spec, dims in summed
    )
    return next(filter(None, axes), ())


def summed_dims(each: Instruction, at: int) -> tuple[int, ...]:
    """Returns the dims of an operand, by its number, that a product or a reduction sums over."""
    if each.opcode == "dot" and at < 2:
        return numbers(each, f"{('lhs', 'rhs')[at]}_contracting_dims")
    return numbers(each, "dimensions") if each.opcode == "reduce" and at == 0 else ()


def _of_reduced(each: Instruction, result: Spec, spec: Spec | None) -> Spec | None:
    """Dims that remain are sharded as in the result; reduced dims as in the operand."""
    if spec is None:
        return None
    gone, kept = numbers(each, "dimensions"), iter(result)
    return tuple(spec[dim] if dim in gone else next(kept) for dim in range(len(spec)))


def _of_dot(
    each: Instruction, result: Spec, shapes: Sequence[Shape], specs: Sequence[Spec | None]
) -> list[Spec | None]:
    """Batch and free dims as in the result; contracted dims as in the first operand, or as in the
    second if they are replicated in the first, which is then sliced.
    """
    if any(spec is None for spec in specs):
        return [None, None]
    batch = [numbers(each, f"{side}_batch_dims") for side in ("lhs", "rhs")]
    summed = [summed_dims(each, at) for at in (0, 1)]
    place, operands = len(batch[0]), list[Spec]()
    pairs = [
        ((specs[0] or ())[left], (specs[1] or ())[right])
        for left, right in zip(*summed, strict=True)
    ]
    first = any(left for left, _ in pairs)
    shared = [left if first else right for left, right in pairs]
    for at, shape in enumerate(shapes[:2]):
        spec: list[tuple[str, ...]] = []
        for dim in range(len(shape.dims)):
            if dim in batch[at]:
                spec.append(result[batch[at].index(dim)])
            elif dim in summed[at]:
                spec.append(shared[summed[at].index(dim)])
            else:
                spec.append(result[place])
                place += 1
        operands.append(tuple(spec))
    taken = {
        axis for axes in result for axis in axes
    }  # which cannot shard a contracted dim as well
    for at, dims in enumerate(summed):
        operands[at] = tuple(
            tuple(axis for axis in axes if axis not in taken) if dim in dims else axes
            for dim, axes in enumerate(operands[at])
        )
    return [*operands]


def numbers(each: Instruction, name: str) -> tuple[int, ...]:
    """The numbers of an attribute such as `dimensions={0,2}`; () where it is left out."""
    text = each.attributes.get(name, "").strip("{} ")
    return tuple(int(part) for part in text.split(",") if part.strip())


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
            return _dot_labels(each, operands)
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


def _dot_labels(each: Instruction, operands: Sequence[Labels]) -> Labels:
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
