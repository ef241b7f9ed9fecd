"""Where values lose an axis along which work is repeated, and the specs with which they would keep it."""

from collections.abc import Iterable, Iterator

from spmd_core.facts import Accident
from spmd_core.fields import Spec
from spmd_core.program.hlo.lines import File, line_of
from spmd_core.program.hlo.module import Computation, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.ir.needed import Labels, passed, summed_dims
from spmd_core.program.ir.products import PRODUCTS, axes_at
from spmd_core.program.ir.shardings import CONSTRAINT, last_part, sharding_of

_NEAR = 8  # values from a constraint back to one that has its axis
_LOOKED_AT = 64  # values that are looked at for the operation that loses an axis
_SUMS = (*PRODUCTS, "reduce", "all-reduce", "reduce-scatter")  # which lose axes that they sum over
Place = tuple[Computation, Instruction]


def with_specs(
    accidents: Iterable[Accident], module: Module, mesh: Mesh, file: File
) -> Iterator[Accident]:
    """Yields work that is repeated along an axis with the spec of the constraint, or of the operation,
    that drops it, else of the product, and that axis; of several on a line, that of the largest value.
    """
    for each in accidents:
        axis, places, update = each.axes[0], list[Place](), dict[str, object]()
        if each.dropped_at:
            places = list(_constraints(each.dropped_at, module, file))
        elif not each.in_map and (lost := _lost(each, module, mesh, file)):
            places = [lost]
            by = last_part(lost[1].op_name)
            update = {"lost_at": line_of(lost[1], file) or "", "lost_by": by}
        elif not each.in_map:
            places = list(_products(each.source, module, file))
        kept = (
            (value.shape.bytes, spec)
            for of, value in places
            if (spec := _with_axis(value, of, mesh, axis))
        )
        yield each.model_copy(update=update | {"spec": max(kept, default=(0, ()))[1]})


def _constraints(line: str, module: Module, file: File) -> Iterator[Place]:
    for of in module.computations:
        for value in of.instructions:
            is_one = last_part(value.op_name) == CONSTRAINT and value.shape.dims
            if is_one and line_of(value, file) == line:
                yield of, value


def _products(line: str, module: Module, file: File) -> Iterator[Place]:
    for of in module.computations:
        for value in of.instructions:
            if value.opcode == "dot" and line_of(value, file) == line:
                yield of, value


def _lost(each: Accident, module: Module, mesh: Mesh, file: File) -> Place | None:
    """The operation on a line of the program's own nearest to the products of a line whose result lacks
    the axis of an operand, for another reason than a sum over it.
    """
    (axis,) = each.axes
    for of in module.computations:
        products = (one for one in of.instructions if one.opcode in PRODUCTS)
        waiting = [one for one in products if line_of(one, file) == each.source]
        for at in waiting:
            for near in map(of.by_name.__getitem__, at.operands):
                if axis not in axes_at(near, of, mesh):
                    waiting += [near] * (len(waiting) < _LOOKED_AT)
                elif not _is_sum(at, near) and line_of(at, file):
                    return of, at
    return None


def _is_sum(each: Instruction, operand: Instruction) -> bool:
    """Whether an operation sums over the axis that an operand has: so does a lookup in a table whose
    rows are sharded.
    """
    return each.opcode in _SUMS or (each.opcode == "gather" and operand.name == each.operands[0])


def _with_axis(value: Instruction, of: Computation, mesh: Mesh, axis: str) -> Spec:
    """The spec of a value with an axis on one more dim, that along which what it is computed of has
    it, else the largest; () where the axis divides none that is not sharded.
    """
    own, size = sharding_of(value, of, mesh), dict(mesh)[axis]
    if own is None or any(axis in dim for dim in own.spec):
        return ()
    had, rows = _labels(value, of, mesh, axis, _NEAR), len(value.shape.dims)
    if (
        value.opcode == "dot"
    ):  # of a product a dim of its first operand: that of a weight moves more
        rows = len(of.by_name[value.operands[0]].shape.dims) - len(summed_dims(value, 0))
    free = [
        (bool(given), at < rows, length, -at)
        for at, (length, dim, given) in enumerate(zip(value.shape.dims, own.spec, had, strict=True))
        if length % size == 0 and not dim
    ]
    put = -max(free)[-1] if free else None
    return tuple((axis,) if at == put else dim for at, dim in enumerate(own.spec)) if free else ()


def _labels(each: Instruction, of: Computation, mesh: Mesh, axis: str, left: int) -> Labels:
    """The dims of a value that an axis shards, else those that are such dims of its operands."""
    sharding = sharding_of(each, of, mesh) if each.shape.dims else None
    if sharding and any(axis in dim for dim in sharding.spec):
        return tuple((axis,) if axis in dim else () for dim in sharding.spec)
    operands = [of.by_name[name] for name in each.operands] if each.shape.dims and left else []
    if not operands or any(one.shape.element == "tuple" for one in operands):
        return ((),) * len(each.shape.dims)
    given = [_labels(one, of, mesh, axis, left - 1) for one in operands]
    return passed(each, given, [one.shape for one in operands])
