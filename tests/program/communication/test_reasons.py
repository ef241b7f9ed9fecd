import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.program import Reasons, parse_module, read_collectives

PROGRAM = """HloModule program, num_partitions=8

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}}

%largest (c: f32[], d: f32[]) -> f32[] {{
  %c = f32[] parameter(0)
  %d = f32[] parameter(1)
  ROOT %max = f32[] maximum(%c, %d)
}}

%moved (p: f32[8,8]) -> f32[8,8] {{
  %p = f32[8,8]{{1,0}} parameter(0)
  ROOT %t = f32[8,8]{{0,1}} transpose(%p), dimensions={{1,0}}
}}

%computed (p.1: f32[8,8]) -> f32[8,8] {{
  %p.1 = f32[8,8]{{1,0}} parameter(0)
  ROOT %e = f32[8,8]{{1,0}} exponential(%p.1)
}}

ENTRY %main (x: f32[8,8], w: f32[8,8], bias: f32[8]) -> f32[8,8] {{
  %x = f32[8,8]{{1,0}} parameter(0)
  %w = f32[8,8]{{1,0}} parameter(1)
  %bias = f32[8]{{0}} parameter(2)
{lines}
}}
"""
ALONG_Y = "replica_groups=[2,4]<=[8]"
ALONG_X = "replica_groups=[4,2]<=[2,4]T(1,0)"


def why(lines, strategy="auto", **spec):
    grid = {
        "target": "cpu:8",
        "workload": "layer",
        "mesh": {"x": 2, "y": 4},
        "dims": {"batch": 32, "in": 32, "out": 32},
    }
    experiment = parse_experiment(grid | spec)
    module = parse_module(PROGRAM.format(lines=lines))
    found = read_collectives(
        module, experiment.mesh, file="layer.py", reasons=Reasons(experiment, strategy, module)
    )
    return [each.reason for each in found]


def reduced(axes, name="all-reduce", op="dot_general"):
    return (
        f"  %dot = f32[8,8]{{1,0}} dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f'  ROOT %r = f32[8,8]{{1,0}} {name}(%dot), {axes}, to_apply=%sum, metadata={{op_name="jit(program)/{op}"}}'
    )


def test_a_sum_over_the_axes_of_the_contracted_dim():
    words = "the contracted dim `in` is sharded over x: each device holds a partial sum, so the partial sums are added over x"
    assert why(reduced(ALONG_X), sharding={"in": "x"}) == [words]
    assert why(reduced(ALONG_X, "reduce-scatter"), sharding={"in": "x"}) == [
        f"{words}, and each device keeps its shard of the sum"
    ]


def test_a_sum_that_the_program_wrote_by_hand():
    assert why(
        reduced(ALONG_X, op="shard_map/psum_invariant"), "shard_map", sharding={"in": "x"}
    ) == [
        "the contracted dim `in` is sharded over x: each device holds a partial sum, so the program adds the partial sums over x (psum)"
    ]
    assert why(reduced(ALONG_Y, op="shard_map/psum"), "shard_map", sharding={"in": "x"}) == [
        "the program itself calls psum over y"
    ]


def test_a_sum_along_other_axes_is_not_put_down_to_the_contracted_dim():
    assert why(reduced(ALONG_Y), sharding={"in": "x"}) == [
        "devices along y hold partial sums of `dot_general`, which are added"
    ]


@pytest.mark.parametrize("before", ["%w", "%turned"])
def test_an_operand_that_is_stored_cut_but_needed_whole(before):
    """A transpose or a copy on the way does not hide which operand it is."""
    turned = (
        "  %turned = f32[8,8]{0,1} fusion(%w), kind=kLoop, calls=%moved\n"
        if before == "%turned"
        else ""
    )
    lines = (
        f"{turned}  %g = f32[8,32]{{1,0}} all-gather({before}), {ALONG_Y}, dimensions={{1}}\n"
        "  ROOT %dot = f32[8,32]{1,0} dot(%x, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    assert why(lines, overrides={"weights": [None, "y"]}) == [
        "`weights` is stored sharded over y along `out`, but is needed replicated over y"
    ]


def test_an_operand_that_is_needed_in_another_cut():
    lines = (
        f"  %m = f32[8,8]{{1,0}} all-to-all(%x), {ALONG_Y}, dimensions={{0}}\n"
        "  ROOT %dot = f32[8,8]{1,0} dot(%m, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    (reason,) = why(lines, overrides={"x": ["y", None]})
    assert (
        reason
        == "`x` is stored sharded over y along `batch`, but is needed in another sharding: its shards move over y"
    )


def test_a_result_that_is_asked_otherwise_than_it_is_computed():
    lines = (
        "  %dot = f32[8,8]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        f"  %g = f32[32,8]{{1,0}} all-gather(%dot), {ALONG_Y}, dimensions={{0}}\n"
        "  ROOT %c = f32[32,8]{0,1} copy(%g)"
    )
    assert why(lines, overrides={"y": ["x", None]}) == [
        "`y` is computed sharded over y, but is returned sharded over x along `batch`"
    ]
    assert why(lines) == ["`y` is computed sharded over y, but is returned replicated"]


def test_a_value_on_the_way_is_named_by_what_makes_and_what_reads_it():
    made = (
        'metadata={op_name="jit(program)/attention/exp" source_file="layer_auto.py" source_line=31}'
    )
    lines = (
        f"  %e = f32[8,8]{{1,0}} fusion(%w), kind=kLoop, calls=%computed, {made}\n"
        f"  %g = f32[8,32]{{1,0}} all-gather(%e), {ALONG_Y}, dimensions={{1}}\n"
        "  ROOT %dot = f32[8,32]{1,0} dot(%x, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        ', metadata={op_name="jit(program)/dot_general" source_file="layer_auto.py" source_line=33}'
    )
    assert why(lines) == [
        "the value of `attention/exp` (line 31) is sharded over y, but `dot_general` needs it "
        "replicated"
    ]
    # a fusion has the name of what reads its value
    assert why(lines.replace("attention/exp", "dot_general")) == [
        "`dot_general` needs a value replicated that is sharded over y"
    ]


def test_an_edge_of_a_shard_that_moves_is_a_part_of_it():
    """As `jnp.roll` and `jnp.diff` need it."""
    lines = (
        "  %edge = f32[8,1]{1,0} slice(%x), slice={[0:8], [7:8]}\n"
        "  %m = f32[8,1]{1,0} collective-permute(%edge), source_target_pairs={{0,1},{1,2},{2,3},{4,5}}\n"
        "  ROOT %c = f32[8,9]{1,0} concatenate(%m, %w), dimensions={1}"
    )
    (reason,) = why(lines, overrides={"x": [None, "y"]})
    assert reason.endswith(": devices along y need a part of each other's shards")


def test_a_window_over_a_sharded_dim_exchanges_halos():
    lines = (
        '  %m = f32[8,8]{1,0} collective-permute(%w), source_target_pairs={{0,1},{1,2},{2,3},{4,5}}, metadata={op_name="jit(f)/conv_general_dilated"}\n'
        "  ROOT %c = f32[8,16]{1,0} concatenate(%m, %w), dimensions={1}"
    )
    assert why(lines) == [
        "halo exchange between neighbors along y: the window of `conv_general_dilated` reaches into the neighbors' shards"
    ]


def test_a_value_that_becomes_the_result_element_by_element_is_the_result():
    """The compiler moves shards where they are fewest, before or after what is elementwise."""
    lines = (
        "  %dot = f32[8,8]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        f"  %m = f32[8,8]{{1,0}} all-to-all(%dot), {ALONG_Y}, dimensions={{0}}\n"
        "  ROOT %e = f32[8,8]{1,0} fusion(%m), kind=kLoop, calls=%computed"
    )
    assert why(lines, overrides={"y": [None, "y"]}) == [
        "`y` is computed in another sharding than it is returned in (sharded over y along `out`): its "
        "shards move over y"
    ]


@pytest.mark.parametrize(
    ("op", "use"), [("reduce_max", ""), ("jit(softmax)/reduce_max", ", as softmax needs it")]
)
def test_a_maximum_is_called_one_and_of_softmax_where_its_name_says_so(op, use):
    lines = (
        f"  %top = f32[8]{{0}} reduce(%x, %bias), dimensions={{1}}, to_apply=%largest\n"
        f'  %r = f32[8]{{0}} all-reduce(%top), {ALONG_X}, to_apply=%largest, metadata={{op_name="jit(program)/{op}"}}\n'
        "  ROOT %t = f32[8,8]{1,0} broadcast(%r), dimensions={0}"
    )
    assert why(lines, sharding={"in": "x"}) == [
        f"each device along x holds the maximum of its own shard in `reduce_max`, and the maximum of all is taken{use}"
    ]


def test_a_halo_exchange_is_called_one():
    """A window of 3 reaches one element into the shard of the neighbor."""
    convolution = {
        "workload": "convolve",
        "dims": {"rows": 8, "length": 64, "width": 3},
        "sharding": {"length": "y"},
    }
    lines = (
        "  %edge = f32[8,1]{1,0} slice(%x), slice={[0:8], [7:8]}\n"
        "  %m = f32[8,1]{1,0} collective-permute(%edge), source_target_pairs={{0,1},{1,2},{2,3},{4,5},{5,6},{6,7}}\n"
        "  ROOT %c = f32[8,9]{1,0} concatenate(%m, %w), dimensions={1}"
    )
    assert why(lines, **convolution) == [
        "halo exchange between neighbors: `length` is sharded over y, and a window of 3 elements reaches into the neighbors' shards"
    ]


RING = "source_target_pairs={{0,1},{1,2},{2,3},{3,0},{4,5},{5,6},{6,7},{7,4}}"
NAMED = 'metadata={op_name="jit(program)/dot_general"}'


def test_a_ring_of_matmuls_names_the_gather_that_it_implements():
    lines = (
        f"  %m = f32[8,8]{{1,0}} collective-permute(%w), {RING}, {NAMED}\n"
        "  ROOT %dot = f32[8,8]{1,0} dot(%x, %m), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    assert why(lines, overrides={"weights": [None, "y"]}) == [
        "collective matmul of `dot_general`: an all-gather over y in steps; shards pass around a ring of 4 along y while the matmul works on those "
        "that are there"
    ]


def test_a_ring_of_partial_sums_names_the_reduce_scatter():
    lines = (
        "  %dot = f32[8,8]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        f"  %m = f32[8,8]{{1,0}} collective-permute(%dot), {RING}, {NAMED}\n"
        "  ROOT %sum = f32[8,8]{1,0} add(%m, %x)"
    )
    (reason,) = why(lines, sharding={"in": "y"})
    assert reason.startswith(
        "collective matmul of `dot_general`: a reduce-scatter over y in steps; partial sums pass around a ring of 4"
    )


def test_a_permute_that_moves_in_no_ring_is_none():
    """Devices 0 and 3 keep theirs: shards change places, and no matmul works along."""
    lines = (
        f"  %m = f32[8,8]{{1,0}} collective-permute(%w), source_target_pairs={{{{0,0}},{{1,2}},{{2,1}},{{3,3}}}}, {NAMED}\n"
        "  ROOT %dot = f32[8,8]{1,0} dot(%x, %m), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    )
    (reason,) = why(lines, overrides={"weights": [None, "y"]})
    assert "in another sharding" in reason


def test_what_one_op_carries_is_named_without_what_jax_wraps_around_it():
    lines = (
        '  %dot = f32[4,8]{1,0} dot(%x, %w), metadata={op_name="jit(f)/transpose(jvp())/dot_general"}\n'
        '  %sums = f32[2]{0} reduce(%bias), metadata={op_name="jit(f)/jvp(head)/loss/reduce_sum"}\n'
        "  %g = (f32[4,8]{1,0}, f32[2]{0}) all-reduce(%dot, %sums), "
        + ALONG_X
        + ", to_apply=%sum\n"
        "  %first = f32[4,8]{1,0} get-tuple-element(%g), index=0\n"
        "  ROOT %all = f32[8,4]{0,1} transpose(%first), dimensions={1,0}"
    )
    (reason,) = why(lines)
    assert reason.endswith(
        "one op carries `backward dot_general` (128 B) and `loss/reduce_sum` (8 B)"
    )


def test_merged_gradients_are_broken_down_by_parameter():
    """The results of a training step tell by their dims which gradient is whose."""
    lines = (
        "  %g = (f32[8,8]{1,0}, f32[8]{0}) all-reduce(%x, %bias), " + ALONG_X + ", to_apply=%sum, "
        'metadata={op_name="jit(program)/transpose(jvp())/dot_general"}\n'
        "  %gw = f32[8,8]{1,0} get-tuple-element(%g), index=0\n  %gb = f32[8]{0} get-tuple-element(%g), index=1\n"
        "  %loss = f32[] constant(0)\n  ROOT %t = (f32[], f32[8,8]{1,0}, f32[8]{0}) tuple(%loss, %gw, %gb)"
    )
    step = {
        "workload": "train_step",
        "dims": {"batch": 32, "in": 8, "out": 8},
        "sharding": {"batch": "x"},
    }
    assert why(lines, **step) == [
        "the contracted dim `batch` is sharded over x: each device holds a partial sum, so the partial sums are added over x; one op "
        "carries `weights` (256 B) and `bias` (32 B)"
    ]
