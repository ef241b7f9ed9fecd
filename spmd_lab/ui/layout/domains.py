"""The devices of a layout by their place: a row for each NVLink domain of GPUs, or host."""

from dataclasses import dataclass, replace

import numpy as np

from spmd_core.experiment import Experiment, Layout
from spmd_core.machine import Gpu, get_topology
from spmd_core.pictures import placed as placement
from spmd_core.results import Environment
from spmd_lab.ui.arrows.words import domains_title
from spmd_lab.ui.layout.cells import mesh_cells
from spmd_lab.ui.layout.grid import MAX_CELLS, Grid, Ints, arrange
from spmd_lab.ui.layout.marks import Columns

_MARGIN = 80.0  # pixels left of the cells, for the names of rows


@dataclass(frozen=True, slots=True)
class Domains:
    """`order`, [devices]: positions in the mesh, by domain and by number in it; `counts`: domains,
    hosts of each where they are smaller, GPUs; `names` of these.
    """

    title: str
    counts: tuple[int, ...]
    order: Ints
    names: tuple[str, ...] = ("domain", "host", "GPU")

    @property
    def grid(self) -> Grid:
        """Where the GPUs are drawn."""
        return arrange(self.counts, _MARGIN, len(str(len(self.order) - 1)))

    def edge(self, dim: int, first: int, stop: int) -> tuple[str, str]:
        """The name of a row or a column."""
        name = self.names[-1] if dim == len(self.counts) - 1 else self.names[dim]
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
    host = min(each, chip.host_chips)
    counts = (topology.slices, each) if host == each else (topology.slices, each // host, host)
    at = np.asarray([number * each + x for x, _, _, _, number in where.places])
    return Domains(domains_title(topology), counts, np.argsort(at))


def hosts_of(layout: Layout) -> Domains | None:
    """The devices by host; None where all are of one, and where hosts have unequally many."""
    if layout.hosts is None or layout.device_count > MAX_CELLS:
        return None
    hosts, counts = np.unique(layout.hosts, return_counts=True)
    if len(hosts) == 1 or len(set(counts.tolist())) > 1:
        return None
    order = np.argsort(layout.hosts, kind="stable")
    title = f"{len(hosts)} hosts of {int(counts[0])} devices"
    return Domains(title, (len(hosts), int(counts[0])), order, ("host", "device"))


def with_hosts(layout: Layout, experiment: Experiment, environment: Environment | None) -> Layout:
    """A layout with the hosts of its devices, where those of a cluster are known."""
    if environment is None or environment.process_count < 2 or not experiment.place.is_cluster:
        return layout
    hosts = np.asarray([host for (host,) in placement(experiment, environment).hosts])
    return replace(layout, hosts=hosts) if len(hosts) == layout.device_count else layout
