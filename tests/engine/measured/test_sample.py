"""A run takes as many rounds as its verdicts need, where nobody chose how many."""

import numpy as np
import pytest

from bench.values import ENVIRONMENT
from spmd_core.advice import in_words
from spmd_core.engine import timing
from spmd_core.engine.measured.sample import Sampler
from spmd_core.engine.timing import Timed
from spmd_core.engine.trial import Trial
from spmd_core.experiment import LOOKS_AFTER, parse_experiment
from spmd_core.results import Result, StrategyResult
from spmd_core.results.stats import compare
from spmd_core.words import evidence_words

pytestmark = pytest.mark.this_python
LAYER = {"target": "cpu:8", "workload": "layer", "mesh": {"x": 8}, "strategies": ["single", "auto"]}


@pytest.fixture
def sampled(monkeypatch):
    """Samples two programs on a clock that stands but for their calls: seconds of each call by
    turns, from a seed.
    """

    def sample(factor, noise, process=1, wrong=(), base_s=2e-3, **changes):
        now, draw = [0.0], np.random.default_rng(0)
        monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

        def program(seconds):
            def call():
                now[0] += seconds * np.exp(draw.normal(0, noise))
                return np.float32(0)

            return call

        monkeypatch.setattr(timing, "waiter", lambda result: lambda result: result)
        seconds = {"single": base_s, "auto": base_s * factor}
        trials = [Trial(name, program=Timed(name, program(s), ())) for name, s in seconds.items()]
        events = []
        experiment = parse_experiment(LAYER | changes)
        sampler = Sampler(experiment, trials, events.append, lambda: False, process)
        sampler.warm_up()
        if process > 1:
            sampler.measure_again()
        else:
            sampler.measure()
            for trial in trials:
                trial.correct = trial.strategy not in wrong
            sampler.remeasure()
        rounds = {trial.strategy: trial.program.rounds for trial in trials}
        return sampler, rounds, [event for event in events if event.event == "progress"]

    return sample


def test_it_ends_at_the_look_that_settles_every_verdict(sampled):
    for factor, said in ((1.5, "faster"), (1.0, "the same")):
        sampler, rounds, progress = sampled(factor, 0.002)
        assert sampler.looks == (10,) and {len(each) for each in rounds.values()} == {10}
        assert compare(rounds, 20, has_looks=True).ratios[0].verdict == said
        assert {each.of for each in progress} == {20}


def test_it_goes_on_while_one_is_open(sampled):
    sampler, rounds, _ = sampled(1.02, 0.3)
    assert sampler.looks == LOOKS_AFTER and min(map(len, rounds.values())) > 20


@pytest.mark.parametrize("chosen", [{"samples": 19}, {"min_seconds": 0.3}])
def test_rounds_that_somebody_chose_are_kept(sampled, chosen):
    sampler, rounds, _ = sampled(3.0, 0.002, timing=chosen)
    assert sampler.looks == () and len(rounds["single"]) >= chosen.get("samples", 20)


def test_where_the_fastest_is_wrong_the_others_are_measured_as_planned(sampled):
    sampler, rounds, _ = sampled(1.5, 0.002, wrong=["single"])
    assert {len(each) for each in rounds.values()} == {20}, sampler.looks


def test_a_further_process_ends_by_its_own_error(sampled):
    counts = [len(sampled(1.0, noise, process=2)[1]["single"]) for noise in (0.002, 0.3)]
    assert counts[0] == 10 and counts[1] > 20


def test_a_further_process_of_slow_programs_takes_the_planned_rounds(sampled):
    assert len(sampled(1.0, 0.3, process=2, base_s=4.0)[1]["single"]) == 20


def test_the_result_says_why_it_ended():
    turns = tuple((1e-3 * (1 + at % 2 / 100),) for at in range(10))
    rounds = {"single": turns, "auto": tuple((3 * each,) for (each,) in turns)}

    def result(looks):
        return Result(
            run="r",
            experiment=parse_experiment(LAYER),
            environment=ENVIRONMENT,
            strategies={
                name: StrategyResult(
                    status="ok",
                    samples_s=tuple(each for (each,) in of),
                    turns_s=of,
                    median_s=of[0][0],
                    correct=True,
                    facts=(),
                )
                for name, of in rounds.items()
            },
            comparison=compare(rounds, 20, has_looks=bool(looks)),
            looks=looks,
        )

    ended, cancelled = result((10,)), result(())
    assert evidence_words(ended) == (
        "ratios with 99% intervals, 10 rounds, of 20 planned: every verdict was settled"
    )
    assert evidence_words(cancelled) == "ratios with 99% intervals, 10 rounds"
    again = tuple(each.model_copy(update={"processes": 3}) for each in ended.comparison.ratios)
    further = ended.comparison.model_copy(update={"ratios": again})
    assert "settled" not in evidence_words(ended.model_copy(update={"comparison": further}))
    said = "stopped after 10 of 20 samples"
    notes = [in_words(each).strategies["auto"].notes for each in (ended, cancelled)]
    assert said not in notes[0] and said in notes[1]
    assert "looks" not in cancelled.model_dump() and ended.model_dump()["looks"] == (10,)
