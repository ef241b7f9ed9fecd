"""A child process ends by what it takes of a core and prints, not by how busy the machine is; one that is kept
ready is asked once.
"""

import os
import time

import pytest

from spmd_core.base import Spare, child, child as spare
from spmd_core.base.child import ask_child, core_s

ENVIRON = {"PATH": os.environ["PATH"]}


@pytest.fixture
def module(tmp_path):
    """Writes a module that a child runs; its environment, in which it is found."""

    def write(text):
        (tmp_path / "asked.py").write_text(f"import os, sys, time\n{text}")
        return ENVIRON | {"PYTHONPATH": str(tmp_path)}

    return write


def test_one_that_computes_is_ended_by_seconds_of_a_core(module):
    answer = ask_child("asked", [], module("while True: pass"), 0.3)
    assert answer.stopped == "time"


def test_one_that_waits_has_many_times_as_long(module, monkeypatch):
    monkeypatch.setattr(child, "CLOCK_TIMES", 1e6)
    waits = "time.sleep(0.8)\nos.write(int(sys.argv[1]), b'read')"
    answer = ask_child("asked", [], module(waits), 0.4)
    assert (answer.text, answer.stopped) == ("read", "")


def test_one_that_waits_for_ever_is_ended(module, monkeypatch):
    monkeypatch.setattr(child, "CLOCK_TIMES", 0.01)
    assert ask_child("asked", [], module("time.sleep(3600)"), 30.0).stopped == "time"


@pytest.mark.parametrize("descriptor", ["1", "2", "int(sys.argv[1])"])
@pytest.mark.parametrize("waits", ["", "time.sleep(60)"])
def test_one_that_writes_without_end_is_ended_and_not_read(descriptor, waits, module, monkeypatch):
    monkeypatch.setattr(child, "MOST_OUTPUT_BYTES", 2**20)
    text = f"for _ in range(40): os.write({descriptor}, b'x' * 2**16)\n{waits}"
    answer = ask_child("asked", [], module(text), 30.0)
    assert answer.stopped == "output"
    assert answer.text == "" and len(answer.errors) <= child.TAIL_BYTES


def test_seconds_of_a_core_are_those_of_the_process():
    before = core_s(os.getpid())
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert 0.1 < core_s(os.getpid()) - before < 5.0
    assert core_s(2**22 + 1) == 0.0


READY = """
from spmd_core.base.child import asked
open(sys.argv[0] + ".ready", "w").close()
text = "/".join([str(os.getpid()), *asked()])
os.write(int(sys.argv[1]), text.encode())
"""


@pytest.fixture
def ready(module, tmp_path):
    """A spare whose child is ready, and that child."""
    kept = Spare("asked", module(READY))
    kept.prepare()
    until = time.monotonic() + 60
    while not (tmp_path / "asked.py.ready").exists() and time.monotonic() < until:
        time.sleep(0.01)
    child = kept._child
    assert child and child.is_there
    yield kept, child
    child.end()


def test_a_spare_is_asked_once(ready):
    kept, child = ready
    kept.prepare()
    assert kept._child is child, "one is enough"
    answers = [kept.ask(("one", "two words"), 30.0, 2**30).text.split("/") for _ in range(2)]
    assert [each[1:] for each in answers] == [["one", "two words"]] * 2
    assert answers[0][0] == str(child._process.pid) != answers[1][0]
    assert not child.is_there


@pytest.mark.parametrize("is_late", [True, False])
def test_a_spare_that_ends_soon_or_was_killed_is_not_asked(ready, monkeypatch, is_late):
    kept, child = ready
    if is_late:
        monkeypatch.setattr(spare, "WAIT_S", 0.0)
    else:
        child._process.kill()
        child._process.wait()
    assert kept.ask(("again",), 30.0, 2**30).text.partition("/")[2] == "again"
    assert not child.is_there


def test_a_spare_ends_with_the_process_that_keeps_it(ready):
    _, child = ready
    child._process.stdin.close()
    child._process.wait(30)
    assert (child._process.returncode, child._answer.read()) == (0, b"")
