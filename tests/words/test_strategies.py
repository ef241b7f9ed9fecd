"""What is said of several predicted strategies: the fastest, ties, the same program, what does not
fit.
"""

import re

import pytest

from bench.values import comparison, result as measured_result, strategy
from spmd_core.advice import in_words
from spmd_core.answers import strategies_table
from spmd_core.commands.printed.report import report
from spmd_core.experiment import parse_experiment
from spmd_core.facts import PROGRAM, SAME_PROGRAM, Estimate, Ratio
from spmd_core.history import factor_words
from spmd_core.program import fingerprint
from spmd_core.results import Comparison, Result, predicted_verdict
from spmd_core.words import factor_text
from spmd_core.words.strategies import (
    answer_parts,
    compared,
    compared_first,
    evidence_words,
    headline_ratio,
    measured,
    paired_words,
    predicted,
    ratio_words,
    same_programs,
    sharding_verdict,
    short_verdict,
    unsettled_words,
)
from spmd_lab.ui.charts.times import times_alt
from tests.answers import texts

ENVIRONMENT = {
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "python": "3.11",
    "platform": "tpu",
    "device_kind": "TPU v5 lite",
    "device_count": 4,
}


def one(low=None, estimate=None, high=None, program=None):
    time = (
        {"low": low * 1e-6, "estimate": estimate * 1e-6, "high": high * 1e-6}
        if estimate and low and high
        else None
    )
    compiled = {PROGRAM: program} if program else {}
    return {
        "status": "ok",
        "predicted_s": time,
        "prediction": {
            "fits": time is not None,
            "memory_bytes": {"capacity": 1},
            "predicted_s": time,
            "compile": compiled,
        },
    }


def result(**strategies):
    spec = {"workload": "layer", "target": "tpu:v5e:2x2", "mesh": {"x": 4}, "sharding": {"in": "x"}}
    experiment = parse_experiment(spec | {"strategies": list(strategies)})
    return Result.model_validate(
        {"run": "r", "experiment": experiment, "environment": ENVIRONMENT, "strategies": strategies}
    )


@pytest.mark.parametrize(
    ("strategies", "words"),
    [
        ({"auto": one(9, 10, 12)}, "Automatic is predicted to take 10 µs (9.00 to 12.0 µs)."),
        (
            {"auto": one(9, 10, 12), "explicit": one(25, 30, 35)},
            "Automatic is predicted fastest: 10 µs (9.00 to 12.0 µs). Explicit takes 30 µs, 3× as long.",
        ),
        (
            {"auto": one(9, 10, 12), "explicit": one(9, 11, 13)},
            "Cannot tell whether Automatic (10 µs) or Explicit (11 µs) is faster: their predicted "
            "intervals overlap.",
        ),
        (
            {"single": one(40, 50, 60), "explicit": one(9, 11, 13), "auto": one(9, 10, 12)},
            "Cannot tell whether Automatic (10 µs) or Explicit (11 µs) is faster: their predicted "
            "intervals overlap. Single device takes 50 µs, 5× as long.",
        ),
        (
            {"explicit": one(10, 10.1, 10.1), "auto": one(10, 10, 10.1)},
            "Automatic (10 µs) and Explicit (10.1 µs) are predicted to take the same time.",
        ),
        (
            {"auto": one(9, 10, 12, "a"), "shard_map": one(9, 10, 12, "a")},
            "Automatic and shard_map compile to the same program, which is predicted to take 10 µs (9.00 "
            "to 12.0 µs).",
        ),
        (
            {
                "single": one(40, 50, 60, "b"),
                "auto": one(9, 10, 12, "a"),
                "shard_map": one(9, 10, 12, "a"),
            },
            "Automatic and shard_map are predicted fastest: 10 µs (9.00 to 12.0 µs). Single device takes "
            "50 µs, 5× as long. Automatic and shard_map compile to the same program.",
        ),
        (
            {"single": one(), "auto": one(9, 10, 12)},
            "Automatic is predicted to take 10 µs (9.00 to 12.0 µs). Single device does not fit.",
        ),
        ({"single": one(), "auto": one()}, "Single device and Automatic do not fit."),
        (
            {"auto": {"status": "error", "error": {"kind": "x", "message": "y"}}},
            "No strategy was compiled to the end.",
        ),
    ],
)
def test_the_answer(strategies, words):
    assert predicted(result(**strategies)) == words


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        (
            (("auto", 2.5, True),),
            "Single device is fastest in this process: 10 µs per call. Next is Automatic: 25 µs, "
            "paired ratio 2.50× (99% interval 2.25 to 2.75, 20 rounds).",
        ),
        (
            (("auto", 1.01, False), ("shard_map", 3.0, True)),
            "Cannot tell whether Single device (10 µs) or Automatic (25 µs) is faster in this process: "
            "paired ratio 1.01× (99% interval 0.91 to 1.11, 20 rounds). Next is shard_map: 30 µs, "
            "paired ratio 3.00× (99% interval 2.70 to 3.30, 20 rounds).",
        ),
        (
            (("auto", 1.01, False), ("shard_map", 1.2, False)),
            "Cannot tell which of Single device (10 µs), Automatic (25 µs) and shard_map (30 µs) is "
            "fastest in this process: intervals of the paired ratios 0.91 to 1.32.",
        ),
    ],
)
def test_the_answer_of_what_was_measured(ratios, words):
    medians = {"single": 10e-6, "auto": 25e-6, "shard_map": 30e-6}
    found = measured_result(
        {
            name: strategy(median)
            for name, median in medians.items()
            if name in ("single", *(ratio[0] for ratio in ratios))
        },
        comparison=comparison("single", *ratios),
    )
    assert measured(found) == words


def test_a_headline_has_no_two_numbers_that_contradict_each_other():
    """A paired ratio is not the quotient of two medians: where they are far apart a headline has both
    in its interval, and so has the table below it."""
    medians = {"single": 10e-6, "auto": 11e-6, "shard_map": 30e-6}
    found = measured_result(
        {name: strategy(median) for name, median in medians.items()},
        comparison=comparison("single", ("auto", 1.01, False), ("shard_map", 2.0, True)),
    )
    assert answer_parts(found) == (
        "Cannot tell whether Single device (10 µs) or Automatic (11 µs) is faster in this process. "
        "Next is shard_map, 1.80 to 3.00× as long.",
        "",
    )
    assert evidence_words(found) == "ratios with 99% intervals, 20 rounds"
    assert "1.80 to 3.00×" in texts(strategies_table(found, "screen"), "Paired ratio (99%)")


def test_an_interval_that_may_be_anything_has_no_ends():
    given = {"strategy": "b", "verdict": "cannot tell", "differs": False, "rounds": 40}
    ratio = Ratio(ratio=0.93, interval=(1e-5, 4e4), processes=2, **given)
    assert paired_words(ratio) == (
        "paired ratio 0.93× (99% interval too wide to use, 40 rounds in 2 processes)"
    )
    several = [ratio, ratio.model_copy(update={"strategy": "c", "interval": (5e-7, 2.8e6)})]
    answer = Comparison(fastest="a", ratios=tuple(several), tied=("b", "c"))
    said = compared(answer, {"a": 1e-3, "b": 2e-3, "c": 3e-3})
    assert said.endswith("is fastest: intervals of the paired ratios too wide to use.")


def test_the_same_time_and_what_would_settle_the_rest():
    """Measured in three processes: what is the same comes first, then what cannot be told."""
    several = {"rounds": 60, "processes": 3}
    said = comparison("single", ("auto", 1.001, False), ("shard_map", 1.04, False))
    said["ratios"][0] |= several | {"interval": [0.99, 1.012], "verdict": "the same"}
    said["ratios"][1] |= several | {
        "interval": [0.98, 1.1],
        "verdict": "cannot tell",
        "settles": "more processes",
    }
    medians = {"single": 10e-6, "auto": 10.01e-6, "shard_map": 10.4e-6}
    found = measured_result(
        {name: strategy(median) for name, median in medians.items()}, comparison=said
    )
    assert measured(found) == (
        "Single device (10 µs) and Automatic (10 µs) take the same time, within 3%. Cannot tell "
        "whether shard_map (10.4 µs) is slower: paired ratio 1.04× (99% interval 0.98 to 1.10, 60 "
        "rounds in 3 processes); more processes might settle it."
    )
    assert texts(strategies_table(found, "screen"), "Paired ratio (99%)") == [
        "lowest median",
        "1.00× (0.99 to 1.01), the same",
        "1.04× (0.98 to 1.10), cannot tell: too few processes",
    ]


def test_rows_of_one_program_are_named_where_the_verdict_is():
    alike = strategy(25e-6, facts=[{"kind": SAME_PROGRAM, "values": {"row": "auto"}}])
    found = measured_result(
        {"auto": strategy(24e-6), "constrained": alike},
        comparison=comparison("auto", ("constrained", 1.04, False)),
    )
    assert measured(found) == (
        "Automatic (24 µs) and Constrained (25 µs) compile to the same program: none of them is "
        "faster."
    )
    assert (
        texts(strategies_table(found, "screen"), "Paired ratio (99%)")[1]
        == "1.04× (0.94 to 1.14), the same program"
    )
    notes = in_words(found).strategies["constrained"].notes
    assert "the same program as Automatic" in notes


@pytest.mark.parametrize(
    "names", [("auto", "constrained", "single"), ("a/auto", "a/constrained", "b/auto")]
)
def test_rows_of_one_program_leave_no_verdict_open(names):
    """Beside a slower row of another program, of which the headline is sure."""
    best, alike, slower = names
    layer = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}}
    both = layer | {"strategies": ["auto", "constrained"]}
    shardings = {"a": {"in": "x"}, "b": {"batch": "x"}}
    study = [
        {"name": name, "experiment": both | {"dims": {"batch": 64}, "sharding": sharding}}
        for name, sharding in shardings.items()
    ]
    alone = layer | {"strategies": list(names)}
    same = [{"kind": SAME_PROGRAM, "values": {"row": best}}]
    found = Result.model_validate(
        {
            "run": "r",
            "experiment": parse_experiment({"study": study} if "/" in best else alone),
            "environment": ENVIRONMENT,
            "strategies": {
                best: strategy(24e-6),
                alike: strategy(25e-6, facts=same),
                slower: strategy(48e-6),
            },
            "comparison": comparison(best, (alike, 1.04, False), (slower, 2.0, True)),
        }
    )
    asked = compared_first(found)
    assert asked is not None and unsettled_words(asked) is None
    assert [each.strategy for each in asked.ratios] == [slower]
    assert "Automatic is 2.00× faster" in short_verdict(found).replace("”", "")
    assert "Cannot tell" not in answer_parts(found)[0]


def test_what_cannot_be_told_of_another_program_is_asked_beside_those_of_one():
    alike = strategy(25e-6, facts=[{"kind": SAME_PROGRAM, "values": {"row": "auto"}}])
    found = measured_result(
        {"auto": strategy(24e-6), "constrained": alike, "shard_map": strategy(26e-6)},
        comparison=comparison("auto", ("constrained", 1.04, False), ("shard_map", 1.08, False)),
    )
    said = measured(found)
    assert said.startswith("Cannot tell whether Automatic (24 µs) or shard_map (26 µs) is faster")
    assert said.endswith("Automatic and Constrained compile to the same program.")
    assert "none of them" not in said


def test_one_order_by_the_medians():
    """Where paired ratios would order the slower ones otherwise, sentence, badge, table and chart
    keep to the medians, which is what a reader compares."""
    medians = {"shard_map": 316e-6, "auto": 347e-6, "single": 5.6e-6}
    found = measured_result(
        {name: strategy(median) for name, median in medians.items()},
        comparison=comparison("single", ("auto", 61.97, True), ("shard_map", 62.89, True)),
    )
    assert found.order == ("single", "shard_map", "auto")
    assert "Next is shard_map: 316 µs, paired ratio 62.9×" in measured(found)
    assert short_verdict(found) == ("Single device is 56.4 to 69.2× faster than shard_map")
    table = strategies_table(found, "screen")
    assert texts(table, "Strategy") == ["Single device", "shard_map", "Automatic"]
    assert [cell.split("×")[0] for cell in texts(table, "Paired ratio (99%)")] == [
        "fastest",
        "56.4 to 69.2",
        "62.0",
    ]
    alt = times_alt(found)
    assert alt.index("Single device") < alt.index("shard_map") < alt.index("Automatic")
    lines = report(found)
    assert lines[0] == answer_parts(found)[0]
    rows = [
        line.split()[0] for line in lines if line.startswith(("Single", "Automatic", "shard_map"))
    ]
    assert rows[1:4] == ["Single", "shard_map", "Automatic"]


@pytest.mark.parametrize(
    ("medians", "ratios", "verdict"),
    [
        (
            {"auto": 1e-3, "shard_map": 1.5e-3, "single": 3e-3},
            [("shard_map", 1.5, True), ("single", 3.0, True)],
            ("faster", "3.00× faster (2.70 to 3.30)"),
        ),
        (
            {"single": 1e-3, "auto": 2e-3, "shard_map": 4e-3},
            [("auto", 2.0, True), ("shard_map", 4.0, True)],
            ("slower", "2.00× slower (1.80 to 2.20)"),
        ),
        (
            {"single": 1e-3, "auto": 2.5e-3},
            [("auto", 2.0, True)],
            ("slower", "1.80 to 2.50× slower"),
        ),
        (
            {"single": 1e-9, "auto": 2e-9},
            [("auto", 2.0, True)],
            ("too small", "2.00× slower (1.80 to 2.20)"),
        ),
        (
            {"auto": 1e-3, "single": 1e-3},
            [("single", 1.0, False)],
            ("cannot tell", "whether sharding helps"),
        ),
        ({"auto": 1e-3, "shard_map": 2e-3}, [("shard_map", 2.0, True)], None),
        ({"single": 1e-3}, [], None),
    ],
)
def test_sharding_is_judged_by_the_best_sharded_row_against_one_device(medians, ratios, verdict):
    found = measured_result(
        {name: strategy(median) for name, median in medians.items()},
        comparison=comparison(next(iter(medians)), *ratios),
    )
    assert sharding_verdict(found) == verdict


@pytest.mark.parametrize(
    ("floor_s", "kind"), [(9e-4, "too small"), (1e-4, "slower"), (None, "slower")]
)
def test_sharding_of_rows_that_are_bound_by_dispatch_did_not_lose(floor_s, kind):
    found = measured_result(
        {"single": strategy(1e-3), "auto": strategy(2e-3, floor_s=floor_s)},
        comparison=comparison("single", ("auto", 2.0, True)),
    )
    assert (sharding_verdict(found) or ("",))[0] == kind


def test_predicted_times_are_compared_by_their_intervals():
    near, far = Estimate(low=9, estimate=10, high=12), Estimate(low=12.5, estimate=13, high=15)
    assert predicted_verdict(far, near) == predicted_verdict(near, far) == "faster"
    close = Estimate(low=11.5, estimate=13, high=15)  # neither estimate is in the other interval
    assert predicted_verdict(close, near) == predicted_verdict(near, close) == "cannot tell"
    narrow = Estimate(low=9.9, estimate=10, high=10.1)
    assert predicted_verdict(narrow, narrow) == "the same"


def test_programs_without_a_fingerprint_are_not_taken_for_the_same():
    assert [
        names
        for names, _ in same_programs(
            result(auto=one(9, 10, 12), shard_map=one(9, 10, 12)).strategies
        )
    ] == [("auto",), ("shard_map",)]


PROGRAM_TEXT = """HloModule jit_program, is_scheduled=true

FileNames
1 "layer_auto.py"

%fused (param_0.1: f32[4]) -> f32[4] {
  %param_0.1 = f32[4]{0} parameter(0)
  ROOT %add.1 = f32[4]{0} add(%param_0.1, %param_0.1), metadata={op_name="jit(program)/add{x}" stack_frame_id=6}
}

ENTRY %main (x.1: f32[4]) -> f32[4] {
  %x.1 = f32[4]{0} parameter(0)
  ROOT %r.1 = f32[4]{0} fusion(%x.1), kind=kLoop, calls=%fused, channel_id=1
}
"""


def test_names_lines_and_channels_are_no_difference_and_all_else_is():
    renamed = (
        PROGRAM_TEXT.replace("layer_auto.py", "layer_shard_map.py")
        .replace("%add.1", "%add.77")
        .replace("param_0.1", "p")
        .replace("stack_frame_id=6", "stack_frame_id=9")
        .replace("channel_id=1", "channel_id=3")
    )
    assert renamed != PROGRAM_TEXT and fingerprint(renamed) == fingerprint(PROGRAM_TEXT)
    for old, new in (
        ("f32[4]{0} add", "f32[4]{0} multiply"),
        ("kLoop", "kOutput"),
        ("[4]", "[8]"),
        ("add(%param_0.1, %param_0.1)", "add(%param_0.1)"),
    ):
        assert fingerprint(PROGRAM_TEXT.replace(old, new)) != fingerprint(PROGRAM_TEXT)


def test_an_imprecise_result_is_ranked_and_said_in_sentence_table_and_report():
    loose = {"count": 1, "of": 4, "share": 0.25, "off": 0.1, "terms": 1024, "dtype": "bfloat16"}
    outcome = {"imprecise": loose, "facts": []}
    given = measured_result({"auto": strategy(1e-5, **outcome)})
    words = "adds 1,024 terms in bfloat16, 10% off"
    assert measured(given).endswith(f"Automatic is imprecise: {words}.")
    notes = in_words(given).strategies["auto"].notes
    assert f"{words}: 1 of 4 elements (sums in float32 avoid it)" in notes
    assert texts(strategies_table(given, "screen"), "Values") == ["imprecise"]
    lines = report(in_words(given))
    assert words in lines[0] and "imprecise" in "\n".join(lines[1:])


@pytest.mark.parametrize("factor", [0.7, 1.04, 1.15, 2.77, 43.9, 178.0])
@pytest.mark.parametrize("off", [1 / 1.3, 1 / 1.04, 1.0, 1.04, 1.3])
def test_a_ratio_beside_two_times_is_what_a_reader_divides_or_the_interval_alone(factor, off):
    """Of an interval that excludes what a reader divides, or where they are on both sides of 1."""
    ratio = Ratio(
        strategy="a",
        ratio=factor,
        interval=(0.9 * factor, 1.1 * factor),
        verdict="faster",
        differs=True,
    )
    said = headline_ratio(ratio, "as long", off * factor)
    low, high = map(float, re.search(r"([\d.]+) to ([\d.]+)", said).groups())
    if off == 1.0:
        assert said.startswith(f"{factor_text(factor)}× as long (")
    elif 0.9 < off < 1.1 and (factor > 1) is (off * factor > 1):
        said_of = f"about {factor_text(off * factor)}× as long"
        assert said == f"{said_of} ({factor_text(low)} to {factor_text(high)})"
    else:
        assert said == f"{factor_text(low)} to {factor_text(high)}× as long"
    assert 0.99 * low <= off * factor <= 1.01 * high, "whatever is divided is inside"


def test_a_paired_ratio_beside_two_times_is_its_interval_where_their_quotient_is_another():
    ratio = Ratio(
        strategy="auto",
        ratio=1.12,
        interval=(0.9, 1.17),
        verdict="cannot tell",
        differs=False,
        rounds=60,
    )
    assert paired_words(ratio, 1.13).startswith("paired ratio 1.12× (99% interval 0.90 to 1.17")
    assert paired_words(ratio, 1.19).startswith("0.90 to 1.19× (99% interval, 60")
    assert ratio_words(ratio, 1.19) == "0.90 to 1.19×"
    loose = ratio.model_copy(update={"ratio": 8.21, "interval": (2.9, 12.5)})
    assert headline_ratio(loose, "as long") == "2.90 to 12.5× as long"
    assert headline_ratio(loose, "as long", 9.0) == "2.90 to 12.5× as long"
    assert factor_words(8.21, (2.9, 12.5), "slower") == "2.90 to 12.5× slower"
    far = ratio.model_copy(update={"ratio": 2.13, "interval": (1.9, 2.4)})
    assert ratio_words(far, 36.2 / 13) == "1.90 to 2.78×"
