"""A collective as a value: totals, and how older results are read."""

import pytest

from spmd_core.facts import Collective, sent_per_step


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


@pytest.mark.parametrize("devices", [2, 3, 8, 256])
def test_an_all_reduce_sends_what_a_reduce_scatter_and_an_all_gather_do(devices):
    size = 1 << 20

    def sent(kind, **group):
        one = {"kind": kind, "axes": ["x"], "bytes": size, "count": 2} | group
        return sent_per_step([Collective.model_validate(one)])

    group = {"group_size": devices}
    both = sent("reduce-scatter", **group) + sent("all-gather", **group)
    assert sent("all-reduce", **group) == pytest.approx(both, abs=1)
    assert sent("all-gather", **group) == round(2 * size * (devices - 1) / devices)
    assert sent("all-to-all", groups=[[*range(devices)]]) == sent("all-gather", **group)
    assert sent("collective-permute", **group) == 2 * size
    assert sent("all-gather") == pytest.approx(2 * size, rel=1e-5), "a group that is not known"


def test_what_is_sent_in_a_loop_of_unknown_count_is_not_known():
    one = {"kind": "all-gather", "axes": ["x"], "bytes": 8, "count": None}
    assert sent_per_step([Collective.model_validate(one)]) is None
    assert sent_per_step(None) is None and sent_per_step([]) == 0
