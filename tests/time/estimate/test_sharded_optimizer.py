"""Estimates of plans whose optimizer is sharded over `data`, too."""

import pytest

from spmd_core.base import RequestError
from spmd_core.plan.sharding import by_dim
from spmd_core.search.axis_rules import maxtext
from spmd_core.time import estimate_memory, estimate_step
from spmd_core.workloads import parse_plan

PLAN = {"target": "tpu:v5p:4x4x4", "model": "llama-3.1-8b", "sequence": 4096, "batch_per_device": 1}
# sizes and mesh of Grattafiori et al., arXiv:2407.21783, table 4; its schedule is chosen here
LLAMA_3 = {
    "target": "gpu:h100:2048x8",
    "model": "llama-3.1-405b",
    "mesh": {"stage": 16, "data": 128, "tensor": 8},
    "sequence": 8192,
    "batch_per_device": 0.125,
    "microbatches": 16,
    "remat": "minimal",
    "schedule": "interleaved",
    "repeats": 7,
}


def both(**changes):
    """The plan without and with it."""
    return [
        parse_plan(PLAN | {"shard_optimizer_over_data": is_sharded} | changes)
        for is_sharded in (False, True)
    ]


def moved(plan):
    """Name -> (kind, bytes, how often) of what passes over `data`."""
    found = estimate_step(plan).collectives
    return {each.name: (each.kind, each.bytes, each.count) for each in found if "data" in each.axes}


@pytest.mark.parametrize("parameter_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mesh", [{"data": 64}, {"data": 8, "fsdp": 8}, {"data": 16, "tensor": 4}])
def test_its_state_is_divided_and_its_copies_are_not(mesh, parameter_dtype):
    plain, sharded = (
        estimate_memory(each).parts for each in both(mesh=mesh, parameter_dtype=parameter_dtype)
    )
    name, copies = "parameters and optimizer", "bfloat16 copies"
    assert plain[name] == pytest.approx(mesh["data"] * sharded[name], rel=1e-3)
    own = 4 if parameter_dtype == "float32" else 2
    assert sharded[copies] == pytest.approx(2 * plain[name] / (own + 8), rel=1e-3)
    assert plain[copies] == (sharded[copies] if own == 4 else 0)


def test_its_gradients_are_divided_too_where_none_crosses_slices():
    saved = []
    for target in ("tpu:v5p:4x4x4", "tpu:v5p:2x4x4*2"):
        plain, sharded = (estimate_memory(each) for each in both(target=target, mesh={"data": 64}))
        saved.append(plain.peak - sharded.peak)
        assert sharded.low < 0.75 * sharded.peak and sharded.high > 1.25 * sharded.peak
    assert saved[0] - saved[1] > 0.5 * plain.parts["gradients"]


def test_what_is_kept_between_steps_is_shown_over_data():
    plain, sharded = both(mesh={"data": 64})
    assert [by_dim(each)["embed"]["parameters"] for each in (plain, sharded)] == [
        *(((),), (("data",),))
    ]
    assert ["shard_optimizer_over_data: true" in maxtext(each) for each in (plain, sharded)] == [
        *(False, True)
    ]


def test_weights_are_gathered_once_however_many_microbatches_there_are():
    for count in (1, 4):
        plans = both(mesh={"data": 16, "tensor": 4}, batch_per_device=4, microbatches=count)
        plain, sharded = map(moved, plans)
        assert plain["gradient of replicas"][0] == "all-reduce"
        nbytes = plain["gradient of replicas"][1]
        assert sharded["gradient of replicas"] == ("reduce-scatter", nbytes, 32 * count)
        assert sharded["complete weights"] == ("all-gather", nbytes, 32)


def test_beside_stages_gradients_are_summed_once_too():
    plain, sharded = (
        parse_plan(LLAMA_3 | {"shard_optimizer_over_data": is_sharded})
        for is_sharded in (False, True)
    )
    layers = 8  # of the largest stage
    assert {each[2] for each in moved(plain).values()} == {16 * layers}
    assert moved(sharded).keys() == {"complete weights", "complete gradients"}
    assert {each[2] for each in moved(sharded).values()} == {layers}
    slow, fast = (estimate_step(each).predicted_s.estimate for each in (plain, sharded))
    assert slow > 1.5 * fast
    fits = [
        estimate_step(each.model_copy(update={"remat": "full"})).fits for each in (plain, sharded)
    ]
    assert fits == [False, True]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"optimizer": "muon"}, "is not beside muon, whose matrices are complete: use adamw"),
        ({"lora_rank": 8}, "is not beside frozen weights"),
        (
            {"model": "gpt-oss-20b", "mesh": {"data": 64}, "layers": 2, "sizes": {"embed": 1440}},
            "does not divide embed=1440 of .* over 64 shards: use data=32, or leave it out",
        ),
        (
            {"model": "gpt-oss-20b", "target": "tpu:v5p:4x8x8", "mesh": {"data": 2, "fsdp": 128}},
            "does not divide embed=2880 of .* over 256 shards: leave it out",
        ),
    ],
)
def test_what_it_is_not_beside_is_refused_with_what_is(changes, said):
    with pytest.raises(RequestError, match=said):
        parse_plan(PLAN | {"mesh": {"data": 64}, "shard_optimizer_over_data": True} | changes)


def test_without_the_axis_it_means_nothing():
    plain, given = both(mesh={"fsdp": 64})
    assert plain == given
