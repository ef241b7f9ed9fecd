"""What a program returned, by name; a function of the user's own may return something else than it
declares.
"""

from collections.abc import Mapping
from typing import Any

import jax

from spmd_core.base import WrongResult
from spmd_core.experiment import Experiment, read_plan
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
