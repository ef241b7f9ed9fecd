from dataclasses import replace

import pytest

from bench.values import result, strategy
from spmd_core.answers import samples_table
from spmd_core.runs import RunSummary
from spmd_core.words import runs
from spmd_lab.ui import hardware, run_tables, tables


def row(frame, number):
    return {
        name: value.replace("\u00a0", " ") if isinstance(value, str) else value
        for name, value in frame.iloc[number].items()
    }


def test_notes_that_differ_in_a_percentage_alone_are_one():
    said = [
        ("auto", "noisy: spreads over 14% of it"),
        ("single", "dispatch bound"),
        ("explicit", "noisy: spreads over 22% of it"),
        ("shard_map", "noisy: spreads over 19% of it"),
        ("auto", "dispatch bound"),
    ]
    assert runs.merged_notes(said) == {
        "noisy: spreads over 14% to 22% of it": ["auto", "explicit", "shard_map"],
        "dispatch bound": ["single", "auto"],
    }
    assert runs.merged_notes([("auto", "off by 3% of 9%")]) == {"off by 3% of 9%": ["auto"]}


def test_samples_are_in_microseconds_and_rounds_count_from_one():
    found = result({"auto": strategy(10e-6), "single": strategy(5e-6)})
    frame = tables.samples_frame(samples_table(found))
    assert list(frame.columns) == ["Automatic", "Single device"]
    assert frame["Automatic"].tolist() == [9.8, 9.9, 10.0, 10.1, 10.2]
    assert frame.index.tolist() == [1, 2, 3, 4, 5]


def test_arrays_say_where_they_lie():
    shards = [{"device": 0, "index": [[0, 4]]}, {"device": 1, "index": [[4, 8]]}]
    array = {"shape": [32], "dtype": "float32", "spec": ["x"], "memory": "device", "shards": shards}
    frame = tables.arrays_table(result({"auto": strategy(1e-5, operands={"x": array})}), "auto")
    assert row(frame, 0)["Shard shape"] == "4"
    assert row(frame, 0)["Spec"].replace("\\", "") == "P('x')"


def test_what_differs_between_experiments_is_in_words():
    one = result({"auto": strategy(1e-5)}).experiment
    other = one.vary(dims={"in": 64, "out": 4}, sharding={})
    frame = run_tables.differences_table([one, other, one])
    assert frame[""].str.replace("\\", "").tolist() == ["size of in", "in sharded over"]
    assert frame["A"].tolist() == ["32", "x"] == frame["C"].tolist()
    assert frame["B"].tolist() == ["64", "none"]
    assert len(run_tables.differences_table([one, one])) == 0


def test_devices_leave_out_columns_that_none_fills():
    frame = hardware.devices_table(result({"auto": strategy(1e-5)}).environment)
    assert list(frame.columns) == ["Device", "Process", "Memory kinds"]
    assert len(frame) == 8


def test_a_run_in_the_history_has_its_median_or_what_was_predicted():
    experiment = result({name: strategy(1e-5) for name in ("auto", "shard_map")}).experiment
    predicted = {"auto": 0.25, "shard_map": 0.2}
    runs = [
        RunSummary("m", "succeeded", experiment, 0.0, 1.0, {"auto": 2e-5}, "auto", False, None),
        RunSummary(
            "p",
            "succeeded",
            experiment,
            0.0,
            1.0,
            {"auto": None, "shard_map": None},
            None,
            False,
            None,
            predicted,
        ),
        RunSummary("n", "failed", experiment, 0.0, 1.0, {}, None, False, None),
    ]
    frame = run_tables.runs_table(runs)
    large = replace(runs[1], experiment=experiment.vary(target="tpu:v5e:2x4"), predicted_s={})
    outcomes = run_tables.runs_table([large, replace(runs[0], medians_s={}, partial=True)])[
        "Outcome"
    ]
    assert outcomes.tolist() == ["Does not fit", "Succeeded, partial"]
    assert frame["When"].dt.tz is not None and frame["When"].is_monotonic_increasing
    assert frame["Time"].tolist()[:2] == pytest.approx([2e-5, 0.2])
    assert frame["Time"].isna().tolist() == [False, False, True]
    assert frame["Outcome"].tolist() == ["Measured", "Predicted", "Failed"]
    assert frame["Time of"].tolist() == ["Automatic", "shard_map", "–"]
    alone = replace(runs[0], experiment=experiment.vary(strategies=["auto"]))
    assert run_tables.runs_table([alone])["Time of"].tolist() == ["–"]  # none to choose from
