"""An exported program on the command line: what it stores, and how it ends."""

import shlex
from argparse import Namespace
from pathlib import Path

import pytest

from spmd_core.commands.own import what_if
from spmd_core.experiment import as_exported
from spmd_core.workloads import findings, programs
from tests.commands.calls import told

EXAMPLE = "spmd_core/recipes/example.jaxexport"
pytestmark = pytest.mark.usefixtures("data_folder", "read_here")


def test_what_if_holds_no_program_and_is_not_refused_where_others_fill_the_folder(monkeypatch):
    monkeypatch.setattr(programs, "MOST_HELD", 0)
    asked = told("what-if", EXAMPLE, "--spec", "params/embed=fsdp,tensor")
    assert asked.returncode == 0, asked.stderr
    assert "Peak memory per device" in asked.stdout
    assert not [*programs.folder().iterdir()]
    held = told("program", EXAMPLE)
    assert held.returncode == 2 and "delete some on Programs, under Open your step" in held.stderr


def test_what_if_keeps_a_program_that_was_held():
    assert told("program", EXAMPLE).returncode == 0
    before = {each.name for each in programs.folder().iterdir()}
    assert told("what-if", EXAMPLE, "--spec", "params/embed=fsdp,tensor").returncode == 0
    assert {each.name for each in programs.folder().iterdir()} >= before


def test_a_program_that_is_lent_is_left_to_whoever_takes_it_meanwhile():
    """Two processes on one data folder."""
    data = Path(EXAMPLE).read_bytes()
    with programs.lent(data, "lent"):
        programs.take(data, "taken")
    (held,) = programs.folder().glob("*.jaxexport")
    assert programs.find(held.stem).name == "taken"
    with programs.lent(data, "lent") as described:
        assert described.name == "taken"
    assert held.exists()


def test_a_program_that_is_deleted_while_it_is_lent_stays_deleted():
    with programs.lent(Path(EXAMPLE).read_bytes(), "lent"):
        for each in programs.folder().iterdir():
            each.unlink()
    assert not [*programs.folder().iterdir()]


@pytest.mark.parametrize(
    ("kinds", "code"),
    [("any", 1), ("replicated,constant", 1), ("constant", 0), ("", 0), ("big", 2)],
)
def test_a_finding_of_the_given_kinds_fails(kinds, code):
    done = told("program", EXAMPLE, f"--fail-on={kinds}")
    assert done.returncode == code
    assert ("is no kind of finding" in done.stderr) == (code == 2)


@pytest.mark.parametrize(
    ("accepted", "code"),
    [
        (("replicated:params/embed", "missing_donation", "rule"), 0),
        (("replicated:params/embed", "missing_donation"), 1),
        (("replicated:params/other", "missing_donation", "rule"), 1),
        (("big",), 2),
    ],
)
def test_a_finding_that_is_accepted_does_not_fail(accepted, code):
    words = [f"--accept={each}" for each in accepted]
    assert told("program", EXAMPLE, "--fail-on=any", *words).returncode == code


def test_each_finding_that_specs_mend_ends_in_words_that_what_if_takes():
    lines = told("program", EXAMPLE).stdout.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("replicated: params/embed"))
    assert lines[at].endswith("Its spec names no axis: try P(None, ('fsdp', 'tensor'))")
    start, _, words = lines[at + 1].partition(" what-if ")
    assert start == "  try it: python -m spmd_core"
    file, *given = shlex.split(words)
    assert file == EXAMPLE and set(given[::2]) == {"--spec"}
    described = programs.take(Path(EXAMPLE).read_bytes(), "example")
    asked = Namespace(spec=given[1::2], constrain=[], axis=[])
    mended = what_if._changed(as_exported(described), asked).exported
    assert mended and "replicated" not in {each.kind for each in findings(mended)}
    assert sum("  try it: " in line for line in lines) == 2  # the other is of a rule
