"""A collective as a value: totals, and how older results are read."""

from spmd_core.facts import Collective


def test_an_older_result_gave_totals_as_seconds():
    old = {
        "kind": "all-gather",
        "axes": ["x"],
        "bytes": 8,
        "count": 4,
        "seconds": 0.4,
        "exposed_s": 0.1,
        "route": "a ring",
        "name": "g",
        "bound_s": 0.05,
    }
    found = Collective.model_validate(old)
    assert (found.seconds, found.exposed_s, found.seconds_total, found.exposed_total_s) == (
        0.1,
        0.025,
        0.4,
        0.1,
    )
    assert found.bytes_total == 32
    assert Collective.model_validate(found.model_dump(mode="json")) == found


def test_an_older_run_said_nothing_of_totals():
    found = Collective.model_validate(
        {
            "kind": "all-reduce",
            "axes": ["x"],
            "bytes": 8,
            "count": None,
            "op": "psum",
            "source": "a.py:1",
        }
    )
    assert (found.bytes_total, found.seconds, found.seconds_total, found.total_s) == (
        None,
        None,
        None,
        0.0,
    )


def test_an_estimate_counts_an_unknown_count_once():
    found = Collective(
        kind="all-reduce",
        axes=("x",),
        bytes=8,
        count=None,
        seconds=0.5,
        exposed_s=0.2,
        seconds_total=None,
    )
    assert (found.total_s, found.exposed_in_all_s, found.seconds) == (0.5, 0.2, 0.5)
