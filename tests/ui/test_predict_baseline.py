"""A baseline file that somebody uploads: what changed, and what is no baseline."""

import json

import pytest

from spmd_core.baseline import baseline_json
from spmd_core.decoder import plan_of
from spmd_core.errors import RequestError
from tests.ui.predictions import MODEL, prediction
from ui.predict_keep import MAX_BASELINE_BYTES, changes

NOW = baseline_json(plan_of(MODEL), prediction())


def test_the_same_prediction_changes_nothing():
    assert changes(json.dumps(NOW).encode(), NOW) == []


def test_what_changed_is_said():
    before = json.loads(json.dumps(NOW))
    before["plan"]["remat"] = "minimal"
    before["collectives"][0][3] = 20
    before["estimate_s"] = 0.01
    assert changes(json.dumps(before).encode(), NOW) == [
        "the plan's remat was minimal, and is full", "all-gather over fsdp of 32.0 MiB: 20 before, 10 now",
        "the estimate went from 10 ms to 14.7 ms"]


@pytest.mark.parametrize(("content", "words"), [
    (b"\x89PNG", "is not JSON"), (b"[1]", "is not a file that"), (b'{"baseline": 1}', "is not a JSON object"),
    (b"[" * 100_000, "is not JSON"), (b" " * (MAX_BASELINE_BYTES + 1), "larger than any baseline"),
    (json.dumps({"baseline": 1, "plan": NOW["plan"]}).encode(), "incomplete"),
    (json.dumps(NOW | {"collectives": 7}).encode(), "incomplete"),
    (json.dumps(NOW | {"peak": "much"}).encode(), "incomplete"),
])
def test_what_is_no_baseline_is_refused_in_a_sentence(content, words):
    with pytest.raises(RequestError, match=words):
        changes(content, NOW)
