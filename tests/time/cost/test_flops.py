"""FLOPs of convolutions as the TPU compiler writes matmuls."""

import pytest

from spmd_core.program.hlo.text import parse_module
from spmd_core.time.cost.flops import matmuls_in, valid_positions

# from a compiled train step: [6,2048,4096] x [4096,64,128], heads as a window that meets one valid
# position each
HEADS = """HloModule m

ENTRY %main (a: bf16[6,2048,4096,1], b: bf16[4096,64,128,1]) -> bf16[6,2048,64,128] {
  %a = bf16[6,2048,4096,1]{2,1,3,0:T(8,128)(2,1)} parameter(0)
  %b = bf16[4096,64,128,1]{0,2,1,3:T(8,128)(2,1)} parameter(1)
  ROOT %c = bf16[6,2048,64,128]{3,1,2,0:T(8,128)(2,1)} convolution(%a, %b), WINDOW, dim_labels=0bf1_i1o0->0b1f
}
""".replace("WINDOW", "window={size=1x64 pad=0_0x63_63 rhs_reversal=0x1}")


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
