"""The equations of a traced step, those of inner functions too: their places, and mesh axes."""

from collections.abc import Iterator
from typing import Any

from jax._src import core, source_info_util
from jax.sharding import NamedSharding, PartitionSpec

from spmd_core.engine.step.step_collectives import FUNCTION, scope_of
from spmd_core.results import Place


def equations(jaxpr: Any, outer: str = "") -> Iterator[tuple[Any, str]]:
    """Yields each equation, and the path of the scopes that it is in."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        scopes = f"{outer}/{equation.source_info.name_stack}"
        yield equation, scopes
        for inner in core.jaxprs_in_params(equation.params):
            yield from equations(inner, scopes)


def places_of(jaxpr: Any) -> frozenset[Place]:
    """Returns scope, qualified function and full path of the lines that a step is made of."""
    return frozenset(
        Place(
            scope_of(f"step/{scopes.strip('/')}/op"),
            FUNCTION.sub("", frame.function_name),
            f"{frame.file_name}:{frame.start_line}",
        )
        for equation, scopes in equations(jaxpr)
        for frame in source_info_util.user_frames(equation.source_info.traceback)
    )


def axes_of(jaxpr: Any) -> tuple[str, ...]:
    """Returns the mesh axes that a step itself names, in constraints, reshards, `shard_map` and
    types with shardings.
    """
    named: dict[str, None] = {}
    for equation, _ in equations(jaxpr):
        types = [getattr(each.aval, "sharding", None) for each in equation.outvars]
        for value in (*_values(list(equation.params.values())), *types):
            spec = value.spec if isinstance(value, NamedSharding) else value
            if isinstance(spec, PartitionSpec):
                named |= dict.fromkeys(axis for dim in spec for axis in _dim_axes(dim))
    return tuple(named)


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple) and not isinstance(value, PartitionSpec):
        for each in value:
            yield from _values(each)
    else:
        yield value


def _dim_axes(dim: Any) -> tuple[str, ...]:
    if isinstance(dim, str):
        return (dim,)
    return tuple(dim) if isinstance(dim, tuple) else ()
