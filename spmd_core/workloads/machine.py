"""What is measured of a machine itself: its collectives over a range of sizes, and the ceilings
that no program of it passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from spmd_core.base import mesh_text, refuse, shorten
from spmd_core.fields import Integer, Text
from spmd_core.machine import get_topology, mesh_places, parse_target
from spmd_core.workloads.workload import FLOATS, Workload

LEAST_BYTES, MOST_BYTES = 1, 2**36
ALL = "all"
USUAL_POINTS = 12
Share = Literal["reduce", "part", "all"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A way in which devices move data.

    `share` is the part of the bytes that the links carry, as nccl-tests counts it for n devices:
    2(n-1)/n of a sum that all get, (n-1)/n of what is gathered or exchanged, all of a copy.
    `between_meshes`: from one half of the mesh to the other, from rows over all of its devices to
    columns over the chosen axes; `bytes` are those that each device of the first half has.
    """

    name: str
    title: str
    share: Share
    between_devices: bool = True
    between_meshes: bool = False

    @property
    def has_axes(self) -> bool:
        """True if it is over mesh axes, one group of them after the other."""
        return self.between_devices or self.between_meshes

    def bus_factor(self, devices: int) -> float:
        """Bus bandwidth over algorithm bandwidth among that many devices."""
        if self.share == "all":
            return 1.0
        return (2 if self.share == "reduce" else 1) * (devices - 1) / devices


TRANSFERS: dict[str, Transfer] = {
    each.name: each
    for each in (
        Transfer("all-reduce", "All-reduce", "reduce"),
        Transfer("all-gather", "All-gather", "part"),
        Transfer("reduce-scatter", "Reduce-scatter", "part"),
        Transfer("all-to-all", "All-to-all", "part"),
        Transfer("collective-permute", "Collective-permute", "all"),
        Transfer("host-to-device", "Host to device", "all", False),
        Transfer("device-to-host", "Device to host", "all", False),
        Transfer("meshes-over-host", "Mesh to mesh: over the host", "all", False, True),
        Transfer("meshes-reshard-first", "Mesh to mesh: reshard, copy", "all", False, True),
        Transfer("meshes-copy-first", "Mesh to mesh: copy, reshard", "all", False, True),
    )
}
COLLECTIVES = tuple(name for name, each in TRANSFERS.items() if each.between_devices)


def chosen_kinds(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The kinds that an experiment's options name, in the order of the table."""
    text = str(options.get("kinds", ALL))
    return COLLECTIVES if text == ALL else tuple(text.split(","))


def chosen_axes(
    options: Mapping[str, Any], mesh: Sequence[tuple[str, int]]
) -> tuple[tuple[str, ...], ...]:
    """The groups of mesh axes that an experiment's options name: `x`, `y` and `x+y`."""
    text = str(options.get("axes", ALL))
    names = tuple(name for name, size in mesh if size > 1)
    if text == ALL:  # each axis, each pair, and all of them
        groups = (*((name,) for name in names), *combinations(names, 2), names)
        return tuple(dict.fromkeys(groups)) if names else ()
    return tuple(tuple(word.split("+")) for word in text.split(","))


def ladder(options: Mapping[str, Any], unit: int = 1) -> tuple[int, ...]:
    """Sizes in bytes with equal ratios between them, each a multiple of `unit`; fewer than
    requested for where several become the same.
    """
    low, high = (options.get(name, default) for name, default in _SIZES.items())
    points = options.get("points", USUAL_POINTS)
    exact = [low * (high / low) ** (step / max(1, points - 1)) for step in range(points)]
    return tuple(dict.fromkeys(max(1, round(size / unit)) * unit for size in exact))


def _canonical(fields: Mapping[str, Any]) -> dict[str, object]:
    """Kinds and axes in one form; RequestError where one does not exist or sizes are reversed."""
    options, mesh = dict(fields["options"]), tuple(fields["mesh"])
    if (target := parse_target(fields["target"])).is_absent:
        mesh_places(get_topology(target), [size for _, size in mesh], options["device_order"])
    low, high = (options.get(name, default) for name, default in _SIZES.items())
    if low > high:
        raise refuse(f"smallest={low}", f"is more than largest={high}", "exchange the two")
    kinds = _read_kinds(options.get("kinds", ALL))
    groups = tuple(_read_axes(options.get("axes", ALL), mesh))
    _check_halves(kinds, mesh, target.is_absent)
    if not groups and any(TRANSFERS[kind].has_axes for kind in kinds):
        raise refuse(
            f"mesh {mesh_text(mesh)}",
            "has no axis of two devices to communicate over",
            "use a larger mesh, or kinds=host-to-device,device-to-host",
        )
    texts = {"kinds": ",".join(kinds), "axes": ",".join("+".join(axes) for axes in groups)}
    usual = {
        "kinds": ",".join(COLLECTIVES),
        "axes": ",".join("+".join(axes) for axes in chosen_axes({}, mesh)),
    }
    kept = {name: text for name, text in texts.items() if text != usual[name]}
    rest = {name: value for name, value in options.items() if name not in texts}
    return {"options": tuple((rest | kept).items())}


def _check_halves(kinds: Sequence[str], mesh: Sequence[tuple[str, int]], is_absent: bool) -> None:
    """Raises RequestError where there are no two halves to move data between."""
    for kind in kinds:
        if not TRANSFERS[kind].between_meshes:
            continue
        if is_absent:
            rule = "is between devices of this machine, and has no estimate"
            raise refuse(f"kind {kind}", rule, "use an attached target such as cpu:8")
        if all(size % 2 for _, size in mesh):
            rule = "has no axis of an even size, which two meshes would halve"
            raise refuse(f"mesh {mesh_text(mesh)}", rule, "use for example x=8")


def _read_kinds(text: str) -> tuple[str, ...]:
    asked = COLLECTIVES if text.strip() == ALL else tuple(_parts(text))
    for kind in asked:
        if kind not in TRANSFERS:
            raise refuse(
                f"kind {shorten(kind)}", "is not measured", f"use {ALL}, or {', '.join(TRANSFERS)}"
            )
    if not asked:
        raise refuse("kinds=", "leaves nothing to measure", f"use {ALL}")
    return tuple(kind for kind in TRANSFERS if kind in asked)


def _read_axes(text: str, mesh: tuple[tuple[str, int], ...]) -> Iterator[tuple[str, ...]]:
    sizes = dict(mesh)
    if text.strip() == ALL:
        yield from chosen_axes({}, mesh)
        return
    seen = set()
    for part in _parts(text):
        asked = [word.strip() for word in part.split("+")]
        for axis in asked:
            if axis not in sizes:
                raise refuse(
                    f"axes {shorten(part)}",
                    "are not axes of the mesh",
                    f"use {ALL}, or some of {', '.join(sizes)} such as {'+'.join(list(sizes)[:2])}",
                )
        if len(set(asked)) < len(asked):
            raise refuse(f"axes {shorten(part)}", "name one axis twice", "name each once")
        group = tuple(axis for axis in sizes if axis in asked)
        if group not in seen:
            seen.add(group)
            yield group


def _parts(text: str) -> Iterator[str]:
    yield from (word.strip() for word in text.split(",") if word.strip())


_OPTIONS = (
    Text(name="kinds", default=ALL, help=f"{ALL}, or some of {', '.join(TRANSFERS)}"),
    Text(
        name="axes",
        default=ALL,
        label="Over mesh axes",
        help=f"{ALL}: each axis, each pair, and all of them; or for example x, y, x+y",
    ),
    *(
        Integer(
            default,
            LEAST_BYTES,
            MOST_BYTES,
            name=name,
            metavar="BYTES",
            label=label,
            help=f"{name} number of bytes per device",
        )
        for name, default, label in (("smallest", 1024, "From"), ("largest", 16 * 2**20, "To"))
    ),
    Integer(
        USUAL_POINTS, 1, 64, name="points", metavar="N", label="Sizes of each", help="sizes of each"
    ),
)
_SIZES = {row.name: row.default for row in _OPTIONS if row.metavar == "BYTES"}

COLLECTIVES_SWEEP = Workload(
    name="collectives",
    title="Collectives",
    kind="sweep",
    formula="time and bandwidth of each collective over each mesh axis, size by size",
    dims=(),
    defaults={},
    operands=(),
    results=(),
    flops=lambda sizes: 0,
    dtypes=FLOATS,
    strategies=("as_written",),
    default_strategies=("as_written",),
    canonical=_canonical,
    options={row.name: row for row in _OPTIONS},
)
CALIBRATION = Workload(
    name="calibrate",
    title="Calibration",
    kind="machine",
    formula="the ceilings of this machine: copies, matmuls, dispatch, collectives",
    dims=(),
    defaults={},
    operands=(),
    results=(),
    flops=lambda sizes: 0,
    dtypes=("float32",),
    strategies=("as_written",),
    default_strategies=("as_written",),
)
