"""How every step of a program is sharded: read after propagation and before partitioning, from what
the compiler writes of a compile of its own; the program that is timed is left alone.
"""

import linecache
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spmd_core.base import LabError
from spmd_core.engine.exported.lower import quoted_files
from spmd_core.engine.trial import Trial
from spmd_core.experiment import STRATEGIES, Experiment
from spmd_core.machine import dump_folder
from spmd_core.program import NAME, Mesh, lost_batch, parse_module, steps_of
from spmd_core.results import Collective, Event, LostBatch, NoShardings, Phase, Shardings, Texts

# The passes that propagate: Shardy's, and XLA's own where Shardy is off
PASSES = "shardy-xla|sharding-propagation"
_FILES = ("*after_shardy-xla*", "*after_sharding-propagation*")


def compiler_options(folder: Path) -> dict[str, object]:
    """Have the compiler write the program there as propagation leaves it."""
    return {
        "xla_dump_to": str(folder),
        "xla_dump_hlo_as_text": True,
        "xla_dump_hlo_pass_re": PASSES,
    }


def compiled_again(
    lowered: Any, mesh: Mesh, collectives: Sequence[Collective], file: str | tuple[str, ...] = ""
) -> Shardings:
    """The steps of a program, by compiling it again; `file` names its own text."""
    with dump_folder() as folder:
        lowered.compile(compiler_options=compiler_options(folder))
        return of_folder(folder, mesh, collectives, file)


def source_lines(name: str) -> list[str]:
    """Returns the lines of a source: of a program that was composed here, or of an absolute path.

    An exported program names files as it likes, by their last two parts. Read below the folder of
    the server, such a name would quote a file of it.
    """
    kept = linecache.cache.get(name)
    if kept and kept[1:2] == (None,):  # no time of a file: the text was put there by `lower.py`
        return linecache.getlines(name)
    return linecache.getlines(name) if os.path.isabs(name) else []


def of_folder(
    folder: Path,
    mesh: Mesh,
    collectives: Sequence[Collective] = (),
    file: str | tuple[str, ...] = "",
) -> Shardings:
    """The steps of the program that a compile has written to a folder."""
    files = _written(folder)
    if not files:
        return Shardings(reason=NoShardings.NO_DUMP)
    try:
        module = parse_module(files[0].read_text())
        return steps_of(module, mesh, source_lines, collectives, file)
    except Exception as error:  # a reader that meets what it does not know costs no run
        return Shardings(reason=" ".join(str(error).split())[:300] or type(error).__name__)


def batch_options(experiment: Experiment, folder: Path) -> dict[str, object]:
    """The same of an exported program with a batch on several devices; {} of any other."""
    program = experiment.exported
    is_judged = program and program.described.batch and experiment.device_count > 1
    return compiler_options(folder) if is_judged else {}


def lost_batch_of(experiment: Experiment, folder: Path) -> LostBatch | None:
    """Where a program loses its batch, by what a compile has written to a folder; None where it
    keeps it, or nothing was written.
    """
    if (program := experiment.exported) is None:
        return None
    described = program.described
    return lost_batch_in(folder, experiment.mesh, described.batch, described.files)


def lost_batch_in(
    folder: Path, mesh: Mesh, batch: Sequence[int], own: tuple[str, ...]
) -> LostBatch | None:
    """The same of a program whose arguments numbered `batch` are its batch, with its `own` files."""
    files = _written(folder)
    if not files:
        return None
    try:
        return lost_batch(parse_module(files[0].read_text()), mesh, batch, own)
    except LabError:  # a reader that meets what it does not know costs no run
        return None


def _written(folder: Path) -> list[Path]:
    return [file for pattern in _FILES for file in sorted(folder.glob(pattern))]


def read(
    trials: Sequence[Trial],
    experiment: Experiment,
    emit: Callable[[Event], None],
    cancelled: Callable[[], bool],
) -> None:
    """Read and keep them; whatever the compiler raises the second time is the reason why not."""
    for trial in trials:
        if cancelled() or trial.failure is not None:
            continue
        emit(Phase(phase="shardings", strategy=trial.key))
        shardings = _read(trial, trial.row.experiment if trial.row else experiment)
        emit(Texts(strategy=trial.key, texts={NAME: shardings.model_dump_json()}))


def _read(trial: Trial, experiment: Experiment) -> Shardings:
    if STRATEGIES[trial.strategy].is_single_device:
        return Shardings(reason=NoShardings.ONE_DEVICE)
    if trial.lowered is None:
        return Shardings(reason=NoShardings.NOT_COMPILED)
    try:
        file = quoted_files(experiment, trial.strategy)
        steps = compiled_again(trial.lowered, experiment.mesh, trial.collectives or (), file)
        trial.explain(steps)
        return steps
    except Exception as error:  # whatever the compiler raises: what was measured stays
        return Shardings(reason=" ".join(str(error).split())[:300] or type(error).__name__)
