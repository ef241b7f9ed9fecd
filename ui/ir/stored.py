"""The texts of stored programs, read once for the few that are looked at."""

from collections import Counter
from functools import lru_cache
from pathlib import Path

import spmd_core
from spmd_core.program import ProgramText, TextDifference, compare, file_name, is_file, read_text
from ui.lab import NothingStored, lab

_PROGRAMS = Path(spmd_core.__file__).parent / "script" / "programs"


def text(run: str, strategy: str, kind: str) -> ProgramText | None:
    """A text of a strategy of a run; None where the run left none."""
    try:
        return _text(run, strategy, kind)
    except NothingStored:
        return None


def kinds(run: str, strategy: str) -> tuple[str, ...]:
    """The kinds of text that a strategy left, in the order in which JAX makes them."""
    try:
        return _kinds(run, strategy)
    except NothingStored:
        return ()


def difference(run: str, left: str, right: str, kind: str) -> TextDifference | None:
    """How the texts of two strategies differ; None where one left none."""
    try:
        return _difference(run, left, right, kind)
    except NothingStored:
        return None


def source(run: str, strategy: str, shown: ProgramText) -> tuple[str, tuple[str, ...]] | None:
    """The file that most ops of a text were made from, and its lines: the strategy's program, or a
    module of programs that it calls.

    None where the text names no line of either.
    """
    own = _own_file(run, strategy)
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
def _own_file(run: str, strategy: str) -> str:
    return file_name(lab().status(run).experiment.workload, strategy)


@lru_cache(maxsize=6)  # of megabytes, for large programs
def _text(run: str, strategy: str, kind: str) -> ProgramText:
    written = lab().texts(run, strategy).get(kind)
    if written is None:
        raise NothingStored(kind)  # not kept: it may still come
    return read_text(written, kind)


@lru_cache(maxsize=64)
def _kinds(run: str, strategy: str) -> tuple[str, ...]:
    there = lab().texts(run, strategy)
    if not there:
        raise NothingStored(strategy)
    return tuple(kind for kind in ("program", "jaxpr", "stablehlo", "hlo") if kind in there)


@lru_cache(maxsize=6)
def _difference(run: str, left: str, right: str, kind: str) -> TextDifference:
    return compare(_text(run, left, kind), _text(run, right, kind))
