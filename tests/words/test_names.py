"""How a stored run came out, in a word or two."""

import pytest

from spmd_core.experiment.experiment import parse_experiment
from spmd_core.results.runs.states import RunSummary
from spmd_core.words.names import outcome_words

SWEEP = {"workload": "collectives", "mesh": {"x": 4}}
LAYER = {"workload": "layer", "mesh": {"x": 4}}


@pytest.mark.parametrize(
    ("spec", "target", "words"),
    [
        (SWEEP, "cpu:4", "Measured"),
        (SWEEP, "tpu:v5e:2x2", "Predicted"),
        (LAYER, "tpu:v5e:2x2", "Does not fit"),
    ],
)
def test_a_run_that_succeeded_without_one_time_says_what_it_did(spec, target, words):
    experiment = parse_experiment(spec | {"target": target})
    summary = RunSummary(
        run="r",
        state="succeeded",
        experiment=experiment,
        submitted_at=0.0,
        finished_at=1.0,
        medians_s={},
        fastest=None,
        partial=False,
        error=None,
    )
    assert outcome_words(summary) == words
