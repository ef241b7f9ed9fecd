"""The mesh axes that a search tries."""

import pytest

from spmd_core.plan import Plan
from spmd_core.search.question import ModelQuestion, question_for, read_question


@pytest.mark.parametrize(
    ("given", "tried"),
    [
        ({"sequence": 8192}, False),
        ({"sequence": 131072}, True),
        ({"sequence": 8192, "fixed": {"context": 4}}, True),
    ],
)
def test_context_is_tried_for_long_sequences_or_where_it_is_fixed(given, tried):
    question = ModelQuestion.model_validate(
        {"model": "llama-3.1-70b", "chips": ("tpu7x:4x4x4",)} | given
    )
    assert ("context" in question.axes) == tried
    assert "expert" not in question.axes


def test_the_question_for_a_plan_asks_for_its_step_and_keeps_what_no_search_varies():
    plan = Plan(
        target="tpu:v5p:4x4x4*2",
        model="llama-3.1-8b",
        mesh={"data": 2, "fsdp": 64},
        batch_per_device=2,
        sequence=8192,
        save=("query",),
        layers=16,
        sizes={"vocab": 32000},
        state_dtype="bfloat16",
    )
    question = question_for(plan)
    assert (question.chips, question.global_batch) == (("v5p:4x4x4*2",), 256)
    assert question.sequence == 8192 and question.size == plan.size
    assert dict(question.plan) == {"layers": 16, "vocab": 32000, "state_dtype": "bfloat16"}


def test_questions_of_the_same_plans_have_one_meaning():
    asked = {"model": "llama-3.1-8b", "chips": ["v5e:256"], "sequence": 8192, "global_batch": 512}
    one = read_question(asked)
    for change in (
        {"chips": ["tpu:v5e:16x16"]},
        {"chips": ["v5e:16x16"], "global_batch": None, "batch_per_device": 2.0},
        {"plan": {"microbatches": None}},
    ):
        other = read_question(asked | change)
        assert other.id != one.id and other.meaning == one.meaning
    for change in ({"chips": ["v5e:128"]}, {"global_batch": 256}, {"price": {"v5e": 1.2}}):
        assert read_question(asked | change).meaning != one.meaning
