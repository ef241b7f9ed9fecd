"""What is known of the machines that a search is about."""

from spmd_core.lab import Lab
from spmd_core.search import ArrayQuestion, meshes
from spmd_core.time import Machine, machine_on


def machines_of(lab: Lab, question: ArrayQuestion) -> dict[str, Machine]:
    """The calibrations of those of a question's targets that have one."""
    found = {
        target: machine_on(target, meshes(question, target), lab.latest, lab.result)
        for target in question.targets
    }
    return {target: machine for target, machine in found.items() if machine}
