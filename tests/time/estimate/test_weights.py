"""Transfers of weights: what plans of one mesh have in common is worked out once for all of them."""

from contextlib import suppress

import pytest

from spmd_core.base import RequestError
from spmd_core.time.estimate import weight_transfers as module
from spmd_core.time.estimate.shapes import shapes_of
from spmd_core.workloads import parse_plan

DENSE = {"target": "tpu:v5e:16x16", "model": "scaled:16", "mesh": {"data": 4, "fsdp": 64}}
SPARSE = DENSE | {"model": "mixtral-8x7b", "mesh": {"data": 4, "fsdp": 64}}
GPUS = DENSE | {"target": "gpu:h100:32x8"}
CHANGES = [
    {"batch_per_device": 2},
    {"batch_per_device": 4, "microbatches": 4},
    {"target": "tpu:v6e:16x16"},
    {"mesh": {"data": 16, "fsdp": 16}},
    {"mesh": {"data": 16, "fsdp": 16}, "device_order": "plain"},
    {"mesh": {"fsdp": 64, "data": 4}},
    {"mesh": {"data": 2, "fsdp": 64, "tensor": 2}},
    {"optimizer": "muon"},
    {"shard_optimizer_over_data": True},
    {"matmul_dtype": "float8"},
    {"matmul_dtype": "int8", "scales": "static"},
    {"logit_parts": 2},
    {"lora_rank": 8},
    {"layers": 8},
    {"dropless": True},
    {"dropless": True, "fsdp_on_experts": True},
    {"target": "tpu:v5e:4x4", "mesh": {"data": 4, "fsdp": 4}},
    # fewer rows of experts than weights
    {"target": "tpu:v5e:4x4", "mesh": {"data": 4, "fsdp": 4}, "sequence": 128},
]


def moved(plan):
    return module.weight_transfers(shapes_of(plan), {}, frozenset())


@pytest.mark.parametrize("base", [DENSE, SPARSE, GPUS])
def test_weights_of_a_plan_move_alike_whatever_was_estimated_before(base):
    plans, alone = [], []
    for change in CHANGES:
        with suppress(RequestError):  # of another kind of chip, or of models with experts
            plans.append(parse_plan({"batch_per_device": 1} | base | change))
    # a microbatch of the first, which divides over no `fsdp`
    plans.append(plans[0].model_copy(update={"batch_per_device": 4 / 256}))
    for plan in plans:
        module._without_rings.cache_clear()
        alone.append(moved(plan))
    assert len(plans) > 10 and len(set(alone)) > 5
    module._without_rings.cache_clear()
    assert [moved(plan) for plan in plans] == alone
    found = module._without_rings.cache_info()
    assert found.hits, "else nothing was in common"
