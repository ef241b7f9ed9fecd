"""A baseline file that somebody uploads: what changed, and what is no baseline."""

import json

import pytest

from spmd_core.base import RequestError
from spmd_core.reports import Baseline
from spmd_lab.ui.predict.keep import changes
from tests.ui.predictions import MODEL, prediction

NOW = Baseline.of(MODEL.plan, prediction())
KEPT = json.loads(NOW.to_text())


def kept(**changed):
    """The file with some fields changed."""
    return json.dumps(KEPT | changed).encode()


def test_the_same_prediction_changes_nothing():
    assert changes(NOW.to_text().encode(), NOW) == []


def test_what_changed_is_said():
    before = json.loads(NOW.to_text())
    before["plan"]["remat"] = "minimal"
    before["collectives"][0][3] = 20
    before["estimate_s"] = 0.01
    assert changes(json.dumps(before).encode(), NOW) == [
        "the plan's remat was minimal, and is full",
        "all-gather over fsdp of 32.0 MiB: 20 before, 10 now",
        "the estimate went from 10 ms to 16.2 ms",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89PNG", "is not JSON"),
        (b"[1]", "is not a baseline that"),
        (b'{"baseline": 1}', "is not a JSON object"),
        (b"[" * 100_000, "is not JSON"),
        (b" " * (Baseline.MAX_BYTES + 1), "larger than any baseline"),
        (kept(fits=None), "incomplete"),
        (kept(collectives=7), "collectives"),
        (kept(collectives=[["all-reduce", ["x"], 10**400, 1]]), "collectives"),
        (kept(collectives=[["all-reduce", "x", {}, 1]]), "collectives"),
        (kept(peak="much"), "peak"),
        (kept(peak=10**400), "peak"),
        (kept(peak=float("nan")), "peak"),
        (kept(peak=None), "peak or estimate_s"),
        (kept(estimate_s=float("nan")), "estimate_s"),
        (kept(buffers=[1]), "buffers"),
        (kept(plan={"a": 1}), "plan"),
        (b'{"baseline": 1, "plan": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, "is not JSON"),
    ],
)
def test_what_is_no_baseline_is_refused_in_a_sentence(content, words):
    with pytest.raises(RequestError, match=words):
        changes(content, NOW)
