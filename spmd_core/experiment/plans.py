"""The experiment of a plan, with its compiler flags, and the experiment of an exported program."""

from spmd_core.base import RequestError
from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.machine import nearest_of_chips
from spmd_core.plan import Plan, ServedPlan, link_refusal
from spmd_core.workloads import (
    DECODER,
    STEP,
    Described,
    ServedStep,
    fields_of_plan,
    fields_of_step,
    programs,
)


def experiment_of(plan: Plan) -> Experiment:
    """The experiment that predicts a plan, which is its `plan`. Equal plans give equal ones."""
    return parse_experiment(
        {
            "workload": DECODER.name,
            "mesh": plan.mesh,
            "strategies": ["auto"],
            **fields_of_plan(plan),
        }
    )


def step_experiment(plan: ServedPlan, requests: int, slots: int, chunk: int = 1) -> Experiment:
    """Returns the experiment that compiles one step of a served model: `Lab.submit` it.

    The step is a program of all replicas: each request has `chunk` new tokens (1: a decode step,
    more: a chunk of prefill) beside a contiguous cache, which is donated. Of its result,
    `strategies["auto"]` has `prediction`: `predicted_s`, `fits`, `memory_bytes` of a device
    (`argument` is weights and cache, `peak` has temporaries too), `shares_s`, `binds`,
    `collectives`. A plan that is refused has an `error`.

    Args:
      plan: model, target, mesh, dtypes.
      requests: sequences of all replicas; a multiple of replicas times `data`.
      slots: tokens of each request for which the cache has room.
      chunk: new tokens of each request, at most `slots`.

    Raises:
      RequestError: where these make no program.
    """
    step = ServedStep(plan=plan, requests=requests, slots=slots, chunk=chunk)
    return parse_experiment({"workload": STEP, "strategies": ["auto"], **fields_of_step(step)})


def compiler_flags(experiment: Experiment) -> dict[str, str]:
    """Flags that the compiler is loaded with: of a training step those of the published runs; of a
    study those that all variants have alike.
    """
    first, *others = [_flags(member.experiment) for member in experiment.members]
    return {
        name: value
        for name, value in first.items()
        if all(flags.get(name) == value for flags in others)
    }


def own_flags(experiment: Experiment, study: Experiment) -> dict[str, str]:
    """What a variant of a study is compiled with beside the flags that all have. Given so, a flag
    makes the same program as given when the compiler is loaded (TPU v6e and v5p, libtpu of
    JAX 0.10.2).
    """
    shared = compiler_flags(study)
    return {name: value for name, value in _flags(experiment).items() if name not in shared}


def check_flags(experiment: Experiment) -> None:
    """RequestError for a compiler flag that only a command line or a spec file may set."""
    for flag in str(dict(experiment.options).get("compiler_flags", "")).split():
        if sentence := link_refusal(flag):
            raise RequestError(sentence)


def _flags(experiment: Experiment) -> dict[str, str]:
    return experiment.plan.flags if experiment.plan else {}


_MOST_SIMULATED = 256
_NO_MESH = (("x", 8),)  # of a program whose file names none: any fits it


def as_exported(described: Described, target: str | None = None) -> Experiment:
    """Returns a program on its own mesh: on a target, or on as many v5e chips, simulated devices or
    GPUs, the first that it was exported for.

    Raises:
      RequestError: the file names no mesh that the target has.
    """
    spec = {
        "workload": "program_file",
        "program": described.program,
        "mesh": described.mesh or _NO_MESH,
    }
    return parse_experiment(spec | {"target": target or _target(described)})


def _target(described: Described) -> str:
    devices = described.devices if described.mesh else _NO_MESH[0][1]
    if "tpu" in described.platforms:
        return nearest_of_chips("v5e", devices).target
    if "cpu" in described.platforms and devices <= _MOST_SIMULATED:
        return f"cpu:{devices}"
    chip = "h100" if set(programs.GPUS) & set(described.platforms) else "v5e"
    return nearest_of_chips(chip, devices).target


def read_spec_words(text: str) -> list[list[str] | None]:
    """Returns the JSON form of a spec in words: axes of one dim are joined by +.

    >>> read_spec_words("data+x, None")
    [['data', 'x'], None]
    """
    entries = [each.strip() for each in text.split(",")] if text.strip() else []
    return [None if each in ("None", "") else each.split("+") for each in entries]
