"""The test command: browser tests that fail beside the others alone do not fail the check; and no
test depends on how fast the machine is.
"""

import ast
import math
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests import check
from tests.cover import cover
from tests.layers import ROOT, nodes

CLOCKS = ("monotonic", "perf_counter", "process_time", "thread_time", "timeit", "time_ns")


@pytest.fixture
def failing(tmp_path, monkeypatch):
    """Tests of a folder that fail where a file is beside them, failed once; the run of them."""
    monkeypatch.setattr(check, "ROOT", tmp_path)

    def fail(folder, count):
        (tmp_path / "beside").touch()
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "test_it.py").write_text(
            "import pathlib, pytest\n"
            f"@pytest.mark.parametrize('number', range({count}))\n"
            "def test_it(number):\n    assert not pathlib.Path('beside').exists()\n"
        )
        kept = f"{check.CACHE}{folder.replace('/', '-')}-{count}"
        command = (sys.executable, "-m", "pytest", "-n", "0", "-o", kept, folder)
        assert subprocess.run(command, cwd=tmp_path).returncode
        return command

    return fail


def test_few_browser_tests_that_pass_alone_do_not_fail_the_check(failing, tmp_path, capfd):
    command = failing(check.BROWSER, check.MOST_ALONE)
    assert not check.pass_alone(command), "they fail alone too"
    (tmp_path / "beside").unlink()
    capfd.readouterr()
    assert check.pass_alone(command)
    printed = capfd.readouterr().out
    assert f"{check.MOST_ALONE} browser tests again, alone" in printed
    assert f"{check.BROWSER}test_it.py::test_it[0]" in printed


@pytest.mark.parametrize(
    ("folder", "count"), [(check.BROWSER, check.MOST_ALONE + 1), ("tests/lab/", 1)]
)
def test_many_of_them_and_those_of_processes_fail_it(failing, tmp_path, folder, count):
    command = failing(folder, count)
    (tmp_path / "beside").unlink()
    assert not check.pass_alone(command)
    assert not check.pass_alone((sys.executable, "-m", "pyrefly"))


FORKED = f"""
import os
import sys
import pytest
sys.path.insert(0, {str(ROOT)!r})
from tests import processes

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    def begin():
        os.environ["OWN"] = str(os.getpid())

    return processes.run(session, 2, lambda name: name.partition("::")[0], begin)
"""
SHARED = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(9))
def test_shared(number):
    assert os.environ["OWN"] == str(os.getpid())
    seen = pathlib.Path("seen_FILE")
    assert not seen.exists() or seen.read_text() == str(os.getpid())
    seen.write_text(str(os.getpid()))

def test_fails(tmp_path):
    print("printed there")
    assert not tmp_path.exists()
"""
ENDS = """
import os

def test_ends():
    os.kill(os.getpid(), 9)

def test_after():
    pass
"""


@pytest.mark.parametrize("ends", [(), ("a",), ("a", "b", "c")])
def test_processes_share_the_groups_and_what_one_loses_has_failed(tmp_path, ends):
    (tmp_path / "conftest.py").write_text(FORKED)
    for name in ends:
        (tmp_path / f"test_{name}.py").write_text(ENDS)
    for name in "xyz":
        (tmp_path / f"test_{name}.py").write_text(SHARED.replace("FILE", name))
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:xdist")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    few = len(ends) < 2  # two processes: two that end leave none
    failed, passed = 2 * len(ends) + (3 if few else 30), 27 if few else 0
    assert f"{failed} failed" + f", {passed} passed" * few in done.stdout
    assert done.stdout.count("printed there") >= 3 * few
    assert done.stdout.count("process ended before it had done") >= 2 * len(ends)


def of_a_clock(tree: Iterable[ast.AST]) -> list[int]:
    """Lines of assertions that read a clock, or what a test took of one."""
    return [
        node.lineno
        for node in tree
        if isinstance(node, ast.Assert)
        for each in ast.walk(node.test)
        if isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] in CLOCKS
    ]


def test_no_test_asserts_how_long_something_takes():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in of_a_clock(nodes(path.read_text("utf-8")))
    ]
    assert found == []
    assert of_a_clock(nodes("assert time.monotonic() - begun < 5")) == [1]


@pytest.mark.parametrize("sizes", [(5, 3), (4, 2, 2), (1, 1)])
def test_every_check_has_each_value_of_a_sweep_and_the_whole_one_has_the_product(sizes):
    cases = cover(*(range(size) for size in sizes))
    assert len({case.values for case in cases}) == math.prod(sizes) == len(cases)
    often = [case.values for case in cases if not case.marks]
    assert len(often) == max(sizes)
    assert [len(set(values)) for values in zip(*often, strict=True)] == list(sizes)


def test_what_a_check_leaves_out_is_left_out_by_its_mark():
    *paths, _, marks = check.marked("newer", "this_python", "whole")
    assert marks == "newer and not this_python and not whole"
    assert any(path.endswith("tests/engine") for path in paths)
