"""The best plan of chips and a batch, against those of other batches of as many tokens."""

import pytest

from spmd_core.base import RequestError
from spmd_core.search import REMATS, SAME, question_for
from spmd_core.sweeps import best_mesh, first_look
from spmd_core.time import estimate_memory, estimate_step
from spmd_core.workloads import changed_plan

pytestmark = pytest.mark.slow


def planned(model, sequence, target, batch):
    return best_mesh({"model": model, "sequence": sequence}, target, batch, REMATS)


def is_sure(plan):
    return estimate_memory(plan).fits(plan.topology.chip.capacity) == "yes"


def each_token_s(plan):
    return estimate_step(plan).predicted_s.estimate / plan.tokens


def repeated(plan, times):
    """So many times the sequences in so many times the microbatches; None where it does not fit."""
    change = {"batch_per_device": times * plan.batch_per_device, "microbatches": times * plan.parts}
    try:
        more = changed_plan(plan, change)
    except RequestError:
        return None
    return more if is_sure(more) else None


@pytest.mark.parametrize(
    ("model", "sequence", "target", "batches"),
    [
        ("llama-3.1-70b", 8192, "tpu:v5p:4x4x4", (64, 128, 512)),
        ("llama-3.1-8b", 8192, "tpu:v5e:16x16", (256, 512, 1024)),
        ("llama-3.1-405b", 8192, "gpu:h100:64x8", (512, 1536)),
        ("mixtral-8x7b", 4096, "tpu:v5e:16x16", (128, 384, 1536)),
        ("qwen3-30b-a3b", 4096, "tpu:tpu7x:4x4x4", (128, 512)),
    ],
)
def test_no_larger_batch_takes_longer_for_each_token_than_a_smaller_in_more_parts(
    model, sequence, target, batches
):
    best = {each: planned(model, sequence, target, each).plan for each in batches}
    compared = 0
    for few, plan in best.items():
        for many, other in best.items():
            if many <= few or many % few or not is_sure(plan):
                continue
            if same := repeated(plan, many // few):
                compared += 1
                assert each_token_s(same) <= each_token_s(plan) * (1 + 1e-9)
                assert each_token_s(other) <= each_token_s(same) * (1 + SAME), (few, many)
    assert compared


@pytest.mark.parametrize(
    ("model", "target", "batch"),
    [
        ("llama-3.1-405b", "tpu:v5e:16x16*4", 512),
        ("llama-3.1-70b", "tpu:v5p:4x4x4", 512),
        ("mixtral-8x7b", "gpu:h100:64x8", 512),
    ],
)
def test_a_plan_that_is_sure_to_fit_is_found_first_by_predict_and_by_find(model, target, batch):
    best = planned(model, 8192, target, batch)
    assert best.fits and is_sure(best.plan)
    look = first_look(question_for(best.plan))
    assert look.winner.fits == "yes"
    assert look.winner.seconds == pytest.approx(each_token_s(best.plan) * best.plan.tokens)
