"""A transformer's training step as a workload: how an experiment writes a plan, and a plan an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spmd_core.errors import refuse
from spmd_core.machine.targets import parse_target
from spmd_core.plan.models import VARIABLE
from spmd_core.plan.plan import Plan, parse_plan
from spmd_core.workloads.decoder import DECODER, NAME

if TYPE_CHECKING:
    from spmd_core.experiment.experiment import Experiment


def plan_of(experiment: Experiment) -> Plan:
    """The plan that an experiment of this workload describes; RequestError, in one sentence, where it describes none."""
    target, sizes = parse_target(experiment.target), experiment.sizes
    if target.kind != "tpu":
        raise refuse(f"target {target.text}", "cannot run a transformer's training step, which is only compiled",
                     "use a topology such as tpu:v5e:4x4")
    for field in ("sharding", "overrides", "memory"):
        if getattr(experiment, field):
            raise refuse(f"{field} of {NAME}", "follows from the names of its mesh axes", f"leave {field} out, and name axes such as fsdp and tensor")
    option = experiment.option
    return parse_plan({
        "target": target.text, "model": option("model"), "mesh": experiment.mesh, "batch_per_device": sizes["batch"] / experiment.device_count,
        "sequence": sizes["sequence"], "remat": option("remat"), "save": _words(option("save")), "offload": _words(option("offload")),
        "fused_qkv": option("fused_qkv"), "fused_mlp": option("fused_mlp"), "attention_blocks": option("attention_blocks") or None,
        "state_dtype": option("state_dtype"), "parameter_dtype": option("parameter_dtype"), "device_order": option("device_order"),
        "compiler_flags": tuple(option("compiler_flags").split()), "layers": sizes.get("layers"),
        "sizes": {name: sizes[name] for name in VARIABLE if name in sizes and name != "layers"},
    })


def experiment_of(plan: Plan) -> Experiment:
    """The experiment that predicts a plan. Equal plans give equal experiments, and `plan_of` gives the plan back."""
    from spmd_core.experiment.experiment import parse_experiment  # which needs this module for its checks

    return parse_experiment({
        "workload": NAME, "target": plan.target, "mesh": plan.mesh, "dims": _dims(plan), "options": dict(_options(plan)), "strategies": ["auto"]})


def canonical(experiment: Experiment) -> dict[str, Any]:
    """Fields of an experiment as its plan writes them; RequestError where there is no such plan."""
    plan = plan_of(experiment)
    return {"target": plan.target, "dims": tuple(_dims(plan).items()), "options": _options(plan)}


def compiler_flags(experiment: Experiment) -> dict[str, str]:
    """Flags that the compiler is loaded with: none but for a training step, which has those of the published runs."""
    return plan_of(experiment).flags if experiment.workload == NAME else {}


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for part in text.split(",") if (word := part.strip()))


def _dims(plan: Plan) -> dict[str, int]:
    given = dict(plan.sizes) | ({"layers": plan.layers} if plan.layers else {})
    return {"batch": plan.batch, "sequence": plan.sequence} | {name: given[name] for name in VARIABLE if name in given}


def _options(plan: Plan) -> tuple[tuple[str, Any], ...]:
    """Options in the order of an experiment, those left out that are at their default."""
    chosen: dict[str, Any] = {
        "save": ",".join(plan.save), "offload": ",".join(plan.offload), "fused_qkv": plan.fused_qkv, "fused_mlp": plan.fused_mlp,
        "attention_blocks": plan.attention_blocks or 0, "state_dtype": plan.state_dtype, "parameter_dtype": plan.parameter_dtype,
        "compiler_flags": " ".join(plan.compiler_flags),
    }
    kept: dict[str, Any] = {"device_order": plan.device_order, "remat": plan.remat, "model": plan.model}
    for name, value in chosen.items():
        option = DECODER.options[name]
        if isinstance(option, tuple) or value != option.default:
            kept[name] = value
    return tuple(kept.items())
