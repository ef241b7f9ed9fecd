"""Which searches stay in memory."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from spmd_core.trials.searching import searches


@pytest.mark.parametrize(
    ("spaces", "kept"),
    [
        ([25_000] * 10, 4),  # as many candidates as may stay
        ([10] * 10, searches.KEPT),
        ([10, 250_000], 1),  # the last one, however large
        ([250_000, 10], 1),
        ([], 0),
    ],
)
def test_the_searches_in_memory_are_few_and_of_few_candidates(monkeypatch, spaces, kept):
    keys = [(Path("folder"), str(number)) for number in range(len(spaces))]
    over = {
        key: SimpleNamespace(space=space, is_over=True)
        for key, space in zip(keys, spaces, strict=True)
    }
    at_work = {(Path("folder"), "at work"): SimpleNamespace(space=250_000, is_over=False)}
    monkeypatch.setattr(searches, "_searches", over | at_work)
    searches._forget_old()
    assert list(searches._searches) == [*keys[len(keys) - kept :], *at_work]
