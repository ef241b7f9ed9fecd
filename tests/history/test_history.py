"""A search of History finds what a row shows, and nothing else."""

from dataclasses import replace
from time import time

import pytest

from bench.values import result, strategy
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Estimate
from spmd_core.history import (
    came_out,
    difference_rows,
    matches,
    operand_bytes,
    outcome,
    read_search,
    shape_words,
    text_matches,
)
from spmd_core.history.cells import answer_words, when_words
from spmd_core.results import StrategyResult
from spmd_core.runs import Labels, RunSummary
from spmd_core.words import SHARDING

ROWS = parse_experiment(
    {
        "workload": "elementwise",
        "target": "cpu:8",
        "mesh": {"x": 8},
        "dims": {"rows": 1024, "cols": 512},
        "sharding": {"rows": "x"},
    }
)
MATMUL = parse_experiment(
    {
        "workload": "matmul",
        "target": "cpu:16",
        "mesh": {"y": 16},
        "dtype": "bfloat16",
        "sharding": {"m": "y"},
    }
)
STUDY = parse_experiment(
    {
        "study": [
            {"experiment": ROWS.to_json() | {"strategies": ["auto"]}},
            {
                "experiment": ROWS.to_json()
                | {"strategies": ["auto"], "sharding": {"cols": "x"}, "dtype": "bfloat16"}
            },
        ]
    }
)
NOON = 1_767_355_200.0  # 2026-01-02, 12:00 UTC


def run(experiment, name="20260102-120000-abcdef"):
    return RunSummary(
        name, "succeeded", experiment, NOON, NOON, {"auto": 2e-5}, "auto", False, None
    )


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("x=8", ["rows", "study"]),
        ("y=16", ["matmul"]),
        ("Matrix products", ["matmul"]),
        ("matrix  PRODUCTS", ["matmul"]),
        ("rows sharded over x", ["rows", "study"]),
        ("cols sharded over x", ["study"]),
        ("bfloat16", ["matmul", "study"]),
        ("rows=1024", ["rows", "study"]),
        ("cpu:16", ["matmul"]),
        ("2026-01-02", ["rows", "matmul", "study"]),
        ("2026-01-02 13:00", ["rows", "matmul", "study"]),  # in Berlin
        ("2026-01-02 12:00", []),
        ("20 µs", ["rows", "matmul", "study"]),
        ("Measured", ["rows", "matmul", "study"]),
        ("abcdef", ["rows", "matmul", "study"]),
        ("Study of 2 variants", ["study"]),
        ('"', []),
        ("{", []),
        ("%", []),
    ],
)
def test_a_text_is_found_in_what_the_row_shows(text, fits):
    runs = {"rows": run(ROWS), "matmul": run(MATMUL), "study": run(STUDY)}
    assert [name for name, each in runs.items() if matches(text, "Europe/Berlin")(each)] == fits


def test_the_columns_of_a_study_hold_the_values_of_all_variants():
    cells = shape_words(STUDY)
    assert cells["Workload"] == "Study of 2 variants: Elementwise"
    assert cells["Dims"] == "rows=1024 cols=512"
    assert cells["dtype"] == "float32; bfloat16"
    assert cells["Sharding"] == "rows sharded over x; cols sharded over x"
    assert (cells["Mesh"], cells["Target"]) == ("x=8", "cpu:8")
    assert operand_bytes(ROWS) == 1024 * 512 * 4 == operand_bytes(STUDY)


def test_a_row_of_a_model_tells_what_was_predicted_of_it():
    spec = {"workload": "decoder", "target": "tpu:v5e:4x4", "mesh": {"fsdp": 16}}
    step = parse_experiment(spec | {"options": {"model": "scaled:1"}})
    assert shape_words(step)["Workload"] == "Training step: scaled:1"


def test_a_zone_that_is_not_known_is_that_of_the_machine():
    assert when_words(NOON, "Mars/Olympus") == when_words(NOON)
    assert when_words(NOON, "Asia/Tokyo") == "2026-01-02 21:00"


def test_a_search_is_understood_and_reports_what_it_understood():
    runs = {"rows": run(ROWS), "matmul": run(MATMUL), "study": run(STUDY)}
    fitting = matches("All-Reduce cpu:16", "Europe/Berlin", lambda _: {"all-reduce"})
    assert [name for name, each in runs.items() if fitting(each)] == ["matmul"]
    assert not matches("all-gather", None, lambda _: {"all-reduce"})(runs["rows"])
    wanted = read_search("yesterday all-reduce v5e tag:ring", "Europe/Berlin", NOON + 86_400)
    assert wanted.days == ("2026-01-02",) and wanted.kinds == ("all-reduce",)
    assert wanted.words == ("Runs with all-reduce, on 2026-01-02, tag ring, with the text “v5e”.")
    assert read_search("x=8 all-reduced").words == "Runs with the text “x=8 all-reduced”."
    assert read_search(" ").words == ""


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("slower", "slower"), ("Sharding lost", "slower"), ("v5e too small to shard", "too small")],
)
def test_a_verdict_is_searched_as_a_row_has_it(text, verdict):
    wanted = read_search(text)
    assert wanted.verdicts == (verdict,) and wanted.phrase == ("v5e" if "v5e" in text else "")
    fitting = matches(text.removeprefix("v5e "), None, lambda _: {verdict})
    assert fitting(run(ROWS)) and not matches(text, None, lambda _: {"faster"})(run(ROWS))
    assert f"with the verdict {SHARDING[verdict]}" in wanted.words


def test_a_note_may_have_the_words_of_a_verdict():
    noted = replace(run(ROWS), labels=Labels(name="faster attention"))
    assert matches("faster attention")(noted) and not matches("faster attention")(run(ROWS))


@pytest.mark.parametrize("text", ["foo:bar", "tags:v5p x=8", "all-reduce Foo:1"])
def test_what_looks_like_a_term_and_is_none_is_named(text):
    word = next(each for each in text.split() if ":" in each).partition(":")[0]
    assert f"{word}: is no term: use tag:, note:, name:, by:, is:." in read_search(text).words
    for known in ("tpu:v5e:4x4", "tag:v5p", "12:30", "cpu:8 NAME:a", "gpu:h100:8"):
        assert "no term" not in read_search(known).words


def test_a_run_without_an_answer_is_still_found():
    assert matches("failed")(replace(run(ROWS), state="failed", medians_s={}, fastest=None))


@pytest.mark.parametrize(
    ("medians", "fastest", "kind"),
    [
        ({"auto": 1.0}, "auto", "succeeded"),
        ({"auto": 1.0}, None, "cannot tell"),
        ({"single": 1.0, "auto": None}, "single", "cannot tell"),
    ],
)
def test_what_is_not_ranked_or_failed_in_part_has_not_the_color_of_success(medians, fastest, kind):
    ended = replace(run(ROWS), medians_s=medians, fastest=fastest)
    assert outcome(ended, None)[0] == kind


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("qwen3", True),
        ("2026-01-02", True),
        ("tensor=4  V6E", False),  # not side by side
        ("qwerty", False),
        ("tag:ring", False),
        ("all-reduce", False),
        ("slower", False),
    ],
)
def test_a_row_of_a_search_is_found_by_its_text_alone(text, fits):
    row = "Serve qwen3-32b on v6e:..16 · tensor=4 · 2026-01-02"
    assert text_matches(text, row, NOON, "UTC") is fits


def test_a_day_finds_what_was_kept_then():
    now = time()
    assert text_matches("today", "Serve", now) and not text_matches("yesterday", "Serve", now)


def test_of_different_workloads_a_row_is_of_two_of_them():
    rows = dict(difference_rows([ROWS, MATMUL, ROWS.vary(dims={"rows": 2048})]))
    assert rows["size of rows"] == ["1024", "none", "2048"]
    assert {"workload", "mesh", "dtype"} <= {*rows} and "size of m" not in rows
    of_one = dict(difference_rows([ROWS, ROWS.vary(sharding={})]))
    assert of_one["rows sharded over"] == ["x", "none"], "of one workload what only one has differs"


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((2e-5, 9e-5), ("known", "Single device is predicted fastest", "Automatic takes 4.5× as long")),
        ((2e-5, 2.1e-5), ("cannot tell", "Cannot tell", "which is fastest: predicted intervals overlap")),
    ],
)  # fmt: skip
def test_predicted_rows_have_the_verdict_of_their_intervals(times, verdict):
    spans = [{"low": 0.8 * each, "estimate": each, "high": 1.2 * each} for each in times]
    rows = {
        name: StrategyResult(status="ok", predicted_s=Estimate.model_validate(span))
        for name, span in zip(("single", "auto"), spans, strict=True)
    }
    facts = result({"auto": strategy(1e-5)}, experiment=ROWS).model_copy(
        update={"strategies": rows}
    )
    assert came_out(facts).judged == verdict


@pytest.mark.parametrize("is_predicted", [True, False])
def test_the_answer_of_a_row_is_called_predicted_where_it_is(is_predicted):
    times = {"predicted_s" if is_predicted else "medians_s": {"auto": 2e-3}}
    known = {"medians_s": {"auto": None}, "fastest": None if is_predicted else "auto"} | times
    run = RunSummary("r", "done", ROWS, 0.0, None, partial=False, error=None, **known)
    assert answer_words(run) == "Automatic 2 ms" + ", predicted" * is_predicted
