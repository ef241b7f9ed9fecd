"""Chips, mesh and days of a training run: against every number of chips, one by one."""

import sys
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import experiment_of
from spmd_core.machine import topology_of_chips
from spmd_core.search import question_for
from spmd_core.search.question import REMATS
from spmd_core.sweeps import (
    MOST_CHIPS,
    TOKENS_OF_A_STEP,
    TrainingQuestion,
    best_mesh,
    context_rows,
    first_look,
    least_chip_days,
    parse_sweep,
    train,
    training_run,
    variants,
)
from spmd_core.sweeps.training import MAY_EXCEED, budget_verdict
from spmd_core.time import estimate_step
from spmd_core.workloads import parse_plan
from tests.cover import cover, whole

pytestmark = pytest.mark.slow
FORM = {"model": "llama-3.1-8b", "sequence": 8192}
TOKENS, BATCH = 1e12, 512
COUNTS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@pytest.fixture
def no_options(monkeypatch):
    """Best plans in one pass, with collective matmuls."""
    module = sys.modules[best_mesh.__module__]
    monkeypatch.setattr(module, "step_options", lambda given, may_pass_in_rings: ((),))
    module._best.cache_clear()
    yield
    module._best.cache_clear()


def run_on(kind, chips, price=None):
    batch = TrainingQuestion(FORM, TOKENS, BATCH).sequences_on(chips)
    try:
        target = topology_of_chips(kind, chips).target
    except RequestError:
        return None
    best = best_mesh(FORM, target, batch, REMATS)
    run = training_run(estimate_step(best.plan), best.plan, TOKENS, price)
    return run if best.fits else None


@pytest.mark.parametrize("days", [pytest.param(7, marks=whole), 30])
def test_a_deadline_has_the_fewest_chips_that_keep_it(days):
    answer = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5p", "h100"), days=days))
    for row in answer.rows:
        fewest = row.plan.topology.chips
        assert row.meets and row.run.days.estimate <= days
        assert fewest in COUNTS and row.run == run_on(row.kind, fewest)
        fewer = [run for c in COUNTS if c < fewest and (run := run_on(row.kind, c))]
        assert fewer and all(run.days.estimate > days for run in fewer)
        assert row.plan.batch == answer.question.sequences_on(fewest)
        assert row.plan.topology.chips * days >= least_chip_days(row.plan, TOKENS)
    assert answer.by == "chips" and answer.best.plan.topology.chips == min(
        row.plan.topology.chips for row in answer.rows
    )


@pytest.mark.parametrize(
    ("chips", "batch"),
    [(256, 512), (768, 384), (384, 384), (192, 576), (96, 480), (1536, 384), (56, 504), (3, 513)],
)
def test_the_batch_is_the_nearest_that_an_odd_factor_of_the_chips_divides(chips, batch):
    assert TrainingQuestion(FORM, TOKENS, BATCH).sequences_on(chips) == batch


@pytest.mark.parametrize("kind", ["v5p", "h100"])
def test_chips_of_a_deadline_have_the_same_answer_by_their_number(kind):
    form = {"model": "llama-3.1-70b", "sequence": 8192}
    (row,) = train(TrainingQuestion(form, TOKENS, BATCH, (kind,), days=30)).rows
    chips = row.plan.topology.chips
    assert chips % 3 == 0, "else this test is of powers of two"
    (same,) = train(TrainingQuestion(form, TOKENS, BATCH, (kind,), chips=chips)).rows
    assert (same.plan, same.run) == (row.plan, row.run) and row.run.days.estimate <= 30


@pytest.mark.parametrize("kind", ["b200", "v5p"])  # in pipelines, and not
def test_no_fewer_chips_keep_a_deadline_by_their_number(kind):
    """Of the numbers that are tried, down to half."""
    form = {"model": "llama-3.1-8b", "sequence": 8192}
    (row,) = train(TrainingQuestion(form, 1e12, BATCH, (kind,), days=1)).rows
    chips = row.plan.topology.chips
    fewer = [odd << power for odd in (1, 3) for power in range(6, 14)]
    for each in (count for count in fewer if chips / 2 <= count < chips):
        (given,) = train(TrainingQuestion(form, 1e12, BATCH, (kind,), chips=each)).rows
        assert given.run.days.estimate > 1, each


def test_chips_too_few_for_the_batch_have_many_microbatches_or_arrays_on_the_host(no_options):
    question = TrainingQuestion(FORM, TOKENS, BATCH, ("h100", "v5p", "v5e"), chips=8)
    few, host, none = train(question).rows
    assert few.meets and few.plan.batch == BATCH and few.plan.microbatches > 8
    assert host.meets and host.plan.batch == BATCH
    assert none.run is None and none.refusal == "does not fit" and none.plan.batch == BATCH


def test_few_chips_keep_the_batch_in_microbatches():
    (row,) = train(TrainingQuestion(FORM, TOKENS, BATCH, ("h100",), chips=8)).rows
    assert row.meets and row.plan.batch == BATCH and row.plan.microbatches > 1


def test_a_batch_that_halves_to_no_number_of_each_chip_is_refused_as_what_does_not_fit():
    (row,) = train(TrainingQuestion(FORM, TOKENS, 1000, ("v5e",), chips=8)).rows
    assert row.run is None and row.refusal == "does not fit"


@pytest.mark.parametrize("budget", [0.5, 2500.0, 1e6, 1.25e9, 1e12])
def test_a_budget_without_a_price_is_quoted_as_it_was_typed(budget):
    question = TrainingQuestion({"model": "llama-3.1-8b"}, 1e12, budget=budget)
    with pytest.raises(RequestError, match=f"^budget {budget:,.15g} needs a price"):
        train(question)
    assert "e+" not in f"{budget:,.15g}"


def test_a_deadline_is_kept_beyond_sizes_that_are_slower_than_a_smaller_one():
    form = {"model": "deepseek-v3-671b", "sequence": 4096}
    (row,) = train(TrainingQuestion(form, 14.8e12, 15360, ("v5p",), days=70)).rows
    days = [each.days for each in row.tried]
    assert any(one < other for one, other in pairwise(days)), "else this test is of nothing"
    assert any(one > other for one, other in pairwise(days))
    assert row.meets and row.run.days.estimate <= 70
    fewer = [each for each in row.tried if each.chips < row.plan.topology.chips]
    assert fewer and all(each.days > 70 for each in fewer)


@pytest.mark.parametrize("kind", ["v5p", pytest.param("h100", marks=whole)])
@pytest.mark.parametrize("dollars", [4.5e5, pytest.param(7e5, marks=whole), 2e6])
def test_a_budget_has_the_fastest_run_that_it_pays(kind, dollars):
    """Against every number of chips: neither days nor money need be monotone."""
    form = {"model": "llama-3.1-8b", "sequence": 2048}
    question = TrainingQuestion(form, TOKENS, 480, (kind,), budget=dollars, price=((kind, 4.2),))
    (row,) = train(question).rows
    every = []
    for chips in range(1, MOST_CHIPS + 1):
        odd = chips // (chips & -chips)
        if odd not in (1, 3) and 480 % chips:
            continue
        with suppress(RequestError):
            best = best_mesh(form, topology_of_chips(kind, chips).target, 480, REMATS)
            run = training_run(estimate_step(best.plan), best.plan, TOKENS, 4.2)
            every += [run] if best.fits else []
    kept = [run for run in every if budget_verdict(run, dollars) == "keeps"]
    paid = [run.days.estimate for run in kept or every if run.money <= dollars]
    assert row.meets and row.run.money <= dollars
    assert budget_verdict(row.run, dollars) == ("keeps" if kept else MAY_EXCEED)
    assert row.run.days.estimate == min(paid) or (
        row.plan.stages > 1 and row.run.days.estimate < min(paid)
    )
    money = [run.money for run in every]
    assert any(one > other for one, other in pairwise(money)), "else this test is of nothing"


def test_a_budget_has_the_fastest_run_that_keeps_it_and_the_thriftier_one_beside_it():
    price = (("v5e", 1.2),)
    (rich,) = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5e",), budget=1e9, price=price)).rows
    assert rich.plan.topology.chips == rich.most == MOST_CHIPS
    budget = 1.01 * rich.run.money  # which that run may exceed
    question = TrainingQuestion(FORM, TOKENS, BATCH, ("v5e",), budget=budget, price=price)
    assert budget_verdict(rich.run, budget) == MAY_EXCEED
    (row,) = train(question).rows
    assert budget_verdict(row.run, budget) == "keeps" and row.plan.topology.chips < MOST_CHIPS
    chips, thrifty = row.thrifty.chips, row.thrifty.run
    assert chips < row.plan.topology.chips
    assert row.run.money > thrifty.money and row.run.days.estimate < thrifty.days.estimate
    (few,) = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5e",), budget=2e5, price=price)).rows
    assert few.meets and few.thrifty is None


@pytest.mark.parametrize(
    ("kind", "limit"),
    cover(["v5e", "tpu7x", "b200", "h100"], [{"days": 0.01}, {"days": 1.0}, {"budget": 3e6}]),
)
def test_a_number_of_chips_has_one_plan_however_it_was_found(kind, limit):
    question = TrainingQuestion(FORM, TOKENS, BATCH, (kind,), price=((kind, 3.0),), **limit)
    (row,) = train(question).rows
    chips = row.plan.topology.chips
    (same,) = train(TrainingQuestion(FORM, TOKENS, BATCH, (kind,), chips=chips)).rows
    assert (row.plan, row.run.days) == (same.plan, same.run.days)
    if limit == {"days": 0.01}:
        (most,) = train(TrainingQuestion(FORM, TOKENS, BATCH, (kind,), chips=MOST_CHIPS)).rows
        assert not row.meets and row.run.days.estimate <= most.run.days.estimate


def test_what_no_budget_pays_is_the_cheapest_run():
    poor = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5p",), budget=10.0, price=PRICE[:1]))
    (row,) = poor.rows
    assert poor.best is None and not row.meets
    assert row.run.money == min(each.run.money for each in row.tried) > 10


def test_pipelines_are_tried_where_links_take_the_time_and_keep_a_deadline():
    form = {"model": "llama-3.1-405b", "sequence": 8192}
    question = TrainingQuestion(form, 15.6e12, 2048, ("h100",), days=100)
    (row,) = train(question).rows
    target = row.plan.target
    flat = best_mesh(form, target, 2048, REMATS)
    days = training_run(estimate_step(flat.plan), flat.plan, 15.6e12).days.estimate
    assert row.meets and row.plan.stages > 1 and days > 100 >= row.run.days.estimate
    assert row.plan.shard_optimizer_over_data and 0 < row.pipelines < row.plans
    (fewer,) = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5p",), days=30)).rows
    assert fewer.meets and fewer.pipelines == 0, "on one slice no link waits for others"
    (given,) = train(
        replace(question, form=form | {"schedule": "zb-h1"}, chips=1024, days=None)
    ).rows
    assert given.plan.schedule == "zb-h1"


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


@pytest.mark.parametrize(
    "kind", ["v5e", *(pytest.param(each, marks=whole) for each in ("v5p", "v6e")), "tpu7x"]
)
def test_the_plan_of_a_kind_is_the_one_that_a_search_finds(kind):
    """What is saved is chosen on every mesh, not on the best one of plans that save nothing."""
    (row,) = train(TrainingQuestion(FORM, TOKENS, BATCH, (kind,), chips=256)).rows
    found = first_look(question_for(row.plan, ())).winner
    assert (row.plan, row.step.fit) == (found.plan, "fits")


def test_a_plan_that_is_sure_to_fit_comes_before_a_faster_one_that_may_not(no_options):
    (row,) = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5e",), chips=256)).rows
    faster = row.plan.model_copy(update={"mesh": (("data", 2), ("fsdp", 128))})
    step = estimate_step(faster)
    assert step.fit == "may not fit"
    assert step.predicted_s.estimate < row.step.predicted_s.estimate
    form = faster.to_json()
    found = best_mesh(form, faster.target, BATCH, REMATS, has_options=False)
    assert found.plan == row.plan


@pytest.mark.parametrize(
    ("target", "batch", "changes"),
    [
        ("tpu:v6e:4x8", 256, {}),
        pytest.param("tpu:v5e:4x8", 128, {}, marks=whole),
        ("tpu:v5p:4x4x4", 512, {"model": "mixtral-8x7b"}),
        ("gpu:h100:8x8", 256, {}),
    ],
)
def test_options_make_the_best_plan_faster_by_the_estimate_of_the_step_itself(
    target, batch, changes
):
    """`bench.step_options` compiles them."""
    closed, found = (
        best_mesh(FORM | changes, target, batch, REMATS, has_options=each) for each in (False, True)
    )
    before, after = (estimate_step(each.plan).predicted_s.estimate for each in (closed, found))
    assert after < before and found.fits and found.plans > closed.plans
    assert found.plan.microbatches or not found.plan.makes_rings


def test_a_plan_of_microbatches_scales_with_fewer_of_them():
    (row,) = train(TrainingQuestion(FORM, TOKENS, BATCH, ("v5e",), chips=256)).rows
    assert row.plan.microbatches == 2, "else this test is of nothing"
    for meshes in ("kept", "best"):
        sweep = parse_sweep(experiment_of(row.plan), "chips=256,512", "strong", meshes)
        plans = [point.experiment.plan for point in variants(sweep)]
        assert [plan.microbatches for plan in plans] == [2, None] and plans[1].batch == BATCH


def test_an_open_question_of_a_plan_with_options_is_that_of_one_without():
    form = FORM | {"microbatches": 8}
    rows = [
        train(TrainingQuestion(each, TOKENS, BATCH, ("v5e",), chips=256)).rows[0]
        for each in (FORM, form)
    ]
    assert rows[0].plan == rows[1].plan
