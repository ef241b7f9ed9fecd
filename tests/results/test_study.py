"""A study's result: rows of variants and strategies, as JSON and CSV by variant."""

import csv
import io

import pytest

from bench.values import ENVIRONMENT, comparison, strategy
from spmd_core.answers import strategies_table
from spmd_core.commands.printed.report import report
from spmd_core.experiment import parse_experiment
from spmd_core.facts import SAME_PROGRAM
from spmd_core.results import Result, csv_text, next_process, result_json, with_process
from spmd_core.results.ranking import compare_predicted, compare_rows, estimates
from spmd_core.surveys import studies
from spmd_core.terms import experiment_words, title
from spmd_core.words import run_headline, runs
from spmd_lab.ui.charts.times import times_alt
from tests.answers import records

LAYER = {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8"}
STUDY = parse_experiment(
    {
        "study": [
            {
                "name": "cut",
                "experiment": LAYER
                | {"sharding": {"in": "x"}, "strategies": ["auto", "shard_map"]},
            },
            {"name": "a/b", "experiment": LAYER | {"mesh": {"y": 4}, "strategies": ["auto"]}},
        ]
    }
)


def timed(median_s):
    turns = [[median_s * factor] for factor in (0.98, 0.99, 1.0, 1.01, 1.02, 1.03)]
    return strategy(median_s, turns_s=turns, samples_s=[each[0] for each in turns])


RESULT = Result.model_validate(
    {
        "run": "20260101-000000-abcdef",
        "experiment": STUDY,
        "environment": ENVIRONMENT,
        "strategies": {
            "cut/auto": timed(3e-5),
            "cut/shard_map": timed(2e-5),
            "a/b/auto": timed(1e-5),
        },
        "comparison": comparison("a/b/auto", ("cut/shard_map", 2.0, True), ("cut/auto", 3.0, True)),
    }
)


def test_json_has_the_results_of_the_variants_and_how_all_rows_compare():
    found = result_json(RESULT)
    assert [each["name"] for each in found["variants"]] == ["cut", "a/b"]
    first, second = found["variants"]
    assert list(first["strategies"]) == ["auto", "shard_map"] and first["run"] == RESULT.run
    assert first["comparison"]["fastest"] == "shard_map"
    assert parse_experiment(second["experiment"]) == STUDY.variants[1].experiment
    assert found["comparison"]["fastest"] == "a/b/auto" and "strategies" not in found
    assert (
        parse_experiment(first["experiment"]).id
        == parse_experiment({"study": [{"experiment": first["experiment"]}]}).id
    )


def test_csv_says_the_variant_with_its_own_mesh():
    rows = list(csv.DictReader(io.StringIO(csv_text(RESULT))))
    assert len(rows) == 18 and next(iter(rows[0])) == "variant"
    assert {(row["variant"], row["mesh"], row["strategy"]) for row in rows} == {
        ("cut", "x=8", "auto"),
        ("cut", "x=8", "shard_map"),
        ("a/b", "y=4", "auto"),
    }


def test_the_answer_names_variant_and_strategy():
    lines = report(RESULT)
    assert lines[0].startswith(
        "“a/b · Automatic” is fastest in this process: 10 µs per call. Next is “cut · shard_map”, 2.00× as "
    )
    assert title("a/b/auto") == "a/b · Automatic"
    assert experiment_words(STUDY).startswith("Study of 2 variants (cut; a/b): Dense layer")


def predicted(low, estimate, high, **changes):
    time = {"low": low * 1e-6, "estimate": estimate * 1e-6, "high": high * 1e-6}
    return {
        "status": "ok",
        "predicted_s": time,
        "prediction": {
            "fits": True,
            "memory_bytes": {"capacity": 1 << 30, "peak": 1 << 20},
            "predicted_s": time,
        }
        | changes,
    }


def over_targets(found, **changes):
    """A result of the same on v5e, v6e and v5p, predicted, beside cpu:8, measured."""
    spec = LAYER | {"sharding": {"in": "x"}, "strategies": ["auto"]}
    study = parse_experiment(
        {
            "study": [
                {"experiment": spec | {"target": target}}
                for target in (
                    "tpu:v5e:2x4",
                    "tpu:v6e:2x4",
                    "tpu:v5p:2x2x2",
                    *(["cpu:8"] if "cpu:8" in found else []),
                )
            ]
        }
    )
    result = Result.model_validate(
        {
            "run": "r",
            "experiment": study,
            "environment": ENVIRONMENT,
            "strategies": {f"{name}/auto": each for name, each in found.items()},
        }
        | changes
    )
    return result, compare_predicted(estimates(result))


ABSENT = {
    "v5e:2x4": predicted(28, 30, 34),
    "v6e:2x4": predicted(9, 10, 13),
    "v5p:2x2x2": predicted(12.5, 15, 17),
}


def test_two_that_are_predicted_differ_only_where_their_intervals_do_not_meet():
    result, compared = over_targets(ABSENT)
    assert compared.fastest == "v6e:2x4/auto" and compared.tied == ("v5p:2x2x2/auto",)
    close, far = compared.ratios
    assert (close.differs, far.differs) == (False, True)
    assert far.ratio == pytest.approx(3) and far.interval == pytest.approx((28 / 13, 34 / 9))
    assert run_headline(result) == (
        "Cannot tell whether “v6e:2x4” (10 µs) or “v5p:2x2x2” (15 µs) is faster: their predicted "
        "intervals overlap. “v5e:2x4” takes 30 µs, 3× as long."
    )
    rows = records(strategies_table(result.model_copy(update={"comparison": compared}), "study"))
    assert [row["Ratio of estimates"] for row in rows] == [
        "lowest estimate",
        "1.50× (0.96 to 1.89), cannot tell",
        "3.00× (2.15 to 3.78)",
    ]


def test_measured_and_predicted_rows_have_one_table_and_an_answer_each():
    result, compared = over_targets(
        ABSENT | {"cpu:8": timed(2e-3)}, comparison=comparison("cpu:8/auto")
    )
    result = result.model_copy(update={"predicted": compared})
    assert result.experiment.place.is_simulated
    assert run_headline(result) == (
        "“cpu:8” takes 2 ms per call (95% interval 1.96 to 2.04 ms). Cannot tell whether "
        "“v6e:2x4” (10 µs) or “v5p:2x2x2” (15 µs) is faster: their predicted intervals overlap. "
        "“v5e:2x4” takes 30 µs, 3× as long."
    )
    rows = records(strategies_table(result, "study"))
    assert [(row["Variant"], row["Ratio of estimates"].split()[0]) for row in rows] == [
        ("cpu:8", "–"),
        ("v6e:2x4", "lowest"),
        ("v5p:2x2x2", "1.50×"),
        ("v5e:2x4", "3.00×"),
    ]
    assert rows[0]["Time"] == "2 ms" and rows[1]["Time"] == "10 µs, predicted"
    assert "are not ranked against each other" in "\n".join(report(result))
    found = result_json(result)
    assert found["comparison"]["fastest"] == "cpu:8/auto"
    assert found["predicted"]["fastest"] == "v6e:2x4/auto"
    assert "predicted" not in found["variants"][0] and "environments" not in result_json(RESULT)


def test_steps_of_different_batches_are_compared_by_the_token():
    plan = {"workload": "decoder", "target": "tpu:v5e:4x4", "mesh": {"fsdp": 16}}
    study = parse_experiment(
        {
            "study": [
                {"experiment": plan | {"dims": {"batch": batch, "sequence": 1024}}}
                for batch in (16, 32)
            ]
        }
    )
    assert [each.name for each in study.variants] == ["1 per device", "2 per device"]
    result = Result.model_validate(
        {
            "run": "r",
            "experiment": study,
            "environment": ENVIRONMENT,
            "strategies": {
                "1 per device/auto": predicted(90e3, 100e3, 110e3),
                "2 per device/auto": predicted(140e3, 150e3, 160e3),
            },
        }
    )
    assert run_headline(result) == (
        "“2 per device” is predicted fastest: 4.58 µs a token (4.27 to "
        "4.88 µs). “1 per device” takes 6.1 µs, 1.33× as long."
    )
    first, _ = records(strategies_table(result, "study"))
    assert (first["Variant"], first["Time"], first["Time per token"]) == (
        "2 per device",
        "150 ms, predicted",
        "4.58 µs",
    )


def test_many_that_tie_are_counted():
    spec = LAYER | {"strategies": ["auto"]}
    study = parse_experiment({"study": [{"name": name, "experiment": spec} for name in "abcde"]})
    found = {f"{name}/auto": timed((2 + at / 10) * 1e-3) for at, name in enumerate("abcde")}

    def said(*differ):
        return run_headline(
            Result.model_validate(
                {
                    "run": "r",
                    "experiment": study,
                    "environment": ENVIRONMENT,
                    "strategies": found,
                    "comparison": comparison(
                        "a/auto", *((f"{name}/auto", 1.1, name in differ) for name in "bcde")
                    ),
                }
            )
        )

    assert said() == (
        "Cannot tell which of “a” (2 ms) and 4 others (up to 2.4 ms) is fastest in this process: "
        "intervals of the paired ratios 0.99 to 1.21."
    )
    assert said("e").startswith(
        "Cannot tell which of “a” (2 ms) and 3 others (up to 2.3 ms) is fastest in this process: "
        "intervals of the paired ratios 0.99 to 1.21. Next is “e”: 2.4 ms"
    )
    assert said("c", "d", "e").startswith(
        "Cannot tell whether “a” (2 ms) or “b” (2.1 ms) is faster in this process: paired ratio 1.10×"
    )


def test_what_is_changed_by_variant_is_changed_in_its_own_rows():
    seen = []

    def change(alone):
        seen.append((dict(alone.experiment.mesh), list(alone.strategies)))
        return alone

    assert RESULT.by_variant(change) == RESULT
    assert seen == [({"x": 8}, ["auto", "shard_map"]), ({"y": 4}, ["auto"])]


def of_shardings(single_s, auto_s, **more):
    """A study of two shardings, each on one device and sharded: their times by variant."""
    study = parse_experiment(
        {
            "study": [
                {
                    "name": name,
                    "experiment": LAYER
                    | {
                        "sharding": {name: "x"},
                        "dims": {"batch": 8, "in": 32, "out": 8},
                        "strategies": ["single", "auto"],
                    },
                }
                for name in ("in", "out")
            ]
        }
    )
    times = {"in/single": single_s[0], "in/auto": auto_s[0]}
    times |= {"out/single": single_s[1], "out/auto": auto_s[1]}
    strategies = {name: rounds_of(seconds) | more.get(name, {}) for name, seconds in times.items()}
    result = Result.model_validate(
        {"run": "r", "experiment": study, "environment": ENVIRONMENT, "strategies": strategies}
    )
    return result.model_copy(update={"comparison": compare_rows(result, strategies)})


def rounds_of(seconds):
    turns = [[seconds * (1 + 0.002 * (at % 5 - 2))] for at in range(20)]
    return strategy(seconds, turns_s=turns, samples_s=[each[0] for each in turns])


@pytest.mark.parametrize(
    ("single_s", "end"),
    [
        (2e-4, ", 1.80× as long (1.78 to 1.82)."),
        (5e-5, "Single device takes the same time (50 µs), within 3%."),
    ],
)
def test_a_baseline_is_told_unless_the_best_variant_is_faster(single_s, end):
    result = of_shardings((single_s, single_s), (9e-5, 5e-5))
    assert runs.headline_parts(result)[0].endswith(end)


def test_what_shards_nothing_is_a_baseline_and_never_the_best_of_a_variant():
    same = {"facts": [{"kind": SAME_PROGRAM, "values": {"row": "in/single"}}]}
    result = of_shardings((1e-5, 1.01e-5), (9e-5, 5e-5), **{"out/single": same})
    assert result.experiment.baselines == {"in/single", "out/single"}
    headline = run_headline(result)
    assert headline.startswith(
        "“out” is the fastest variant in this process: 50 µs per call. Next is “in”: 90 µs"
    )
    # which shards nothing, and takes a fifth of the time: whoever chooses among variants must know
    assert headline.endswith("Single device is faster: 10 µs, 0.20× as long (0.20 to 0.20).")
    assert [each["strategy"] for each in best_of(result)["ratios"]] == ["in/auto"]
    assert studies.strategies_shared(result) == (), "there is nothing to choose"
    rows = records(strategies_table(result, "study"))
    assert [(row["Variant"], row["Strategy"]) for row in rows] == [
        ("out", "Automatic"),
        ("in", "Automatic"),
        ("out", "Single device"),
        ("in", "Single device"),
    ]
    # the headline and the table compare with the same row
    assert rows[0]["Paired ratio (99%)"] == "fastest of the variants"
    assert f"(99% interval {rows[1]['Paired ratio (99%)'].split('(')[1][:-1]}" in headline
    assert [row["Paired ratio (99%)"][:5] for row in rows[2:]] == ["0.20×", "0.20×"]
    assert (
        "Single device shards nothing, and is the same program in" in studies.explained(result)[1]
    )
    # further processes time what ranks the variants, however much faster one device is
    assert {"in/single", "out/single"} == {*next_process(result)}  # 1.8 times apart: settled
    near = of_shardings((1e-5, 1.01e-5), (6e-5, 5e-5), **{"out/single": same})
    assert {"in/single", "out/single", "out/auto", "in/auto"} == {*next_process(near)}


def best_of(result):
    return result_json(result)["best_of_variants"]["comparison"]


def test_rows_that_further_processes_left_out_stand_apart_and_are_marked():
    """The machine became slower: what was timed before that looks faster than the fastest."""
    assert next_process(of_shardings((2e-4, 2e-4), (5e-5, 9e-5))) == ()  # settled at once
    result = of_shardings((2e-4, 2e-4), (5e-5, 7e-5))
    assert next_process(result) == ("in/auto", "out/auto")
    slow = {"in/auto": rounds_of(4.8e-4), "out/auto": rounds_of(7e-4)}
    for _ in range(4):
        result = with_process(
            result, result.model_validate(result.model_dump() | {"strategies": slow})
        )
    rows = records(strategies_table(result, "study"))
    assert [(row["Variant"], row["Strategy"], row["Time"]) for row in rows] == [
        ("in", "Automatic", "480 µs"),
        ("out", "Automatic", "700 µs"),
        ("in", "Single device", "200 µs, in 1 process"),
        ("out", "Single device", "200 µs, in 1 process"),
    ]
    table = strategies_table(result, "document")
    timed = [row[table.columns.index("Timed in")].text for row in table.rows]
    assert timed == ["3 processes", "3 processes", "1 process", "1 process"]
    headline = run_headline(result)
    assert headline.startswith("“in” is fastest: 480 µs per call. Next is “out”")
    assert "Within" not in headline and "Single device is" not in headline
    assert "200 µs" not in headline
    alt = times_alt(result)
    named = [
        row["Variant"] + " · Single device" * (row["Strategy"] == "Single device") for row in rows
    ]
    places = [alt.index(f"{each} ") for each in named]
    assert places == sorted(places)  # the chart has the table's order
    assert any(
        note.startswith("Rows timed in 1 process stand last") for note in studies.explained(result)
    )
