"""A training run: the loss streams, falls, and is the same whichever way the step is spread."""

import numpy as np
import pytest

from spmd_core.facts.trace import MAX_POINTS, thinned
from spmd_core.runs import Progress
from spmd_core.workloads.strategies import MAP_STRATEGIES, SHARDING_STRATEGIES

STEP = {
    "workload": "train_step",
    "mesh": {"x": 8},
    "dims": {"batch": 32, "in": 8, "out": 2},
    "sharding": {"batch": "x"},
}


def descended(steps, environment):
    """Losses of gradient descent in NumPy, on the operands of the experiment."""
    rng = np.random.default_rng(0)
    x, noise, weights, bias = (rng.normal(size=size) for size in ((32, 8), (32, 2), (8, 2), (2,)))
    target = x @ np.random.default_rng(1).normal(size=(8, 2)) / np.sqrt(8) + 0.1 * noise
    losses = []
    for _ in range(steps):
        difference = x @ weights / np.sqrt(8) + bias - target
        losses.append((difference**2).sum(axis=1).mean())
        weights = weights - 0.2 * x.T @ (2 * difference / 32) / np.sqrt(8)
        bias = bias - 0.2 * (2 * difference / 32).sum(axis=0)
    return losses


@pytest.mark.this_python
def test_the_loss_falls_alike_under_every_strategy(run, environment):
    every = [
        name
        for name in (*SHARDING_STRATEGIES, *MAP_STRATEGIES)
        if name not in ("vmap", "pmap(vmap)")
    ]
    finished = run(**STEP, strategies=every, options={"steps": 30})
    expected = descended(30, environment)
    assert expected[-1] < 0.2 * expected[0]
    for name, outcome in finished.result.strategies.items():
        assert outcome.status == "ok", outcome.error
        assert outcome.series["loss"] == pytest.approx(expected, rel=1e-4), name
        assert len(outcome.series["step_s"]) == 30 and min(outcome.series["step_s"]) > 0
        assert any(
            note.startswith(f"loss {expected[0]:.4g} before the first step")
            for note in outcome.notes
        )


@pytest.mark.this_python
def test_two_layers_learn_too(run):
    dims = {"batch": 32, "in": 8, "hidden": 16, "out": 2}
    finished = run(
        **(STEP | {"dims": dims}),
        strategies=["single", "shard_map", "pmap"],
        options={"model": "two-layer", "steps": 60},
    )
    curves = {name: outcome.series["loss"] for name, outcome in finished.result.strategies.items()}
    assert all(curve[-1] < 0.5 * curve[0] for curve in curves.values())
    assert curves["shard_map"] == pytest.approx(curves["single"], rel=1e-3)


def test_loss_and_step_time_stream_while_it_runs(run):
    run(**STEP, strategies=["single", "auto"], options={"steps": 300})
    told = [event for event in run.events if isinstance(event, Progress) and event.series]
    assert set(told[-1].series) == {"loss/single", "loss/auto", "step_s/single", "step_s/auto"}
    assert (told[-1].done, told[-1].of) == (300, 300)
    assert len(told[-1].series["loss/auto"]) == MAX_POINTS
    assert set(told[-1].medians_s) == {"single", "auto"}  # what was measured before stays in sight
    assert [event.phase for event in run.events if event.event == "phase"][-1] == "train"


@pytest.mark.this_python
def test_cancelling_keeps_the_steps_that_were_taken(run):
    def cancelled():
        return any(isinstance(event, Progress) and event.series for event in run.events)

    finished = run(cancelled, **STEP, strategies=["single", "auto"], options={"steps": 10_000})
    assert finished.result.partial
    steps = {len(outcome.series["loss"]) for outcome in finished.result.strategies.values()}
    assert len(steps) == 1 and 0 < steps.pop() < 10_000
    for outcome in finished.result.strategies.values():
        assert outcome.status == "ok" and outcome.median_s > 0
        assert any("stopped after" in note for note in outcome.notes)


def test_without_steps_nothing_is_trained(run):
    finished = run(**STEP, strategies=["single"])
    assert finished.result.strategies["single"].series == {}
    assert not any(event.event == "phase" and event.phase == "train" for event in run.events)


def test_a_long_curve_keeps_its_ends():
    assert thinned([1.0, 2.0]) == (1.0, 2.0)
    short = thinned(list(range(1000)))
    assert (
        len(short) == MAX_POINTS
        and short[0] == 0
        and short[-1] == 999
        and list(short) == sorted(short)
    )
