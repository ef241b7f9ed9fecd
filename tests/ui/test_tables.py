from dataclasses import replace

import pytest

from bench.values import result, strategy
from spmd_core.answers import NONE, samples_table
from spmd_core.results import RunSummary
from spmd_core.words import runs
from ui import hardware, run_tables, tables
from ui.compare.view import collectives_table, program_lines, summed

ALL_REDUCE = {
    "kind": "all-reduce",
    "axes": ["x"],
    "bytes": 16,
    "count": 1,
    "source": "layer_auto.py:2",
    "reason": "the parts are added over x",
}


def row(frame, number):
    return {
        name: value.replace("\u00a0", " ") if isinstance(value, str) else value
        for name, value in frame.iloc[number].items()
    }


def test_collectives_name_axes_bytes_and_the_line_that_is_shown():
    uncounted = ALL_REDUCE | {"count": None, "source": None}
    found = result(
        {
            "single": strategy(1e-5, collectives=[]),
            "auto": strategy(1e-5, collectives=[ALL_REDUCE, uncounted]),
        }
    )
    frame = collectives_table(found)
    second_line = program_lines(found.experiment, "auto")[1].strip()
    assert row(frame, 0)["Collective, bytes per device"] == "no communication"
    assert row(frame, 1)["Collective, bytes per device"] == "all-reduce over x, 16 B"
    assert row(frame, 1)["Why, and where"] == f"the parts are added over x. Line 2: `{second_line}`"
    assert row(frame, 2)["Collective, bytes per device"] == "all-reduce over x, 16 B, count unknown"


def test_strategies_that_communicate_alike_share_a_row():
    later = ALL_REDUCE | {"source": "layer_explicit.py:4"}
    by_hand = ALL_REDUCE | {"source": "layer_shard_map.py:9", "reason": "the program adds them"}
    found = result(
        {
            "auto": strategy(1e-5, collectives=[ALL_REDUCE]),
            "explicit": strategy(1e-5, collectives=[later]),
            "shard_map": strategy(1e-5, collectives=[by_hand, by_hand]),
        }
    )
    frame = collectives_table(found)
    assert frame["Strategy"].tolist() == ["Automatic, Explicit", "shard_map"]
    assert row(frame, 0)["Why, and where"].startswith(
        "the parts are added over x. Line 2 (Automatic)"
    )
    assert row(frame, 0)["Why, and where"].count("the parts are added") == 1
    assert row(frame, 1)["Collective, bytes per device"] == "all-reduce over x, 16 B × 2"
    assert row(frame, 1)["Why, and where"].startswith("the program adds them. Line 9: ")


def test_a_count_that_is_unknown_is_not_added_up():
    found = result(
        {
            "auto": strategy(
                1e-5,
                collectives=[ALL_REDUCE, ALL_REDUCE | {"count": None}, ALL_REDUCE | {"count": 3}],
            )
        }
    )
    assert [item.count for item in summed(found.strategies["auto"].collectives or ())] == [4, None]


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
    assert frame["B"].tolist() == ["64", NONE]
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
