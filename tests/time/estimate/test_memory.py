"""The memory estimate before compiling: sizes by hand, and the peaks that the compiler gave for the
same plans.
"""

import pytest

from spmd_core.machine import Capacity
from spmd_core.plan import WITHOUT_RINGS, Plan
from spmd_core.time import estimate_memory
from spmd_core.time.estimate.shapes import shapes_of
from spmd_core.workloads import parse_plan

GIB = 2**30
NAMES = ("input", "query", "key", "value", "out", "attention")
OFFLOADED = ("input", "query", "key", "value", "out")


def plan(target, model, mesh, batch, sequence=2048, **more):
    return parse_plan(
        {
            "target": f"tpu:{target}",
            "model": model,
            "mesh": mesh,
            "batch_per_device": batch,
            "sequence": sequence,
            **more,
        }
    )


def test_parameters_inputs_and_logits_by_hand():
    """Scaled 16: 32 blocks of width 4096 over 256 chips; the forward pass keeps the input of each
    block.
    """
    size = plan("v5e:16x16", "scaled:16", {"fsdp": 256}, 6)
    parts = estimate_memory(size).parts
    assert parts["parameters and optimizer"] == pytest.approx(12 * size.size.parameters / 256)
    assert parts["kept by the forward pass"] == 32 * 6 * 2048 * 4096 * 2
    wide, query, stream, sums = (
        6 * 2048 * 28672 * 2,
        6 * 2048 * 64 * 128 * 2,
        6 * 2048 * 4096 * 2,
        6 * 2048 * 64 * 128 * 4,
    )
    assert (
        parts["one block's backward pass"]
        == 4 * wide + 2 * 3 * 4096 * 28672 * 2 + 4 * query + sums + 4 * stream
    )


def test_offloaded_arrays_are_on_the_host_and_one_set_of_them_on_the_way():
    kept, moved = (
        estimate_memory(
            plan("v5p:4x8x8", "llama-3.1-70b", {"fsdp": 256}, 2, 8192, **{how: OFFLOADED})
        )
        for how in ("save", "offload")
    )
    rows = 2 * 8192 * 2
    one_block = rows * (8192 + 8192 + 2 * 8 * 128 + 8192)
    assert moved.host == 80 * one_block
    assert kept.host == 0
    assert (
        moved.parts["one block's backward pass"] - kept.parts["one block's backward pass"]
        == one_block
    )
    assert moved.parts["kept by the forward pass"] == 0


def test_a_scanned_block_of_two_layers_keeps_its_input_once():
    parts = estimate_memory(plan("v5p:4x4x4", "gemma-2-9b", {"fsdp": 64}, 4, 8192)).parts
    assert parts["kept by the forward pass"] == 21 * 4 * 8192 * 3584 * 2
    # capped: two of bfloat16
    assert parts["logits and output table"] == 4 * 8192 * 256128 * 4 + 2 * 3584 * 256128 * 2


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_rows_of_dropless_experts_are_counted_once_for_each_expert_they_visit(batch):
    """A step was estimated at 36 GiB and compiled to 67: each of its tokens visits 8 experts."""

    def estimated(count):
        more = {"dropless": True, "offload": ("input",)}
        arguments = ("tpu7x:4x8x8", "qwen3-235b-a22b", {"fsdp": 512}, count, 4096)
        return estimate_memory(plan(*arguments, **more)).parts["one block's backward pass"]

    rows = 4096 * 8 * 2 * (6 * 4096 + 3 * 1536)  # two bytes; six of embed, three of the mlp
    assert estimated(2 * batch) - estimated(batch) >= batch * rows * 0.9


@pytest.mark.parametrize(("dropless", "routes"), [(False, 2), (True, 0)])
def test_without_remat_each_layer_keeps_rows_and_routes(dropless, routes):
    """A token has one number for each slot of its sequence, there and back."""
    arguments = ("v5p:2x2x2", "qwen3-30b-a3b", {"fsdp": 8}, 2, 4096)
    kept = estimate_memory(plan(*arguments, dropless=dropless, remat="none")).parts[
        "kept by the forward pass"
    ]
    tokens, visits = 2 * 4096, 8 * (1.0 if dropless else 1.25)
    rows, wide, queries, keys = visits * 2048, visits * 768, 32 * 128, 4 * 128
    heads = 3 * queries + 2 * keys + 4 * (queries + keys) + 32 * 2  # with norms of their own
    each = 2 * rows + 6 * wide + heads + 8 * 2048 + routes * visits * 4096
    assert kept == pytest.approx(48 * tokens * 2 * each, rel=1e-3)


@pytest.mark.parametrize(("devices", "last"), [(8, 512), (64, 128), (512, 128)])
def test_gradients_of_grouped_matrices_fill_tiles(devices, last):
    """4096 columns over 64 devices are 64, and take a tile's 128 of the gradient of `down`."""
    target = {8: "v5p:2x2x2", 64: "v5p:4x4x4", 512: "tpu7x:4x8x8"}[devices]
    size = plan(target, "qwen3-235b-a22b", {"fsdp": devices}, 16, 4096, dropless=True)
    exact = 4 * size.size.parameters / devices
    down = 4 * 94 * 128 * 1536 * (last - 4096 // devices)
    assert estimate_memory(size).parts["gradients"] == pytest.approx(exact + down, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "more", "gib"),
    [
        # arguments and temporaries of libtpu 0.0.42's buffer assignment
        (("v5e:16x16", "scaled:16", {"fsdp": 256}, 6), {}, 9.04),
        (("v5e:16x16*2", "scaled:16", {"data": 2, "fsdp": 256}, 6), {}, 10.59),
        (("v5e:16x16*4", "scaled:32", {"data": 4, "fsdp": 256}, 3), {}, 11.51),
        (("v5e:16x16", "scaled:64", {"fsdp": 256}, 2), {}, 13.08),
        (
            ("v5e:16x16", "scaled:128", {"fsdp": 16, "tensor": 16}, 1),
            {"offload": ("input",)},
            12.84,
        ),
        (("v5p:4x4x4", "scaled:32", {"fsdp": 16, "tensor": 4}, 6), {"remat": "minimal"}, 87.34),
        (("v5p:4x4x4", "scaled:32", {"fsdp": 4, "tensor": 16}, 6), {"remat": "minimal"}, 90.55),
        (("v5p:8x8x8", "scaled:256", {"fsdp": 64, "tensor": 8}, 4), {}, 40.59),
        (("v5p:16x16x16", "scaled:1024", {"fsdp": 256, "tensor": 16}, 1), {}, 19.77),
        (("v5p:4x4x4", "mixtral-8x7b", {"fsdp": 64}, 4, 4096), {}, 25.63),
        (("v5p:4x4x4", "gemma-2-9b", {"fsdp": 64}, 4, 8192), {}, 40.99),
        (("v5p:4x4x4", "llama-2-70b", {"fsdp": 64}, 4, 4096), {}, 47.51),
        (("v5p:8x8x8", "gpt-3-175b", {"fsdp": 128, "tensor": 4}, 2), {}, 18.86),
        (("v6e:16x16", "llama-3.1-8b", {"fsdp": 256}, 4, 8192), {"offload": OFFLOADED}, 11.06),
        (
            ("v6e:16x16*2", "llama-3.1-8b", {"data": 2, "fsdp": 256}, 4, 8192),
            {"offload": OFFLOADED},
            16.57,
        ),
        *(
            (("v5p:2x2x2", "llama-3.1-8b", {"fsdp": 8}, 4, 4096), more, gib)
            for more, gib in (
                ({"save": ("attention",)}, 30.83),
                ({"save": ("mlp_up", "mlp_gate")}, 54.76),
                ({"save": ("mlp_up", "mlp_gate"), "offload": ("input",)}, 52.75),
            )
        ),
        (
            ("v6e:2x4", "llama-3.1-8b", {"fsdp": 8}, 8, 4096),
            {"save": ("attention",), "offload": OFFLOADED},
            37.31,
        ),
        (
            ("v5p:2x2x4", "llama-3.1-8b", {"fsdp": 16}, 4, 4096),
            {
                "save": ("query", "key", "value", "mlp_up", "mlp_gate"),
                "offload": ("out", "attention"),
            },
            60.59,
        ),
        (
            ("v5e:4x4", "llama-3.1-8b", {"fsdp": 16}, 4, 4096),
            {"offload": (*OFFLOADED, "attention")},
            14.86,
        ),
        (
            ("tpu7x:2x2x1", "llama-3.1-8b", {"fsdp_transpose": 4, "tensor": 2}, 6, 8192),
            {"save": ("mlp_gate", "mlp_down", "attention"), "offload": ("input", "key")},
            125.73,
        ),
        *(
            (("v5p:" + shape, model, mesh, 1, 4096), {"dropless": True}, gib)
            for shape, model, mesh, gib in (
                ("2x2x2", "qwen3-30b-a3b", {"fsdp": 8}, 66.99),
                ("2x2x2", "gpt-oss-20b", {"fsdp": 8}, 52.20),
                ("2x4x4", "gpt-oss-120b", {"fsdp": 32}, 85.86),
                ("2x4x4", "gpt-oss-120b", {"fsdp": 4, "expert": 8}, 68.92),
                ("4x4x4", "qwen3-235b-a22b", {"fsdp": 64}, 78.01),
                ("4x4x4", "qwen3-235b-a22b", {"fsdp": 8, "expert": 8}, 68.36),
            )
        ),
        (
            ("v5p:2x2x2", "qwen3-30b-a3b", {"fsdp": 8}, 8, 4096),
            {"layers": 8, "dropless": True},
            30.87,
        ),
        (("v5p:2x2x2", "qwen3-30b-a3b", {"fsdp": 8}, 2, 4096), {"layers": 8}, 19.10),
        (
            ("v5p:2x4x4", "llama-3.1-8b", {"data": 4, "fsdp": 2, "fsdp_transpose": 4}, 4, 4096),
            {"remat": "none"},
            151.98,
        ),
        (  # keys of fewer heads than `tensor`
            ("v5p:4x4x4", "llama-3.1-70b", {"fsdp": 2, "tensor": 32}, 2, 4096),
            {"offload": ("query", "key", "value")},
            52.64,
        ),
        (  # the gate is copied to another layout
            ("v6e:4x4*2", "scaled:16", {"data": 2, "sequence": 16}, 1),
            {"save": ("input", "key", "out", "mlp_gate"), "offload": ("mlp_up",)},
            28.71,
        ),
        *(  # layers of several kinds, and the last of another kind than those before
            (
                (chips, model, {"fsdp": 16}, 1, sequence),
                {"layers": layers, "dropless": experts},
                gib,
            )
            for chips, model, sequence, layers, experts, gib in (
                ("v5e:4x4", "gemma-3-12b", 4096, 12, False, 11.63),
                ("v5e:4x4", "olmo-3-32b", 8192, 4, False, 8.81),
                ("v5p:2x2x4", "mimo-v2-flash", 4096, 6, True, 70.12),
                ("v5p:2x2x4", "gemma-4-26b-a4b", 4096, 6, True, 13.41),
                ("v5e:4x4", "qwen3.5-35b-a3b", 4096, 4, True, 9.84),
            )
        ),
        (  # weights in 8 bits become float32 where the chip does not multiply them
            ("v5p:2x2x4", "qwen3-30b-a3b", {"fsdp": 16}, 2, 4096),
            {"layers": 4, "dropless": True, "matmul_dtype": "float8", "scales": "static"},
            10.05,
        ),
        *(  # beside rings, without and with logits in parts
            ((chips, "scaled:1", mesh, batch, sequence), {"sizes": {"kv_heads": 8}, **more}, gib)
            for chips, mesh, batch, sequence, more, gib in (
                ("tpu7x:2x2x4", {"fsdp": 32}, 1, 32768, {"layers": 2}, 9.35),
                ("v5e:4x4", {"fsdp": 16}, 1, 4096, {"layers": 2, "logit_parts": 4}, 0.96),
            )
        ),
        (("v5e:8x8", "llama-3.1-8b", {"fsdp": 64}, 4), {}, 7.63),
        (("v6e:16x16", "gpt-3-175b", {"fsdp": 256}, 2), {"offload": ("input",)}, 19.03),
    ],
)
def test_the_estimate_is_within_a_tenth_of_what_the_compiler_allots(arguments, more, gib):
    assert estimate_memory(plan(*arguments, **more)).peak / GIB == pytest.approx(gib, rel=0.1)


def test_near_the_capacity_some_arrays_are_made_anew():
    """Scaled 32 on v5e: with 4 sequences all is kept; with 7 the compiler does without one wide
    array and four of the stream's width.
    """
    few, roomy, tight = (
        estimate_memory(plan("v5e:16x16", "scaled:32", {"fsdp": 256}, batch)) for batch in (3, 4, 7)
    )
    for each in (few, roomy, tight):
        assert each.peak == pytest.approx(sum(each.parts.values()), abs=8)
    spare = 7 * 2048 * (28672 + 4 * 8192) * 2
    assert tight.peak == pytest.approx(4 * roomy.peak - 3 * few.peak - spare, abs=32)
    assert tight.peak < 15.75 * GIB < tight.peak + spare


def test_a_plan_within_the_error_of_the_capacity_is_only_likely_to_fit():
    tight = estimate_memory(plan("v5e:4x4", "llama-3.1-8b", {"fsdp": 16}, 4, 4096, offload=NAMES))
    assert tight.low < tight.peak < tight.high
    assert [
        tight.fits(Capacity(most, tight.host))
        for most in (
            tight.low - 1,
            tight.low,
            tight.peak - 1,
            tight.peak,
            tight.high - 1,
            tight.high,
        )
    ] == ["no", "unlikely", "unlikely", "likely", "likely", "yes"]
    assert tight.fits(Capacity(tight.high, tight.host - 1)) == "no"


def test_what_is_kept_beside_an_offload_may_be_copied_to_another_layout():
    """The gate, without `mlp_up` beside it, is on TPU7x; all layers of it are on the device twice.
    Heads are that change places with the sequence, where attention comes from the host.
    """
    copied = "saved arrays in another layout"
    asked = ("llama-3.1-8b", {"fsdp": 8}, 4, 4096)
    alone, beside, v5p = (
        estimate_memory(plan(chips, *asked, save=("mlp_gate",), **more))
        for chips, more in (
            ("tpu7x:2x2x1", {}),
            ("tpu7x:2x2x1", {"offload": ("key",)}),
            ("v5p:2x2x2", {"offload": ("key",)}),
        )
    )
    assert copied not in alone.parts and copied not in v5p.parts
    assert beside.parts[copied] == 32 * 4 * 4096 * 14336 * 2
    assert beside.peak - beside.low > beside.parts[copied]
    heads = {"save": ("query", "key", "value"), "offload": ("attention",)}
    moved, kept = (
        estimate_memory(plan("v5p:2x2x2", "llama-3.1-8b", {axis: 8}, 4, 4096, **heads))
        for axis in ("sequence", "fsdp")
    )
    assert moved.parts[copied] == 32 * 4 * 4096 * (32 + 8 + 8) * 128 * 2
    assert copied not in kept.parts and moved.high < 1.6 * moved.peak


@pytest.mark.parametrize(
    ("model", "layers", "gigabytes"),
    [("qwen3-next-80b-a3b", 4, 17.69), ("nemotron-3-nano-30b-a3b", 7, 16.25)],
)
def test_sums_of_a_block_of_experts_wait_beside_those_of_the_next(model, layers, gigabytes):
    """Of several blocks: compiled peaks."""
    found = plan("v5p:2x2x4", model, {"fsdp": 16}, 1, 4096, layers=layers, dropless=True)
    assert estimate_memory(found).peak == pytest.approx(gigabytes * 1e9, rel=0.1)


@pytest.mark.parametrize(("flags", "tables"), [((), 1), ((WITHOUT_RINGS,), 2)])
def test_float32_logits_have_bfloat16_gradients(flags, tables):
    """A ring leaves no gradient of the whole table, but two shards of each; three streams wait."""
    given = plan("v5e:4x4", "scaled:1", {"fsdp": 16}, 24, compiler_flags=flags)
    parts, table = estimate_memory(given).parts, 2048 * 32000
    whole = 24 * 2048 * 32000 * (4 + 2) + tables * 2 * table
    if not flags:
        whole += 3 * 24 * 2048 * 2048 * 2 + 2 * (2 + 4) * table // 16
    assert parts["logits and output table"] == whole


@pytest.mark.parametrize("model", ["llama-3.1-70b", "gemma-3-27b", "gemma-2-9b"])
@pytest.mark.parametrize("flags", [(), (WITHOUT_RINGS,)])
def test_only_a_table_that_is_trained_has_a_gradient(model, flags):
    """Tied or not, capped or not, beside rings or none; logits at once or in parts."""
    plans = [
        plan("v5p:2x2x4", model, {"fsdp": 16}, 2, compiler_flags=flags, logit_parts=parts, **rank)
        for rank in ({"lora_rank": 8}, {})
        for parts in (1, 8)
    ]
    one, frozen, _, trained = map(estimate_memory, plans)
    assert not any(name.startswith("gradient of") for name in {*one.parts, *frozen.parts})
    assert frozen.peak <= one.peak
    table = plans[0].size.embed * plans[0].size.vocab
    assert trained.parts["gradient of the table"] == 4 * table


@pytest.mark.parametrize(("remat", "batch", "gib"), [("minimal", 2, 20.13), ("none", 1, 26.50)])
def test_a_scanned_block_takes_out_what_it_keeps_unless_it_computes_nothing_again(
    remat, batch, gib
):
    """Compiled peaks of six layers a block: with `none` less than 1 GiB waits of five of them."""
    more = {"layers": 12, "sizes": {"vocab": 32768}, "remat": remat}
    found = plan("v5p:2x2x4", "gemma-3-12b", {"fsdp": 16}, batch, 4096, **more)
    assert estimate_memory(found).peak == pytest.approx(gib * GIB, rel=0.06)


@pytest.mark.parametrize("model", ["gemma-3-12b", "gemma-2-9b", "gpt-oss-20b"])
def test_no_layer_of_a_block_waits_where_nothing_is_computed_again(model):
    fields = {"dropless": model == "gpt-oss-20b", "logit_parts": 8}
    none, full = (
        plan("v5p:2x2x4", model, {"fsdp": 16}, 2, 4096, **fields, remat=remat)
        for remat in ("none", "full")
    )
    one, several = (
        estimate_memory(each).parts["one block's backward pass"] for each in (none, full)
    )
    assert several > 1.2 * one


@pytest.mark.parametrize(
    ("target", "devices", "batch", "more", "rings"),
    [
        ("v5e:2x2", 4, 4, {}, True),
        ("v5e:2x2", 4, 0.25, {"sequence": 512}, False),  # few tokens
        ("v5p:2x2x1", 4, 4, {}, False),
        ("v5e:2x4", 8, 4, {}, True),
        ("v5e:2x4", 8, 4, {"matmul_dtype": "int8"}, False),  # gathered to be scaled
        ("v5e:2x4", 8, 4, {"matmul_dtype": "int8", "scales": "static"}, True),
    ],
)
def test_weights_wait_for_no_ring_that_the_seconds_do_not_know(target, devices, batch, more, rings):
    """Of a block's weights a ring gathers no other set; where none is made a flag changes nothing."""
    fields = {"layers": 2, "sizes": {"vocab": 1024}, **more}
    found, without = (
        plan(target, "llama-3.1-8b", {"sequence": devices}, batch, **fields, compiler_flags=flags)
        for flags in ((), (WITHOUT_RINGS,))
    )
    blocks = [estimate_memory(each).parts["one block's backward pass"] for each in (found, without)]
    assert (blocks[0] != blocks[1]) == rings == shapes_of(found).rings_layers


def test_parameters_that_an_axis_does_not_divide_are_counted_whole():
    """Width 2048 over fsdp=4096: every device has all parameters, their state and their gradients."""
    size = plan("v5e:16x16*16", "scaled:1", {"fsdp": 4096}, 1)
    parts = estimate_memory(size).parts
    assert parts["parameters and optimizer"] == 12 * size.size.parameters
    assert parts["gradients"] == 4 * size.size.parameters


@pytest.mark.parametrize(
    ("model", "more", "times"),
    [
        ("gpt-oss-20b", {"dropless": True}, 4),
        ("mixtral-8x7b", {}, 2.5),  # two experts of a token, with a quarter of free places
        ("gemma-2-9b", {}, 1),
        ("llama-3.1-8b", {}, 0),
    ],
)
def test_the_mlp_s_result_is_kept_where_its_rows_are_weighted_or_a_norm_follows(model, more, times):
    plan = Plan(
        target="tpu:v5p:2x2x2",
        model=model,
        mesh={"fsdp": 8},
        batch_per_device=1,
        offload=("mlp_down",),
        **more,
    )
    rows = plan.sequence * plan.size.embed * 2 * plan.size.layers
    assert estimate_memory(plan).host == pytest.approx(times * rows)


@pytest.mark.parametrize("remat", ["full", "minimal", "none"])
def test_the_gradient_of_the_logits_waits_where_layers_are_computed_again(remat):
    """Two layers of Qwen3-30B in float8 over 8 chips of v5p use it before the loop, with `none`."""
    size = plan("v5p:2x2x2", "qwen3-30b-a3b", {"fsdp": 8}, 2, 4096, layers=2, remat=remat)
    assert ("gradient of the logits" in estimate_memory(size).parts) is (remat != "none")


def test_what_waits_is_given_up_no_further_than_the_other_moment_allows():
    """Compiled: 22.9 GB, logits and their gradient alone 19.9, where v5e has 16."""
    more = {"layers": 4, "matmul_dtype": "int8", "scales": "static"}
    mesh = {"fsdp": 4, "fsdp_transpose": 4}
    found = estimate_memory(plan("v5e:4x4", "qwen3-30b-a3b", mesh, 4, 8192, **more))
    assert found.peak == pytest.approx(22.95e9, rel=0.05)
