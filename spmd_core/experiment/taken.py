"""The experiment that an exported program is by itself."""

from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.experiment.workloads.exported import programs
from spmd_core.experiment.workloads.exported.description import Described
from spmd_core.machine import nearest_of_chips

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
