"""Each rule fires by its number, names what to try, and stays silent without it."""

import pytest

from bench.values import ENVIRONMENT, comparison, strategy
from spmd_core.advice import gain_words, next_step
from spmd_core.advice.results import FASTER_TOO, PAIRS
from spmd_core.base import seconds_text
from spmd_core.experiment import experiment_of, parse_experiment
from spmd_core.facts import Estimate
from spmd_core.results import Result
from spmd_core.sweeps import TrainingQuestion, train
from spmd_core.time import estimate_step
from spmd_core.words import run_headline
from spmd_core.workloads import parse_plan

MATMUL = {
    "workload": "matmul",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "dims": {"m": 1024, "k": 1024, "n": 1024},
    "sharding": {"m": "x", "n": "y"},
}
SUM = {"kind": "all-reduce", "axes": ["y"], "bytes": 2**20, "count": 1}


def answered(spec=None, floor_s=1e-5, **strategies):
    found = strategies or {"auto": strategy(1e-2)}
    best = min(found, key=lambda name: found[name]["median_s"])
    experiment = parse_experiment((spec or MATMUL) | {"strategies": list(found)})
    return Result.model_validate(
        {
            "run": "r",
            "experiment": experiment,
            "strategies": found,
            "environment": ENVIRONMENT | {"dispatch_floor_s": floor_s},
            "comparison": comparison(best, *((name, 2.0, True) for name in found if name != best)),
        }
    )


def rule_of(result):
    said = next_step(result)
    assert said is None or said.sentence.endswith(".")
    return said and said.rule


def test_a_floor_that_is_most_of_the_time_asks_for_larger_dims():
    said = next_step(answered(floor_s=8e-3))
    assert (said.rule, said.number) == ("dispatch_bound", pytest.approx(0.8))
    before, after = (dict(each) for each in (parse_experiment(MATMUL).dims, said.experiment.dims))
    assert all(after[dim] >= size for dim, size in before.items()) and after != before
    assert said.sentence.startswith("80% of the time is the dispatch floor, 8 ms a call: try ")
    assert rule_of(answered(floor_s=1e-3)) != "dispatch_bound"


def test_a_single_device_that_wins_asks_for_larger_dims():
    said = next_step(answered(single=strategy(1e-3), auto=strategy(5e-3)))
    assert (said.rule, said.number) == ("one_device_wins", 2.0)
    assert said.sentence.startswith("Single device is faster here: try whether sharding wins at ")
    assert rule_of(answered(single=strategy(5e-3), auto=strategy(1e-3))) != "one_device_wins"


def test_sharding_is_as_slow_as_the_row_that_the_answer_names():
    found = answered(single=strategy(1e-3), auto=strategy(5e-3), shard_map=strategy(4e-3))
    ratios = comparison("single", ("auto", 2.5, True), ("shard_map", 2.75, True))
    found = Result.model_validate(found.model_dump() | {"comparison": ratios})
    assert "Next is shard_map: 4 ms, paired ratio 2.75×" in run_headline(found)
    assert next_step(found).number == 2.75


def test_an_axis_that_shards_nothing_is_given_a_dim():
    said = next_step(answered(MATMUL | {"sharding": {"m": "x"}}))
    assert (said.rule, said.number) == ("idle_axis", 4)
    used = {axis for _, axes in said.experiment.sharding for axis in axes}
    assert used == {"x", "y"}


def test_a_replicated_operand_is_sharded_where_it_is_large():
    spec = MATMUL | {"mesh": {"x": 8}, "sharding": {"m": "x"}}
    held = {"memory_bytes": {"peak": 6 * 2**20}}
    said = next_step(answered(spec, auto=strategy(1e-2, **held)))
    assert (said.rule, said.number) == ("replicated_operand", 4 * 2**20)
    assert said.experiment.spec("b") in ((("x",), ()), ((), ("x",)))
    small = answered(spec | {"dims": {"m": 64, "k": 64, "n": 64}}, auto=strategy(1e-2, **held))
    assert rule_of(small) != "replicated_operand"


def test_a_sum_over_a_sharded_dim_can_be_left_out():
    """By another sharding that takes less time: replicated, each device would multiply more."""
    spec = MATMUL | {"sharding": {"m": "x", "k": "y"}}
    said = next_step(answered(spec, auto=strategy(1e-2, collectives=[SUM])))
    assert said.rule == "partial_sums" and dict(said.experiment.sharding) == {"m": ("x", "y")}
    assert "try m sharded over `y` in place of k" in said.sentence
    # rows of 6 stay on 2 devices, and columns of 2 on those: all would multiply 4 times as much
    few = spec | {"dims": {"m": 6, "k": 2**15, "n": 2**11 + 2}}
    assert rule_of(answered(few, auto=strategy(1e-2, collectives=[SUM]))) != "partial_sums"
    assert rule_of(answered(spec, auto=strategy(1e-2, collectives=[]))) == "larger_size"


def test_scattered_samples_come_before_all_else():
    said = next_step(answered(floor_s=8e-3, auto=strategy(1e-2, iqr_s=5e-3)))
    assert (said.rule, said.number) == ("noisy", pytest.approx(0.5))
    assert said.experiment.timing.samples == 60


def test_scatter_that_leaves_no_verdict_open_is_not_the_next_thing_to_mend():
    noisy = {"iqr_s": 5e-4}
    found = answered(single=strategy(1e-3, **noisy), auto=strategy(5e-3, iqr_s=3e-3))
    assert rule_of(found) == "one_device_wins"
    ratios = comparison("single", ("auto", 1.1, False))
    assert rule_of(Result.model_validate(found.model_dump() | {"comparison": ratios})) == "noisy"


def test_nothing_is_said_of_what_did_not_run():
    failed = {"status": "error", "error": {"kind": "a", "message": "b"}}
    experiment = parse_experiment(MATMUL | {"strategies": ["auto"]})
    assert (
        next_step(
            Result.model_validate(
                {
                    "run": "r",
                    "experiment": experiment,
                    "environment": ENVIRONMENT,
                    "strategies": {"auto": failed},
                }
            )
        )
        is None
    )


def planned(faster=1.0, **plan):
    """A plan's next step, where compiling it predicted so much less than the estimate."""
    plan = parse_plan(plan)
    found = estimate_step(plan)
    time = found.predicted_s and found.predicted_s.model_copy(
        update={"estimate": found.predicted_s.estimate / faster}
    )
    found = found.model_copy(update={"predicted_s": time})
    outcome = {"status": "ok", "predicted_s": found.predicted_s, "prediction": found}
    return plan, next_step(
        Result.model_validate(
            {
                "run": "r",
                "experiment": experiment_of(plan),
                "environment": ENVIRONMENT,
                "strategies": {"auto": outcome},
            }
        )
    )


def test_a_plan_that_does_not_fit_is_given_one_that_should():
    plan, said = planned(
        target="tpu:v5e:2x2",
        model="llama-2-70b",
        mesh={"fsdp": 4},
        batch_per_device=4,
        remat="full",
    )
    assert said.rule == "does_not_fit" and estimate_step(said.experiment.plan).fits
    assert said.number == estimate_step(plan).memory_bytes.missing


def test_a_better_neighbor_takes_as_much_less_as_is_said():
    plan, said = planned(
        target="tpu:v5e:4x4",
        model="scaled:1",
        mesh={"fsdp": 4, "tensor": 4},
        batch_per_device=2,
        remat="full",
    )
    assert said.rule == "better_plan"
    other = said.experiment.plan
    times = [estimate_step(each).predicted_s.estimate / each.tokens for each in (other, plan)]
    assert said.number == pytest.approx(1 - times[0] / times[1])


def test_a_better_neighbor_is_set_against_the_estimate_and_what_was_compiled_is_said_beside():
    few = {
        "target": "tpu:v5e:4x4",
        "model": "scaled:1",
        "mesh": {"fsdp": 4, "tensor": 4},
        "batch_per_device": 2,
        "remat": "full",
    }
    plan, said = planned(0.8, **few)
    guess = estimate_step(plan).predicted_s.estimate
    other = said.experiment.plan
    after = estimate_step(other).predicted_s.estimate / other.tokens * plan.tokens
    scaled = f"{seconds_text(guess / 0.8)} -> {seconds_text(after / 0.8)} for as many tokens"
    assert scaled in said.sentence and "by the estimates of both" in said.sentence
    assert "(this one's is 25% off). Try: " in said.sentence


@pytest.mark.parametrize("faster", [0.9964, 0.999, 1.0, 1.001, 1.0036])
def test_what_was_compiled_close_to_its_estimate_is_the_one_time_on_the_screen(faster):
    """A headline of 294 ms stood over "295 ms -> 255 ms"."""
    plan, said = planned(
        faster,
        target="tpu:v5e:4x4",
        model="scaled:1",
        mesh={"fsdp": 4, "tensor": 4},
        batch_per_device=2,
        remat="full",
    )
    compiled = estimate_step(plan).predicted_s.estimate / faster
    assert said.sentence.startswith(f"{seconds_text(compiled)} -> ")
    assert "Compiled" not in said.sentence


def test_a_neighbor_that_is_slower_than_what_was_compiled_is_none():
    """The estimates 74.8 -> 59.5 ms were shown beside a compiled 58.4 ms."""
    few = {
        "target": "tpu:v5e:4x4",
        "model": "scaled:1",
        "mesh": {"fsdp": 4, "tensor": 4},
        "batch_per_device": 2,
        "remat": "full",
    }
    _, said = planned(2.0, **few)
    assert said is None or said.rule != "better_plan"


def test_where_no_neighbor_is_better_more_chips_are_left():
    plan, said = planned(
        target="tpu:v6e:16x16",
        model="llama-3.1-8b",
        mesh={"data": 2, "fsdp": 128},
        batch_per_device=4,
        sequence=8192,
        save=("out",),
        offload=("query", "key", "value", "attention"),
    )
    assert said.rule == "more_chips"
    assert said.experiment.plan.topology.chips == 2 * plan.topology.chips
    question = TrainingQuestion(plan.to_json(), 1e12, plan.batch, ("v6e",), 512)
    assert said.experiment.plan == train(question).rows[0].plan, "as Predict has it"


def test_what_was_tried_to_remove_a_collective_is_what_to_try_next():
    removal = {
        "changes": [{"field": "sharding", "name": "n", "before": "y", "after": None}],
        "experiment": parse_experiment(MATMUL | {"sharding": {"m": ["x", "y"]}}).to_json(),
        "sentence": "shard `m` over `y` in place of `n`: no all-reduce over `y`",
        "memory_bytes": 0,
        "predicted_s": {"before": 4e-3, "after": 1e-3},
    }
    sharded = MATMUL | {"sharding": {"m": "x", "k": "y"}}
    summed = strategy(1e-2) | {"collectives": [SUM]}
    assert rule_of(answered(sharded, auto=summed)) == "partial_sums"
    tried = strategy(1e-2) | {"collectives": [SUM | {"remove": removal}]}
    said = next_step(answered(sharded, auto=tried))
    assert (said.rule, said.number) == ("remedy", 0.75)
    assert said.sentence == f"75% less time, predicted: {removal['sentence']}."
    assert dict(said.experiment.sharding) == {"m": ("x", "y")}
    none = strategy(1e-2) | {"collectives": [SUM | {"remove": {"reason": "the sum needs it"}}]}
    assert rule_of(answered(sharded, auto=none)) not in ("partial_sums", "remedy")


def test_a_gain_within_the_range_of_its_step_says_how_often_such_gains_hold():
    _, said = planned(
        target="tpu:v5e:4x4",
        model="scaled:1",
        mesh={"fsdp": 4, "tensor": 4},
        batch_per_device=2,
        remat="full",
    )
    wide, narrow = (
        Estimate(low=share * said.takes_s, estimate=2 * said.takes_s, high=3 * said.takes_s)
        for share in (0.9, 1.1)
    )
    words, of = gain_words(said, wide)
    assert words.startswith("Probably faster: ") and "2% or more" in of
    assert of.startswith("Within this prediction's range. ")
    assert f"of {PAIRS} such estimates {FASTER_TOO} were right once compiled" in words
    assert gain_words(said, narrow) == gain_words(said, None) == ("", "")
