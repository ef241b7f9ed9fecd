"""The nearest plan that fits: what is given up, in which order, and that it is a plan that fits."""

import pytest

from spmd_core.advice import arguments, nearest_words
from spmd_core.machine import get_topology
from spmd_core.plan import PRESETS
from spmd_core.time import estimate_step, nearest_fit
from spmd_core.workloads import parse_plan
from tests.cover import cover

V5P = {
    "target": "tpu:v5p:4x4x4",
    "model": "llama-3.1-70b",
    "mesh": {"fsdp": 64},
    "batch_per_device": 2,
    "sequence": 8192,
}
V5E = {
    "target": "tpu:v5e:16x16",
    "model": "llama-3.1-8b",
    "mesh": {"fsdp": 256},
    "batch_per_device": 1,
}


def nearest(fields):
    plan = parse_plan(fields)
    assert not estimate_step(plan).fits
    return plan, nearest_fit(plan)


CASES = {
    "rematerialization": (V5P | {"remat": "minimal"}, "--remat full"),
    "gradients of microbatches added up": (
        V5P | {"batch_per_device": 8, "sequence": 2048, "save": ["mlp_up"]},
        "--microbatches 2",
    ),
    "nothing saved": (
        V5P | {"batch_per_device": 1, "sequence": 16384, "save": ["mlp_up"]},
        '--save ""',
    ),
    "sharded, not replicated": (
        V5E | {"mesh": {"data": 16, "fsdp": 16}, "batch_per_device": 1, "model": "llama-2-70b"},
        "--mesh fsdp=256",
    ),
    "slices stay on data": (
        {
            "target": "tpu:v5e:16x16*2",
            "model": "llama-2-70b",
            "mesh": {"data": 8, "fsdp": 64},
            "batch_per_device": 1,
        },
        "--mesh data=2,fsdp=256",
    ),
    "offloaded": (
        {
            "target": "tpu:v5e:16x16*2",
            "model": "scaled:64",
            "batch_per_device": 4,
            "mesh": {"data": 2, "fsdp": 256},
            "sequence": 3072,
        },
        "--offload input",
    ),
    "fewer sequences": (V5P | {"batch_per_device": 64}, "--batch-per-device 5"),
    "each sequence over devices": (
        V5E | {"sequence": 131072},
        "--mesh fsdp=32,sequence=8 --batch-per-device 0.125",
    ),
    "more chips": (
        {
            "target": "tpu:v5e:4x4",
            "model": "llama-2-70b",
            "mesh": {"fsdp": 16},
            "batch_per_device": 2,
        },
        "--target tpu:v5e:8x16 --mesh fsdp=128 --offload input",
    ),
    "more than a slice": (
        V5E | {"model": "llama-3.1-405b"},
        "--target tpu:v5e:16x16*4 --mesh fsdp=256,tensor=4 --batch-per-device 0.5",
    ),
    "sharded over the network": (
        {
            "target": "gpu:h100:8x8",
            "model": "llama-3.1-70b",
            "mesh": {"data": 8, "fsdp": 8},
            "batch_per_device": 2,
            "optimizer": "muon",
        },
        "--mesh fsdp=64",
    ),
    "sharded over the network, in fewer parts than there are domains": (
        {
            "target": "gpu:h100:1024x8",
            "model": "llama-3.1-405b",
            "mesh": {"stage": 8, "data": 128, "tensor": 8},
            "batch_per_device": 0.125,
            "sequence": 8192,
            "optimizer": "muon",
        },
        "--mesh stage=8,fsdp=128,tensor=8",
    ),
    "the optimizer's state sharded alone": (
        {
            "target": "gpu:h100:2048x8",
            "model": "llama-3.1-405b",
            "mesh": {"stage": 16, "data": 128, "tensor": 8},
            "batch_per_device": 0.125,
            "sequence": 8192,
            "microbatches": 16,
        },
        "--shard-optimizer-over-data",
    ),
    "more domains": (
        {
            "target": "gpu:h100:8",
            "model": "llama-3.1-70b",
            "mesh": {"fsdp": 8},
            "batch_per_device": 2,
        },
        "--target gpu:h100:4x8 --mesh fsdp=32",
    ),
    "more domains, whose layers are sharded too": (
        {
            "target": "gpu:h100:8",
            "model": "kimi-k2-1t",
            "mesh": {"fsdp": 8},
            "batch_per_device": 1,
        },
        "--target gpu:h100:64x8 --mesh fsdp=64,tensor=8",
    ),
    "a power of two, of more domains than the TPUs have slices": (
        V5P | {"target": "gpu:h100:1250x8", "model": "llama-3.1-405b"} | {"mesh": {"data": 10000}},
        "--target gpu:h100:2048x8 --mesh fsdp=16384 --offload input",
    ),
    "domains of which not all GPUs are used": (
        {
            "target": "gpu:gb200:8x72",
            "model": "deepseek-v3-671b",
            "mesh": {"data": 9, "expert": 64},
            "batch_per_device": 1,
        },
        "--target gpu:gb200:16x64 --mesh data=16,expert=64 --shard-optimizer-over-data",
    ),
    "as much of data as divides the weights": (
        {
            "target": "tpu:v5p:16x20x28",
            "model": "llama-3.1-405b",
            "mesh": {"data": 140, "sequence": 64},
            "batch_per_device": 0.5,
            "sequence": 8192,
        },
        "--mesh data=35,fsdp=4,sequence=64",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_least_that_is_given_up_comes_first(case):
    fields, given = CASES[case]
    plan, near = nearest(fields)
    assert arguments(plan, near.plan) == given


@pytest.mark.parametrize(
    ("target", "model"),
    cover(("tpu:v2:4x4", "tpu:v5e:4x4*2", "tpu:v5p:2x2x1", "tpu:tpu7x:2x2x1"), PRESETS),
)
def test_what_is_found_fits_on_the_same_generation_and_trains_the_same_model(target, model):
    devices = get_topology(target).devices
    plan = parse_plan(
        {
            "target": target,
            "model": model,
            "mesh": {"fsdp": devices},
            "batch_per_device": 64,
            "remat": "none",
        }
    )
    near = nearest_fit(plan)
    if near is None:
        assert "is sure to fit, however many chips" in nearest_words(plan, near)
        return
    found, before = near.plan, plan.topology
    assert near.prediction == estimate_step(found) and near.prediction.fits
    assert found.topology.chip == before.chip and found.topology.chips >= before.chips
    assert (found.size, found.sequence, found.parameter_dtype) == (
        plan.size,
        plan.sequence,
        plan.parameter_dtype,
    )
    assert found.batch_per_device <= plan.batch_per_device
    assert "Nearest that fits: " in nearest_words(plan, near)


def test_more_chips_are_of_one_generation_and_come_in_order():
    found = list(get_topology("tpu:v5e:4x8").larger())
    one = ["v5e:8x8", "v5e:8x16", "v5e:16x16"]
    assert [each.name for each in found] == [*one, *(f"v5e:16x16*{2**n}" for n in range(1, 9))]
    of_gpus = [each.name for each in get_topology("gpu:h100:4").larger()]
    assert of_gpus[:3] == ["gpu:h100:8", "gpu:h100:2x8", "gpu:h100:4x8"]
    two = [each.chips for each in get_topology("tpu:v5e:8x16*2").larger()]
    assert two == sorted(two) and two[0] == 512 and two[-1] == 256 * 256


def test_where_nothing_fits_it_is_said_and_for_which_chip():
    plan, near = nearest(
        {
            "target": "tpu:v5e:4x4",
            "model": "llama-3.1-405b",
            "mesh": {"fsdp": 16},
            "batch_per_device": 1,
            "sequence": 131072,
        }
    )
    assert near is None
    words = nearest_words(plan, near)
    assert words.startswith("Nothing on TPU v5e is sure to fit, however many chips")
    assert max(len(each.split()) for each in words.split(". ")) <= 25


def test_the_sentence_says_each_change_memory_and_time():
    plan, near = nearest(CASES["more chips"][0])
    assert nearest_words(plan, near) == (
        "Nearest that fits: 128 chips (v5e:8x16); mesh fsdp=128; offload block inputs "
        "(5.0 GiB per device on the host). 13.1 GiB of 15.8 GiB per device, about 16 s a step."
    )


@pytest.mark.parametrize("batch", [1, 4])
def test_a_plan_that_fits_by_the_estimate_alone_has_another_one_offered(batch):
    plan = parse_plan(V5E | {"offload": ["input"], "batch_per_device": batch})
    assert estimate_step(plan).fits
    near = nearest_fit(plan)
    assert near and near.plan != plan and near.prediction.fits
    assert arguments(plan, near.plan)
