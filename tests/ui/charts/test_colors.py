"""A row has one color and marker wherever it is drawn, and is told from every other."""

import re
from html import unescape

import pytest

from bench.values import result, strategy
from spmd_core.experiment import parse_experiment
from spmd_core.terms import COLORS, MARKERS, in_quotes, marker, spoken, title
from spmd_core.words import KINDS
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui.charts import colors
from spmd_lab.ui.charts.by_strategy import live_chart
from spmd_lab.ui.charts.shares import memory_bar, split_bar
from spmd_lab.ui.charts.times import times_chart


def position(domain: list[str], name: str) -> int:
    return domain.index(name) % COLORS


def test_a_strategy_has_its_color_live_and_in_results_whatever_else_ran_and_won():
    one = result({"single": strategy(1e-3), "auto": strategy(2e-3)})
    other = result({"shard_map": strategy(1e-3), "auto": strategy(5e-4)})
    charts = [times_chart(one), times_chart(other), live_chart({"auto": 1.0}, one.experiment)]
    domains = [each["layer"][0]["encoding"]["color"]["scale"]["domain"] for each in charts if each]
    assert len({position(each, "Automatic") for each in domains}) == 1 and len(domains) == 3
    assert colors.css(one.experiment, "auto") == colors.css(other.experiment, "auto")
    assert colors.css(one.experiment, "auto") != colors.css(one.experiment, "single")


def test_a_label_beside_its_title_has_its_color():
    experiment = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}})
    wrong = "shard_map ✗ wrong values"
    domain = colors.domain(experiment, {wrong: "shard_map", "Automatic": "Automatic"})
    assert position(domain, wrong) == position(domain, "shard_map")
    assert len(domain) == len(set(domain))


def study(names: list[str], strategies: list[str]):
    """A study of as many variants, whose meshes differ."""
    layer = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "strategies": strategies}
    return parse_experiment(
        {
            "study": [
                {"name": name, "experiment": layer | {"options": {"device_order": "plain"}}}
                if at % 2
                else {"name": name, "experiment": layer}
                for at, name in enumerate(names)
            ]
        }
    )


@pytest.mark.parametrize("variants", [2, 6, 7, 8, 12])
def test_a_single_device_has_its_color_and_marker_in_studies_too(variants):
    experiment = study([f"v{at}" for at in range(variants)], ["single", "auto"])
    alone = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}})
    first, *others = [row.key for row in experiment.rows_once]
    assert colors.css(experiment, first) == colors.css(alone, "single")
    assert marker(experiment, first) == marker(alone, "single")
    rows = [row.key for row in experiment.rows]
    assert len({experiment.palette_place(row) for row in rows}) == len(rows)
    domain = colors.order(experiment)
    assert len(set(domain)) == len(domain)
    for row in [first, *others]:
        assert position(domain, title(row)) == experiment.palette_place(row) % COLORS


def test_no_two_rows_have_one_color_and_marker():
    """Of the largest study, and of all strategies beside each other."""
    strategies = ["auto", "constrained", "explicit", "shard_map"]
    largest = study([f"v{at}" for at in range(24)], strategies)
    alone = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}})
    for experiment, names in (
        (largest, [row.key for row in largest.rows]),
        (alone, list(STRATEGIES)),
    ):
        pairs = {(colors.css(experiment, name), marker(experiment, name)) for name in names}
        assert len(pairs) == len(names)
    first = {marker(largest, row.key) for row in largest.rows[: len(MARKERS)]}
    assert len(first) == len(MARKERS), "of a few rows each has a marker of its own"
    assert not set(MARKERS) & set("◀▶◁▷◂▸←→<>‹›"), "reads as a direction beside an interval"
    assert len({colors.shape(largest, row.key) for row in largest.rows}) == len(MARKERS)


@pytest.mark.parametrize(
    "names",
    [
        ["batch over x, out over y", "batch over x"],
        ["a", "a, b"],
        ["is fastest", "**b** [x](y) `c`"],
        ["80", "8 · 0"],
        ["“q”", "q"],
    ],
)
def test_a_sentence_sets_each_name_apart_after_its_marker(names):
    experiment = study(names, ["auto"])
    first, second = (in_quotes(name) for name in names)
    text = f"{first} is fastest, `x` aside. Next is {second}."
    shown = colors.sentence(text, experiment)
    chips = [
        colors.marked(experiment, [f"{name}/auto"], name.replace(" ", "\xa0")) for name in names
    ]
    assert shown == (
        f":gray-background[{chips[0]}] is fastest, `x` aside\\. Next is "
        f":gray-background[{chips[1]}]\\."
    )
    assert all(
        spoken(row.key) == in_quotes(f"{row.variant} · Automatic") for row in experiment.rows
    )


def test_a_strategy_is_set_apart_where_it_is_a_row_and_a_whole_word():
    experiment = parse_experiment(
        {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "strategies": ["auto"]}
    )
    shown = colors.sentence("Automatic, not Automatically, beats Explicit.", experiment)
    assert shown.count(":gray-background[") == 1 and shown.startswith(":gray-background[")


@pytest.mark.parametrize(
    ("first", "second"),
    [("fsdp", "tensor"), ("data", "expert"), ("fsdp", "data"), ("data", "stage")],
)
def test_parts_of_one_bar_have_colors_of_their_own(first, second):
    axes = (first, second, f"{first} and {second}")
    named = dict.fromkeys(
        [*(f"exposed over {each}" for each in axes), *list(KINDS.values())[:4]], 1.0
    )
    shades = re.findall(r"<li title=.*?background:(#[0-9a-f]{6})", split_bar(named))
    assert len(set(shades)) == len(named)


@pytest.mark.parametrize("count", [1, 6, 9])
def test_a_bar_of_memory_has_each_part_and_all_of_its_bytes(count):
    sizes = {f"part {number}": float((number + 3) << 30) for number in range(count)}
    total = sum(sizes.values())
    bar = memory_bar(sizes, 2 * total)
    shares = [int(each) for each in re.findall(r"(\d+)% of ", bar)]
    assert sum(shares) == pytest.approx(100, abs=len(shares)) and len(shares) == count + 1


def test_a_part_of_memory_has_one_color_whatever_else_there_is():
    sizes = {name: float((number + 3) << 30) for number, name in enumerate(colors.HELD)}
    turned = {name: 2.0**36 / (number + 1) for number, name in enumerate(sizes)}
    few = {name: sizes[name] for name in ("gradients", "logits", "saved activations")}
    for parts in (sizes, turned, few):
        bar = unescape(memory_bar(parts, 2.0**38))
        for name, color in colors.HELD.items():
            shown = re.search(rf'background:([^"]*)"></i>{name} <b>', bar)
            assert (shown and shown[1]) == (color if name in parts else None)
    # logits, their gradient, weights, and what is kept of tokens: a color each, in training,
    # compiled and serving
    assert len({*colors.HELD.values()}) == len(colors.HELD) - 6


def test_a_bar_of_too_much_marks_where_the_device_is_full():
    bar = memory_bar({"gradients": 3 * 2.0**30, "logits": 2.0**30}, 2.0**30)
    assert '<s style="left:25.00%"></s>' in bar and "1.0 GiB per device</li>" in bar
    assert "<s" not in memory_bar({"gradients": 2.0**30}, 2.0**30).replace("<small", "")


def test_exposed_communication_has_one_color_in_whatever_order_a_mesh_has_its_axes():
    shown = [
        re.findall(r"<li title=.*?background:(#[0-9a-f]{6})", split_bar({words: 1.0}))
        for words in ("exposed over fsdp and sequence", "exposed over sequence and fsdp")
    ]
    assert shown[0] == shown[1] != []
