from pathlib import Path

import pytest

from spmd_core.program.hlo.module import HOST_MEMORY_SPACE, Frame, HloError, Shape
from spmd_core.program.hlo.text import parse_instruction, parse_module, parse_shape

HLO = Path(__file__).parent
MODULES = sorted(HLO.glob("*.hlo"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_line_of_a_module_becomes_an_instruction(path):
    text = path.read_text()
    module = parse_module(text)
    assert sum(len(computation.instructions) for computation in module.computations) == sum(
        line.lstrip().removeprefix("ROOT ").startswith("%") and " = " in line
        for line in text.splitlines()
        if line.startswith("  ")
    )
    for computation in module.computations:
        assert computation.root in computation.instructions
        for instruction in computation.instructions:
            assert all(name in computation.by_name for name in instruction.operands)
            assert all(name in module.by_name for name in instruction.called())
            assert instruction.shape.bytes >= 0


def test_the_head_of_a_module():
    module = parse_module((HLO / "scan_cpu_0.10.2.hlo").read_text())
    assert (module.name, module.partitions, module.replicas, module.device_count) == (
        "jit_program",
        8,
        1,
        8,
    )
    assert module.entry.is_entry
    assert module.entry.root.shape == Shape(
        "tuple", parts=(Shape("f32"), Shape("f32", (32, 16), minor_to_major=(1, 0)))
    )


def test_source_lines_come_from_the_tables_at_the_head():
    module = parse_module((HLO / "scan_cpu_0.10.2.hlo").read_text())
    (dot, *_) = [
        each
        for computation in module.computations
        for each in computation.instructions
        if each.op_name and "while/body" in each.op_name and each.op_name.endswith("dot_general")
    ]
    assert dot.frames[0] == Frame("scan.py", 8, "program.<locals>.body")  # innermost first
    functions = [frame.function for frame in dot.frames]
    assert list(dict.fromkeys(functions)) == [
        "program.<locals>.body",
        "program",
        "compile_",
        "<module>",
    ]


def test_an_attribute_may_hold_raw_newlines_and_a_closing_brace_at_the_line_s_start():
    module = parse_module((HLO / "pallas_tpu_0.10.2.hlo").read_text())
    call = module.entry.root
    assert (call.opcode, call.operands, call.op_name) == (
        "custom-call",
        ("a.1",),
        "jit(f)/addone/pallas_call",
    )
    assert call.attributes["frontend_attributes"] == '{kernel_metadata={\n"a":"b\\nc"\n}}'
    assert call.attributes["custom_call_target"] == '"tpu_custom_call"'


@pytest.mark.parametrize(
    ("text", "shape", "size"),
    [
        ("f32[]", Shape("f32"), 4),
        (
            "bf16[8,4]{1,0:T(8,128)(2,1)}",
            Shape("bf16", (8, 4), minor_to_major=(1, 0), tile=(8, 128)),
            64,
        ),
        (
            "f32[16]{0:S(5)}",
            Shape("f32", (16,), memory_space=HOST_MEMORY_SPACE, minor_to_major=(0,)),
            64,
        ),
        ("s4[3]", Shape("s4", (3,)), 2),
        ("pred[7]", Shape("pred", (7,)), 7),
        ("f32[<=8,2]", Shape("f32", (8, 2)), 64),
        ("token[]", Shape("token"), 0),
        (
            "(f32[2]{0}, /*index=1*/(s32[], u8[3]))",
            Shape(
                "tuple",
                parts=(
                    Shape("f32", (2,), minor_to_major=(0,)),
                    Shape("tuple", parts=(Shape("s32"), Shape("u8", (3,)))),
                ),
            ),
            15,
        ),
        ("()", Shape("tuple"), 0),
    ],
)
def test_shapes_and_their_bytes(text, shape, size):
    assert parse_shape(text) == shape
    assert shape.bytes == size


def test_an_instruction_in_full():
    line = (
        "ROOT %all-reduce.1 = (f32[4]{0}, bf16[2]{0}) all-reduce(f32[4]{0} %a.b, /*index=1*/%c), "
        "channel_id=1, "
        "replica_groups=mesh['x'=2,'y'=4], device_ids=([2,4]T(1,0)) {'x'}, "
        "use_global_device_ids=true, to_apply=%add, "
        'frontend_attributes={note="a, \\"b\\" = {c"}, metadata={op_name="jit(f)/p[\\"w\\"]/add" '
        'source_file="some/layer.py" source_line=12}'
    )
    instruction = parse_instruction(line)
    assert (instruction.name, instruction.opcode, instruction.operands, instruction.is_root) == (
        "all-reduce.1",
        "all-reduce",
        ("a.b", "c"),
        True,
    )
    assert (
        instruction.attributes["replica_groups"]
        == "mesh['x'=2,'y'=4], device_ids=([2,4]T(1,0)) {'x'}"
    )
    assert instruction.attributes["frontend_attributes"] == '{note="a, \\"b\\" = {c"}'
    assert instruction.called() == ("add",)
    assert instruction.op_name == 'jit(f)/p["w"]/add'
    assert instruction.frames == (Frame("some/layer.py", 12),)


@pytest.mark.parametrize(
    ("line", "operands"),
    [
        ("%p = f32[2] parameter(1)", ()),
        ("%c = s32[3] constant({1, 2, 3})", ()),
        ("%i = s32[3] iota(), iota_dimension=0", ()),
        ("%t = token[] after-all()", ()),
        ("%t = token[] after-all(token[] %a, %b)", ("a", "b")),
        ("%c = (f32[2], f32[2], u32[]) copy-start(%a), cross_program_prefetch_index=0", ("a",)),
    ],
)
def test_what_stands_between_the_parentheses(line, operands):
    assert parse_instruction(line).operands == operands


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not begin with HloModule"),
        ("HloModule m\n\nENTRY %main () -> f32[] {\n  %a = f32[] constant(1\n", "has no end"),
        ("HloModule m\n\nENTRY %main () -> f32[] {\n  ROOT %a = f32[] constant(1)\n", "has no end"),
        ("HloModule m\n\nnonsense here\n", "'nonsense here' of a compiled program cannot be read"),
        (
            "HloModule m\n\nENTRY %main () -> f32[] {\n  ROOT %a = q?[] constant(1)\n}\n",
            "shape 'q?[]'",
        ),
    ],
)
def test_what_cannot_be_read_is_an_error_that_quotes_it(text, words):
    with pytest.raises(HloError, match="compiled program") as caught:
        parse_module(text)
    assert words in str(caught.value)


def test_an_element_type_of_unknown_size_is_an_error():
    with pytest.raises(HloError, match="'f7'"):
        _ = parse_shape("f7[2]").bytes


def test_a_slice_beside_the_work_reads_alike_before_and_after_code():
    """The scheduled module spells it out, the final one has a short form."""
    spelled = """HloModule m

%slicing (a: f32[4,128]) -> f32[2,128] {
  %a = f32[4,128]{1,0} parameter(0)
  ROOT %part = f32[2,128]{1,0} slice(%a), slice={[0:2], [0:128]}
}

ENTRY %main (x: f32[4,128]) -> f32[2,128] {
  %x = f32[4,128]{1,0} parameter(0)
  %begun = ((f32[4,128]{1,0}), f32[2,128]{1,0:S(1)}, s32[]{:S(2)}) async-start(%x), calls=%slicing
  ROOT %done = f32[2,128]{1,0:S(1)} async-done(%begun)
}
"""
    found = [each.opcode for each in parse_module(spelled).entry.instructions]
    assert found == ["parameter", "slice-start", "slice-done"]


def test_a_part_of_a_tuple_without_an_instruction_of_its_own_gets_one():
    """As newer compilers write a scheduled module."""
    entry = parse_module("""HloModule m

ENTRY %main (x: (f32[4], (f32[8], s32[]))) -> f32[8] {
  %x = (f32[4]{0}, (f32[8]{0}, s32[])) parameter(0)
  ROOT %twice = f32[8]{0} add(%x#1#0, %x#1#0)
}
""").entry
    assert [each.name for each in entry.instructions] == ["x", "x#1", "x#1#0", "twice"]
    assert [each.opcode for each in entry.instructions][1:3] == ["get-tuple-element"] * 2
    assert entry.by_name["x#1#0"].shape.dims == (8,) and entry.root.operands == ("x#1#0", "x#1#0")
    with pytest.raises(HloError, match="is no part of a tuple"):
        parse_module(
            "HloModule m\n\nENTRY %m (x: f32[4]) -> f32[4] {\n  %x = f32[4]{0} "
            "parameter(0)\n  ROOT %y = f32[4]{0} negate(%x#1)\n}\n"
        )
