"""A file of jax.export, read in a process of its own: what it holds, and what is refused."""

import dataclasses
import math
import re

import jax
import pytest
from jax import export
from jax._src.interpreters import mlir
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import MESH, SPECS, abstract_mesh, sgd_step, written
from spmd_core.advice import grouped_findings, held_spec, program_headline
from spmd_core.base import RequestError, bytes_text
from spmd_core.commands.program import program_json
from spmd_core.engine.exported import describe, module
from spmd_core.workloads import Program, device_bytes, findings, programs

HERE = pytest.mark.usefixtures("read_here")


@pytest.fixture(scope="module")
def step():
    return sgd_step()


@pytest.fixture(scope="module")
def taken(step):
    return programs.take(step, "a step")


def test_arguments_are_what_jax_says_that_each_device_holds(step, taken):
    exported = export.deserialize(bytearray(step))
    held = {each.leaf.path: each for each in Program(taken, taken.mesh).arguments()}
    assert taken.mesh == tuple(MESH.items()) and taken.devices == 8
    assert taken.platforms == ("cpu", "tpu") and len(held) == len(exported.in_avals)
    mesh = abstract_mesh(MESH)
    for path, aval, sharding in zip(
        held, exported.in_avals, exported.in_shardings_jax(mesh), strict=True
    ):
        shard = math.prod(sharding.shard_shape(aval.shape)) * aval.dtype.itemsize
        assert held[path].shape == aval.shape and held[path].bytes_per_device == shard
    assert held["params/embed/kernel"].spec == (("tensor",), ("fsdp",))
    assert held["batch"].copies == 2 and held["batch"].leaf.index_below == 4096
    assert findings(Program(taken, taken.mesh)) == ()


def test_an_output_replaces_the_argument_of_its_path(taken):
    replaced = {leaf.path: leaf.replaces for leaf in taken.outputs}
    assert replaced["0/layers/1/up"] == "params/layers/1/up"
    assert replaced["1/mu/embed/kernel"] == "moments/mu/embed/kernel"
    assert replaced["2"] is None
    assert taken.optimizer["moments/mu/embed/kernel"] == "params/embed/kernel"


def test_no_path_of_a_machine_is_held(taken):
    held = export.deserialize(bytearray(programs.artifact(taken.program)))
    with mlir.make_ir_context():
        text = module.printed(held.mlir_module(serialized=False))
    assert '"bench/exported.py":' in text
    assert '("/' not in text


def rewritten(data, change):
    """The file with its module's text changed, and every safety check of its own disabled."""
    exported = export.deserialize(bytearray(data))
    with mlir.make_ir_context():
        text = change(module.printed(exported.mlir_module(serialized=False)))
        new = module.serialized(module.parsed(text))
    return bytes(
        dataclasses.replace(
            exported,
            mlir_module_serialized=new,
            disabled_safety_checks=[export.DisabledSafetyCheck.custom_call("ALL")],
        ).serialize()
    )


@HERE
@pytest.mark.this_python
@pytest.mark.parametrize("target", ["xla_ffi_python_cpu_callback", "tf.call_tf_function", "mine"])
def test_a_custom_call_that_is_not_on_the_list_is_refused(target, step):
    line = f"stablehlo.custom_call @{target}() {{has_side_effect = true}} : () -> ()\n    return"
    doctored = rewritten(step, lambda text: text.replace("    return", f"    {line}", 1))
    with pytest.raises(RequestError, match=f"custom call '{target}' of this program"):
        programs.take(doctored)


@HERE
@pytest.mark.this_python
def test_a_custom_call_inside_a_loop_is_refused():
    mesh = abstract_mesh({"x": 8})
    given = jax.ShapeDtypeStruct((8, 4), "float32", sharding=NamedSharding(mesh, P("x")))
    looped = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y * 2, x))
    data = bytes(export.export(looped, platforms=["cpu"])(given).serialize())
    line = "stablehlo.custom_call @mine() {has_side_effect = true} : () -> ()\n"
    doctored = rewritten(
        data, lambda text: text.replace("stablehlo.return", f"{line} stablehlo.return", 1)
    )
    with pytest.raises(RequestError, match="custom call 'mine'"):
        programs.take(doctored)


@pytest.mark.this_python
def test_what_is_no_program_ends_in_one_sentence(step):
    held = len(programs.held())
    for data in (b"", b"no program", step[: len(step) // 2], b"\0" * 4096):
        with pytest.raises(RequestError) as told:
            programs.take(data)
        assert "\n" not in str(told.value) and "spmd_lab.explain(step)" in str(told.value)
    with pytest.raises(RequestError, match="is larger than"):
        programs.take(bytes(programs.MOST_BYTES + 1))
    assert len(programs.held()) == held


def test_what_jax_prints_of_a_program_is_named():
    """HLO, StableHLO, a jaxpr and a script are what people drop first."""

    def step(x):
        return x @ x

    given = jax.ShapeDtypeStruct((8, 8), "float32")
    lowered = jax.jit(step).lower(given)
    texts = {
        "HLO text": lowered.compile().as_text(),
        "StableHLO text": lowered.as_text(),
        "a jaxpr": str(jax.make_jaxpr(step)(given)),
        "Python source": "import jax\n\ndef step(x):\n    return x @ x\n",
    }
    for kind, text in texts.items():
        with pytest.raises(RequestError, match=f"^this file is {kind}, and no program of jax.exp"):
            describe.read((text or "").encode())


def test_a_damaged_export_is_no_bytecode(step):
    """It has bytecode inside; bytecode alone begins with its mark."""
    bytecode = export.deserialize(bytearray(step)).mlir_module_serialized
    assert bytecode[:4] in step[:4096]
    with pytest.raises(RequestError, match=", or is damaged"):
        describe.read(step[:4096])
    with pytest.raises(RequestError, match="is StableHLO bytecode, and no program"):
        describe.read(bytecode)


def test_a_module_of_a_newer_version_names_it(step):
    exported = export.deserialize(bytearray(step))
    module = re.sub(rb"StableHLO_v\d+\.", b"StableHLO_v999.", exported.mlir_module_serialized)
    cut = module[: len(module) // 2]
    newer = dataclasses.replace(exported, mlir_module_serialized=cut)
    with pytest.raises(RequestError, match=r"is of StableHLO 999\.\S+, which JAX"):
        describe.describe(newer)


ACCIDENTS = {
    "replicated": lambda: sgd_step(specs=SPECS | {"kernel": P()}),
    "missing_donation": lambda: sgd_step(donated=("params",)),
}


@HERE
@pytest.mark.parametrize("kind", ACCIDENTS)
def test_an_accident_is_found_before_compiling(kind):
    described = programs.take(ACCIDENTS[kind]())
    assert kind in {each.kind for each in findings(Program(described, described.mesh))}


@pytest.mark.this_python
@pytest.mark.parametrize(
    ("step", "leaves", "said"),
    [
        (lambda x: x, {"x": (2**62,)}, "is larger than the memory of any machine"),
        (lambda x: x, {"x": (1,) * 40}, "an array of 40 dims has more than 32"),
        (lambda x: x, {"x" * 600: (8,)}, "has 60. characters, more than 500"),
        (lambda x: {}, {"x": (8,)}, "returns nothing, so that there is nothing to compile"),
        (
            lambda x: {"y": jax.numpy.ones(8)},
            {"x": (8,)},
            "uses no argument, so that there is nothing",
        ),
    ],
)
def test_what_a_screen_could_not_show_is_refused(step, leaves, said):
    given = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in leaves.items()}
    exported = export.export(jax.jit(step), platforms=["cpu"])(given)
    with pytest.raises(RequestError, match=said):
        describe.read(bytes(exported.serialize()))


def lora_step(spec):
    """A step that trains two factors beside frozen weights: a table, a matrix, a bias, and one that
    it does not use.
    """
    mesh = abstract_mesh(MESH)
    placed = lambda shape, spec: jax.ShapeDtypeStruct(  # noqa: E731
        shape, "float32", sharding=NamedSharding(mesh, spec)
    )
    frozen = {"embed": placed((4096, 256), spec), "up": placed((256, 512), P("fsdp", "tensor"))}
    lora = {"a": placed((256, 8), P("fsdp")), "b": placed((8, 512), P(None, "tensor"))}
    more = {"bias": placed((16384,), P()), "unused": placed((512, 512), P("fsdp"))}
    batch = placed((16, 256), P("fsdp"))

    def step(lora, frozen, batch):
        def loss(lora):
            x = batch @ frozen["embed"].T @ frozen["embed"]
            y = x @ frozen["up"] + x @ lora["a"] @ lora["b"]
            return (y**2).sum() * frozen["bias"].sum()

        return jax.tree.map(lambda p, g: p - g, lora, jax.grad(loss)(lora))

    arguments = {"lora": lora, "frozen": frozen | more, "batch": batch}
    return written(step, arguments, donated=("lora",))


@HERE
def test_a_frozen_table_that_is_replicated_is_found_and_a_bias_is_not():
    described = programs.take(lora_step(P()))
    found = findings(Program(described, described.mesh))
    assert [(each.kind, each.path, each.bytes_per_device) for each in found] == [
        ("replicated", "frozen/embed", 4 * 4096 * 256)
    ]
    assert {leaf.path for leaf in described.weights} - {
        leaf.path for leaf in described.parameters
    } == {*("frozen/embed", "frozen/up", "frozen/bias", "frozen/unused")}
    described = programs.take(lora_step(P("tensor", "fsdp")))
    assert findings(Program(described, described.mesh)) == ()


@HERE
def test_what_is_not_used_has_no_sharding_and_is_no_finding():
    """A file has no sharding of it: the last of three layers does not pass its norm on."""
    mesh = abstract_mesh(MESH)
    placed = lambda *spec: jax.ShapeDtypeStruct(  # noqa: E731
        (512, 512), "float32", sharding=NamedSharding(mesh, P(*spec))
    )
    layers = [{"up": placed("fsdp", "tensor"), "norm": placed("fsdp")} for _ in range(3)]

    def step(params, x):
        for number, layer in enumerate(params["layers"]):
            x = x @ layer["up"] + (layer["norm"] if number < 2 else 0)
        return x

    described = programs.take(written(step, {"params": {"layers": layers}, "x": placed("fsdp")}))
    program = Program(described, described.mesh)
    held = {each.leaf.path: each for each in program.arguments()}
    unused = held["params/layers/2/norm"]
    assert (unused.spec, unused.bytes_per_device, unused.copies) == (None, None, None)
    assert held["params/layers/1/norm"].copies == 2
    assert findings(program) == ()


@HERE
@pytest.mark.parametrize("is_stated", [True, False])
def test_an_output_is_judged_by_what_its_file_states_and_not_by_propagation(is_stated):
    """Of what is left to the compiler, propagation gives other specs than the compiler."""
    mesh = abstract_mesh(MESH)
    placed = lambda *spec: jax.ShapeDtypeStruct(  # noqa: E731
        (512, 512), "float32", sharding=NamedSharding(mesh, P(*spec))
    )
    stated = {"": NamedSharding(mesh, P("fsdp", None))} if is_stated else None
    step = lambda w, x: w + x  # noqa: E731
    arguments = {"w": placed("tensor"), "x": placed("fsdp")}
    described = programs.take(written(step, arguments, outputs=stated))
    output = described.outputs[0].model_copy(
        update={"replaces": "w", "propagated": (("fsdp",), ())}
    )
    program = Program(described.model_copy(update={"outputs": (output,)}), described.mesh)
    kinds = [each.kind for each in findings(program)]
    assert ("resharded_state" in kinds) == is_stated
    assert [held_spec(each) for each in program.outputs()] == [
        "P('fsdp', None)" + ("" if is_stated else ", propagated")
    ]
    assert program_json(program)["outputs"][0]["propagated"] == (not is_stated)


@HERE
def test_a_mesh_of_one_device_is_kept_and_can_be_another():
    mesh = abstract_mesh({"x": 1})
    given = {
        name: jax.ShapeDtypeStruct((64, 64), "float32", sharding=NamedSharding(mesh, P(axis)))
        for name, axis in (("w", "x"), ("x", None))
    }
    described = programs.take(written(lambda w, x: x @ w, given))
    assert described.mesh == (("x", 1),)
    on_eight = {each.leaf.path: each for each in Program(described, (("x", 8),)).arguments()}
    assert on_eight["w"].bytes_per_device == 4 * 64 * 64 // 8 and on_eight["w"].copies == 1
    assert on_eight["x"].copies == 8


@HERE
def test_an_output_over_another_mesh_is_refused():
    others = abstract_mesh({"a": 2, "b": 4})
    x = jax.ShapeDtypeStruct(
        (64, 64), "float32", sharding=NamedSharding(abstract_mesh({"x": 8}), P("x"))
    )
    moved = lambda x: jax.lax.with_sharding_constraint(2 * x, NamedSharding(others, P("a", "b")))  # noqa: E731
    with pytest.raises(RequestError, match="an output of this program, sharded over 'a', 'b', is"):
        programs.take(written(moved, {"x": x}))


@HERE
@pytest.mark.parametrize(("frozen", "expected"), [(4096, set()), (64, {"lora/a"})])
def test_adapters_beside_frozen_weights_are_meant_to_be_replicated(frozen, expected):
    """Unless they are much of what there is."""
    mesh = abstract_mesh(MESH)
    placed = lambda shape, *spec: jax.ShapeDtypeStruct(  # noqa: E731
        shape, "float32", sharding=NamedSharding(mesh, P(*spec))
    )
    lora = {"a": placed((1024, 32)), "b": placed((32, 8))}
    base = {"w": placed((1024, frozen), "fsdp")}

    def step(lora, base, x):
        loss = lambda lora: ((x @ base["w"]).sum() + (x @ lora["a"] @ lora["b"]).sum()) ** 2  # noqa: E731
        return jax.tree.map(lambda p, g: p - g, lora, jax.grad(loss)(lora))

    arguments = {"lora": lora, "base": base, "x": placed((64, 1024), "fsdp")}
    described = programs.take(written(step, arguments, donated=("lora",)))
    found = findings(Program(described, described.mesh))
    assert {each.path for each in found if each.kind == "replicated"} == expected


@HERE
@pytest.mark.parametrize("returned", ["device", "pinned_host"])
def test_state_that_leaves_in_another_memory_is_named_and_host_memory_is_no_hbm(returned):
    mesh = abstract_mesh(MESH)
    placed = lambda kind: NamedSharding(mesh, P("fsdp"), memory_kind=kind)  # noqa: E731
    array = lambda kind: jax.ShapeDtypeStruct((512, 512), "float32", sharding=placed(kind))  # noqa: E731

    def step(state, x):
        new = jax.device_put(state, placed("device")) * 0.9 + x
        return jax.device_put(new, placed(returned))

    described = programs.take(written(step, {"state": array("pinned_host"), "x": array("device")}))
    (output,) = described.outputs
    output = output.model_copy(update={"replaces": "state", "spec": (("fsdp",), ())})
    program = Program(described.model_copy(update={"outputs": (output,)}), described.mesh)
    state, x = program.arguments()
    assert (held_spec(state), held_spec(x)) == ("P('fsdp', None), pinned_host", "P('fsdp', None)")
    assert program_json(program)["arguments"][0]["memory"] == "pinned_host"
    each = 512 * 512 * 4 // dict(described.mesh)["fsdp"]
    assert device_bytes(program.arguments()) == (each, each)
    assert f"and {bytes_text(each)} of host memory" in program_headline(program)
    moved = [f.sentence for f in grouped_findings(program) if f.kind == "moved_state"]
    words = "enters in pinned_host and leaves in device memory"
    assert [words in sentence for sentence in moved] == [True] * (returned == "device")


@HERE
def test_axes_are_named_by_constraints_and_shard_maps_and_not_by_arguments():
    mesh = abstract_mesh({"x": 2, "y": 2, "z": 2})
    x = jax.ShapeDtypeStruct((64, 64), "float32", sharding=NamedSharding(mesh, P("x")))

    def step(x):
        x = jax.lax.with_sharding_constraint(2 * x, NamedSharding(mesh, P("y")))
        return jax.shard_map(jax.numpy.sin, mesh=mesh, in_specs=P("z"), out_specs=P("z"))(x)

    assert set(programs.take(written(step, {"x": x})).named_axes) >= {"y", "z"}
    assert programs.take(written(lambda x: 2 * x, {"x": x})).named_axes == ()
