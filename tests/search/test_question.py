"""The mesh axes that a search tries."""

import pytest

from spmd_core.search.question import ModelQuestion


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
