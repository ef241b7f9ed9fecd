"""Verdicts on rows of different runs."""

import random
from dataclasses import replace

import pytest

from bench.values import ENVIRONMENT, result, strategy
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Collective
from spmd_core.history import basis_words, between_words
from spmd_core.reports import (
    Subject,
    collectives_table,
    compare_runs,
    rows_table,
    verdict_sentences,
)
from spmd_core.reports.comparison_document import OVER_PEAK, against_words
from spmd_core.results import Environment, Result, apart, between, fastest_row
from spmd_core.runs import Labels, RunSummary
from tests.ui.predictions import MODEL, predicted

HERE = Environment.model_validate(ENVIRONMENT)
LAYER = parse_experiment({"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8"})
NOON = 1_767_355_200.0  # 2026-01-02, 12:00 UTC


def timed(median_s, run="a", rounds=20, spread=0.02, processes=1):
    generator = random.Random(f"{median_s} {run}")

    def turns():
        return [[median_s * (1 + spread * generator.gauss(0, 1))] for _ in range(rounds)]

    again = [turns() for _ in range(processes - 1)]
    changes = {"turns_s": turns(), "again_s": again}
    return result({"auto": strategy(median_s, **changes)}, run=run)


def judged(one, other, count=2):
    return between(one, "auto", other, "auto", count)


@pytest.mark.parametrize(("factor", "verdict"), [(1.5, "faster"), (0.5, "faster"), (1.02, None)])
def test_a_large_difference_is_one_and_a_small_one_cannot_be_told(factor, verdict):
    pair = judged(timed(factor * 1e-3), timed(1e-3, "b"))
    assert pair.verdict == (verdict or "cannot tell") and pair.basis == "measured"
    assert pair.ratio == pytest.approx(factor, rel=0.03)
    assert pair.faster == {1.5: "b", 0.5: "a", 1.02: None}[factor]
    low, high = pair.interval
    assert low < pair.ratio < high and pair.rounds == (20, 20)


def test_more_processes_show_smaller_differences():
    one, other = timed(1.05e-3, processes=6), timed(1e-3, "b", processes=6)
    assert judged(one, other).verdict == "faster"
    assert judged(timed(1.05e-3), timed(1e-3, "b")).verdict == "cannot tell"


def test_what_cannot_be_told_says_by_how_many_processes():
    for processes in (1, 6):
        pair = judged(*(timed(1e-3, run, processes=processes) for run in "ab"))
        pair = pair.model_copy(update={"verdict": "cannot tell"})
        words = between_words(pair, {"a": "A", "b": "B"}, {"a": 1e-3, "b": 1e-3})
        count = "1 process" if processes == 1 else "6 processes"
        assert words.startswith(f"Cannot tell whether A or B is faster from {count} of each: ")
    few = between_words(judged(timed(9e-3, rounds=4), timed(1e-3, "b")), {"a": "A", "b": "B"}, {})
    assert "with too few rounds: " in few and "process" not in few


def test_a_ratio_is_that_of_the_medians_beside_it():
    """Also where one run has more processes, the first of which was unlike the others."""
    study = timed(1e-3, processes=5)
    study.strategies["auto"] = study.strategies["auto"].model_copy(update={"median_s": 2e-3})
    pair = judged(study, timed(5e-4, "b"))
    assert pair.ratio == pytest.approx(4.0)
    assert pair.interval[0] <= 2.1 and pair.interval[1] >= 4.0


def test_equal_runs_are_not_called_faster():
    verdicts = [
        judged(timed(1e-3, f"{seed}"), timed(1e-3, f"other {seed}")).verdict for seed in range(40)
    ]
    assert "faster" not in verdicts


def test_too_few_rounds_cannot_tell_and_wrong_values_are_not_compared():
    assert judged(timed(9e-3, rounds=4), timed(1e-3, "b")).verdict == "cannot tell"
    wrong = result({"auto": strategy(1e-3, correct=False)})
    pair = judged(wrong, timed(1e-3, "b"))
    assert pair.verdict is None and "wrong" in pair.why_none


def test_predictions_are_compared_by_their_intervals_and_not_with_measurements():
    one = predicted(run="p")
    name = fastest_row(one)
    assert between(one, name, one, name, 2).verdict in ("the same", "cannot tell")
    pair = between(timed(1e-3), "auto", one, name, 2)
    assert pair.verdict is None and "only predicted" in pair.why_none
    assert basis_words([pair]) == ""
    assert "nothing was executed" in basis_words([between(one, name, one, name, 2)])
    assert "samples" in basis_words([judged(timed(1e-3), timed(1e-3, "b"))])


def test_training_steps_of_different_batches_are_compared_per_token():
    dims = dict(MODEL.dims)
    double = MODEL.vary(dims=dims | {"batch": 2 * dims["batch"]})
    one, other = predicted(double, run="p"), predicted(run="q")
    name = fastest_row(one)
    pair = between(one, name, other, name, 2)
    assert pair.per_token and pair.ratio == pytest.approx(0.5)


def test_rows_are_named_where_they_differ():
    pair, names, seconds = judged(timed(2e-3), timed(1e-3, "b")), {"a": "A", "b": "B"}, {"a": 2e-3}
    seconds |= {"b": 1e-3}
    differ = between_words(pair, names, seconds, {"a": "shard_map", "b": "auto"})
    assert differ.startswith("B is 2.00× (1.82 to 2.20) faster than A: ")
    assert differ.endswith("A: 1 ms (auto) against 2 ms (shard_map).")
    alike = between_words(pair, names, seconds, {"a": "auto", "b": "auto"})
    assert alike.endswith(") faster than A: 1 ms against 2 ms.")


def test_runs_are_called_by_the_one_thing_in_which_they_differ():
    def called(*experiments, names=("",) * 3):
        ended = ("succeeded", 0.0, 1.0, {}, None, False, None)
        subjects = [
            Subject(RunSummary(run, ended[0], each, *ended[1:], labels=Labels(name)), None)
            for each, run, name in zip(experiments, "abc", names, strict=False)
        ]
        return list(compare_runs(subjects).names.values())

    other = MODEL.vary(mesh={"fsdp": 128, "tensor": 2})
    assert called(MODEL, other) == ["fsdp=256", "fsdp=128 tensor=2"]
    dense = [LAYER.vary(overrides={"weights": each}) for each in ([None, None], ["x", None])]
    assert called(*dense) == ["weights replicated", "weights P('x', None)"]
    traced = [LAYER.vary(options=each) for each in ({}, {"trace": True})]
    assert called(*traced) == ["without trace", "with trace"]
    both = LAYER.vary(mesh={"x": 4}, options={"trace": True})
    assert sorted(called(LAYER, both)[1].split(", ")) == ["with trace", "x=4"]
    variants = [{"experiment": LAYER.vary(sharding=each).to_json()} for each in ({}, {"in": "x"})]
    beside = LAYER.vary(sharding={"in": "x"})
    renamed = [{**each, "name": name} for each, name in zip(variants, ("one", "two"), strict=True)]
    assert called(parse_experiment({"study": renamed}), beside) == ["the study", "in over x"]
    study = parse_experiment({"study": variants})
    assert called(study, beside) == ["the study", "the run"], "as no variant is called"
    assert called(study, beside, LAYER.vary(mesh={"x": 4}, sharding={"out": "x"}))[1:] == [
        "run of in over x",
        "out over x",
    ]
    two = other.vary(options={"model": "scaled:1"})
    assert called(MODEL, two) == ["A", "B"]
    assert called(MODEL, two, names=("wide", "narrow")) == ["wide", "narrow"]
    assert called(MODEL, two, names=("wide", "wide")) == ["A", "B"]
    assert called(MODEL, two, names=("wide", "x" * 40)) == ["A", "B"]


def test_other_machines_days_and_versions_are_named():
    day = 86400.0
    places = ("here", "here")
    assert apart(HERE, HERE, (NOON, NOON + 60), places) == ()
    newer = HERE.model_copy(update={"jax": "0.12", "cores": 8})
    named = apart(HERE, newer, (NOON, NOON + 2 * day), places)
    assert named[0] == "on different machines"
    assert named[1] == "on different days (2026-01-02 and 2026-01-04)"
    assert named[2] == "with different versions of JAX (0.10.2 and 0.12)"
    assert apart(HERE, HERE, (NOON, NOON), ("here", "there")) == ("on different machines",)
    assert len(apart(HERE, newer, (NOON, NOON + 2 * day), places, is_timed=False)) == 1


def test_the_row_that_answers_is_the_fastest_of_right_values():
    both = result({"auto": strategy(2e-3), "single": strategy(1e-3)})
    assert fastest_row(both) == "single"
    assert fastest_row(Result.model_validate(both.model_dump() | {"strategies": {}})) is None


def side_by_side(name, sharding, alone_s=1e-4, sharded_s=1e-3):
    medians = {"single": alone_s, "auto": sharded_s}
    turns = {each: timed(medians[each], name).strategies["auto"].turns_s for each in medians}
    found = result(
        {each: strategy(medians[each], turns_s=turns[each]) for each in medians}, run=name
    )
    varied = found.experiment.vary(sharding=sharding, strategies=["single", "auto"])
    found = found.model_copy(update={"experiment": varied})
    fastest = min(medians, key=lambda each: medians[each])
    stored = RunSummary(name, "succeeded", varied, NOON, NOON, medians, fastest, False, None)
    return Subject(stored, found)


def test_what_a_row_sends_more_is_listed_also_where_one_device_is_fastest():
    gather = Collective(kind="all-gather", axes=("x",), count=1, bytes=2048)
    subjects = []
    for name, sends in (("a", ()), ("b", (gather,))):
        each = side_by_side(name, {"in": "x"})
        row = each.result.strategies["auto"].model_copy(update={"collectives": sends})
        rows = {"strategies": {**each.result.strategies, "auto": row}}
        subjects.append(replace(each, result=each.result.model_copy(update=rows)))
    assert compare_runs(subjects).answers[0].row == "single"
    table = collectives_table(compare_runs(subjects))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["all-gather over x", "none", "2.0 KiB in 1", "2.0 KiB more"]
    ]


def test_shardings_that_one_device_beats_are_compared_by_their_sharded_rows():
    """One device computes the same in both."""
    one, other = side_by_side("a", {"in": "x"}), side_by_side("b", {}, sharded_s=2e-3)
    (pair,) = compare_runs([one, other]).answers
    assert (pair.row, pair.baseline_row) == ("auto", "auto") and pair.faster == "a"
    assert [each.answer_s for each in compare_runs([one, other]).subjects] == [1e-3, 2e-3]
    for others in (
        [side_by_side("c", {"in": "x"})],  # the same again
        [side_by_side("d", {}, alone_s=4e-3, sharded_s=2e-3)],  # sharding helped
    ):
        (pair,) = compare_runs([one, *others]).answers
        assert "single" in (pair.row, pair.baseline_row)


def test_a_study_is_pictured_by_its_fastest_variant():
    variants = [
        {"name": name, "experiment": LAYER.vary(sharding=sharding).to_json()}
        for name, sharding in (("one", {}), ("in", {"in": "x"}))
    ]
    study = parse_experiment({"study": variants})
    times = {"one/auto": 2e-3, "in/auto": 1e-3}
    run = RunSummary("a", "succeeded", study, 0.0, 1.0, times, "in/auto", False, None)
    assert run.best_experiment == study.members[1].experiment
    failed = RunSummary("a", "failed", study, 0.0, 1.0, {}, None, False, None)
    assert failed.best_experiment == study


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"dims": {"batch": 8192, "in": 1024, "out": 1024}}, "8192 against 32"),
        ({"dtype": "bfloat16"}, "bfloat16 against float32"),
        ({"workload": "mlp"}, "Dense layer"),
    ],
)
def test_different_work_is_named_first_and_has_times_and_rates_but_no_verdict(changes, named):
    base = {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8"}
    base |= {"dims": {"batch": 32, "in": 1024, "out": 1024}}
    if "workload" in changes:
        changes = changes | {"dims": {}}
    subjects = []
    for run, spec, median_s in (("a", base, 1e-3), ("b", base | changes, 0.3)):
        found = result({"auto": strategy(median_s)}, run=run, experiment=parse_experiment(spec))
        medians = {"auto": median_s}
        of = (found.experiment, NOON, NOON, medians, "auto", False, None)
        summary = RunSummary(run, "succeeded", *of)
        subjects.append(Subject(summary, found))
    compared = compare_runs(subjects)
    (pair,) = compared.answers
    assert pair.verdict is pair.ratio is pair.faster is None
    first, *_ = verdict_sentences(compared)
    assert first.startswith("Different work") and "faster" not in first
    assert all(each in first for each in (": 1 ms", ": 300 ms", "FLOP/s"))
    assert all(each in first for each in named.split(" against ")), "what differs, or names of it"
    assert against_words(pair) == pair.why_none == "of different work"


@pytest.mark.parametrize(
    "others", [({"workload": "mlp"},) * 2, ({"workload": "mlp"}, {"dtype": "bfloat16"})]
)
def test_what_can_be_compared_comes_first_and_different_work_is_named_once(others):
    base = {"workload": "layer", "mesh": {"x": 8}, "target": "cpu:8", "sharding": {"in": "x"}}
    specs = [base, *(base | each for each in others), base | {"sharding": {}}]
    subjects = []
    for at, spec in enumerate(specs):
        spec = spec | ({"sharding": {}} if spec["workload"] == "mlp" else {})
        found = result(
            {"auto": strategy(1e-3 * (at + 1))}, run="abcd"[at], experiment=parse_experiment(spec)
        )
        of = (found.experiment, NOON, NOON, {"auto": 1e-3 * (at + 1)}, "auto", False, None)
        subjects.append(Subject(RunSummary("abcd"[at], "succeeded", *of), found))
    compared = compare_runs(subjects)
    first, *more = verdict_sentences(compared)
    assert "faster" in first and "Different work" not in first
    (other,) = [each for each in more if "Different work" in each]
    assert all(f"{at + 1} ms" in other for at in (1, 2)) and "4 ms" not in other
    is_same = len({*map(str, others)}) == 1
    assert ("(workload " in other) is is_same


@pytest.mark.parametrize(("factor", "is_over"), [(0.5, False), (2.0, True)])
def test_a_rate_above_the_peak_of_its_chips_is_named_an_error(factor, is_over):
    subjects = []
    for run, model in (("a", "scaled:16"), ("b", "scaled:8")):
        experiment = MODEL.vary(options={"model": model})
        devices = experiment.device_count
        plan = experiment.plan
        least_s = plan.flops * plan.causal_share / (devices * 197e12)
        found = result({"auto": strategy(least_s / factor)}, run=run, experiment=experiment)
        medians = {"auto": least_s / factor}
        of = (found.experiment, NOON, NOON, medians, "auto", False, None)
        subjects.append(Subject(RunSummary(run, "succeeded", *of), found))
    first, *_ = verdict_sentences(compare_runs(subjects))
    assert first.startswith("Different work")
    assert (OVER_PEAK in first) == is_over
    assert first.count("is above the peak of its chips, ") == 2 * is_over


def study_beside_run():
    """A study whose variants send other things, and a run of one of them with another dtype."""
    gather = Collective(kind="all-gather", axes=("x",), count=1, bytes=2048)
    varied = [LAYER.vary(mesh={"x": 4}, sharding={each: "x"}) for each in ("out", "in")]
    study = parse_experiment(
        {
            "study": [
                {"name": f"{dim} over x", "experiment": each.to_json()}
                for dim, each in zip(("out", "in"), varied, strict=True)
            ]
        }
    )
    alone = varied[1].vary(dtype="bfloat16")
    medians = {"out over x/auto": 1e-3, "in over x/auto": 2e-3}, {"auto": 3e-3, "single": 9e-3}
    subjects = []
    for run, experiment, times in zip("ab", (study, alone), medians, strict=True):
        sends = {name: () if name.startswith("out") else (gather,) for name in times}
        rows = {name: strategy(each, collectives=sends[name]) for name, each in times.items()}
        kept = result({"auto": rows[max(rows)]}, run=run, experiment=experiment).model_dump()
        found = Result.model_validate(kept | {"strategies": rows})
        best = min(times, key=times.__getitem__)
        stored = (run, "succeeded", experiment, NOON, NOON, times, best, False, None)
        subjects.append(Subject(RunSummary(*stored), found))
    return subjects


def test_a_study_beside_a_run_names_each_by_its_own_words_and_the_row_that_is_compared():
    compared = compare_runs(study_beside_run(), "b")
    first, *_ = verdict_sentences(compared)
    assert (
        "). The study (out over x · Automatic): 1 ms" in first
        and "the run (Automatic): 3 ms" in first
    )
    table = collectives_table(compared, "screen")
    assert table.columns[:3] == ("", "the study (out over x · Automatic)", "the run (Automatic)")
    assert table.columns[3] == "the study sends"
    rows = rows_table(compared, "screen")
    assert "Paired ratio (99%)" not in rows.columns, "which has a baseline for each run"
    against = [cell.text for cell in rows.column("Against the baseline")]
    assert against == ["of different work", "–", "–", "–"]
