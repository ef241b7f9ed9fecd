"""The arrows on Compare without a browser: its answer, its choice, and links to it."""

from functools import partial
from urllib.parse import parse_qsl

import pytest

from bench.values import result, strategy
from spmd_core.experiment import link
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


@pytest.mark.parametrize(
    ("arrow", "words"),
    [
        ("1", "All-gather of 1.0 MiB among n = 8: each device sends 896.0 KiB, (n-1)/n of it"),
        ("2", "All-reduce of 1.0 MiB among n = 8: each device sends 1.8 MiB, 2(n-1)/n of it"),
    ],
)
def test_bytes_of_a_collective_and_of_a_link_are_one_account(arrows, arrow, words):
    said = [each.value.replace("\\", "") for each in arrows(arrows=arrow).caption]
    assert any(each.startswith(words) for each in said)
    assert not any("2(n-1)/n" in each.value for each in arrows().caption), "of all together"


def test_a_collective_leads_to_how_long_it_takes_by_size(arrows):
    (onward,) = (
        each.proto for each in arrows(arrows="2").get("page_link") if "by size" in each.proto.label
    )
    query = dict(parse_qsl(onward.query_string))
    assert (query["kind"], query["tab"]) == ("all-reduce", "x")
    swept = link.decode(query["experiment"])
    assert (swept.workload, swept.axis_sizes) == ("collectives", {"x": 8})
