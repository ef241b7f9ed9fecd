"""Chips, mesh and days of a training run: against every number of chips, one by one."""

from itertools import pairwise

import pytest

from spmd_core.base import RequestError
from spmd_core.machine import topology_of_chips
from spmd_core.search.question import REMATS
from spmd_core.sweeps import (
    TOKENS_OF_A_STEP,
    TrainingQuestion,
    best_mesh,
    context_rows,
    least_chip_days,
    train,
    training_run,
)
from spmd_core.time import estimate_step
from spmd_core.workloads import parse_plan

FORM = {"model": "llama-3.1-8b", "sequence": 8192}
TOKENS, BATCH = 1e12, 512
COUNTS = (8, 16, 32, 64, 128, 256, 512)


def run_on(kind, chips, price=None):
    best = best_mesh(FORM, topology_of_chips(kind, chips).target, BATCH, REMATS)
    run = training_run(estimate_step(best.plan), best.plan, TOKENS, price)
    return run if best.fits else None


@pytest.mark.parametrize("days", [7, 30])
def test_a_deadline_has_the_fewest_chips_that_keep_it(days):
    answer = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5p", "h100"), days=days))
    for row in answer.rows:
        kept = [c for c in COUNTS if (run := run_on(row.kind, c)) and run.days.estimate <= days]
        assert row.meets and row.plan.topology.chips == min(kept) and row.plan.batch == BATCH
        assert row.run == run_on(row.kind, min(kept))
        assert row.plan.topology.chips * days >= least_chip_days(row.plan, TOKENS)
    assert answer.by == "chips" and answer.best.plan.topology.chips == min(
        row.plan.topology.chips for row in answer.rows
    )


def test_a_deadline_is_kept_beyond_sizes_that_are_slower_than_a_smaller_one():
    form = {"model": "deepseek-v3-671b", "sequence": 4096}
    (row,) = train(TrainingQuestion(form, 14.8e12, 15360, ("v5p",), days=70)).rows
    days = [run.days.estimate for _, run in row.tried]
    assert any(one < other for one, other in pairwise(days)), "else this test is of nothing"
    assert any(one > other for one, other in pairwise(days))
    assert row.meets and row.run.days.estimate <= 70
    fewer = [run for chips, run in row.tried if chips < row.plan.topology.chips]
    assert fewer and all(run.days.estimate > 70 for run in fewer)


def test_a_budget_has_the_most_chips_that_it_pays():
    question = TrainingQuestion(FORM, TOKENS, BATCH, ("v5p", "v5e"), budget=2.3e5, price=PRICE)
    answer = train(question)
    v5p, v5e = answer.rows
    paid = [
        c for c in COUNTS if (run := run_on("v5p", c, dict(PRICE)["v5p"])) and run.money <= 2.3e5
    ]
    assert v5p.meets and v5p.plan.topology.chips >= max(paid) and v5p.run.money <= 2.3e5
    assert v5e.meets and answer.best in (v5p, v5e)
    poor = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5p",), budget=10.0, price=PRICE[:1]))
    assert poor.best is None and not poor.rows[0].meets and poor.rows[0].run.money > 10


PRICE = (("v5p", 4.2), ("v5e", 1.2))


def test_with_prices_the_cheapest_within_a_deadline_is_best_and_the_front_is_one():
    kinds = ("v5p", "v5e")
    answer = train(TrainingQuestion(FORM, TOKENS, BATCH, kinds, days=30, price=PRICE))
    money = {row.kind: row.run.money for row in answer.rows}
    assert answer.by == "dollars" and answer.best.kind == min(money, key=money.get)
    ordered = {row.kind: row for row in answer.rows}
    for one, other in pairwise(answer.front):
        assert ordered[one].run.days.estimate <= ordered[other].run.days.estimate
        assert money[one] > money[other]
    assert answer.best.kind in answer.front


def test_so_many_chips_of_each_and_what_does_not_fit():
    answer = train(TrainingQuestion(FORM, TOKENS, kinds=("v5e", "h100"), chips=256))
    assert [row.plan.topology.chips for row in answer.rows] == [256, 256]
    assert all(row.plan.tokens == TOKENS_OF_A_STEP for row in answer.rows)
    assert answer.by == "days" and answer.best.kind == "h100"
    few = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5e",), chips=8))
    assert few.best is None and few.rows[0].refusal == "does not fit" and few.rows[0].run is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "chips is one of three ways to ask"),
        ({"chips": 8, "days": 3.0}, "chips is one of three ways to ask"),
        ({"budget": 5.0}, "needs a price per chip-hour"),
        ({"chips": 8, "kinds": ("v9",)}, "chip 'v9' is unknown"),
    ],
)
def test_a_question_without_an_answer_is_refused(given, sentence):
    with pytest.raises(RequestError, match=sentence):
        train(TrainingQuestion(FORM, TOKENS, **given))


def test_on_its_own_chips_no_kind_of_attention_over_context_is_faster_than_the_answer():
    mesh = {"fsdp": 32, "context": 8}
    form = {"model": "llama-3.1-70b", "sequence": 131072, "mesh": mesh}
    plan = parse_plan(form | {"target": "tpu:v5p:4x8x8", "batch_per_device": 1 / 8})
    kinds = [row for row in context_rows(plan) if row.tokens == plan.sequence and row.step.fits]
    found = best_mesh(plan.to_json(), plan.target, plan.batch, REMATS)
    seconds = estimate_step(found.plan).predicted_s.estimate
    assert found.fits and len(kinds) > 1 and seconds <= min(row.seconds for row in kinds)
    other = best_mesh(form | {"mesh": None}, "tpu:v6e:16x16", plan.batch, REMATS)
    assert "context" in other.plan.axis_sizes or not other.fits
