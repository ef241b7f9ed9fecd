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


@pytest.mark.parametrize(
    ("medians", "predicted", "words"),
    [
        ({"single": 1.0, "auto": 2.0}, {}, "Measured"),
        ({"single": 1.0, "auto": None, "pmap": 2.0}, {}, "Measured, 1 of 3 failed"),
        ({"single": None, "auto": None}, {"auto": 1.0}, "Predicted, 1 of 2 without a time"),
    ],
)
def test_a_run_one_of_whose_strategies_failed_is_not_called_measured_alone(
    medians, predicted, words
):
    summary = RunSummary(
        run="r",
        state="succeeded",
        experiment=parse_experiment(LAYER | {"target": "cpu:4"}),
        submitted_at=0.0,
        finished_at=1.0,
        medians_s=medians,
        fastest=None if predicted else "single",
        partial=False,
        error=None,
        predicted_s=predicted,
    )
    assert outcome_words(summary) == words
