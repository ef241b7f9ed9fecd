"""What `run` looks into beside the times: a trace of each strategy, and the shardings of its steps."""

import sys
from collections.abc import Iterator
from pathlib import Path

from spmd_core.commands.table import table
from spmd_core.errors import refuse, shorten
from spmd_core.experiment.experiment import Experiment
from spmd_core.ir.shardings import NAME
from spmd_core.lab import Lab
from spmd_core.results.result import Result
from spmd_core.results.shardings import Shardings, Step
from spmd_core.timeline.perfetto import traces_text
from spmd_core.timeline.text import TRACED, from_text
from spmd_core.units import bytes_text
from spmd_core.words import shardings as words
from spmd_core.words.names import title
from spmd_core.words.timeline import names_of, row_words


def with_trace(experiment: Experiment, file: Path) -> Experiment:
    """The experiment with a trace of each strategy; RequestError where `file` could not be written
    or there is nothing to trace.
    """
    if not file.parent.is_dir() or file.is_dir():
        raise refuse(f"trace file {shorten(str(file))}", "cannot be written",
                     "name a file in a folder that exists")
    if not experiment.what.is_traceable:
        raise refuse(f"workload {experiment.workload}", "has no timed calls to trace",
                     "leave --trace out, or use a computation such as layer")
    return experiment.vary(options=dict(experiment.options) | {"trace": True})


def write_traces(lab: Lab, result: Result | None, file: Path) -> None:
    """The traced steps of a result's strategies as one file for Perfetto; nothing without any."""
    found = {title(name): text for name in (result.strategies if result else ())
             if result and (text := lab.text(result.run, name, TRACED))}
    if not found:
        print("no trace: no strategy got that far", file=sys.stderr)
    else:
        file.write_text(traces_text({name: from_text(text) for name, text in found.items()},
                                    names_of, row_words))
        print(f"trace written to {file}: open it at ui.perfetto.dev", file=sys.stderr)


def with_shardings(experiment: Experiment) -> Experiment:
    """The experiment with the shardings of its steps, which a prediction has without asking;
    RequestError where it has no program of its own.
    """
    if experiment.what.is_predicted and experiment.place.is_absent:
        return experiment
    if not experiment.what.is_traceable:
        raise refuse(f"workload {experiment.workload}", "has no steps whose shardings can be read",
                     "leave --shardings out, or use a computation such as layer")
    return experiment.vary(options=dict(experiment.options) | {"shardings": True})


def result_with_shardings(lab: Lab, result: Result) -> Result:
    """A result with the shardings that its run left, which are stored apart."""
    strategies = {}
    for name, found in result.strategies.items():
        text = lab.text(result.run, name, NAME)
        read = Shardings.model_validate_json(text) if text else None
        strategies[name] = found.model_copy(update={"shardings": read})
    return result.model_copy(update={"strategies": strategies})


def shardings_report(result: Result) -> Iterator[str]:
    """Lines of each strategy whose shardings were read."""
    for name, found in result.strategies.items():
        if found.shardings is not None:
            yield ""
            yield from shardings_lines(title(name), found.shardings)


def shardings_lines(name: str, found: Shardings) -> Iterator[str]:
    """A sentence, and a row for each step that has a name or needs something sent."""
    yield f"{name}: {words.headline(found)}"
    rows = [("value", "shape", "sharded", "per device", "before it", "source")]
    rows += [(words.value_words(step), words.shape_words(step), words.sharded_words(step),
              bytes_text(step.bytes), words.before_words(step), _place(step))
             for step in found.steps if words.is_told(step)]
    if len(rows) > 1:
        yield from table(rows, numbers=(3,))


def _place(step: Step) -> str:
    return f"{step.source}: {step.code}" if step.source else "operand"
