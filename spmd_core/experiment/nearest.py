"""The nearest valid experiment: invalid fields are changed, and every change is reported in a
sentence.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from spmd_core.base import RequestError, mesh_text, shorten
from spmd_core.experiment import reading
from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.experiment.nearest_fields import (
    Report,
    choices,
    drop_unknown,
    kept,
    options,
    plain_fields,
    sentence,
    workload,
)
from spmd_core.experiment.nearest_plan import repair_decoder
from spmd_core.experiment.types import Axes
from spmd_core.experiment.workloads.decoder import DECODER
from spmd_core.experiment.workloads.workload import Workload
from spmd_core.machine import default_target, parse_target


class Nearest(NamedTuple):
    """A valid experiment, and a sentence for each change that was made."""

    experiment: Experiment
    changes: tuple[str, ...]


def nearest(data: Any, device_count: int | None = None, target: str | None = None) -> Nearest:
    """A valid experiment near what the JSON value describes, and a sentence for each change; none
    if it is valid already.

    `device_count` is that of the target, if known; `target` replaces the target on a machine that
    does not have the given one. RequestError if there is nothing to start from: no workload, no
    mesh, another version.
    """
    try:
        experiment = parse_experiment(data)
    except RequestError:
        experiment = None
    if (
        experiment is not None
        and target in (None, experiment.target)
        and experiment.device_count <= _available(experiment.target, device_count)
    ):
        return Nearest(experiment, ())
    if (
        not isinstance(data, Mapping)
        or data.get("workload") is None
        or data.get("mesh") is None
        or data.get("version", 1) != 1
    ):
        return Nearest(parse_experiment(data), ())  # raises: there is nothing to start from
    changes: list[str] = []
    if "variants" in data:
        changes.append("A study is not changed variant by variant: its first one is left.")
    first = {name: value for name, value in data.items() if name != "variants"}
    return Nearest(
        parse_experiment(_repair(first, device_count, target, changes.append)), tuple(changes)
    )


def _available(target: str, device_count: int | None) -> float:
    known = device_count if device_count is not None else parse_target(target).device_count
    return math.inf if known is None else known


def _repair(
    data: dict[str, Any], device_count: int | None, target: str | None, report: Report
) -> dict[str, Any]:
    if data["workload"] == DECODER.name:
        return repair_decoder(data, say)
    what = workload(data, say)
    data["options"] = options(what, data.get("options"), say)
    what = what.chosen(data["options"])
    drop_unknown(data, report)
    data["target"] = _target(data.get("target"), target, report)
    mesh = data["mesh"] = _mesh(
        data["mesh"], _available(data["target"], device_count), data["target"], report
    )
    sizes = _dims(what, data.get("dims"), report)
    table = _sharding(what, data, mesh, sizes, report)
    overrides = _overrides(what, data, mesh, sizes, report)
    _disentangle(what, table, overrides, sizes, report)
    _divide(what, table, overrides, mesh, sizes, report)
    data |= {"dims": sizes, "sharding": table, "overrides": overrides}
    for field, arrays in (("memory", () if what.moves else what.arrays), ("data", what.operands)):
        data[field] = choices(field, data.get(field), arrays, report)
    plain_fields(what, data, report)
    return data


def _target(given: Any, wanted: str | None, report: Report) -> str:
    if given is None and wanted is None:
        return default_target()
    try:
        named = parse_target(
            reading.read_text("target", given if given is not None else wanted)
        ).text
    except RequestError as error:
        named = wanted or default_target()
        report(f"{sentence(error)} Here it runs on {named}.")
        return named
    if wanted is not None and named != wanted:
        report(f"The target {named} is not on this machine: {wanted} is used.")
        return wanted
    return named


def _mesh(given: Any, available: float, target: str, report: Report) -> dict[str, int]:
    mesh = dict(reading.read_sizes("mesh", given))
    if math.prod(mesh.values()) <= available:
        return mesh
    smaller = shrink(mesh, int(available))
    report(
        f"Mesh {mesh_text(mesh)} has {math.prod(mesh.values())} devices and {target} has {int(available)}: {mesh_text(smaller)} is used."
    )
    return smaller


def shrink(mesh: Mapping[str, int], available: int) -> dict[str, int]:
    """A mesh of the same axes with at most `available` devices: the longest axis loses its smallest
    prime factor, again and again.

    >>> shrink({"x": 4, "y": 4}, 8)
    {'x': 2, 'y': 4}
    """
    smaller = dict(mesh)
    while math.prod(smaller.values()) > available:
        axis = max(smaller, key=lambda name: smaller[name])
        factor = next((prime for prime in (2, 3) if smaller[axis] % prime == 0), 0)
        room = available // (math.prod(smaller.values()) // smaller[axis])
        smaller[axis] = smaller[axis] // factor if factor else room or smaller[axis] // 2
    return smaller


def _dims(what: Workload, given: Any, report: Report) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for dim, size in kept("dims", given, report).items():
        if dim not in what.dims:
            report(f"{what.name} has no dim {shorten(dim)}: left out.")
        elif reading.is_integer(size) and 1 <= size <= reading.MAX_SIZE:
            sizes[dim] = size
        else:
            sizes[dim] = what.defaults.get(dim, 1)
            report(f"{dim}={shorten(size)} is not a size: {dim}={sizes[dim]} is used.")
    if not sizes:
        return dict(what.defaults)
    for dim, fitting, rule, _ in list(what.amended(sizes)):
        report(f"{dim}={sizes[dim]} {rule}: {dim}={fitting} is used.")
        sizes[dim] = fitting
    if what.is_bare_array:  # d0, d1, … without a gap
        return _without_gaps(sizes, what, report)
    for dim in what.dims:
        if dim not in sizes and dim not in what.optional_dims:
            sizes[dim] = what.default_size(dim, sizes)
            report(f"{dim} has no size: {dim}={sizes[dim]} is used.")
    return {dim: sizes[dim] for dim in what.dims if dim in sizes}


def _without_gaps(sizes: dict[str, int], what: Workload, report: Report) -> dict[str, int]:
    last = max(what.dims.index(dim) for dim in sizes)
    for dim in what.dims[:last]:
        if dim not in sizes:
            sizes[dim] = 1
            report(f"{dim} is skipped: {dim}=1 is used.")
    return {dim: sizes[dim] for dim in what.dims[: last + 1]}


def _axes(where: str, given: Any, mesh: Mapping[str, int], report: Report) -> Axes:
    """The axes that the mesh has, each once."""
    try:
        named = reading.read_axes(where, given)
    except RequestError as error:
        report(f"{sentence(error)} It is unsharded here.")
        return ()
    for axis in dict.fromkeys(named):
        if axis not in mesh:
            report(f"The mesh has no axis {shorten(axis)}: {where} leaves it out.")
        elif named.count(axis) > 1:
            report(f"{where} names mesh axis {axis} twice: once is kept.")
    return tuple(axis for axis in dict.fromkeys(named) if axis in mesh)


def _sharding(
    what: Workload,
    data: Mapping[str, Any],
    mesh: Mapping[str, int],
    sizes: Mapping[str, int],
    report: Report,
) -> dict[str, Axes]:
    table: dict[str, Axes] = {}
    for dim, axes in kept("sharding", data.get("sharding"), report).items():
        if dim in sizes:
            table[dim] = _axes(f"the sharding of {dim}", axes, mesh, report)
        else:
            report(f"{what.name} has no dim {shorten(dim)} here: its sharding is left out.")
    return table


def _overrides(
    what: Workload,
    data: Mapping[str, Any],
    mesh: Mapping[str, int],
    sizes: Mapping[str, int],
    report: Report,
) -> dict[str, list[Axes]]:
    fitting: dict[str, list[Axes]] = {}
    for name, spec in kept("overrides", data.get("overrides"), report).items():
        array = next((array for array in what.arrays if array.name == name), None)
        if array is None:
            report(f"{what.name} has no array {shorten(name)}: its override is left out.")
        elif not isinstance(spec, list | tuple) or len(spec) != len(array.shape(sizes)):
            report(
                f"The override of {name} does not fit its rank {len(array.shape(sizes))}: left out."
            )
        else:
            fitting[name] = [_axes(f"the override of {name}", axes, mesh, report) for axes in spec]
    return fitting


def _disentangle(
    what: Workload,
    table: dict[str, Axes],
    overrides: dict[str, list[Axes]],
    sizes: Mapping[str, int],
    report: Report,
) -> None:
    """If a mesh axis shards two dims of one array, the later dim loses it."""
    for array in what.arrays:
        used: dict[str, str] = {}
        for place, dim in enumerate(array.present(sizes)):
            axes = (
                overrides[array.name][place] if array.name in overrides else array.axes(dim, table)
            )
            taken = [axis for axis in axes if axis in used]
            for axis in taken:
                report(
                    f"Mesh axis {axis} shards both {used[axis]} and {dim} of {array.name}: {dim} leaves it out."
                )
            left = tuple(axis for axis in axes if axis not in taken)
            if array.name in overrides:
                overrides[array.name][place] = left
            elif taken:
                table[dim] = left
            used |= dict.fromkeys(left, dim)


def _divide(
    what: Workload,
    table: Mapping[str, Axes],
    overrides: Mapping[str, list[Axes]],
    mesh: Mapping[str, int],
    sizes: dict[str, int],
    report: Report,
) -> None:
    """Replaces sizes that do not divide by the nearest that do."""
    for dim, size in list(sizes.items()):
        holders = [array for array in what.arrays if dim in array.present(sizes)]
        sharding = [
            overrides[array.name][array.present(sizes).index(dim)]
            if array.name in overrides
            else array.axes(dim, table)
            for array in holders
        ]
        parts = math.lcm(*(math.prod(mesh[axis] for axis in axes) for axes in sharding))
        if size % parts:
            sizes[dim] = max(parts, (size + parts // 2) // parts * parts)
            over = " and ".join(
                f"{axis}={mesh[axis]}"
                for axis in dict.fromkeys(axis for axes in sharding for axis in axes)
            )
            report(f"{dim}={size} does not divide over {over}: {dim}={sizes[dim]} is used.")
