"""The shape of the code: counts that may fall and never rise."""

import re

import pytest

from tests.house.figures import (
    LONGEST,
    any_values,
    cached_changeable,
    chained,
    in_program,
    long_functions,
)
from tests.layers import nodes, source_files

pytestmark = pytest.mark.fast

# Of the program: as many as there are; lower it with them. The aim: at most 5, none, at most 60.
MOST_CHAINED, MOST_LONG, MOST_ANY = 3, 0, 38


@pytest.mark.parametrize(
    ("count", "most"),
    [
        (chained, MOST_CHAINED),
        (long_functions, MOST_LONG),
        (any_values, MOST_ANY),
        (cached_changeable, 0),
    ],
)
def test_what_makes_code_hard_to_read_does_not_come_back(count, most):
    assert len(listed := in_program(count)) <= most, "\n".join(listed)


def test_no_source_has_a_control_character():
    """A pattern with a backspace in place of a word's end matches nothing, and looks the same."""
    control = re.compile(r"[^\S\n ]|[\x00-\x08\x0e-\x1f]")
    found = [
        str(path) for path in source_files() if control.search(path.read_text(encoding="utf-8"))
    ]
    assert not found


def test_the_counters_see_what_they_count():
    body = "\n".join(f"    x = {line}" for line in range(LONGEST))
    tree = nodes(f"y = 1 if a else 2 if b else 3\ndef f(z: dict[str, Any]):\n{body}\n")
    assert (chained(tree), long_functions(tree), any_values(tree)) == ([1], ["f"], [2])
    assert chained(nodes("(1 if a else 2) if b else 3")) == []
    cached = "@functools.cache\ndef f() -> {}: ...\n@cached_property\ndef g(self) -> {}: ..."
    assert cached_changeable(nodes(cached.format("dict[str, int]", "list[int] | None"))) == [*"fg"]
    assert cached_changeable(nodes(cached.format("Mapping[str, int]", "frozenset[int]"))) == []
