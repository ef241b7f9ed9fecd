"""Times and traffic of single operations, by hand."""

import pytest

from spmd_core.machine import CHIPS, GPUS
from spmd_core.program.hlo.text import parse_module, parse_shape
from spmd_core.time.cost.constants import (
    BEGIN_LOW,
    HBM_EFFICIENCY,
    MATMUL_SHARE,
    MEMORY_HIGH,
    OPERATION_S,
    STREAMED_ROWS,
)
from spmd_core.time.cost.flops import Matmul, matmul_s, matmuls_in, valid_positions
from spmd_core.time.cost.ops import kernel, operation, peak_seconds, vector_s
from spmd_core.time.cost.traffic import async_copy_bytes, hbm_bytes, moved_bytes
from spmd_core.time.gpu.constants import LAUNCH_S

# from a compiled train step: [6,2048,4096] x [4096,64,128], heads as a window that meets one valid
# position each
HEADS = """HloModule m

ENTRY %main (a: bf16[6,2048,4096,1], b: bf16[4096,64,128,1]) -> bf16[6,2048,64,128] {
  %a = bf16[6,2048,4096,1]{2,1,3,0:T(8,128)(2,1)} parameter(0)
  %b = bf16[4096,64,128,1]{0,2,1,3:T(8,128)(2,1)} parameter(1)
  ROOT %c = bf16[6,2048,64,128]{3,1,2,0:T(8,128)(2,1)} convolution(%a, %b), WINDOW, dim_labels=0bf1_i1o0->0b1f
}
""".replace("WINDOW", "window={size=1x64 pad=0_0x63_63 rhs_reversal=0x1}")


CHIP = CHIPS["v5e"]
MODULE = parse_module("""HloModule m

%update (old: f32[64,1024], new: f32[1,1024], at: s32[]) -> f32[64,1024] {
  %old = f32[64,1024]{1,0} parameter(0)
  %new = f32[1,1024]{1,0} parameter(1)
  %at = s32[] parameter(2)
  %zero = s32[] constant(0)
  ROOT %in_place = f32[64,1024]{1,0} dynamic-update-slice(%old, %new, %at, %zero)
}

%times (p: bf16[4096,4096], q: bf16[4096,4096]) -> bf16[4096,4096] {
  %p = bf16[4096,4096]{1,0} parameter(0)
  %q = bf16[4096,4096]{1,0} parameter(1)
  ROOT %r = bf16[4096,4096]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%replace (was: f32[], now: f32[]) -> f32[] {
  %was = f32[] parameter(0)
  ROOT %now = f32[] parameter(1)
}

%put (old: f32[64,1024], which: s32[1,1], new: f32[1,1024]) -> f32[64,1024] {
  %old = f32[64,1024]{1,0} parameter(0)
  %which = s32[1,1]{1,0} parameter(1)
  %new = f32[1,1024]{1,0} parameter(2)
  ROOT %row = f32[64,1024]{1,0} scatter(%old, %which, %new), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%replace
}

%other_tiles (from: f32[64,1024]) -> f32[64,1024] {
  %from = f32[64,1024]{1,0} parameter(0)
  ROOT %to = f32[64,1024]{1,0} call(%from), to_apply=%times
}

%take (table: f32[64,1024], of: s32[1,1]) -> f32[1,1024] {
  %table = f32[64,1024]{1,0} parameter(0)
  %of = s32[1,1]{1,0} parameter(1)
  ROOT %taken = f32[1,1024]{1,0} gather(%table, %of), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,1024}
}

%window (all: f32[64,1024], of: s32[]) -> f32[1,1024] {
  %all = f32[64,1024]{1,0} parameter(0)
  %of = s32[] parameter(1)
  %none = f32[] constant(0)
  %first = s32[] constant(0)
  %wider = f32[65,1024]{1,0} pad(%all, %none), padding=0_1x0_0
  ROOT %part = f32[1,1024]{1,0} dynamic-slice(%wider, %of, %first), dynamic_slice_sizes={1,1024}
}

ENTRY %main (x: f32[64,1024], y: f32[1,1024], at: s32[], a: bf16[4096,4096], b: bf16[4096,4096]) -> f32[64,1024] {
  %x = f32[64,1024]{1,0} parameter(0)
  %y = f32[1,1024]{1,0} parameter(1)
  %at = s32[] parameter(2)
  %a = bf16[4096,4096]{1,0} parameter(3)
  %b = bf16[4096,4096]{1,0} parameter(4)
  %zero = s32[] constant(0)
  %one = f32[1,1024]{1,0} dynamic-slice(%x, %at, %zero), dynamic_slice_sizes={1,1024}
  %near = f32[64,1024]{1,0:S(1)} copy(%x)
  %sum = f32[64,1024]{1,0} add(%x, %near), backend_config={"estimated_cycles":"90000"}
  %written = f32[64,1024]{1,0} fusion(%x, %y, %at), kind=kLoop, calls=%update
  %which = s32[1,1]{1,0:S(1)} bitcast(%at)
  %scattered = f32[64,1024]{1,0} fusion(%x, %which, %y), kind=kCustom, calls=%put
  %looked_up = f32[1,1024]{1,0} fusion(%x, %which), kind=kCustom, calls=%take
  %padded = f32[1,1024]{1,0} fusion(%x, %at), kind=kLoop, calls=%window
  %gathered = f32[1,1024]{1,0} gather(%x, %which), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,1024}
  %tiled = ((f32[64,1024]{1,0}), f32[64,1024]{1,0}, u32[]{:S(8)}) async-start(%x), async_execution_thread="sparsecore", calls=%other_tiles
  %rows = f32[64,1024]{1,0} scatter(%x, %which, %y), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%replace
  %slow = bf16[4096,4096]{1,0} fusion(%a, %b), kind=kOutput, calls=%times, backend_config={"estimated_cycles":"9900000"}
  %quick = bf16[4096,4096]{1,0} fusion(%a, %b), kind=kOutput, calls=%times, backend_config={"estimated_cycles":"1100000"}
  %away = (f32[64,1024]{1,0:S(5)}, f32[64,1024]{1,0}, u32[]{:S(2)}) copy-start(%x)
  %other = f32[64,1024]{1,0} custom-call(%x), custom_call_target="tpu_custom_call"
  ROOT %named = f32[64,1024]{1,0} custom-call(%x), custom_call_target="Sharding"
}
""")
MAIN = MODULE.entry
WHOLE, ROW = 64 * 1024 * 4, 1024 * 4
MATMUL_S = 2 * 4096**3 / CHIP.device_flops


def at(name):
    return MAIN.by_name[name]


@pytest.mark.parametrize(
    ("name", "nbytes"),
    [
        ("one", 2 * ROW),
        ("near", WHOLE),
        ("sum", 2 * WHOLE),
        ("written", 2 * ROW + 4),
        ("scattered", 2 * ROW),
        ("rows", 2 * ROW),
        ("looked_up", 2 * ROW),
        ("padded", 2 * ROW + 4),
        ("gathered", 2 * ROW),
        ("tiled", 2 * WHOLE),
        ("slow", 3 * 4096 * 4096 * 2),
        ("away", WHOLE),
    ],
)
def test_what_moves_through_hbm(name, nbytes):
    assert moved_bytes(MODULE, at(name), MAIN) == nbytes


def test_memory_spaces_tell_hbm_from_host():
    device, host, vmem = (
        parse_shape(f"f32[64,1024]{{1,0{space}}}") for space in ("", ":S(5)", ":S(1)")
    )
    assert [hbm_bytes(shape) for shape in (device, host, vmem)] == [WHOLE, 0, 0]
    assert async_copy_bytes(at("away"), [at("x")]) == (WHOLE, WHOLE)


def test_what_is_no_matmul_streams_at_the_rate_of_hbm():
    work = operation(MODULE, at("sum"), MAIN, CHIP)
    assert work.seconds == pytest.approx(
        max(1e-6, 2 * WHOLE / (CHIP.hbm_bandwidth * HBM_EFFICIENCY))
    )
    assert (work.kind, work.low, work.high) == (
        "memory",
        2 * WHOLE / CHIP.hbm_bandwidth,
        work.seconds * MEMORY_HIGH,
    )


def test_a_matmul_takes_the_matrix_units_time_whatever_the_compilers_cycles():
    """A program that is read before its code has no cycles; one read after it is estimated alike."""
    quick, slow = (operation(MODULE, at(name), MAIN, CHIP) for name in ("quick", "slow"))
    assert (
        quick.seconds
        == slow.seconds
        == pytest.approx(MATMUL_S / MATMUL_SHARE * (1 + 128 / STREAMED_ROWS))
    )
    assert (quick.flops, quick.kind, quick.bound) == (2 * 4096**3, "matmul", "compute")
    assert MATMUL_S <= quick.low < quick.seconds < quick.high


def test_a_matmul_is_padded_to_the_matrix_unit_and_two_cores_share_its_rows():
    whole = Matmul(2 * 4096 * 256 * 256, "bf16", 1, 4096, 256)
    narrow = Matmul(2 * 4096 * 64 * 256, "bf16", 1, 4096, 256)  # contracts 64
    assert matmul_s(narrow, CHIPS["v6e"]) == pytest.approx(matmul_s(whole, CHIPS["v6e"]))
    assert matmul_s(narrow, CHIPS["v5e"]) == pytest.approx(matmul_s(whole, CHIPS["v5e"]) / 2)
    share = {
        name: whole.flops / CHIPS[name].device_flops / matmul_s(whole, CHIPS[name])
        for name in ("v5e", "v5p", "v6e")
    }
    # 2,048 rows for each core of v5p: a set of weights has as many rows as on v5e
    assert share["v5p"] == pytest.approx(share["v5e"]) and share["v5e"] > share["v6e"]
    short = Matmul(2 * 1024 * 256 * 256, "bf16", 1, 1024, 256)  # 512 for each
    halves = [
        short.flops / chip.device_flops / matmul_s(short, chip)
        for chip in (CHIPS["v5p"], CHIPS["v5e"])
    ]
    assert halves[0] < halves[1]
    few = Matmul(2 * 256**3, "bf16", 1, 256, 256)  # fills the unit for as many rows as it has
    assert matmul_s(few, CHIPS["v6e"]) == pytest.approx(
        few.flops / CHIPS["v6e"].device_flops / MATMUL_SHARE * 2
    )


def test_vector_work_is_counted_where_no_byte_leaves_the_chip():
    assert vector_s(MODULE, at("sum"), CHIP) == pytest.approx(64 / 4 / CHIP.clock_hz)


def test_peak_seconds_count_passes_and_integers():
    matmuls = [
        Matmul(197 * 10**12, "bf16"),
        Matmul(197 * 10**12, "f32", 6),
        Matmul(197 * 10**12, "s8"),
    ]
    assert peak_seconds(matmuls, CHIP) == pytest.approx(1 + 6 + 0.5)


def test_a_sum_of_many_rows_to_few_columns_streams_its_operand():
    """A sum outside of a fusion, as the compiler leaves it for two columns."""
    module = parse_module("""HloModule m

%add (p: f32[], q: f32[]) -> f32[] {
  %p = f32[] parameter(0)
  %q = f32[] parameter(1)
  ROOT %s = f32[] add(%p, %q)
}

ENTRY %main (x: f32[1048576,2]) -> f32[2] {
  %x = f32[1048576,2]{0,1} parameter(0)
  %few = f32[64,2]{0,1} slice(%x), slice={[0:64], [0:2]}
  %zero = f32[] constant(0)
  %small = f32[2]{0} reduce(%few, %zero), dimensions={0}, to_apply=%add
  ROOT %sum = f32[2]{0} reduce(%x, %zero), dimensions={0}, to_apply=%add
}
""")
    main = module.entry
    large, small = (operation(module, main.by_name[name], main, CHIP) for name in ("sum", "small"))
    assert large.nbytes >= 2**23 and large.seconds > 2**23 / CHIP.device_hbm_bandwidth
    assert small.seconds == 0


def test_an_unknown_kernel_costs_what_it_moves_and_a_marker_nothing():
    assert kernel(at("other"), MAIN, CHIP).seconds == pytest.approx(
        2 * WHOLE / (CHIP.hbm_bandwidth * HBM_EFFICIENCY)
    )
    assert kernel(at("named"), MAIN, CHIP).seconds == 0


def test_batch_dims_written_as_windows_count_valid_positions_only():
    module = parse_module(HEADS)
    (found,) = matmuls_in(module, module.entry)
    assert found.flops == 2 * 6 * 2048 * 4096 * 64 * 128


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ((64, 3, 62, 0, 1, 1, 1), 62 * 3),
        ((64, 3, 64, 1, 1, 1, 1), 64 * 3 - 2),
        ((1, 64, 64, 63, 1, 1, 1), 64),
        ((8, 2, 4, 0, 2, 1, 1), 8),
        ((4, 1, 7, 0, 1, 2, 1), 4),
        ((5, 3, 5, 2, 1, 1, 2), 11),
    ],
)
def test_valid_positions_agree_with_counting_them(arguments, count):
    size, kernel, out, pad, stride, dilate, kernel_dilate = arguments
    places = {index * dilate for index in range(size)}
    counted = sum(
        o * stride + k * kernel_dilate - pad in places for o in range(out) for k in range(kernel)
    )
    assert valid_positions(*arguments) == counted == count


def test_a_dot_counts_its_contraction():
    module = parse_module("""HloModule m

ENTRY %main (a: f32[8,16], b: f32[16,4]) -> f32[8,4] {
  %a = f32[8,16]{1,0} parameter(0)
  %b = f32[16,4]{1,0} parameter(1)
  ROOT %d = f32[8,4]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
}
""")
    (found,) = matmuls_in(module, module.entry)
    assert (found.flops, found.element, found.passes) == (2 * 8 * 16 * 4, "f32", 6)


@pytest.mark.parametrize("generation", ["v5e", "v5p", "v6e", "h100"])
@pytest.mark.parametrize("elements", [2**11, 2**14, 2**18, 2**26])
def test_an_operation_on_few_bytes_takes_no_less_than_half_of_its_beginning(generation, elements):
    """Its range does not reach down to the bytes' time, a thousandth of what any operation takes."""
    chip = (CHIPS | GPUS)[generation]
    module = parse_module(f"""HloModule m

ENTRY %main (a: f32[{elements}]) -> f32[{elements}] {{
  %a = f32[{elements}]{{0}} parameter(0)
  ROOT %b = f32[{elements}]{{0}} negate(%a)
}}
""")
    entry = module.entry
    cost = operation(module, entry.root, entry, chip)
    begin = LAUNCH_S if chip.is_gpu else OPERATION_S
    assert cost.seconds >= begin
    assert max(begin / BEGIN_LOW, cost.least) == cost.low <= cost.seconds < cost.high
