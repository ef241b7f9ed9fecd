"""Runs and predicts an experiment in one call, as the command line does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spmd_core.answers import strategies_table
from spmd_core.base import WorkerError
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.lab import Lab
from spmd_core.own.picture import svg_of
from spmd_core.reports import table_text
from spmd_core.results import Result, result_json
from spmd_core.words import headline_parts


@dataclass(frozen=True, repr=False)
class RunAnswer:
    """The result of an experiment, printed as its headline and the table of its strategies."""

    result: Result

    def json(self) -> dict[str, object]:
        """Returns the result as plain values, as `spmd-lab run --json` prints it."""
        return result_json(self.result)

    def __str__(self) -> str:
        table = table_text(strategies_table(self.result, "terminal"))
        return "\n".join([*filter(None, headline_parts(self.result, ())), "", table])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return svg_of(str(self).splitlines())


def run(spec: Experiment | Mapping[str, Any], target: str | None = None) -> RunAnswer:
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
    lab = open_lab()
    name = lab.submit(experiment)
    status = lab.wait(name)
    if (result := lab.result(name)) is None:
        raise WorkerError(status.error.message if status.error else f"run {name} is {status.state}")
    return RunAnswer(result)


def predict(spec: Experiment | Mapping[str, Any], target: str) -> RunAnswer:
    """Compile and price an experiment for a target that is not attached; nothing runs. Arguments and
    errors are those of `run`.
    """
    return run(spec, target)


def open_lab() -> Lab:
    """Returns the lab of the data folder that `SPMD_LAB_DATA` names."""
    return Lab.open(serve=False)
