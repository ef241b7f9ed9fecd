"""The cost of attention kernels: blocks that are computed, and what the compiler's bundles say of
them.
"""

from dataclasses import replace

import pytest

from spmd_core.machine import CHIPS
from spmd_core.program.hlo.text import parse_instruction
from spmd_core.time.cost.constants import KERNEL_STALLS
from spmd_core.time.cost.kernels import kernel_cost, kernel_kind


def kernel(name, length, block, heads=2, fused="false", batch="1,"):
    array = f"bf16[{batch}{heads},{length},128]"
    metadata = (
        "kernel_metadata={\n"
        + '"xprof_metadata":"{\\"block_q\\": B, \\"block_kv\\": B, \\"block_q_dkv\\": B, '
        '\\"block_kv_dkv\\": B, '
        '\\"block_q_dq\\": B, \\"block_kv_dq\\": B}"\n}'
    ).replace("B", str(block))
    target = 'custom_call_target="tpu_custom_call"'
    # the fused backward kernel leaves the gradient of the queries once per block of keys; nothing
    # in its metadata says that it is fused
    per_block = f"bf16[{batch}{length // block},{heads},{length},128]"
    result = f"({per_block}, {array}, {array})" if fused == "true" else array
    call = parse_instruction(
        f"%{name}.1 = {result} custom-call(%q, %k, %v), {target}, "
        f"frontend_attributes={{{metadata}}}"
    )
    operands = [
        parse_instruction(f"%{each} = {array} parameter({number})")
        for number, each in enumerate("qkv")
    ]
    return call, operands


def bundles_s(name, chip, length, block, fused="false"):
    return kernel_cost(*kernel(name, length, block, fused=fused), CHIPS[chip]).fastest


def test_blocks_above_the_diagonal_do_no_flops():
    cost = kernel_cost(*kernel("splash_mha_fwd_segmented_residuals", 2048, 512), CHIPS["v5e"])
    assert cost.flops == 4 * 2 * 2048 * 2048 * 128 * 10 / 16  # 10 of 4 x 4 blocks
    assert cost.seconds == pytest.approx(KERNEL_STALLS * cost.fastest)


def test_queries_of_a_device_see_a_share_of_the_keys_gathered_for_them():
    call, (query, *_) = kernel("splash_mha_fwd_segmented_residuals", 1024, 512)
    _, (_, *of_keys) = kernel("splash_mha_fwd_segmented_residuals", 4096, 512)
    cost = kernel_cost(call, [query, *of_keys], CHIPS["v5e"])
    assert cost.flops == 4 * 2 * 1024 * 4096 * 128 * 36 / 64  # of 8 x 8 blocks, as of all devices


@pytest.mark.parametrize(
    ("name", "chip", "length", "block", "fused", "bundles"),
    [
        # bundles of one pair of blocks in what libtpu 0.0.42 writes with --xla_jf_dump_llo_text;
        # two
        # cores share the work on v5p
        ("splash_mha_fwd_segmented_residuals", "v5e", 2048, 512, "false", 1192),
        ("splash_mha_dq_segmented_no_residuals", "v5e", 2048, 512, "false", 1536),
        ("splash_mha_dkv_segmented_no_residuals", "v5e", 2048, 512, "false", 2048),
        ("splash_mha_fwd_segmented_residuals", "v5p", 2048, 512, "false", 1164 / 2),
        ("splash_mha_fwd_segmented_residuals", "v6e", 4096, 2048, "false", 15494),
        ("splash_mha_dkv_segmented_no_residuals", "v6e", 4096, 2048, "true", 22975),
    ],
)
def test_the_model_of_a_kernel_agrees_with_its_bundles(name, chip, length, block, fused, bundles):
    pairs = 2 * sum(range(1, length // block + 1))
    by_bundles = pairs * bundles / CHIPS[chip].clock_hz
    # the grid's steps and the rows' ends come on top
    assert 0.95 < bundles_s(name, chip, length, block, fused) / by_bundles < 1.75


def test_other_kernels_are_not_taken_for_attention():
    assert kernel_cost(*kernel("grouped_matmul", 2048, 512), CHIPS["v5e"]).seconds == 0


@pytest.mark.parametrize(
    ("name", "fused"),
    [
        ("splash_mha_fwd_segmented_residuals", "false"),
        ("splash_mha_dkv_segmented_no_residuals", "true"),
    ],
)
def test_a_batch_of_one_sequence_which_vmap_leaves_out_costs_the_same(name, fused):
    whole, squeezed = (kernel(name, 4096, 2048, fused=fused, batch=batch) for batch in ("1,", ""))
    assert kernel_cost(*squeezed, CHIPS["v6e"]) == kernel_cost(*whole, CHIPS["v6e"])


# As libtpu compiles them for v5e: rows of 16 experts, forward and both gradients, in blocks of 256
# rows, of which the lists of groups have 8192 / 256 + 15 entries; and the compiler's own kernel
GROUPED = {
    "gmm.2": ("bf16[8192,768]", "bf16[8192,2048]", "bf16[16,2048,768]", ""),
    "gmm.3": ("bf16[8192,2048]", "bf16[8192,768]", "bf16[16,2048,768]", ""),
    "tgmm.1": ("bf16[16,2048,768]", "bf16[8192,2048]", "bf16[8192,768]", ""),
    "ragged-dot-none.1": (
        "bf16[8192,768]",
        "bf16[8192,2048]",
        "bf16[16,2048,768]",
        'mosaic_fusion_entry_point="true",ragged_dot_tiling="256,2048,1024"',
    ),
}


def grouped(name, chip="v5e", scope=None):
    result, left, right, attributes = GROUPED[name]
    call = parse_instruction(
        f"%{name} = {result} custom-call(%n, %starts, %groups, %rows, %first, %x, %w), "
        f'custom_call_target="tpu_custom_call", frontend_attributes={{{attributes}}}'
    )
    shapes = ("s32[]", "s32[17]", "s32[47]", "s32[47]", "s32[1]", left, right)
    operands = [
        parse_instruction(f"%p{number} = {shape} parameter({number})")
        for number, shape in enumerate(shapes)
    ]
    return kernel_cost(replace(call, op_name=scope), operands, CHIPS[chip])


@pytest.mark.parametrize("name", GROUPED)
def test_a_grouped_matmul_multiplies_shared_blocks_for_each_expert(name):
    cost = grouped(name)
    assert cost.flops == 2 * 8192 * 2048 * 768
    done = cost.flops * 47 / 32  # blocks, and one more for each expert but the first
    assert done / CHIPS["v5e"].device_flops <= cost.fastest < cost.seconds
    assert cost.seconds < 3 * done / CHIPS["v5e"].device_flops


def test_a_serving_step_reads_the_matrices_that_its_rows_visit():
    """Its stacks are those of all layers, and its scope names the experts of one."""
    scope = "jit(step)/layers/while/body/experts/shard_map/4 experts, 1024 rows/gate/jit(gmm)"
    whole, visited = grouped("gmm.2"), grouped("gmm.2", scope=scope)
    assert whole.nbytes is None
    assert visited.nbytes == 2 * (4 * 2048 * 768 + 1024 * (2048 + 768))
    assert visited.flops == 2 * 1024 * 2048 * 768
    assert visited.seconds == pytest.approx(whole.seconds * (4 + 3) / (32 + 15), rel=0.1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("splash_mha_fwd_segmented_residuals", "kernel"),
        ("flash_attention", "kernel"),
        ("gmm", "grouped kernel"),
        ("ragged-dot-none", "grouped kernel"),
        ("rms_norm", "other kernel"),
        ("custom-call", "other kernel"),
    ],
)
def test_a_kernel_counts_to_what_it_is(name, kind):
    call, _ = kernel(name, 512, 128)
    assert kernel_kind(call) == kind


def test_an_unknown_kernel_has_no_cost_of_its_own():
    call, operands = kernel("unknown_gmm_like", 512, 128)
    assert kernel_cost(call, operands, CHIPS["v5e"]).seconds == 0


@pytest.mark.parametrize(("window", "pairs"), [(512, 1 + 2 * 15), (1024, 3 + 3 * 14), (8192, 136)])
def test_the_kernel_of_all_gradients_skips_what_its_window_leaves_out(window, pairs):
    """Its table of blocks has all of them, and compiled modules do not print what it holds."""
    call, operands = kernel("splash_mha_dkv_segmented_no_residuals", 8192, 512, fused="true")
    whole = kernel_cost(call, operands, CHIPS["v6e"])
    scope = f"jit(train_step)/transpose(jvp(layers))/layer/attention within {window}/shard_map/dkv"
    cost = kernel_cost(replace(call, op_name=scope), operands, CHIPS["v6e"])
    assert cost.flops / whole.flops == pytest.approx(pairs / 136)
    assert pairs == 136 or cost.seconds < whole.seconds


@pytest.mark.parametrize("name", ["fwd_segmented_residuals", "dkv_segmented_no_residuals"])
def test_attention_within_chunks_takes_the_pairs_of_each(name):
    """Four chunks of a sequence have a quarter of its pairs, and a little of each diagonal."""
    call, operands = kernel(f"splash_mha_{name}", 8192, 512, fused="true")
    whole, apart = (
        kernel_cost(replace(call, op_name=scope), operands, CHIPS["v6e"]).flops
        for scope in (
            "layer/attention/shard_map",
            "layer/attention within chunks of 2048/shard_map",
        )
    )
    assert apart / whole == pytest.approx(4 * 10 / 136)
