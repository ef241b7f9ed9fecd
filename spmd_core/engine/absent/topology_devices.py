"""What a compile-only worker reports: the devices of a topology that is not attached, and
the versions that compile for it.
"""

import os
import platform
from importlib.metadata import version

import jax

from spmd_core.engine.absent.topology import devices_of
from spmd_core.engine.devices import (
    MAX_LISTED_DEVICES,
    available_cores,
    coordinates,
    host_memory_bytes,
    load,
)
from spmd_core.machine import get_topology
from spmd_core.results import Device, Environment
from spmd_core.time import versions


def describe(target: str) -> Environment:
    """The environment of a topology; WorkerError where the compiler is missing, does not fit, or
    refuses.
    """
    topology = get_topology(target)
    devices = devices_of(topology)
    listed = zip(devices[:MAX_LISTED_DEVICES], coordinates(devices, topology), strict=False)
    seen = tuple(
        Device(
            id=device.id,
            process=device.process_index,
            coords=place[:3],
            core=getattr(device, "core_on_chip", None),
            memory_bytes=topology.chip.device_hbm_bytes,
        )
        for device, place in listed
    )
    return Environment(
        jax=jax.__version__,
        jaxlib=version("jaxlib"),
        python=platform.python_version(),
        platform=topology.chip.platform,
        device_kind=devices[0].device_kind,
        device_count=len(devices),
        process_count=len({device.process_index for device in devices}),
        devices=seen,
        cores=available_cores(),
        host_memory_bytes=host_memory_bytes(),
        load=load(),
        xla_flags=os.environ.get("LIBTPU_INIT_ARGS", ""),
        libtpu=None if topology.chip.is_gpu else versions()["libtpu"],
    )
