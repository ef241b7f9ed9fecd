"""What is shown where nothing fits: the plan that comes nearest, why it does not, and what does."""

from dataclasses import replace

import pytest

from spmd_core.answers import batch_figure, way_words, ways_headline, ways_table
from spmd_core.sweeps import TrainingQuestion, least_memory, train, ways_out
from spmd_core.time import estimate_memory, estimate_step
from spmd_core.words import predictions
from spmd_core.workloads import parse_plan

GIB = 2**30
ASKED = TrainingQuestion({"model": "llama-3.1-70b", "sequence": 8192}, 1e12, None, ("v5e",), 32)


def nearest(kind, chips, **more):
    asked = replace(ASKED, kinds=(kind,), chips=chips, form=ASKED.form | more)
    (row,) = train(asked).rows
    assert row.plan and row.refusal == "does not fit"
    return asked, row.plan


@pytest.mark.parametrize(
    ("kind", "chips", "gib", "why"),
    [
        ("v5e", 32, 55, "Weights and optimizer state alone take 24.6 of 15.8 GiB per device."),
        ("v5e", 64, 28, "Weights and optimizer state, bfloat16 copies and gradients take"),
        ("h100", 8, 200, "Weights and optimizer state alone take 98.6 of 71.7 GiB per device."),
    ],
)
def test_where_nothing_fits_the_plan_that_comes_nearest_is_shown(kind, chips, gib, why):
    _, plan = nearest(kind, chips)
    memory = estimate_memory(plan)
    assert plan.topology.chip.device_hbm_bytes < memory.peak < gib * GIB
    assert plan.remat == "full" and not plan.save and plan.microbatches and plan.tokens == 2**22
    sentence = predictions.estimate(estimate_step(plan), plan)
    assert sentence.partition(". ")[2].startswith(why)
    assert "TiB" not in sentence and "MiB" not in sentence
    assert least_memory(plan).batch == plan.batch


def test_the_nearest_plan_holds_no_more_than_the_plan_it_is_near_to():
    for mesh in ({"fsdp": 32}, {"data": 32}, {"fsdp": 8, "tensor": 4}):
        plan = parse_plan({**ASKED.form, "target": "tpu:v5e:4x8", "mesh": mesh, "batch_per_device": 16})  # fmt: skip
        assert estimate_memory(least_memory(plan)).peak <= estimate_memory(plan).peak


@pytest.mark.parametrize(("kind", "chips"), [("v5e", 32), ("h100", 8)])
def test_ways_out_fit_and_none_is_worse_than_one_before_it(kind, chips):
    asked, plan = nearest(kind, chips)
    ways = ways_out(asked, plan)
    assert any(way.is_sure and way.plan.tokens == plan.tokens for way in ways)
    of = [(way.plan.topology.chips, way.run.days.estimate) for way in ways]
    assert of == sorted(of) and of[0][0] > chips
    for way in ways:
        assert way.step.fit in ("fits", "may not fit") and way.plan.tokens <= plan.tokens
        if way.plan.tokens == plan.tokens:  # as the field of chips would find it
            (row,) = train(replace(asked, chips=way.plan.topology.chips)).rows
            assert (row.plan, row.run) == (way.plan, way.run)
    table = ways_table(ways)
    assert [row[0].text for row in table.rows] == [f"{count:,}" for count, _ in of]


def test_the_headline_of_ways_out_says_what_a_plan_gives_up():
    asked, plan = nearest("v6e", 64, model="llama-3.1-405b")
    ways = ways_out(asked, plan)
    assert ways_headline(plan, ways) == (
        "Fits on 256 v6e with 49,152 tokens a step and 512 with all 4,194,304."
    )
    assert [way_words(way, plan) for way in ways] == [
        "256 chips, 49,152 tokens a step",
        "512 chips",
    ]
    assert ways_headline(plan, ()) == "Nothing that was tried is sure to fit."


@pytest.mark.parametrize(
    ("target", "mesh", "batch", "shown"),
    [
        ("tpu:v5e:4x8", {"fsdp": 8, "tensor": 4}, 0.25, "1 × 8,192 of 8"),
        ("tpu:tpu7x:2x2x4", {"fsdp": 16, "tensor": 2}, 0.5, "1 × 8,192 of 16"),
        ("tpu:v5e:4x8", {"fsdp": 32}, 2, "2 × 8,192 of 64"),
        ("tpu:v5e:4x8", {"fsdp": 16, "sequence": 2}, 8, "16 × 4,096 of 256"),
        ("tpu:v5e:4x8", {"data": 2, "fsdp": 2, "sequence": 8}, 0.125, "1 × 1,024 of 4"),
    ],
)
def test_a_device_has_its_shard_of_the_batch_and_of_each_sequence(target, mesh, batch, shown):
    plan = parse_plan({**ASKED.form, "target": target, "mesh": mesh, "batch_per_device": batch})
    figure = batch_figure(plan)
    assert f"{figure.value} {figure.more}".startswith(f"{shown} × 8,192 ")
