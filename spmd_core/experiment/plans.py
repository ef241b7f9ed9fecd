"""A transformer's training step: how an experiment writes a plan, and a plan an experiment."""

from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.experiment.plan.plan import Plan
from spmd_core.experiment.workloads.decoder import NAME, fields_of_plan, plan_of_fields


def plan_of(experiment: Experiment) -> Plan:
    """The plan that an experiment of this workload describes; RequestError where it has none."""
    return plan_of_fields(dict(experiment))


def experiment_of(plan: Plan) -> Experiment:
    """The experiment that predicts a plan. Equal plans give equal ones, and `plan_of` the plan."""
    return parse_experiment(
        {"workload": NAME, "mesh": plan.mesh, "strategies": ["auto"], **fields_of_plan(plan)}
    )


def compiler_flags(experiment: Experiment) -> dict[str, str]:
    """Flags that the compiler is loaded with: of a training step those of the published runs; of a
    study those that all variants have alike.
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
    """What a variant of a study is compiled with beside the flags that all have. Given so, a flag
    makes the same program as given when the compiler is loaded (TPU v6e and v5p, libtpu of
    JAX 0.10.2).
    """
    if not experiment.what.has_plan:
        return {}
    shared = compiler_flags(study)
    return {name: value for name, value in plan_of(experiment).flags.items() if name not in shared}
