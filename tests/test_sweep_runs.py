"""The points of a sweep as runs: known ones from the store, the others queued together; refusals, failures and cancelling."""

from dataclasses import replace
from pathlib import Path

import pytest

from spmd_core.decoder import DEFAULT_SPEC
from spmd_core.errors import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.prediction import Estimate, PredictedMemory, Prediction
from spmd_core.results import Environment, Failure, Result, StrategyResult
from spmd_core.run_states import RunStatus
from spmd_core.sweep import Point, variants
from spmd_core.sweep_runs import Asked, cancel, look, start, to_compile
from spmd_core.sweep_values import parse_sweep

BASE = parse_experiment(DEFAULT_SPEC)
LARGE = parse_experiment({**DEFAULT_SPEC, "options": {"model": "llama-2-13b", "remat": "full"}})


class StandInLab:
    """A Lab that queues in a list and runs nothing."""

    def __init__(self, folder: Path):
        self.folder, self.queue, self.results, self.over, self.cancelled = folder, [], {}, {}, []
        self.reads = 0
        self.refuses = lambda experiment: None

    def submit(self, experiment):
        if sentence := self.refuses(experiment):
            raise RequestError(sentence)
        run = f"run{len(self.queue) + len(self.over)}"
        self.queue.append(RunStatus(run, "queued", experiment, 0.0, queue_position=len(self.queue)))
        return run

    def cancel(self, run):
        self.cancelled.append(run)
        self.end(run, "cancelled")

    def end(self, run, state, error=None, found=None):
        status = next(status for status in self.queue if status.run == run)
        self.queue.remove(status)
        self.over[run] = replace(status, state=state, error=error)
        if found:
            environment = Environment(jax="", jaxlib="", python="", platform="tpu", device_kind="", device_count=1)
            self.results[run] = Result(run=run, experiment=status.experiment, environment=environment, strategies={"auto": found})

    def status(self, run):
        if run in self.over:
            return self.over[run]
        return next(status for status in self.queue if status.run == run)

    def active(self):
        return tuple(self.queue)

    def result(self, run):
        self.reads += 1
        return self.results.get(run)

    def latest(self, experiment):
        return next((run for run, result in reversed(self.results.items()) if result.experiment == experiment), None)


@pytest.fixture
def lab(tmp_path) -> StandInLab:
    return StandInLab(tmp_path)


def points(text="chips=8,24,64,256", base=BASE) -> tuple[Point, ...]:
    return variants(parse_sweep(base, text))


def found(step_s=1.0) -> StrategyResult:
    return StrategyResult(status="ok", prediction=Prediction(
        fits=True, memory_bytes=PredictedMemory(peak=1, capacity=2), predicted_s=Estimate(low=step_s, estimate=step_s, high=step_s)))


def states(outcomes) -> list[str]:
    return [outcome.state for outcome in outcomes]


def test_unknown_points_are_queued_together_and_fill_in_as_they_come(lab):
    given, asked = points(), Asked()
    assert states(look(lab, given, asked)) == ["not compiled", "refused", "not compiled", "not compiled"]
    start(lab, to_compile(given, look(lab, given, asked)), asked)
    assert [status.experiment for status in lab.queue] == [given[0].experiment, given[2].experiment, given[3].experiment]
    lab.queue[0] = replace(lab.queue[0], state="running", phase="compile")
    assert states(look(lab, given, asked)) == ["running", "refused", "waiting", "waiting"]
    lab.end("run0", "succeeded", found=found(2.0))
    outcomes = look(lab, given, asked)
    assert (states(outcomes), outcomes[0].numbers.step_s) == (["predicted", "refused", "waiting", "waiting"], 2.0)
    assert to_compile(given, outcomes) == ()


def test_a_stored_point_is_answered_without_a_compile_and_read_once(lab):
    given = points("chips=8")
    lab.end(lab.submit(given[0].experiment), "succeeded", found=found(3.0))
    for _ in range(3):
        (known,) = look(lab, given)
    assert (known.state, known.run, known.numbers.step_s, lab.reads) == ("predicted", "run0", 3.0, 1)
    assert to_compile(given, [known]) == ()


def test_points_too_large_by_their_sizes_are_not_compiled(lab):
    given = points("chips=8,64", LARGE)
    outcomes = look(lab, given)
    assert states(outcomes) == ["too large", "not compiled"]
    assert to_compile(given, outcomes) == (given[1],)


def test_a_failure_keeps_its_words_the_others_go_on_and_it_can_be_tried_again(lab):
    given, asked = points("chips=8,64"), Asked()
    start(lab, given, asked)
    lab.end("run0", "crashed", Failure(kind="WorkerError", message="the compiler\ndied"))
    outcomes = look(lab, given, asked)
    assert [(outcome.state, outcome.words) for outcome in outcomes] == [("failed", "the compiler died"), ("waiting", None)]
    assert to_compile(given, outcomes) == (given[0],)
    lab.end("run1", "succeeded", found=StrategyResult(status="error", error=Failure(kind="WorkerError", message="refused")))
    assert [(outcome.state, outcome.words) for outcome in look(lab, given, asked)][1] == ("failed", "refused")


def test_a_point_that_the_lab_refuses_says_why_and_the_others_are_queued(lab):
    given, asked = points("chips=8,64"), Asked()
    lab.refuses = lambda experiment: "no room" if experiment.device_count == 8 else None
    start(lab, given, asked)
    assert [(outcome.state, outcome.words) for outcome in look(lab, given, asked)] == [("failed", "no room"), ("waiting", None)]


def test_cancelling_ends_what_is_queued_before_what_runs(lab):
    given, asked = points("chips=8,64,256"), Asked()
    start(lab, given, asked)
    lab.queue[0] = replace(lab.queue[0], state="running")
    cancel(lab, look(lab, given, asked))
    assert lab.cancelled == ["run1", "run2", "run0"]
    assert states(look(lab, given, asked)) == ["not compiled"] * 3


def test_equal_points_are_compiled_once(lab):
    given = points("generation=v5e") * 2
    assert len(to_compile(given, look(lab, given))) == 1
