"""Names that are none of those known: all of a few are listed, of many those spelled alike."""

import pytest

from spmd_core.base import RequestError, check_known
from spmd_core.recipes import get_recipe


@pytest.mark.parametrize("count", [1, 32])
def test_a_few_names_are_all_listed(count):
    known = [f"name{number}" for number in range(count)]
    with pytest.raises(RequestError, match=f"is unknown: use {', '.join(known)}$"):
        check_known("name", "none", known, "is unknown")


def test_of_many_names_three_that_are_spelled_alike_are_listed():
    with pytest.raises(RequestError, match=r"use psum, pmap_psum, psum_total$"):
        get_recipe("psun")
    with pytest.raises(RequestError, match=r"use \w+, \w+, \w+$"):
        get_recipe("")
