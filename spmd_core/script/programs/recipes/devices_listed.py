"""The devices, each with its id, process, coordinates and core; and what the old first lines of a notebook print today."""

import importlib
from pathlib import Path

import jax
import jax.numpy as jnp


def describe(device):
    coords = getattr(
        device, "coords", None
    )  # a place in the torus and a core on the chip: only a TPU has them
    core = getattr(device, "core_on_chip", None)
    return f"{device.device_kind}: id={device.id}, process_index={device.process_index}, coords={coords}, core_on_chip={core}"


def refusal(call):
    try:
        return f"no error: {call()}"
    except (AttributeError, ImportError) as error:
        return f"{type(error).__name__}: {error}"


def processor():
    """The processor's model, if /proc/cpuinfo has it."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    return next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        "not listed",
    )


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    return {
        "ids": jnp.array([device.id for device in jax.devices()]),
        "devices": "\n".join(describe(device) for device in jax.devices()),
        "platform": jax.default_backend(),
        "device_count": f"{jax.device_count()}, of this process {jax.local_device_count()}",
        "processor": processor(),
        "jax.tools.colab_tpu": refusal(lambda: importlib.import_module("jax.tools.colab_tpu")),
        "jax.lib.xla_bridge": refusal(lambda: importlib.import_module("jax.lib").xla_bridge),
    }
