"""One way to shard an experiment: a mesh, with a table of dims or a spec for each array."""

import math
from dataclasses import dataclass

from spmd_core.base import mesh_text
from spmd_core.fields import Axes, Mesh, Spec
from spmd_core.workloads import Dims, Workload


@dataclass(frozen=True, slots=True)
class Sharded:
    """One way to shard an experiment: `table` names its axes dim by dim, `overrides` array by
    array.
    """

    target: str
    mesh: Mesh
    table: tuple[tuple[str, Axes], ...] = ()
    overrides: tuple[tuple[str, Spec], ...] = ()

    @property
    def words(self) -> str:
        """As a name of a candidate has it: `x=2,y=4 · batch:x in:y`."""
        words = [f"{dim}:{'+'.join(axes)}" for dim, axes in self.table if axes]
        words += [
            f"{name}[{','.join('+'.join(axes) or '-' for axes in spec)}]"
            for name, spec in self.overrides
        ]
        return f"{mesh_text(self.mesh, ',')} · {' '.join(words) or 'replicated'}"

    def spec(self, what: Workload, sizes: Dims, name: str) -> Spec:
        """The spec of an operand or result."""
        given = dict(self.overrides)
        return given[name] if name in given else what.array(name).spec(sizes, dict(self.table))

    def parts(self, axes: Axes) -> int:
        """Devices along these mesh axes together."""
        if not axes:
            return 1
        if len(axes) == 1:
            return next(size for axis, size in self.mesh if axis == axes[0])
        return math.prod(size for axis, size in self.mesh if axis in axes)


def rows_dim(what: Workload, sizes: Dims) -> str:
    """The dim that data parallelism shards: the first of the first result that has any."""
    return next(
        (dim for array in (*what.results, *what.operands) for dim in array.present(sizes)), ""
    )
