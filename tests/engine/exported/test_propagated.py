"""What a program requests by propagation alone, beside what is compiled of it."""

from collections import Counter

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.exported_steps import STEPS
from bench.lost_batches import PLANTED, taken
from spmd_core.base import RequestError
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import execute, structs
from spmd_core.engine.propagated import passes, requested
from spmd_core.program import read_collectives
from spmd_core.script import program_text

pytestmark = pytest.mark.usefixtures("read_here")
SIZES = {"data": 2, "tensor": 4}
MESH = abstract_mesh(SIZES)


def _array(shape, *spec, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P(*spec)))


def _experiment(step, **arguments):
    return taken(written(step, arguments))


def _requested(experiment):
    found = requested.propagated(experiment, "auto")
    return [(each.kind, each.axes, each.dim, each.bytes, each.count) for each in found]


def _compiled(experiment):
    names = complete(execute(program_text(experiment, "auto"), "f.py"), experiment)
    compiled = names["program"].trace(*structs(experiment, names)).lower().compile()
    found = read_collectives(read_module(compiled), experiment.mesh)
    return Counter((each.asked or each.kind, each.axes, each.bytes, each.count) for each in found)


def test_a_contracted_dim_is_summed_and_a_sharded_weight_gathered():
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", "data")
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)
    assert _requested(experiment) == [
        ("all-gather", ("data",), 1, 8 * 16 * 4, 1),
        ("all-reduce", ("tensor",), None, 32 * 16 * 4, 1),
    ]
    assert _compiled(experiment) == Counter(
        [each[:2] + each[3:] for each in _requested(experiment)]
    )


def test_another_spec_is_answered_from_the_same_module():
    x, w = _array((64, 32), "data", None), _array((32, 16), None, "tensor")
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)
    assert _requested(experiment) == []
    changed = experiment.vary(specs={"w": ["tensor", None], "x": ["data", "tensor"]})
    assert [each[:2] for each in _requested(changed)] == [("all-reduce", ("tensor",))]
    assert _requested(experiment) == []


def test_the_size_of_an_axis_changes_bytes():
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)
    other = experiment.vary(mesh={"data": 4, "tensor": 2})
    assert [each[3] for each in (*_requested(experiment), *_requested(other))] == [2048, 1024]


def test_an_axis_of_size_one_communicates_nothing():
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    experiment = _experiment(lambda x, w: x @ w, x=x, w=w)
    assert _requested(experiment.vary(mesh={"data": 8, "tensor": 1})) == []


def test_a_scan_counts_its_steps():
    def step(x, w):
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, w)[0]

    x, w = _array((64, 32), "data", None), _array((6, 32, 32), None, "tensor", None)
    experiment = _experiment(step, x=x, w=w)
    found = _requested(experiment)
    assert {each[4] for each in found} == {6}
    assert {each[:2] for each in found} == {each[:2] for each in _compiled(experiment)}


def test_a_loop_of_unknown_length_has_no_count():
    def step(x, w):
        return jax.lax.while_loop(lambda h: h.sum() < 9, lambda h: jnp.tanh(h @ w), x)

    experiment = _experiment(step, x=_array((64, 32), "data"), w=_array((32, 32), "tensor", None))
    assert None in {each[4] for each in _requested(experiment)}


def test_collectives_of_a_shard_map_are_read_on_their_local_arrays():
    experiment = taken(STEPS["plain, shard_map"]())
    assert _requested(experiment) == [
        ("all-gather", ("fsdp",), None, 64 * 64 * 4, 1),
        ("reduce-scatter", ("fsdp",), None, 64 * 64 * 4, 1),
        ("all-reduce", ("fsdp",), None, 4, 1),
    ]


def test_a_constraint_on_a_line_changes_what_is_requested():
    experiment = taken(PLANTED["plain"].exported())
    line = next(
        each.source for each in requested.propagated(experiment, "auto") if each.source is not None
    )
    constrained = experiment.vary(specs={f"@{line}": ["data", None, None]})
    assert _requested(constrained) != _requested(experiment)


def test_no_sharding_communicates_nothing():
    experiment = _experiment(lambda x: x @ x.T, x=_array((64, 32)))
    assert _requested(experiment) == []


def test_passes_that_this_jaxlib_lacks_end_in_a_sentence(monkeypatch):
    monkeypatch.setattr(passes, "_PASSES", "builtin.module(sdy-of-tomorrow)")
    x, w = _array((64, 32), "data", "tensor"), _array((32, 16), "tensor", None)
    with pytest.raises(
        RequestError, match=r"without a compile fails \(.*sdy-of-tomorrow.*compile it"
    ):
        _requested(_experiment(lambda x, w: x @ w, x=x, w=w))
