"""The charts of the Predict screen: their schema, and what they draw."""

import re
from itertools import combinations

import altair
import pytest

from spmd_core.base import bytes_text
from spmd_core.facts import Estimate, PredictedMemory
from spmd_core.machine import get_topology
from spmd_core.sweeps import TrainingQuestion, train
from spmd_core.time import estimate_step
from spmd_core.words import parts
from spmd_core.words.predictions import by_words, memory_parts, share_words
from spmd_core.workloads import parse_plan
from spmd_lab.ui import shell
from spmd_lab.ui.charts import shares, torus_chart
from spmd_lab.ui.predict import charts, run_answer
from tests.ui.predictions import TOO_LARGE, prediction

FOUND = prediction()
TIME = FOUND.predicted_s or Estimate(low=0, estimate=0, high=0)
CHARTS = {
    "interval": lambda: charts.interval_chart({"time": TIME}, 0.02),
    "strategies": lambda: charts.interval_chart({"Automatic": TIME, "shard_map": TIME}),
    "shares": lambda: shares.shares_chart({"time": FOUND}),
    "shares of two": lambda: shares.shares_chart({"A": FOUND, "B": FOUND}),
    "memory": lambda: charts.memory_chart({"peak": FOUND.memory_bytes}),
    "too much memory": lambda: charts.memory_chart({"peak": TOO_LARGE.memory_bytes}),
    "torus": lambda: torus("v5e:16x16", [("fsdp", 16), ("tensor", 16)], "fsdp"),
    "cube": lambda: torus("v5p:4x4x8", [("data", 8), ("fsdp", 16)], "data"),
    "two devices to a chip": lambda: torus("tpu7x:2x2x2", [("x", 16)], "x"),
    "one chip": lambda: torus("v5e:1x1", [("x", 1)], "x"),
}


def torus(name, mesh, axis, order="topology"):
    return torus_chart.torus_chart(get_topology(f"tpu:{name}"), mesh, axis, order, 330)


@pytest.mark.parametrize("name", CHARTS)
def test_the_chart_keeps_the_schema_of_vega_lite(name):
    altair.Root.validate(CHARTS[name]())


def rows(spec, layer):
    return spec["layer"][layer]["data"]["values"]


def test_every_chip_is_drawn_in_the_colour_of_its_place():
    chips = rows(torus("v5e:4x4", [("data", 4), ("fsdp", 4)], "fsdp"), 1)
    assert len(chips) == 16
    at = {chip["chip"]: chip["at"] for chip in chips}
    assert [at[f"({x}, 2)"] for x in range(4)] == [0, 1, 2, 3]  # fsdp lies along x


def test_links_that_wrap_around_are_marked():
    def kinds(name, mesh):
        return sorted({link["kind"] for link in rows(torus(name, mesh, "x"), 0)})

    assert kinds("v5e:16x16", [("x", 256)]) == ["link", "wraps around"]
    assert kinds("v5e:4x4", [("x", 16)]) == ["link"]


def test_the_line_joins_one_group_in_its_order():
    spec = torus("v5e:4x4", [("fsdp", 16)], "fsdp", "plain")
    path = rows(spec, 2)
    assert [(point["x"], point["y"]) for point in path[:5]] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
        (2, 0),
    ]


def test_a_large_cube_is_cut_off_and_says_so():
    topology = get_topology("tpu:v5p:16x20x28")
    chart = torus("v5p:16x20x28", [("fsdp", 8960)], "fsdp")
    assert len(rows(chart, 1)) == 3 * 320
    assert "the first 3 of 28 layers along z" in torus_chart.caption(topology).lower()
    flat = torus_chart.caption(get_topology("tpu:v5p:2x2x1"))
    assert "1 layer along z." in flat and "each linked" not in flat


def test_parts_are_named_for_readers():
    assert share_words("wait: all-gather") == "exposed all-gather"
    assert share_words("matmul") == "matrix products"


def test_a_memory_bar_has_each_part_and_what_is_free():
    plan = parse_plan({"model": "llama-3.1-8b", "target": "tpu:v5e:16x16", "mesh": {"fsdp": 256}, "batch_per_device": 2, "sequence": 8192})  # fmt: skip
    step = estimate_step(plan)
    parts, capacity = memory_parts(step), step.memory_bytes.capacity
    assert sum(parts.values()) == pytest.approx(step.memory_bytes.peak, rel=1e-6)
    text = re.sub("<[^>]*>", "|", shares.memory_bar(parts, capacity))
    for name, size in {**parts, "free": capacity - sum(parts.values())}.items():
        assert f"|{name} |{bytes_text(size)}|" in text, (name, text)  # one thin part keeps its name
    assert "saved activations" in text and "kept by" not in text
    full = shares.memory_bar({"parameters": 3 * 2.0**30, "gradients": 1.0}, 2**30)
    assert "free" not in full and "other" not in full, "a part of no width has no name"
    assert "300% of 1.0 GiB" in full


@pytest.mark.parametrize(
    ("argument", "peak", "parts"),
    [
        (7, 10, {"arguments": 7, "temporaries": 3}),
        (10, 10, {}),  # one part is no split
        (None, 10, {}),
        (0, 10, {}),
        (11, 10, {}),  # arguments that are freed before the peak
        (7, None, {}),
    ],
)
def test_the_memory_of_a_compiled_step_is_its_arguments_and_temporaries(argument, peak, parts):
    held = PredictedMemory(argument=argument, peak=peak, capacity=16)
    plan = parse_plan({"model": "llama-3.1-8b", "target": "tpu:v5e:16x16", "mesh": {"fsdp": 256}, "batch_per_device": 2})  # fmt: skip
    changes = {"compiled": True, "memory_bytes": held, "before_compiling": {}}
    assert memory_parts(estimate_step(plan).model_copy(update=changes)) == parts


@pytest.mark.parametrize(
    ("batch", "sequence", "doubt"),
    [(2, 8192, "gauge"), (3, 8704, "gauge unsure"), (8, 8192, "gauge over")],
)
def test_the_gauge_of_memory_has_the_verdict_s_color(batch, sequence, doubt, monkeypatch):
    plan = parse_plan({"model": "llama-3.1-8b", "target": "tpu:v5e:16x16", "mesh": {"fsdp": 256}, "batch_per_device": batch, "sequence": sequence})  # fmt: skip
    shown = []
    monkeypatch.setattr(shell.st, "html", shown.append)
    shell.draw_figures([run_answer.held_figure(estimate_step(plan))])
    assert f'<i class="{doubt}">' in shown[0]


def test_a_training_answer_is_bars_without_prices_and_a_front_with_them():
    form = {"model": "llama-3.1-8b", "sequence": 8192}
    kinds = ("v5e", "v5p", "h100")
    plain = train(TrainingQuestion(form, 1e12, 512, kinds, days=30))
    bars, spans, labels, deadline = charts.training_chart(plain)["layer"]
    shown = {row["row"]: row for row in bars["data"]["values"]}
    best = plain.ordered[0]
    assert {*shown} == {"v5e", "v5p", "H100"} and next(iter(shown)).lower() == best.kind
    for row in plain.rows:
        name = "H100" if row.kind == "h100" else row.kind
        assert shown[name]["days"] == row.run.days.estimate
        assert (shown[name]["low"], shown[name]["high"]) == (row.run.days.low, row.run.days.high)
        assert (shown[name]["mark"] == "best") is (row is plain.best)
    assert deadline["data"]["values"][0]["days"] == 30 and labels["mark"]["type"] == "text"
    assert spans["encoding"]["x"]["field"] == "low" and spans["encoding"]["x2"]["field"] == "high"
    assert spans["encoding"]["x"]["scale"] == bars["encoding"]["x"]["scale"]
    field = labels["encoding"]["x"]["field"]
    assert all(row[field] >= max(30, row["high"]) for row in shown.values()), "over the deadline"
    price = (("v5e", 1.2), ("v5p", 4.2), ("h100", 3.0))
    priced = train(TrainingQuestion(form, 1e12, 512, kinds, days=30, price=price))
    front, spans, dots, _ = charts.training_chart(priced)["layer"]
    assert spans["encoding"]["y2"]["field"] == "high"
    assert {row["dollars"] for row in dots["data"]["values"]} == {
        row.run.money for row in priced.rows
    }
    assert {row["row"].lower() for row in front["data"]["values"]} == {*priced.front}


def test_a_chart_of_prices_has_every_chip_that_its_headline_names():
    form = {"model": "llama-3.1-8b", "sequence": 8192}
    kinds, price = ("v5e", "v5p", "h100"), {"v5e": 1.2, "v5p": 4.2, "h100": 3.0}
    for unpriced in kinds:
        some = tuple((kind, each) for kind, each in price.items() if kind != unpriced)
        answer = train(TrainingQuestion(form, 1e12, 512, kinds, days=30, price=some))
        drawn = charts.training_chart(answer)["layer"][0]["mark"]["type"]
        named = {answer.best.kind, *(row.kind for row in answer.even)}
        assert (drawn == "bar") is (unpriced in named)


@pytest.mark.parametrize(("budget", "scale"), [(1e6, "log"), (None, None)])
def test_a_trade_is_drawn_as_days_against_dollars(budget, scale):
    form, price = {"model": "llama-3.1-8b", "sequence": 8192}, (("v5e", 1.2),)
    days = None if budget else 6.0
    asked = TrainingQuestion(form, 1e12, 512, ("v5e",), days=days, budget=budget, price=price)
    answer = train(asked)
    spans = charts.trade_chart(answer)["layer"][1]
    assert spans["encoding"]["y"]["scale"].get("type") == scale
    shown = [(row["dollars"], row["days"], row["mark"]) for row in spans["data"]["values"]]
    assert shown == [
        (row.run.money, row.run.days.estimate, "best" if row is answer.best else "on the front")
        for row in answer.trade
    ]
    assert len(shown) > 1


def test_each_part_of_the_time_is_named_as_in_the_terminal():
    (bars, _) = shares.shares_chart({"time": FOUND})["layer"]
    rows = bars["data"]["values"]
    assert {row["part"] for row in rows} == {*parts(FOUND)}
    assert {*bars["encoding"]["color"]["scale"]["domain"]} == {*parts(FOUND)}
    assert len({*bars["encoding"]["color"]["scale"]["range"]}) == len(parts(FOUND))
    assert [row["x2"] for row in rows][:-1] == [row["x"] for row in rows][1:]


@pytest.mark.parametrize(
    ("thin", "named"),
    [
        ({"exposed: data": 0.001}, ["exposed over data 0.1%"]),
        (
            {"exposed: data": 0.003, "exposed: tensor": 0.002, "copy": 0.001, "loop": 0.002},
            ["other exposed 0.5%", "other 0.3%"],
        ),
    ],
)
def test_exposed_communication_is_never_part_of_other(thin, named):
    whole = {"matmul": 0.9 - sum(thin.values()), "exposed: fsdp": 0.1}
    bar = shares.split_bar(by_words(whole | thin)).replace("</li>", "\n")
    drawn = [line for line in re.sub("<[^>]+>", "", bar).splitlines() if line]
    assert drawn[2:] == named
    reds = [tuple(bytes.fromhex(c)) for c in re.findall(r'<i style="background:#(\w{6})">', bar)]
    exposed = [red for red, line in zip(reds, drawn, strict=True) if "exposed" in line]
    assert all(red > green > blue and red > 180 for red, green, blue in exposed), "shades of orange"
    assert sum(float(line.split()[-1].rstrip("%")) for line in drawn) == pytest.approx(100)


def test_names_of_crowded_prices_overlap_none_on_their_side():
    spots = [
        (82e3, 1.13),
        (149e3, 1.12),
        (166e3, 1.13),
        (205e3, 0.35),
        (253e3, 2.15),
        (373e3, 0.45),
    ]
    rows = [{"dollars": dollars, "days": days} for dollars, days in spots]
    lanes = charts._two_lanes(rows, 430e3, 2.8)
    assert sum(map(len, lanes)) == len(rows)
    for lane in lanes:
        for one, other in combinations(lane, 2):
            near = abs(one["days"] - other["days"]) < 2.8 / 15
            assert not near or abs(one["dollars"] - other["dollars"]) > 430e3 / 6
