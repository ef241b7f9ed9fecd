"""A forked process of the tests is as one that was started, and a child of who started it."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from spmd_core.time.cost import version
from tests import forked

STATE = """
import json, os, signal, sys
if __name__ == "__main__":
    state = {"argv": sys.argv[1:], "file": os.path.basename(sys.argv[0]), "cwd": os.getcwd()}
    state |= {"env": dict(os.environ), "path": sys.path, "stdin": sys.stdin.read()}
    state |= {"leads": os.getsid(0) == os.getpid(), "parent": os.getppid(), "open": os.listdir("/proc/self/fd")}
    state |= {"interrupted": str(signal.getsignal(signal.SIGINT)), "ended": str(signal.getsignal(signal.SIGTERM))}
    os.write(int(sys.argv[1]), json.dumps(state).encode())
    print("printed")
    print("complained", file=sys.stderr)
    if sys.argv[2] == "wait":
        signal.pause()
    sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts the module, and says what it wrote to its descriptor."""
    (tmp_path / "stating.py").write_text(STATE)
    monkeypatch.setattr(forked, "OURS", ("stating",))
    monkeypatch.setattr(forked, "_started", Counter())

    def start(word, *flags, moment="a"):
        read, write = os.pipe()
        environ = os.environ | {"SPMD_LAB_MOMENT": moment, "PYTHONPATH": str(tmp_path)}
        process = forked.Forked(
            [sys.executable, *flags, "-m", "stating", str(write), word],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(write,),
            start_new_session=True,
            text=True,
        )
        os.close(write)
        process.stdin.write("a line")
        process.stdin.close()
        process.stdin = None
        with open(read) as file:
            state = json.loads(os.read(file.fileno(), 2**16))
        state["argv"].pop(0)  # the number of the descriptor
        state["open"] = len(state["open"])
        return process, state

    return start


@pytest.mark.parametrize("flags", [(), ("-P",)])
def test_a_forked_process_is_as_one_that_was_started(started, flags):
    pairs = [started("3", *flags, moment=str(number)) for number in range(3)]
    ends = [(*process.communicate(), process.returncode) for process, _ in pairs]
    assert ends == [("printed\n", "complained\n", 3)] * 3
    moments = [state["env"].pop("SPMD_LAB_MOMENT") for _, state in pairs]
    assert moments == ["0", "1", "2"]
    first, *others = [state for _, state in pairs]
    assert first["parent"] == os.getpid() and first["leads"]
    assert others == [first] * 2
    assert "stating" in {module for module, *_ in forked._all}, "none was forked"


def test_a_forked_process_ends_by_a_signal_and_its_group_is_its_own(started):
    for process, _ in [started("wait") for _ in range(3)]:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
        assert process.returncode == -signal.SIGTERM


def test_where_nothing_forks_any_more_processes_are_started(started):
    for process, _ in [started("0") for _ in range(2)]:
        process.communicate()
    for (module, *_), forks in forked._all.items():
        if module == "stating":
            forks._process.kill()
            forks._process.wait()
    process, state = started("4")
    assert process.communicate()[0] == "printed\n" and process.returncode == 4
    assert state["parent"] == os.getpid()


def test_forked_processes_know_the_hashes_of_the_sources_that_they_would_work_out(monkeypatch):
    monkeypatch.setattr(forked, "_hashes", [])
    forked.learn()
    assert [value for _, value in forked._hashes] == [
        version.hash_of.__wrapped__(version._ROOT, tuple(each)) for each, _ in forked._hashes
    ]
    monkeypatch.setattr(version, "hash_of", None)
    forked._take(forked._hashes)
    assert version.versions()["cost_model"] == forked._hashes[0][1]
