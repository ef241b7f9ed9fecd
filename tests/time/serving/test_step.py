"""The time of a serving step: never below what it reads, and each part by what it is made of."""

import random

import pytest

from spmd_core.base import RequestError
from spmd_core.machine import get_topology
from spmd_core.plan import PRESETS, ServedPlan
from spmd_core.plan.hybrid_presets import HYBRID
from spmd_core.time import StepLoad, check_dtypes, pool_of, step_time, weight_bytes
from spmd_core.time.serving.held import products

TARGETS = (
    "tpu:v5e:2x4",
    "tpu:v6e:2x4",
    "tpu:v5p:2x2x2",
    "tpu:tpu7x:2x2x1",
    "gpu:h100:8",
    "gpu:b200:8",
)
DTYPES = ("bf16", "fp8", "int8")


def plans(count, seed=0):
    """Plans drawn at random that divide."""
    chance = random.Random(seed)
    while count:
        target = chance.choice(TARGETS)
        devices = chance.choice([n for n in (1, 2, 4, 8) if n <= get_topology(target).devices])
        tensor = chance.choice([n for n in (1, 2, 4, 8) if devices % n == 0])
        model = chance.choice(
            [name for name in sorted(PRESETS) if not PRESETS[name].beyond_windows]
        )
        expert = devices if PRESETS[model].experts % devices == 0 and chance.random() < 0.5 else 1
        mesh = (("data", devices // tensor), ("tensor", tensor), ("expert", expert))
        plan = ServedPlan(
            model=model,
            target=target,
            mesh=mesh,
            weights_dtype=chance.choice(DTYPES),
            kv_dtype=chance.choice(DTYPES),
        )
        try:
            plan.check()
            check_dtypes(plan)
        except RequestError:
            continue
        count -= 1
        yield plan, chance


def least_s(plan, batch, context):
    """Seconds of reading, at the peak, one device's share of weights that are touched and of cache."""
    size, devices = plan.size, plan.devices
    width = 2 if plan.weights_dtype == "bf16" else 1
    experts, layers = size.experts, size.layers - size.dense_layers
    visited = experts * (1 - (1 - size.experts_per_token / experts) ** batch)
    matrices = 3 if size.gated else 2
    mlps = layers * (visited * size.mlp + size.shared_mlp) + size.dense_layers * size.dense_mlp
    heads = size.heads * (size.head_dim + size.value_size)
    projections = size.embed * heads * size.layers / (2 if size.kv_rank else 1)
    read = width * (matrices * size.embed * mlps / devices)
    if not size.kv_rank:
        read += width * projections / plan.along("tensor")
    row = size.kv_rank + size.rope_dim or size.kv_heads * (size.head_dim + size.value_size)
    kept = sum(min(context, window or context) for window in (kind.window for kind in size.kinds))
    among = plan.along("data") * (1 if size.kv_rank else plan.along("tensor"))
    read += batch / among * kept * row * (2 if plan.kv_dtype == "bf16" else 1)
    return read / plan.topology.chip.device_hbm_bandwidth


def test_no_step_is_faster_than_reading_what_it_touches():
    for plan, chance in plans(300):
        batch, context = chance.choice((1, 4, 64, 512)), chance.choice((128, 1536, 30000))
        step = step_time(plan, StepLoad(batch, context))
        least = least_s(plan, batch, context)
        assert step.seconds > step.least >= 0.999 * least, plan
        assert step.estimate.low >= step.least, plan


def test_weights_are_those_of_the_model_once():
    for name in ("qwen3-8b", "qwen3-32b", "qwen3-30b-a3b", "llama-3.1-70b", "mixtral-8x7b"):
        plan = ServedPlan(model=name, target="tpu:v6e:2x2", mesh=(("tensor", 4),))
        whole = 2 * PRESETS[name].parameters
        assert 4 * weight_bytes(plan) == pytest.approx(whole, rel=0.002), name


def test_tensor_above_the_key_heads_repeats_the_cache():
    pools = {
        tensor: pool_of(
            ServedPlan(model="qwen3-30b-a3b", target="tpu:tpu7x:2x2x1", mesh=(("tensor", tensor),)),
            2048,
        )
        for tensor in (4, 8)
    }
    per_byte = {tensor: pool.tokens / (8 * pool.cache) for tensor, pool in pools.items()}
    assert per_byte[4] / 2 == pytest.approx(per_byte[8], rel=0.01)


@pytest.mark.parametrize(
    ("model", "gpus", "dtype", "gib"),
    [
        ("llama-3.1-8b", 1, "bf16", 51.38),
        ("qwen3-32b", 1, "bf16", 4.45),
        ("llama-3.1-70b", 2, "fp8", 32.0),
    ],
)
def test_a_pool_on_gpus_is_what_vllm_logs(model, gpus, dtype, gib):
    """llm-d-benchmark, empirical-vllm-memory-results.md: H100, defaults of vLLM."""
    target, mesh = f"gpu:h100:{gpus}", (("tensor", gpus),)
    plan = ServedPlan(model=model, target=target, mesh=mesh, weights_dtype=dtype)
    assert pool_of(plan, 2048).cache / 2**30 == pytest.approx(gib, abs=0.1)


@pytest.mark.parametrize(("gpu", "most"), [("a100", 256), ("h200", 1024)])
def test_a_shard_of_a_gpu_runs_no_more_requests_than_its_engine(gpu, most):
    plan = ServedPlan(model="gpt-oss-20b", target=f"gpu:{gpu}:2", mesh=(("data", 2),))
    assert pool_of(plan, 64).requests == 2 * most and pool_of(plan, 64).tokens > 64 * 2 * most


def test_a_prompt_of_one_shard_costs_all_shards_on_tpus():
    for target, is_padded in (("tpu:v6e:2x2", True), ("gpu:h100:4", False)):
        plan = ServedPlan(model="qwen3-8b", target=target, mesh=(("data", 4),))
        one = step_time(plan, StepLoad(prompt=1024, prompts=1)).parts["matmul"]
        each = step_time(plan, StepLoad(prompt=4096, prompts=4)).parts["matmul"]
        assert (one == pytest.approx(each, rel=0.01)) is is_padded


def test_a_prompt_is_written_to_the_cache_token_by_token():
    plan = ServedPlan(model="qwen3-8b", target="tpu:v6e:2x2", mesh=(("tensor", 4),))
    written = step_time(plan, StepLoad(prompt=2048)).parts["cache"]
    assert written == pytest.approx(36 * 94e-6)  # sglang-jax#137, of each layer


def test_a_latent_cache_is_on_each_device_of_tensor():
    latent = {
        mesh: pool_of(
            ServedPlan(model="deepseek-v3-671b", target="tpu:tpu7x:2x4x4", mesh=mesh), 4096
        )
        for mesh in ((("tensor", 64), ("expert", 64)), (("data", 64), ("expert", 64)))
    }
    over_tensor, over_data = (pool.tokens / pool.cache for pool in latent.values())
    assert over_data == pytest.approx(64 * over_tensor, rel=0.001)


def test_a_window_bounds_the_cache():
    plan = ServedPlan(model="gpt-oss-20b", target="tpu:v6e:2x2", mesh=(("tensor", 4),))
    short, long = (
        step_time(plan, StepLoad(64, context)).parts["cache"] for context in (4096, 8192)
    )
    assert 1.2 < long / short < 2, "every other layer has a window of 128"


@pytest.mark.parametrize(
    ("mesh", "words"),
    [
        ((("tensor", 3),), "does not divide the 8 devices"),
        ((("fsdp", 8),), "is not one that a served model is sharded over"),
        ((("tensor", 8), ("expert", 3)), "does not divide the 8 devices of a replica"),
        ((("tensor", 8), ("expert", 256)), "is above the 128 experts of qwen3-30b-a3b: use 8"),
        ((("tensor", 4), ("tensor", 2)), "has an axis twice"),
    ],
)
def test_a_mesh_that_does_not_divide_is_refused(mesh, words):
    plan = ServedPlan(model="qwen3-30b-a3b", target="tpu:v6e:2x4", mesh=mesh)
    with pytest.raises(RequestError, match=words):
        plan.check()


@pytest.mark.parametrize(
    ("target", "dtype", "fits"),
    [("v5p:2x2x2", "fp8", False), ("v6e:2x2", "fp8", True), ("tpu7x:2x2x1", "int8", False)],
)
def test_a_dtype_that_a_chip_lacks_is_refused(target, dtype, fits):
    plan = ServedPlan(
        model="qwen3-8b", target=f"tpu:{target}", mesh=(("tensor", 4),), weights_dtype=dtype
    )
    if fits:
        check_dtypes(plan)
        return
    with pytest.raises(RequestError, match=f"weights in {dtype} is not for TPU"):
        check_dtypes(plan)


@pytest.mark.parametrize("size", HYBRID, ids=lambda size: size.name)
def test_layers_of_several_kinds_have_the_weights_of_the_model(size):
    plan = ServedPlan(model=size.name, target="tpu:tpu7x:2x2x1", mesh=(("data", 1), ("tensor", 2)))
    plan.check()
    assert 2 * weight_bytes(plan) == pytest.approx(2 * size.parameters, rel=0.01)
    step = step_time(plan, StepLoad(64, 4096, 1024, 512, 2))
    assert step.seconds > step.least > 0 and all(each >= 0 for each in step.parts.values())


def test_a_state_is_as_large_however_long_the_sequence():
    size = next(each for each in HYBRID if each.name == "qwen3.5-35b-a3b")
    plan = ServedPlan(model=size.name, target="tpu:tpu7x:2x2x1", mesh=(("tensor", 2),))
    states, attentions = (
        sum(m == kind for m in size.mixers) * 10 for kind in ("delta", "attention")
    )
    kept = [
        pool.cache * 2 * 4 / pool.tokens * length
        for length in (1024, 8192)
        for pool in [pool_of(plan, length)]
    ]
    of_tokens = attentions * 2 * 2 * (256 + 256) * 1  # two devices, each with one key head
    of_states = states * 4 * size.state_heads * size.state_dim * size.state_value
    for length, found in zip((1024, 8192), kept, strict=True):
        assert found == pytest.approx(of_states + length * of_tokens, rel=0.01)


def test_experts_that_do_not_divide_have_copies_and_mxfp4_is_of_experts_alone():
    wide = (("data", 96), ("expert", 96))
    copies = ServedPlan(model="deepseek-v3-671b", target="gpu:h100:96", mesh=wide)
    copies.check()
    held = sum(each.times for each in products(copies) if each.rows == "expert")
    assert held == 2 * 58 * 3  # of 256 experts, 3 on each of 96 devices
    small, usual = (
        ServedPlan(model="gpt-oss-120b", target="gpu:h100:1", mesh=(), weights_dtype=dtype)
        for dtype in ("mxfp4", "bf16")
    )
    # 116.8 billion parameters (arXiv:2508.10925 table 1), a checkpoint of 60.8 GiB
    assert weight_bytes(small) == pytest.approx(60.8 * 2**30, rel=0.03)
    assert weight_bytes(usual) == pytest.approx(2 * 116.8e9, rel=0.02)
    with pytest.raises(RequestError, match="mxfp4 is of experts, and this model has none"):
        ServedPlan(model="qwen3-8b", target="gpu:h100:1", mesh=(), weights_dtype="mxfp4").check()


def test_an_engine_on_gpus_passes_small_sums_by_a_kernel_of_its_own():
    node = ServedPlan(model="llama-3.1-70b", target="gpu:h100:8", mesh=(("tensor", 8),))
    one = step_time(node, StepLoad(1, 64)).parts["collectives"]
    assert one < 160 * 10e-6  # of each layer two; nccl-tests take 26 us at 1 KiB
    wide = (("data", 32), ("expert", 32))
    far = ServedPlan(model="deepseek-v3-671b", target="gpu:h100:32", mesh=wide, weights_dtype="fp8")
    layer = step_time(far, StepLoad(32 * 128, 64)).parts["collectives"] / 58
    assert layer == pytest.approx(155e-6 + 273e-6, rel=0.25)  # DeepEP's README, 32 GPUs, each way
