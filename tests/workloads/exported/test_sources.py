"""The text of a program's source files, kept beside it."""

import importlib.util
import os
import sys
from types import SimpleNamespace

import pytest

from bench.exported import sgd_step
from spmd_core.own.sources import line_of
from spmd_core.workloads import programs, sources

pytestmark = pytest.mark.usefixtures("read_here")


@pytest.fixture
def keep(read_here, monkeypatch, tmp_path):
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
    for each in programs.held():  # of other tests of this process too
        programs.delete(each.program)
    assert lines("step.py") == []


def test_a_name_of_two_files_quotes_neither(keep):
    lines = keep("mine/step.py", "mine/own.py", a__mine__step="a", b__mine__step="b", mine__own="c")
    assert lines("step.py") == [] and lines("own.py") == ["c"]


def test_a_file_that_is_too_large_leaves_the_others_theirs(keep, monkeypatch):
    monkeypatch.setattr(sources, "MOST_BYTES", 8)
    files = ("m/large.py", "m/full.py", "m/more.py")
    lines = keep(*files, m__large="x" * 9, m__full="x" * 8, m__more="x")
    assert [bool(lines(each.rpartition("/")[2])) for each in files] == [False, True, False]


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("def f(x):\n    return x\n", "def f(x):\n    return x\n# a comment below\n", True),
        ("def f(x):\n    return x\n", "\ndef f(x):\n    return x\n", False),
        ("class F:\n    def g(self):\n        return 'data'\n", "class F:\n    def g(self):\n        return 'tp'\n", False),
        ("import functools\n@functools.cache\ndef f(x):\n    return x\n", "def f(x:\n", False),
    ],
)  # fmt: skip
def test_a_file_that_was_edited_since_it_was_imported_quotes_no_line(
    monkeypatch, tmp_path, before, after, is_same
):
    path = tmp_path / "edited_step.py"
    path.write_text(before)
    spec = importlib.util.spec_from_file_location("edited_step", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "edited_step", module)
    spec.loader.exec_module(module)
    assert sources.is_as_imported(path)
    path.write_text(after)
    os.utime(path, (1, 1))
    assert sources.is_as_imported(path) == is_same
    program = programs.take(sgd_step()).model_copy(
        update={"files": (f"{tmp_path.name}/{path.name}",)}
    )
    sources.keep(program)
    quoted = sources.lines(program.program, path.name)
    assert set(quoted) == ({*after.split("\n")} if is_same else {sources.EDITED})
    assert line_of(f"{path}:1")[1] == (after.split("\n")[0] if is_same else sources.EDITED)
