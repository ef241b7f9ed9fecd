"""Converts between an experiment of a transformer's training step and its plan."""

from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.experiment.plan.plan import Plan
from spmd_core.experiment.workloads.decoder import NAME, fields_of_plan, plan_of_fields


def plan_of(experiment: Experiment) -> Plan:
    """The plan of an experiment of this workload; RequestError if it has none."""
    return plan_of_fields(dict(experiment))


def experiment_of(plan: Plan) -> Experiment:
    """The experiment that predicts a plan; the inverse of `plan_of`. Equal plans give equal
    experiments.
    """
    return parse_experiment(
        {"workload": NAME, "mesh": plan.mesh, "strategies": ["auto"], **fields_of_plan(plan)}
    )


def compiler_flags(experiment: Experiment) -> dict[str, str]:
    """Flags that the compiler is loaded with: of a training step those of the published runs; of a
    study those that all variants share.
    """
    if not experiment.what.has_plan:
        return {}
    each = [plan_of(member.experiment).flags for member in experiment.members]
    return {
        name: value
        for name, value in each[0].items()
        if all(flags.get(name) == value for flags in each)
    }


def own_flags(experiment: Experiment, study: Experiment) -> dict[str, str]:
    """The compiler flags of one variant of a study besides those that all variants share. A flag
    passed this way gives the same program as when the compiler is loaded with it (TPU v6e and v5p,
    libtpu of JAX 0.10.2).
    """
    if not experiment.what.has_plan:
        return {}
    shared = compiler_flags(study)
    return {name: value for name, value in plan_of(experiment).flags.items() if name not in shared}
