"""The arrows on Compare without a browser: its answer, its choice, and links to it."""

from functools import partial

import pytest

from bench.values import result, strategy
from tests.ui import opened
from tests.ui.predictions import store

EVERY = list(range(8))
GATHER = {"kind": "all-gather", "axes": ["x"], "groups": [EVERY], "bytes": 2**20, "count": 1}
SUM = {"kind": "all-reduce", "axes": ["x"], "groups": [EVERY], "bytes": 2**20, "count": 10}
ODD = {"kind": "all-reduce", "axes": ["x"], "groups": [[0, 3], [1, 2]], "bytes": 0, "count": 1}


@pytest.fixture
def arrows(data_folder):
    store(data_folder, result({"auto": strategy(1e-3, collectives=[GATHER, SUM, ODD])}))
    return partial(opened, "compare", run="20260101-000000-abcdef", tab="Arrows")


def answer(screen) -> str:
    assert not screen.exception
    return next(
        each.value for each in screen.markdown if "link" in each.value or "Nothing" in each.value
    ).replace("\\", "")


@pytest.mark.parametrize(
    ("query", "size"),
    [
        ({}, "18.4 MiB in one call"),
        ({"arrows": "1"}, "896.0 KiB in one call"),
        ({"arrows": "2"}, "17.5 MiB in one call"),
        ({"arrows": "2", "once": "true"}, "1.8 MiB each time it runs"),
        ({"arrows": "77"}, "18.4 MiB"),
        ({"arrows": "<script>"}, "18.4 MiB"),
        ({"once": "maybe"}, "18.4 MiB"),
    ],
)
def test_a_link_says_which_collectives_are_drawn_and_a_bad_one_draws_all(arrows, query, size):
    assert f"The busiest link carries {size}" in answer(arrows(**query))


def test_zero_bytes_among_groups_that_follow_no_axis(arrows):
    screen = arrows(arrows="3")
    assert answer(screen) == "**Nothing is sent: no collective moves any byte between devices.**"
    choice = next(each for each in screen.get("button_group") if each.label == "Collective")
    assert any("among devices 0, 3" in each for each in choice.options)
    choice.set_value("1").run()
    assert "896.0 KiB" in answer(screen) and "1" in screen.query_params["arrows"]
