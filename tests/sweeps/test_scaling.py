"""The best mesh at each number of chips, the knee of strong scaling, and what a sweep does not count."""

from contextlib import suppress
from dataclasses import replace

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import experiment_of, parse_experiment
from spmd_core.machine import get_topology
from spmd_core.search import SAME, policies, step_options
from spmd_core.search.chips import named_meshes
from spmd_core.search.question import REMATS
from spmd_core.surveys import doubt_words, sweep_headline, sweep_notes
from spmd_core.surveys.sweep.scaling import grown_most, knee
from spmd_core.sweeps import TrainingQuestion, best_mesh, parse_sweep, train, variants
from spmd_core.sweeps.curves import Outcome, curves, row_json
from spmd_core.sweeps.runs import estimated
from spmd_core.time import MeshEstimates, estimate_step, may_pass_in_rings
from spmd_core.words.predictions import share_words
from spmd_core.workloads import parse_plan
from tests.cover import cover, whole

LAYER = parse_experiment(
    {"workload": "layer", "target": "tpu:v5p:4x4x4", "mesh": {"x": 64}, "strategies": ["auto"]}
)
BIG = {"target": "tpu:v5p:8x8x8", "model": "llama-3.1-8b", "mesh": {"fsdp": 512}}
BIG |= {"sequence": 8192, "batch_per_device": 1}


@pytest.mark.parametrize(
    ("target", "chips", "changes", "remats"),
    [
        ("tpu:v5p:4x4x4", 64, {}, ()),
        ("tpu:v5p:4x4x4", 64, {}, REMATS),
        pytest.param(
            "tpu:v5e:4x8", 32, {"model": "qwen3-14b", "sequence": 2048}, REMATS, marks=whole
        ),
        pytest.param(
            "tpu:v6e:4x4", 16, {"model": "gemma-2-9b", "sequence": 4096}, REMATS, marks=whole
        ),
        ("gpu:h100:2x8", 16, {"sequence": 4096}, REMATS),
    ],
)
def test_the_best_mesh_is_the_fastest_of_those_that_fit(target, chips, changes, remats):
    """Against each mesh and policy, one by one: those of a mesh are bounded before they are timed."""
    plan = parse_plan(BIG | changes)
    found = best_mesh(plan.to_json(), target, 4 * chips, remats)
    topology = get_topology(target)
    saved = policies(REMATS, False, plan.size.gated, plan.size.post_norms) if remats else ()
    options = step_options({}, may_pass_in_rings(topology, ())) if remats else ((),)
    ways = [{"remat": plan.remat}, *(each.fields for each in saved)]
    estimates = {}
    for mesh in named_meshes(chips, ("data", "fsdp", "sequence", "tensor"), 2):
        for option in options:
            with suppress(RequestError):
                other = {"target": target, "mesh": mesh, "batch_per_device": 4, **dict(option)}
                first = parse_plan(plan.to_json() | other)
                of_mesh = MeshEstimates(first)
                for way in ways:
                    one = first.model_copy(update=way)
                    memory = of_mesh.memory(one)
                    if memory.fits(topology.chip.capacity) == "yes":
                        seconds = of_mesh.time(one, memory.host).estimate
                        estimates[mesh, option, str(way)] = seconds
    best, least = found.plan, min(estimates.values())
    assert best.mesh in {mesh for mesh, *_ in estimates} and not best.offload
    assert estimate_step(best).fit == "fits"
    assert least <= estimate_step(best).predicted_s.estimate <= least / (1 - SAME)
    assert remats or best.remat == plan.remat
    assert best.batch == 4 * chips and found.fits and found.tried > 5


def test_the_best_mesh_has_a_third_axis_where_no_two_fit_a_pod_that_is_no_power_of_two():
    form = {"model": "llama-3.1-405b", "sequence": 8192}
    two = best_mesh(form, "tpu:v5p:8x8x8", 512).plan
    assert len(two.mesh) <= 2
    found = best_mesh(form, "tpu:v5p:16x20x28", 4480)
    assert found.fits and len(found.plan.mesh) == 3 and found.plan.batch == 4480


@pytest.mark.parametrize("target", ["gpu:h100:1", "tpu:v6e:1x1"])
def test_one_device_has_a_mesh(target):
    assert best_mesh({"model": "scaled:1"}, target, 1).plan.mesh == (("fsdp", 1),)


@pytest.mark.parametrize(
    ("changes", "sequences", "words"),
    [
        ({"model": "nobody-8b"}, 32, "model 'nobody-8b' does not exist: use"),
        ({"dcn": 1}, 32, "dcn=1 is not part of a plan: leave it out"),
        ({}, 1e9, "batch_per_device=31250000.0 is too large: use at most"),
        ({"schedule": "gpipe"}, 24, "no mesh of gpu:h100:3x8 works, which no number of stages"),
        ({}, 0.5, "no mesh of gpu:h100:4x8 works: batch_per_device=0.015625 makes 0.5 sequences"),
    ],
)
def test_what_no_mesh_would_mend_is_refused_without_one(changes, sequences, words):
    target = "gpu:h100:3x8" if "schedule" in changes else "gpu:h100:4x8"
    with pytest.raises(RequestError) as refused:
        best_mesh({"model": "llama-3.1-8b"} | changes, target, sequences)
    assert words in str(refused.value)
    assert str(refused.value).startswith("no mesh") is words.startswith("no mesh")


def test_the_best_mesh_of_a_plan_with_a_schedule_has_stages_and_keeps_it():
    form = {"model": "llama-3.1-8b", "schedule": "zb-h1"}
    plan = best_mesh(form, "tpu:v5e:4x4", 32).plan
    assert plan.stages > 1 and plan.schedule == "zb-h1"
    assert best_mesh(plan.to_json(), "tpu:v5e:8x8", 128).plan.schedule == "zb-h1"
    assert best_mesh({"model": "llama-3.1-8b"}, "tpu:v5e:4x4", 32).plan.stages == 1


def test_a_strong_sweep_has_the_best_mesh_at_each_number_of_chips_and_its_knee():
    base = experiment_of(parse_plan(BIG))
    sweep = parse_sweep(base, "chips=64,512,4096,48", "strong", "best")
    points = variants(sweep)
    rows = curves(points, list(map(estimated, points)))
    assert [row.point.experiment is not None for row in rows] == [True] * 3 + [False]
    assert {row.point.experiment.plan.batch for row in rows[:3]} == {512}
    for row in rows[:3]:
        plan = row.point.experiment.plan
        assert plan == best_mesh(plan.to_json(), plan.target, 512).plan
        assert row_json(row)["plans_tried"] == row.point.plans_tried > 1
    found = knee(rows[:3])
    assert found and found.after.efficiency < 0.8 <= found.before.efficiency
    assert found.tokens == found.after.point.experiment.plan.tokens / found.after.point.chips
    assert sweep_headline(sweep, rows).endswith(". 1 of 4 points is refused.")
    words = " ".join((sweep_headline(sweep, rows), *sweep_notes(sweep, rows)))
    assert f"It scales to {found.before.point.chips} chips" in words
    assert share_words(found.cause) in words


def test_the_part_that_grows_most_is_of_the_same_work_in_weak_scaling():
    base = experiment_of(parse_plan(BIG | {"target": "tpu:v5e:8x8", "mesh": {"fsdp": 64}}))
    points = variants(parse_sweep(base, "chips=64,4096", "weak", "best"))
    first, last = curves(points, list(map(estimated, points)))
    cause, share = grown_most(first, last)
    shares = last.numbers.shares_s
    assert cause == "wait: slices" and share_words(cause) == "waiting for stragglers"
    assert share == pytest.approx(shares[cause] / sum(shares.values()))
    assert shares[cause] > first.numbers.shares_s.get(cause, 0.0)
    assert grown_most(first, first) == ("", 0.0)
    for more, named in ((0.004, ""), (0.006, "memory")):
        total = sum(first.numbers.shares_s.values())
        longer = dict(first.numbers.shares_s)
        longer["memory"] = longer.get("memory", 0.0) + more * total
        numbers = replace(first.numbers, shares_s=longer)
        outcome = replace(first.outcome, numbers=numbers)
        after = replace(first, outcome=outcome, efficiency=1 / (1 + more))
        assert grown_most(first, after)[0] == named, "less than half a percent grows nothing"


def test_the_best_mesh_is_of_models_and_numbers_of_chips():
    for base, text in ((LAYER, "chips=8"), (experiment_of(parse_plan(BIG)), "sequence=2048")):
        with pytest.raises(RequestError, match="mesh best is for numbers of chips of a model"):
            parse_sweep(base, text, "strong", "best")


@pytest.mark.parametrize(
    ("target", "devices", "words"),
    [
        ("tpu:v5p:4x4x4", 64, "Jitter between hosts is not counted."),
        ("tpu:v5e:16x16*2", 512, "that of hosts in a slice is not counted."),
        ("gpu:h100:8x8", 64, "is counted as in published runs"),
    ],
)
def test_a_sweep_over_chips_names_what_it_does_not_count(target, devices, words):
    plan = parse_plan(BIG | {"target": target, "mesh": {"fsdp": devices}, "batch_per_device": 2})
    sweep = parse_sweep(experiment_of(plan), f"chips={plan.topology.chips}")
    points = variants(sweep)
    notes = sweep_notes(sweep, curves(points, list(map(estimated, points))))
    assert notes[0] == "1 of 1 point is an estimate, not compiled."
    assert len(notes) == 2 and words in notes[1]


def test_a_batch_that_nobody_trains_with_and_shards_that_tiles_pad_are_named():
    sweep = parse_sweep(experiment_of(parse_plan(BIG | {"batch_per_device": 2})), "chips=512,4096")
    points = variants(sweep)
    notes = " ".join(sweep_notes(sweep, curves(points, list(map(estimated, points)))))
    assert "From 4,096 chips on a step has 67 million tokens or more" in notes
    assert "At 4,096 chips embed=4,096 over 4,096 devices leaves shards of 1" in notes


LLAMA_70B = {"model": "llama-3.1-70b", "target": "tpu:v5p:4x8x8", "mesh": {"fsdp": 256}}
LLAMA_70B |= {"batch_per_device": 2, "remat": "full"}


def test_chips_over_which_weights_do_not_divide_have_another_mesh_and_say_why():
    sweep = parse_sweep(experiment_of(parse_plan(LLAMA_70B)), "chips=256,4096,8960")
    points = variants(sweep)
    rows = curves(points, list(map(estimated, points)))
    last = points[-1].experiment.plan
    assert points[0].instead is None and points[1].instead is None
    assert last.mesh != (("fsdp", 8960),) and last.batch == 2 * 8960 and rows[-1].efficiency > 0.9
    assert " in place of fsdp=8960 (full), which does not fit: " in points[-1].instead
    assert (
        "embed=8192 does not divide over fsdp=8960: parameters are replicated" in points[-1].instead
    )
    assert row_json(rows[-1])["words"] == points[-1].instead
    assert sweep_headline(sweep, rows).startswith("It scales to at least 8,960 chips")


def test_chips_that_do_not_fit_are_in_the_answer_once():
    sweep = parse_sweep(experiment_of(parse_plan(LLAMA_70B)), "chips=256,1024,48")
    points = variants(sweep)
    rows = list(curves(points, list(map(estimated, points))))
    rows[1] = replace(rows[1], outcome=Outcome("does not fit"))
    answer = sweep_headline(sweep, rows)
    assert answer.endswith(" 1,024 chips do not fit in memory. 1 of 3 points is refused.")
    assert "do not fit in memory" not in " ".join(sweep_notes(sweep, rows))
    alone = parse_sweep(sweep.base, "chips=4,8")
    points = variants(alone)
    none = curves(points, list(map(estimated, points)))
    assert sweep_headline(alone, none) == "4 and 8 chips do not fit in memory."


def test_a_total_batch_is_refused_in_sequences_a_step():
    base = experiment_of(parse_plan(LLAMA_70B))
    kept = variants(parse_sweep(base, "chips=1024,2048", "strong"))
    assert {point.refusal for point in kept} == {
        "512 sequences a step do not divide over fsdp of the mesh, resized: "
        "take the best mesh of each number of chips"
    }
    (best,) = variants(parse_sweep(base, "chips=8960", "strong", "best"))
    assert best.refusal == (
        "512 sequences a step divide over no mesh of 8,960 chips: use a power of two, or the same "
        "batch per chip"
    )


@pytest.mark.parametrize(("chips", "scaling"), cover([256, 4096, 16384], ["weak", "strong"]))
def test_each_point_of_a_sweep_has_the_plan_that_predict_finds(chips, scaling):
    form = {"model": "llama-3.1-8b", "sequence": 8192}
    (row,) = train(TrainingQuestion(form, 1e12, 512, ("v5e",), chips)).rows
    sweep = parse_sweep(experiment_of(row.plan), "chips=256,1024,4096,16384", scaling, "best")
    for point in variants(sweep):
        plan = point.experiment.plan
        asked = TrainingQuestion(form, 1e12, plan.batch, ("v5e",), point.chips)
        (own,) = train(asked).rows
        assert plan.batch == (512 if scaling == "strong" else 512 * point.chips / chips)
        assert estimated(point).numbers.step_s == own.step.predicted_s.estimate


def test_a_point_whose_estimate_may_be_too_short_is_named_with_the_reason():
    form = {"model": "llama-3.1-8b", "sequence": 8192}
    (row,) = train(TrainingQuestion(form, 1e12, 512, ("v5e",), 16384)).rows
    assert row.plan.axis_sizes["tensor"] == 32
    sweep = parse_sweep(experiment_of(row.plan), "chips=256,16384", "strong", "best")
    points = variants(sweep)
    rows = curves(points, list(map(estimated, points)))
    (words,) = doubt_words(sweep, rows)
    assert words.startswith("16,384 chips: plans that have tensor=32 may compile to ")
    assert words in sweep_notes(sweep, rows)
    known = [replace(each, outcome=replace(each.outcome, state="predicted")) for each in rows]
    assert doubt_words(sweep, known) == []
