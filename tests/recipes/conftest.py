"""One Lab, and so one worker process, for all recipes; each program runs once."""

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab

QUICK = {"samples": 2, "min_seconds": 0}


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    opened = Lab.open(tmp_path_factory.mktemp("recipes"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def run(lab):
    """Gives the result of a spec; one that another test has asked for is not computed again."""

    def of(spec, again=False):
        experiment = parse_experiment({"target": "cpu:8"} | spec | {"timing": QUICK})
        run_id = (not again and lab.latest(experiment)) or lab.submit(experiment)
        status = lab.wait(run_id, 180)
        assert status.state == "succeeded", status.error
        return lab.result(run_id)

    return of
