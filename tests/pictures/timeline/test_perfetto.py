"""The trace that Perfetto opens: every pass of a loop, rows, arrows."""

import json

import pytest

from spmd_core.pictures.timeline import perfetto
from spmd_core.words import names_of, row_words
from tests.pictures.timeline.values import EXPOSED, timeline

FOUND = timeline(EXPOSED)


def events():
    text = perfetto.traces_text({"step": FOUND}, names_of, row_words)
    return json.loads(text)["traceEvents"]


def test_every_pass_is_written_where_there_are_not_too_many(monkeypatch):
    found = [each for each in events() if each["ph"] == "X"]
    body = FOUND.scenes[1]
    assert len(found) == 1 + 10 * len(body.spans)
    starts = sorted(each["ts"] for each in found if each["args"]["instruction"] == "after")
    assert starts[1] - starts[0] == pytest.approx(body.length_s * 1e6, abs=1e-3)
    monkeypatch.setattr(perfetto, "MOST_EVENTS", 5)
    assert len([each for each in events() if each["ph"] == "X"]) == 1 + len(body.spans)


def test_rows_have_names_and_waits_have_arrows():
    found = events()
    names = [each["args"]["name"] for each in found if each["name"] == "thread_name"]
    assert names == ["chip", "links along x, y"]
    arrows = [each for each in found if each["ph"] in "sf"]
    assert len(arrows) == 2 * 10 and arrows[0]["id"] == arrows[1]["id"]
    assert arrows[0]["ts"] <= arrows[1]["ts"]
