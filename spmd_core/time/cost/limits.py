"""What no device passes: rates for a lower bound, which alone may rule a sharding out."""

import math
from dataclasses import dataclass

from spmd_core.experiment import Experiment
from spmd_core.machine import Gpu, Topology, get_topology
from spmd_core.time.cost.constants import HOP_LATENCY_S, LAUNCH_S
from spmd_core.time.gpu.constants import COLLECTIVE_S
from spmd_core.time.gpu.matmuls import peak_of
from spmd_core.workloads import DTYPE_BYTES

# Of one core 2 units of 16 float32 multiply-adds at 5 GHz; more than any host's memory gives
MOST_CORE_FLOPS = 3.2e11
MOST_HOST_BANDWIDTH = 1e12


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one device: FLOP/s, bytes per second of its memory, and into it over all its links; and
    the seconds of the smallest collective. `sent_share`: the least of an array's bytes that a
    program may send for it.
    """

    flops_per_s: float
    bytes_per_s: float
    link_bytes_per_s: float
    collective_s: float = 0.0
    sent_share: float = 1.0


def limits_of(experiment: Experiment, cores: int) -> Limits:
    """The limits of an experiment's devices; `cores` are shared by simulated ones. Of accelerators
    that are here nothing is known that would rule anything out.
    """
    if experiment.place.is_absent:
        return _of_topology(get_topology(experiment.place), experiment.dtype)
    if experiment.place.is_attached:
        return Limits(math.inf, math.inf, math.inf)
    # between simulated devices memory is copied; caches are faster than memory
    memory = MOST_HOST_BANDWIDTH / experiment.device_count
    return Limits(MOST_CORE_FLOPS * cores / experiment.device_count, memory, memory)


def _of_topology(topology: Topology, dtype: str) -> Limits:
    """Nominal rates. FLOPs are those of bfloat16, which only int8 passes. Links are those of a
    corner of the grid: a ring has two in, the end of a line one; with those within the chip, and
    from other slices.
    """
    chip = topology.chip
    if isinstance(chip, Gpu):
        return _of_gpus(chip, topology, dtype)
    links = sum(
        2 if wraps and size > 2 else 1
        for size, wraps in zip(topology.shape, topology.wraps, strict=True)
        if size > 1
    )
    inside = chip.hbm_bandwidth if chip.devices_per_chip > 1 else 0.0
    between = chip.dcn_bandwidth if topology.slices > 1 else 0.0
    return Limits(
        (2 if dtype == "int8" else 1) * chip.device_flops,
        chip.hbm_bandwidth,
        links * chip.link_bandwidth + between + inside,
        # to start it, and one hop, as every prediction counts them
        LAUNCH_S + (0.0 if chip.devices_per_chip > 1 else HOP_LATENCY_S),
        # the compiler rounds what a matmul takes to bfloat16 before it is sent
        min(1.0, 2 / DTYPE_BYTES[dtype]),
    )


def _of_gpus(gpu: Gpu, topology: Topology, dtype: str) -> Limits:
    """Nominal rates: a GPU's NVLinks and its network card."""
    element = {"float32": "f32", "int8": "s8"}.get(dtype, "bf16")
    between = gpu.dcn_bandwidth if topology.slices > 1 else 0.0
    links = gpu.link_bandwidth if topology.shape[0] > 1 else 0.0
    return Limits(
        peak_of(gpu, element),
        gpu.hbm_bandwidth,
        links + between,
        COLLECTIVE_S,
        min(1.0, 2 / DTYPE_BYTES[dtype]),
    )
