"""What a program asked for, told from what surrounds a sum in modules written as the TPU compiler
writes them.
"""

import numpy as np
import pytest

from spmd_core.program import StartOp, parse_module
from spmd_core.program.hlo.requested import asked

# the gradient of one of 4 devices' weights: added up whole, of which a fusion takes a quarter
SLICED = """HloModule m

%add (a: bf16[], b: bf16[]) -> bf16[] {
  %a = bf16[] parameter(0)
  %b = bf16[] parameter(1)
  ROOT %sum = bf16[] add(%a, %b)
}

%part (whole: bf16[64,32], at: s32[]) -> f32[16,32] {
  %whole = bf16[64,32]{1,0} parameter(0)
  %at = s32[] parameter(1)
  %zero = s32[] constant(0)
  %mine = bf16[16,32]{1,0} dynamic-slice(%whole, %at, %zero), dynamic_slice_sizes={16,32}
  ROOT %wide = f32[16,32]{1,0} convert(%mine)
}

ENTRY %main (g: bf16[64,32], at: s32[]) -> f32[16,32] {
  %g = bf16[64,32]{1,0} parameter(0)
  %at = s32[] parameter(1)
  %all = bf16[64,32]{1,0} all-reduce(%g), channel_id=1, replica_groups=[1,4]<=[4], to_apply=%add, metadata={op_name="jit(f)/transpose(jvp())/dot"}
  %copied = bf16[64,32]{1,0} copy(%all)
  ROOT %f = f32[16,32]{1,0} fusion(%copied, %at), kind=kLoop, calls=%part
}
"""
# an all-gather: each device's quarter among zeros, added up
PADDED = """HloModule m

%add (a: bf16[], b: bf16[]) -> bf16[] {
  %a = bf16[] parameter(0)
  %b = bf16[] parameter(1)
  ROOT %sum = bf16[] add(%a, %b)
}

ENTRY %main (w: bf16[16,32], at: s32[]) -> bf16[64,32] {
  %w = bf16[16,32]{1,0} parameter(0)
  %at = s32[] parameter(1)
  %nought = bf16[] constant(FILL)
  %zeros = bf16[64,32]{1,0} broadcast(%nought), dimensions={}
  %zero = s32[] constant(0)
  %placed = bf16[64,32]{1,0} dynamic-update-slice(%zeros, %w, %at, %zero)
  ROOT %all = bf16[64,32]{1,0} all-reduce(%placed), channel_id=1, replica_groups=[1,4]<=[4], to_apply=%add
}
"""


def found(text, members=4, kind="all-reduce", name=None):
    module = parse_module(text)
    instruction = module.entry.by_name["all"]
    start = StartOp(kind, instruction, instruction, module.entry, False)
    return asked(
        module, start, module.entry, np.arange(members).reshape(1, -1), name or instruction.op_name
    )


def test_a_sum_of_which_everyone_keeps_one_part_was_a_reduce_scatter():
    assert found(SLICED) == "reduce-scatter"


def test_a_sum_that_is_sliced_otherwise_is_a_sum():
    assert found(SLICED, members=8) is None  # quarters are not what eight devices would keep
    read_whole = SLICED.replace(
        "dynamic-slice(%whole, %at, %zero), dynamic_slice_sizes={16,32}",
        "slice(%whole), slice={[0:16], [0:32]}",
    )
    assert found(read_whole) is None


def test_a_sum_of_parts_among_zeros_was_an_all_gather():
    assert found(PADDED.replace("FILL", "0")) == "all-gather"
    assert found(PADDED.replace("FILL", "1")) is None
    assert found(PADDED.replace("FILL", "0"), members=2) is None


@pytest.mark.parametrize(
    ("call", "kind", "wanted"),
    [
        ("psum_scatter", "all-reduce", "reduce-scatter"),
        ("psum", "all-reduce", None),
        ("psum_invariant", "reduce-scatter", "all-reduce"),
        ("all_gather[axis=0]", "all-gather", None),
        ("ppermute", "all-to-all", "collective-permute"),
    ],
)
def test_a_call_that_names_its_collective_tells(call, kind, wanted):
    assert found(PADDED.replace("FILL", "1"), kind=kind, name=f"jit(f)/shard_map/{call}") == wanted
