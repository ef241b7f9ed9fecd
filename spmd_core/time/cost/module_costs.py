"""Costs of the operations and collectives of a module on a cluster, and their interval."""

import math

from spmd_core.program import Computation, Instruction, Module
from spmd_core.time.cost.clocks import Walk
from spmd_core.time.cost.comm import Cluster, Communication, find
from spmd_core.time.cost.constants import OVERLAP_HIGH, OVERLAP_LOW, UNMODELLED
from spmd_core.time.cost.ops import OperationCost, operation


class ModuleCosts:
    """A module on a cluster. `operations` and `collectives` are those that were requested, by the
    id of their instruction, which the module keeps; None of an instruction that starts no
    collective.
    """

    def __init__(self, module: Module, cluster: Cluster) -> None:
        self.module, self.cluster = module, cluster
        self.operations: dict[int, OperationCost] = {}
        self.collectives: dict[int, Communication | None] = {}

    def collective(
        self, instruction: Instruction, computation: Computation
    ) -> Communication | None:
        """The collective that starts at an instruction; None where none does."""
        key = id(instruction)
        if key not in self.collectives:
            start = find(self.module, instruction, computation, self.cluster)
            self.collectives[key] = start
        return self.collectives[key]

    def operation(self, instruction: Instruction, computation: Computation) -> OperationCost:
        """How long an instruction keeps the chip busy."""
        key = id(instruction)
        if key not in self.operations:
            chip = self.cluster.topology.chip
            self.operations[key] = operation(self.module, instruction, computation, chip)
        return self.operations[key]


def bounds(walk: Walk) -> tuple[float, float]:
    """(overlapped, sequential) in seconds, both at the rates of the estimate.

    Overlapped: every transfer beside the work and beside those on other links, so that the busiest
    resource is all that counts.
    Sequential: the work, and each transfer between chips or with the host after the other.
    """
    tally = walk.tally
    work = sum(tally.work.values())
    busiest = max((time for name, time in tally.links.items() if name != "copy"), default=0.0)
    network = sum(comm.seconds * count for comm, count, _ in tally.communications.values())
    host = tally.links.get("host in", 0.0) + tally.links.get("host out", 0.0)
    return min(max(work, busiest), walk.seconds), max(work + network + host, walk.seconds)


def interval(walk: Walk, least: float = 0.0) -> tuple[float, float]:
    """(low, high) in seconds: the root of the summed squares of what each kind of work, the overlap
    and the rest may be off by.

    They are independent guesses, which rarely all go wrong the same way at once. `least` is the
    time of the same program with everything at
    its peak or nominal rate: `low` is not below it, however much of the waiting is taken for
    hidden, since what cannot overlap does not.
    """
    tally = walk.tally
    _, sequential = bounds(walk)
    waits = sum(tally.waits.values())
    down = [*tally.faster.values(), OVERLAP_LOW * waits, UNMODELLED * walk.seconds]
    up = [
        *tally.slower.values(),
        OVERLAP_HIGH * (sequential - walk.seconds),
        UNMODELLED * walk.seconds,
    ]
    low = max(0.0, least, walk.seconds - math.hypot(*down))
    return min(low, walk.seconds), walk.seconds + math.hypot(*up)
