"""The Collectives screen: one target on it, and every figure of its card on a curve."""

import json
import re
from html import unescape

import pytest

from spmd_core.answers import sweep_points
from spmd_core.base import RequestError, seconds_text
from spmd_core.experiment import link, parse_experiment
from spmd_core.machine import GPUS, accelerator_files
from spmd_core.results import Point
from spmd_core.roofline import PUBLISHED, fits, on_topology, published_spans
from spmd_core.terms import sweep_words
from spmd_core.time.cost.constants import HOP_LATENCY_S, LAUNCH_S, LINK_EFFICIENCY
from spmd_core.workloads import TRANSFERS
from spmd_lab.ui.charts import bandwidth as chart
from spmd_lab.ui.collectives import bandwidths
from spmd_lab.ui.collectives.card import RESTS_ON
from spmd_lab.ui.collectives.typed import read_size
from tests.ui import opened, said

OVER = {"x+y": "", "x": " over x=2", "y": " over y=4"}  # in a headline: none where they are all


def charts(screen):
    return [json.loads(each.proto.spec) for each in screen.get("vega_lite_chart")]


def labels(spec):
    """Every text that a chart draws."""
    return [
        str(row[layer["encoding"]["text"]["field"]])
        for layer in spec["layer"]
        if "text" in layer["encoding"]
        for row in layer["data"]["values"]
    ]


def figures(screen):
    """The figures of the card: value by title."""
    (words,) = (each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body)
    return dict(re.findall(r'<span>([^<]*)</span><b class="figure">([^<]*)</b>', words))


@pytest.mark.skipif(bool(accelerator_files()), reason="the default is what is attached")
def test_without_an_accelerator_the_target_is_one_chip_generation_predicted(data_folder):
    screen = opened("collectives")
    target = next(each for each in screen.selectbox if each.label == "Target")
    assert target.value == "tpu:v5e:2x4" and "cpu" not in said(screen)
    curve, ranking, _ = charts(screen)
    assert "All-reduce of 16.0 MiB on v5e:2x4" in said(screen)
    assert f"predicted {figures(screen)['Time']} at 16.0 MiB" in labels(curve)
    assert "Predicted" in said(screen) and "Estimated" not in said(screen)
    assert any(label.startswith("latency-bound below about ") for label in labels(curve))
    assert [label.split(" · ")[1] for label in labels(ranking) if " · " in label] == [
        "one link only",
        "half crosses the middle",
    ]
    assert len(ranking["layer"][0]["data"]["values"]) == 5


@pytest.mark.parametrize("over", ["x+y", "y"])
@pytest.mark.parametrize("view", ["Bus bandwidth", "Time"])
def test_the_ranking_is_of_the_largest_size_the_best_first(data_folder, over, view):
    screen = opened("collectives", tab=over, view=view)
    ranking = charts(screen)[1]
    bars = ranking["layer"][0]["data"]["values"]
    values = [row["y"] for row in bars]
    assert values == sorted(values, reverse=view != "Time") and len({*values}) > 1
    assert ranking["layer"][0]["encoding"]["x"]["scale"].get("type") is None, "linear"
    (time,) = (row["time"] for row in bars if row["kind"] == "All-reduce")
    assert figures(screen)["Time"].split()[0] == time.split()[0]
    assert {row["size"] for row in bars} == {"16.0 MiB"}
    for row in bars:  # a kind without a published run has no range
        least, most = _published(row["name"], row["bytes"])
        ends = (least, most) if view == "Time" else (1 / most, 1 / least)
        assert [row["low"], row["high"]] == pytest.approx([each * row["y"] for each in ends])
    spanned = {row["name"] for row in ranking["layer"][1]["data"]["values"]}
    assert spanned == {*published_spans()}
    line, _, _, label = (layer["encoding"] for layer in ranking["layer"][1:5])
    assert (line["x"]["field"], line["x2"]["field"]) == ("low", "high")
    assert label["x"]["field"] == "high", "past the range"
    assert ranking["title"]["text"] == f"{view} at 16.0 MiB per device, ├─┤ range"
    (own,) = (row["label"] for row in bars if row["kind"] == "All-reduce")
    assert own == figures(screen)[view]


def test_a_comparison_has_one_tick_a_bar_with_a_legend_and_says_how_much_faster(data_folder):
    screen = opened("collectives", beside="v5p")
    ranking = charts(screen)[1]
    (ticks,) = (
        each["data"]["values"]
        for each in ranking["layer"]
        if each["mark"]["type"] == "tick" and each["mark"].get("size") == 22
    )
    kinds = [row["kind"] for row in ticks]
    assert len(kinds) == len({*kinds}) == 5, "of the axes that are shown alone"
    assert ranking["title"]["text"].endswith(", ┃ on v5p:2x2x2")
    body = next(each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body)
    assert re.search(r"<small>2\.8\d× faster</small>", body)


def test_bars_without_a_published_run_say_so_where_others_have_a_range(data_folder):
    bars = charts(opened("collectives"))[1]["layer"][0]["data"]["values"]
    named = {row["name"] for row in bars if ", no published run" in row["label"]}
    assert named == {row["name"] for row in bars} - {*published_spans()}
    bars = charts(opened("collectives", bytes="1 KiB"))[1]["layer"][0]["data"]["values"]
    assert not [row for row in bars if "published" in row["label"]], "none has a range there"


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ("x+y", "A grid of 2 × 4 over x and y of the chips. Numbers: the place of a chip"),
        ("y", "A grid of 2 × 2 over x and y of the chips."),
        ("x", "Chips scattered over 2 × 2 along x and y of the chips, as `jax.make_mesh` places"),
    ],
)
def test_chips_are_numbered_by_their_place_and_scattered_ones_explained(data_folder, over, words):
    screen = opened("collectives", tab=over)
    assert words in said(screen).replace("\\", "")
    (chips,) = (
        each
        for each in charts(screen)
        if each["layer"][-1]["mark"]["type"] == "text" and len(each["layer"]) == 4
    )
    numbers = [row["number"] for row in chips["layer"][3]["data"]["values"]]
    size = {"x+y": 8, "y": 4, "x": 2}[over]
    assert sorted(numbers) == sorted("01234567"[:size] * (8 // size)), "the place in each group"


def _published(kind, nbytes):
    """How many times as long a published run took, of a size that it has; 1 of other kinds."""
    ratios = [dict(each.ratios()) for each in PUBLISHED if each.kind == kind]
    times = [each.get(nbytes, max(each.values())) for each in ratios]
    return min([1.0, *times]), max([1.0, *times])


@pytest.mark.parametrize(("size", "times"), [("16 MiB", 1.05), ("4 MiB", 1.13), ("1 MiB", 1.31)])
def test_a_range_is_that_of_a_published_run_at_the_size_that_is_shown(data_folder, size, times):
    screen = opened("collectives", bytes=size, kind="All-gather")
    low, high = map(float, re.search(r"([\d.]+) to ([\d.]+) µs", figures(screen)["Time"]).groups())
    assert high / low == pytest.approx(times, abs=0.01)


def test_a_link_to_simulated_devices_keeps_its_target(data_folder):
    asked = parse_experiment({"workload": "collectives", "target": "cpu:8", "mesh": {"x": 8}})
    screen = opened("collectives", experiment=link.encode(asked))
    target = next(each for each in screen.selectbox if each.label == "Target")
    assert target.value == "cpu:8" and not charts(screen)
    assert any(
        "Predict on v5e:2x4" in each.proto.label.replace("\\", "")
        for each in screen.get("page_link")
    )


def test_one_collective_of_several_is_offered_beside_measure(data_folder):
    asked = parse_experiment({"workload": "collectives", "target": "cpu:8", "mesh": {"x": 8}})
    screen = opened("collectives", experiment=link.encode(asked))
    assert "12 sizes of 5 collectives" in said(screen)
    screen.button(key="only-kind").click().run()
    assert "12 sizes of all-reduce, " in said(screen)
    assert not [each for each in screen.button if each.key == "only-kind"]


@pytest.mark.parametrize("times", [1.5, 4.0])
def test_the_fitted_line_is_drawn_where_a_point_is_off_it(times):
    sizes = [2**power for power in range(10, 25, 2)]
    seconds = [(1e-4 + size / 1e9) * (times if size == sizes[-1] else 1) for size in sizes]
    points = [
        Point(
            kind="all-gather",
            axes=("x",),
            devices=8,
            dtype="f32",
            bytes=size,
            time_s=time,
            busbw=size / time,
        )
        for size, time in zip(sizes, seconds, strict=True)
    ]
    (fit,) = fits(points[:-1])
    line = bandwidths._fitted(points, (fit,))
    spec = chart.sweep_chart(points, (), chart.TIME, size=sizes[-1], fitted=line)
    (drawn,) = (each for each in spec["layer"] if each["mark"].get("type") == "line")
    shown = [row["seconds"] for row in drawn["data"]["values"] if row["line"] == chart.FITTED]
    assert bool(shown) is (times > 3)
    if shown:
        most = fit.latency_s + sizes[-1] * TRANSFERS["all-gather"].bus_factor(8) / fit.bandwidth
        assert shown[-1] == pytest.approx(most) and shown[-1] < seconds[-1] / 3
        assert f"fitted line {seconds_text(most)} at 16.0 MiB" in labels(spec)


@pytest.mark.skipif(bool(accelerator_files()), reason="the default is what is attached")
def test_a_prediction_has_a_range_its_share_of_the_links_and_what_it_rests_on(data_folder):
    screen = opened("collectives")
    (words,) = (each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body)
    low, high = map(float, re.search(r"([\d.]+) to ([\d.]+) µs", figures(screen)["Time"]).groups())
    time = float(re.search(r"<small>([\d.]+) µs predicted, up to", unescape(words))[1])
    assert low == pytest.approx(time, abs=0.5)
    assert high == pytest.approx(published_spans()["all-reduce"][1] * time, rel=0.01)
    # two links a device of 50 GB/s
    shares = re.search(r"(\d+)% to (\d+)% of 100 GB/s by the data sheet", unescape(words)).groups()
    rates = re.search(r"([\d.]+) to ([\d.]+) GB/s", figures(screen)["Bus bandwidth"]).groups()
    assert [*map(int, shares)] == [round(float(each)) for each in rates]
    assert "Nothing was measured" in said(screen) and "All-reduce among 256 on v6e:16x16" in said(
        screen
    )


@pytest.mark.parametrize("over", ["x+y", "x", "y"])
@pytest.mark.parametrize("view", ["Time", "Bus bandwidth"])
def test_a_size_that_is_chosen_is_that_of_the_figures_the_label_and_the_ranking(
    data_folder, view, over
):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    code = link.encode(parse_experiment(asked))
    screen = opened("collectives", experiment=code, view=view, tab=over)
    choice = next(each for each in screen.selectbox if each.label == "Size")
    size = choice.options[6]
    choice.set_value(size).run()
    assert f"All-reduce of {size}{OVER[over]} on v5e:2x4" in said(screen)
    shown = figures(screen)["Time"] if view == "Time" else figures(screen)["Bus bandwidth"]
    curve, ranking, _ = charts(screen)
    assert f"predicted {shown} at {size}" in labels(curve)
    assert {row["size"] for row in ranking["layer"][0]["data"]["values"]} == {size}
    band, line = (layer["data"]["values"] for layer in curve["layer"][:2])
    values = {row["bytes"]: row["y"] for row in line}
    within = [
        row["low"] <= 1.001 * values[row["bytes"]] and values[row["bytes"]] <= 1.001 * row["high"]
        for row in band
    ]
    assert all(within) and 3 < len(within) < len(line), "of bandwidth-bound sizes"
    ratio = {round(row["high"] / row["low"], 3) for row in band}
    low, high = published_spans()["all-reduce"]
    assert ratio == {round(high / min(1.0, low), 3)}


@pytest.mark.parametrize("view", ["Time", "Bus bandwidth"])
def test_what_is_compared_has_its_range_drawn_as_the_target_has(data_folder, view):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    screen = opened("collectives", experiment=link.encode(parse_experiment(asked)), view=view)
    next(each for each in screen.button if each.label == "Compare with v5p").click().run()
    bands = [each for each in charts(screen)[0]["layer"] if each["mark"]["type"] == "area"]
    assert len(bands) == 2
    for each in bands:
        ratios = {round(row["high"] / row["low"], 2) for row in each["data"]["values"]}
        assert ratios == {round(published_spans()["all-reduce"][1], 2)}


@pytest.mark.parametrize(
    ("tab", "shown"),
    [("over y", "y"), ("over y=4", "y"), ("y", "y"), ("over x and y", "x+y"), ("x+y", "x+y")],
)
def test_a_link_with_a_size_and_axes_by_any_of_their_names_is_read(data_folder, tab, shown):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    code = link.encode(parse_experiment(asked))
    screen = opened("collectives", experiment=code, tab=tab, bytes="2.7 MiB")
    assert "in the link" not in " ".join(each.value for each in screen.info)
    assert f"All-reduce of 2.7 MiB{OVER[shown]} on v5e:2x4" in said(screen)
    over = next(each for each in screen.segmented_control if each.label == "Over")
    assert over.value == shown
    assert over.options == ["over x=2 y=4", "over x=2", "over y=4"]


@pytest.mark.parametrize("kind", ["All-reduce", "All-gather", "Reduce-scatter"])
def test_where_latency_is_most_of_the_time_a_published_bandwidth_gives_no_range(data_folder, kind):
    screen = opened("collectives", bytes="1 KiB", kind=kind)
    shown = figures(screen)
    assert not [words for words in shown.values() if " to " in words], shown
    curve, ranking, _ = charts(screen)
    assert not any(layer["mark"].get("size") == 8 for layer in ranking["layer"]), "no whiskers"
    (name,) = (layer for layer in curve["layer"] if layer["mark"].get("fontWeight") == 600)
    assert name["mark"]["align"] == "left", "away from the axis"
    because = "no published run" if kind == "Reduce-scatter" else "latency-bound, and published"
    assert f"no range: {because}" in " ".join(each.proto.body for each in screen.get("html"))


@pytest.mark.parametrize(
    ("over", "words", "groups"),
    [
        ("x+y", "A grid of 2 × 4 over x and y", 1),
        ("x", "Chips scattered over 2 × 2 along x and y", 4),
        ("y", "A grid of 2 × 2 over x and y", 2),
    ],
)
def test_the_chips_of_each_group_are_drawn(data_folder, over, words, groups):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    screen = opened("collectives", experiment=link.encode(parse_experiment(asked)), tab=over)
    chips = charts(screen)[2]["layer"][1]["data"]["values"]
    assert len(chips) == 8 and len({each["at"] for each in chips}) == groups
    assert words in said(screen)


def test_a_size_that_was_not_swept_shows_the_largest(data_folder):
    screen = opened("collectives", bytes="3 parsecs")
    assert "All-reduce of 16.0 MiB" in said(screen) and not screen.exception


@pytest.mark.skipif(bool(accelerator_files()), reason="the default is what is attached")
@pytest.mark.parametrize("by_button", [True, False])
def test_another_target_is_compared_in_the_card_and_the_chart(data_folder, by_button):
    screen = opened("collectives")
    beside = next(each for each in screen.selectbox if each.label == "Compare with")
    offered = screen.button(key="compare-rival")
    assert offered.label == "Compare with v5p"
    (offered.click() if by_button else beside.set_value("v5p")).run()
    assert "compare-rival" not in [each.key for each in screen.button]
    assert not screen.exception
    there = figures(screen)["On v5p:2x2x2, predicted"]
    assert f"v5p:2x2x2 {there}" in labels(charts(screen)[0])
    assert there.count(" to ") == figures(screen)["Time"].count(" to ") == 1  # a range, as here


V5P = parse_experiment(
    {"workload": "collectives", "target": "tpu:v5p:2x2x2", "mesh": {"x": 2, "y": 4}}
)


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ("v5p", "v5p is the target's own chip: choose another to compare with."),
        ("20200101-000000-abcdef", "No run '20200101-000000-abcdef' is stored here"),
    ],
)
def test_a_comparison_that_cannot_be_made_gives_the_reason_and_is_dropped(data_folder, beside, why):
    screen = opened("collectives", experiment=link.encode(V5P), beside=beside)
    assert why in said(screen)
    chosen = next(each for each in screen.selectbox if each.label == "Compare with")
    assert chosen.value == "nothing" and "beside" not in screen.query_params
    assert why not in said(screen.run())


def test_a_link_restores_what_a_sweep_is_compared_with_also_on_gpus_without_a_range(data_folder):
    gpus = V5P.vary(target="gpu:h100:8")
    screen = opened("collectives", experiment=link.encode(gpus), beside="v5p", kind="All-gather")
    assert "All-gather of 16.0 MiB on h100:8" in said(screen)
    assert " to " in figures(screen)["On v5p:2x2x2, predicted"]
    body = next(each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body)
    assert "no range: none of the published times here is of such links" in body
    low, high = _published("all-gather", 2**24)
    (ends,) = re.findall(r"([\d.]+) to ([\d.]+)× (?:slower|faster|as long)", body)
    assert float(ends[1]) / float(ends[0]) == pytest.approx(high / low, rel=0.02)


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_a_group_of_up_to_eight_is_drawn_in_full(data_folder, devices):
    asked = {
        "workload": "collectives",
        "target": "tpu:v5e:2x4",
        "mesh": {"x": devices, "y": 8 // devices},
    }
    screen = opened("collectives", experiment=link.encode(parse_experiment(asked)), tab="x")
    assert f" of {devices} devices" not in said(screen) and "jax.lax.psum" in said(screen)


@pytest.mark.parametrize("kind", ["Reduce-scatter", "All-to-all", "Collective-permute"])
def test_a_kind_without_a_published_run_has_no_range(data_folder, kind):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    code = link.encode(parse_experiment(asked))
    screen = opened("collectives", experiment=code, kind=kind)
    assert " to " not in figures(screen)["Time"] and "no published run" in said(screen)


def test_the_data_sheets_rate_on_gpus_names_the_links_that_bound_it(data_folder):
    asked = {"workload": "collectives", "target": "gpu:h100:2x8", "mesh": {"x": 16}}
    screen = opened("collectives", experiment=link.encode(parse_experiment(asked)))
    body = next(each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body)
    rate, share, over = re.search(
        r"of ([\d.]+) GB/s by the data sheet, (\d+)% of it over NVLink at ([\d.]+) GB/s",
        unescape(body),
    ).groups()
    assert float(over) == GPUS["h100"].link_bandwidth / 1e9
    assert float(rate) * int(share) / 100 == pytest.approx(float(over), rel=0.01)


def test_the_answer_stays_while_it_is_stored(lab):
    asked = parse_experiment(
        {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    )
    before = figures(opened("collectives", experiment=link.encode(asked)))
    run = lab.submit(asked)
    screen = opened("collectives", run=run, experiment=link.encode(asked))
    assert screen.button(key="measure").disabled and figures(screen) == before


def test_the_sizes_that_are_bound_by_latency_are_named_apart_from_the_line(data_folder):
    asked = {"workload": "collectives", "target": "gpu:h100:2x8", "mesh": {"x": 16}}
    late, early = (
        charts(opened("collectives", experiment=link.encode(parse_experiment(each))))[0]
        for each in (asked, {**asked, "target": "tpu:v5e:4x4"})
    )
    assert [half_of(each)["is_late"] for each in (late, early)] == [True, False]


def half_of(curve):
    rows = [row for each in curve["layer"] for row in each["data"]["values"]]
    return next(row for row in rows if str(row.get("label")).startswith("latency-bound"))


def test_what_a_prediction_rests_on_is_what_the_model_assumes():
    assert f"{LINK_EFFICIENCY:.0%}" in RESTS_ON
    assert f"{HOP_LATENCY_S * 1e6:g} µs a hop" in RESTS_ON
    assert f"{LAUNCH_S * 1e6:g} µs to start" in RESTS_ON


@pytest.mark.parametrize("typed", ["1.0 GiB", "100 MB", "3 TB", "parsecs"])
def test_a_size_beyond_the_sweep_is_chosen_or_typed_where_it_is_predicted(data_folder, typed):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    screen = opened("collectives", experiment=link.encode(parse_experiment(asked)))
    size = next(each for each in screen.selectbox if each.label == "Size")
    assert size.value == "16.0 MiB" and "1.0 GiB" in size.options
    before = float(figures(screen)["Time"].split()[0])
    at_typed = {"experiment": link.encode(parse_experiment(asked)), "bytes": typed}
    screen = (
        opened("collectives", **at_typed)
        if typed not in size.options
        else size.set_value(typed).run()
    )
    assert not screen.exception
    if typed in ("3 TB", "parsecs"):
        assert "All-reduce of 16.0 MiB on v5e:2x4" in said(screen)
        (sentence,) = (each.value for each in screen.info)
        assert "use for example 64 MiB" in sentence
        return
    shown = {"1.0 GiB": "1.0 GiB", "100 MB": "95.4 MiB"}[typed]
    assert f"All-reduce of {shown} on v5e:2x4" in said(screen)
    assert f"predicted {figures(screen)['Time']} at {shown}" in labels(charts(screen)[0])
    assert {row["size"] for row in charts(screen)[1]["layer"][0]["data"]["values"]} == {shown}
    after = float(figures(screen)["Time"].split()[0])
    assert figures(screen)["Time"].endswith(" ms") and after > before / 1000, "it takes longer"


@pytest.mark.parametrize("text", ["parsecs", "", "0", "1 PB", "-4 KiB", "64 MiBs"])
def test_a_size_that_is_none_is_refused_with_one_that_is(text):
    with pytest.raises(RequestError, match="use for example 64 MiB"):
        read_size(text)


def test_sizes_are_read_as_they_are_written():
    known = {
        "64 MiB": 2**26,
        "1.5 GB": 1_500_000_000,
        "4,096": 4096,
        "2kib": 2048,
        " 100 MB ": 10**8,
    }
    assert {text: read_size(text) for text in known} == known


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:8"])
def test_the_command_has_the_ranges_of_the_screen(data_folder, target):
    asked = {"workload": "collectives", "target": target, "mesh": {"x": 8}}
    experiment = parse_experiment(asked)
    shown = figures(opened("collectives", experiment=link.encode(experiment)))
    points = on_topology(experiment)
    table = sweep_points(points, experiment.place)
    row = next(
        dict(zip(table.columns, (each.text for each in cells), strict=True))
        for cells, point in zip(table.rows, points, strict=True)
        if (point.kind, point.bytes) == ("all-reduce", 2**24)
    )
    assert (row["Predicted"], row["Bus bandwidth"]) == (shown["Time"], shown["Bus bandwidth"])
    sentence, _ = sweep_words(points, target=experiment.place)
    assert f"All-reduce reaches {shown['Bus bandwidth']} over x (16.0 MiB)." in sentence
    assert (" to " in sentence) == target.startswith("tpu")


def test_a_size_beyond_the_sweep_is_beside_its_fields_and_times_have_their_units(data_folder):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 2, "y": 4}}
    code = link.encode(parse_experiment(asked))
    screen = opened("collectives", experiment=code, view="Time", bytes="1.0 GiB")
    heads = [each.label.replace("\\", "") for each in screen.expander]
    assert any(each.endswith("16.0 MiB, and 1.0 GiB") for each in heads), heads
    curve = charts(screen)[0]
    axis = next(layer["encoding"]["y"] for layer in curve["layer"] if "y" in layer["encoding"])
    assert "' ms'" in axis["axis"]["labelExpr"] and "µs" not in axis["title"]
    plain = opened("collectives", experiment=code)
    heads = [each.label.replace("\\", "") for each in plain.expander]
    assert any(each.endswith("to 16.0 MiB") for each in heads), heads


def test_a_stored_prediction_is_marked_as_stored_and_not_offered_again(lab):
    asked = {"workload": "collectives", "target": "tpu:v5e:2x4", "mesh": {"x": 8}}
    run = lab.submit(parse_experiment(asked))
    lab.wait(run, 60)
    screen = opened("collectives", experiment=link.encode(parse_experiment(asked)), run=run)
    (button,) = (each for each in screen.button if each.key == "measure")
    assert (button.label, button.disabled) == ("Stored on History", True)
    assert "is attached" not in said(screen), "nothing was compiled"
