"""A child process ends by what it takes of a core, not by how busy the machine is."""

import os
import time

import pytest

from spmd_core.base import child
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


def test_seconds_of_a_core_are_those_of_the_process():
    before = core_s(os.getpid())
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert 0.1 < core_s(os.getpid()) - before < 5.0
    assert core_s(2**22 + 1) == 0.0
