"""What makes a stored prediction outdated: a change of what computes its numbers, and no other."""

import shutil

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.script import program_text
from spmd_core.time.cost import version
from spmd_core.time.cost.version import hash_of, tree_hash, versions
from spmd_core.workloads import DEFAULT_SPEC


@pytest.fixture
def sources(tmp_path):
    """A copy of the package, and a function that gives its hash after an edit of a file."""
    shutil.copytree(
        version._ROOT, tmp_path / "now", ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )

    def after(name: str, before: str, text: str) -> str:
        path = tmp_path / "now" / name
        source = path.read_text("utf-8")
        assert source.count(before) == 1
        path.write_text(source.replace(before, text), "utf-8")
        hash_of.cache_clear()
        return hash_of(tmp_path / "now", version._SOURCES)

    return after


def test_a_number_changes_the_hash_of_the_cost_model(sources):
    changed = sources(
        "time/cost/constants.py", "LINK_EFFICIENCY = 0.9\n", "LINK_EFFICIENCY = 0.8\n"
    )
    assert changed != version.cost_version()


@pytest.mark.parametrize(
    "name",
    ["program/hlo/module.py", "machine/links.py", "script/parts.py", "plan/fields.py"],
)
def test_every_room_that_makes_a_number_counts(sources, name, tmp_path):
    path = tmp_path / "now" / name
    path.write_text((path.read_text("utf-8") if path.exists() else "") + "\nNEW = 1\n", "utf-8")
    hash_of.cache_clear()
    assert hash_of(tmp_path / "now", version._SOURCES) != version.cost_version()


def test_comments_docstrings_formatting_and_screens_change_nothing(sources):
    note = "LINK_EFFICIENCY = (\n    0.9  # another note\n)\n"
    assert (
        sources("time/cost/constants.py", "LINK_EFFICIENCY = 0.9\n", note) == version.cost_version()
    )
    before = '"""What the cost model assumes'
    assert sources("time/cost/constants.py", before, '"""Assumed') == version.cost_version()
    other = sources("words/texts.py", "on one device nothing is sharded", "nothing is sharded")
    assert other == version.cost_version()


def test_a_program_file_counts_for_the_programs_that_use_it():
    model = program_text(parse_experiment(DEFAULT_SPEC), "auto")
    longer = model + "\nOTHER = 1\n"
    assert versions(model) == versions(f"# a comment\n{model}") != versions(longer)
    assert {name for name, value in versions(model).items() if versions(longer)[name] != value} == {
        "program"
    }
    assert tree_hash("def f():\n    '''A.'''\n    return 1") == tree_hash("def f(): return 1")
