"""How a program is sharded on a mesh, by the names that an `Experiment` has for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from spmd_core.experiment.types import Axes, Spec
from spmd_core.experiment.workloads.exported.description import NAME
from spmd_core.experiment.workloads.exported.held import Program
from spmd_core.experiment.workloads.exported.workload import workload_of
from spmd_core.experiment.workloads.workload import Workload


@dataclass(frozen=True)
class ProgramLayout:
    """A program that no data folder holds, where reasons of collectives are read off an experiment."""

    exported: Program
    workload: str = NAME

    @cached_property
    def what(self) -> Workload:
        """Its workload."""
        return workload_of(self.exported.described)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each symbol."""
        return self.exported.sizes

    def spec(self, array: str) -> Spec:
        """The spec of an argument or output."""
        return self._specs[array]

    @cached_property
    def _specs(self) -> Mapping[str, Spec]:
        return self.exported.array_specs()

    def axes_of_dim(self, dim: str) -> Axes:
        """None: dims of a program have no names that several arrays share."""
        return ()
