"""Why a collective of a step is there, in words."""

import pytest

from spmd_core.cost.comm import Communication
from spmd_core.cost.reasons import reason


def comm(kind, op_name="", asked=None):
    return Communication(kind, 1, 1.0, (), (0, 1), "", True, None, "c", op_name, "", asked)


@pytest.mark.parametrize(("kind", "asked", "axes", "op_name", "words"), [
    ("all-reduce", "reduce-scatter", ("fsdp",), "jit(f)/transpose(jvp())/dot", "gradients of its own rows, which are added over fsdp, and each"),
    ("all-reduce", "all-gather", ("fsdp",), "", "pads each shard with zeros"),
    ("all-reduce", None, ("data", "fsdp"), "jit(f)/jvp()/reduce_sum", "sums of its own rows, which are added over data and fsdp"),
    ("all-gather", None, ("tensor",), "", "an intermediate value is sharded over tensor, but the next op needs it replicated"),
    ("collective-permute", None, ("tensor",), "", "from neighbor to neighbor over tensor"),
    ("all-to-all", None, ("x",), "", "its shards move over x"),
    ("send", "all-reduce", ("data",), "", "each slice holds partial sums, which are added between slices along data"),
    ("send", None, (), "", "values move between slices"),
])
def test_a_reason_names_the_axes_and_what_became_of_it(kind, asked, axes, op_name, words):
    assert words in (reason(comm(kind, op_name, asked), axes) or "")


def test_no_axes_no_reason():
    assert reason(comm("all-gather"), ()) is None
