"""A run waits, and says why, while there are too few descriptors to start a worker; it does not fail."""

import pytest

from spmd_core.base import descriptors
from spmd_core.lab.supervisor.lane import WORKER_DESCRIPTORS
from spmd_core.words import phase_words
from tests.labs import PATIENCE_S, experiment, until

pytestmark = pytest.mark.usefixtures("standin_engine")
SENTENCE = (
    "a worker takes 10 file descriptors, and 3 are left: close tabs and other programs, or start "
    "again with a higher `ulimit -n`"
)


def test_a_run_waits_for_descriptors_and_says_so(lab):
    with pytest.MonkeyPatch.context() as few:
        few.setattr(descriptors, "left", lambda: WORKER_DESCRIPTORS - 7)
        run = lab.submit(experiment())
        assert until(lambda: lab.problem) == SENTENCE
        status = lab.status(run)
    assert status.state == "queued"
    words = f"number 1 in the queue, waiting for the queue to go on: {SENTENCE}"
    assert phase_words(status) == words
    assert lab.wait(run, PATIENCE_S).state == "succeeded"
    assert lab.problem is None


def test_a_waiting_run_can_be_cancelled(lab, monkeypatch):
    monkeypatch.setattr(descriptors, "left", lambda: 0)
    run = lab.submit(experiment())
    assert until(lambda: lab.problem)
    lab.cancel(run)
    assert lab.wait(run, PATIENCE_S).state == "cancelled"


def test_a_worker_takes_no_more_descriptors_than_are_kept_for_it(lab):
    before = descriptors.left()
    run = lab.submit(experiment())
    least = before
    while not lab.status(run).is_over:
        least = min(least, descriptors.left())
    assert 0 < before - least <= WORKER_DESCRIPTORS
