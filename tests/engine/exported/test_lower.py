"""An exported program on a mesh: compiled as its own Python exported with that mesh, and run."""

import os
import re
import subprocess
import sys
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from bench.exported import SPECS, abstract_mesh, sgd_step, written
from spmd_core.base import RequestError
from spmd_core.engine.exported.lower import Fed, complete, quoted_files
from spmd_core.engine.exported.reference import program_references
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import execute, structs
from spmd_core.engine.measured.prepare import memory_bytes
from spmd_core.experiment import parse_experiment
from spmd_core.program import Reasons, read_collectives
from spmd_core.script import program_text
from spmd_core.terms import experiment_size_words
from spmd_core.workloads import programs
from tests.cover import whole
from tests.layers import ROOT

pytestmark = pytest.mark.usefixtures("read_here")
IN_A_PROCESS = """
import jax
from spmd_core.engine.lower import structs
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.lower import execute
from spmd_core.experiment import parse_experiment
from spmd_core.script import program_text
from spmd_core.terms import experiment_size_words

fields = {"workload": "program_file", "mesh": {"x": 8}, "target": "cpu:8", "program": "%s"}
experiment = parse_experiment(fields)
names = complete(execute(program_text(experiment, "auto"), "f.py"), experiment)
found = names["program"].trace(*structs(experiment, names)).lower().compile()
drawn = names["make_operands"]()
print([each.shape for each in found(*(jax.device_put(drawn[at], names["placed"][at]) for at in drawn))])
"""
_KINDS = re.compile(r" (all-\w+|reduce-scatter|collective-permute)\(")
_BYTES = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")


def compiled(data, **fields):
    """The experiment of a file, and its program compiled for simulated devices."""
    program = programs.take(data).program
    given = {"workload": "program_file", "program": program, "target": "cpu:8", **fields}
    experiment = parse_experiment(given)
    names = complete(execute(program_text(experiment, "auto"), "f.py"), experiment)
    shapes = structs(experiment, names)
    return experiment, names, names["program"].trace(*shapes).lower().compile()


def account(program):
    """What a compiled program communicates, and the memory that it takes."""
    memory = program.memory_analysis()
    return Counter(_KINDS.findall(program.as_text())), [getattr(memory, name) for name in _BYTES]


@pytest.fixture(scope="module")
def step():
    return sgd_step()


@pytest.mark.parametrize(
    ("mesh", "specs"),
    [
        pytest.param({"fsdp": 2, "tensor": 4}, SPECS, marks=whole),
        ({"fsdp": 8, "tensor": 1}, SPECS | {"up": P("fsdp")}),
    ],
)
def test_on_another_mesh_it_is_what_its_python_would_be(mesh, specs, step):
    given = {f"*/**/{name}": list(spec) for name, spec in specs.items() if spec != SPECS[name]}
    given = {pattern: [*spec, *[None] * (2 - len(spec))] for pattern, spec in given.items()}
    _, _, found = compiled(step, mesh=mesh, specs=given)
    _, _, again = compiled(sgd_step(mesh, specs), mesh=mesh)
    assert account(found) == account(again)


def piped(sizes, platforms):
    """A step whose `shard_map` passes results on over `stage` and leaves `data` to the compiler."""
    mesh, stages = abstract_mesh(sizes), sizes["stage"]

    def local(w, x):
        at = jax.lax.axis_index("stage")
        y = jnp.tanh(x @ w[0]) + at.astype(x.dtype)
        y = jax.lax.ppermute(y, "stage", [(k, (k + 1) % stages) for k in range(stages)])
        return jax.lax.psum(jnp.where(at == stages - 1, y, 0), "stage")

    specs = {"in_specs": (P("stage"), P()), "out_specs": P()}
    by_hand = jax.shard_map(local, mesh=mesh, axis_names={"stage"}, **specs)
    given = {
        name: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(axis)))
        for name, shape, axis in (("w", (2, 64, 64), "stage"), ("x", (64, 64), "data"))
    }
    return written(lambda w, x: by_hand(w, x), given, platforms)


@pytest.mark.parametrize("order", [pytest.param(("stage", "data"), marks=whole), ("data", "stage")])
def test_what_it_communicates_by_hand_is_that_of_another_mesh(order):
    before, after = ({axis: {"stage": 2, "data": data}[axis] for axis in order} for data in (4, 2))
    given = piped(before, ("cpu", "tpu"))
    assert programs.take(given).manual_axes == ("stage",)
    _, _, found = compiled(given, mesh=after)
    _, _, again = compiled(piped(after, ("cpu",)), mesh=after)
    pairs, numbers = (
        re.compile(r"source_target_pairs=\S+|replica_groups=\S+"),
        re.compile(r"u32\[\]\S* constant\(\d+\)"),
    )
    assert account(found) == account(again)
    for pattern in (pairs, numbers):
        assert sorted(pattern.findall(found.as_text())) == sorted(pattern.findall(again.as_text()))


def test_its_collectives_name_the_lines_of_its_author(step):
    experiment, _, found = compiled(step, mesh={"fsdp": 4, "tensor": 2})
    assert "bench/exported.py" in quoted_files(experiment, "auto")
    listed = read_collectives(
        read_module(found), experiment.mesh, file=quoted_files(experiment, "auto")
    )
    assert listed and all(re.fullmatch(r"exported\.py:\d+", each.source or "") for each in listed)


def reasons_of(data, **fields):
    """The reason of each collective of a file's program, by kind and axes."""
    experiment, _, found = compiled(data, **fields)
    module, file = read_module(found), quoted_files(experiment, "auto")
    why = Reasons(experiment, "auto", module)
    listed = read_collectives(module, experiment.mesh, file=file, reasons=why)
    return {(each.kind, *each.axes): each.reason for each in listed}


@pytest.mark.this_python
def test_what_calls_lapack_runs_in_a_process_that_traced_none():
    """Its functions are looked up when JAX traces one; a call before ends the process."""
    x = jax.ShapeDtypeStruct((16, 16), jnp.float32)
    factors = lambda x: (jnp.linalg.cholesky(x @ x.T + jnp.eye(16)), jnp.linalg.svd(x)[1])  # noqa: E731
    program = programs.take(written(factors, {"x": x})).program
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "8"}
    command = [sys.executable, "-c", IN_A_PROCESS % program]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[(16, 16), (16,)]", done.stderr[-500:]


@pytest.mark.this_python
def test_a_collective_of_shard_map_is_what_the_program_calls():
    sizes = {"stage": 2, "data": 4}
    found = reasons_of(piped(sizes, ("cpu", "tpu")), mesh=sizes)
    for call, key in (("ppermute", "collective-permute"), ("psum", "all-reduce")):
        said = rf"the program itself calls {call} over stage \(\w+\.py:\d+\)"
        assert re.match(said, found[key, "stage"]), "a line of one of several files names its file"


@pytest.mark.this_python
def test_a_sum_of_numbers_is_named_by_its_operation_and_not_by_a_count():
    """Outputs that are single numbers say nothing on what a number of the program is."""
    sizes = {"x": 8}
    mesh = abstract_mesh(sizes)

    def step(w, v, count):
        total = jnp.sum(w**2) + jnp.sum(jnp.abs(v))
        return w / total, v / total, count + 1

    w, v, count = (
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))
        for shape, dtype, spec in (
            ((64, 8), "float32", "x"),
            ((64, 4), "float32", "x"),
            ((), "int32", ""),
        )
    )
    data = written(step, {"w": w, "v": v, "count": count})
    reason = reasons_of(data, mesh=sizes)["all-reduce", "x"]
    assert "reduce_sum" in reason and "count" not in reason


def test_it_computes_what_its_python_computes(step):
    experiment, names, found = compiled(step, mesh={"fsdp": 2, "tensor": 4})
    drawn = names["make_operands"]()
    assert drawn["batch"].max() < 4096 and drawn["batch"].min() >= 0
    placed = [jax.device_put(drawn[path], names["placed"][path]) for path in drawn]
    fed = Fed(experiment.exported, found)
    first, second = ([np.asarray(each) for each in fed(*placed)] for _ in range(2))
    exported = export.deserialize(bytearray(step))
    one = Mesh(np.array(jax.devices()).reshape(4, 2), ("fsdp", "tensor"))
    given = [
        jax.device_put(drawn[path], NamedSharding(one, P(*experiment.spec(path)))) for path in drawn
    ]
    arguments, _ = jax.tree.unflatten(exported.in_tree, given)
    right = exported.call(*arguments)
    for array, leaf in zip(first, experiment.what.results, strict=True):
        np.testing.assert_allclose(array, right[leaf.name], rtol=2e-5, atol=1e-6)
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_symbols_are_given_their_sizes():
    mesh = abstract_mesh({"x": 8})
    (batch,) = export.symbolic_shape("b")
    x = jax.ShapeDtypeStruct((8 * batch, 16), jnp.float32, sharding=NamedSharding(mesh, P("x")))
    w = jax.ShapeDtypeStruct((16, 4), jnp.float32, sharding=NamedSharding(mesh, P()))
    data = written(lambda x, w: x @ w, {"x": x, "w": w})
    experiment, _, found = compiled(data, mesh={"x": 8}, dims={"b": 4})
    assert experiment.shape("x") == (32, 16) and experiment.id
    assert "f32[4,4]" in found.as_text()


@pytest.mark.parametrize(
    ("symbols", "step", "shapes", "flops"),
    [
        ("b", lambda x: x @ jnp.ones((16, 4)), ("8*b", 16), lambda b: 2 * 8 * b * 16 * 4),
        ("b, s", lambda x: jnp.einsum("bqd,bkd->bqk", x, x), ("b", "s", 16), lambda b, s: 2 * b * s * s * 16),
        ("b", lambda x: jnp.tanh(x), ("b", 4), lambda b: 0),
        # beyond a polynomial of the second degree, and too many symbols: no count
        ("b", lambda x: jnp.einsum("ij,kl->ijkl", x, x) @ x.T, ("b", "b"), None),
        ("b, c, d", lambda x: jnp.einsum("ijk,ljk->il", x, x), ("b", "c", "d"), None),
    ],
)  # fmt: skip
def test_flops_of_symbolic_sizes_follow_from_the_sizes(symbols, step, shapes, flops):
    named = dict(zip(symbols.split(", "), export.symbolic_shape(symbols), strict=True))
    sizes = [eval(str(each), {}, named) for each in shapes]  # of the table above
    data = written(step, {"x": jax.ShapeDtypeStruct(sizes, jnp.float32)})
    described = programs.take(data)
    for number in (5, 40):
        given = {name: number + at for at, name in enumerate(described.symbols)}
        assert described.flops_of(given) == (flops and flops(**given))
    fields = {"workload": "program_file", "program": described.program, "mesh": {"x": 1}}
    experiment = parse_experiment(fields | {"dims": given})
    assert experiment.what.flops(experiment.sizes) == (flops(**given) if flops else 0)
    assert ("FLOPs not counted" in experiment_size_words(experiment)) == (flops is None)


@pytest.mark.this_python
@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"mesh": {"fsdp": 8}}, "mesh fsdp=8 lacks axis tensor of the program: add tensor=2, or tensor=1"),
        ({"mesh": {"tensor": 2, "fsdp": 4}}, "in another order: write fsdp=4, tensor=2"),
        ({"specs": {"params/**": ["fsdp", None, None]}}, "spec of params/.* with 3 entries does not fit its rank 2"),
        ({"specs": {"**/up": ["x", None]}}, "mesh axis 'x' is not in the mesh"),
        ({"sharding": {"d0": "fsdp"}}, "sharding of program_file is not read"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(fields, sentence, step):
    program = programs.take(step).program
    given = {"workload": "program_file", "program": program, "mesh": {"fsdp": 4, "tensor": 2}}
    with pytest.raises(RequestError, match=sentence):
        parse_experiment(given | fields)


def recurrent(params, opt_state, tokens):
    """A step of Adam on a recurrent cell over a table, with functions and a branch by platform."""

    def loss(params):
        x = jnp.take(params["embed"], tokens, axis=0)

        def cell(h, now):
            gates = jnp.concatenate([layer["w"] for layer in params["layers"]], 1)
            i, f = jnp.split(jnp.concatenate([now, h], -1) @ gates, 2, -1)
            h = jax.nn.sigmoid(f) * h + jax.nn.silu(i)
            return jax.lax.platform_dependent(h, tpu=jnp.sin, default=jnp.tanh), h

        carry = jnp.zeros((len(tokens), params["embed"].shape[1]))
        _, every = jax.lax.scan(cell, carry, x.swapaxes(0, 1))
        return -jax.nn.log_softmax(every @ params["embed"].T).max(-1).mean()

    value, slopes = jax.value_and_grad(loss)(params)
    updates, opt_state = _ADAM.update(slopes, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, value


_ADAM = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))


@pytest.mark.newer_whole
@pytest.mark.parametrize("is_jitted", [pytest.param(False, marks=whole), True])
def test_a_file_of_two_platforms_is_the_step_that_jax_compiles(is_jitted):
    """Its collectives and bytes, and what the compiler gives the outputs that are left open."""
    devices = np.array(jax.devices()).reshape(4, 2)
    mesh = Mesh(devices, ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def placed(leaf):
        spec = P(None, "model") if leaf.ndim == 2 else P("data") if leaf.ndim else P()
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec))

    # twelve layers: in the order of their names 10 is before 2
    shapes = {"embed": (512, 384), "layers": [{"w": (768, 64)} for _ in range(12)]}
    is_shape = lambda node: isinstance(node, tuple)  # noqa: E731
    make = lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32)  # noqa: E731
    params = jax.tree.map(make, shapes, is_leaf=is_shape)
    state = jax.eval_shape(_ADAM.init, params)
    params, state = jax.tree.map(placed, (params, state))
    tokens = jax.ShapeDtypeStruct((16, 4), jnp.int32, sharding=NamedSharding(mesh, P("data")))
    arguments = {"params": params, "opt_state": state, "tokens": tokens}
    step = recurrent
    if is_jitted:
        held = jax.tree.map(lambda leaf: leaf.sharding, tuple(arguments.values()))
        step = jax.jit(step, in_shardings=held, out_shardings=(*held[:2], None))
    data = written(step, arguments, ("cpu", "tpu"), donated=("params", "opt_state"))
    experiment, _, found = compiled(data, mesh={"data": 4, "model": 2})
    own = jax.jit(step, donate_argnums=(0, 1)).lower(*arguments.values()).compile()
    assert account(found) == account(own)
    given = [
        experiment.exported.output_spec(leaf) for leaf in experiment.exported.described.outputs
    ]
    made = jax.tree.leaves(own.output_shardings)
    for leaf, spec, sharding in zip(experiment.what.results, given, made, strict=True):
        assert sharding.is_equivalent_to(NamedSharding(mesh, P(*spec)), len(leaf.sizes)), leaf.name


@pytest.mark.this_python
def test_a_branch_for_another_platform_is_not_compiled():
    mesh = abstract_mesh({"x": 8})
    given = {"x": jax.ShapeDtypeStruct((8, 64), jnp.float32, sharding=NamedSharding(mesh, P("x")))}
    given["w"] = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=NamedSharding(mesh, P("x")))
    inner = jax.jit(lambda x, w: jnp.tanh(x @ w))
    counts = []
    for platforms in (("cpu",), ("cpu", "tpu", "cuda")):
        step = lambda x, w: inner(inner(x, w), w)  # noqa: E731
        _, _, found = compiled(written(step, given, platforms), mesh={"x": 8})
        counts.append(account(found))
    assert counts[0] == counts[1] and counts[0][0]


def test_arguments_that_are_left_open_are_as_jit_would_shard_them():
    types = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=types)
    placed = lambda array, *spec: jax.lax.with_sharding_constraint(  # noqa: E731
        array, NamedSharding(mesh, P(*spec))
    )
    step = lambda x, w: placed(placed(x, "x", None) @ placed(w, None, "y"), "x", "y")  # noqa: E731
    given = {name: jax.ShapeDtypeStruct((16, 16), jnp.float32) for name in "xw"}
    experiment, _, found = compiled(written(step, given), mesh={"x": 4, "y": 2})
    assert experiment.spec("x") == (("x",), ()) and experiment.spec("w") == ((), ("y",))
    own = jax.jit(lambda x, w: step(x, w)).lower(*given.values()).compile()
    assert account(found) == account(own)


def unsharded():
    """A step whose arguments have no shardings, its file, and the specs to give it."""

    def step(params, x):
        loss = lambda p: jnp.mean((jnp.tanh(x @ p["up"]) @ p["down"]) ** 2)  # noqa: E731
        slopes = jax.grad(loss)(params)
        return {"params": jax.tree.map(lambda p, slope: p - 0.1 * slope, params, slopes)}

    def flat(**given):
        changed = step({"up": given["params/up"], "down": given["params/down"]}, given["x"])
        return {f"params/{name}": array for name, array in changed["params"].items()}

    shapes = {"params/up": (64, 128), "params/down": (128, 64), "x": (32, 64)}
    given = {path: jax.ShapeDtypeStruct(shape, jnp.float32) for path, shape in shapes.items()}
    donated = ["params/up", "params/down"]
    data = export.export(jax.jit(flat, donate_argnames=donated), platforms=["tpu", "cpu"])(**given)
    return flat, donated, given, bytes(data.serialize())


UNSHARDED = {"params/up": ["x", "y"], "params/down": ["y", "x"], "x": ["x", None]}


@pytest.mark.newer_whole
def test_a_program_without_shardings_is_given_a_mesh_and_specs():
    """It is then what `jax.jit` makes of its Python with those shardings."""
    flat, donated, given, data = unsharded()
    fields = {"mesh": {"x": 4, "y": 2}, "specs": UNSHARDED}
    _, _, found = compiled(data, **fields)
    types = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=types)
    held = {path: NamedSharding(mesh, P(*UNSHARDED[path])) for path in given}
    structs_ = {
        path: jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=held[path])
        for path, each in given.items()
    }
    out = {path: held[path] for path in donated}
    own = jax.jit(flat, donate_argnames=donated, out_shardings=out).lower(**structs_).compile()
    assert account(found) == account(own)
    same, moved = zip(*judged(data, changes=(as_it_is, shifted), **fields), strict=True)
    assert sum(same) == 0 and all(moved)


def test_a_program_without_shardings_is_replicated_on_any_mesh():
    data = unsharded()[-1]
    experiment, _, found = compiled(data, mesh={"x": 8})
    assert experiment.device_count == 8 and not account(found)[0]
    assert all(not any(spec) for spec in experiment.exported.array_specs().values())


def as_it_is(output):
    return output


def shifted(output):
    return np.roll(output, 1) if output.ndim else 2 * output


def judged(data, platform="cpu", changes=(as_it_is,), **fields):
    """How many elements of what a program gives on eight devices are wrong by one device: of each
    result, with each change.
    """
    experiment, names, found = compiled(data, **fields)
    drawn = names["make_operands"]()
    right = program_references(experiment.exported, drawn, platform, 0)
    results = found(*[jax.device_put(drawn[path], names["placed"][path]) for path in drawn])
    pairs = list(zip(right.values(), map(np.asarray, results), strict=True))
    return [[one.judge(change(result)).wrong for change in changes] for one, result in pairs]


@pytest.mark.this_python
@whole  # a fault in a smaller step is found above
@pytest.mark.parametrize("mesh", [{"fsdp": 4, "tensor": 2}, {"fsdp": 1, "tensor": 8}], ids=str)
def test_results_on_every_mesh_are_judged_by_those_on_one_device(step, mesh):
    same, moved = zip(*judged(step, mesh=mesh, changes=(as_it_is, shifted)), strict=True)
    assert sum(same) == 0 and all(moved)


@pytest.mark.this_python
def test_what_one_device_cannot_run_is_not_judged():
    mesh = abstract_mesh({"x": 8})
    given = {"x": jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=NamedSharding(mesh, P("x")))}
    summed = lambda x: jax.lax.psum(x, "x")  # noqa: E731
    step = jax.shard_map(summed, mesh=mesh, in_specs=P("x"), out_specs=P())
    with pytest.raises(RequestError, match="shard_map over x cannot be run on one device"):
        judged(written(lambda x: step(x), given), mesh={"x": 8})


@pytest.mark.parametrize("returned", ["device", "pinned_host"])
def test_state_in_host_memory_is_placed_there_and_is_no_device_memory(returned):
    mesh = abstract_mesh({"x": 8})
    at = lambda kind: NamedSharding(mesh, P("x", None), memory_kind=kind)  # noqa: E731
    array = lambda kind: jax.ShapeDtypeStruct((64, 512), jnp.float32, sharding=at(kind))  # noqa: E731

    def train(state, x):
        near = jax.device_put(state, at("device"))
        return jax.device_put(near + x, at(returned)), (near * x).sum()

    data = written(train, {"state": array("pinned_host"), "x": array("device")}, donated=("state",))
    _, names, program = compiled(data, mesh={"x": 8})
    drawn = names["make_operands"]()
    operands = [jax.device_put(drawn[name], names["placed"][name]) for name in drawn]
    assert [each.sharding.memory_kind for each in operands] == ["pinned_host", "device"]
    call = names["calling"](program)
    for _ in range(2):  # what it returns is what the next call takes
        new, _ = call(*operands)
    assert new.sharding.memory_kind == returned
    shard = 64 * 512 * 4 // 8
    held, near = memory_bytes(program), shard * (returned == "device")
    assert (held.argument, held.host) == (shard, shard)
    assert near <= held.output < near + 64  # the sum, and a table of addresses
    assert held.peak == held.argument + held.output + held.temp
