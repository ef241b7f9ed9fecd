"""How an operation needs its operands sharded, given the sharding of its result."""

from collections.abc import Sequence

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
    partial sums; None if there is no rule for this operation.
    """
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
    axes = (tuple(axis for dim in dims for axis in (spec or ())[dim]) for spec, dims in summed)
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
