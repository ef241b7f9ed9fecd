import pytest

from bench.values import result, strategy
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Estimate
from spmd_core.results import Point
from spmd_lab.ui.charts import bandwidth, shares
from spmd_lab.ui.charts.by_strategy import (
    live_chart,
    memory_chart,
    phases_chart,
    ratios_chart,
    side_by_side_chart,
)
from spmd_lab.ui.charts.times import times_alt, times_chart
from tests.ui.predictions import prediction


def rows(chart, mark):
    return [
        row
        for layer in chart["layer"]
        if layer["mark"]["type"] == mark
        for row in layer["data"]["values"]
    ]


def test_every_sample_is_drawn_in_the_unit_of_the_axis():
    found = result({"single": strategy(10e-6), "auto": strategy(40e-6)})
    chart = times_chart(found)
    assert [round(row["x"], 6) for row in rows(chart, "tick")] == [
        9.8,
        9.9,
        10.0,
        10.1,
        10.2,
        39.2,
        39.6,
        40.0,
        40.4,
        40.8,
    ]
    x = chart["layer"][0]["encoding"]["x"]
    assert x["title"] == ["time per call (µs)", "median, 95% interval, samples below"]
    assert x["axis"]["titleAnchor"] == "end", "a narrow chart is not cut"
    assert [(row["row"], row["time"]) for row in rows(chart, "bar")] == [
        ("Single device", "10 µs"),
        ("Automatic", "40 µs"),
    ]
    assert [(round(row["low"], 6), round(row["high"], 6)) for row in rows(chart, "rule")] == [
        (9.8, 10.2),
        (39.2, 40.8),
    ]
    assert times_alt(found).endswith("Single device 10 µs, Automatic 40 µs")


def test_an_outlier_stays_in_sight_at_the_end_of_the_axis_with_its_true_value():
    found = result({"auto": strategy(10e-6, samples_s=[10e-6, 10e-6, 10e-6, 500e-6], outliers=[3])})
    chart = times_chart(found)
    beyond, *_ = rows(chart, "point")
    assert (beyond["time"], beyond["kind"], beyond["round"]) == ("500 µs", "outlier", 4)
    assert chart["layer"][0]["encoding"]["x"]["scale"]["domain"][1] < 11
    assert len(rows(chart, "tick")) == 3


def test_samples_of_further_processes_are_drawn_too():
    found = result({"auto": strategy(10e-6, samples_s=[1e-5], again_s=[[[9e-6, 11e-6], [8e-6]]])})
    assert [round(row["x"], 6) for row in rows(times_chart(found), "tick")] == [
        10.0,
        9.0,
        11.0,
        8.0,
    ]


def test_strategies_far_apart_get_a_logarithmic_axis_and_no_bars():
    chart = times_chart(result({"single": strategy(10e-6), "auto": strategy(1e-3)}))
    x = chart["layer"][0]["encoding"]["x"]
    assert x["scale"]["type"] == "log"
    assert x["title"][0].endswith("logarithmic")
    assert rows(chart, "bar") == []


def test_a_wrong_answer_is_marked_in_words():
    chart = times_chart(result({"auto": strategy(10e-6, correct=False)}))
    assert rows(chart, "bar")[0]["row"] == "Automatic ✗ wrong values"


def test_what_runs_from_unsharded_operands_does_not_stretch_the_axis():
    again = {"samples_s": [9e-5, 1e-4], "median_s": 9.5e-5}
    chart = times_chart(result({"constrained": strategy(2e-5, from_unsharded=again)}))
    assert [row["row"] for row in rows(chart, "bar")] == ["Constrained"]


def test_what_was_not_measured_is_left_out_and_never_zero():
    found = result(
        {
            "auto": strategy(
                1e-5, phases_s={"trace": None, "lower": 0.002, "compile": 0.05, "first_run": None}
            )
        }
    )
    chart = phases_chart(found)
    assert [(row["part"], row["value"]) for row in rows(chart, "bar")] == [
        ("Lower", "2 ms"),
        ("Compile", "50 ms"),
    ]
    assert memory_chart(found) is None
    assert phases_chart(result({"auto": strategy(1e-5)})) is None
    assert (
        times_chart(result({"auto": {"status": "error", "error": {"kind": "X", "message": "no"}}}))
        is None
    )


def test_memory_is_stacked_in_bytes_that_read_well():
    chart = memory_chart(
        result(
            {
                "auto": strategy(
                    1e-5, memory_bytes={"argument": 3 * 2**20, "output": 2**20, "temp": None}
                )
            }
        )
    )
    assert [(row["part"], row["x"]) for row in rows(chart, "bar")] == [
        ("Arguments", 3.0),
        ("Results", 1.0),
    ]
    assert chart["layer"][0]["encoding"]["x"]["title"] == "memory per device (MiB)"


def test_provisional_medians_and_two_runs_side_by_side():
    live = live_chart({"auto": 2e-3}, result({"auto": strategy(1e-3)}).experiment)
    assert [(row["row"], row["time"]) for row in rows(live, "bar")] == [("Automatic", "2 ms")]
    sharded = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}}
    sharded |= {"dims": {"batch": 8, "in": 8, "out": 8}, "strategies": ["single", "auto"]}
    study = parse_experiment(
        {
            "study": [
                {"name": dim, "experiment": sharded | {"sharding": {dim: "x"}}}
                for dim in ("batch", "in")
            ]
        }
    )
    seconds = {"batch/single": 3e-3, "batch/auto": 2e-3, "in/auto": 1e-3}
    drawn = rows(live_chart(seconds, study), "bar")
    assert [row["row"] for row in drawn] == ["Single device", "batch", "in"], "as in its result"
    one, other = result({"auto": strategy(1e-3)}), result({"auto": strategy(2e-3)})
    both = side_by_side_chart([("A", one), ("B", other)])
    assert [(row["run"], row["x"]) for row in rows(both, "bar")] == [("A", 1.0), ("B", 2.0)]
    longer = side_by_side_chart([("A", one), ("weights over x", other)])
    ends = [chart["layer"][0]["encoding"]["x"]["scale"]["domainMax"] for chart in (both, longer)]
    assert 2.0 < ends[0] < ends[1], "a label has its room"
    more = result({"auto": strategy(1e-3), "single": strategy(3e-3)})
    apart = side_by_side_chart([("A", more), ("B", other)])
    assert "yOffset" in both["layer"][0]["encoding"]
    assert "yOffset" not in apart["layer"][0]["encoding"], "a label beside each bar"
    titles = ("A · Automatic", "A · Single device", "B · Automatic")
    assert tuple(row["row"] for row in rows(apart, "bar")) == titles
    assert [row["label"] for row in rows(apart, "text")] == ["1 ms", "3 ms", "2 ms"]


def test_a_line_far_beyond_the_times_ends_with_an_arrow_and_is_named_by_its_kind():
    one = result({"auto": strategy(1e-3, ci95_s=(4e-5, 2e-2))})
    other = result({"auto": strategy(2e-3)}, run="b")
    wide = side_by_side_chart([("A", one), ("B", other)])
    drawn = {row["run"]: row for row in rows(wide, "text")}
    assert drawn["A"]["high"] == 5.0 and drawn["A"]["label"] == "▸ A 1 ms"
    assert drawn["B"]["label"] == "B 2 ms"

    def named(*results):
        chart = side_by_side_chart([*zip("AB", results, strict=True)])
        return chart["layer"][0]["encoding"]["x"]["title"][1]

    time = {"low": 1e-3, "estimate": 2e-3, "high": 3e-3}
    guess = result({"auto": {"status": "ok", "predicted_s": time}})
    assert named(one, other) == "line: its 95% interval"
    assert named(guess, guess) == "line: its 80% range"
    assert named(one, guess) == "line: 95% interval of a measured time, 80% range else"


def test_ratios_to_a_baseline_stand_around_one_with_their_ends_in_the_colors_of_their_runs():
    ratios = {"B": (1.35, 0.41, 4.45), "C": (0.5, 1e-6, 1e6)}
    chart = ratios_chart(ratios, "A", ["A", "B", "C"], "99% interval")
    (even,), drawn = rows(chart, "rule")[:1], rows(chart, "point")
    assert even["x"] == 1.0
    assert [(row["row"], row["x"]) for row in drawn] == [("B", 1.35), ("C", 0.5)]
    x, color = (chart["layer"][1]["encoding"][name] for name in ("x", "color"))
    low, high = x["scale"]["domain"]
    assert all(low <= row["low"] < row["x"] < row["high"] <= high for row in drawn)
    assert "as long as A" in x["title"] and color["scale"]["domain"] == ["A", "B", "C"]
    assert drawn[0]["label"] == "0.41 to 4.45 times as long"


def test_times_side_by_side_that_differ_much_are_points_on_a_log_scale():
    one, other = result({"auto": strategy(1e-5)}), result({"auto": strategy(1e-2)})
    far, near = (side_by_side_chart([("A", one), ("B", each)]) for each in (other, one))
    assert far["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert (far["layer"][0]["mark"]["type"], near["layer"][0]["mark"]["type"]) == ("point", "bar")


def test_one_slow_call_that_no_rule_flags_leaves_the_others_their_room():
    samples = [10e-6, 10e-6, 10e-6, 500e-6]
    chart = times_chart(result({"auto": strategy(10e-6, samples_s=samples, outliers=[])}))
    assert chart["layer"][0]["encoding"]["x"]["scale"]["domain"][1] < 20
    beyond, *_ = rows(chart, "point")
    assert (beyond["time"], beyond["kind"]) == ("500 µs", "sample")
    assert "500 µs" in [row.get("label") for row in rows(chart, "text")]
    twice = times_chart(result({"auto": strategy(10e-6, samples_s=[*samples, 400e-6])}))
    assert "2 samples up to 500 µs" in [row.get("label") for row in rows(twice, "text")]
    below = [each["mark"].get("yOffset", 0) for each in twice["layer"]]
    assert max(below) >= 17 + 8 / 2 + 11 / 2, "the label is below the ticks"
    many = [10e-6] * 900 + [500e-6] * 90  # of which a tick stands for several
    thinned = times_chart(result({"auto": strategy(10e-6, samples_s=many)}))
    assert "90 samples up to 500 µs" in [row.get("label") for row in rows(thinned, "text")]
    wide = strategy(10e-6, ci95_s=(9e-6, 14e-6), samples_s=samples, outliers=[])
    domain = times_chart(result({"auto": wide}))["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert 14 < domain[1] < 20  # the interval is in sight


def test_a_sweep_names_each_line_at_its_end_that_of_another_run_too():
    sizes = (1024, 2**20, 2**24)
    points = [
        Point(
            kind="all-reduce",
            axes=("x",),
            devices=8,
            dtype="float32",
            bytes=n,
            time_s=n / 1e9,
            predicted_s=n / 2e9,
        )
        for n in sizes
    ]
    spec = bandwidth.sweep_chart(points, points, bandwidth.BUS, "v5e:2x4")
    labels = [
        row["label"]
        for layer in spec["layer"]
        for row in layer["data"]["values"]
        if layer["mark"]["type"] == "text" and row.get("line")
    ]
    assert sorted(each.split(", ")[1].split()[0] for each in labels) == [
        "measured",
        "predicted",
        "v5e:2x4",
    ]


def test_thousands_of_samples_are_few_faint_ticks_with_the_first_and_the_last():
    times = [1e-3 * (1 + each / 1e5) for each in range(4_000)]
    of_many = strategy(1.02e-3) | {"samples_s": times}
    chart = times_chart(result({"auto": of_many, "single": strategy(1.1e-3)}))
    ticks = next(each for each in chart["layer"] if each["mark"].get("type") == "tick")
    rows = {name: [] for name in ("Automatic", "Single device")}
    for each in ticks["data"]["values"]:
        rows[each["row"]].append(each)
    many, few = rows.values()
    assert len(many) <= 200 and len(few) == len(strategy(1.1e-3)["samples_s"])
    ends = [each["x"] for each in many]
    assert (min(ends), max(ends)) == pytest.approx((1e3 * times[0], 1e3 * times[-1]))
    assert sum(each["ink"] for each in many) < 25 and many[0]["ink"] < few[0]["ink"]


def test_a_part_that_the_eye_sees_in_one_bar_alone_is_in_the_legend():
    bars = {
        "64": {"matmul": 0.99, "exposed over data": 0.007, "copies": 0.003},
        "256": {"matmul": 1.0},
    }
    legend = shares.parts_chart(bars)["layer"][0]["encoding"]["color"]["legend"]
    assert sorted(legend["values"]) == ["exposed over data", "matmul"]


def test_each_piece_of_the_bar_of_one_step_is_in_the_legend():
    seconds = {"matmul": 0.9, "memory": 0.0982, "exposed": 0.0018}
    of = {"predicted_s": Estimate(low=1, estimate=1, high=1), "shares_s": seconds}
    (bars, *_) = shares.shares_chart({"auto": prediction().model_copy(update=of)})["layer"]
    drawn = {row["part"] for row in bars["data"]["values"]}
    assert len(drawn) == 3 and drawn == {*bars["encoding"]["color"]["legend"]["values"]}
