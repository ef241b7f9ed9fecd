"""Steps in parts: microbatches that are added up, and pipelines, against a pass over the batch."""

from functools import lru_cache

import pytest

from spmd_core.base import RequestError
from spmd_core.plan import SCHEDULES
from spmd_core.time import MeshEstimates, estimate_memory, estimate_step, pipeline_of
from spmd_core.time.estimate import in_parts
from spmd_core.workloads import parse_plan

BASE = {
    "target": "tpu:v5p:4x4x4",
    "model": "llama-3.1-70b",
    "batch_per_device": 2,
    "sequence": 8192,
    "mesh": {"fsdp": 64},
}
PIPELINE = {"mesh": {"stage": 4, "fsdp": 16}}


def plan(**changes):
    return parse_plan(BASE | changes)


def seconds(found):
    return estimate_step(found).predicted_s.estimate


def test_the_stages_of_a_plan_are_worked_out_once_for_memory_time_and_schedule(monkeypatch):
    worked_out = []
    count = in_parts._stages.__wrapped__
    monkeypatch.setattr(
        in_parts, "_stages", lru_cache(8)(lambda *given: worked_out.append(given) or count(*given))
    )
    one = plan(**PIPELINE, microbatches=8)
    estimates = MeshEstimates(one)
    assert estimates.time(one, estimates.memory(one).host).estimate == seconds(one)
    assert pipeline_of(one) and worked_out == [(one, None)]


def test_gradients_that_are_added_up_take_as_long_and_hold_less_of_the_batch():
    whole, halves = plan(), plan(microbatches=2)
    assert seconds(whole) <= seconds(halves) < 1.03 * seconds(whole)
    kept = "kept by the forward pass"
    one, two = (estimate_memory(each).parts for each in (whole, halves))
    assert two[kept] == pytest.approx(one[kept] / 2)
    assert two["gradients that are added up"] == pytest.approx(one["parameters and optimizer"] / 3)
    gathers = [
        sum(each.count for each in estimate_step(found).collectives if each.kind == "all-gather")
        for found in (whole, halves)
    ]
    assert gathers[1] == 2 * gathers[0]
    assert "wait: stages" not in estimate_step(halves).shares_s


_MOE = {"model": "mixtral-8x7b", "sequence": 4096}


@pytest.mark.parametrize("remat", ["none", "minimal", "full"])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"microbatches": 2},
        {"remat": "full", "offload": ("input",)},
        {**PIPELINE, "microbatches": 8},
        {"lora_rank": 16},
        _MOE,
        {**_MOE, "microbatches": 2},
        {**_MOE, "target": "tpu:v6e:4x8", "mesh": {"fsdp": 32}, "batch_per_device": 4},
        {**_MOE, "mesh": {"expert": 8, "fsdp": 8}},
        {"model": "gemma-2-9b", "target": "tpu:v5e:8x8", "batch_per_device": 1},
        {"model": "gemma-2-9b", "target": "gpu:h100:8x8"},
        {"target": "tpu:v5e:8x8*2", "mesh": {"data": 2, "fsdp": 64}},
    ],
    ids=lambda changed: ",".join(changed),
)
def test_the_parts_of_memory_are_those_live_at_the_peak(changed, remat):
    memory = estimate_memory(plan(**{"remat": remat, **changed}))
    assert sum(memory.parts.values()) == pytest.approx(memory.peak, rel=1e-6)
    assert min(memory.parts.values()) >= 0


@pytest.mark.parametrize("parted", [{"microbatches": 2}, {**PIPELINE, "microbatches": 8}])
@pytest.mark.parametrize("optimizer", ["momentum", "muon"])
def test_shares_of_a_step_in_parts_have_one_update_and_sum_to_it(optimizer, parted):
    of_muon = [each for each in _collectives(parted, optimizer) if "complete" in each.name]
    assert bool(of_muon) == (optimizer == "muon")
    step = estimate_step(plan(optimizer=optimizer, **parted))
    assert min(step.shares_s.values()) >= 0
    assert sum(step.shares_s.values()) == pytest.approx(step.predicted_s.estimate, rel=0.001)
    assert step.bounds_s.overlapped <= step.predicted_s.estimate


def test_an_update_follows_the_last_microbatch_alone():
    more = [seconds(plan(optimizer="muon", microbatches=parts)) for parts in (1, 2)]
    less = [seconds(plan(optimizer="momentum", microbatches=parts)) for parts in (1, 2)]
    assert more[1] - less[1] == pytest.approx(more[0] - less[0], rel=0.01)
    counts = [
        sum(
            each.count
            for each in _collectives({"microbatches": parts}, "muon")
            if each.name.startswith("complete")
        )
        for parts in (1, 2)
    ]
    assert counts[0] == counts[1] > 0


def _collectives(parted, optimizer):
    return estimate_step(plan(optimizer=optimizer, **parted)).collectives


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_pipeline_takes_its_slowest_stage_and_less_than_the_bubble_of_that(name):
    found = plan(**PIPELINE, schedule=name, microbatches=8)
    simulated = pipeline_of(found)
    busy = [simulated.seconds - idle for idle in simulated.idle]
    slowest = max(busy)
    # of four equal stages as slow as the slowest, hops and all
    bubble = 3 * slowest / 8
    assert slowest < simulated.seconds < 1.01 * (slowest + bubble)
    step = estimate_step(found)
    assert step.predicted_s.estimate > simulated.seconds
    assert sum(step.shares_s.values()) == pytest.approx(step.predicted_s.estimate)
    (hop,) = [each for each in step.collectives if each.axes == ("stage",)]
    assert (hop.kind, hop.count) == ("collective-permute", 16)
    assert hop.bytes == 8192 * 8192 * 2  # one sequence of a microbatch, embed in bfloat16


def test_a_mesh_without_stages_has_no_schedule():
    assert plan(schedule="gpipe", repeats=2) == plan()


def test_gpipe_holds_every_microbatch_and_1f1b_one_for_each_stage():
    peaks = {
        name: estimate_memory(plan(**PIPELINE, schedule=name, microbatches=8)).parts
        for name in ("gpipe", "1f1b")
    }
    kept, others = (
        [peaks[name][part] for name in ("gpipe", "1f1b")]
        for part in ("kept by the forward pass", "other microbatches")
    )
    assert others == pytest.approx([7 * kept[0], 3 * kept[1]])


def test_the_hop_between_slices_goes_over_dcn():
    found = plan(target="tpu:v5p:4x4x4*2", mesh={"stage": 2, "fsdp": 64})
    (hop,) = [each for each in estimate_step(found).collectives if each.axes == ("stage",)]
    near = plan(mesh={"stage": 2, "fsdp": 32})
    (over_ici,) = [each for each in estimate_step(near).collectives if each.axes == ("stage",)]
    assert hop.route == "dcn" and over_ici.route.startswith("ici ")
    assert hop.seconds > over_ici.seconds


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"mesh": {"stage": 64}, "layers": 32},
            "stage=64 makes 64 runs of the 32 layers of llama-3.1-70b: use stage=32",
        ),
        (
            PIPELINE | {"schedule": "circular", "repeats": 64},
            "repeats=64 makes 256 runs of the 80 layers of llama-3.1-70b: use repeats=20 or fewer",
        ),
        (
            PIPELINE | {"microbatches": 5},
            "microbatches=5 does not divide the sequences of each shard of the batch (8): use 4",
        ),
        (
            PIPELINE | {"schedule": "circular", "microbatches": 2},
            "microbatches=2 is fewer than stage=4, and a circular pipeline would wait for itself: "
            "use 4",
        ),
        (
            PIPELINE | {"schedule": "circular", "batch_per_device": 0.75},
            "microbatches=1 is fewer than stage=4, and a circular pipeline would wait for itself: "
            "use 4 or more, and as many sequences in each shard of the batch",
        ),
        (
            {"model": "qwen3-next-80b-a3b", "mesh": {"stage": 16, "fsdp": 4}},
            "stage=16 cuts qwen3-next-80b-a3b into stages of other kinds of layers: use stage=4",
        ),
        (
            PIPELINE | {"model": "deepseek-v3-671b", "sequence": 4096},
            "stage=4 needs layers that are all alike, and deepseek-v3-671b has others: use stage=1",
        ),
    ],
)
def test_parts_that_there_are_not_are_refused(changes, words):
    with pytest.raises(RequestError) as refused:
        plan(**changes)
    assert str(refused.value) == words


@pytest.mark.parametrize(("layers", "is_cut"), [(128, True), (126, True), (125, False)])
def test_the_embedding_and_the_logits_may_be_runs_of_an_interleaved_pipeline(layers, is_cut):
    given = {"layers": layers, "mesh": {"stage": 16, "fsdp": 4}, "schedule": "interleaved"}
    given |= {"batch_per_device": 1, "microbatches": 16}
    assert plan(**given, repeats=7).repeats == 7
    if is_cut:
        eight, seven = (pipeline_of(plan(**given, repeats=each)) for each in (8, 7))
        assert eight.bubble < seven.bubble
        return
    with pytest.raises(RequestError, match="stage=16 makes 128 runs of the 125 layers"):
        plan(**given, repeats=8)


@pytest.mark.parametrize("layers", [8, 12, 61, 63])
@pytest.mark.parametrize("stages", [16, 64])
def test_the_stages_of_a_refusal_are_a_plan(stages, layers):
    given = {"layers": layers, "batch_per_device": 1}
    if stages > layers:
        with pytest.raises(RequestError) as refused:
            plan(**given, mesh={"stage": stages, "fsdp": 64 // stages})
        stages = int(str(refused.value).rpartition("stage=")[2])
    assert plan(**given, mesh={"stage": stages, "fsdp": 64 // stages}).stages == stages


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize("count", [1, 3, 7, 30])
def test_the_microbatches_of_a_refusal_are_a_plan(schedule, repeats, count):
    given = PIPELINE | {"schedule": schedule, "repeats": repeats}
    try:
        found = plan(**given, microbatches=count)
    except RequestError as error:
        if "repeats" in str(error):
            return
        near = int(str(error).rpartition("use ")[2])
        found = plan(**given, microbatches=near)
    assert found._sequences % found.parts == 0
