"""The History screen without a browser: what is ticked stays ticked, and any two to four stand side
by side.
"""

import json
import re

import pytest

from bench.values import comparison, result, strategy
from spmd_core.__main__ import main
from spmd_core.base import span_text
from spmd_core.experiment import parse_experiment, step_experiment
from spmd_core.experiment.link import decode
from spmd_core.facts import Estimate
from spmd_core.lab.store.store import Store
from spmd_core.plan import ServedPlan
from spmd_core.runs import Labels, RunSummary
from spmd_core.search import KeptSearch
from spmd_core.trials.searching.searches import keep
from spmd_core.words import SHARDING
from spmd_lab.ui import cards
from spmd_lab.ui.history import listing
from spmd_lab.ui.history.days import day_of
from tests.ui import opened as screen_opened, said
from tests.ui.predictions import MODEL, predicted, prediction, store

MEASURED, FIRST, SECOND, FAILED = (
    "20260101-000000-aaaaaa",
    "20260101-000001-bbbbbb",
    "20260101-000002-cccccc",
    "20260101-000005-ffffff",
)


MATMUL = parse_experiment({"workload": "matmul", "mesh": {"x": 8}, "sharding": {"m": "x"}})


@pytest.fixture
def opened(lab, data_folder):
    """A function that opens History over a measured run and two predictions."""
    store(data_folder, result({"auto": strategy(1e-5)}, run=MEASURED))
    store(data_folder, predicted(run=FIRST))
    store(
        data_folder,
        predicted(MODEL.vary(options={"model": "scaled:16", "remat": "minimal"}), run=SECOND),
    )

    return lambda *runs, **query: screen_opened("history", runs=",".join(runs), **query)


def listed(screen) -> list[str]:
    """The runs of the rows, from above."""
    return [each.key.removeprefix("tick:") for each in screen.checkbox if "tick:" in each.key]


def test_a_search_keeps_what_is_ticked(opened):
    screen = opened()
    assert "3 runs." in said(screen)
    assert screen.button("compare").disabled
    for run in (MEASURED, FIRST):
        screen.checkbox(f"tick:{run}").check().run()
    screen.text_input[0].set_value("decoder").run()
    assert listed(screen) == [SECOND, FIRST]  # the predictions
    assert "1 of 2 ticked is not in this list" in said(screen)
    next(each for each in screen.button if each.label == "Compare 2").click().run()
    assert screen.title[0].value == "What came out of each?"
    named = screen.query_params["runs"]
    assert {*(named if isinstance(named, str) else named[0]).split(",")} == {MEASURED, FIRST}
    next(each for each in screen.button if each.label == "All runs").click().run()
    assert listed(screen) == [SECOND, FIRST] and screen.checkbox(f"tick:{FIRST}").value
    next(each for each in screen.button if each.label == "Untick").click().run()
    assert not any(each.value for each in screen.checkbox)


def test_what_is_deleted_is_not_ticked_any_more_and_others_are(opened, lab):
    screen = opened()
    for run in (MEASURED, FIRST):
        screen.checkbox(f"tick:{run}").check().run()
    screen.query_params["runs"] = SECOND
    screen.run()
    screen.button("delete").click().run()
    assert listed(screen) == [FIRST, MEASURED]
    assert all(screen.checkbox(f"tick:{run}").value for run in (MEASURED, FIRST))
    lab.delete([FIRST])  # elsewhere
    screen.run()
    assert "Details" in [each.label for each in screen.button] and "not in" not in said(screen)


def test_a_viewer_is_not_offered_to_delete(opened, monkeypatch):
    monkeypatch.setattr(listing, "may_act", lambda: False)
    assert "delete" not in [each.key for each in opened(SECOND).button]


def test_rows_are_grouped_by_day_and_say_what_came_out_and_what_changed(opened, lab):
    screen = opened()
    assert listed(screen) == [SECOND, FIRST, MEASURED]
    _second, first, measured = (
        each.proto.body for each in screen.get("html") if "<b>" in each.proto.body
    )
    labels = [each.proto.label for each in screen.get("page_link")]
    assert next(label for label in labels if "→" in label).endswith("remat full → minimal")
    assert sum("→" in label for label in labels) == 1
    time = lab.facts(FIRST).strategies["auto"].predicted_s
    figure = f"<b>16.2 ms per step<i>80% range {span_text(time.low, time.high)}</i></b>"
    assert figure in first and 'class="glimpse"' in measured
    assert any(label.startswith("**Dense layer 32×4") for label in labels)


def test_runs_of_one_experiment_and_day_are_one_row_until_unfolded(opened, data_folder, lab):
    repeats = [f"20260102-00000{at}-dddddd" for at in range(3)]
    for at, run in enumerate(repeats):
        measured = {"auto": strategy(1e-5 * (1 + at)), "single": strategy(1e-4)}
        compared = comparison("auto", ("single", 3.0, True))
        store(data_folder, result(measured, run=run, comparison=compared))
    screen = opened()
    assert listed(screen) == [repeats[2], SECOND, FIRST, MEASURED]
    assert "6 runs in 4 rows." in said(screen)
    assert [each.run for each in cards.distinct(lab.history(), 2)] == [repeats[2], SECOND]
    first, second = (run for run in lab.history() if run.run in (FIRST, SECOND))
    called = cards.called([first, second])
    assert set(called.values()) == {
        f"{cards.short_words(each.experiment)} · remat {remat}"
        for each, remat in (
            (first, first.experiment.option("remat")),
            (second, second.experiment.option("remat")),
        )
    }, "two that are called alike differ in a word"
    button = next(each for each in screen.button if each.key.startswith("unfold:"))
    assert button.label == "3 runs, 10.0 to 30.0 µs"
    button.click().run()
    assert listed(screen)[:3] == repeats[::-1] and "6 runs." in said(screen)
    (fold,) = (each for each in screen.button if each.key.startswith("unfold:"))
    assert fold.label == "Fold"
    fold.click().run()
    assert listed(screen)[:2] == [repeats[2], SECOND], "as before"
    screen.checkbox[0].check().run()
    assert listed(screen)[:2] == [repeats[2], SECOND], "a tick leaves them one row"
    assert screen.button(key="compare").label == "Details"
    screen.checkbox[0].uncheck().run()
    lab.notebook.label(repeats[1], name="kept")  # a row of its own, between those of one row
    assert listed(opened()) == [repeats[2], repeats[1], SECOND, FIRST, MEASURED]


def test_runs_of_a_batch_are_one_row_that_compares_them_and_no_last_runs(opened, data_folder, lab):
    runs = [f"20260102-00000{at}-dddddd" for at in range(3)]
    for at, run in enumerate(runs):
        sized = MATMUL.vary(dims={"m": 256 << at})
        times = {"auto": strategy(1e-3 * (1 + at)), "single": strategy(1e-2)}
        compared = comparison("auto", ("single", 3.0, True))
        measured = result(times, run=run, experiment=sized, comparison=compared)
        store(data_folder, measured, batch="batch a")
    screen = opened()
    assert listed(screen) == [runs[2], SECOND, FIRST, MEASURED]
    assert "6 runs in 4 rows." in said(screen) and "m 256, 512, 1024" in said(screen)
    (row,) = (each.proto.body for each in screen.get("html") if "each of 3" in each.proto.body)
    assert "Sharding helped" in row and "<b>1.00 to 3.00 ms<i>per call</i></b>" in row
    links = [each.proto.query_string for each in screen.get("page_link")]
    assert any(all(run in link for run in runs) and "runs=" in link for link in links)
    assert not {each.run for each in lab.history(alone=True)} & {*runs}
    lab.notebook.label(runs[1], name="kept")
    assert runs[1] in {each.run for each in lab.history(alone=True)}
    assert listed(opened()) == [runs[2], runs[1], SECOND, FIRST, MEASURED]
    screen = opened()
    screen.checkbox(f"tick:{runs[2]}").check().run()
    assert "Compare 2" in [each.label for each in screen.button], "all that a row has"


def test_searches_are_rows_by_their_moments_and_fit_the_text(opened, lab):
    moment = max(run.submitted_at for run in lab.history()) if lab.history() else 1.8e9
    keep(lab, KeptSearch(search="abc", title="Which of 8 chips?", words="fsdp=8.", at=moment + 1e3))
    keep(lab, KeptSearch(search="def", title="Which of 4 chips?", words="fsdp=4.", at=1.0))
    screen = opened()
    rows = [each.key.removeprefix("tick-search:").removeprefix("tick:") for each in screen.checkbox]
    assert rows == ["abc", SECOND, FIRST, MEASURED, "def"] and "3 runs, 2 searches." in said(screen)
    screen.checkbox("tick-search:abc").check().run()
    screen.checkbox("tick-search:def").check().run()
    next(each for each in screen.button if each.label == "Compare 2 searches").click().run()
    assert "abc" in str(screen.query_params["searches"]) and not listed(screen)
    next(each for each in screen.button if each.label == "All runs").click().run()
    screen.text_input[0].set_value("8 chips").run()
    assert [each.key for each in screen.checkbox] == ["tick-search:abc"]
    assert "No stored run" not in said(screen)


def test_filters_that_nothing_fits_are_cleared_by_a_button(opened):
    screen = opened(search="qwerty", state="failed")
    assert "No stored run fits these filters." in said(screen)
    screen.button("filters:clear").click().run()
    assert len(listed(screen)) == 3 and not screen.text_input[0].value


@pytest.mark.parametrize("fastest", ["auto", "single"])
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_verdict_of_times_that_scatter_is_called_noisy(opened, data_folder, fastest, share):
    times = {
        name: strategy(at, iqr_s=share * at) for name, at in (("auto", 1e-3), ("single", 2e-3))
    }
    other = "single" if fastest == "auto" else "auto"
    compared = comparison(fastest, (other, 2.0, True))
    run = "20260102-000000-eeeeee"
    store(data_folder, result(times, run=run, comparison=compared))
    rows = [
        each.proto.body
        for each in opened().get("html")
        if "faster" in each.proto.body or "slower" in each.proto.body
    ]
    assert rows and any("noisy" in each for each in rows) is (share > 0.1)


@pytest.mark.parametrize(
    ("fastest", "is_proven", "verdict"),
    [
        (
            "auto",
            True,
            '<em class="green">Sharding helped</em> 2.00× faster (1.80\u00a0to\u00a02.20)',
        ),
        (
            "single",
            True,
            '<em class="orange">Too small to shard</em> 2.00× slower (1.80\u00a0to\u00a02.20)',
        ),
        ("auto", False, '<em class="gray">Cannot tell</em> whether sharding helps'),
    ],
)
def test_a_row_has_a_verdict_on_sharding_and_whose_time_is_the_lowest(
    opened, data_folder, capsys, fastest, is_proven, verdict
):
    other = {"auto": "single", "single": "auto"}[fastest]
    rows = {fastest: strategy(1e-5), other: strategy(1e-5 * (1 + is_proven))}
    compared = comparison(fastest, (other, 1.0 + is_proven, is_proven))
    store(data_folder, result(rows, run=FAILED, comparison=compared))
    screen = opened()
    first, *_ = (each.proto.body for each in screen.get("html") if "<b>" in each.proto.body)
    assert f"<span>{verdict}" in first
    behind = f"{10 * (1 + is_proven)} µs"
    sharded, alone = ("10 µs", behind) if fastest == "auto" else (behind, "10 µs")
    assert f"<b>{sharded} sharded<i>{alone} on one device</i></b>" in first
    assert main(["history"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(FAILED))
    verdict = re.sub(r"<[^>]*>", "", verdict).replace("\u00a0", " ")
    head = next(each for each in SHARDING.values() if verdict.startswith(each))
    assert f"{head}, {verdict.removeprefix(head).strip()}" in row, (
        "the command has the same verdict"
    )
    assert f"{sharded} sharded, {alone} on one device, simulated" in row
    assert main(["history", "--json"]) == 0
    stored = next(each for each in json.loads(capsys.readouterr().out) if each["run"] == FAILED)
    assert stored["verdict"]["words"] == verdict


def test_evidence_is_stated_once_and_marked_where_it_differs(opened, data_folder):
    rows = {"auto": strategy(1e-5), "single": strategy(2e-5)}
    store(
        data_folder, result(rows, run=FAILED, comparison=comparison("auto", ("single", 2.0, True)))
    )
    screen = opened()
    assert "Compiled, time predicted] unless marked" in said(screen)
    labels = {each.proto.label for each in screen.get("page_link")}
    assert sum("Simulated CPUs" in label for label in labels) == 1
    assert not any("Compiled" in label for label in labels)


def test_days_and_pins():
    now = 1_800_000_000.0

    def on(days: float, is_pinned: bool = False) -> RunSummary:
        moment, labels = now - 86_400 * days, Labels(is_pinned=is_pinned)
        return RunSummary(
            "a", "failed", MODEL, moment, moment, {}, None, False, None, labels=labels
        )

    assert [day_of(on(days), "UTC", now) for days in (0, 1, 3, 400)] == [
        *("Today", "Yesterday", "Tuesday, 12 January", "Thursday, 11 December 2025")
    ]
    assert day_of(on(1, is_pinned=True), "UTC", now) == "Pinned"


def test_a_measured_run_and_two_predictions_stand_side_by_side(opened):
    screen = opened(MEASURED, FIRST, SECOND)
    answers, differences = screen.table[0].value, screen.table[1].value
    times = {row[""]: row for row in answers.to_dict("records")}
    assert times["A"]["Time"] == times["B"]["Time"] == "16.2\u00a0ms, predicted"
    assert times["C"]["Time"] == "10\u00a0µs" and times["C"]["Strategy"] == "Automatic"
    remat = next(row for row in differences.to_dict("records") if row[""] == "remat")
    assert [remat[name] for name in "ABC"] == ["minimal", "full", "none"]
    assert not any("{" in str(cell) for cell in differences.to_numpy().flat)


def test_columns_in_which_all_rows_are_the_same_stand_once_above_the_table(opened):
    screen = opened(FIRST, SECOND)
    table = screen.table[0].value
    assert all(len({*map(str, table[name])}) > 1 for name in table)
    assert "Time" not in table and "Time of each: 16.2" in said(screen)
    assert "Compiled, time predicted" in said(screen) and "predicted." not in said(screen)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sharding": {}, "mesh": {"x": 4}}, "x=4, in not sharded is 4.00× "),
        (
            {"sharding": {}, "dtype": "bfloat16"},
            "Different work. dtype bfloat16, in not sharded: 10 µs, ",
        ),
    ],
)
def test_two_runs_are_compared_with_the_older_one_and_what_differs_is_named(
    opened, data_folder, changes, words
):
    experiment = parse_experiment(
        {"workload": "layer", "mesh": {"x": 8}, "sharding": {"in": "x"}, "strategies": ["auto"]}
    )
    halved = experiment.vary(**changes)
    older, newer = "20260101-000003-dddddd", "20260101-000004-eeeeee"
    store(data_folder, result({"auto": strategy(4e-5)}, run=older, experiment=experiment))
    store(data_folder, result({"auto": strategy(1e-5)}, run=newer, experiment=halved))
    screen = opened(newer, older)
    assert next(each for each in screen.selectbox if each.label == "Baseline").value == older
    assert words in said(screen)
    is_same_work = "dtype" not in changes
    assert ("faster" in said(screen).replace("Which is faster", "")) is is_same_work


def test_a_row_with_wrong_values_is_told_from_one_that_is_slower(opened, data_folder):
    wrong = strategy(1e-3, correct=False)
    store(
        data_folder, result({"auto": wrong, "single": strategy(2e-3)}, run="20260101-000009-ffffff")
    )
    screen = opened()
    (row,) = (each.proto.body for each in screen.get("html") if "Wrong" in each.proto.body)
    assert '<em class="red">✗ Wrong values</em> Automatic' in row


def test_a_link_to_runs_that_are_not_stored_says_so(opened):
    screen = opened("20200101-000000-abcdef", FIRST)
    assert "The link names 20200101-000000-abcdef, not stored here" in said(screen)
    assert "Ask its sender for the archive" in said(screen)
    assert "hidden" not in said(screen)


def test_a_link_to_searches_that_are_not_stored_says_so(opened):
    assert "The link names search gone, not stored here" in said(opened(searches="gone"))


def test_a_run_that_failed_says_why_and_is_not_the_baseline(opened, data_folder):
    why = "pmap cannot map batch=256"
    failed = {"status": "error", "error": {"kind": "inexpressible", "message": why}}
    store(data_folder, result({"pmap": failed}, run=FAILED), state="failed")
    bodies = (each.proto.body for each in opened().get("html"))
    row = f'<span><em class="red">Failed</em> {why}</span><b></b>'
    assert sum(row in body for body in bodies) == 1
    alone = opened(FAILED)
    assert why in [each.value for each in alone.code] and "Failed · Dense layer" in said(alone)
    both = opened(FAILED, MEASURED)
    assert why in [each.value for each in both.code]
    assert next(each for each in both.selectbox if each.label == "Baseline").value == MEASURED


def test_side_by_side_each_run_opens(opened):
    screen = opened(MEASURED, FIRST)
    links = [each.proto for each in screen.get("page_link")]
    assert all(run in " ".join(each.query_string for each in links) for run in (MEASURED, FIRST))
    assert all(
        any(f" on {screen}" in each.label for each in links) for screen in ("Compare", "Predict")
    )
    fields = [each.label for each in screen.text_input]
    assert "Price per chip-hour ($)" not in fields, "chips of one kind cost the same"


def test_what_was_predicted_of_runs_stands_beside_what_was_measured(opened, data_folder):
    again = strategy(2e-5) | {"predicted_s": {"low": 1e-5, "estimate": 1e-5, "high": 3e-5}}
    store(data_folder, result({"auto": again}, run="20260101-000003-dddddd"))
    screen = opened()
    assert "median error" not in said(screen)  # read only for who opens it
    screen = opened(view="Predicted beside measured")
    assert "50% median error of 1 timed program." in said(screen)


def test_runs_without_a_prediction_lead_to_the_calibration_of_their_mesh(opened):
    screen = opened(view="Predicted beside measured")
    assert "need a calibration of their target and mesh" in said(screen)
    (offered,) = [each.proto for each in screen.get("page_link") if "Calibrate" in each.proto.label]
    asked = decode(offered.query_string.removeprefix("experiment="))
    assert (asked.workload, asked.target, dict(asked.axis_sizes)) == (
        "calibrate",
        "cpu:8",
        {"x": 8},
    )


def test_runs_of_searches_are_hidden_until_they_are_asked_for(opened, data_folder):
    place = Store(data_folder)
    place.submit(
        "20260101-000004-eeeeee", result({"auto": strategy(1e-5)}).experiment, batch="search a"
    )
    place.close()
    screen = opened()
    assert [each.label for each in screen.toggle] == ["List 1 run of searches, remedies and traces"]
    before = len(listed(screen))
    screen.text_input[0].set_value("eeeeee").run()  # a filter that only a search's run fits
    assert "Only runs of searches, remedies and traces are here" in said(screen)
    screen.text_input[0].set_value("").run()
    screen.toggle[0].set_value(True).run()
    assert len(listed(screen)) == before + 1


def test_dims_dtype_mesh_sharding_target_and_bytes_are_columns_and_the_csv_has_them(opened):
    screen = opened(view="Table")
    frame = screen.dataframe[0].value
    measured = next(row for row in frame.to_dict("records") if row["Run"] == MEASURED)
    wanted = {
        "Workload": "Dense layer",
        "Dims": "in=32 out=4",
        "dtype": "float32",
        "Mesh": "x=8",
        "Sharding": "in sharded over x",
        "Target": "cpu:8",
    }
    assert {label: measured[label] for label in wanted} == wanted
    assert measured["Operands, KiB"] == (32 + 32 * 4 + 4) * 4 / 1024
    assert list(frame)[:5] == ["When", "Workload", "Dims", "Time", "Verdict"]
    verdicts = {row["Run"]: row["Verdict"] for row in frame.to_dict("records")}
    assert verdicts == {
        SECOND: "Fits, compute-bound",
        FIRST: "Fits, compute-bound",
        MEASURED: "Measured, not ranked, 10 µs, values wrong or not checked",
    }
    assert len({*frame}) > 10
    assert any(each.label == "Export CSV" for each in screen.get("download_button"))


def test_a_search_finds_what_rows_show_and_a_quote_finds_nothing(opened):
    assert len(listed(opened(search="in sharded over x"))) == 1
    assert len(listed(opened(search="fsdp=256"))) == 2
    assert "No stored run fits these filters" in said(opened(search='"'))


def test_going_back_shows_what_the_address_names(opened):
    screen = opened(MEASURED)
    assert f"run {MEASURED}" in said(screen)
    screen.query_params["runs"] = FIRST
    screen.run()
    assert f"run {FIRST}" in said(screen)
    assert screen.query_params["runs"] in (FIRST, [FIRST])


def test_a_measured_run_beside_a_predicted_one_has_no_next_step_that_answers_neither(
    opened, data_folder
):
    experiment = predicted(run=FIRST).experiment
    timed = result({"auto": strategy(1e-2)}, run="20260101-000007-aaaaab", experiment=experiment)
    store(data_folder, timed)
    screen = opened(FIRST, timed.run)
    assert "one was measured, and the other only predicted" in said(screen)
    assert not [each for each in screen.button if each.label.startswith("Try ")]
    assert not [each for each in screen.get("page_link") if "Try " in each.proto.label]


def test_charts_of_different_work_have_the_runs_in_the_order_of_the_table(opened, data_folder):
    runs = [f"20260101-00000{at}-aaaaa{at}" for at in (6, 7, 8)]
    for at, (run, model) in enumerate(zip(runs, ("16", "8", "32"), strict=True)):
        seconds = (at + 1) * 1e-3  # of the last one most exceeds the first
        of = {"shares_s": {"matmul": seconds}, "predicted_s": Estimate.model_validate(
            {"low": seconds, "estimate": seconds, "high": seconds}
        )}  # fmt: skip
        each = prediction().model_copy(update=of)
        varied = MODEL.vary(options={"model": f"scaled:{model}"})
        store(data_folder, predicted(varied, run=run, auto=each))
    screen = opened(*runs)
    table = [row[""].replace("\\", "") for row in screen.table[0].value.to_dict("records")]
    spec = json.loads(screen.get("vega_lite_chart")[0].proto.spec)
    assert spec["layer"][0]["encoding"]["y"]["scale"]["domain"] == table


def test_a_program_of_a_serving_step_is_called_by_its_model_and_requests():
    plan = ServedPlan(model="qwen3-8b", target="tpu:v6e:2x2", mesh=(("tensor", 4),))
    words = cards.short_words(step_experiment(plan, 64, 2048))
    assert words.startswith("qwen3-8b, XLA's program of a serving step of 64 requests")
    assert "replicated" not in words


def test_a_run_that_is_not_ranked_has_its_time_and_why(opened, lab):
    (run,) = lab.history(runs=[MEASURED])
    assert cards.outcome(run)[1:] == (
        "Measured, not ranked",
        "10 µs, values wrong or not checked",
    )
    assert "10 µs, values wrong or not checked" in cards.card_lines(run).replace("\\", "").replace(
        "\u00a0", " "
    )


def test_two_runs_of_different_work_are_named_without_a_chart_or_a_baseline(opened):
    screen = opened(MEASURED, FIRST)
    assert screen.title[0].value == "What came out of each?"
    assert "Baseline" not in [each.label for each in screen.selectbox]
    assert not screen.get("vega_lite_chart")
    answers = screen.table[0].value.drop(columns=["Strategy"])
    assert all(str(cell) != "–" for cell in answers.to_numpy().flat)
