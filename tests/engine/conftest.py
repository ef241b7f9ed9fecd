"""Eight simulated CPU devices, in every process that imports jax here."""

import jax
import pytest

from spmd_core.advice import in_words
from spmd_core.engine.devices import describe
from spmd_core.engine.measured.run import run_experiment
from spmd_core.experiment import parse_experiment

QUICK = {"samples": 3, "min_seconds": 0.0}


@pytest.fixture(scope="session", autouse=True)
def _devices():
    """Checked once tests run: a process with devices has threads, and could not be forked."""
    assert jax.device_count() == 8, (
        "tests/conftest.py asks for 8 simulated CPU devices before jax is imported"
    )
    assert jax.default_backend() == "cpu"


@pytest.fixture(scope="session")
def environment():
    return describe("cpu:8")


@pytest.fixture
def run(environment):
    """Runs an experiment, quickly unless it says otherwise, and keeps the events that it emits."""

    def run(cancelled=lambda: False, **spec):
        given = spec if "study" in spec else {"target": "cpu:8", "timing": QUICK} | spec
        experiment = parse_experiment(given)
        run.events.clear()
        done = run_experiment(experiment, "run-1", environment, run.events.append, cancelled)
        assert not any(each.notes for each in done.result.strategies.values()), "facts alone"
        return done.model_copy(update={"result": in_words(done.result)})

    run.events = []
    return run
