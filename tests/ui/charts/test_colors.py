"""A row has one color wherever it is drawn."""

from bench.values import result, strategy
from spmd_core.experiment import parse_experiment
from spmd_lab.ui.charts import colors
from spmd_lab.ui.charts.by_strategy import live_chart
from spmd_lab.ui.charts.times import times_chart


def position(domain: list[str], name: str) -> int:
    return domain.index(name) % colors.COUNT


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
