"""Why a collective of a step is there, told from its kind, its axes and its op alone."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bench.reader import read
from spmd_core.program import Computation, Instruction, generic, read_collectives
from spmd_core.program.communication.parsed import ParsedCollective
from spmd_core.program.hlo.collective_ops import Site, StartOp
from spmd_core.program.hlo.text import parse_module, parse_shape

HLO = Path(__file__).parents[1] / "hlo"
MODULES = (
    "mlp_gathered_tpu_0.10.2",
    "scattered_tpu_0.10.2",
    "summed_product_tpu_0.10.2",
    "scan_cpu_0.10.2",
    "scan_tpu_0.10.2",
)


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
            "`attention/dot_general` needs a value replicated that is sharded over tensor",
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


def both(text):
    """What the list and the other reading say, as multisets."""
    listed = read_collectives(parse_module(text), (("x", 16),), file="")
    ours = Counter(
        (each.kind, each.bytes, each.count, each.asynchronous, each.groups) for each in listed
    )
    return ours, Counter(
        (each.kind, each.bytes, each.count, each.asynchronous, each.groups)
        for each in read(text, "")
    )


@pytest.mark.parametrize("name", MODULES)
def test_two_readings_of_a_module_agree(name):
    ours, theirs = both((HLO / f"{name}.hlo").read_text())
    assert ours == theirs
    assert ours


def test_the_comparison_can_fail():
    """A gather that its step fusion starts for a second time is one more for both, and other bytes
    are told apart.
    """
    text = (HLO / "mlp_gathered_tpu_0.10.2.hlo").read_text()
    once, _ = both(text)
    changed = re.sub(r"kind=kOutput(, .*calls=%async_collective_fusion)", r"kind=kCustom\1", text)
    assert changed != text
    twice, theirs = both(changed)
    assert sum(twice.values()) == sum(theirs.values()) == sum(once.values()) + 1
    assert once != theirs
