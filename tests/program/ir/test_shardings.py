"""A program after propagation as steps: names, specs, what is resharded, what is summed."""

from spmd_core.facts import Collective, Shardings
from spmd_core.program import parse_module
from spmd_core.program.ir.shardings import assigned, steps_of
from spmd_core.words import texts as words

MESH = (("x", 2), ("y", 4))
SOURCE = ["def f(x, w, n):\n", "    h = x @ w\n", "    z = loop(h)\n", "    return z.T + n\n"]
HEAD = """HloModule jit_f, num_partitions=8

FileNames
1 "/somewhere/f.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=2 end_line=2 column=4 end_column=9}
2 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=4 end_column=9}
3 {file_name_id=1 function_name_id=1 line=4 end_line=4 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=3}

"""
X, Y = (
    "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
)
XT = "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"
SUMMED = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
LOOP = f"({{replicated}}, {X})".replace("(", "{").replace(")", "}")
PROGRAM = (
    HEAD
    + f"""
%body (p: (s32[], f32[8,16])) -> (s32[], f32[8,16]) {{
  %p = (s32[], f32[8,16]) parameter(0), sharding={LOOP}
  %i = s32[] get-tuple-element(%p), index=0
  %c = f32[8,16] get-tuple-element(%p), index=1, sharding={X}
  %sin.1 = f32[8,16] sine(%c), sharding={X}, metadata={{op_name="@while/body/sin" stack_frame_id=2}}
  ROOT %t = (s32[], f32[8,16]) tuple(%i, %sin.1), sharding={LOOP}
}}

%cond (q: (s32[], f32[8,16])) -> pred[] {{
  %q = (s32[], f32[8,16]) parameter(0), sharding={LOOP}
  %j = s32[] get-tuple-element(%q), index=0
  ROOT %lt = pred[] compare(%j, %j), direction=LT, metadata={{op_name="@while/cond/lt" stack_frame_id=2}}
}}

ENTRY %main (x.0: f32[8,32], w.0: f32[32,16], n.0: f32[16,8]) -> f32[16,8] {{
  %x.0 = f32[8,32] parameter(0), sharding={Y}, metadata={{op_name="x"}}
  %w.0 = f32[32,16] parameter(1), sharding={X}, metadata={{op_name="w"}}
  %n.0 = f32[16,8] parameter(2), sharding={X}, metadata={{op_name="n"}}
  %dot.1 = f32[8,16] dot(%x.0, %w.0), {SUMMED}, sharding={X}, metadata={{op_name="@dot_general" stack_frame_id=1}}
  %zero = s32[] constant(0)
  %start = (s32[], f32[8,16]) tuple(%zero, %dot.1), sharding={LOOP}
  %while.1 = (s32[], f32[8,16]) while(%start), condition=%cond, body=%body, sharding={LOOP}, metadata={{op_name="@while" stack_frame_id=2}}
  %done = f32[8,16] get-tuple-element(%while.1), index=1
  %transpose.1 = f32[16,8] transpose(%done), dimensions={{1,0}}, sharding={XT}, metadata={{op_name="@transpose" stack_frame_id=3}}
  ROOT %add.1 = f32[16,8] add(%transpose.1, %n.0), sharding={XT}, metadata={{op_name="@add" stack_frame_id=3}}
}}
""".replace("@", "jit(f)/")
)
SUM = Collective(
    kind="all-reduce",
    axes=("y",),
    bytes=256,
    count=1,
    op="jit(f)/dot_general",
    source="f.py:2",
    name="all-reduce",
)
FOUND = steps_of(parse_module(PROGRAM), MESH, lambda file: SOURCE, (SUM,))


def named(name: str):
    return next(step for step in FOUND.steps if step.name == name)


def test_every_step_has_its_variable_its_spec_its_bytes_and_its_line():
    assert [words.value_words(step) for step in FOUND.steps] == [
        "x",
        "w",
        "n",
        "h",
        "z",
        "z",
        "transpose",
        "f()",
    ]
    h = named("h")
    assert (h.spec, h.shape, h.bytes, h.source, h.code) == (
        (("x",), ()),
        (8, 16),
        4 * 8 * 16 // 2,
        "f.py:2",
        "h = x @ w",
    )
    assert [step.inside for step in FOUND.steps if step.name == "z"] == ["while", ""]
    assert named("n").operation == "operand" and words.shape_words(h) == "f32[8, 16]"


def test_a_reshard_says_from_which_spec_to_which_and_whether_anything_is_sent():
    h, result = named("h"), named("f()")
    assert [(each.operand, each.before, each.after, each.free) for each in h.reshards] == [
        ("x", ((), ("y",)), (("x",), ("y",)), True),
        ("w", (("x",), ()), (("y",), ()), False),
    ]
    assert h.sums == ("y",) and h.collectives == ("all-reduce over y",)
    assert words.before_words(h) == (
        "x sliced: P(None, 'y') to P('x', 'y'); w resharded: P('x') to P('y'); "
        "partial sums over y; compiled: all-reduce over y"
    )
    assert [each.operand for each in result.reshards] == ["n"]  # and not the transpose
    assert words.steps_headline(FOUND) == (
        "5 steps: 2 with a reshard, 1 with partial sums; the largest value is w, 1.0 KiB per device"
    )


def test_it_is_read_back_and_a_source_that_is_no_python_names_nothing():
    assert Shardings.model_validate_json(FOUND.model_dump_json()) == FOUND
    assert assigned(("this is no", "Python at all")) == {}


CONSTRAINED = (
    HEAD.replace("/somewhere/f.py", "/site-packages/spmd.py")
    .replace("StackFrames", "4 {file_name_id=2 function_name_id=1 line=9}\n\nStackFrames")
    .replace('1 "/site', '2 "/somewhere/f.py"\n1 "/site')
    + f"""4 {{file_location_id=4}}
5 {{file_location_id=1 parent_frame_id=5}}

ENTRY %main (x.0: f32[8,32]) -> f32[8,32] {{
  %x.0 = f32[8,32] parameter(0), sharding={Y}, metadata={{op_name="x"}}
  %tanh.1 = f32[8,32] tanh(%x.0), sharding={{replicated}}, metadata={{op_name="@tanh" stack_frame_id=4}}
  %abs.1 = f32[8,32] abs(%tanh.1), sharding={{replicated}}, metadata={{op_name="@abs" stack_frame_id=4}}
  %copy.1 = f32[8,32] copy(%abs.1), sharding={{replicated}}, metadata={{op_name="@sharding_constraint" stack_frame_id=5}}
  ROOT %sin.1 = f32[8,32] sine(%copy.1), sharding={X}, metadata={{op_name="@sin" stack_frame_id=4}}
}}
""".replace("@", "jit(f)/")
)


def test_a_step_that_a_constraint_of_the_program_shards_has_its_line():
    """In the program's own text, where a library calls it."""
    steps = steps_of(parse_module(CONSTRAINED), MESH, lambda file: [], file="f.py").steps
    by_operation = {step.operation: step.constraint for step in steps}
    assert by_operation["tanh"] == by_operation["sharding_constraint"] == "f.py:9"
    assert by_operation["sin"] == "" and steps[-1].source == "f.py:9"
    assert {step.source for step in steps[1:]} == {"f.py:9"}
