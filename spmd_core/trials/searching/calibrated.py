"""The calibrations of the machines that a search is about."""

from spmd_core.lab import Lab
from spmd_core.search import ArrayQuestion, meshes
from spmd_core.time import Calibration, calibration_on


def calibrations_of(lab: Lab, question: ArrayQuestion) -> dict[str, Calibration]:
    """The calibrations of those of a question's targets that have one."""
    calibrations = {
        target: calibration_on(target, meshes(question, target), lab.latest, lab.result)
        for target in question.targets
    }
    return {target: known for target, known in calibrations.items() if known}
