"""The process that explains a step is what it was before."""

import gc
import os
import signal
import threading
import warnings

import jax
import numpy as np
import pytest

import spmd_lab
from tests.own import steps

pytestmark = [pytest.mark.newer]


def _state():
    return {
        "environment": dict(os.environ),
        "jax.config": dict(jax.config.values),
        "folder": (os.getcwd(), sorted(os.listdir())),
        "signals": [signal.getsignal(each) for each in sorted(signal.valid_signals())],
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "warnings": list(warnings.filters),
        "threads": threading.enumerate(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "numbers": np.random.get_state()[1].tolist(),  # pyright: ignore[reportArgumentType]
    }


def test_an_explanation_leaves_its_process_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = steps.arguments(steps.devices())
    spmd_lab.explain(steps.train_step)(*given)  # loads modules
    before = _state()
    spmd_lab.explain(steps.train_step)(*steps.arguments(steps.devices(), up=("fsdp",)))
    assert _state() == before


def test_a_persistent_cache_is_neither_read_nor_written(tmp_path, monkeypatch):
    from jax._src import compilation_cache

    kept = [jax.config.values[name] for name in ("jax_compilation_cache_dir",)]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()
    try:
        given = steps.arguments(steps.devices(), up=("tensor", "fsdp"))
        jax.jit(steps.train_step).lower(*given).compile()  # warm
        files = sorted(tmp_path.iterdir())
        is_used = compilation_cache.is_cache_used(jax.devices()[0].client)
        explained = spmd_lab.explain(steps.train_step)(*given)
        assert sorted(tmp_path.iterdir()) == files
        # what the compiler wrote was read: the specs of the reasons, and origins
        assert any(each.origin for each in explained.collectives)
        assert compilation_cache.is_cache_used(jax.devices()[0].client) == is_used
    finally:
        jax.config.update("jax_compilation_cache_dir", kept[0])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
        compilation_cache.reset_cache()
