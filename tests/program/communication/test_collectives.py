from pathlib import Path

import pytest

from spmd_core.program import HloError, parse_module, read_collectives

HLO = Path(__file__).parents[1] / "hlo"
MESH = (("x", 2), ("y", 4))
PROGRAM = """HloModule program, num_partitions=8

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}}
{computations}
ENTRY %main (x: f32[16]) -> f32[16] {{
  %x = f32[16]{{0}} parameter(0), metadata={{op_name="x"}}
{lines}
}}
"""


def read(lines, computations="", **options):
    return read_collectives(
        parse_module(PROGRAM.format(lines=lines, computations=computations)),
        MESH,
        file="layer_auto.py",
        **options,
    )


def seen(name):
    found = read_collectives(parse_module((HLO / f"{name}.hlo").read_text()), MESH, file="scan.py")
    return [(each.kind, each.axes, each.bytes, each.count, each.source) for each in found]


# scan.py, in the strings beside: line 8 multiplies x sharded over (x, y) by w sharded over (y, x),
# five times in a loop.
LOOPED = ("all-reduce", ("y",), 32 * 64 * 4, 5, "scan.py:8")


@pytest.mark.parametrize(("name", "line"), [("scan_cpu_0.10.2", 8), ("scan_cpu_0.12.0", 10)])
def test_a_program_for_eight_simulated_devices(name, line):
    """JAX 0.12 writes no line at the all-gather: it is that of the loop which needs it."""
    assert seen(name) == [
        ("all-gather", ("x",), 16 * 64 * 4, 1, f"scan.py:{line}"),
        LOOPED,
        ("all-to-all", ("y",), 16 * 32 * 4, 1, "scan.py:11"),  # along half of y
        ("collective-permute", ("x", "y"), 16 * 32 * 4, 1, "scan.py:11"),
        ("all-gather", ("x",), 16 * 64 * 4, 1, "scan.py:12" if line == 8 else "scan.py:11"),
        ("all-reduce", ("x",), 4, 1, "scan.py:13"),
        # the compiler sends a scalar along with a product
        ("all-reduce", ("y",), 4 + 32 * 64 * 4, 1, "scan.py:13"),
    ]


def test_a_program_for_a_tpu():
    """The TPU compiler gathers inside the loop, writes reduce-scatters as fusions and splits the
    permute in two.
    """
    assert seen("scan_tpu_0.10.2") == [
        ("all-gather", ("x",), 512 * 2048 * 2, 5, "scan.py:8"),
        ("reduce-scatter", ("y",), 1024 * 2048 * 2, 5, "scan.py:8"),
        ("all-to-all", ("y",), 512 * 1024 * 2, 1, "scan.py:11"),
        ("collective-permute", ("x", "y"), 512 * 1024 * 2, 1, "scan.py:11"),
        ("all-reduce", ("x", "y"), 2, 1, "scan.py:13"),
        ("all-gather", ("x",), 512 * 2048 * 2, 1, "scan.py:12"),
        ("reduce-scatter", ("y",), 1024 * 2048 * 2, 1, "scan.py:12"),
    ]


def test_bytes_are_of_the_larger_of_operand_and_result():
    gather, scatter = read(
        "  %g = f32[64]{0} all-gather(%x), channel_id=1, replica_groups=[2,4]<=[8], "
        "dimensions={0}\n"
        "  %s = f32[16]{0} reduce-scatter(%g), channel_id=2, replica_groups=[2,4]<=[8], "
        "dimensions={0}, to_apply=%sum\n"
        "  ROOT %n = f32[16]{0} negate(%s)"
    )
    assert (gather.kind, gather.bytes, gather.axes, gather.group_size) == (
        "all-gather",
        256,
        ("y",),
        4,
    )
    assert (scatter.kind, scatter.bytes, scatter.axes, scatter.name) == (
        "reduce-scatter",
        256,
        ("y",),
        "s",
    )


@pytest.mark.parametrize(
    ("start", "done"),
    [
        (
            "(f32[16]{0}, f32[64]{0}) all-gather-start(%x), channel_id=1, "
            "replica_groups=[2,4]<=[8], dimensions={0}",
            "all-gather-done",
        ),
        ("((f32[16]{0}), f32[64]{0}, u32[]) async-start(%x), calls=%wrapped", "async-done"),
        (
            "((f32[16]{0}), f32[64]{0}, u32[]) all-gather-start(%x), channel_id=1, "
            "replica_groups=[2,4]<=[8], dimensions={0}",
            "all-gather-done",
        ),
    ],
)
def test_an_async_pair_counts_once_and_weighs_as_its_result(start, done):
    wrapped = """
%wrapped (p: f32[16]) -> f32[64] {
  %p = f32[16]{0} parameter(0)
  ROOT %inner = f32[64]{0} all-gather(%p), channel_id=1, replica_groups=[2,4]<=[8], dimensions={0}
}
"""
    (gather,) = read(
        f"  %start = {start}\n  %done = f32[64]{{0}} {done}(%start)\n  ROOT %r = f32[16]{{0}} "
        f"slice(%done), slice={{[0:16]}}",
        wrapped,
    )
    assert (gather.kind, gather.bytes, gather.count) == ("all-gather", 256, 1)


BODY = """
%step (s: (s32[], f32[16])) -> (s32[], f32[16]) {
  %s = (s32[], f32[16]{0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %v = f32[16]{0} get-tuple-element(%s), index=1
  %r = f32[16]{0} all-reduce(%v), channel_id=3, replica_groups={}, to_apply=%sum
  ROOT %t = (s32[], f32[16]{0}) tuple(%i, %r)
}

%while_condition (c: (s32[], f32[16])) -> pred[] {
  %c = (s32[], f32[16]{0}) parameter(0)
  ROOT %always = pred[] constant(true)
}
"""
LOOP = (
    "  %zero = s32[] constant(0)\n  %state = (s32[], f32[16]{{0}}) tuple(%zero, %x)\n"
    "  %loop = (s32[], f32[16]{{0}}) while(%state), condition=%while_condition, body=%step{known}\n"
    "  ROOT %out = f32[16]{{0}} get-tuple-element(%loop), index=1"
)


def test_a_loop_multiplies_and_one_of_unknown_length_has_no_count():
    (known,) = read(LOOP.format(known=', backend_config={"known_trip_count":{"n":"12"}}'), BODY)
    (unknown,) = read(LOOP.format(known=""), BODY)
    assert (known.count, known.axes, known.bytes) == (12, ("x", "y"), 64)
    assert unknown.count is None


def test_a_computation_called_twice_runs_twice_and_a_branch_unknown_times():
    called = """
%called (p: f32[16]) -> f32[16] {
  %p = f32[16]{0} parameter(0)
  ROOT %r = f32[16]{0} all-reduce(%p), channel_id=3, replica_groups=mesh['x'=2,'y'=4] {'x'}, to_apply=%sum
}
"""
    (twice,) = read(
        "  %one = f32[16]{0} call(%x), to_apply=%called\n  ROOT %two = f32[16]{0} call(%one), "
        "to_apply=%called",
        called,
    )
    (branch,) = read(
        "  %which = s32[] partition-id()\n"
        "  ROOT %r = f32[16]{0} conditional(%which, %x, %x), branch_computations={%called, "
        "%called}",
        called,
    )
    assert (twice.count, twice.axes) == (2, ("x",))
    assert branch.count is None


def test_the_line_is_the_innermost_of_the_program_s_own_file():
    (found,) = read(
        "  %r = f32[16]{0} all-reduce(%x), channel_id=3, replica_groups={}, to_apply=%sum\n"
        "  %n = f32[16]{0} negate(%r)\n"
        '  ROOT %o = f32[16]{0} exponential(%n), metadata={op_name="jit(program)/exp" '
        'source_file="/home/user/layer_auto.py" source_line=12}'
    )
    assert (found.source, found.op) == ("layer_auto.py:12", "jit(program)/exp")
    (elsewhere,) = read(
        "  ROOT %r = f32[16]{0} all-reduce(%x), channel_id=3, replica_groups={}, to_apply=%sum, "
        'metadata={op_name="jit(program)/psum" source_file="/lib/jax/lax.py" source_line=9}'
    )
    assert (elsewhere.source, elsewhere.op) == (None, "jit(program)/psum")


def test_device_numbers_are_read_in_the_program_s_device_order():
    """The program's devices 0 and 1 are the mesh's 0 and 4: they differ along x."""
    (found,) = read(
        "  ROOT %r = f32[16]{0} all-reduce(%x), channel_id=3, "
        "replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=%sum",
        positions=(0, 4, 1, 5, 2, 6, 3, 7),
    )
    assert found.axes == ("x",)


@pytest.mark.parametrize("groups", ["replica_groups=half of them, ", ""])
def test_groups_that_cannot_be_read_are_an_error(groups):
    with pytest.raises(HloError, match="group"):
        read(f"  ROOT %r = f32[16]{{0}} all-reduce(%x), channel_id=3, {groups}to_apply=%sum")


def test_a_call_of_what_is_not_there_is_an_error():
    with pytest.raises(HloError, match="'gone'"):
        read("  ROOT %r = f32[16]{0} call(%x), to_apply=%gone")


def test_a_program_without_communication_has_none():
    assert read("  ROOT %r = f32[16]{0} negate(%x)") == ()


def test_an_asynchronous_gather_is_counted_where_it_starts():
    """A fusion starts the gather, a step fusion with the matmul beside it repeats its text, a third
    one ends it.
    """
    text = (HLO / "mlp_gathered_tpu_0.10.2.hlo").read_text()
    assert text.count(" all-gather(") == 3
    found = read_collectives(parse_module(text), (("x", 4), ("y", 4)), file="mlp_auto.py")
    assert [(each.kind, each.asynchronous, each.count) for each in found] == [
        ("collective-permute", True, 1),
        ("collective-permute", True, 1),
        ("all-gather", True, 1),
        ("all-reduce", False, 1),
    ]
    assert found[2].name == "async-collective-start"


def test_a_gather_that_a_matmul_carries_on_is_not_of_the_line_of_the_matmul():
    """The matmul of the logits (line 13) waits for nothing of the cache (line 12)."""
    text = (HLO / "carried_gather_tpu_0.10.2.hlo").read_text()
    (found,) = read_collectives(parse_module(text), (("x", 8),), file="step.py")
    assert (found.kind, found.source, found.op) == ("all-gather", "step.py:12", "jit(step)/mul")
    assert "dot_general" not in (found.reason or "")


def test_transfers_between_slices_are_in_the_list():
    text = (HLO / "two_slices_tpu_0.10.2.hlo").read_text()
    places = tuple((i, j, 0, 0, part) for part in (0, 1) for i in range(2) for j in range(4))
    found = read_collectives(
        parse_module(text), (("data", 2), ("x", 8)), file="train_step_auto.py", places=places
    )
    sends = [each for each in found if each.kind == "send"]
    assert [(each.asked, each.axes, each.bytes) for each in sends] == [
        ("all-reduce", ("data",), 2**21),
        ("all-reduce", ("data",), 3 * 8 * 128 * 4),
    ]
    assert sends[0].groups is not None and sends[0].groups[:2] == ((0, 8), (1, 9))
    assert len(found) == 5


def test_a_scattered_sum_that_became_a_whole_one_keeps_its_own_line():
    """The compiler dropped its name and line, and the next op that has one is the psum of the line
    below.
    """
    found = read_collectives(
        parse_module((HLO / "scattered_tpu_0.10.2.hlo").read_text()), (("x", 8),), file="odd.py"
    )
    assert [(each.kind, each.asked, each.source) for each in found] == [
        ("all-reduce", "reduce-scatter", "odd.py:48"),
        ("all-reduce", None, "odd.py:49"),
    ]


def test_groups_are_the_numbers_that_jax_gives_the_devices():
    (found,) = read(
        "  ROOT %r = f32[16]{0} all-reduce(%x), channel_id=3, "
        "replica_groups={{0,1,2,3},{4,5,6,7}}, to_apply=%sum",
        devices=(0, 1, 2, 3, 7, 6, 5, 4),
    )
    assert found.groups == ((0, 1, 2, 3), (7, 6, 5, 4))


def test_bytes_in_all_are_unknown_where_the_count_is():
    (known,) = read(LOOP.format(known=', backend_config={"known_trip_count":{"n":"12"}}'), BODY)
    (unknown,) = read(LOOP.format(known=""), BODY)
    assert (known.bytes_total, unknown.bytes_total) == (12 * 64, None)
