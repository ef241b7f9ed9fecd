"""The GPUs of a layout by their place: a row for each NVLink domain or host."""

from dataclasses import dataclass

import numpy as np

from spmd_core.experiment import Experiment, Layout
from spmd_core.machine import Gpu, get_topology
from spmd_core.pictures import placed as placement
from spmd_core.words import domains_title
from ui.layout.cells import mesh_cells
from ui.layout.grid import MAX_CELLS, Grid, Ints, arrange
from ui.layout.marks import Columns

_MARGIN = 80.0  # pixels left of the cells, for the names of rows


@dataclass(frozen=True, slots=True)
class Domains:
    """`order`, [devices]: positions in the mesh, by domain and by number in it; `counts`: domains,
    hosts of each where they are smaller, GPUs.
    """

    title: str
    counts: tuple[int, ...]
    order: Ints

    @property
    def grid(self) -> Grid:
        """Where the GPUs are drawn."""
        return arrange(self.counts, _MARGIN, len(str(len(self.order) - 1)))

    def edge(self, dim: int, first: int, stop: int) -> tuple[str, str]:
        """The name of a row or a column."""
        names = ("domain", "host", "GPU")
        name = names[-1] if dim == len(self.counts) - 1 else names[dim]
        return f"{name} {first}", str(first)

    def cells(self, layout: Layout, dtype: str) -> tuple[Columns, list[str]]:
        """Columns of the cells, as those of the mesh, and their labels."""
        mesh = arrange(tuple(size for _, size in layout.mesh), 0.0, 1)
        columns, labels, _ = mesh_cells(layout, mesh, dtype, True)
        order = self.order.tolist()
        ordered = {name: [values[at] for at in order] for name, values in columns.items()}
        return ordered, [labels[at] for at in order]


def domains_of(experiment: Experiment) -> Domains | None:
    """None off absent GPUs, where there are too many to draw, and where a mesh leaves some out."""
    if not experiment.place.is_gpu or experiment.device_count > MAX_CELLS:
        return None
    where = placement(experiment)
    if where.topology is None or where.places is None:
        return None
    topology = get_topology(experiment.place)
    chip, each = topology.chip, topology.shape[0]
    assert isinstance(chip, Gpu)
    host = min(each, chip.host_gpus)
    counts = (topology.slices, each) if host == each else (topology.slices, each // host, host)
    at = np.asarray([number * each + x for x, _, _, _, number in where.places])
    return Domains(domains_title(topology), counts, np.argsort(at))
