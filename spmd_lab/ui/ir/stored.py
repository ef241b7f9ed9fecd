"""The texts of stored programs, read once for the few that are shown."""

from collections import Counter
from functools import lru_cache
from pathlib import Path

import spmd_core
from spmd_core.program import ProgramText, TextDifference, compare, file_name, is_file, read_text
from spmd_lab.ui.lab import kept, lab

_PROGRAMS = Path(spmd_core.__file__).parent / "script" / "programs"


@kept(6)  # of megabytes, for large programs
def text(run: str, strategy: str, kind: str) -> ProgramText | None:
    """A text of a strategy of a run; None where the run left none."""
    written = lab().texts(run, strategy).get(kind)
    return None if written is None else read_text(written, kind)


def kinds(run: str, strategy: str) -> tuple[str, ...]:
    """The kinds of text that a strategy left, in the order in which JAX makes them."""
    return _kinds(run, strategy) or ()


@kept(64)
def _kinds(run: str, strategy: str) -> tuple[str, ...] | None:
    there = lab().texts(run, strategy)
    return tuple(kind for kind in ("program", "jaxpr", "stablehlo", "hlo") if kind in there) or None


@kept(6)
def difference(run: str, left: str, right: str, kind: str) -> TextDifference | None:
    """How the texts of two strategies differ; None where one left none."""
    one, other = text(run, left, kind), text(run, right, kind)
    return compare(one, other) if one and other else None


def source(run: str, strategy: str, shown: ProgramText) -> tuple[str, tuple[str, ...]] | None:
    """The file that most ops of a text were made from, and its lines: the strategy's program, or a
    module of programs that it calls.

    None where the text names no line of either.
    """
    own = own_file(run, strategy)
    if any(is_file(frame.file, own) for op in shown.ops for frame in op.frames):
        program = text(run, strategy, "program")
        return (own, program.lines) if program else None
    known = {path.name: path for path in _PROGRAMS.glob("*.py")}
    innermost = (
        next(
            (name for frame in op.frames if (name := frame.file.rsplit("/", 1)[-1]) in known), None
        )
        for op in shown.ops
    )
    counted = Counter(name for name in innermost if name).most_common(1)
    return (
        (counted[0][0], tuple(known[counted[0][0]].read_text().splitlines())) if counted else None
    )


@lru_cache(maxsize=64)
def own_file(run: str, strategy: str) -> str:
    """Returns the name of the file that a strategy's program is quoted as."""
    return file_name(lab().status(run).experiment.workload, strategy)
