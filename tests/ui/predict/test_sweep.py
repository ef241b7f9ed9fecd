"""The sweep of the Predict screen: fields, what a press costs, curves, cancelling, and the link
that shows it again.
"""

import csv
import io
import json
import re
from dataclasses import replace

import altair
import pytest
from streamlit.testing.v1 import AppTest

from spmd_core.answers import best_figures
from spmd_core.base import mesh_text, seconds_text, span_text
from spmd_core.experiment import experiment_of, parse_experiment
from spmd_core.machine import absent
from spmd_core.results import Failure
from spmd_core.search import REMATS
from spmd_core.surveys import (
    Knee,
    may_fall_short,
    reach_words,
    row_run,
    run_cells,
    scaled_rows,
    total_batch,
)
from spmd_core.sweeps import BEST, VARIABLES, Sweep, best_mesh, estimated, parse_sweep, variants
from spmd_core.sweeps.curves import Numbers, Outcome, csv_text, curves, outcome_of
from spmd_core.terms import money_text
from spmd_core.words import apart_words, days_text
from spmd_core.workloads import DEFAULT_SPEC
from spmd_lab.ui.predict.scaling_chart import bend_lines, scaling_alt, scaling_chart
from spmd_lab.ui.predict.sweep import _figures, _from_first_fit
from spmd_lab.ui.predict.sweep_axes import curve
from spmd_lab.ui.predict.sweep_charts import chart_alt, charts_of, parts_chart
from tests.standin_lab import GIB, StandInLab, found

pytestmark = pytest.mark.slow

BASE = parse_experiment(
    {
        **DEFAULT_SPEC,
        "target": "tpu:v5p:4x4x4",
        "mesh": {"fsdp": 64},
        "dims": {"batch": 128, "sequence": 2048},
    }
)


def script():
    from spmd_core.experiment.experiment import parse_experiment
    from spmd_core.workloads.serving import DEFAULT_SPEC
    from spmd_lab.ui.predict import sweep as sweep_view

    sweep_view.show(
        parse_experiment(
            {
                **DEFAULT_SPEC,
                "target": "tpu:v5p:4x4x4",
                "mesh": {"fsdp": 64},
                "dims": {"batch": 128, "sequence": 2048},
            }
        )
    )


@pytest.fixture
def lab(tmp_path, monkeypatch):
    lab = StandInLab(tmp_path)
    monkeypatch.setattr("spmd_lab.ui.predict.compiling.lab", lambda: lab)
    monkeypatch.setattr("spmd_lab.ui.lab.lab", lambda: lab)  # which a batch of runs asks
    return lab


def opened(**query: str) -> AppTest:
    test = AppTest.from_function(script, default_timeout=30)
    for name, value in query.items():
        test.query_params[name] = value
    return test.run()


def texts(test: AppTest) -> str:
    return "\n".join(
        element.value.replace("\\", "") for element in (*test.markdown, *test.caption, *test.error)
    )


def table(test: AppTest) -> dict[str, dict]:
    frame = test.table[0].value
    labels = [re.sub(r"\[(.*)\]\(.*\)", r"\1", cell) for cell in frame.iloc[:, 0]]
    return {
        label.replace("\\", ""): row.to_dict()
        for label, (_, row) in zip(labels, frame.iterrows(), strict=True)
    }


def test_it_says_what_a_press_costs_and_compiles_nothing_before(lab):
    test = opened()
    assert not test.exception
    assert "About 5 min." in texts(test)
    assert lab.queue == []
    assert test.query_params["sweep"] == "chips=8,64,256,1024,4096"
    assert {row["State"] for row in table(test).values()} == {"estimate"}
    assert "5 of 5 points are estimates, not compiled." in texts(test)
    assert all(row["Step"] and "%" in row["Efficiency"] for row in table(test).values())
    assert re.fullmatch(
        r"about [\d.]+ of 95\.7 GiB", table(test)["8"]["Memory"].replace("\xa0", " ")
    )


def test_a_compiled_step_is_drawn_beside_its_estimate(lab):
    here = variants(parse_sweep(BASE, "batch-per-device=2"))[0]
    lab.end(lab.submit(here.experiment), "succeeded", found=found(1.0, 64, 8e15))
    chart = json.loads(opened(sweep="batch-per-device=2,4").get("vega_lite_chart")[0].proto.spec)
    assert chart["title"]["text"].endswith("filled: compiled")
    (point,) = chart["layer"][-1]["data"]["values"]
    assert point["label"] == "2" and "1 s a step, compiled" in point["text"]
    assert point["y"] == pytest.approx(1.0 if "(s)" in chart["title"]["text"] else 1000.0)


def test_pressing_queues_the_unknown_points_and_the_curves_fill_in(lab):
    test = opened(sweep="chips=8,64,512")
    lab.end(
        lab.submit(variants(parse_sweep(BASE, "chips=64"))[0].experiment),
        "succeeded",
        found=found(1.0, 64, 8e15),
    )
    test.run()
    assert "About 2 min; 1 of 3 points is compiled." in texts(test)
    curve = json.loads(test.get("vega_lite_chart")[0].proto.spec)
    assert curve["title"]["subtitle"] == "○ estimated, shaded: range"
    drawn = [each["mark"] for each in curve["layer"] if each["data"]["values"]]
    assert [mark["filled"] for mark in drawn if mark["type"] == "point"] == [False], (
        "each efficiency is of two estimates"
    )
    points = variants(parse_sweep(BASE, "chips=8,64,512"))
    guesses = curves(points, [estimated(point) for point in points])
    shown = [table(test)[row.point.label]["Efficiency"] for row in guesses]
    assert shown == [f"{row.efficiency:.1%}" for row in guesses]
    row = table(test)["64"]
    assert row["Step"].replace("\xa0", " ") == seconds_text(guesses[1].numbers.step_s)
    assert row["State"].replace("\xa0", " ").replace("\\", "").startswith("compiled: 1 s")
    assert "Estimates of all, to compare" in texts(test)
    known = lab.latest(variants(parse_sweep(BASE, "chips=64"))[0].experiment)
    status = replace(lab.status(known), started_at=100.0, finished_at=117.0)
    lab.status = lambda run, plain=lab.status: status if run == known else plain(run)
    assert "About 34 s; 1 of 3 points" in texts(test.run())
    test.button(key="sweep:start").click().run()
    assert [status.experiment.target for status in lab.queue] == ["tpu:v5p:2x2x2", "tpu:v5p:8x8x8"]
    waiting = lab.queue[0]
    lab.queue[0] = replace(waiting, held_up="the Dask scheduler is gone: start it again")
    test.run()
    assert [each.value.replace("\\", "") for each in test.warning] == [
        "The Dask scheduler is gone: start it again. The compiles wait for it."
    ]
    assert (
        "Waiting for the cluster, 2 in the queue; about 34 s left"
        in test.get("progress")[0].proto.text
    )
    lab.queue[0] = replace(waiting, state="running", phase="compile", started_at=1.0)
    test.run()
    assert not test.warning
    assert (
        table(test)["8"]["State"] == "compiling" and table(test)["512"]["State"] == "in the queue"
    )
    lab.queue[0] = replace(lab.queue[0], paused_for="another")
    test.run()
    assert "; paused while a run is timed (another)" in test.get("progress")[0].proto.text.replace(
        "\\", ""
    )
    assert not [button for button in test.button if button.key == "sweep:start"]
    for status, seconds, chips in zip(tuple(lab.queue), (0.9, 1.25), (8, 512), strict=True):
        lab.end(status.run, "succeeded", found=found(seconds, chips, chips / 8 * 1e15))
    test.run()
    (headline,) = (each.value for each in test.subheader if "It scales" in each.value)
    assert headline.startswith("It scales to 64 chips, with the same batch per chip as with")
    assert "From 8 to 512 chips causal MFU falls from 65% to 47%" in texts(test)
    assert table(test)["512"]["Efficiency"] == "72.0%"
    assert re.match(r"\[64\]\(http.*/predict\?experiment=1\.", test.table[0].value.iloc[1, 0])


def test_cancel_ends_all_and_failures_keep_their_words(lab):
    test = opened(sweep="chips=8,64,512")
    test.button(key="sweep:start").click().run()
    lab.end(lab.queue[0].run, "crashed", Failure(kind="WorkerError", message="the compiler died"))
    test.run()
    assert table(test)["8"]["State"] == "failed" and "8 chips: the compiler died" in texts(test)
    test.button(key="sweep:cancel").click().run()
    assert len(lab.cancelled) == 2 and lab.queue == []
    assert "About 3 min, 1 of them again after a failure" in texts(test)


def test_chips_whose_compiler_is_not_here_are_not_offered(lab, monkeypatch):
    monkeypatch.setattr(absent, "plugin_version", lambda: None)
    test = opened(sweep="generation=v5p,h100,b200")
    assert test.button(key="sweep:start").label == "Compile 1 point"
    assert texts(test).count("The compiler for GPUs is not installed") == 1
    test = opened(sweep="generation=h100,b200")
    assert [each for each in test.button if each.key == "sweep:start"] == []


def test_points_that_failed_alike_keep_their_estimates_and_name_the_reason_once(lab):
    before = table(opened(sweep="chips=8,64,512"))
    test = opened(sweep="chips=8,64,512")
    test.button(key="sweep:start").click().run()
    for status in [*lab.queue]:
        lab.end(status.run, "crashed", Failure(kind="WorkerError", message="the compiler died"))
    test.run()
    after = table(test)
    for name in ("Step", "Efficiency", "Memory"):
        assert [row[name] for row in after.values()] == [row[name] for row in before.values()]
    assert texts(test).count("the compiler died") == 1
    assert "8, 64 and 512 chips: the compiler died" in texts(test)
    assert "Estimated" in texts(test)


def test_a_link_shows_its_sweep_and_a_bad_one_says_why(lab):
    test = opened(sweep="mesh=fsdp=64;fsdp=32,tensor=2")
    assert (
        test.selectbox[0].value == "mesh" and test.text_input[0].value == "fsdp=64;fsdp=32,tensor=2"
    )
    strong = opened(sweep="chips=8,64", scaling="strong")
    assert strong.selectbox[1].value == "strong" and strong.query_params["scaling"] == "strong"
    assert list(table(test)) == ["fsdp=64", "fsdp=32,tensor=2"]
    assert opened(sweep="generation=v5p,v6e").multiselect[0].value == ["v5p", "v6e"]
    refused = opened(sweep="chips=7")
    assert not refused.exception and "7 do not form slices" in texts(refused)
    bad = opened(sweep="chips=0")
    assert "This link's sweep cannot be opened as it is. chips='0' is not a size" in texts(bad)
    assert bad.selectbox[0].value == "chips"


def test_a_link_opened_later_takes_the_place_of_the_fields(lab):
    test = opened(sweep="chips=8,64")
    test.text_input[0].set_value("8,16").run()
    assert test.query_params["sweep"] == "chips=8,16"
    test.query_params["sweep"] = "mesh=fsdp=64"
    test.run()
    assert test.selectbox[0].value == "mesh" and test.text_input[0].value == "fsdp=64"


def test_fields_are_read_and_refused(lab):
    test = opened(sweep="chips=8,24")
    assert (
        "chips=24 do not form slices of TPU v5p: use 16 or 32" in texts(test)
        and table(test)["24"]["State"] == "cannot be"
    )
    test.text_input[0].set_value("8,x").run()
    assert "chips='x' is not a size" in texts(test)
    assert table(test), "the last valid sweep stays"
    test.text_input[0].set_value("8,-3,64,foo").run()
    assert "chips='-3,foo' are no values of it: write for example" in texts(test)
    assert "What you see below is of the last fields that were valid." in texts(test)
    test.text_input[0].set_value("8,16").run()
    test.selectbox[0].set_value("sequence").run()
    assert test.text_input[0].value == "1024,2048,4096,8192"
    assert test.query_params["sweep"] == "sequence=1024,2048,4096,8192"


# Charts
# ------------------------------------------------------------------------------------------------------------------


def drawn(text: str, outcomes):
    sweep = parse_sweep(BASE, text)
    rows = curves(variants(sweep), outcomes)
    return sweep, rows, charts_of(sweep, rows)


def predicted(*arguments) -> Outcome:
    return outcome_of("run", found(*arguments))


CASES = {
    "chips": (
        "chips=8,64,512",
        [
            Outcome("does not fit", Numbers(False, peak_bytes=120 * GIB)),
            predicted(1.0, 64, 8e15),
            predicted(1.2, 512, 64e15),
        ],
    ),
    "mesh": ("mesh=fsdp=64;fsdp=16,tensor=4", [predicted(1.0), Outcome("not compiled")]),
    "generation": ("generation=v5p,v5e", [predicted(1.0), predicted(2.0)]),
    "one": ("sequence=2048", [predicted(1e-3, 64, 8e12)]),
    "steep": ("batch-per-device=1,64", [predicted(1e-3, 64, 8e12), predicted(0.5)]),
}


@pytest.mark.parametrize("name", CASES)
def test_charts_keep_the_schema_share_their_x_axis_and_have_words(name):
    sweep, rows, charts = drawn(*CASES[name])
    assert {
        "Time of a step",
        "MFU",
        "Memory",
        "Exposed communication",
        "Tokens",
        *["Efficiency"] * sweep.variable.scales,  # of others it is that of tokens
    } == set(charts)
    for title, chart in charts.items():
        altair.Root.validate(chart)
        x = chart["encoding"]["x"]
        scale = {key: each for key, each in x["scale"].items() if key != "range"}  # of names
        assert x | {"scale": scale} == charts["MFU"]["encoding"]["x"]
        assert "nothing yet" not in chart_alt(title, sweep, rows)


def test_the_values_drawn_are_those_predicted():
    sweep, rows, charts = drawn(*CASES["chips"])
    line = charts["Time of a step"]["layer"][-1]["data"]["values"]
    assert [(value["x"], value["y"], value["low"], value["high"]) for value in line] == [
        (64, 1.0, 0.9, 1.2),
        (512, 1.2, pytest.approx(1.08), pytest.approx(1.44)),
    ]
    x = charts["MFU"]["encoding"]["x"]
    assert x["scale"]["type"] == "log"
    assert x["axis"]["labelColor"]["condition"]["test"] == "indexof([8.0], datum.value) >= 0"
    assert x["axis"]["labelExpr"].endswith("? [datum.label, 'no fit'] : datum.label")
    capacity, *_, crossed, limit, needed, _ = (
        layer["data"]["values"] for layer in charts["Memory"]["layer"]
    )
    assert [(each["x"], each["text"]) for each in limit] == [(512, "capacity 95.7 GiB")]
    assert [each["needs"] for each in needed] == ["120.0 GiB needed"]
    assert charts["Memory"]["title"]["subtitle"] == "● by the compiler"
    assert [value["x"] for value in capacity] == [8, 64, 512]
    assert crossed == [
        {
            "x": 8,
            "label": "8",
            "kind": "all",
            "y": 120.0,
            "text": "does not fit: 120.0 GiB needed, capacity 95.7 GiB",
            "needs": "120.0 GiB needed",
        }
    ]
    assert [
        value["y"] for value in charts["Exposed communication"]["layer"][-1]["data"]["values"]
    ] == pytest.approx([10.0, 10.0])
    assert (
        chart_alt("Memory", sweep, rows)
        == "Memory by chips: 8: does not fit; 64: 8.0 GiB; 512: 8.0 GiB"
    )
    assert chart_alt("Efficiency", sweep, rows) == "Efficiency by chips: 64: 100.0%; 512: 83.3%"


def test_labels_of_the_x_axis_have_room():
    _, _, charts = drawn("chips=8,64,512,1024,1536,2048,4096", [predicted(1.0)] * 7)
    axis = charts["MFU"]["encoding"]["x"]["axis"]
    assert axis["values"] == [8, 64, 512, 1024, 2048, 4096]
    assert axis["format"] == ",.8~r", "without a precision a linear axis labels 2,048 as 2,000"


def test_before_any_compile_memory_by_the_sizes_is_drawn_alone():
    _, _, charts = drawn("chips=8,64", [Outcome("not compiled")] * 2)
    assert list(charts) == ["Memory"]
    guessed = charts["Memory"]["layer"][-5]["data"]["values"]
    assert [value["x"] for value in guessed] == [8, 64] and guessed[0]["y"] > guessed[1]["y"] > 0


def test_the_axis_of_an_efficiency_holds_every_curve_and_the_key_names_its_marks():
    sweep, rows, _ = drawn(*CASES["chips"])
    strong = parse_sweep(BASE, "chips=8,64,128", "strong")
    guess = [
        replace(predicted(step, chips, 8e15), state="not compiled")
        for step, chips in ((1.0, 64), (1.0, 128))
    ]
    total = curves(variants(strong), [Outcome("failed"), *guess])
    chart = scaling_chart(sweep, rows, total)
    altair.Root.validate(chart)
    y = chart["encoding"]["y"]
    assert (y["scale"]["domain"][0], y["axis"]["values"]) == (40, [40, 50, 60, 70, 80, 90, 100])
    assert chart["title"]["text"] == "Efficiency (%, 64 chips = 100)"
    assert chart["title"]["subtitle"] == "○ estimated, ● compiled"
    names = {
        row["name"]: row["y"]
        for each in chart["layer"]
        for row in each["data"]["values"]
        if "name" in row
    }
    assert names == {
        "Same batch\nper chip": pytest.approx(100 / 1.2),
        "Same total\nbatch": pytest.approx(50.0),
    }
    good, bend = [each for each in chart["layer"] if each["mark"].get("strokeDash") == [3, 3]]
    assert good["data"]["values"][0]["y"] == 80
    # from 100% at 64 chips to 50% at 128: 80% is two fifths of the way on its axis
    log = bend["encoding"]["x"]["scale"].get("type") == "log"
    crossed = 64 * 2**0.4 if log else 64 + 0.4 * 64
    assert bend["data"]["values"][0]["x"] == pytest.approx(crossed)
    named = [row for each in chart["layer"] for row in each["data"]["values"] if "words" in row]
    assert [row["words"] for row in named] == ["Same total batch stops\nscaling"], (
        "no part of this step is known"
    )
    assert scaling_alt(strong, total).startswith(
        ". Same total batch: 64: 100.0%, fsdp=64, estimated; 128: 50.0%, "
    )
    alone = scaling_chart(sweep, rows)
    assert alone["title"]["subtitle"] == "● compiled"
    assert alone["encoding"]["y"]["axis"]["values"] == [70, 80, 90, 100]


@pytest.mark.parametrize("wide", [(0.51, 4.14), (0.9, 60.0)])
def test_a_wide_range_is_cut_off_and_the_axis_is_that_of_the_points(wide):
    sweep = parse_sweep(BASE, "chips=64,512")
    points = variants(sweep)
    first, last = curves(points, [predicted(1.0, 64, 8e15), predicted(1.2, 512, 64e15)])
    chart = scaling_chart(sweep, [first, replace(last, efficiency_span=wide)])
    y = chart["encoding"]["y"]
    assert y["scale"]["domain"][1] < 130 and len(y["axis"]["values"]) <= 8
    bands = [each["mark"] for each in chart["layer"] if each["mark"]["type"] in ("area", "rule")]
    assert any(mark.get("clip") for mark in bands)


def test_numbers_of_two_curves_are_on_the_far_sides_of_both():
    sweep = parse_sweep(BASE, "chips=8,64,512")
    points = variants(sweep)
    rows = curves(points, [predicted(s, n, n * 1e14) for s, n in ((1, 8), (1.1, 64), (1.3, 512))])
    total = curves(points, [predicted(s, n, n * 1e14) for s, n in ((1, 8), (0.9, 64), (2.0, 512))])
    chart = scaling_chart(sweep, rows, total)
    numbers = [each for each in chart["layer"] if each["encoding"].get("text", {}).get("format")]
    above, below = ([round(row["y"]) for row in each["data"]["values"]] for each in numbers)
    assert numbers[0]["mark"]["dy"] < 0 < numbers[1]["mark"]["dy"]
    assert (above, below) == ([100, 111, 77], [91, 50])


def test_curves_that_end_at_one_point_have_their_names_apart():
    sweep = parse_sweep(BASE, "chips=32,64")
    rows = curves(variants(sweep), [predicted(1.1, 32, 8e15), predicted(1.0, 64, 8e15)])
    chart = scaling_chart(sweep, rows, rows)
    named = [
        each
        for each in chart["layer"]
        if each["mark"].get("lineBreak") and "name" in each["data"]["values"][0]
    ]
    assert [each["mark"]["baseline"] for each in named] == ["bottom", "top"]
    reached, _ = _figures(sweep, scaled_rows(rows), scaled_rows(rows))
    assert all(figure.more.startswith("of a chip's speed at 32, ") for figure in reached)


def test_the_words_at_a_bend_have_room_on_a_telephone():
    _, rows, _ = drawn(*CASES["chips"])
    bend = Knee(rows[0], rows[1], "exposed: fsdp sequence", 0.23)
    assert bend_lines(bend, "Same total batch") == [
        "Same total batch stops",
        "scaling: exposed over",
        "fsdp and sequence, 23%",
        "of the step",
    ]


def test_compiled_efficiencies_are_filled_beside_estimates_of_the_same_first_point():
    sweep = parse_sweep(BASE, "chips=64,512")
    points = variants(sweep)
    rows = curves(points, [estimated(point) for point in points])
    compiled = curves(points, [predicted(1.0, 64, 8e15), predicted(1.25, 512, 64e15)])

    def filled(*compiled):
        chart = scaling_chart(sweep, rows, (), compiled)
        shown = [each for each in chart["layer"] if each["mark"].get("filled")]
        return [row["y"] for each in shown for row in each["data"]["values"]], chart["title"][
            "subtitle"
        ]

    assert filled(*compiled) == (
        pytest.approx([100.0, 80.0]),
        "○ estimated, ● compiled, shaded: range",
    )
    assert filled(compiled[1]) == ([], "○ estimated, shaded: range"), "of another first point"


def test_bars_carry_their_times():
    sweep, rows, _ = drawn(*CASES["chips"])
    parts = {"64": {"matmul": 5.0, "late": 0.1}, "512": {"matmul": 5.0, "late": 0.4}}
    bars = parts_chart(sweep, rows, parts)
    inside, ends = (
        each["data"]["values"] for each in bars["layer"] if each["mark"]["type"] == "text"
    )
    assert [row["label"] for row in inside] == ["5", "0.1", "5", "0.4"]
    assert [(row["x"], row["label"]) for row in ends] == [(5.1, "5.1 s"), (5.4, "5.4 s")]


def test_where_nothing_grows_the_figure_names_no_part():
    shown = parse_sweep(BASE, "chips=64,512")
    points = variants(shown)
    alike = [predicted(1.0, 64, 8e15), predicted(1.0, 512, 64e15)]
    *_, last = _figures(shown, curves(points, alike), ())[1]
    assert (last.title, last.value) == ("Grows most", "nothing")
    rows = curves(points, [estimated(point) for point in points])
    (efficiency,), (step, last) = _figures(shown, rows, ())
    numbers, (low, high) = rows[-1].numbers, rows[-1].efficiency_span
    assert efficiency.value == f"{rows[-1].efficiency:.0%}"
    of = "of a chip's speed at 64, same batch per chip"
    assert efficiency.more == f"{100 * low:.0f} to {high:.0%} {of}"
    assert step.more == "80% range " + span_text(numbers.low_s, numbers.high_s)
    late = {"matmul": 1.0, "wait: slices": 0.25}
    waits = [
        replace(each, shares_s=shares)
        for each, shares in zip((row.numbers for row in rows), ({"matmul": 1.0}, late), strict=True)
    ]
    rows = curves(points, [Outcome("predicted", each) for each in waits])
    *_, last = _figures(shown, rows, ())[1]
    assert (last.value, last.more) == ("waiting for stragglers", "20% of the step, assumed")


def _weak(values):
    points = variants(parse_sweep(BASE, values))
    return points, [estimated(point) for point in points]


def test_the_same_total_batch_opens_on_the_best_mesh_of_each(lab):
    test = opened(sweep="chips=64,1024")
    scaling = next(each for each in test.selectbox if each.label == "Scaling")
    scaling.set_value("strong").run()
    assert test.query_params["meshes"] == "best" and test.query_params["scaling"] == "strong"
    assert "refused" not in texts(test)


def test_nothing_is_called_compiled_where_nothing_fits_by_its_sizes(lab):
    test = opened(sweep="batch-per-device=512,1024")
    assert "Estimated" in texts(test) and "Compiled" not in texts(test)
    spec = json.loads(test.get("vega_lite_chart")[0].proto.spec)
    words = [
        (layer["encoding"]["text"]["field"], layer["mark"], layer["data"]["values"])
        for layer in spec["layer"]
        if "text" in layer["encoding"]
    ]
    capacity, first, last = words
    assert capacity[1]["dy"] > 0 > first[1]["dy"]  # apart, on both sides of the line
    assert [mark["align"] for _, mark, _ in words] == ["right", "left", "right"]  # in the chart
    for _, _, (value,) in (first, last):  # where the axis has so many
        assert f"{value['y']:,.1f} GiB needed" == value["needs"]


def test_the_bar_of_one_point_names_it_and_its_time(lab):
    drawn = opened(sweep="chips=64,24").get("vega_lite_chart")
    charts = [json.loads(each.proto.spec) for each in drawn]
    titles = [each["title"]["text"] for each in charts if "title" in each]
    assert any(
        re.fullmatch(r"Estimated time of a step at 64 chips: .+ m?s", each) for each in titles
    )


def test_each_point_over_chips_has_the_tokens_of_its_step(lab):
    test = opened(sweep="chips=64,128")
    assert [row["Tokens a step"] for row in table(test).values()] == ["262,144", "524,288"]
    (headline,) = (each.value for each in test.subheader if "It scales" in each.value)
    same = "with the same batch per chip as with the same total batch"
    assert headline.replace("\\", "").startswith(f"It scales to at least 128 chips, {same}")


def test_what_is_refused_is_counted_below_the_headline(lab):
    test = opened(sweep="chips=64,128,24")
    (headline,) = (each.value for each in test.subheader if "It scales" in each.value)
    assert headline.replace("\\", "").endswith("batch.")
    assert "1 of 3 points is refused." in texts(test)


def test_what_the_same_total_batch_reaches_is_beside_weak_scaling_alone(lab):
    def figures(test):
        (html,) = (
            each.proto.body for each in test.get("html") if 'class="five"' in each.proto.body
        )
        return html

    points = variants(parse_sweep(BASE, "chips=64,256,1024", "strong", "best"))
    total = scaled_rows(curves(points, [estimated(point) for point in points]))
    first, *_, last = total
    assert last.efficiency_span is None
    test = opened(sweep="chips=64,256,1024")
    weak = figures(test)
    assert ">Same total batch<" in weak and f">{last.efficiency:.0%}<" in weak
    mesh = mesh_text(last.point.experiment.mesh, " ")
    assert ">of a chip's speed at 64, 262,144 tokens a step<" in weak.replace("&#x27;", "'")
    assert mesh in scaling_alt(parse_sweep(BASE, "chips=64,256,1024"), total)
    fold = next(each for each in test.expander if each.label == "Same total batch: every plan")
    assert not fold.table  # made where it is opened
    (headline,) = (each.value for each in test.subheader if "It scales" in each.value)
    reach = reach_words(total, 1024, has_tokens=False)
    assert headline.replace("\\", "").endswith(
        f", to {reach.removesuffix(' chips')} with the same total batch."
    )
    timed = scaled_rows(curves(*_weak("chips=64,256,1024")))
    assert ("per chip: may be below 80%" in texts(test)) is may_fall_short(timed)
    assert first.point.chips == 64 and "no range is known" in texts(test)
    assert "Same total batch" not in figures(opened(sweep="chips=64,128", scaling="strong"))
    assert "44 published ones" in texts(test)
    assert "published ones" not in texts(opened(sweep="sequence=2048,8192"))


def test_the_best_point_is_named_in_days_and_in_dollars_of_each_price(lab):
    def figures(test):
        return next(
            each.proto.body for each in test.get("html") if 'class="five"' in each.proto.body
        )

    rows = curves(*_weak("chips=64,256,1024"))
    sweep = parse_sweep(BASE, "chips=64,256,1024")
    days, hours = best_figures(sweep, rows, 1e12)
    runs = {row.point.label: row_run(row, 1e12, {"v5p": 4.2}) for row in rows}
    lines = csv.DictReader(io.StringIO(csv_text(rows, lambda row: run_cells(row, 1e12))))
    assert [float(line["days"] or 0) for line in lines] == [
        run.days.estimate for run in runs.values()
    ]
    least = min(runs, key=lambda label: runs[label].days.estimate)
    cheapest = min(runs, key=lambda label: runs[label].chip_hours)
    assert days.title == "Fewest days for 1T tokens" and days.more.startswith(f"at {least} chips, ")
    assert days.value == days_text(runs[least].days.estimate)
    dear = max(run.chip_hours for run in runs.values())
    apart = apart_words(runs[cheapest].chip_hours, dear)
    assert hours[:3] == (
        "Fewest chip-hours",
        f"{runs[cheapest].chip_hours:,.0f}",
        f"at {cheapest} chips, 1.05M tokens a step, about even with 2 more, up to {apart}",
    )
    both = best_figures(sweep, [*rows, *total_batch(sweep)], 1e12)
    for figure in both:  # of two plans of its own chips it is not called even with itself
        own = figure.more.split(", ")[0].removeprefix("at ")
        assert own.endswith(" chips") and figure.more.count(own) == 1
    _, dollars = best_figures(sweep, rows, 1e12, {"v5p": 4.2})
    assert dollars.value == money_text(4.2 * runs[cheapest].chip_hours)
    _, dollars = best_figures(sweep, [*rows, *total_batch(sweep)], 1e12, {"v5p": 4.2})
    test = opened(sweep="chips=64,256,1024")
    assert "Fewest days for 1T tokens" in figures(test) and "Chip-hours" in test.table[0].value
    test.text_input(key=state_key(test)).set_value("4.2").run()
    assert f">{dollars.value}<" in figures(test)
    assert table(test)["256"]["Dollars"].lstrip("\\") == money_text(runs["256"].money)
    assert "Chip-hours" not in test.table[0].value


def state_key(test):
    return next(each.key for each in test.text_input if each.label.startswith("Price"))


def test_chips_without_a_price_are_not_the_cheapest():
    sweep = parse_sweep(BASE, "generation=v5p,v6e")
    points = variants(sweep)
    rows = curves(points, [estimated(point) for point in points])
    (days,) = best_figures(sweep, rows, 1e12, {"v5p": 4.2})
    assert days.more.startswith("at TPU v")
    assert [each.title for each in best_figures(sweep, rows, 1e12, {"v5p": 4.2, "v6e": 2.7})] == [
        days.title,
        "Fewest dollars",
    ]
    assert not best_figures(sweep, rows[:1], 1e12) and not best_figures(sweep, rows, None)


def test_points_too_large_to_be_compiled_are_counted_beside_the_button(lab):
    test = opened(sweep="batch-per-device=2,2048")
    assert [row["State"] for row in table(test).values()] == [
        "estimate",
        "does not fit, by its sizes",
    ]
    assert "; 1 left out as too large." in texts(test)
    assert "2,048 sequences per device do not fit with this plan." in texts(test)
    (way,) = [each for each in test.button if "What fits near" in each.label]
    assert way.label == "What fits near 2,048 sequences per device"
    assert "; 1 left out as too large." not in texts(opened(sweep="batch-per-device=2,4"))


@pytest.mark.parametrize(
    ("model", "first"), [("llama-3.1-8b", 64), ("llama-3.1-70b", 256), ("scaled:1", 8)]
)
def test_a_sweep_over_chips_begins_with_the_fewest_that_hold_a_plan(model, first):
    plan = best_mesh({"model": model, "sequence": 8192}, "tpu:v5e:16x16", 512, REMATS).plan
    chips, values = VARIABLES["chips"], _from_first_fit(experiment_of(plan), VARIABLES["chips"])
    left_out = [each for each in chips.default(experiment_of(plan)) if each not in values]
    assert values[0] == first and 256 in values and all(each < first for each in left_out)
    points = variants(Sweep(experiment_of(plan), "chips", (first, *left_out), "weak", BEST))
    assert [point.fits == "yes" for point in points] == [True, *(False for _ in left_out)]


def test_a_sweep_of_one_value_has_no_curve(lab):
    test = opened(sweep="chips=64")
    assert not test.exception and "64" in table(test)
    assert "Every curve" not in [each.label for each in test.expander]
    assert "Every curve" in [each.label for each in opened(sweep="chips=64,256").expander]


@pytest.mark.parametrize(("wide", "mark"), [((1,), "rule"), ((1, 2), "area"), ((0, 1, 2), "area")])
def test_the_range_of_one_point_is_a_line_and_of_more_a_band(wide, mark):
    sweep = parse_sweep(BASE, "chips=8,64,512")
    rows = curves(variants(sweep), [predicted(1.0)] * 3)
    values = [
        {"x": x, "y": 1.0, "low": 1 - 0.1 * (at in wide), "high": 1.1, "estimated": True}
        if at in wide
        else {"x": x, "y": 1.0, "low": 1.0, "high": 1.0, "estimated": True}
        for at, x in enumerate((8, 64, 512))
    ]
    marks = [each["mark"]["type"] for each in curve(sweep, rows, values, "Efficiency")["layer"]]
    assert (mark in marks) and ({"rule", "area"} - {mark}).isdisjoint(marks)
