"""Which searches stay in memory."""

from types import SimpleNamespace

import pytest

from spmd_core.trials import searches


@pytest.mark.parametrize(
    ("held", "kept"),
    [
        ([25_000] * 10, 4),  # as many candidates as may stay
        ([10] * 10, searches.KEPT),
        ([10, 250_000], 1),  # the last one, however large
        ([250_000, 10], 1),
    ],
)
def test_the_searches_in_memory_are_few_and_of_few_candidates(held, kept):
    assert searches._kept([SimpleNamespace(held=count) for count in held]) == kept
