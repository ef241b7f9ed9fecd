"""Measurements say what they measure, and end with 1 where a figure misses its goal."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as every
from bench.figures import Figures, measure
from tests import layers


@pytest.mark.parametrize(
    ("value", "goal", "words", "code"),
    [
        (2.0, {"most": 2.0}, "goal at most 2: met", 0),
        (2.1, {"most": 2.0}, "goal at most 2: MISSED", 1),
        (0.96, {"least": 0.97, "most": 1.03}, "goal 0.97 to 1.03: MISSED", 1),
        (18, {"least": 18}, "goal at least 18: met", 0),
        (float("nan"), {"most": 1.0}, "MISSED", 1),
        (7.0, {}, "goal none: met", 0),
    ],
)
def test_a_figure_stands_beside_its_goal(value, goal, words, code, capsys):
    figures = Figures()
    figures.add("a rerun", value, "ms", **goal)
    assert words in capsys.readouterr().out
    assert figures.finish() == code


def test_one_that_is_missed_decides_and_nothing_measured_is_a_miss(capsys):
    figures = Figures(as_json=True)
    figures.add("one", 1.0, most=0.5)
    figures.add("two", 1.0, most=2.0)
    assert capsys.readouterr().out == ""
    assert figures.finish() == 1
    assert [each["met"] for each in json.loads(capsys.readouterr().out)] == [False, True]
    assert Figures().finish() == 1


@pytest.mark.parametrize(("words", "code"), [(["--rounds", "4", "b"], 0), (["a"], 1)])
def test_a_measurement_takes_its_options_and_ends_with_its_verdict(words, code, monkeypatch):
    """An option by its default, and one that is positional."""
    monkeypatch.setattr("sys.argv", ["bench", *words])

    def main(asked, figures):
        figures.add("rounds", asked.rounds, least=4, note=asked.part)

    with pytest.raises(SystemExit) as ended:
        measure(main, "about", rounds=3, part={"place": True, "choices": "ab"})
    assert ended.value.code == code


def test_those_that_take_minutes_are_there():
    assert set(every.SCRIPTS) > every.SLOW


def test_what_is_left_out_is_named_with_its_reason(monkeypatch):
    path = every.SCRIPTS["click_to_median"]
    assert every.left_out(path) is None  # the packages of the tests are here
    monkeypatch.setattr(every, "find_spec", lambda name: None if name == "playwright" else name)
    assert every.left_out(path) == "needs playwright: see requirements-dev.txt"
    assert every.left_out(every.SCRIPTS["kills"]) == "takes minutes"
    assert every.left_out(every.SCRIPTS["neighborhoods"]) is None


def test_measurements_start_without_the_packages_of_the_tests():
    """`python -m bench` imports what the standard library has, and lists in a process of its own."""
    blocked = (
        "import sys; [sys.modules.__setitem__(name, None) for name in ('pytest', "
        "'hypothesis', 'playwright')]; "
    )
    listed = "from bench import __main__ as every; print(*(each for each in every.SCRIPTS))"
    done = subprocess.run(
        [sys.executable, "-c", blocked + listed], cwd=layers.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and "click_to_median" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "path", sorted(Path(every.__file__).parent.glob("*.py")), ids=lambda path: path.name
)
def test_measurements_import_no_tests(path: Path):
    """Tests import from `bench`; the other way there is none."""
    found = [name for _, name in layers.imports(path.read_text("utf-8"), "bench")]
    assert not [name for name in found if name.split(".")[0] in ("tests", "pytest", "hypothesis")]


@pytest.mark.parametrize("path", every.SCRIPTS.values(), ids=lambda path: path.name)
def test_the_packages_of_a_measurement_are_found(path: Path):
    assert every.packages(path)


@pytest.mark.parametrize("path", every.SCRIPTS.values(), ids=lambda path: path.name)
def test_a_measurement_says_what_it_measures_and_ends_with_its_verdict(path: Path):
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree)
    if path.stem != "pictures":
        assert "measure(main, __doc__" in ast.unparse(tree.body[-1])
