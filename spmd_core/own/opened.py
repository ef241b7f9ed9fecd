"""Stores a step as a program of the lab: for its screens, and for what would be better."""

from spmd_core.base import refuse
from spmd_core.experiment import PROGRAM_FILE, Experiment, link_path, parse_experiment, sources
from spmd_core.lab import Lab
from spmd_core.machine import parse_target
from spmd_core.own.lab_answer import LabAnswer
from spmd_core.own.running import open_lab, result_of, search
from spmd_core.results import StepDescription
from spmd_core.trials import RemedySearch, carried_out, remedy_lines, store, with_remedies

BASE = "http://localhost:8501"


def stored_link(data: bytes, step: StepDescription) -> str:
    """Returns the link of a step's program, on the mesh that it has."""
    return BASE + link_path(_experiment(open_lab(), data, step))


def remedies(data: bytes, step: StepDescription) -> LabAnswer:
    """Returns what would remove the collectives of a step on its target, compiled and judged."""
    _check_target(step, "remedies")
    lab = open_lab()
    result = result_of(lab, _experiment(lab, data, step))
    tried = carried_out(RemedySearch(lab, store(lab), result), "remedies", lambda work: None)
    result = with_remedies(result, tried.answers)
    lines = list(remedy_lines(result)) or ["No collective is worth a change."]
    answers = {name: {at: each.model_dump(mode="json") for at, each in known.items()} for name, known in tried.answers.items()}  # fmt: skip
    return LabAnswer.of(result, lines, answers)


def best_mesh(data: bytes, step: StepDescription, seconds: float | None) -> LabAnswer:
    """Returns a search over every mesh of a step's axes on its target."""
    _check_target(step, "best_mesh")
    given = _experiment(open_lab(), data, step).to_json()
    kept = {name: given[name] for name in ("workload", "program", "target", "dims")}
    return search({**kept, "mesh": None}, seconds)


def _experiment(lab: Lab, data: bytes, step: StepDescription) -> Experiment:
    described = lab.take_program(data, step.function)
    sources.keep(described)
    given = {"workload": PROGRAM_FILE, "program": described.program}
    if ":" in step.target:
        given["target"] = step.target
    return parse_experiment({**given, "mesh": dict(step.mesh or described.mesh or (("x", 1),))})


def _check_target(step: StepDescription, what: str) -> None:
    if ":" not in step.target or not parse_target(step.target).is_absent:
        fix = 'explain the step for one: explain(step, target="tpu:v5e:4x4")'
        raise refuse(f"{what}()", "is of a target that is not attached", fix)
