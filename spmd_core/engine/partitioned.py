"""Returns the collectives of a program as the compiler partitions it, without a compile of its code."""

from typing import Any

import jax

from spmd_core.base import refuse
from spmd_core.engine.absent.lower import lower_experiment
from spmd_core.engine.codeless import optimized
from spmd_core.engine.exported.lower import complete, quoted_files
from spmd_core.engine.lower import Steps, execute, structs
from spmd_core.experiment import STRATEGIES, Experiment
from spmd_core.machine import GPU_OPTIONS, dump_folder
from spmd_core.program import Module, Reasons, file_name, parse_module, read_collectives
from spmd_core.results import Requested
from spmd_core.script import program_text


def partitioned(experiment: Experiment, strategy: str) -> tuple[Requested, ...]:
    """Returns the collectives of the program of a strategy.

    Raises:
      RequestError: the compiler refuses it.
    """
    if STRATEGIES[strategy].is_map:
        raise refuse(f"strategy {strategy}", "is not partitioned by the compiler", "use auto")
    options = GPU_OPTIONS if experiment.place.is_absent and experiment.place.is_gpu else None
    with dump_folder() as folder:
        try:
            text = optimized(lowered(experiment, strategy), folder, options)
        except jax.errors.JaxRuntimeError as error:
            why = " ".join(str(error).split())[:300]
            raise refuse("partitioning this program", f"fails ({why})", "change a spec") from error
    module = parse_module(text)
    collectives = read_collectives(
        module,
        experiment.mesh,
        file=quoted_files(experiment, strategy),
        reasons=Reasons(experiment, strategy, module),
    )
    return tuple(Requested(**dict(each), dim=_dim(module, each.name)) for each in collectives)


def lowered(experiment: Experiment, strategy: str) -> Any:
    """Returns the program of a strategy, lowered for its target; for attached devices, simulated ones
    stand in.
    """
    if experiment.place.is_absent:
        return lower_experiment(experiment, strategy, Steps(lambda phase: None)).lowered
    text = program_text(experiment, strategy)
    names = complete(execute(text, file_name(experiment.workload, strategy)), experiment)
    return names["program"].trace(*structs(experiment, names)).lower()


def _dim(module: Module, name: str | None) -> int | None:
    """The dim of the array that a collective moves; None of a sum, and of a merged one."""
    for computation in module.computations:
        if name in computation.by_name:
            dims = computation.by_name[name].attributes.get("dimensions", "").strip("{}")
            return int(dims) if dims.isdigit() else None
    return None
