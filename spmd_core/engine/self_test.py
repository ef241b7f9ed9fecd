"""Tests the devices of this process, each fact alone: one that fails is an error, and the next is
still tried.

`python -m spmd_core.engine.self_test` prints a JSON line of each fact as it is known, so that a
device that hangs costs only what comes after it. With the name of a compile-only target it tests
the compiler instead.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from spmd_core.base import imported
from spmd_core.engine.absent.topology import devices_of
from spmd_core.engine.measured.tracing import read
from spmd_core.machine import dump_folder, get_topology

COPY_BYTES = 64 * 2**20
SIZE = 1024  # of the matmul that is traced
DISPATCHES = 200
Facts = dict[str, object]


def facts() -> Iterator[tuple[str, Facts]]:
    """(name, facts) of each test, in the order in which one is of use without the next."""
    tests: tuple[tuple[str, Callable[[], Facts]], ...] = (
        ("devices", _devices),
        ("memory_kinds", _memory_kinds),
        ("copy", _copy),
        ("psum", _psum),
        ("dispatch", _dispatch),
        ("trace", _trace),
    )
    for name, test in tests:
        try:
            yield name, test()
        except Exception as error:  # whatever JAX raises of a broken device is the fact
            yield name, {"error": f"{type(error).__name__}: {error}"}
            if name == "devices":
                return


def compiler_facts(target: str) -> Facts:
    """Seconds in which the TPU compiler compiles a matmul for a topology that is not attached."""
    start = time.perf_counter()
    mesh = Mesh(np.asarray(devices_of(get_topology(target))), ("all",))
    sharded = NamedSharding(mesh, PartitionSpec("all"))
    x = jax.ShapeDtypeStruct((SIZE, SIZE), jnp.bfloat16, sharding=sharded)
    jax.jit(jnp.dot, out_shardings=sharded).trace(x, x).lower(lowering_platforms=("tpu",)).compile()
    return {"target": target, "seconds": time.perf_counter() - start}


def _devices() -> Facts:
    devices = jax.devices()
    return {
        "platform": devices[0].platform,
        "kind": devices[0].device_kind,
        "count": len(devices),
        "processes": jax.process_count(),
        "chips": len({tuple(each.coords) for each in devices if hasattr(each, "coords")}) or None,
        "memory_bytes": (devices[0].memory_stats() or {}).get("bytes_limit"),
    }


def _memory_kinds() -> Facts:
    """Whether an array goes to each memory of the first device, and comes back equal."""
    device, kinds = jax.devices()[0], {}
    values = np.arange(1024, dtype=np.float32)
    for memory in device.addressable_memories():
        try:
            there = jax.device_put(values, SingleDeviceSharding(device, memory_kind=memory.kind))
            is_equal = bool((np.asarray(there) == values).all())
            kinds[memory.kind] = "ok" if is_equal else "the values changed"
        except Exception as error:  # one memory that does not work is no reason to leave the others
            kinds[memory.kind] = " ".join(str(error).split())[:200]
    return {"kinds": kinds}


def _copy() -> Facts:
    values = np.ones(COPY_BYTES // 4, dtype=np.float32)
    device = jax.devices()[0]
    to_device = _fastest(lambda: jax.device_put(values, device).block_until_ready())
    there = jax.device_put(values, device)
    # a new array each time: the host's copy of an array is kept with it
    back = _fastest(lambda array: np.asarray(array), lambda: (there + 0).block_until_ready())
    return {
        "bytes": COPY_BYTES,
        "to_device_s": to_device,
        "to_host_s": back,
        "is_shared": device.platform == "cpu",
    }


def _psum() -> Facts:
    """A sum over all devices: each holds its number, and each must receive the total."""
    devices = jax.devices()
    mesh = Mesh(np.asarray(devices), ("all",))
    total = jax.jit(
        jax.shard_map(
            lambda block: jax.lax.psum(block, "all"),
            mesh=mesh,
            in_specs=PartitionSpec("all"),
            out_specs=PartitionSpec(),
        )
    )
    numbers = jax.device_put(
        np.arange(len(devices), dtype=np.float32), NamedSharding(mesh, PartitionSpec("all"))
    )
    received = [float(np.asarray(shard.data)[0]) for shard in total(numbers).addressable_shards]
    return {
        "devices": len(devices),
        "expected": float(sum(range(len(devices)))),
        "received": sorted(set(received)),
        "seconds": _fastest(lambda: total(numbers).block_until_ready()),
    }


def _dispatch() -> Facts:
    add = jax.jit(lambda x: x + 1)
    x = add(jnp.zeros(())).block_until_ready()
    return {"seconds": median(_seconds(lambda: add(x).block_until_ready(), DISPATCHES))}


def _trace() -> Facts:
    """What the profiler records of a matmul, and how far its clock of the device is from the
    host's.

    `ahead_s`: seconds by which the first operation of a device seems to begin before the call that
    caused it; 0 where it does not.
    """
    product = jax.jit(jnp.dot)
    x = jnp.ones((SIZE, SIZE), jnp.float32)
    product(x, x).block_until_ready()
    with dump_folder() as folder:
        jax.profiler.start_trace(str(folder))
        try:
            with jax.profiler.StepTraceAnnotation("spmd_lab_call", step_num=0):
                product(x, x).block_until_ready()
        finally:
            jax.profiler.stop_trace()
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        recorded = read(jax.profiler.ProfileData.from_file(str(files[-1]))) if files else None
    events, calls = (recorded.events, recorded.calls) if recorded else ((), ())
    first = min((event.start_s for event in events), default=None)
    ahead = calls[0][0] - first if calls and first is not None else None
    return {
        "events": len(events),
        "calls": len(calls),
        "ahead_s": None if ahead is None else max(0.0, ahead),
    }


def _fastest(call: Callable[..., Any], prepare: Callable[[], Any] | None = None) -> float:
    call(*([prepare()] if prepare else []))
    return min(_seconds(call, 3, prepare))


def _seconds(
    call: Callable[..., Any], count: int, prepare: Callable[[], Any] | None = None
) -> list[float]:
    times = []
    for _ in range(count):
        arguments = [prepare()] if prepare else []
        start = time.perf_counter()
        call(*arguments)
        times.append(time.perf_counter() - start)
    return times


def main() -> None:
    """Print the facts. The end of standard input ends the process: its parent is gone."""
    imported()
    threading.Thread(target=_end_with_input, daemon=True).start()
    target = sys.argv[1:]
    try:
        tests = [("compiler", compiler_facts(target[0]))] if target else facts()
        for name, values in tests:
            print(json.dumps({"name": name, **values}), flush=True)
    except Exception as error:  # of the compiler: its message is the fact
        print(json.dumps({"name": "compiler", "error": f"{error}"}), flush=True)


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # native threads of a failed backend must not keep the devices
