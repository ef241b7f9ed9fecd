"""A transformer's training step: how an experiment writes a plan, and a plan an experiment."""

from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.plan.plan import Plan
from spmd_core.workloads.decoder import NAME, fields_of_plan, plan_of_fields


def plan_of(experiment: Experiment) -> Plan:
    """The plan that an experiment of this workload describes; RequestError where it has none."""
    return plan_of_fields(dict(experiment))


def experiment_of(plan: Plan) -> Experiment:
    """The experiment that predicts a plan. Equal plans give equal ones, and `plan_of` the plan."""
    return parse_experiment({
        "workload": NAME, "mesh": plan.mesh, "strategies": ["auto"], **fields_of_plan(plan)})


def compiler_flags(experiment: Experiment) -> dict[str, str]:
    """Flags that the compiler is loaded with: of a training step those of the published runs."""
    return plan_of(experiment).flags if experiment.what.has_plan else {}
