"""Plans: what is accepted, filled in and refused."""

import random

import pytest

from spmd_core.base import RequestError
from spmd_core.plan import NAMES, plan_notes
from spmd_core.time import estimate_memory
from spmd_core.workloads import parse_mesh, parse_plan

GOOD = {"target": "tpu:v5e:4x4", "model": "scaled:1", "mesh": {"fsdp": 16}, "batch_per_device": 2}


def test_a_plan_is_filled_in_and_reads_its_own_form():
    plan = parse_plan(GOOD)
    assert (plan.batch, plan.tokens, plan.remat, plan.kernel_blocks) == (
        32,
        32 * 2048,
        "full",
        (512, 512, 512),
    )
    assert parse_plan(plan.to_json()) == plan
    assert plan.flags["xla_enable_async_all_gather"] == "true"


def test_own_flags_come_after_the_published_ones():
    plan = parse_plan(GOOD | {"compiler_flags": ["--xla_enable_async_all_gather=false"]})
    assert plan.flags["xla_enable_async_all_gather"] == "false"


def test_v6e_takes_the_blocks_of_the_published_runs():
    plan = parse_plan(GOOD | {"target": "tpu:v6e:4x4", "sequence": 8192})
    assert plan.kernel_blocks == (2048, 2048, 2048)
    assert plan.fused_attention_backward
    assert parse_plan(plan.to_json() | {"attention_backward": "fused"}) == plan
    assert not parse_plan(plan.to_json() | {"attention_backward": "split"}).fused_attention_backward


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"mesh": {"fsdp": 8}},
            "mesh of 8 devices does not fill v5e:4x4 with its 16: make the axes multiply to 16",
        ),
        ({"mesh": {"rows": 16}}, "mesh axis 'rows' is not one that a decoder is sharded over"),
        (
            {"mesh": {"fsdp": 16}, "batch_per_device": 0.5},
            "batch_per_device=0.5 makes 8 sequences, which do not divide over 16 shards: use 1",
        ),
        (
            {"mesh": {"sequence": 16}, "batch_per_device": 1.7},
            "batch_per_device=1.7 makes 27.2 sequences, no whole number of them: use 1.6875",
        ),
        (
            {"mesh": {"sequence": 16}, "batch_per_device": 1.7},
            "batch_per_device=1.7 makes 27.2 sequences, no whole number of them: use 1.6875",
        ),
        (
            {"mesh": {"fsdp": 16}, "model": "deepseek-v3-671b", "layers": 2},
            "layers=2 leaves none with experts after dense_layers=3: use at least 4",
        ),
        (
            {"mesh": {"tensor": 16}, "model": "llama-2-13b"},
            "tensor=16 does not divide heads=40 of llama-2-13b: use 8",
        ),
        (
            {"target": "tpu:v5p:4x4x12", "mesh": {"fsdp": 64, "tensor": 3}, "model": "qwen3-8b"},
            "tensor=3 does not divide heads=32 of qwen3-8b: use 2",
        ),
        (
            {
                "target": "tpu:v5p:4x4x12",
                "mesh": {"fsdp": 64, "expert": 3},
                "model": "qwen3-30b-a3b",
            },
            "expert=3 does not divide experts=128 of qwen3-30b-a3b: use 2",
        ),
        (
            {"sequence": 2001},
            "sequence=2001 does not divide into blocks of 128: use 1920 or 2048",
        ),
        (
            {"mesh": {"fsdp": 8, "context": 2}, "sequence": 2304},
            "sequence=2304 does not divide into blocks of 128 over context=2, in two parts each: "
            "use 2048 or 2560",
        ),
        (
            {"mesh": {"context": 16}, "context_attention": "ulysses", "sizes": {"heads": 24}},
            "context=16 of ulysses does not divide the 24 heads of a device of scaled:1: use "
            "context=8, or all-gather",
        ),
        (
            {
                "target": "gpu:h100:8",
                "mesh": {"context": 8},
                "context_attention": "ulysses",
                "sizes": {"heads": 12},
            },
            "context=8 of ulysses does not divide the 12 heads of a device of scaled:1: use "
            "context=4",
        ),
        (
            {
                "mesh": {"context": 16},
                "sequence": 4096,
                "model": "gpt-oss-20b",
                "context_attention": "ring",
            },
            "context_attention=ring has neither windows nor sinks, which gpt-oss-20b has: use "
            "all-gather",
        ),
        (
            {
                "mesh": {"context": 16},
                "sequence": 4096,
                "context_attention": "ring",
                "context_order": "contiguous",
            },
            "context_order=contiguous means nothing to ring: leave it out",
        ),
        (
            {"mesh": {"context": 16}, "sequence": 4096, "model": "qwen3-next-80b-a3b"},
            "context=16 shards attention, and qwen3-next-80b-a3b has layers with a state (delta): "
            "use context=1, or sequence",
        ),
        (
            {
                "mesh": {"context": 16},
                "sequence": 4096,
                "context_attention": "ring",
                "mtp_layers": 1,
            },
            "context=16 in the balanced order has no next token beside each, for heads of later "
            "tokens: use context_attention=all-gather and context_order=contiguous",
        ),
        (
            {"mesh": {"context": 8}, "target": "gpu:h100:8", "sequence": 4096},
            "context_attention=all-gather is a kernel for TPUs: use ulysses, or a TPU topology",
        ),
        (
            {"logit_parts": 7},
            "logit_parts=7 does not divide the 2048 tokens of a sequence on a device: use 8",
        ),
        (
            {"mesh": {"fsdp": 8, "sequence": 2}, "sequence": 128},
            "sequence=128 does not divide into blocks of 128 over sequence=2: use 256",
        ),
        ({"save": ["query", "colour"]}, "save 'colour' is not saved by a decoder's block"),
        ({"save": ["query"], "offload": ["query"]}, "'query' is both saved and offloaded"),
        ({"remat": "none", "save": ["query"]}, "remat none keeps everything"),
        ({"remat": "some"}, "remat='some' is not a choice: use full, minimal, none"),
        (
            {"model": "llama-3.1-8b", "fused_qkv": True},
            "fused_qkv needs as many key heads as heads",
        ),
        ({"compiler_flags": ["rm -rf"]}, "compiler flag 'rm -rf' is not a flag"),
        ({"compiler_flags": ["xla_a=1 --xla_dump_to=x"]}, "is not a flag"),
        ({"compiler_flags": ["xla_a=1\n"]}, "is not a flag"),
        *(
            (
                {"compiler_flags": [f"{name}=there"]},
                f"compiler flag '{name}=there' reads or writes files",
            )
            for name in (
                "xla_dump_to",
                "xla_jf_generate_cpu_profile_to",
                "xla_sc_high_water_mark_protobuf_file",
                "xla_compile_cache",
                "xla_tpu_metrics_filename_prefix",
                "xla_tpu_impure_offloaded_lowering_files_dir",
                "xla_ior_stored_solution_path",
            )
        ),
        ({"target": "tpu:v5e:4x5"}, "use tpu:v5e:4x4 or tpu:v5e:4x8"),
        (
            {"attention_blocks": [512, 384, 384]},
            "attention_blocks=384 does not divide sequence=2048: use 128",
        ),
        (
            {"attention_blocks": [512, 512, 384]},
            "attention_blocks=512,512,384 computes with 384 keys of blocks of 512, which does not divide",
        ),
        (
            {"attention_blocks": [512, 512]},
            "is neither one number nor three: write for example 512, or 2048,1024,512",
        ),
        ({"attention_blocks": 9000}, "attention_blocks=9000 is not between 128 and 8192: use 8192"),
        ({"sizes": {"heads": 16, "kv_heads": 5}}, "kv_heads=5 does not divide heads=16: use 4"),
        (
            {"sizes": {"head_dim": 200}},
            "head_dim=200 does not fit the attention kernel's lanes of 128: use 256",
        ),
        ({"sizes": {"embed": 0}}, "embed=0 is not a size: use at least 1"),
        (
            {"sizes": {"mlp": 10**12}},
            "embed=2048 by mlp=1000000000000 makes a weight of 3.6 PiB in bfloat16, more than the 15.8 GiB of a TPU v5e",
        ),
        (
            {"gated": False, "fused_mlp": True},
            "fused_mlp is one matmul for gate and up, and scaled:1 here has no gate: leave it out",
        ),
        ({"colour": 1}, "colour=1 is not part of a plan: leave it out"),
    ],
)
def test_a_bad_plan_is_refused_with_the_value_the_rule_and_a_fix(change, words):
    with pytest.raises(RequestError) as caught:
        parse_plan(GOOD | change)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(24))
def test_the_batch_that_a_refusal_names_is_accepted(seed):
    """Drawn batches, over one shard or several of 64 to 256 devices."""
    draws = random.Random(seed)
    target, devices = draws.choice((("v5p:4x4x12", 192), ("v6e:8x8", 64), ("v5e:16x16", 256)))
    apart = draws.choice([each for each in range(1, devices) if devices % each == 0])
    mesh = {draws.choice(("data", "fsdp")): apart, "sequence": devices // apart}
    given = GOOD | {"target": f"tpu:{target}", "mesh": mesh, "sequence": 128 * devices}
    share = draws.uniform(0, 2) + draws.choice((0, 1000)) + 0.4 / devices
    with pytest.raises(RequestError, match=r"^batch_per_device=.* sequences, ") as refused:
        parse_plan(given | {"batch_per_device": share})
    fixed = parse_plan(given | {"batch_per_device": float(str(refused.value).split("use ")[1])})
    assert fixed.batch % apart == 0 and abs(fixed.batch_per_device - share) < apart / devices


def test_a_mesh_is_read_in_order():
    assert parse_mesh("data=2,fsdp=16,tensor=4") == (("data", 2), ("fsdp", 16), ("tensor", 4))
    for text in ("fsdp", "fsdp tensor=2", "x" * 5000 + "=1"):
        with pytest.raises(RequestError, match="is not a list of axes"):
            parse_mesh(text)


@pytest.mark.parametrize("size", ["0", "x", "-1", "2;tensor=2", "²", "9" * 5000, "", "1.5"])
def test_a_size_of_a_mesh_that_is_none_is_named_with_its_axis(size):
    with pytest.raises(RequestError, match=r"mesh axis fsdp=.{0,62} is not a size: use a whole n"):
        parse_mesh(f"tensor=2,fsdp={size}")
    with pytest.raises(RequestError, match=r"mesh axis fsdp='2k' has a suffix .* 2048 or 2000"):
        parse_mesh("fsdp=2k")


# Peaks that the compiler reported (GiB, libtpu 0.0.42) for plans around the capacity of their chips
MEASURED = [
    (
        {
            "target": "tpu:v5e:16x16",
            "model": "scaled:16",
            "mesh": {"fsdp": 256},
            "batch_per_device": 6,
        },
        8.89,
    ),
    (
        {
            "target": "tpu:v5e:16x16",
            "model": "scaled:32",
            "mesh": {"fsdp": 256},
            "batch_per_device": 4,
        },
        10.94,
    ),
    (
        {
            "target": "tpu:v5e:16x16",
            "model": "scaled:64",
            "mesh": {"fsdp": 256},
            "batch_per_device": 2,
        },
        12.89,
    ),
    (
        {
            "target": "tpu:v5e:16x16",
            "model": "llama-2-7b",
            "mesh": {"fsdp": 256},
            "batch_per_device": 4,
        },
        4.26,
    ),
    (
        {
            "target": "tpu:v5p:4x4x4",
            "model": "scaled:32",
            "mesh": {"fsdp": 16, "tensor": 4},
            "batch_per_device": 6,
            "remat": "minimal",
        },
        86.79,
    ),
    (
        {
            "target": "tpu:v5p:4x4x4",
            "model": "scaled:64",
            "mesh": {"fsdp": 16, "tensor": 4},
            "batch_per_device": 3,
            "remat": "minimal",
        },
        90.75,
    ),
    (
        {
            "target": "tpu:v5p:4x4x4",
            "model": "scaled:64",
            "mesh": {"fsdp": 64},
            "batch_per_device": 6,
        },
        36.22,
    ),
    (
        {
            "target": "tpu:v5p:8x8x8",
            "model": "llama-2-70b",
            "mesh": {"fsdp": 512},
            "batch_per_device": 4,
            "sequence": 4096,
        },
        32.20,
    ),
]


@pytest.mark.parametrize(("request_", "gib"), MEASURED)
def test_the_peak_said_before_compiling_is_within_a_tenth_of_the_compilers(request_, gib):
    assert estimate_memory(parse_plan(request_)).peak / 2**30 == pytest.approx(gib, rel=0.1)


@pytest.mark.parametrize(
    ("request_", "needed_gib"),
    [
        (
            {
                "target": "tpu:v5p:4x4x4",
                "model": "scaled:64",
                "mesh": {"fsdp": 16, "tensor": 4},
                "batch_per_device": 4,
                "remat": "minimal",
            },
            115.72,
        ),
        (
            {
                "target": "tpu:v5p:4x4x8",
                "model": "scaled:128",
                "mesh": {"fsdp": 32, "tensor": 4},
                "batch_per_device": 3,
                "remat": "minimal",
            },
            151.98,
        ),
    ],
)
def test_what_the_compiler_refused_is_refused_before_compiling(request_, needed_gib):
    plan = parse_plan(request_)
    assert estimate_memory(plan).peak > plan.topology.chip.device_hbm_bytes
    assert needed_gib * 2**30 > plan.topology.chip.device_hbm_bytes


@pytest.mark.parametrize("name", NAMES)
def test_offloading_moves_bytes_from_the_device_to_the_host(name):
    kept = estimate_memory(parse_plan(GOOD | {"save": [] if name == "input" else [name]}))
    moved = estimate_memory(parse_plan(GOOD | {"offload": [name]}))
    assert kept.host == 0
    stored, left = (each.parts["kept by the forward pass"] for each in (kept, moved))
    assert moved.host + left == pytest.approx(stored, rel=1e-6)


EXPERTS = GOOD | {"model": "mixtral-8x7b", "mesh": {"fsdp": 8, "expert": 2}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scales": "static"}, "scales of matmuls in bfloat16 mean nothing"),
        (
            {"backward_dtype": "float8"},
            "backward_dtype=float8 of matmuls in bfloat16 means nothing",
        ),
        (
            {"matmul_dtype": "float8", "gathered_dtype": "float8"},
            "gathered_dtype=float8 needs a scale that is known before a weight is gathered: use scales=static",
        ),
        (
            {"matmul_dtype": "int8", "gathered_dtype": "float8"},
            "gathered_dtype=float8 is neither bfloat16 nor the int8 of its matmuls: use int8",
        ),
        ({"matmul_dtype": "mxfp8"}, "matmul_dtype='mxfp8' is not a choice: use bfloat16, float8"),
        ({"fsdp_on_experts": True}, "fsdp_on_experts is of experts that drop no token"),
        (
            {"fsdp_on_experts": True, "dropless": True, "mesh": {"fsdp": 16}},
            "fsdp=16 with fsdp_on_experts does not divide experts=8 of mixtral-8x7b: use fsdp=8",
        ),
        ({"dropless": True, "model": "scaled:1"}, "dropless of a model without experts means"),
        ({"capacity_factor": 2.0, "dropless": True}, "capacity_factor of experts that drop no"),
        ({"imbalance": 2.0}, "imbalance of experts that drop tokens means nothing: leave it out"),
        (
            {"capacity_factor": 0.5},
            "capacity_factor=0.5 is not a number from 1 to 64: use for example 1.25",
        ),
        (
            {"imbalance": float("nan"), "dropless": True},
            "imbalance=nan is not a number from 1 to 64",
        ),
    ],
)
def test_what_experts_do_not_do_is_refused(change, words):
    with pytest.raises(RequestError) as caught:
        parse_plan(EXPERTS | change)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_rows_of_experts():
    assert parse_plan(EXPERTS).visits == 2.5
    assert parse_plan(EXPERTS | {"capacity_factor": 2.0}).visits == 4
    assert parse_plan(EXPERTS | {"dropless": True, "imbalance": 1.5}).visits == 3
    alone = EXPERTS | {"mesh": {"fsdp": 16}, "dropless": True, "imbalance": 1.5}
    assert parse_plan(alone).visits == 2  # each device has all experts


@pytest.mark.parametrize(
    ("model", "sequence", "words"),
    [
        ("llama-3.1-8b", 262144, "262,144 tokens are more than the 131,072 that llama-3.1-8b sees"),
        ("llama-3.1-8b", 131072, None),
        ("scaled:1", 262144, None),  # whose context is not known
    ],
)
def test_a_sequence_beyond_what_the_model_sees_has_a_note(model, sequence, words):
    mesh = {"fsdp": 64, "context": 4}
    form = {"target": "tpu:v5p:4x8x8", "model": model, "mesh": mesh, "sequence": sequence}
    beyond = parse_plan(form | {"batch_per_device": 1})
    assert beyond.beyond_context == words
    assert (words in plan_notes(beyond)) is (words is not None)
