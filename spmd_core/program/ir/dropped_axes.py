"""The specs with which constraints would keep the axes that they drop."""

from collections.abc import Iterable, Iterator

from spmd_core.facts import Accident
from spmd_core.fields import Spec
from spmd_core.program.hlo.lines import File, line_of
from spmd_core.program.hlo.module import Computation, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.ir.needed import Labels, passed
from spmd_core.program.ir.shardings import CONSTRAINT, last_part, sharding_of

_NEAR = 8  # values from a constraint back to one that has its axis


def with_specs(
    accidents: Iterable[Accident], module: Module, mesh: Mesh, file: File
) -> Iterator[Accident]:
    """Yields work that is repeated along an axis with the spec of the constraint that drops it, and
    that axis; of several constraints on its line, that of the largest value.
    """
    for each in accidents:
        kept = (
            (value.shape.bytes, spec)
            for of in module.computations
            for value in of.instructions
            if each.dropped_at and last_part(value.op_name) == CONSTRAINT
            if value.shape.dims and line_of(value, file) == each.dropped_at
            if (spec := _with_axis(value, of, mesh, each.axes[0]))
        )
        yield each.model_copy(update={"spec": max(kept, default=(0, ()))[1]})


def _with_axis(value: Instruction, of: Computation, mesh: Mesh, axis: str) -> Spec:
    """The spec of a value with an axis on one more dim, that along which what it is computed of has
    it, else the largest; () where the axis divides none that is not sharded.
    """
    own, size = sharding_of(value, of, mesh), dict(mesh)[axis]
    if own is None or any(axis in dim for dim in own.spec):
        return ()
    had = _labels(value, of, mesh, axis, _NEAR)
    free = [
        (bool(given), length, -at)
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
