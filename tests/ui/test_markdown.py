import pytest

from spmd_core.experiment.experiment import parse_experiment
from spmd_core.runs.states import RunStatus
from tests.ui.values import comparison, result, strategy
from ui.markdown import ago, as_sentence, environment_words, experiment_words, headline_words, phase_words, plain


def test_the_headline_says_who_is_fastest_and_by_how_much():
    found = result({"single": strategy(10e-6), "auto": strategy(25e-6)}, comparison=comparison("single", ("auto", 2.5, True)))
    assert headline_words(found) == "Single device is fastest, 10 µs per call. The next, Automatic takes 2.5× as long (95 % interval 2.25 to 2.75)."


def test_the_headline_names_those_that_cannot_be_told_apart_with_their_own_medians():
    found = result({"single": strategy(10e-6), "auto": strategy(10.1e-6), "shard_map": strategy(30e-6)},
                   comparison=comparison("single", ("auto", 1.01, False), ("shard_map", 3.0, True)))
    assert headline_words(found) == ("Single device (10 µs) and Automatic (10.1 µs) cannot be told apart by these samples. "
                                     "shard_map takes 3× as long (95 % interval 2.7 to 3.3).")


def test_too_few_samples_are_named_where_the_times_lie_far_apart():
    found = result({"single": strategy(10e-6), "auto": strategy(300e-6)}, comparison=comparison("single", ("auto", 30.0, False)))
    assert headline_words(found) == ("Single device (10 µs) and Automatic (300 µs) cannot be told apart by these samples. "
                                     "They are too few to be sure of any difference: take more.")


def test_a_lone_strategy_is_given_with_its_interval():
    assert headline_words(result({"auto": strategy(25e-6)})) == "Automatic takes 25 µs per call (95 % interval 24.5 µs to 25.5 µs)."


def test_a_wrong_answer_is_never_the_headline():
    found = result({"auto": strategy(5e-6, correct=False), "single": strategy(10e-6)})
    assert headline_words(found).startswith("Single device takes 10 µs")
    nothing = result({"auto": {"status": "error", "error": {"kind": "X", "message": "no"}}})
    assert headline_words(nothing) == "No strategy was measured to the end."


@pytest.mark.parametrize("name", ["<img src=x>", "[a](http://b)", "`code`", "$x$", ":smile:", "**b**", "# h", "a_b", "1. x"])
def test_plain_leaves_no_markup(name):
    shown = plain(name)
    assert shown.replace("\\", "") == name
    assert not any(shown[at] in "<[`$:*#_" and (at == 0 or shown[at - 1] != "\\") for at in range(len(shown)))


def test_what_a_run_is_doing():
    experiment = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}})
    queued = RunStatus("r", "queued", experiment, 0.0, queue_position=2, waiting_for="1 queued before it")
    assert phase_words(queued) == "number 2 in the queue, waiting for 1 queued before it"
    assert phase_words(RunStatus("r", "running", experiment, 0.0, phase="compile", strategy="auto")) == "compiling Automatic"
    assert phase_words(RunStatus("r", "starting", experiment, 0.0)) == "starting a worker on cpu:8"


def test_an_experiment_and_its_devices_in_a_line():
    experiment = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 2, "y": 4}, "sharding": {"in": ["x", "y"]}})
    assert experiment_words(experiment) == "Dense layer, in=32 out=4, float32, in over x y, mesh x=2 y=4 on cpu:8"
    assert environment_words(result({"auto": strategy(1e-5)}).environment) == "8 simulated CPU devices sharing 2 cores, JAX 0.10.2"


def test_how_long_ago():
    assert [ago(0, passed) for passed in (5, 300, 7200)] == ["just now", "5 min ago", "2 h ago"]


def test_a_message_after_a_sentence_is_one_itself():
    assert as_sentence("the worker process died: run it again") == "The worker process died: run it again."
    assert as_sentence("Already one.") == "Already one." and as_sentence("") == ""
    assert as_sentence("batch=30 does not divide") == "batch=30 does not divide."
    assert as_sentence("xla_flag is unknown") == "xla_flag is unknown."
