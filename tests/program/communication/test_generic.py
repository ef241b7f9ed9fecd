"""Why a collective of a step is there, told from its kind, its axes and its op alone."""

import numpy as np
import pytest

from spmd_core.program.communication.generic import generic
from spmd_core.program.communication.parsed import ParsedCollective
from spmd_core.program.hlo.collective_ops import Site, StartOp
from spmd_core.program.hlo.module import Computation, Instruction
from spmd_core.program.hlo.text import parse_shape


def found(kind, axes=("x",), op_name="", asked=None):
    held = Instruction("c", kind, parse_shape("f32[1]"), ())
    start = StartOp(kind, held, held, Computation("main", (held,)), True)
    return ParsedCollective(
        Site(start, start.computation, (), 1), np.array([[0, 1]]), axes, asked, op_name, "add"
    )


@pytest.mark.parametrize(
    ("kind", "asked", "axes", "op_name", "words"),
    [
        (
            "all-reduce",
            "reduce-scatter",
            ("fsdp",),
            "jit(f)/transpose(jvp())/dot",
            "gradients of its own rows, which are added over fsdp, and each",
        ),
        ("all-reduce", "all-gather", ("fsdp",), "", "the compiler pads each shard with zeros"),
        (
            "all-reduce",
            None,
            ("data", "fsdp"),
            "jit(f)/jvp()/reduce_sum",
            "sums of its own rows, which are added over data and fsdp",
        ),
        (
            "all-gather",
            None,
            ("tensor",),
            "jit(f)/jvp()/while/body/attention/dot_general",
            "the value of `attention/dot_general` is sharded over tensor, but it is needed replicated",
        ),
        ("all-to-all", None, ("x",), "", "its shards move over x"),
        (
            "send",
            "all-reduce",
            ("data",),
            "",
            "each slice holds partial sums, which are added between slices along data",
        ),
        ("send", None, (), "", "values move between slices"),
    ],
)
def test_a_reason_names_the_axes_and_what_became_of_it(kind, asked, axes, op_name, words):
    assert words in (generic(found(kind, axes, op_name, asked)) or "")


def test_no_axes_no_reason():
    assert generic(found("all-gather", ())) is None
