"""A compiled program that would take more memory than is free is not started."""

import jax
import jax.numpy as jnp
import pytest

from spmd_core.base import RequestError
from spmd_core.engine.devices import check_room


def sums(x):
    """Of all pairs, in order: 128 GiB of temporaries for 2^17 elements, and no FLOPs."""
    return jnp.sort(x[:, None] + x[None, :], axis=1)[:, 0]


@pytest.mark.this_python
def test_temporaries_beyond_free_memory_are_refused():
    x = jax.ShapeDtypeStruct((2**17,), jnp.float32)
    found = jax.jit(sums).lower(x).compile()
    assert found.memory_analysis().temp_size_in_bytes >= 2**36
    with pytest.raises(RequestError, match=r"GiB of temporaries and results on 1 simulated dev"):
        check_room(found, 1)


@pytest.mark.this_python
def test_what_fits_on_one_device_may_not_on_all(monkeypatch):
    x = jax.ShapeDtypeStruct((2**10,), jnp.float32)
    found = jax.jit(sums).lower(x).compile()
    needed = found.memory_analysis().temp_size_in_bytes + x.size * 4
    monkeypatch.setattr("spmd_core.engine.devices.spare_bytes", lambda: 4 * needed)
    check_room(found, 4)
    with pytest.raises(RequestError, match="on 8 simulated devices exceed the"):
        check_room(found, 8)
