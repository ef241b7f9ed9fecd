"""What a search shows where nothing fits: the plan that comes nearest, and chips on which one does."""

from dataclasses import replace
from itertools import islice

import pytest

from spmd_core.answers import search_lines
from spmd_core.plan import MICROBATCHES
from spmd_core.search import candidates, read_question
from spmd_core.surveys import search as words
from spmd_core.sweeps import TrainingQuestion, first_look, none_fits, train
from spmd_core.time import estimate_memory
from spmd_core.workloads import changed_plan
from tests.cover import whole

pytestmark = pytest.mark.slow
GIB = 2**30
TOO_LARGE = [
    ("llama-3.1-70b", "v5p:8", {}),
    pytest.param("llama-3.1-70b", "v5e:64", {}, marks=whole),
    ("llama-3.1-70b", "h100:16", {}),
    ("llama-3.1-70b", "v5p:8", {"global_batch": 64}),
    pytest.param("llama-3.1-405b", "v5e:256", {}, marks=whole),
    ("mixtral-8x7b", "v5e:1", {}),
    ("llama-3.1-8b", "v5e:4", {"fixed": {"data": 4}}),
    ("llama-3.1-8b", "v5p:8", {"memory_bytes": 8 * GIB}),
    ("llama-3.1-70b", "v5p:8", {"price": {"v5p": 4.2}}),
]


def looked(model, chips, more):
    asked = {"model": model, "chips": [chips], "sequence": 8192} | more
    return first_look(read_question(asked))


@pytest.mark.parametrize(("model", "chips", "more"), TOO_LARGE)
def test_more_chips_are_offered_on_which_the_same_question_has_a_winner(model, chips, more):
    answer = looked(model, chips, more)
    assert answer is not None and answer.winner is None and answer.found
    near = none_fits(answer)
    assert near is not None and near.more is not None and near.best is not None
    assert near.more.chips != answer.question.chips
    kept = near.more.model_copy(update={"chips": answer.question.chips})
    assert kept == answer.question, "nothing else of the question changes"
    again = first_look(near.more)
    assert again is not None and again.winner == near.best
    line = words.fits_near_words(near)
    assert line.startswith("Fits on ") and line in search_lines(answer, 3)


@pytest.mark.parametrize(("model", "chips", "more"), TOO_LARGE)
def test_the_plan_that_comes_nearest_needs_no_more_than_any_that_was_looked_at(model, chips, more):
    answer = looked(model, chips, more)
    near = none_fits(answer)
    least = min(each.memory_bytes for each in answer.found if each.memory_bytes)
    assert near.step.memory_bytes.peak <= 1.1 * least
    capacity = more.get("memory_bytes", near.step.memory_bytes.capacity)
    assert near.step.memory_bytes.peak > capacity
    verb = "Nothing is sure to fit" if answer.ranking else "Nothing fits"
    assert words.none_fits_headline(answer, near).startswith(verb)


def test_the_headline_names_the_chips_and_a_limit():
    large = looked("llama-3.1-70b", "v5p:8", {})
    assert words.none_fits_headline(large, none_fits(large)) == ("Nothing fits on 8 v5p.")
    small = looked("llama-3.1-8b", "v5p:8", {"memory_bytes": 8 * GIB})
    assert (
        words.none_fits_headline(small, none_fits(small))
        == "Nothing fits in 8.0 GiB per device on 8 v5p."
    )


def test_where_nothing_tried_fits_the_ways_out_are_named():
    answer = looked("llama-3.1-8b", "v5e:4", {"remat": ["none"]})
    near = none_fits(answer)
    assert near.more is None and words.more_chips_words(near) == ""
    assert words.fits_near_words(near) == "Use more chips, fewer sequences, or fix less."


@pytest.mark.parametrize("chips", ["v5p:8", "v5e:16"])
def test_nothing_is_offered_where_something_fits(chips):
    answer = looked("llama-3.1-8b", chips, {})
    assert answer.winner and none_fits(answer) is None


def test_the_least_memory_is_the_same_however_far_a_search_came():
    question = read_question({"model": "llama-3.1-70b", "chips": ["v5e:8"], "sequence": 8192})
    look = first_look(question)
    least = none_fits(look).step.memory_bytes.peak
    more = [*islice(candidates(question), 1000)]
    assert len(more) > 200 and none_fits(replace(look, found=more)).step.memory_bytes.peak == least


MANY = [
    ("llama-3.1-8b", "v5e:32", 4096),
    pytest.param("llama-3.1-70b", "v6e:64", 4096, marks=whole),
]


@pytest.mark.parametrize(("model", "chips", "batch"), MANY)
def test_what_fits_in_many_microbatches_is_the_plan_that_predict_finds(model, chips, batch):
    kind, _, count = chips.partition(":")
    question = TrainingQuestion(
        {"model": model, "sequence": 8192}, 1e12, batch, (kind,), int(count)
    )
    (row,) = train(question).rows
    assert row.plan.batch == batch and row.plan.microbatches > max(MICROBATCHES)
    winner = looked(model, chips, {"global_batch": batch}).winner
    assert winner.plan == row.plan and winner.fits == "yes"


@pytest.mark.parametrize(("model", "chips", "batch"), MANY)
def test_what_fits_in_more_microbatches_than_are_tried_is_not_called_too_large(model, chips, batch):
    more = {"global_batch": batch, "plan": {"state_dtype": "bfloat16"}}
    answer = looked(model, chips, more)
    near = none_fits(answer)
    assert answer.winner is None and near.step.fit == "fits"
    count = int(chips.partition(":")[2])
    headline = words.none_fits_headline(answer, near)
    assert headline.startswith(f"Fits on {count} ") and "Nothing" not in headline
    assert near.plan.microbatches == near.in_parts > max(MICROBATCHES)
    half = changed_plan(near.plan, {"microbatches": near.in_parts // 2})
    assert estimate_memory(half).fits(half.topology.chip.capacity) != "yes", "the fewest"
