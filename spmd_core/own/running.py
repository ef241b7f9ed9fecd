"""Runs, predicts, searches and lays out in one call, as the command line does; the answer is printed
like its output, drawn in a notebook, or JSON.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spmd_core.answers import layout_lines, search_lines, strategies_table
from spmd_core.base import WorkerError, refuse
from spmd_core.experiment import Experiment, layout_json, layout_of, link_path, parse_experiment
from spmd_core.lab import Lab, Searches
from spmd_core.machine import parse_target
from spmd_core.own import drawings
from spmd_core.own.cell import cell
from spmd_core.reports import table_text
from spmd_core.results import Result, StepDescription, result_json
from spmd_core.search import TOP, read_array_question, read_question, unknown_target
from spmd_core.surveys import search as words
from spmd_core.trials import RemedySearch, Search, carried_out, remedy_lines, store, with_remedies
from spmd_core.words import headline_parts
from spmd_core.workloads import PROGRAM_FILE, get_workload, sources


@dataclass(frozen=True, repr=False)
class LabAnswer:
    """The answer of `layout`, `run`, `predict`, `search`, `remedies` or `best_mesh`.

    Attributes:
        value: the value behind it, such as a `Result`.
        lines: the lines that it is printed as.
        data: its JSON form.
        pictures: SVG, for a notebook.
    """

    value: Any
    lines: tuple[str, ...]
    data: Any
    pictures: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Any, lines: Iterable[str], data: Any, *pictures: str) -> "LabAnswer":
        """Returns an answer, whose texts may have several lines."""
        each_line = tuple(line for each in lines for line in each.split("\n"))
        return cls(value, each_line, data, pictures)

    def json(self) -> Any:
        """Returns plain values, as the command of that name prints them with `--json`."""
        return self.data

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if self.pictures:  # which show what the text draws with characters
            return cell(self.lines[:2], (), self.pictures)
        return cell(self.lines[:1], self.lines[1:], ())


_WIDTH = 100  # characters of a drawn layout
Spec = Experiment | Mapping[str, Any]


def layout(
    shape: Sequence[int], spec: Iterable[Any], mesh: Mapping[str, int], dtype: str = "float32"
) -> LabAnswer:
    """Lay out an array: which device holds what of it. No device is needed.

    Args:
        shape: sizes of its dims.
        spec: a `PartitionSpec`; dims that it does not name are replicated.
        mesh: axis -> size, in order; `dict(mesh.shape)` of a mesh of JAX.
        dtype: of its elements.

    Raises:
        RequestError: the spec does not fit the shape or the mesh.
    """
    spec = tuple(spec)
    dims = [list(dim) if isinstance(dim, tuple) else dim for dim in spec]
    experiment = parse_experiment(
        {
            "workload": "array",
            "mesh": dict(mesh),
            "dims": dict(zip(get_workload("array").dims, shape, strict=False)),
            "dtype": dtype,
            "overrides": {"array": dims + [None] * (len(shape) - len(dims))},
        }
    )
    lines = layout_lines(experiment, "array", _WIDTH)
    picture = drawings.layout("array", shape, spec, mesh)
    value, data = layout_of(experiment, "array"), layout_json(experiment, "array")
    return LabAnswer.of(value, lines, data, picture)


def run(spec: Spec, target: str | None = None) -> LabAnswer:
    """Run an experiment on devices that are here, or compile and price it for others.

    Args:
        spec: an experiment's JSON form, such as `{"workload": "layer", "mesh": {"x": 8}}`.
        target: another one than the spec has.

    Raises:
        RequestError: the spec holds no experiment, or not on this machine.
        WorkerError: the run failed.
    """
    experiment = spec if isinstance(spec, Experiment) else parse_experiment(spec)
    if target is not None:
        experiment = parse_experiment({**experiment.to_json(), "target": target})
    result = result_of(open_lab(), experiment)
    table = table_text(strategies_table(result, "terminal"))
    lines = [*filter(None, headline_parts(result, ())), "", table]
    return LabAnswer.of(result, lines, result_json(result))


def result_of(lab: Lab, experiment: Experiment) -> Result:
    """Returns the result of a run, once it is over.

    Raises:
        WorkerError: it failed.
    """
    name = lab.submit(experiment)
    status = lab.wait(name)
    if (result := lab.result(name)) is None:
        raise WorkerError(status.error.message if status.error else f"run {name} is {status.state}")
    return result


def predict(spec: Spec, target: str) -> LabAnswer:
    """Compile and price an experiment for a target that is not attached; nothing runs. Arguments and
    errors are those of `run`.
    """
    if not parse_target(target).is_absent:
        raise refuse(f"target {target}", "is attached", "run it, or name one such as tpu:v5e:4x4")
    return run(spec, target)


def search(question: Mapping[str, Any], seconds: float | None = None) -> LabAnswer:
    """Search the best sharding: of a model on chips, or of a spec whose mesh or sharding is None.

    Args:
        question: `{"model": "llama-2-7b", "chips": ["v5p:16"], "global_batch": 32}`, or an
            experiment's JSON form with `"mesh": None`.
        seconds: a budget, in which candidates are compiled and measured; None: estimates alone.

    Raises:
        RequestError: it is no question, or has no candidates.
    """
    lab = open_lab()
    if "model" in question:
        asked = read_question(dict(question))
    else:
        target = unknown_target(question.get("target"))
        devices = (lab.devices(target) or lab.probe(target)).device_count if target else None
        asked = read_array_question(dict(question), devices)
    work = Search(lab, Searches(lab.folder), asked, seconds)
    answer = carried_out(work, "search", lambda work: None, 0.5).answer
    first, *others = search_lines(answer, TOP)
    lines = [first, *filter(None, [work.problem_words]), *others]
    return LabAnswer.of(answer, lines, words.answer_json(answer))


def open_lab() -> Lab:
    """Returns the lab of the data folder that `SPMD_LAB_DATA` names."""
    return Lab.open(serve=False)


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
