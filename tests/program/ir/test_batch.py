"""Where the batch is lost: dims are followed through operations, loops and constraints."""

import pytest

from spmd_core.program import parse_module
from spmd_core.program.hlo.module import Instruction, Shape
from spmd_core.program.ir.batch import lost_batch
from spmd_core.program.ir.needed import needed_specs, partial_sums, passed
from tests.program.ir.test_shardings import HEAD

MESH = (("x", 2), ("y", 4))
KEPT, LOST = (
    "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
)
LOOP = """
%body (p: (s32[], f32[512,256], f32[256,256])) -> (s32[], f32[512,256], f32[256,256]) {{
  %p = (s32[], f32[512,256], f32[256,256]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %c = f32[512,256] get-tuple-element(%p), index=1, sharding={carry}
  %v = f32[256,256] get-tuple-element(%p), index=2
  %d = f32[512,256] dot(%c, %v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={carry}, metadata={{op_name="@while/body/dot_general" stack_frame_id=2}}
  ROOT %t = (s32[], f32[512,256], f32[256,256]) tuple(%next, %d, %v)
}}

%cond (q: (s32[], f32[512,256], f32[256,256])) -> pred[] {{
  %q = (s32[], f32[512,256], f32[256,256]) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %n = s32[] constant(4)
  ROOT %lt = pred[] compare(%j, %n), direction=LT
}}

ENTRY %main (x.0: f32[512,256], w.0: f32[256,256]) -> f32[512,256] {{
  %x.0 = f32[512,256] parameter(0), sharding={kept}
  %w.0 = f32[256,256] parameter(1)
  %y = f32[512,256] sine(%x.0), sharding={kept}, metadata={{op_name="@sin" stack_frame_id=1}}
  %zero = s32[] constant(0)
  %start = (s32[], f32[512,256], f32[256,256]) tuple(%zero, %y, %w.0)
  %while.1 = (s32[], f32[512,256], f32[256,256]) while(%start), condition=%cond, body=%body, metadata={{op_name="@while" stack_frame_id=3}}
  ROOT %out = f32[512,256] get-tuple-element(%while.1), index=1, sharding={carry}
}}
"""


def judged(carry):
    text = HEAD + LOOP.format(carry=carry, kept=KEPT)
    return lost_batch(parse_module(text), MESH, (0,), "f.py")


def test_a_loop_whose_carry_is_sharded_otherwise_loses_the_batch_where_it_begins():
    lost = judged(LOST)
    assert lost is not None
    assert (lost.axes, lost.source, lost.share) == (("x",), "f.py:4", 1.0)
    assert lost.work == 2.0  # sharded over y alone, on 2 x 4 devices
    assert [(each.source, each.spec) for each in lost.places] == [
        ("f.py:2", (("x",), ())),
        ("f.py:3", (("x",), ())),
    ]


def test_a_loop_that_keeps_the_batch_has_no_finding():
    assert judged(KEPT) is None


MOVED = "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"


def constrained(spec):
    text = LOOP.format(carry=spec, kept=KEPT).replace(
        "@while/body/dot_general", "@while/body/sharding_constraint"
    )
    text = text.replace('metadata={op_name="@sin"', 'metadata={op_name="@sharding_constraint"')
    text = text.replace(f"sine(%x.0), sharding={KEPT}", f"copy(%x.0), sharding={spec}")
    return lost_batch(parse_module(HEAD + text), MESH, (0,), "f.py")


def test_a_constraint_that_moves_the_batch_to_another_dim_is_meant():
    assert constrained(MOVED) is None


def test_a_constraint_that_drops_the_batch_for_most_of_the_work_loses_it():
    lost = constrained(LOST)
    assert lost is not None
    assert (lost.axes, lost.source, lost.share) == (("x",), "f.py:2", 1.0)


X, Y, NO = ("x",), ("y",), ()


@pytest.mark.parametrize(
    ("opcode", "dims", "given", "attributes", "result"),
    [
        ("transpose", (4, 8), [((8, 4), (X, NO))], {"dimensions": "{1,0}"}, (NO, X)),
        ("broadcast", (3, 8), [((8,), (X,))], {"dimensions": "{1}"}, (NO, X)),
        ("reshape", (32, 5), [((8, 4, 5), (X, NO, NO))], {}, (X, NO)),
        ("reshape", (2, 4, 5), [((8, 5), (X, NO))], {}, (X, NO, NO)),
        ("reshape", (32,), [((8, 4), (NO, X))], {}, (NO,)),
        ("reshape", (1, 8, 5), [((8, 5), (X, NO))], {}, (NO, X, NO)),
        ("reduce", (5,), [((8, 5), (X, NO)), ((), ())], {"dimensions": "{0}"}, (NO,)),
        ("add", (8, 5), [((8, 5), (X, NO)), ((8, 5), (NO, Y))], {}, (X, Y)),
        ("slice", (8, 2), [((8, 5), (X, Y))], {}, (X, NO)),
        (
            "dot",
            (8, 3, 5),
            [((8, 3, 4), (X, NO, Y)), ((8, 4, 5), (NO, NO, NO))],
            {
                "lhs_batch_dims": "{0}",
                "rhs_batch_dims": "{0}",
                "lhs_contracting_dims": "{2}",
                "rhs_contracting_dims": "{1}",
            },
            (X, NO, NO),
        ),
        (
            "gather",
            (8, 6, 16),
            [((100, 16), (NO, Y)), ((8, 6, 1), (X, NO, NO))],
            {
                "offset_dims": "{2}",
                "collapsed_slice_dims": "{0}",
                "index_vector_dim": "2",
                "slice_sizes": "{1,16}",
            },
            (X, NO, Y),
        ),
        (
            "convolution",
            (8, 4, 4, 2),
            [((8, 4, 4, 3), (X, NO, NO, NO)), ((3, 3, 3, 2), (NO, NO, NO, NO))],
            {"dim_labels": "b01f_01io->b01f"},
            (X, NO, NO, NO),
        ),
        ("rng", (8,), [((8,), (X,))], {}, (NO,)),
    ],
)
def test_dims_are_passed_on(opcode, dims, given, attributes, result):
    names = tuple(f"v{number}" for number in range(len(given)))
    each = Instruction("r", opcode, Shape("f32", dims), names, attributes=attributes)
    shapes = [Shape("f32", of) for of, _ in given]
    assert passed(each, [labels for _, labels in given], shapes) == result


def test_specs_may_end_before_the_last_dims():
    lines = (
        "HloModule m\n\nENTRY %main (q: f32[16,2,8,64], k: f32[16,32,2,64]) -> f32[16,2,8,32] {\n"
        "  %q = f32[16,2,8,64] parameter(0)\n  %k = f32[16,32,2,64] parameter(1)\n"
        "  ROOT %s = f32[16,2,8,32] dot(%q, %k), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={3}\n}\n"
    )
    module = parse_module(lines)
    dot = module.entry.by_name["s"]
    shapes = [Shape("f32", (16, 2, 8, 64)), Shape("f32", (16, 32, 2, 64))]
    assert needed_specs(dot, (X,), shapes, [(), (X, NO)]) == [(X, NO, NO, NO), (X, NO, NO, NO)]
    assert partial_sums(dot, [(), (NO, NO, NO, X)]) == X
