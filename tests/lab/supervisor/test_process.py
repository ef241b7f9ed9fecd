"""One worker process, spoken to directly."""

import os
import signal
import socket

import pytest

from spmd_core.lab.supervisor.process import Worker, ending_text
from spmd_core.runs import CancelCommand, Finished, Progress, Ready, RunCommand
from tests.labs import PATIENCE_S, STANDIN, experiment, is_running, is_stopped, until
from tests.standin import sitecustomize as standin


@pytest.fixture
def worker():
    worker = Worker("cpu:8", {**os.environ, "PYTHONPATH": str(STANDIN)})
    yield worker
    worker.stop(0.2)
    worker.close()


def listen(worker, wanted):
    """The next event of that type."""
    found = []
    until(
        lambda: (
            found.extend(event for event in worker.receive() if isinstance(event, wanted)) or found
        )
    )
    return found[0]


def start(worker, run, behaviour):
    worker.send(RunCommand(run=run, experiment=experiment(behaviour)))


def test_the_end_of_input_ends_the_worker_while_it_computes(worker):
    listen(worker, Ready)
    start(worker, "a", standin.DEAF)
    listen(worker, Progress)
    # as when its parent is gone, but for the signal that Linux sends
    worker._reader.shutdown(socket.SHUT_WR)
    until(lambda: not is_running(worker.pid))


def test_a_cancel_is_for_its_own_run_alone(worker):
    listen(worker, Ready)
    start(worker, "a", standin.QUICK)
    assert not listen(worker, Finished).result.partial
    start(worker, "b", standin.ROUNDS)
    listen(worker, Progress)
    worker.send(CancelCommand(run="a"))
    later = []
    until(lambda: later.extend(worker.receive()) or len(later) > 10)
    assert not any(isinstance(event, Finished) for event in later)  # it goes on
    worker.send(CancelCommand(run="b"))
    assert listen(worker, Finished).result.partial


def test_a_cancel_that_comes_before_its_run_has_begun_counts(worker):
    listen(worker, Ready)
    start(worker, "a", standin.ROUNDS)
    worker.send(CancelCommand(run="a"))
    assert listen(worker, Finished).result.partial


def test_speaking_to_a_dead_worker_says_that_it_is_gone(worker):
    listen(worker, Ready)
    os.kill(worker.pid, 9)
    until(lambda: not is_running(worker.pid))
    start(worker, "a", standin.QUICK)
    assert worker.receive() == []
    until(worker.is_gone)
    assert worker.reap() == -9


def test_a_stopped_worker_stays_stopped(worker):
    assert worker.stop(PATIENCE_S) == -15
    assert worker.stop(PATIENCE_S) == -15
    assert worker.is_gone()


def test_a_paused_worker_stands_as_soon_as_it_is_told_so_and_a_dead_one_costs_no_wait(worker):
    listen(worker, Ready)
    start(worker, "a", standin.ROUNDS)
    listen(worker, Progress)
    for _ in range(20):
        worker.pause()
        assert is_stopped(worker.pid)
        worker.resume()
    os.kill(worker.pid, signal.SIGKILL)
    until(lambda: not is_running(worker.pid))
    worker.pause()
    assert worker.is_gone()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "ended with exit status 0"),
        (3, "ended with exit status 3"),
        (-6, "was ended by SIGABRT"),
        (-9, "was ended by SIGKILL, which the kernel also sends when memory runs out"),
        (-77, "was ended by signal 77"),
        (None, "does not end"),
    ],
)
def test_an_ending_in_words(status, words):
    assert ending_text(status) == words
