"""Sheets of strategies, by value."""

from bench.values import comparison, result, strategy
from spmd_core.answers import strategies_table
from spmd_core.answers.measuring import hosts_table, measuring_table
from spmd_core.experiment import step_experiment
from spmd_core.history import shape_words
from spmd_core.plan import ServedPlan
from spmd_core.terms import experiment_words
from tests.answers import records


def times(found, place="screen"):
    return records(strategies_table(found, place))


def test_times_against_the_fastest():
    found = result(
        {
            "single": strategy(10e-6),
            "auto": strategy(25e-6, correct=False),
            "shard_map": strategy(20e-6),
        },
        comparison=comparison("single", ("shard_map", 2.0, True)),
    )
    frame = times(found)
    assert frame[0]["Paired ratio (99%)"] == "fastest"
    assert frame[2] == {
        "Strategy": "Automatic",
        "Time": "25 µs",
        "95% interval": "24.5 to 25.5 µs",
        "Paired ratio (99%)": "–",
        "Values": "✗ wrong",
    }
    assert frame[1]["Paired ratio (99%)"] == "2.00× (1.80 to 2.20)"


def test_each_ratio_is_given_with_its_verdict():
    compared = comparison(
        "single", ("auto", 34.0, False), ("explicit", 1.05, False), ("shard_map", 1.005, False)
    )
    compared["ratios"][2]["interval"] = [1.002, 1.008]  # sure, and smaller than luck
    medians = {"single": 10e-6, "auto": 340e-6, "explicit": 10.5e-6, "shard_map": 10.05e-6}
    each = {name: strategy(median) for name, median in medians.items()}
    frame = times(result(each, comparison=compared))
    assert [frame[number]["Paired ratio (99%)"] for number in range(4)] == [
        "lowest median",
        "1.00× (1.00 to 1.01), the same",
        "1.05× (0.95 to 1.16), cannot tell",
        "34.0× (30.6 to 37.4), cannot tell",
    ]


def test_a_transfer_has_its_rate_in_a_column():
    frame = times(result({"single": strategy(1e-3, bytes_per_s=2.5e9), "auto": strategy(1e-3)}))
    assert [frame[number]["GB/s"] for number in range(2)] == ["2.5", "–"]
    assert "GB/s" not in times(result({"auto": strategy(1e-3)}))[0]


def test_a_prediction_stands_beside_the_measurement_with_its_error():
    predicted = {"predicted_s": {"low": 15e-6, "estimate": 20e-6, "high": 30e-6}}
    frame = times(
        result(
            {
                "auto": strategy(25e-6, **predicted),
                "shard_map": strategy(10e-6, **predicted),
                "single": strategy(10e-6),
            }
        )
    )
    assert [frame[number]["Predicted"] for number in range(3)] == [
        "20 µs, 20% faster than measured",
        "20 µs, 100% slower than measured",
        "–",
    ]
    unmeasured = strategy(1e-6, **predicted) | {"median_s": None}
    assert times(result({"auto": unmeasured}))[0]["Time"] == "20 µs, predicted"
    assert "Predicted" not in times(result({"auto": strategy(25e-6)}))[0]


def test_how_it_was_measured_keeps_outliers_in_count():
    frame = records(measuring_table(result({"auto": strategy(10e-6, outliers=[4])})))
    assert frame[0] == {
        "Strategy": "Automatic",
        "Samples": "5",
        "Calls per sample": "40",
        "Outliers, kept": "1",
        "Spread (inter-quartile range)": "200 ns (2%)",
    }


def test_each_host_of_several_has_its_own_time():
    hosts = [
        {"host": host, "process": process, "devices": 4, "median_s": seconds}
        for process, (host, seconds) in enumerate([("a", 1e-5), ("b", 3e-5)])
    ]
    several, one = strategy(3e-5, hosts=hosts), strategy(1e-5, hosts=hosts[:1])
    frame = records(hosts_table(result({"auto": several, "single": one})))
    assert [(each["Host"], each["Process"]) for each in frame] == [("a", "0"), ("b", "1")]
    assert frame[1]["Its median per call"] == "30.0 µs"
    assert not hosts_table(result({"single": one})).rows


def test_a_program_of_a_serving_step_is_named_so_and_has_no_rate_that_an_engine_would_have():
    plan = ServedPlan(model="qwen3-8b", target="tpu:v6e:2x2", mesh=(("tensor", 4),))
    step = step_experiment(plan, 64, 2048)
    prediction = {
        "fits": True,
        "memory_bytes": {"peak": 3, "capacity": 9, "code": 0},
        "predicted_s": {"low": 1e-3, "estimate": 2e-3, "high": 3e-3},
        "tokens_per_s_per_chip": 858.0,
    }
    each = {"status": "ok", "prediction": prediction}
    assert experiment_words(step).startswith("XLA's program of a serving step")
    assert "replicated" not in experiment_words(step) + str(shape_words(step)), "by its plan"
    (row,) = times(result({"auto": each}, experiment=step))
    assert "Tokens/s per chip" not in row
