"""A study's result: rows of variants and strategies, as JSON and CSV by variant."""

import csv
import io

from spmd_core.commands.report import report
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.results.export import csv_text, result_json
from spmd_core.results.result import Result
from spmd_core.words.experiments import experiment_words
from spmd_core.words.names import title
from tests.ui.values import ENVIRONMENT, comparison, strategy

LAYER = {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8"}
STUDY = parse_experiment({"study": [
    {"name": "cut", "experiment": LAYER | {"sharding": {"in": "x"},
                                           "strategies": ["auto", "shard_map"]}},
    {"name": "a/b", "experiment": LAYER | {"mesh": {"y": 4}, "strategies": ["auto"]}}]})


def timed(median_s):
    turns = [[median_s * factor] for factor in (0.98, 0.99, 1.0, 1.01, 1.02, 1.03)]
    return strategy(median_s, turns_s=turns, samples_s=[each[0] for each in turns])


RESULT = Result.model_validate({
    "run": "20260101-000000-abcdef", "experiment": STUDY, "environment": ENVIRONMENT,
    "strategies": {"cut/auto": timed(3e-5), "cut/shard_map": timed(2e-5),
                   "a/b/auto": timed(1e-5)},
    "comparison": comparison("a/b/auto", ("cut/shard_map", 2.0, True), ("cut/auto", 3.0, True))})


def test_json_has_the_results_of_the_variants_and_how_all_rows_compare():
    found = result_json(RESULT)
    assert [each["name"] for each in found["variants"]] == ["cut", "a/b"]
    first, second = found["variants"]
    assert list(first["strategies"]) == ["auto", "shard_map"] and first["run"] == RESULT.run
    assert first["comparison"]["fastest"] == "shard_map"
    assert parse_experiment(second["experiment"]) == STUDY.variants[1].experiment
    assert found["comparison"]["fastest"] == "a/b/auto" and "strategies" not in found
    assert parse_experiment(first["experiment"]).id == parse_experiment(
        {"study": [{"experiment": first["experiment"]}]}).id


def test_csv_says_the_variant_with_its_own_mesh():
    rows = list(csv.DictReader(io.StringIO(csv_text(RESULT))))
    assert len(rows) == 18 and next(iter(rows[0])) == "variant"
    assert {(row["variant"], row["mesh"], row["strategy"]) for row in rows} == {
        ("cut", "x=8", "auto"), ("cut", "x=8", "shard_map"), ("a/b", "y=4", "auto")}


def test_the_answer_names_variant_and_strategy():
    lines = report(RESULT)
    assert lines[0].startswith("a/b · Automatic is fastest: 10 µs per call. "
                               "Next is cut · shard_map: 20 µs")
    assert title("a/b/auto") == "a/b · Automatic"
    assert experiment_words(STUDY).startswith("Study of 2 variants (cut; a/b): Dense layer")


def test_what_is_changed_by_variant_is_changed_in_its_own_rows():
    seen = []

    def change(alone):
        seen.append((dict(alone.experiment.mesh), list(alone.strategies)))
        return alone

    assert RESULT.by_variant(change) == RESULT
    assert seen == [({"x": 8}, ["auto", "shard_map"]), ({"y": 4}, ["auto"])]
