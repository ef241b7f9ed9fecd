"""What the closed-form estimate and the lower bound take devices to do per second."""

import math
from dataclasses import dataclass
from typing import Protocol

from spmd_core.experiment import DTYPE_BYTES, Axes, Mesh
from spmd_core.machine import Topology
from spmd_core.results import Operation
from spmd_core.time import (
    EXPECTED,
    HBM_EFFICIENCY,
    HOP_LATENCY_S,
    LAUNCH_S,
    MATMUL_SHARE,
    Machine,
    collective_s,
    route_of,
)

# Of simulated devices, which share the cores of one machine; near a 2-core server: guesses that
# only order candidates, since whatever may win is measured
CORE_FLOPS = 4e10  # FLOP/s of one core in float32, as XLA's CPU backend reaches on large products
HOST_BANDWIDTH = 8e9  # bytes per second, all cores together
CPU_COLLECTIVE_S = 6e-5  # of all devices to meet, each time; a guess
# The same as limits that nothing passes: 2 units of 16 float32 multiply-adds at 5 GHz, and more
# than any host's memory gives
MOST_CORE_FLOPS = 3.2e11
MOST_HOST_BANDWIDTH = 1e12


Sizes = tuple[int, int, int]


class Rates(Protocol):
    """What devices take, as expected; and what they do per second, as limits (`most`) that nothing
    passes.
    """

    @property
    def floor_s(self) -> float:
        """Seconds of a call that does nothing."""
        ...

    def matmul_s(self, flops: float, sizes: Sizes | None) -> float:
        """Seconds of FLOPs on one device, in a matmul of rows, inner, columns where it is one."""
        ...

    def memory_s(self, nbytes: float) -> float:
        """Seconds of reading and writing bytes on one device."""
        ...

    @property
    def most_flops(self) -> float:
        """FLOP/s of one device, as a limit."""
        ...

    @property
    def most_bandwidth(self) -> float:
        """Bytes per second of one device's memory, as a limit."""
        ...

    @property
    def most_link(self) -> float:
        """Bytes per second into one device, over all its links, as a limit: of the device that has
        the fewest, where all have to be sent as much.
        """
        ...

    @property
    def least_collective_s(self) -> float:
        """Seconds that every collective takes, however small."""
        ...

    def sent_share(self, dtype: str) -> float:
        """The least of an array's bytes that a program may send for it."""
        ...

    def collective(self, kind: str, mesh: Mesh, axes: Axes, nbytes: float) -> float:
        """Seconds of a collective of `nbytes`, the larger of operand and result on a device."""
        ...


@dataclass(frozen=True, slots=True)
class TpuRates:
    """Rates of a topology's devices."""

    topology: Topology
    dtype: str = "float32"
    floor_s: float = 0.0

    def matmul_s(self, flops: float, sizes: Sizes | None) -> float:
        """At what matmuls reach."""
        return flops / (self.topology.chip.device_flops * MATMUL_SHARE)

    def memory_s(self, nbytes: float) -> float:
        """At what streaming reaches."""
        return nbytes / (self.topology.chip.device_hbm_bandwidth * HBM_EFFICIENCY)

    @property
    def most_flops(self) -> float:
        """The nominal peak in bfloat16, which no dtype of a workload passes but int8."""
        return (2 if self.dtype == "int8" else 1) * self.topology.chip.device_flops

    @property
    def most_bandwidth(self) -> float:
        """Nominal."""
        return self.topology.chip.hbm_bandwidth

    @property
    def most_link(self) -> float:
        """Nominal, of a corner of the grid: a ring has two links in, the end of a line one; and
        within the chip, and from other slices.
        """
        chip, topology = self.topology.chip, self.topology
        links = sum(
            2 if wraps and size > 2 else 1
            for size, wraps in zip(topology.shape, topology.wraps, strict=True)
            if size > 1
        )
        inside = chip.hbm_bandwidth if chip.devices_per_chip > 1 else 0.0
        between = chip.dcn_bandwidth if topology.slices > 1 else 0.0
        return links * chip.link_bandwidth + between + inside

    @property
    def least_collective_s(self) -> float:
        """To start it, and one hop, as every prediction counts them."""
        inside = self.topology.chip.devices_per_chip > 1
        return LAUNCH_S + (0.0 if inside else HOP_LATENCY_S)

    def sent_share(self, dtype: str) -> float:
        """The compiler rounds what a matmul takes in bfloat16 before it is sent."""
        return min(1.0, 2 / DTYPE_BYTES[dtype])

    def collective(self, kind: str, mesh: Mesh, axes: Axes, nbytes: float) -> float:
        """By the cost model's links."""
        where = route_of(self.topology, mesh, "topology", axes)
        return collective_s(self.topology, kind, where, nbytes, EXPECTED)


@dataclass(frozen=True, slots=True)
class HostRates:
    """Rates of simulated devices: `devices` of them share `cores`."""

    devices: int
    cores: int
    floor_s: float = 0.0

    def matmul_s(self, flops: float, sizes: Sizes | None) -> float:
        """By a device's share of the cores."""
        return flops / (CORE_FLOPS * self.cores / self.devices)

    def memory_s(self, nbytes: float) -> float:
        """By a device's share of the memory."""
        return nbytes / (HOST_BANDWIDTH / self.devices)

    @property
    def most_flops(self) -> float:
        """The same, as a limit."""
        return MOST_CORE_FLOPS * self.cores / self.devices

    @property
    def most_bandwidth(self) -> float:
        """The same, as a limit; caches are faster than memory."""
        return MOST_HOST_BANDWIDTH / self.devices

    @property
    def most_link(self) -> float:
        """Between simulated devices memory is copied."""
        return MOST_HOST_BANDWIDTH / self.devices

    least_collective_s = 0.0

    def sent_share(self, dtype: str) -> float:
        """All of them."""
        return 1.0

    def collective(self, kind: str, mesh: Mesh, axes: Axes, nbytes: float) -> float:
        """Copies through the host's memory, after all devices of a group have met."""
        times = 2 if kind == "all-reduce" else 1
        return CPU_COLLECTIVE_S + times * self.memory_s(nbytes)


@dataclass(frozen=True)
class CalibratedRates:
    """What a calibration measured of a target's devices; the limits are those of `guessed`."""

    machine: Machine
    guessed: HostRates
    dtype: str = "float32"

    @property
    def floor_s(self) -> float:
        """As measured."""
        return self.machine.floor_s

    def matmul_s(self, flops: float, sizes: Sizes | None) -> float:
        """At the rate of that shape; of a cube where there is none."""
        side = max(1, round((flops / 2) ** (1 / 3)))
        shape = sizes or (side, side, side)
        seconds = self.machine.operation_s(Operation(kind="matmul", sizes=shape), self.dtype)
        return seconds * flops / (2 * math.prod(shape))

    def memory_s(self, nbytes: float) -> float:
        """As an elementwise loop."""
        return self.machine.operation_s(Operation(kind="copy", sizes=(max(1, int(nbytes)),)))

    @property
    def most_flops(self) -> float:
        """As a limit."""
        return self.guessed.most_flops

    @property
    def most_bandwidth(self) -> float:
        """As a limit."""
        return self.guessed.most_bandwidth

    @property
    def most_link(self) -> float:
        """As a limit."""
        return self.guessed.most_link

    least_collective_s = 0.0

    def sent_share(self, dtype: str) -> float:
        """All of them."""
        return 1.0

    def collective(self, kind: str, mesh: Mesh, axes: Axes, nbytes: float) -> float:
        """As measured over these axes, or among as many devices."""
        sizes = dict(mesh)
        return self.machine.collective_s(
            kind, axes, math.prod(sizes[axis] for axis in axes), nbytes
        )
