"""Sizes that a file writes as expressions: computed, or refused before they cost anything."""

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment.workloads.exported.sizes import size_of

NESTED = "b"
for _ in range(12):
    NESTED = f"floordiv({NESTED}, c)^8"


def test_an_expression_has_the_value_that_it_says():
    assert size_of("8*b + floordiv(c, 2) - mod(c, 2)", {"b": 3, "c": 5}) == 25
    assert size_of("max(b, 1)^2", {"b": 4}) == 16


@pytest.mark.parametrize(
    "expression",
    [
        NESTED,
        "b^-1",
        "9" * 5000,
        "9" * 30,
        "²",
        "max()",
        "floordiv(b)",
        "floordiv(b, 0)",
        "b.c",
        "\x00",
        "-" * 9000 + "b",
    ],
)
def test_what_is_no_size_is_refused(expression):
    with pytest.raises(RequestError, match="is none with b=9, c=1: use other dims"):
        size_of(expression, {"b": 9, "c": 1})
