"""What a screen shows of runs that it did not start: stored ones of its fields, and those of other
viewers.
"""

from bench.values import result, strategy
from spmd_core.experiment import link, parse_experiment
from spmd_lab.ui import live
from tests.ui import opened
from tests.ui.predictions import store

LAYER = result({"auto": strategy(1e-5)}).experiment


def said(screen):
    parts = [*screen.markdown, *screen.caption, *screen.info, *screen.get("page_link")]
    texts = (getattr(part, "value", None) or part.proto.label for part in parts)
    return "\n".join(texts).replace("\\", "")


def test_a_link_without_a_run_offers_the_last_stored_run_of_its_experiment(lab, data_folder):
    code = link.encode(LAYER)
    assert "Nothing has been computed yet" in said(opened("compare", experiment=code))
    for number in "ab":
        store(data_folder, result({"auto": strategy(1e-5)}, run=f"20260101-000000-{number * 6}"))
    screen = opened("compare", experiment=code)
    assert "2 stored runs of this experiment." in said(screen)
    assert "Nothing has been computed yet" not in said(screen)
    offered = [each.proto for each in screen.get("page_link") if "last one" in each.proto.label]
    assert [each.query_string.endswith("run=20260101-000000-bbbbbb") for each in offered] == [True]


def test_a_link_to_a_run_of_another_machine_offers_the_run_that_is_here(lab, data_folder):
    store(data_folder, result({"auto": strategy(1e-5)}, run="20260101-000000-aaaaaa"))
    screen = opened("compare", experiment=link.encode(LAYER), run="20200101-000000-abcdef")
    assert "This machine has no run" in said(screen)
    assert "1 stored run of this experiment." in said(screen)


def test_a_link_to_a_layout_that_was_placed_offers_its_run(lab, data_folder):
    array = parse_experiment(
        {"workload": "array", "target": "cpu:8", "mesh": {"x": 8}, "dims": {"d0": 8}}
    )
    placed = result({"auto": strategy(1e-5)}).model_copy(update={"experiment": array})
    store(data_folder, placed)
    assert "1 stored run of this experiment." in said(
        opened("layout", experiment=link.encode(array))
    )


def test_overview_and_history_draw_again_for_a_run_of_another_viewer(lab, monkeypatch):
    waits = {}
    fragment = live.st.fragment

    def noted(function, run_every):
        waits[function.__name__] = (function, run_every)
        return fragment(function, run_every=run_every)

    monkeypatch.setattr(live.st, "fragment", noted)
    assert not [each for each in opened(None).button if each.label == "Cancel"]
    before = live.listed_runs()
    opened("history")
    again = []
    monkeypatch.setattr(live.st, "rerun", lambda: again.append(True))
    for name in ("_queue", "_again"):
        function, run_every = waits[name]
        assert run_every == live.IDLE_S
        function(before)
        assert not again
    lab.submit(LAYER)
    for name in ("_queue", "_again"):
        waits[name][0](before)
    assert len(again) == 2
