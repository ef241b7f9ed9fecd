"""A sequence over the axis `context`: attention of each kind by the kernel, interpreted on simulated devices, and a loss in parts, against one device."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from spmd_core.script.decoder import configuration
from spmd_core.script.programs import decoder, decoder_config, decoder_context
from spmd_core.workloads import parse_plan
from tests.cover import whole

pytestmark = pytest.mark.this_python

KEYS, LENGTH = 2, 1024
SHORT = {"sequence": 512}


def model_of(mesh, kernel=True, **more):
    """(model, its order of tokens) over a mesh."""
    plan = parse_plan(
        {
            "target": "tpu:v5e:2x4",
            "model": "scaled:1",
            "mesh": mesh,
            "batch_per_device": 4 / 8,
            "sequence": LENGTH,
            "sizes": {"heads": 8, "kv_heads": KEYS},
            "attention_backward": "split",
            **more,
        }
    )
    devices = jax.make_mesh(
        tuple(mesh.values()), tuple(mesh), axis_types=(AxisType.Auto,) * len(mesh)
    )
    config = decoder_config.Decoder(**configuration(plan))
    return decoder.Model(config, devices, kernel=kernel), config


def both(attend, arrays, segments):
    """Attention of three arrays, and the gradients of its product with a fourth."""

    def total(*given):
        return jnp.sum(attend(*given, segments) * arrays[3])

    return jax.jit(lambda *given: (attend(*given, segments), *jax.grad(total, (0, 1, 2))(*given)))(
        *arrays[:3]
    )


@functools.cache
def of_one_device(batch, length):
    """Queries, keys, values and a cotangent with their segments; attention of them by matmuls."""
    numbers = np.random.default_rng(0)
    arrays = [
        np.float32(numbers.normal(size=(batch, heads, length, 128)) / 8)
        for heads in (8, KEYS, KEYS, 8)
    ]
    segments = np.int32(np.arange(length) > 0.7 * length)[None].repeat(batch, 0)
    attend = model_of({"fsdp": 2, "tensor": 4})[0].plain_attention
    return arrays, segments, both(attend, arrays, segments)


@pytest.mark.parametrize(
    ("mesh", "more"),
    [
        ({"fsdp": 4, "context": 2}, SHORT),
        pytest.param(
            {"fsdp": 2, "context": 4}, SHORT | {"context_order": "contiguous"}, marks=whole
        ),
        ({"fsdp": 2, "context": 4}, SHORT | {"context_attention": "ulysses"}),
        pytest.param({"fsdp": 2, "context": 4}, {"context_attention": "ring"}, marks=whole),
        (
            {"tensor": 2, "sequence": 2, "context": 2},
            {"context_attention": "ring", "attention_backward": "fused"},
        ),
    ],
    ids=str,
)
def test_attention_over_context_is_that_of_one_device(mesh, more, monkeypatch):
    monkeypatch.setattr(
        decoder_context.splash,
        "make_splash_mha",
        functools.partial(decoder_context.splash.make_splash_mha, interpret=True),
    )
    model, config = model_of(mesh, **more)
    length = more.get("sequence", LENGTH)
    order = decoder_context.token_order(config, length, mesh["context"])
    assert sorted(order) == [*range(length)]
    arrays, segments, expected = of_one_device(mesh.get("fsdp", 1), length)
    moved = [each[:, :, order] for each in arrays]
    found = both(model.flash, moved, segments[:, order])
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one[:, :, order], other, atol=2e-4)


def loss_of(mesh, order=None, **more):
    """Loss and gradients of a small decoder over a mesh, in an order of the tokens."""
    sizes = {"layers": 2, "embed": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "mlp": 64}
    config = decoder_config.Decoder(**sizes, vocab=64, **more)
    count = int(np.prod([*mesh.values()]))
    devices = jax.make_mesh(
        tuple(mesh.values()),
        tuple(mesh),
        axis_types=(AxisType.Auto,) * len(mesh),
        devices=jax.devices()[:count],
    )
    numbers, shape = np.random.default_rng(0), (4, 32)
    parameters = jax.tree.map(
        lambda dims: np.float32(numbers.normal(size=[size for _, size in dims]) / 8),
        decoder_config.parameter_dims(config),
        is_leaf=lambda x: isinstance(x, tuple),
    )
    batch = {name: numbers.integers(0, 64, shape) for name in ("tokens", "targets")}
    batch |= {"positions": np.tile(np.arange(32), (4, 1)), "segments": np.ones(shape, int)}
    if "context" in mesh:
        order = decoder_context.token_order(config, 32, mesh["context"])
        batch = {name: rows[:, order] for name, rows in batch.items()}
    model = decoder.Model(config, devices, kernel=False)
    return jax.jit(jax.value_and_grad(model.loss))(parameters, batch)


@functools.cache
def loss_of_one():
    return loss_of({"fsdp": 1})


@pytest.mark.parametrize(
    ("mesh", "more"),
    [
        ({"fsdp": 2, "context": 4}, {}),
        ({"fsdp": 2, "context": 4}, {"context_attention": "ulysses", "logit_parts": 4}),
        pytest.param({"fsdp": 4, "tensor": 2}, {"logit_parts": 8}, marks=whole),
    ],
    ids=str,
)
def test_a_step_over_context_or_with_logits_in_parts_is_that_of_one_device(mesh, more):
    expected, found = loss_of_one(), loss_of(mesh, **more)
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-3)
    both = (jax.tree.leaves(jax.tree.map(np.array, each[1])) for each in (expected, found))
    for one, other in zip(*both, strict=True):
        assert np.linalg.norm(one - other) < 0.02 * np.linalg.norm(one)
