"""What would remove a run's collectives, on the screen of that run."""

import pytest

from bench.values import comparison, result, strategy
from spmd_core.advice import best_of, conclusion, options
from spmd_core.facts import Change, Nothing, Predicted, Ratio, Remedy, TriedChange, verdict
from spmd_core.lab import Lab, Remedies
from spmd_core.trials import remedy_searches as running
from spmd_core.trials.trying.remedy_search import to_stored
from spmd_lab.ui.remedies import concluded, options_table, resharded_words, tries_words
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
    assert "Open with this change" in links(screen.run())
    assert any("no all-reduce over `x`" in each.value for each in screen.subheader)


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
    assert any(f"{whole}\\: changes to try first" in each.value for each in screen.markdown)
    assert any("- Use Explicit in place of Automatic" in each.value for each in screen.markdown)

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
    assert "**all-to-all over `x`** · Automatic" in said
    concluded = [each.value.replace("\\", "") for each in screen.subheader]
    assert "Nothing removes it: it is needed." in concluded
    small = [each.value for each in screen.caption if "Not tried" in each.value]
    (line,) = (each.replace("\\", "") for each in small)
    assert line == "Not tried, each under 2% of the time: all-reduce over `y` (Automatic)."
    assert sum("Leave `in` replicated" in each for each in concluded) == 1
    assert links(screen).count("Open with this change") == 1
    assert any("guesses" in each.value for each in screen.caption)


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


def test_changes_stand_beside_the_program_and_one_device_by_their_predicted_time():
    base = experiment(workload="contraction", dims={"rows": 64, "cols": 64}, sharding={"rows": "x"})
    found = result({"auto": strategy(3e-3), "single": strategy(1e-3)}, experiment=base)
    other, last, stays = (
        (Change(field="sharding", name=name, before=["x"], after=after),)
        for name, after in (("rows", []), ("cols", []), ("rows", ["x"]))
    )
    timed = {"strategy": "1/auto", "ratio": 1.3, "interval": (1.2, 1.4), "differs": True}
    tried = Nothing(
        experiment=base.vary(sharding={"cols": "x"}),
        tried=(
            TriedChange(changes=last, removes=True, seconds=5e-3),
            TriedChange(changes=stays, removes=False, seconds=1e-3),
            TriedChange(changes=other, removes=True, seconds=2e-3),
        ),
        best=2,
        seconds=4e-3,
        measured_s=Predicted(before=2.6e-3, after=2e-3),
        ratio=Ratio(**timed),
    )
    table = options_table(found, "auto", options(tried, base))
    assert table == {
        "Option": [
            "As it was",
            "Leave `rows` replicated",
            "Leave `cols` replicated",
            "Shard `rows` over `x` alone",
            "Single device",
        ],
        "Predicted": ["4 ms", "2 ms", "5 ms", "–", "–"],
        "Measured together": ["2.6 ms", "2 ms", "–", "–", "–"],
        "Verdict": [
            "estimated 54% slower than measured",
            "1.30× faster (1.20 to 1.40)",
            "predicted slower",
            "the collective stays",
            "in the run itself",
        ],
    }
    untimed = tried.model_copy(update={"measured_s": None, "ratio": None})
    first = options_table(found, "auto", options(untimed, base))
    assert [first["Measured"][0], first["Measured"][-1]] == ["3 ms", "1 ms"], "those of the run"
    assert first["Verdict"][:2] == ["–", "not measured"], "4 ms against 3 ms is near"


@pytest.mark.parametrize("interval", [(1.2, 1.4), (0.9, 1.8), (0.4, 1.5), (1.01, 1.02)])
@pytest.mark.parametrize("after", [2e-3, 2.6e-3])
def test_a_change_is_offered_as_faster_only_where_its_measured_verdict_is(interval, after):
    base = experiment(workload="contraction", dims={"rows": 64, "cols": 64}, sharding={"rows": "x"})
    changes = (Change(field="sharding", name="rows", before=["x"], after=[]),)
    judged = verdict(interval)
    ratio = Ratio(
        strategy="b", ratio=1.3, interval=interval, verdict=judged, differs=judged == "faster"
    )
    given = {
        "experiment": base.vary(sharding={"cols": "x"}),
        "measured_s": Predicted(before=2.6e-3, after=after),
        "ratio": ratio,
    }
    predicted = Predicted(before=4e-3, after=2e-3)
    if judged == "faster":
        answer = Remedy(changes=changes, memory_bytes=0, predicted_s=predicted, **given)
        assert "× faster" in conclusion(answer) or "× slower" in conclusion(answer)
        assert "2.6 ms -> " in conclusion(answer)
        return
    tried = [TriedChange(changes=changes, removes=True, seconds=2e-3)] * 3
    answer = Nothing(tried=tuple(tried), best=0, seconds=4e-3, **given)
    assert conclusion(answer).startswith("none of 3 changes is measurably faster")
    for alone_s, ends in ((1e-3, "; one device is faster"), (9e-3, ""), (None, "")):
        rows = {"auto": strategy(3e-3)} | ({"single": strategy(alone_s)} if alone_s else {})
        first, last = ("single", "auto") if alone_s == 1e-3 else ("auto", "single")
        pair = comparison(first, (last, 3.0, True)) if alone_s else None
        run = result(rows, experiment=base, comparison=pair)
        assert concluded(run, answer) == f"{conclusion(answer)}{ends}"
    row = next(each for each in options(answer, base) if each.measured_s == after)
    assert "faster (" not in row.verdict, "no one factor of what nobody can tell"


@pytest.mark.parametrize(("after_s", "is_offered"), [(3e-3, True), (3.999e-3, False)])
@pytest.mark.parametrize("number", [1, 3])
def test_a_change_that_may_help_has_a_row_even_where_its_collective_stays(
    after_s, is_offered, number
):
    base = experiment(workload="contraction", dims={"rows": 64, "cols": 64}, sharding={"rows": "x"})
    rows, *others = (
        (Change(field="sharding", name=name, before=["x"], after=after),)
        for name, after in (("rows", []), ("cols", []), ("rows", ["x"]))
    )
    tried = [TriedChange(changes=rows, removes=False, seconds=after_s)]
    tried += [TriedChange(changes=each, removes=False, seconds=9e-3) for each in others]
    answer = Nothing(
        experiment=base.vary(sharding={"cols": "x"}),
        tried=tuple(tried[:number]),
        best=0,
        seconds=4e-3,
    )
    first, chosen, *_ = options(answer, base)
    assert first.change == "As it was" and chosen.change == "Leave `rows` replicated"
    assert chosen.predicted_s == after_s and chosen.verdict.startswith("the collective stays")
    assert best_of(answer) == (rows if is_offered else ()), "no button for what reads alike"
    assert best_of(answer.model_copy(update={"experiment": None})) == ()


def test_a_change_names_what_else_it_shards():
    base = experiment(workload="contraction", dims={"rows": 64, "cols": 64}, sharding={"rows": "x"})
    found = result({"auto": strategy(3e-3)}, experiment=base)
    words = resharded_words(found, "auto", base.vary(sharding={"cols": "x"}))
    assert "Array `y`: P('x'), was P(None)." in words
