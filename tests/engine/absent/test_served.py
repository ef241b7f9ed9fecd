"""Steps of serving, compiled for absent chips: what they keep in memory, what passes between devices."""

import pytest

from spmd_core.base import RequestError, Settings
from spmd_core.experiment import parse_experiment, step_experiment
from spmd_core.plan import ServedPlan
from tests.labs import lab_of_module

pytest.importorskip("libtpu")

MODEL = "own(layers=4,embed=512,heads=8,kv_heads=2,head_dim=128,mlp=1024,vocab=4096)"
REQUESTS, SLOTS = 16, 1024
lab = lab_of_module(Settings(predict_timeout_s=500, idle_s=300))


def plan_of(mesh=(("data", 2), ("tensor", 4)), target="tpu:v5e:2x4", **more):
    return ServedPlan(model=MODEL, target=target, mesh=mesh, **more)


def compiled(lab, plan, **more):
    run = lab.submit(step_experiment(plan, REQUESTS, SLOTS, **more))
    status = lab.wait(run, 500)
    assert status.state == "succeeded", (status.error, status.stderr_tail)
    return lab.result(run).strategies["auto"]


@pytest.mark.newer_whole
@pytest.mark.parametrize(("chunk", "kv_dtype"), [(1, "bf16"), (256, "fp8")])
def test_a_step_keeps_one_cache_and_repeats_key_heads_that_are_fewer_than_shards(
    lab, chunk, kv_dtype
):
    plan = plan_of(kv_dtype=kv_dtype)
    found = compiled(lab, plan, chunk=chunk)
    held = found.prediction.memory_bytes
    # of 4 layers, keys and values: half of the requests, one of 2 key heads of each device of 4
    cache = 4 * 2 * REQUESTS // 2 * SLOTS * 128 * (2 if kv_dtype == "bf16" else 1)
    weights = plan.size.varied(kv_heads=4).parameters * 2
    assert held.alias == pytest.approx(cache, rel=0.01)
    assert cache < held.argument < cache + weights
    scores = REQUESTS // 2 * 2 * chunk * SLOTS * 4  # of one device's heads, in float32
    assert held.peak - held.argument < 4 * scores + 2**22
    assert {axis for each in found.collectives for axis in each.axes} == {"data", "tensor"}
    least = held.argument / plan.topology.chip.hbm_bandwidth / 2
    assert least < found.predicted_s.estimate


@pytest.mark.newer_whole
def test_experiments_of_steps_are_equal_where_their_programs_are():
    first = step_experiment(plan_of(), REQUESTS, SLOTS)
    assert parse_experiment(first.to_json()) == first
    assert first.served.plan.replicas == 1 and first.tokens == REQUESTS
    with pytest.raises(RequestError, match="requests=3 do not divide over 2 shards: use 2"):
        step_experiment(plan_of(), 3, SLOTS)
    with pytest.raises(RequestError, match="chunk=2048 is more than the cache has room for"):
        step_experiment(plan_of(), REQUESTS, SLOTS, chunk=2048)
