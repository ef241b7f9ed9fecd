"""What each axis of a mesh is on the torus of links, and how long a collective over it takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spmd_core.base import ordinal_text
from spmd_core.fields import Axes, Mesh
from spmd_core.machine import Topology, mesh_places
from spmd_core.time.cost.links import (
    EXPECTED,
    NOMINAL,
    AxisSpan,
    Paths,
    Route,
    collective_s,
    gather_s,
    host_s,
    nominal_over,
    paths,
    permute_s,
    route,
    route_of,
)
from spmd_core.workloads import TRANSFERS

LOOKED_AT = 64  # groups of an axis; a large mesh has thousands alike
GATHERED_BYTES = 2**30  # of the all-gather by which axes are compared

Pairs = Sequence[tuple[int, int]]  # positions in the mesh of source and target


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """A mesh axis on the topology. `gather_s`: seconds of an all-gather over it that leaves 1 GiB
    on every device, None for an axis of size 1.
    """

    name: str
    size: int
    words: str
    gather_s: float | None
    # neighbours in mesh order, on average, of those in one slice; None for an axis of size 1
    links_apart: float | None = None


def mesh_axes(
    topology: Topology, mesh: Sequence[tuple[str, int]], order: str = "topology"
) -> tuple[MeshAxis, ...]:
    """Every axis of a mesh, in order; RequestError where the mesh does not fill the topology."""
    places = mesh_places(topology, [size for _, size in mesh], order)
    return tuple(
        _axis(topology, name, np.moveaxis(places, at, -2)) for at, (name, _) in enumerate(mesh)
    )


def _axis(topology: Topology, name: str, places: np.ndarray) -> MeshAxis:
    """One axis, of places [*other axes, size, 5]."""
    size = places.shape[-2]
    if size == 1:
        return MeshAxis(name, size, "one device: nothing to communicate", None)
    groups = places.reshape(-1, size, 5)
    step = -(-len(groups) // LOOKED_AT)
    every = np.arange(len(groups) * size).reshape(-1, size)
    listed = [tuple(each) for each in groups.reshape(-1, 5).tolist()]
    routes = [route(topology, each.tolist(), listed, every) for each in every[::step]]
    slowest = max(routes, key=lambda where: gather_s(topology, where, GATHERED_BYTES))
    words = route_words(slowest) + ("" if len(set(routes)) == 1 else ", at worst")
    return MeshAxis(
        name,
        size,
        words,
        gather_s(topology, slowest, GATHERED_BYTES),
        None if slowest.switched else _links_apart(topology, groups),
    )


def _links_apart(topology: Topology, groups: np.ndarray) -> float | None:
    """Links between neighbours in the order of the axis, the last and the first one included, on
    average over groups [n, size, 5].
    """
    ahead = np.roll(groups, -1, axis=1)
    lengths = np.array((*topology.shape, 1, 1)[:3])
    wraps = np.array((*topology.wraps, False, False)[:3])
    distance = np.abs(ahead[..., :3] - groups[..., :3])
    distance = np.where(wraps, np.minimum(distance, lengths - distance), distance).sum(axis=-1)
    inside = ahead[..., 4] == groups[..., 4]
    return float(distance[inside].mean()) if inside.any() else None


def group_words(topology: Topology, mesh: Mesh, order: str, axes: Axes) -> str:
    """What the devices of a group over these axes are on the chips, in words."""
    return route_words(route_of(topology, mesh, order, axes))


def route_words(where: Route) -> str:
    """A route in words, e.g. `a ring of 16 along x`.

    >>> route_words(Route((AxisSpan(0, 16, 1, True),)))
    'a ring of 16 along x'
    """
    if where.switched:
        return where.words or "one device"
    parts = []
    if where.cores > 1:
        parts.append(f"the {where.cores} devices of a chip")
    if where.spans:
        parts.append(_chips(where.spans, where.regular))
    if where.slices > 1:
        parts.append(f"{where.slices} slices over DCN")
    return " and ".join(parts) if parts else "one device"


def _chips(spans: tuple[AxisSpan, ...], is_regular: bool) -> str:
    sizes = " × ".join(str(span.size) for span in spans)
    over = _and(["xyz"[span.axis] for span in spans])
    if not is_regular:
        return f"chips scattered over {sizes} along {over}"
    if len(spans) == 1:
        span = spans[0]
        shape = f"a {'ring' if span.wraps else 'line'} of {span.size} along {'xyz'[span.axis]}"
        return shape if span.stride == 1 else f"{shape}, every {ordinal_text(span.stride)} chip"
    closed = ["xyz"[span.axis] for span in spans if span.wraps]
    name = "torus" if len(closed) == len(spans) else "grid"
    strides = [
        f"every {ordinal_text(span.stride)} chip along {'xyz'[span.axis]}"
        for span in spans
        if span.stride > 1
    ]
    rings = (
        [f"{_and(closed)} a ring" if len(closed) == 1 else f"{_and(closed)} rings"]
        if closed and name == "grid"
        else []
    )
    return ", ".join([f"a {name} of {sizes} over {over}", *rings, *strides])


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def mesh_collective_s(
    topology: Topology,
    order: str,
    kind: str,
    mesh: Mesh,
    axes: Axes,
    nbytes: float,
    pairs: Pairs = (),
    *,
    nominal: bool = False,
) -> float:
    """Returns the seconds of a collective over axes of a mesh, or of a copy from or to the host.

    Args:
      order: of the devices in the mesh, an option of `mesh_places`.
      nbytes: the larger of operand and result, per device.
      pairs: of a permute, without which it goes around a ring.
      nominal: at the rates of the data sheet, in place of those that are expected.

    Raises:
      RequestError: the mesh does not fill the topology.
      ValueError: the kind has no formula.
    """
    rates = NOMINAL if nominal else EXPECTED
    if kind in TRANSFERS and not TRANSFERS[kind].between_devices:
        return host_s(topology.chip, nbytes, nominal=nominal)
    if kind == "collective-permute":
        return permute_s(topology, _ways(topology, order, mesh, axes, pairs), nbytes, rates)
    return collective_s(topology, kind, route_of(topology, mesh, order, axes), nbytes, rates)


def narrowed_by(topology: Topology, order: str, kind: str, mesh: Mesh, axes: Axes) -> str:
    """Returns why a permute around a ring or an all-to-all does not use all links of a TPU, else ""."""
    if topology.chip.is_gpu:
        return ""
    if kind == "all-to-all":
        spans = route_of(topology, mesh, order, axes).spans
        return "half crosses the middle" if any(span.size > 2 for span in spans) else ""
    if kind != "collective-permute":
        return ""
    ways = _ways(topology, order, mesh, axes)
    return "one link only" if ways.busiest == 1 and not ways.crosses_slices else ""


def nominal_links(
    topology: Topology, order: str, kind: str, mesh: Mesh, axes: Axes
) -> tuple[str, float] | None:
    """Returns the links of GPUs that bound a collective by the data sheet, and their rate in bytes per
    second; None of a permute, and of TPUs.
    """
    if kind == "collective-permute":
        return None
    over = nominal_over(topology, kind, route_of(topology, mesh, order, axes))
    return (over.name, over.rate) if over else None


def _ways(topology: Topology, order: str, mesh: Mesh, axes: Axes, pairs: Pairs = ()) -> Paths:
    places = mesh_places(topology, [size for _, size in mesh], order).reshape(-1, 5)
    return paths(topology, pairs or _ring(mesh, axes), places)


def _ring(mesh: Mesh, axes: Axes) -> Pairs:
    """Each device of the first group over these axes to the next; the others are alike."""
    every = np.arange(math.prod(size for _, size in mesh)).reshape([size for _, size in mesh])
    group = every[tuple(slice(None) if name in axes else 0 for name, _ in mesh)].ravel().tolist()
    return list(zip(group, [*group[1:], group[0]], strict=True))
