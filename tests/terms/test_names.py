"""How a stored run came out, in a word or two."""

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.results import Imprecise, StrategyResult
from spmd_core.runs import RunSummary
from spmd_core.terms import outcome_words
from spmd_core.words import verdict_words, wrong_words
from spmd_core.words.facts import imprecise_words

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
        ({"auto": 1.0}, None, "Measured, not ranked"),  # of values that could not be judged
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
        fastest=None if predicted is None or predicted else "single",
        partial=False,
        error=None,
        predicted_s=predicted or {},
    )
    assert outcome_words(summary) == words


def found(share=0.03125, count=512, of=16_384, several=False, **worst):
    report = {"shape": [1], "dtype": "float32"}
    element = {"result": "y", "index": [3, 7], "got": 1.25, "expected": 2.5, "bound": 0.01} | worst
    return StrategyResult.model_validate(
        {
            "status": "ok",
            "correct": False,
            "outputs": {"y": report} | ({"loss": report} if several else {}),
            "wrong": {"count": count, "of": of, "share": share, "worst": element},
        }
    )


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            found(),
            "3.1% of y is wrong (512 of 16,384 elements): worst at [3, 7], got 1.25, expected "
            "2.5 ± 0.01",
        ),
        (
            found(share=1e-6, got="nan"),
            "less than 0.1% of y is wrong (512 of 16,384 elements): worst at [3, 7], got nan, "
            "expected 2.5 ± 0.01",
        ),
        (
            found(share=0.9999),
            "more than 99% of y is wrong (512 of 16,384 elements): worst at [3, 7], got 1.25, "
            "expected 2.5 ± 0.01",
        ),
        (
            found(share=1.0, count=1, of=1, index=[]),
            "100% of y is wrong (1 of 1 element): got 1.25, expected 2.5 ± 0.01",
        ),
        (
            found(several=True),
            "3.1% of all results is wrong (512 of 16,384 elements): worst at y[3, 7], got 1.25, "
            "expected 2.5 ± 0.01",
        ),
        (
            found(several=True, result="loss", index=[]),
            "3.1% of all results is wrong (512 of 16,384 elements): worst at loss, got 1.25, "
            "expected 2.5 ± 0.01",
        ),
    ],
)
def test_the_share_comes_first_then_the_worst_element(result, words):
    assert wrong_words(result) == words


def test_what_is_right_has_no_words_and_an_old_result_its_old_ones():
    assert wrong_words(StrategyResult(status="ok", correct=True)) is None
    assert wrong_words(StrategyResult(status="ok")) is None
    old = StrategyResult.model_validate(
        {"status": "ok", "correct": False, "max_rel_error": 0.5, "tolerance": 1e-5}
    )
    assert wrong_words(old) == "its largest relative error 0.5 is above 1e-05"
    assert wrong_words(StrategyResult(status="ok", correct=False, tolerance=1e-5)) == (
        "its largest relative error unknown is above 1e-05"
    )


@pytest.mark.parametrize(
    ("terms", "off", "words"),
    [
        (1024, 0.1, "adds 1,024 terms in bfloat16, 10% off"),
        (None, 0.00012, "adds in bfloat16, less than 0.1% off"),
    ],
)
def test_what_is_imprecise_says_how_far_its_sums_are_off(terms, off, words):
    share = {"count": 1, "of": 4, "share": 0.25}
    imprecise = Imprecise(**share, off=off, terms=terms, dtype="bfloat16")
    outcome = StrategyResult(status="ok", correct=True, imprecise=imprecise)
    assert imprecise_words(imprecise) == words
    assert verdict_words(outcome) == "imprecise"
    assert wrong_words(outcome) is None
