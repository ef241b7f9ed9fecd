"""What the closed-form estimate and the lower bound take devices to do per second."""

from dataclasses import dataclass
from typing import Protocol

from spmd_core.cost.constants import HBM_EFFICIENCY, MATMUL_SHARE
from spmd_core.cost.links import EXPECTED, collective_s
from spmd_core.estimate.transfers import route_of
from spmd_core.experiment.types import Axes, Mesh
from spmd_core.machine.topologies import Topology

# Of simulated devices, which share the cores of one machine; near a 2-core server: guesses that
# only order candidates, since whatever may win is measured
CORE_FLOPS = 4e10  # FLOP/s of one core in float32, as XLA's CPU backend reaches on large products
HOST_BANDWIDTH = 8e9  # bytes per second, all cores together
CPU_COLLECTIVE_S = 6e-5  # of all devices to meet, each time; a guess
# The same as limits that nothing passes: 2 units of 16 float32 multiply-adds at 5 GHz, and more
# than any host's memory gives
MOST_CORE_FLOPS = 3.2e11
MOST_HOST_BANDWIDTH = 1e12


class Rates(Protocol):
    """What a device does per second: as expected, and as limits (`most`) that nothing passes."""

    @property
    def flops(self) -> float:
        """FLOP/s of one device."""
        ...

    @property
    def bandwidth(self) -> float:
        """Bytes per second of one device's memory."""
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
        """Bytes per second into one device, over all its links, as a limit."""
        ...

    def collective(self, kind: str, mesh: Mesh, axes: Axes, nbytes: float) -> float:
        """Seconds of a collective of `nbytes`, the larger of operand and result on a device."""
        ...


@dataclass(frozen=True, slots=True)
class TpuRates:
    """Rates of a topology's devices."""

    topology: Topology

    @property
    def flops(self) -> float:
        """What matmuls reach."""
        return self.topology.chip.device_flops * MATMUL_SHARE

    @property
    def bandwidth(self) -> float:
        """What streaming reaches."""
        return self.topology.chip.device_hbm_bandwidth * HBM_EFFICIENCY

    @property
    def most_flops(self) -> float:
        """The nominal peak in bfloat16, which no dtype of a workload passes but int8."""
        return 2 * self.topology.chip.device_flops

    @property
    def most_bandwidth(self) -> float:
        """Nominal."""
        return self.topology.chip.hbm_bandwidth

    @property
    def most_link(self) -> float:
        """Both directions of every link, at the nominal rate, and within the chip."""
        chip = self.topology.chip
        inside = chip.hbm_bandwidth if chip.devices_per_chip > 1 else 0.0
        return 2 * chip.torus_dims * chip.link_bandwidth + chip.dcn_bandwidth + inside

    def collective(self, kind: str, mesh: Mesh, axes: Axes, nbytes: float) -> float:
        """By the cost model's links."""
        where = route_of(self.topology, mesh, "topology", axes)
        return collective_s(self.topology, kind, where, nbytes, EXPECTED)


@dataclass(frozen=True, slots=True)
class HostRates:
    """Rates of simulated devices: `devices` of them share `cores`."""

    devices: int
    cores: int

    @property
    def flops(self) -> float:
        """A device's share of the cores."""
        return CORE_FLOPS * self.cores / self.devices

    @property
    def bandwidth(self) -> float:
        """A device's share of the memory."""
        return HOST_BANDWIDTH / self.devices

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

    def collective(self, kind: str, mesh: Mesh, axes: Axes, nbytes: float) -> float:
        """Copies through the host's memory, after all devices of a group have met."""
        times = 2 if kind == "all-reduce" else 1
        return CPU_COLLECTIVE_S + times * nbytes / self.bandwidth
