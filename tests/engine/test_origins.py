"""What put each axis on the value of a collective, for programs that are compiled here."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import compile_with
from spmd_core.engine.shardings import blamed, compiled_again, compiler_options
from spmd_core.experiment import type_text
from spmd_core.facts import AxisOrigin, Collective, NoOrigin
from spmd_core.machine import dump_folder
from spmd_core.program import ProgramNames, parse_module, read_collectives
from spmd_core.program.origins import trace
from spmd_core.program.origins.dump import read_dump
from spmd_core.program.origins.of_collectives import with_origins
from spmd_core.program.origins.reach import SameDims
from spmd_core.program.origins.trace import Tracer, with_written
from spmd_core.words import texts
from spmd_core.words.origins.set_by import set_by_words

SIZES = (("data", 2), ("tensor", 4))
FILE = "test_origins.py"
NONE = P()


@cache
def every() -> Mesh:
    """The mesh of all devices."""
    return Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "tensor"))


def shape(*dims, spec=NONE, mesh=None):
    return jax.ShapeDtypeStruct(dims, jnp.float32, sharding=NamedSharding(mesh or every(), spec))


def held(value, *spec):
    return jax.lax.with_sharding_constraint(value, NamedSharding(every(), P(*spec)))


def shardings_of(function, *arguments):
    """The steps of a function, each with the origins of its axes."""
    lowered = jax.jit(function).trace(*arguments).lower()
    return compiled_again(lowered, SIZES, (), ProgramNames(FILE))


def traced(
    function,
    *arguments,
    mesh=SIZES,
    spoil=lambda folder: None,
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
    **options,
):
    """The collectives of a compiled function, with the origins of their axes."""
    lowered = jax.jit(function, **options).trace(*arguments).lower()
    with dump_folder() as folder:
        compiled = compile_with(lowered, compiler_options(folder))
        spoil(folder)
        module = read_module(compiled)
        collectives = read_collectives(module, mesh, file=FILE)
        with around():
            return blamed(collectives, module, mesh, folder, ProgramNames(FILE))


def origins(collective):
    return {(each.axis, each.kind, each.name) for each in collective.origin if not each.also}


def line_of(text):
    """The line of this file that a text is on."""
    with open(__file__) as file:
        return next(f"{FILE}:{at}" for at, line in enumerate(file, 1) if text in line)


def product(x, w):
    return x @ w  # the helper


def layer(x, weights):
    hidden = held(jnp.tanh(product(x, weights["up"])), "data", "tensor")
    return x + product(hidden, weights["down"]), None


def loss(params, x):
    carry, _ = jax.lax.scan(jax.checkpoint(layer), jax.jit(jnp.tanh)(x), params["layers"])
    return jnp.sum(carry @ params["out"])


def test_a_sum_names_the_argument_and_the_constraint_that_shard_what_it_adds():
    params = {
        "layers": {
            "up": shape(3, 16, 32, spec=P(None, None, "tensor")),
            "down": shape(3, 32, 16, spec=P(None, "tensor", None)),
        },
        "out": shape(16, 8),
    }
    found = traced(jax.grad(loss), params, shape(8, 16, spec=P("data")))
    assert found and all(each.origin and not each.no_origin for each in found)
    forward = next(
        each for each in found if "jvp" in f"{each.op}" and each.source == line_of("the helper")
    )
    down = ("tensor", "argument", "params/layers/down")
    assert origins(forward) == {("tensor", "constraint", ""), down}
    also = {each.name for each in forward.origin if each.also}
    assert also == {"params/layers/up"}  # its columns are the rows of `down`
    constraint = next(each for each in forward.origin if each.kind == "constraint")
    assert constraint.source == line_of("with_sharding_constraint(value")
    assert constraint.spec == (("data",), ("tensor",))
    argument = next(each for each in forward.origin if each.kind == "argument")
    assert argument.spec == ((), ("tensor",), ())
    assert [step.source for step in argument.steps] == [line_of("jax.lax.scan(")]
    [gradient] = [each for each in found if each.source == line_of('params["out"]')]
    assert origins(gradient) == {("data", "argument", "x")}


def test_a_helper_that_is_called_from_two_lines_has_an_origin_for_each():
    def twice(a, b, v, w):
        return jnp.sum(product(a, v)), jnp.max(product(b, w))

    across = P(None, "tensor")
    found = traced(
        twice,
        shape(8, 32, spec=across),
        shape(8, 64, spec=P(None, "data")),
        shape(32, 8, spec=P("tensor")),
        shape(64, 8, spec=P("data")),
    )
    sums = {each.axes: origins(each) for each in found if each.source == line_of("the helper")}
    assert sums[("tensor",)] == {("tensor", "argument", "a"), ("tensor", "argument", "v")}
    assert sums[("data",)] == {("data", "argument", "b"), ("data", "argument", "w")}


@pytest.mark.parametrize("pin", [held, lambda value, *spec: held(value, *spec)])
def test_a_constraint_in_a_function_that_two_lines_call_names_the_line_that_calls_it(pin):
    def program(x, y):
        x = pin(jnp.tanh(x), "data")  # the rows
        y = pin(jnp.tanh(y), "tensor")  # the columns
        return jnp.sum(x), jnp.sum(y)

    found = traced(program, shape(8, 16), shape(8, 32))
    named = {each.axes: each.origin[0].called for each in found}
    assert named == {("data",): line_of("# the rows"), ("tensor",): line_of("# the columns")}


def test_an_axis_that_comes_from_the_requested_output_names_it():
    def program(x):
        y = jnp.tanh(x @ x.T)
        return y, jnp.sum(y)

    out = NamedSharding(every(), P(None, "tensor"))
    found = traced(program, shape(8, 16), out_shardings=(out, None))
    assert found and {name for each in found for name in origins(each)} == {
        ("tensor", "output", "output 0")
    }


def test_a_move_names_both_that_disagree():
    found = traced(lambda x: held(jnp.tanh(x), "data") * 2, shape(8, 16, spec=P("tensor")))
    assert found and all(("tensor", "argument", "x") in origins(each) for each in found)
    [gather] = [each for each in found if each.kind == "all-gather"]
    assert {(each.axis, each.kind) for each in gather.against} == {("data", "constraint")}


def test_a_gather_for_a_constraint_names_the_constraint():
    [found] = traced(lambda x: held(jnp.tanh(x)) + 1, shape(8, 16, spec=P("tensor")))
    assert origins(found) == {("tensor", "argument", "x")}
    [against] = found.against
    assert (against.kind, against.spec) == ("constraint", ((), ()))
    assert f"{against.source}".startswith(FILE)
    assert "argument `x` P('tensor', None)" in set_by_words(found)
    assert "needed otherwise by constraint of " in set_by_words(found)


def summed(x):
    def shards(x):
        return jax.lax.psum(jnp.sum(x), "tensor")

    return jax.shard_map(shards, mesh=every(), in_specs=P("tensor"), out_specs=P())(x)


def test_a_collective_of_a_shard_map_names_the_function_that_the_program_calls():
    found = traced(lambda x: summed(x * 2), shape(8, 16, spec=P("tensor")))
    assert [origins(each) for each in found] == [{("tensor", "shard_map", "psum")}]
    assert found[0].origin[0].source == line_of("jax.lax.psum")


def test_what_a_shard_map_calls_is_known_without_a_record():
    found = traced(lambda x: summed(x * 2), shape(8, 16, spec=P("tensor")), spoil=emptied)
    assert [origins(each) for each in found] == [{("tensor", "shard_map", "psum")}]


def test_what_is_moved_for_a_shard_map_is_of_the_nearest_place_on_that_dim():
    def program(x, y):  # `y` has the axis of `x`, on a dim that is summed before both meet
        return summed(x * jnp.sum(y, 0)[:, None])

    given = shape(8, 16, spec=P("data")), shape(16, 8, spec=P("data"))
    found = traced(program, *given)
    moved = [each for each in found if "psum" not in f"{each.op}" and each.kind != "all-reduce"]
    assert moved and all(each.origin for each in moved)
    for each in moved:
        assert all(one.inferred for one in each.origin)
        named = {place for place in origins(each) if place[1] != "shard_map"}
        assert named <= {("data", "argument", "x")}
        assert "the compiler kept no record" in set_by_words(each)


def test_loops_branches_and_calls_of_libraries_are_followed():
    def program(x, choose):
        x = jax.lax.while_loop(lambda s: jnp.sum(s) < 9, lambda s: s @ s.T @ s, x)
        x = jax.lax.cond(choose, lambda v: jnp.sin(v), lambda v: v * 2, x)
        return jnp.sum(jnp.sort(x, axis=0)), jnp.linalg.cholesky(x.T @ x)

    given = shape(16, 16, spec=P(None, "tensor")), jax.ShapeDtypeStruct((), bool)
    found = traced(program, *given)
    named = [each for each in found if each.origin]
    assert named
    assert all(("tensor", "argument", "x") in origins(each) for each in named)
    assert {each.no_origin for each in found} <= {None, NoOrigin.NO_VALUE, NoOrigin.NO_OPERATION}


def test_the_shardings_that_an_exported_function_brings_are_named_as_its_call():
    given = shape(64, 32), shape(32, 16, spec=P(None, "tensor"))
    inner = jax.export.export(jax.jit(jnp.matmul))(*given)
    found = traced(lambda x, w: inner.call(x, w), given[0], shape(32, 16, spec=P("tensor")))
    (moved,) = (each for each in found if each.kind == "all-to-all")
    assert origins(moved) == {("tensor", "argument", "w")}
    assert {(each.kind, each.name) for each in moved.against} == {("constraint", "exported.call")}
    assert "needed otherwise by constraint `exported.call` of test_origins.py" in set_by_words(
        moved
    )


def test_an_axis_of_size_one_and_no_sharding_have_no_collective_to_explain():
    thin = Mesh(np.array(jax.devices()).reshape(8, 1), ("data", "tensor"))
    one = shape(8, 16, spec=P(None, "tensor"), mesh=thin)
    assert traced(lambda x: jnp.sum(x @ x.T), one, mesh=(("data", 8), ("tensor", 1))) == ()
    assert traced(lambda x: jnp.sum(x), shape(8, 16)) == ()


def test_a_second_mesh_of_another_shape_leaves_the_axes_of_the_first_their_origins():
    other = Mesh(every().devices.reshape(4, 2), ("rows", "columns"))

    def program(x, w):
        h = jnp.tanh(x @ w)
        h = jax.lax.with_sharding_constraint(h, NamedSharding(other, P("rows", "columns")))
        return jnp.sum(h * 2)

    found = traced(program, shape(8, 16, spec=P("data")), shape(16, 32, spec=P(None, "tensor")))
    named = {place for each in found for place in origins(each)}
    assert {("data", "argument", "x"), ("tensor", "argument", "w")} <= named
    assert not {each.no_origin for each in found} & {NoOrigin.UNREADABLE, NoOrigin.NO_RECORD}


def test_a_second_mesh_has_origins_by_its_own_names():
    other = Mesh(every().devices, ("rows", "columns"))

    def program(x):
        x = jax.lax.with_sharding_constraint(x, NamedSharding(other, P(None, "columns")))
        return jnp.sum(x * 2)

    found = traced(program, shape(8, 16), mesh=(("rows", 2), ("columns", 4)))
    assert {(each.axis, each.kind) for one in found for each in one.origin} == {
        ("columns", "constraint")
    }


def test_a_mesh_whose_axes_are_parts_of_the_first_has_the_origins_of_both():
    """The compiler keeps the finer one alone."""
    flat = Mesh(every().devices.ravel(), ("x",))

    def program(x):
        y = held(jnp.sin(x), "tensor", "data")
        return y.T @ y

    found = traced(program, shape(64, 64, spec=P("x"), mesh=flat), mesh=(("x", 8),))
    assert {place for each in found for place in origins(each)} == {
        ("x", "argument", "x"),
        ("x", "constraint", ""),
    }
    (named,) = {o.spec for each in found for o in each.origin if o.kind == "constraint"}
    assert named == (("tensor",), ("data",)) and not any(each.no_origin for each in found)


def test_an_operation_with_named_results_hides_no_origin():
    """`%values, %indices = mhlo.topk(…)`, in the text of the record."""
    found = traced(lambda x: jax.lax.top_k(x, 2), shape(16, 64, spec=P("data", "tensor")))
    assert found and all(("argument", "x") in {o[1:] for o in origins(each)} for each in found)


def test_an_operation_that_cannot_work_on_shards_is_no_second_origin():
    found = traced(lambda x: jnp.fft.fft(x * 2), shape(16, 64, spec=P(None, "tensor")))
    assert [(origins(each), each.against) for each in found] == [
        ({("tensor", "argument", "x")}, ())
    ]


RAGGED = """HloModule step

ENTRY main {
  x = f32[16,16] parameter(0), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}, metadata={op_name="x"}
  w = f32[16,16] parameter(1), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}, metadata={op_name="w"}
  copy.1 = f32[16,16] copy(w), sharding={replicated}, metadata={op_name="w"}
  ROOT d.1 = f32[16,16] dot(x, copy.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}, metadata={op_name="jit(f)/ragged_dot"}
}
"""


def test_what_is_named_as_an_argument_is_moved_as_it_was_stored():
    """Though the name of the operation that reads it is listed."""
    named = SimpleNamespace(module=parse_module(RAGGED), names=ProgramNames(FILE))
    put = SimpleNamespace(
        record=named,
        mesh=SIZES,
        own_mesh=SIZES,
        renamed=lambda spec: spec,
        of=lambda inside, each, axis: AxisOrigin(axis=axis, kind="argument", name=each.name),
        also=lambda *ends: [],
        is_passed=lambda *ends: False,
    )
    moved = 'ENTRY main {\n  p = f32[4,16] parameter(0)\n  ROOT g = f32[16,16] all-gather(p), dimensions={0}, metadata={op_name="w"}\n}'
    one = Collective(kind="all-gather", axes=("tensor",), bytes=1024, count=1, op="jit(f)/ragged_dot", name="g")  # fmt: skip
    (found,) = with_origins([one], parse_module(f"HloModule step\n\n{moved}\n"), put)
    assert [each.name for each in found.origin] == ["w"]


def unrolled(count):
    """The gradient of layers that are not a loop, and their arguments; each has a scope of its own."""

    def total(layers, x):
        for at, weights in enumerate(layers):
            with jax.named_scope(f"layer{at}"):
                x = layer(x, weights)[0]
        return jnp.sum(x * x)

    weights = {"up": shape(16, 32, spec=P(None, "tensor")), "down": shape(32, 16, spec=P("tensor"))}
    return jax.grad(total), [weights] * count, shape(8, 16, spec=P("data"))


CALLED = """HloModule step

inside {
  h = f32[16,16] parameter(0)
  ROOT dot.1 = f32[16,16] dot(h, h), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="dot_general"}
}

ENTRY main {
  x = f32[16,16] parameter(0), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  ROOT call.1 = f32[16,16] call(x), to_apply=inside, metadata={op_name="jit(step)/closed_call"}
}
"""


@pytest.mark.parametrize(
    ("axis", "why"), [("tensor", None), ("data", NoOrigin.NOT_FOLLOWED)]
)  # it may be constrained inside
def test_an_operation_of_a_called_function_has_the_origins_of_its_call(axis, why):
    """The compiler inlines it, and puts the name of the call before its own."""
    known = AxisOrigin(axis=axis, kind="argument", name="x")
    named = SimpleNamespace(module=parse_module(CALLED), names=ProgramNames(FILE))
    put = SimpleNamespace(
        record=named,
        mesh=SIZES,
        own_mesh=SIZES,
        renamed=lambda spec: spec,
        of=lambda inside, each, of: known if each.name == "x" else None,
        also=lambda *ends: [],
    )
    sums = [Collective(kind="all-reduce", axes=(axis,), bytes=8, count=1, op=f"jit(step)/{name}") for name in ("closed_call/dot_general", "other/dot_general")]  # fmt: skip
    inside, other = with_origins(sums, named.module, put)
    assert (inside.origin, inside.no_origin) == (() if why else (known,), why)
    assert other.no_origin == NoOrigin.NO_OPERATION


@pytest.mark.newer_whole
def test_the_work_of_reading_origins_grows_as_the_layers_of_a_program():
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    @contextmanager
    def counting():
        nonlocal calls
        calls, before = 0, sys.getprofile()
        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(before)

    few = traced(*unrolled(4), around=counting)
    calls_of_few = calls
    many = traced(*unrolled(16), around=counting)
    assert len(many) > 3 * len(few) and all(each.origin for each in many)
    assert calls < 4.5 * calls_of_few


def also_of(collectives):
    return [{(one.kind, one.name, one.source) for one in each.origin} for each in collectives]


def without_edges(folder):
    for file in folder.glob("shardy/*/02*.mlir"):
        file.write_text(file.read_text().replace("sdy.propagation_edges = ", "sdy.others = "))


def test_steps_that_were_not_recorded_are_searched_for_a_bounded_number_of_times(monkeypatch):
    program = partial(traced, lambda x: jnp.sum(jnp.tanh(x) * 2), spoil=without_edges)
    [found] = program(shape(8, 16, spec=P("tensor")))
    assert origins(found) == {("tensor", "argument", "x")}
    assert found.origin[0].values
    monkeypatch.setattr(trace, "MOST_SEARCHES", 0)
    [found] = program(shape(8, 16, spec=P("tensor")))
    assert (found.origin, found.no_origin) == ((), NoOrigin.NOT_FOLLOWED)


def emptied(folder):
    for file in folder.glob("shardy/*/*.mlir"):
        file.unlink()


def garbled(folder):
    for file in folder.glob("shardy/*/02*.mlir"):
        file.write_text(file.read_text().replace("@main", "@principal"))


@pytest.mark.parametrize(
    ("spoil", "why"), [(emptied, NoOrigin.NO_RECORD), (garbled, NoOrigin.UNREADABLE)]
)
def test_a_compiler_with_another_record_is_named(spoil, why):
    [found] = traced(lambda x: jnp.sum(x), shape(8, 16, spec=P("tensor")), spoil=spoil)
    assert (found.origin, found.no_origin) == ((), why)
    assert set_by_words(found).startswith("an unknown origin: ")


def test_the_origin_survives_the_form_in_which_results_are_stored():
    [found] = traced(lambda x: jnp.sum(x), shape(8, 16, spec=P("tensor")))
    assert type(found).model_validate_json(found.model_dump_json()) == found
    [origin] = found.model_dump(mode="json")["origin"]
    assert {"axis", "kind", "name", "source", "steps"} <= set(origin)


def test_every_value_of_the_steps_names_what_sharded_it():
    def program(x, w):
        h = x @ w
        return jnp.sum(jnp.tanh(h))

    steps = shardings_of(
        program, shape(8, 16, spec=P("data")), shape(16, 32, spec=P(None, "tensor"))
    ).steps
    sharded = [step for step in steps if step.spec and any(step.spec)]
    assert sharded
    for step in sharded:
        assert [each.axis for each in step.origins] == [
            axis for axes in step.spec or () for axis in axes
        ]
    product = next(step for step in steps if step.name == "h")
    assert {(each.axis, each.name) for each in product.origins} == {("data", "x"), ("tensor", "w")}
    assert texts.set_by_words(product).startswith("data: argument `x` P('data', None)")


def test_a_reshard_that_nobody_wrote_names_both_origins_and_the_smaller_change():
    def program(x, y):
        h = jnp.sin(jnp.tanh(jnp.cos(x)))
        return h + y

    given = shape(16, 16, spec=P("tensor")), shape(16, 16, spec=P(None, "tensor"))
    [reshard] = [each for step in shardings_of(program, *given).steps for each in step.reshards]
    assert {each.name for each in reshard.origins} | {each.name for each in reshard.against} == {
        "x",
        "y",
    }
    words = texts.reshard_words(reshard)
    assert "argument `x`" in words and "argument `y`" in words
    assert "if unwanted, change argument `" in words


def mapped(x):
    """A shard_map of a replicated operand within a scan, as ends jaxlib 0.10.2 with a record."""
    step = jax.shard_map(lambda row: row + 1, mesh=every(), in_specs=P(), out_specs=P())
    return jax.lax.scan(lambda row, _: (step(row), None), x, length=2)[0]


@pytest.mark.parametrize(("function", "is_written"), [(jnp.sin, True), (mapped, False)])
def test_the_compiler_writes_no_record_for_a_program_with_a_shard_map(function, is_written):
    lowered = jax.jit(function).trace(shape(8, 8, spec=P("data"))).lower()
    with dump_folder() as folder:
        compile_with(lowered, compiler_options(folder))
        (after,) = folder.rglob("02.after_propagation.mlir")
        assert ("sharding_origins" in after.read_text()) == is_written


def test_what_is_added_to_an_argument_is_one_with_what_the_sum_comes_from():
    def step(w, v, x):
        down = jax.grad(lambda w: jnp.sum((jnp.tanh(x @ w) @ v) ** 2))(w)
        return w - 0.1 * down

    given = shape(16, 32, spec=P(None, "tensor")), shape(32, 16, spec=P("tensor"))
    lowered = jax.jit(step).trace(*given, shape(8, 16)).lower()
    with dump_folder() as folder:
        compile_with(lowered, compiler_options(folder))
        after, before = (next(folder.glob(f"shardy/*/{at}_*")).read_text() for at in ("02.after", "01.before"))  # fmt: skip
    graph = with_written(read_dump(after), read_dump(before))
    reach = SameDims(graph, Tracer(graph))
    areas = reach.areas(graph.returned[0], "tensor")
    seeds = {
        seed.index for area, is_here in areas.items() if is_here for seed in area.seeds["tensor"]
    }
    assert seeds == {0, 1}  # though the argument that is added to leads no further


def test_the_lines_of_a_path_are_marked_with_what_they_did():
    def program(x, w):
        h = held(jnp.tanh(x), "data", None)  # the constraint of a path
        h = h * 2  # a step of a path
        return h + w

    steps = shardings_of(program, shape(8, 16), shape(8, 16)).steps
    last = next(each for each in reversed(steps) if each.origins and each.operation == "add")
    code = {each.source: each.code for each in steps if each.source}
    did = {at: what for at, _, what in texts.path_lines(last, code)}
    assert did[last.source] == "this value"
    assert did[line_of("with_sharding_constraint(value")] == "data set here"
    assert did[line_of("# a step of a path")] == "data passed on"
    assert texts.chips(last)[0][0].startswith("data · ")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
@pytest.mark.parametrize("spec", [(("x",), ()), (("x", "y"), ()), ((), ("y",))])
def test_types_are_written_as_jax_writes_them(dtype, spec):
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    value = jax.device_put(jnp.zeros((8, 4), dtype), NamedSharding(mesh, P(*spec)))
    assert type_text(dtype, (8, 4), spec) == jax.typeof(value).str_short(short_dtypes=True)
