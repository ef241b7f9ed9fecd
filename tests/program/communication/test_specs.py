"""The spec of a collective's value before and after, from the step that reshards it."""

import pytest

from spmd_core.facts import Collective, Reshard, Shardings, Step
from spmd_core.program import with_specs

BEFORE, GATHERED, TURNED = (("x",), ("y",)), (("x",), ()), (("x", "y"), ())


def step(*reshards, spec=None, **more):
    place = {"op": "jit(f)/dot_general", "source": "f.py:3"}
    return Step(
        operation="dot_general",
        shape=(8, 8),
        dtype="f32",
        spec=spec,
        reshards=reshards,
        **place,
        **more,
    )


def reason(kind, *reshards, axes=("y",), **more):
    each = Collective(
        kind=kind,
        axes=axes,
        bytes=4,
        count=1,
        op="jit(f)/dot_general",
        source="f.py:3",
        reason="it moves",
    )
    (found,) = with_specs([each], Shardings(steps=(step(*reshards, **more),)))
    return found.reason


def test_the_one_value_that_is_resharded_is_named():
    gathered = Reshard(operand="h", before=BEFORE, after=GATHERED)
    assert reason("all-gather", gathered) == "it moves (`h`: P('x', 'y') -> P('x', None))"
    turned = Reshard(operand="h", before=BEFORE, after=TURNED)
    assert reason("all-to-all", gathered, turned).endswith("-> P(('x', 'y'), None))")


def test_the_constraint_of_the_program_that_asks_for_it_is_named():
    gathered = Reshard(operand="h", before=BEFORE, after=GATHERED)
    assert reason("all-gather", gathered, constraint="f.py:7", spec=GATHERED) == (
        "it moves (`h`: P('x', 'y') -> P('x', None), as the program's with_sharding_constraint at "
        "f.py:7 asks)"
    )
    # what is constrained is the result: a weight that it reads is gathered for the product
    assert "asks" not in reason("all-gather", gathered, constraint="f.py:7", spec=(("x",), ("y",)))


@pytest.mark.parametrize(
    ("kind", "axes", "more"),
    [("all-gather", ("x",), ()), ("all-reduce", ("y",), ()), ("all-gather", ("y",), (("y",), ()))],
)
def test_where_several_may_be_meant_or_none_nothing_is_added(kind, axes, more):
    one = Reshard(operand="h", before=BEFORE, after=GATHERED)
    others = [Reshard(operand="w", before=more, after=((), ()))] if more else []
    assert reason(kind, one, *others, axes=axes) == "it moves"
