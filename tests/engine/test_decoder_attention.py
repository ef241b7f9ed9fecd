"""A decoder's attention by the kernel, interpreted on simulated devices, against matmuls."""

import functools

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

from spmd_core.script.decoder import configuration
from spmd_core.script.programs import decoder, decoder_config, decoder_context
from spmd_core.workloads import parse_plan

pytestmark = pytest.mark.this_python

HEADS, KEYS, LENGTH = 16, 4, 128


@pytest.mark.parametrize("mesh", [{"tensor": 8}, {"tensor": 2, "sequence": 4}], ids=str)
def test_every_query_meets_its_own_keys_however_many_parts_the_heads_make(mesh, monkeypatch):
    plan = parse_plan(
        {
            "target": "tpu:v5e:2x4",
            "model": "scaled:1",
            "mesh": mesh,
            "batch_per_device": 1,
            "sequence": 4 * LENGTH,
            "sizes": {"heads": HEADS, "kv_heads": KEYS},
        }
    )
    monkeypatch.setattr(
        decoder_context.splash,
        "make_splash_mha",
        functools.partial(decoder_context.splash.make_splash_mha, interpret=True),
    )
    devices = jax.make_mesh(
        tuple(mesh.values()), tuple(mesh), axis_types=(AxisType.Auto,) * len(mesh)
    )
    model = decoder.Model(decoder_config.Decoder(**configuration(plan)), devices)
    numbers = np.random.default_rng(0)
    query, key, value = (
        np.float32(numbers.normal(size=(1, heads, LENGTH, 128)) / 8)
        for heads in (HEADS, KEYS, KEYS)
    )
    segments = np.zeros((1, LENGTH), np.int32)
    found = jax.jit(model.flash)(query, key, value, segments)
    expected = jax.jit(model.plain_attention)(query, key, value, segments)
    np.testing.assert_allclose(found, expected, atol=1e-5)
