"""Shardings as XLA writes them, on each JAX that is supported."""

import pytest

from spmd_core.program import HloError
from spmd_core.program.hlo.sharding_attributes import parse_sharding

MESH = (("x", 2), ("y", 4))


@pytest.mark.parametrize(
    ("text", "rank", "spec"),
    [
        (None, 2, ((), ())),
        ("{replicated}", 1, ((),)),
        ("{maximal device=0}", 1, ((),)),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", 2, (("x",), ())),
        ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2, ((), ("y",))),
        ("{devices=[8,1]<=[8]}", 2, (("x", "y"), ())),
        ("{devices=[8]<=[2,4]T(1,0)}", 1, (("y", "x"),)),
        ("{devices=[4,2]0,4,1,5,2,6,3,7}", 2, (("y",), ("x",))),
        ("{mesh['x'=2,'y'=4], [{'y', 'x'}, {}]}", 2, (("y", "x"), ())),
        ("{mesh['x'=2,'y'=4], [{}, {'x'}], replicated={'y'}}", 2, ((), ("x",))),
        ("{mesh[], replicated}", 1, ((),)),
    ],
)
def test_a_sharding_is_the_axes_of_each_dim(text, rank, spec):
    assert parse_sharding(text, rank, MESH).spec == spec


@pytest.mark.parametrize(
    ("text", "spec", "manual"),
    [
        ("{manual}", ((), ()), ("x", "y")),
        ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}}", ((), ("y",)), ("x",)),
        ("{mesh['x'=2,'y'=4], [{}, {'y'}], manual={'x'}}", ((), ("y",)), ("x",)),
    ],
)
def test_axes_that_the_program_handles_itself_are_told_apart(text, spec, manual):
    found = parse_sharding(text, 2, MESH)
    assert (found.spec, found.manual) == (spec, manual)


@pytest.mark.parametrize(
    "text",
    [
        "{devices=[4,2]<=[8] last_tile_dim_replicate}",
        "{mesh['x'=2,'y'=4], [{'y':(1)2}]}",
        "{mesh['z'=8], [{'z'}]}",
        "{devices=[4]<=[4]}",
        "{something new}",
    ],
)
def test_what_is_no_layout_of_the_mesh_s_axes_is_refused(text):
    with pytest.raises(HloError):
        parse_sharding(text, 1, MESH)
