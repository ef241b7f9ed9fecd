"""Which candidates are measured again, side by side."""

from dataclasses import replace

import pytest

from spmd_core.search import Answer, Space, read_array_question
from spmd_core.trials.searching.outcomes import run_key
from spmd_core.trials.searching.prove import MOST, ROW_S, finalists

SPEC = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": None,
    "sharding": None,
    "dims": {"batch": 64, "in": 64, "out": 64},
    "strategies": ["auto", "shard_map"],
}


@pytest.fixture(scope="module")
def answer():
    """Of candidates that all came near the best, each a little slower than the one before."""
    question = read_array_question(SPEC)
    space = Space(question, 2)
    open_ = [each for each in space.candidates() if each.stage == "estimated"]
    found = [
        replace(each, stage="measured", measured_s=1e-3 * (1 + at / 1000))
        for at, each in enumerate(open_)
    ]
    assert len(found) > 2 * MOST
    return Answer(question, space.size, tuple(found), True)


@pytest.mark.parametrize(("left_s", "count"), [(0, 2), (3.9 * ROW_S, 3), (1000, MOST)])
def test_less_time_measures_fewer_of_the_best_in_as_many_processes(answer, left_s, count):
    """And the best of the standard shardings in any case; of the first two no sharding twice."""
    best = sorted(answer.found, key=lambda each: each.measured_s or 0.0)
    other = next(each for each in best if run_key(each) != run_key(best[0]))
    assert other is not best[1], "two strategies of one sharding are next to each other"
    chosen = finalists(answer, left_s)
    names = {each.name for each in chosen}
    wanted = [best[0], other, *(each for each in best[1:] if each is not other)][:count]
    assert {each.name for each in wanted} <= names and len(names) <= count + 1
