"""What simulated devices are guessed to take before they are calibrated: they share the cores and
the memory of one machine. The guesses only order candidates, since whatever may win is measured.
"""

from dataclasses import dataclass

# Near a 2-core server
CORE_FLOPS = 4e10  # FLOP/s of one core in float32, as XLA's CPU backend reaches on large products
HOST_BANDWIDTH = 1.3e10  # bytes per second, all cores together, beyond what caches hold
# Threads of a group are woken one after the other: 2, 4 and 8 devices took 60, 115 and 180 µs to
# meet, each time, on 2 cores
MEET_S = 2.5e-5  # of each device of a group


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """`devices` simulated devices that share `cores`; `floor_s` of a call, where it is known."""

    devices: int
    cores: int
    floor_s: float = 0.0

    def flops_per_s(self, *, alone: bool = False) -> float:
        """FLOP/s of one device by its share of the cores; `alone`, while the others rest."""
        return CORE_FLOPS * self.cores / (1 if alone else self.devices)

    def bytes_per_s(self, *, alone: bool = False) -> float:
        """Bytes per second of one device by its share of the memory."""
        return HOST_BANDWIDTH / (1 if alone else self.devices)

    def collective_s(self, kind: str, nbytes: float, group: int | None = None) -> float:
        """Copies through the host's memory, after all devices of a group have met: all there are
        where its size is not known.
        """
        meeting_s = MEET_S * (group or self.devices)
        return meeting_s + (2 if kind == "all-reduce" else 1) * nbytes / self.bytes_per_s()
