"""One step of each optimizer over a mesh against one device, and against its formula in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding

from spmd_core.plan import PLAN_FIELDS, arrays
from spmd_core.script.decoder import configuration
from spmd_core.script.programs.decoder import Model
from spmd_core.script.programs.decoder_config import TRAIN_RULES, Decoder, parameter_dims, spec
from spmd_core.script.programs.decoder_step import (
    OPTIMIZERS,
    abstract_arguments,
    beside,
    kept_moment,
    make_train_step,
    matrix_sides,
    muon,
    orthogonal,
    wide_moment,
)
from spmd_core.time import estimate_memory, estimate_step
from spmd_core.workloads import parse_plan
from tests.cover import cover, whole

pytestmark = pytest.mark.this_python

SIZES = {
    "layers": 2,
    "embed": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "mlp": 64,
    "vocab": 64,
}
COMPILED = {"heads": 16, "kv_heads": 8, "mlp": 7168}
GOOD = {"target": "tpu:v5e:4x4", "model": "scaled:1", "mesh": {"fsdp": 16}, "batch_per_device": 2}


def stepped(name, sizes, dtype="float32", **more):
    """(state before, state after) of a step over a mesh, every leaf whole."""
    moments = OPTIMIZERS[name][1]
    config = Decoder(**SIZES, optimizer=name, moment_dtypes=(dtype,) * len(moments), **more)
    devices = jax.devices()[: int(np.prod(list(sizes.values())))]
    mesh = jax.make_mesh(
        tuple(sizes.values()),
        tuple(sizes),
        axis_types=(AxisType.Auto,) * len(sizes),
        devices=devices,
    )
    state, tokens = abstract_arguments(config, mesh, batch=8, length=16)
    numbers = np.random.default_rng(0)

    def drawn(leaf):
        if leaf.dtype == jnp.int32:
            return np.zeros(leaf.shape, np.int32)
        # NumPy's: JAX would compile a conversion and a slice for each shape
        return np.float32(np.abs(numbers.normal(size=leaf.shape)) / 8).astype(leaf.dtype)

    before = jax.tree.map(drawn, state)
    batch = {
        name: np.int32(numbers.integers(0, 64, leaf.shape)) for name, leaf in tokens.items()
    } | {"segments": np.ones((8, 16), np.int32)}
    placed = jax.tree.map(lambda x, leaf: jax.device_put(x, leaf.sharding), before, state)
    after, _ = jax.jit(make_train_step(Model(config, mesh, kernel=False)))(placed, batch)
    return jax.tree.map(np.array, before), jax.tree.map(np.array, after)


# of each element alone as AdamW, and by hand below; AdamW has adapters, and Adafactor 8 bits, in
# tests of their own
ALIKE = [pytest.param(name, marks=whole) for name in ("adamw", "adafactor", "momentum", "lion")]


@pytest.mark.parametrize("name", ["muon", *ALIKE])
def test_a_step_over_a_mesh_is_that_of_one_device(name):
    before, one = stepped(name, {"fsdp": 1})
    _, eight = stepped(name, {"fsdp": 4, "tensor": 2})
    assert set(one) == {"parameters", "step", *OPTIMIZERS[name][1]}
    # gradients in bfloat16 are summed in another order
    for part in OPTIMIZERS[name][1]:
        for expected, found in zip(*map(jax.tree.leaves, (one[part], eight[part])), strict=True):
            # squares of gradients are twice as far apart
            off = 0.05 if name == "adafactor" else 0.02
            assert np.linalg.norm(found - expected) < off * np.linalg.norm(expected)
    moved = [
        np.abs(new - old).max()
        for old, new in zip(
            jax.tree.leaves(before["parameters"]), jax.tree.leaves(one["parameters"]), strict=True
        )
    ]
    assert min(moved) > 0


@pytest.mark.parametrize("name", [pytest.param("adamw", marks=whole), "adafactor"])
def test_moments_in_8_bits_have_scales_and_a_mesh_has_the_same_step(name):
    before, one = stepped(name, {"fsdp": 1}, "float8_e4m3fn")
    _, eight = stepped(name, {"fsdp": 4, "tensor": 2}, "float8_e4m3fn")
    for part in OPTIMIZERS[name][1]:
        assert {leaf.dtype.itemsize for leaf in jax.tree.leaves(one[part])} == {1}
        assert_alike(one[part], eight[part], 0.1)
        assert_alike(one[f"{part}_scale"], eight[f"{part}_scale"], 0.05)
    assert not same(before["parameters"], one["parameters"])


def assert_alike(first, second, off):
    for expected, found in zip(*map(jax.tree.leaves, (first, second)), strict=True):
        expected, found = (each.astype(np.float32) for each in (expected, found))
        assert np.linalg.norm(found - expected) <= off * np.linalg.norm(expected)


def same(first, second):
    pairs = zip(*map(jax.tree.leaves, (first, second)), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("name", ["mean", "square"])
def test_a_moment_in_8_bits_is_read_as_it_was_kept(name):
    exact = np.random.default_rng(0).normal(size=(3, 64)).astype(np.float32) ** 2
    held = {name: jnp.zeros(exact.shape, "float8_e4m3fn"), f"{name}_scale": jnp.zeros((3, 1))}
    held = kept_moment(name, exact, held)
    found = np.array(wide_moment(name, held))
    assert np.abs(found - exact).max() < 0.14 * exact.max()  # twice the half of 2^-3
    assert np.median(np.abs(found / exact - 1)) < 0.07


def test_adapters_alone_are_trained_and_a_mesh_has_the_same_step():
    before, one = stepped("adamw", {"fsdp": 1}, lora_rank=4)
    _, eight = stepped("adamw", {"fsdp": 4, "tensor": 2}, lora_rank=4)
    assert same(before["frozen"], one["frozen"]) and same(one["frozen"], eight["frozen"])
    assert not same(before["parameters"], one["parameters"])
    assert_alike(one["parameters"], eight["parameters"], 0.02)
    for part in OPTIMIZERS["adamw"][1]:
        assert_alike(one[part], eight[part], 0.03)
    names = {*one["parameters"]["stages"][0][0]}
    assert {each.partition("_")[0] for each in names} == {
        *["query", "key", "value", "out", "up", "gate", "down"]
    }


def test_adapters_without_values_are_the_model_without_them_and_plans_count_them():
    plain, plan = parse_plan(GOOD), parse_plan(GOOD | {"lora_rank": 16})
    config, mesh = (
        Decoder(**SIZES, lora_rank=4),
        jax.make_mesh((1,), ("fsdp",), axis_types=(AxisType.Auto,)),
    )
    state, _ = abstract_arguments(config, mesh, batch=8, length=16)
    numbers = np.random.default_rng(0)
    frozen, adapters = (
        jax.tree.map(
            lambda leaf: jnp.asarray(numbers.normal(size=leaf.shape).astype(leaf.dtype)), each
        )
        for each in (state["frozen"], state["parameters"])
    )
    nothing = jax.tree.map(jnp.zeros_like, adapters)
    rows = jnp.asarray(numbers.integers(0, 64, (8, 16)), jnp.int32)
    batch = {"tokens": rows, "targets": rows, "segments": jnp.ones_like(rows)}
    batch["positions"] = jnp.broadcast_to(jnp.arange(16), rows.shape)
    with_them, without = (
        Model(each, mesh, kernel=False).loss(parameters, batch)
        for each, parameters in (
            (config, beside(frozen, nothing)),
            (Decoder(**SIZES), frozen),
        )
    )
    assert float(with_them) == float(without)
    trained = [each for each in arrays(plan) if each.is_adapter]
    count = sum(each.times * np.prod([size for _, size in each.dims]) for each in trained)
    assert plan.size.adapters(16) == count
    assert plan.flops == plain.flops - plan.tokens * (2 * plan.size.matmul_parameters - 6 * count)
    step, full = estimate_step(plan), estimate_step(plain)
    assert step.predicted_s.estimate < 0.9 * full.predicted_s.estimate
    assert step.memory_bytes.peak < full.memory_bytes.peak
    assert step.before_compiling["parts"]["frozen weights"] == 2 * plan.size.parameters // 16
    assert configuration(plan)["lora_rank"] == 16


@pytest.mark.parametrize(
    ("changes", "peak"),  # as compiled for v5e
    [
        ({"lora_rank": 16}, 847_977_472),
        (
            {"lora_rank": 32, "batch_per_device": 4, "layers": 2, "mesh": {"fsdp": 4, "tensor": 2}},
            1_505_981_440,
        ),
        ({"state_dtype": "float8"}, 1_488_222_208),
        ({"optimizer": "muon"}, 1_624_078_848),
    ],
)
def test_peaks_of_adapters_and_of_small_moments_are_near_those_compiled(changes, peak):
    compiled = {"target": "tpu:v5e:2x4", "mesh": {"fsdp": 8}, "layers": 4, "sizes": COMPILED}
    found = estimate_memory(parse_plan(GOOD | compiled | changes))
    assert found.peak == pytest.approx(peak, rel=0.07) and found.low <= peak <= found.high


def test_one_step_by_hand():
    """g 2, p 10, mean 1, square 4, the first step."""
    adamw, momentum, lion = (OPTIMIZERS[name][0] for name in ("adamw", "momentum", "lion"))
    change, (mean, square) = adamw(2.0, 10.0, 1, 1.0, 4.0)
    assert (mean, square) == pytest.approx((1.1, 4.0))
    assert float(change) == pytest.approx(11 / np.sqrt(80) + 1, rel=1e-6)
    assert momentum(2.0, 10.0, 1, 1.0) == (pytest.approx(2.9), (pytest.approx(2.9),))
    change, (mean,) = lion(2.0, 10.0, 1, -1.0)
    assert (float(change), mean) == pytest.approx((-1 + 1.0, -0.97))


def test_the_table_of_fields_has_the_optimizers_of_the_program_and_memory_follows_the_moments():
    assert PLAN_FIELDS["optimizer"].choices == tuple(OPTIMIZERS)
    plans = {name: parse_plan(GOOD | {"optimizer": name}) for name in OPTIMIZERS}
    state = {
        name: estimate_memory(plan).parts["parameters and optimizer"]
        for name, plan in plans.items()
    }
    assert state["lion"] == state["momentum"] == pytest.approx(state["adamw"] * 2 / 3, abs=2)
    adamw, tables = plans["adamw"], 2 * 32000 * 2048
    assert state["muon"] == pytest.approx(state["lion"] + 4 * tables / 16, rel=1e-3)
    assert state["adafactor"] == pytest.approx(state["adamw"] / 3, rel=0.02)
    assert adamw.size.embed == 2048 and adamw.size.vocab == 32000
    assert configuration(plans["lion"])["moment_dtypes"] == ("float32",)
    assert all(len(OPTIMIZERS[name][1]) == len(plan.moment_dtypes) for name, plan in plans.items())


def of_muon(mesh_axes, layers, dims):
    """(change, moment) of Muon for one stacked weight over a mesh, with the compiled text."""
    config = Decoder(**SIZES, optimizer="muon")
    names, sizes = zip(*mesh_axes.items(), strict=True)
    mesh = jax.make_mesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))
    dims = (("layers", layers), *dims)
    place = NamedSharding(mesh, spec(dims, TRAIN_RULES, mesh))
    numbers = np.random.default_rng(0)
    shape = tuple(size for _, size in dims)
    arrays = [numbers.normal(size=shape).astype(np.float32) for _ in range(3)]
    model = Model(config, mesh, kernel=False)

    def change(g, p, mean):
        return muon(model, dims, g, p, 1, mean, jnp.zeros(()))[:2]

    compiled = jax.jit(change, in_shardings=place, out_shardings=(place, None)).lower(*arrays)
    compiled = compiled.compile()
    made, (mean, _) = compiled(*(jax.device_put(each, place) for each in arrays))
    return arrays, np.array(made), np.array(mean), compiled.as_text()


MATRICES = {
    (32, 32): (("embed", 32), ("heads", 4), ("head_dim", 8)),
    (64, 32): (("mlp", 64), ("embed", 32)),
    (2, 32, 64): (("experts", 2), ("embed", 32), ("mlp", 64)),
}


@pytest.mark.parametrize(
    ("sides", "how"), cover(MATRICES, [(8, "all-to-all"), (3, "all-gather")]), ids=str
)
def test_muon_of_a_sharded_matrix_is_that_of_the_whole_one(sides, how):
    (layers, kind), dims = how, MATRICES[sides]
    (g, p, before), made, mean, text = of_muon({"fsdp": 4, "tensor": 2}, layers, dims)
    np.testing.assert_allclose(mean, 0.95 * before + g, rtol=1e-5)
    x = (g + 0.95 * mean).reshape(layers, *sides).astype(np.float64)
    decay, large = 0.1 * p.reshape(x.shape), 0.2 * max(sides[-2:]) ** 0.5
    alone = np.array(orthogonal(jnp.asarray(x, jnp.bfloat16)), np.float64) * large + decay
    if tall := sides[-2] > sides[-1]:
        x = x.swapaxes(-1, -2)
    x = x / np.linalg.norm(x, axis=(-2, -1), keepdims=True)
    for _ in range(5):
        square = x @ x.swapaxes(-1, -2)
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    x = x.swapaxes(-1, -2) if tall else x
    # by the formula but for five products of products in bfloat16, and as on one device
    for expected, off in ((x * large + decay, 0.08), (alone, 0.02)):
        error = np.linalg.norm(made.reshape(x.shape) - expected) / np.linalg.norm(expected)
        assert error < off
    assert f"{kind}(" in text or f"{kind}-start(" in text


def test_tables_and_norms_are_not_of_muon():
    dims = parameter_dims(Decoder(**SIZES))
    hidden = {name for name, each in dims["stages"][0][0].items() if matrix_sides(each) is not None}
    assert hidden == {"query", "key", "value", "out", "up", "gate", "down"}
    assert {matrix_sides(dims[name]) for name in ("embedding", "logits", "final_norm")} == {None}


def test_muon_multiplies_and_moves_as_its_closed_form_has_it():
    """Of one layer's up: [2048, 5632] in bfloat16, by five steps of three products."""
    plans = [parse_plan(GOOD | {"optimizer": name}) for name in ("adamw", "muon")]
    adamw, muon_ = (estimate_step(plan) for plan in plans)
    size, layers = plans[0].size, plans[0].size.layers
    moved = {
        each.name: each for each in muon_.collectives if (each.name or "").startswith("complete")
    }
    shards = 16 if layers % 16 == 0 else 1
    up = moved["complete up"]
    whole = 2 * size.embed * size.mlp
    assert (up.kind, up.count) == (("all-to-all", 2) if shards > 1 else ("all-gather", layers))
    assert up.bytes == whole * layers // shards if shards > 1 else whole
    queries, keys = size.heads * size.head_dim, size.kv_heads * size.head_dim
    flops = 0
    for wide in (queries, queries, keys, keys, *[size.mlp] * (3 if size.gated else 2)):
        low, high = min(size.embed, wide), max(size.embed, wide)
        flops += 5 * (4 * low * low * high + 2 * low**3) * layers / shards
    spent = muon_.shares_s["matmul"] - adamw.shares_s["matmul"]
    assert 0.75 < flops / plans[0].topology.chip.device_flops / spent < 1
