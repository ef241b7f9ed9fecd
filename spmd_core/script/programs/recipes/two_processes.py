"""Two processes of EACH devices, one sum over all of them: the program starts both and collects their output."""

import json
import os
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp

TIMEOUT_S = 60
EACH = 4

EACH_PROCESS = """
import json, sys
import jax
import jax.numpy as jnp

port, index = sys.argv[1:]
jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(index), initialization_timeout=30)
own = jax.local_device_count()
data = jnp.arange(own) if jax.process_index() == 0 else jnp.arange(own, 2 * own)
out = jax.pmap(lambda x: x + jax.lax.psum(x, axis_name="i"), axis_name="i")(data)
print(json.dumps({"devices": jax.device_count(), "of this process": jax.local_device_count(), "out": out.tolist()}))
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_both():
    """The last line that each process prints; RuntimeError, with its output, if one fails."""
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(EACH),
        "XLA_FLAGS": "",
    }  # whatever this process has of its own
    port = str(free_port())
    children = [
        subprocess.Popen(
            [sys.executable, "-c", EACH_PROCESS, port, str(index)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        said = [child.communicate(timeout=TIMEOUT_S) for child in children]
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
            child.wait()
    for child, (_, errors) in zip(children, said, strict=True):
        if child.returncode:
            raise RuntimeError(
                f"process {children.index(child)} ended with {child.returncode}: {errors[-500:]}"
            )
    return [json.loads(printed.splitlines()[-1]) for printed, _ in said]


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    first, second = run_both()
    return {
        "process_0": jnp.array(first["out"]),
        "process_1": jnp.array(second["out"]),
        "together": jnp.array(first["out"] + second["out"]),
        "devices": f"{first['devices']} in all, {first['of this process']} of each process",
    }
