"""The text of a program's source files, kept beside it."""

import sys
from types import SimpleNamespace

import pytest

from bench.exported import sgd_step
from spmd_core.experiment import programs, sources


@pytest.fixture
def keep(monkeypatch, tmp_path):
    """Writes files, imports them, and keeps those that a program names."""

    program = programs.take(sgd_step())

    def kept(*files, **texts):
        described = program.model_copy(update={"files": files})
        for name, text in texts.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            monkeypatch.setitem(sys.modules, f"kept_{name}", SimpleNamespace(__file__=str(path)))
        sources.keep(described)
        return lambda file: list(sources.lines(program.program, file))

    return kept


def test_files_that_the_program_names_are_kept_until_it_is_deleted(keep):
    lines = keep("mine/step.py", mine__step="a\n\x0cb\u2028c\nd", mine__secret="token = 1")
    assert lines("step.py") == ["a", "\x0cb\u2028c", "d"]  # lines as the compiler counts them
    assert lines("secret.py") == []
    assert keep("gone/other.py")("step.py")  # a process that has imported none forgets none
    (held,) = programs.held()
    programs.delete(held.program)
    assert lines("step.py") == []


def test_a_name_of_two_files_quotes_neither(keep):
    lines = keep("mine/step.py", "mine/own.py", a__mine__step="a", b__mine__step="b", mine__own="c")
    assert lines("step.py") == [] and lines("own.py") == ["c"]


def test_a_file_that_is_too_large_leaves_the_others_theirs(keep, monkeypatch):
    monkeypatch.setattr(sources, "MOST_BYTES", 8)
    files = ("m/large.py", "m/full.py", "m/more.py")
    lines = keep(*files, m__large="x" * 9, m__full="x" * 8, m__more="x")
    assert [bool(lines(each.rpartition("/")[2])) for each in files] == [False, True, False]
