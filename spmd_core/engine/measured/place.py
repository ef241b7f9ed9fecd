"""Reads what a program returned by name, and what devices hold of it: the shards, spec, memory kind
and values of an array.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from spmd_core.base import WrongResult
from spmd_core.engine.devices import JaxDevice
from spmd_core.engine.members import complete
from spmd_core.experiment import Experiment, read_plan
from spmd_core.fields import axes_json
from spmd_core.results import ArrayReport, ShardReport
from spmd_core.workloads import STRATEGIES

Shapes = tuple[tuple[int, ...], ...]


def result_shapes(experiment: Experiment, strategy: str = "single") -> Shapes:
    """The shapes that a strategy returns the results in: a map has the devices as an axis of their
    own where it splits the mapped dim.
    """
    shapes = tuple(experiment.shape(array.name) for array in experiment.what.results)
    if not STRATEGIES[strategy].is_map:
        return shapes
    plan = read_plan(experiment, strategy)
    return tuple(
        plan.arranged(shape, axis) for shape, axis in zip(shapes, plan.out_axes, strict=True)
    )


def named_results(experiment: Experiment, output: Any, shapes: Shapes) -> dict[str, jax.Array]:
    """Result name -> array; WrongResult, in one sentence, where they are not the declared ones."""
    described = experiment.what.results
    arrays = tuple(output) if isinstance(output, tuple | list) else (output,)
    if len(arrays) != len(described):
        raise WrongResult(
            f"{experiment.workload} returned {len(arrays)} arrays and declares {len(described)} "
            f"({', '.join(each.name for each in described)}): return one for each, in this order"
        )
    for each, array, wanted in zip(described, arrays, shapes, strict=True):
        shape = getattr(array, "shape", None)
        if shape != wanted:
            got = f"a {type(array).__name__}" if shape is None else f"shape {shape}"
            dims = ", ".join(each.present(experiment.sizes))
            raise WrongResult(
                f"{experiment.workload} returned {got} for {each.name}, which is declared as "
                f"({dims}), here {wanted}: "
                f"return that shape, or declare another"
            )
    return {each.name: array for each, array in zip(described, arrays, strict=True)}


def check_function(
    experiment: Experiment, names: Mapping[str, Any], operands: Mapping[str, Any]
) -> None:
    """Trace a function of the user's own, and see what it returns, before a strategy has it do
    something with that.
    """
    function = names.get(experiment.workload)
    if function is not None:
        abstract = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in operands.values()]
        named_results(experiment, jax.eval_shape(function, *abstract), result_shapes(experiment))


MAX_SHARDS = 64
MAX_VALUES = 256


def array_report(
    array: jax.Array, devices: Sequence[JaxDevice], mesh: jax.sharding.Mesh | None
) -> ArrayReport:
    """An array as JAX reports it; `devices` in the order in which their positions are counted."""
    positions = {device: position for position, device in enumerate(devices)}
    indices = {
        positions[device]: bounds(index, array.shape)
        for device, index in array.sharding.devices_indices_map(array.shape).items()
    }
    shards = tuple(
        ShardReport(device=devices[position].id, position=position, index=indices[position])
        for position in sorted(indices)
    )
    return ArrayReport(
        shape=array.shape,
        dtype=str(array.dtype),
        spec=spec_json(array.sharding, mesh, indices, array.shape),
        memory=array.sharding.memory_kind,
        shards=shards if len(shards) <= MAX_SHARDS else None,
        values=values_json(array) if 0 < array.size <= MAX_VALUES else None,
    )


def bounds(index: tuple[Any, ...] | None, shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """[start, stop) of each dim, from the slices that JAX gives."""
    return tuple(part.indices(size)[:2] for part, size in zip(index or (), shape, strict=True))


def spec_json(
    sharding: Any,
    mesh: jax.sharding.Mesh | None,
    indices: dict[int, tuple[tuple[int, int], ...]],
    shape: tuple[int, ...],
) -> tuple[Any, ...] | None:
    """Per dim None, an axis or a list of axes; None where the array is on no mesh."""
    # pmap makes a mesh of its own
    if isinstance(sharding, NamedSharding) and (
        mesh is None or sharding.mesh.axis_names == mesh.axis_names
    ):
        entries = [*sharding.spec, *[None] * (len(shape) - len(sharding.spec))]
        return tuple(
            axes_json(entry if isinstance(entry, tuple) else (entry,) * bool(entry))
            for entry in entries
        )
    if mesh is None or len(indices) != mesh.size:
        return None
    return spec_from_indices(tuple(mesh.shape.items()), indices, shape)


def spec_from_indices(
    mesh: tuple[tuple[str, int], ...],
    indices: dict[int, tuple[tuple[int, int], ...]],
    shape: tuple[int, ...],
) -> tuple[Any, ...] | None:
    """The spec of a sharding that names no axes: the axes along which each dim's start moves, the
    largest step first.

    None where no spec describes it.
    """
    sizes = tuple(size for _, size in mesh)
    starts = np.array(
        [[start for start, _ in indices[position]] for position in range(len(indices))], np.int64
    ).reshape(*sizes, len(shape))
    spec = []
    for dim in range(len(shape)):
        steps = {}
        for axis, (name, size) in enumerate(mesh):
            if size > 1 and (
                step := int(np.take(starts[..., dim], 1, axis).flat[0] - starts[..., dim].flat[0])
            ):
                steps[name] = step
        axes = tuple(sorted(steps, key=lambda name: -steps[name]))
        if (
            math.prod(dict(mesh)[name] for name in axes) * (indices[0][dim][1] - indices[0][dim][0])
            != shape[dim]
        ):
            return None
        spec.append(axes_json(axes))
    return tuple(spec)


def values_json(array: Any) -> tuple[float | int | str, ...]:
    """The elements, flat and in row-major order; those that are not finite as "nan", "inf" or
    "-inf".
    """
    flat = (
        complete(array).reshape(-1) if isinstance(array, jax.Array) else np.asarray(array).ravel()
    )
    if flat.dtype.kind in "iub":
        return tuple(int(value) for value in flat)
    return tuple(_value(value) for value in flat)


def _value(value: Any) -> float | str:
    # a float32's shortest decimal form
    number = float(value) if value.dtype != np.float32 else float(str(value))
    return number if math.isfinite(number) else str(number)
