"""How every step of a program is sharded: read after propagation and before partitioning, from what
the compiler writes of a compile of its own; the program that is timed is left alone.
"""

import linecache
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from spmd_core.base import LabError
from spmd_core.engine.exported.lower import quoted_files
from spmd_core.engine.lower import RECORD, compile_with
from spmd_core.engine.trial import Trial
from spmd_core.experiment import Experiment
from spmd_core.facts import Collective, Judged, NoOrigin, NoShardings, Shardings
from spmd_core.machine import dump_folder
from spmd_core.program import (
    NAME,
    Mesh,
    Module,
    Origins,
    ProgramNames,
    Record,
    judged,
    parse_module,
    steps_of,
    with_origins,
    without_record,
)
from spmd_core.runs import Event, Phase, Texts
from spmd_core.workloads import STRATEGIES, Described, Program, sources

# The passes that propagate, Shardy's, and XLA's own where Shardy is off; and that partition
PASSES = "shardy-xla|sharding-propagation|spmd-partitioning"
_FILES = ("*after_shardy-xla*", "*after_sharding-propagation*")
_PARTITIONED = ("*after_spmd-partitioning*", "*after_tpu-spmd-partitioning*")
_RECORD = ("shardy/*/01.before_propagation.mlir", "shardy/*/02.after_propagation.mlir")
UNNAMED = ProgramNames()
MOST_BYTES = 32 * 2**20  # of a record that is read, about 20 s of reading


def compiler_options(folder: Path) -> dict[str, object]:
    """Have the compiler write the program there as propagation leaves it, for `compile_with`."""
    return {
        "xla_dump_to": str(folder),
        "xla_dump_hlo_as_text": True,
        "xla_dump_hlo_pass_re": PASSES + RECORD,
    }


def compiled_again(
    lowered: Any,
    mesh: Mesh,
    collectives: Sequence[Collective],
    names: ProgramNames = UNNAMED,
) -> Shardings:
    """The steps of a program, by compiling it again."""
    with dump_folder() as folder:
        compile_with(lowered, compiler_options(folder))
        return of_folder(folder, mesh, collectives, names)


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
    names: ProgramNames = UNNAMED,
    *,
    has_origins: bool = True,
) -> Shardings:
    """The steps of the program that a compile has written to a folder.

    Args:
      folder: where a compile with `compiler_options` has written its propagation.
      mesh: names and sizes of the mesh axes.
      collectives: of the compiled program.
      names: how the program's author names its ends.
      has_origins: whether steps have the origins of their axes.
    """
    files = _written(folder)
    if not files:
        return Shardings(reason=NoShardings.NO_DUMP)
    try:
        record = None
        with suppress(_TooLarge):
            record = _record(folder, names) if has_origins else None
        module = record.module if record else _parsed(files[0])
        blame = [Origins(record, mesh).of] if record else []
        return steps_of(module, mesh, names.lines or source_lines, collectives, names.file, *blame)
    except Exception as error:  # a reader that meets what it does not know costs no run
        return Shardings(reason=" ".join(str(error).split())[:300] or type(error).__name__)


def dump_options(experiment: Experiment, strategy: str, folder: Path) -> dict[str, object]:
    """The same of a program that the compiler partitions; {} of any other."""
    kind = STRATEGIES[strategy]
    is_partitioned = not kind.is_single_device and not kind.is_map and experiment.device_count > 1
    return compiler_options(folder) if is_partitioned else {}


def names_of(experiment: Experiment, strategy: str) -> ProgramNames:
    """How the author of a program names its files, arguments and outputs."""
    file = quoted_files(experiment, strategy)
    program = experiment.exported
    if program is None:
        return ProgramNames(file)
    quoted = partial(sources.lines, program.described.program)
    return replace(program_names(program.described, file), lines=quoted)


def program_names(described: Described, file: str | tuple[str, ...]) -> ProgramNames:
    """The same of a program that is described, with the files of its author."""
    arguments = (leaf.path for leaf in described.arguments if leaf.is_kept)
    outputs = (leaf.path for leaf in described.outputs)
    return ProgramNames(file, tuple(arguments), tuple(outputs), described.manual_axes)


def blamed(
    collectives: Sequence[Collective], module: Module, mesh: Mesh, folder: Path, names: ProgramNames
) -> tuple[Collective, ...]:
    """Returns collectives with the origins of their axes.

    Args:
      collectives: of the compiled program.
      module: that program.
      mesh: names and sizes of the mesh axes.
      folder: where a compile with `compiler_options` has written its propagation.
      names: how the program's author names its ends.
    """
    if not collectives:
        return ()
    why = NoOrigin.NO_RECORD
    try:
        if (record := _record(folder, names)) is not None:
            return with_origins(collectives, module, Origins(record, mesh))
    except _TooLarge:
        why = NoOrigin.TOO_LARGE
    except Exception:  # a reader that meets what it does not know costs no run
        why = NoOrigin.UNREADABLE
    return without_record(collectives, why, names.mapped)


class _TooLarge(Exception):
    """The record of a propagation is larger than `MOST_BYTES`."""


@lru_cache(maxsize=1)
def _record(folder: Path, names: ProgramNames) -> Record | None:
    files = _written(folder)[:1]
    files += [file for name in _RECORD for file in sorted(folder.glob(name))[:1]]
    if len(files) != 1 + len(_RECORD):
        return None
    if sum(file.stat().st_size for file in files) > MOST_BYTES:
        raise _TooLarge
    before, after = (file.read_text() for file in files[1:])
    return Record(_parsed(files[0]), before, after, names)


def judged_of(experiment: Experiment, folder: Path) -> Judged:
    """What is known against an exported program, by what a compile has written to a folder; nothing
    where nothing was written.
    """
    if (program := experiment.exported) is None:
        return Judged()
    return judged_in(folder, program, program.described.files)


def judged_in(folder: Path, program: Program, own: tuple[str, ...]) -> Judged:
    """The same of a program on its mesh, with its `own` source files."""
    files, described = _written(folder), program.described
    if not files:
        return Judged()
    try:
        divided = [parse_module(each.read_text()) for each in _written(folder, _PARTITIONED)[:1]]
        known = judged(
            _parsed(files[0]),
            program.mesh,
            described.batch,
            own,
            described.weight_numbers,
            *divided or [None],
            donated=described.donated,
            is_trained=bool(described.updated),
            arguments=described.numbers,
        )
    except LabError:  # a reader that meets what it does not know costs no run
        return Judged()
    with suppress(Exception):  # nor does a record of another form
        if record := _record(folder, program_names(described, own)):
            origins = Origins(record, program.mesh)
            of = lambda one: {"origin": origins.of_line(one.axes, one.source)}  # noqa: E731
            lost = known.lost_batch
            update = {
                "lost_batch": lost and lost.model_copy(update=of(lost)),
                "accidents": tuple(
                    one.model_copy(update=of(one)) if one.axes and one.source else one
                    for one in known.accidents
                ),
            }
            return known.model_copy(update=update)
    return known


@lru_cache(maxsize=1)
def _parsed(file: Path) -> Module:
    return parse_module(file.read_text())


def forget() -> None:
    """Keep nothing of a folder that was read: its process is not one of our own."""
    _parsed.cache_clear()
    _record.cache_clear()


def _written(folder: Path, patterns: Sequence[str] = _FILES) -> list[Path]:
    return [file for pattern in patterns for file in sorted(folder.glob(pattern))]


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
        names = names_of(experiment, trial.strategy)
        steps = compiled_again(trial.lowered, experiment.mesh, trial.collectives or (), names)
        trial.explain(steps)
        return steps
    except Exception as error:  # whatever the compiler raises: what was measured stays
        return Shardings(reason=" ".join(str(error).split())[:300] or type(error).__name__)
