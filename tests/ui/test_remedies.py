"""What would remove a run's collectives, on the screen of that run."""

import pytest

from bench.values import result, strategy
from spmd_core.facts import Nothing, Predicted, Remedy
from spmd_core.lab import Lab, Remedies
from spmd_core.trials import remedy_searches as running
from spmd_core.trials.trying.remedy_search import to_stored
from spmd_lab.ui.remedies import beside_words, grouped, tries_words
from tests.labs import STANDIN, experiment, until
from tests.standin import sitecustomize as standin
from tests.ui import opened
from tests.ui.predictions import store

pytestmark = pytest.mark.slow

SUM = {"kind": "all-reduce", "axes": ["x"], "bytes": 2**20, "count": 1}
MOVE = {"kind": "all-to-all", "axes": ["x"], "bytes": 2**20, "count": 1}


def links(screen):
    assert not screen.exception
    return [each.proto.label for each in screen.get("page_link")]


def test_a_press_has_them_tried_in_the_background(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    found = result(
        {"auto": strategy(1e-3, collectives=[SUM | {"bytes": 2**24}])},
        experiment=experiment(
            standin.SUMS,
            workload="contraction",
            dims={"rows": 4096, "cols": 1024},
            strategies=["auto"],
        ),
    )
    store(data_folder, found)
    screen = opened("compare", run=found.run, tab="Fix it")
    next(button for button in screen.button if button.label == "Try changes").click().run()
    until(lambda: (known := running.known(Lab.open(), found.run)) and known[0] == "done", 120)
    assert any("no all-reduce over `x`" in label for label in links(screen.run()))


def test_answers_are_there_when_the_run_is_opened_again(data_folder):
    found = result(
        {
            "auto": strategy(1e-3, collectives=[SUM, MOVE, SUM | {"axes": ["y"]}]),
            "explicit": strategy(1e-3, collectives=[SUM]),
        }
    )
    store(data_folder, found)
    screen = opened("compare", run=found.run, tab="Fix it")
    assert "Try changes" in [button.label for button in screen.button]
    whole = "All-reduce over `x`, all-to-all over `x` and all-reduce over `y`"
    assert any(whole in each.value for each in screen.markdown)

    remedy = Remedy(
        changes=(),
        experiment=found.experiment.vary(sharding={}),
        memory_bytes=2**20,
        sentence="leave `in` replicated: no all-reduce over `x`",
        predicted_s=Predicted(before=2e-3, after=1e-3),
        predicted_by="guess",
    )
    answers = {
        "auto": {
            0: remedy,
            1: Nothing(reason="nothing removes it: it is needed"),
            2: Nothing(is_small=True),
        },
        "explicit": {0: remedy},
    }
    kept = Remedies(data_folder)
    kept.keep(found.run, to_stored("done", answers))
    kept.close()
    screen.run()
    assert "Try changes" not in [button.label for button in screen.button]
    said = [each.value.replace("\\", "") for each in screen.markdown]
    assert "**all-reduce over `x`** · Automatic and Explicit" in said
    assert "**all-to-all over `x`** · Automatic  \nNothing removes it: it is needed." in said
    small = [each.value for each in screen.caption if "Not tried" in each.value]
    (line,) = (each.replace("\\", "") for each in small)
    assert line == "Not tried, each under 2% of the time: all-reduce over `y` (Automatic)."
    assert sum("Leave `in` replicated" in label for label in links(screen)) == 1
    assert any("guesses" in each.value for each in screen.caption)


def test_one_change_that_is_not_proven_to_help_has_one_verdict():
    base = experiment(workload="contraction", dims={"rows": 64, "cols": 64}, sharding={"rows": "x"})
    closed = Nothing(reason="nothing is known that removes it in less time")
    maybe = [
        Nothing(reason=f"leave `in` replicated; measured {ms} ms", experiment=base) for ms in (2, 3)
    ]
    sums = {
        name: strategy(1e-3, collectives=[SUM | {"remove": remove.model_dump(mode="json")}])
        for name, remove in zip(("auto", "explicit", "shard_map"), (closed, *maybe), strict=True)
    }
    ((_, removal, whose),) = grouped(result(sums), tuple(sums))
    assert removal == maybe[0] and whose == ["auto", "explicit", "shard_map"]


def test_a_press_is_said_to_try_so_much_for_so_long():
    words = tries_words(
        result(
            {
                "auto": strategy(1e-3, collectives=[SUM]),
                "explicit": strategy(1e-3, collectives=[SUM]),
            }
        )
    )
    assert words == (
        "Up to 8 changes for each: another dim or array sharded, another strategy. "
        "Compiles them for 2 programs and times close ones, about 60 s at most."
    )


def test_a_change_stands_beside_one_device_and_names_what_else_it_shards():
    base = experiment(workload="contraction", dims={"rows": 64, "cols": 64}, sharding={"rows": "x"})
    found = result({"auto": strategy(3e-3), "single": strategy(1e-3)}, experiment=base)
    words = beside_words(found, "auto", base.vary(sharding={"cols": "x"}))
    assert words.startswith("In the run itself: as it was 3 ms, one device 1 ms. ")
    assert "y: P('x'), was P(None)." in words
