"""What each operation and collective of a module costs on a cluster, worked out once for all walks."""

from spmd_core.program import Computation, Instruction, Module
from spmd_core.time.cost.comm import Cluster, Communication, find
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
