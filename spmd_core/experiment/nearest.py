"""The nearest experiment that fits: what does not is changed, and every change is said in a
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
    """An experiment that fits, and a sentence for each change that made it so."""

    experiment: Experiment
    changes: tuple[str, ...]


def nearest(data: Any, device_count: int | None = None, target: str | None = None) -> Nearest:
    """An experiment near what the JSON value describes, and a sentence for each change made; no
    sentence where it fits as it is.

    `device_count` is what the target has, where it is known; `target` replaces the target, for a
    machine that has not
    got the one named. RequestError where nothing near can be told: no workload, no mesh, another
    version.
    """
    try:
        asked = parse_experiment(data)
    except RequestError:
        asked = None
    if (
        asked is not None
        and target in (None, asked.target)
        and asked.device_count <= _available(asked.target, device_count)
    ):
        return Nearest(asked, ())
    if (
        not isinstance(data, Mapping)
        or data.get("workload") is None
        or data.get("mesh") is None
        or data.get("version", 1) != 1
    ):
        return Nearest(parse_experiment(data), ())  # raises: there is nothing to start from
    said: list[str] = []
    if "variants" in data:
        said.append("A study is not changed variant by variant: its first one is left.")
    first = {name: value for name, value in data.items() if name != "variants"}
    return Nearest(parse_experiment(_repair(first, device_count, target, said.append)), tuple(said))


def _available(target: str, device_count: int | None) -> float:
    known = device_count if device_count is not None else parse_target(target).device_count
    return math.inf if known is None else known


def _repair(
    data: dict[str, Any], device_count: int | None, target: str | None, say: Report
) -> dict[str, Any]:
    if data["workload"] == DECODER.name:
        return repair_decoder(data, say)
    what = workload(data, say)
    data["options"] = options(what, data.get("options"), say)
    what = what.chosen(data["options"])
    drop_unknown(data, say)
    data["target"] = _target(data.get("target"), target, say)
    mesh = data["mesh"] = _mesh(
        data["mesh"], _available(data["target"], device_count), data["target"], say
    )
    if what.artifact:  # whose axes and specs are its own
        return data
    sizes = _dims(what, data.get("dims"), say)
    table = _sharding(what, data, mesh, sizes, say)
    overrides = _overrides(what, data, mesh, sizes, say)
    _disentangle(what, table, overrides, sizes, say)
    _divide(what, table, overrides, mesh, sizes, say)
    data |= {"dims": sizes, "sharding": table, "overrides": overrides}
    for field, arrays in (("memory", () if what.moves else what.arrays), ("data", what.operands)):
        data[field] = choices(field, data.get(field), arrays, say)
    plain_fields(what, data, say)
    return data


def _target(given: Any, wanted: str | None, say: Report) -> str:
    if given is None and wanted is None:
        return default_target()
    try:
        asked = parse_target(
            reading.read_text("target", given if given is not None else wanted)
        ).text
    except RequestError as error:
        asked = wanted or default_target()
        say(f"{sentence(error)} Here it runs on {asked}.")
        return asked
    if wanted is not None and asked != wanted:
        say(f"The target {asked} is not on this machine: {wanted} is used.")
        return wanted
    return asked


def _mesh(given: Any, available: float, target: str, say: Report) -> dict[str, int]:
    mesh = dict(reading.read_sizes("mesh", given))
    if math.prod(mesh.values()) <= available:
        return mesh
    smaller = shrink(mesh, int(available))
    say(
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


def _dims(what: Workload, given: Any, say: Report) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for dim, size in kept("dims", given, say).items():
        if dim not in what.dims:
            say(f"{what.name} has no dim {shorten(dim)}: left out.")
        elif reading.is_integer(size) and 1 <= size <= reading.MAX_SIZE:
            sizes[dim] = size
        else:
            sizes[dim] = what.defaults.get(dim, 1)
            say(f"{dim}={shorten(size)} is not a size: {dim}={sizes[dim]} is used.")
    if not sizes:
        return dict(what.defaults)
    for dim, fitting, rule, _ in list(what.amended(sizes)):
        say(f"{dim}={sizes[dim]} {rule}: {dim}={fitting} is used.")
        sizes[dim] = fitting
    if what.is_bare_array:  # d0, d1, … without a gap
        return _without_gaps(sizes, what, say)
    for dim in what.dims:
        if dim not in sizes and dim not in what.optional_dims:
            sizes[dim] = what.default_size(dim, sizes)
            say(f"{dim} has no size: {dim}={sizes[dim]} is used.")
    return {dim: sizes[dim] for dim in what.dims if dim in sizes}


def _without_gaps(sizes: dict[str, int], what: Workload, say: Report) -> dict[str, int]:
    last = max(what.dims.index(dim) for dim in sizes)
    for dim in what.dims[:last]:
        if dim not in sizes:
            sizes[dim] = 1
            say(f"{dim} is skipped: {dim}=1 is used.")
    return {dim: sizes[dim] for dim in what.dims[: last + 1]}


def _axes(where: str, given: Any, mesh: Mapping[str, int], say: Report) -> Axes:
    """The axes that the mesh has, each once."""
    try:
        named = reading.read_axes(where, given)
    except RequestError as error:
        say(f"{sentence(error)} It is unsharded here.")
        return ()
    for axis in dict.fromkeys(named):
        if axis not in mesh:
            say(f"The mesh has no axis {shorten(axis)}: {where} leaves it out.")
        elif named.count(axis) > 1:
            say(f"{where} names mesh axis {axis} twice: once is kept.")
    return tuple(axis for axis in dict.fromkeys(named) if axis in mesh)


def _sharding(
    what: Workload,
    data: Mapping[str, Any],
    mesh: Mapping[str, int],
    sizes: Mapping[str, int],
    say: Report,
) -> dict[str, Axes]:
    table: dict[str, Axes] = {}
    for dim, axes in kept("sharding", data.get("sharding"), say).items():
        if dim in sizes:
            table[dim] = _axes(f"the sharding of {dim}", axes, mesh, say)
        else:
            say(f"{what.name} has no dim {shorten(dim)} here: its sharding is left out.")
    return table


def _overrides(
    what: Workload,
    data: Mapping[str, Any],
    mesh: Mapping[str, int],
    sizes: Mapping[str, int],
    say: Report,
) -> dict[str, list[Axes]]:
    fitting: dict[str, list[Axes]] = {}
    for name, spec in kept("overrides", data.get("overrides"), say).items():
        array = next((array for array in what.arrays if array.name == name), None)
        if array is None:
            say(f"{what.name} has no array {shorten(name)}: its override is left out.")
        elif not isinstance(spec, list | tuple) or len(spec) != len(array.shape(sizes)):
            say(
                f"The override of {name} does not fit its rank {len(array.shape(sizes))}: left out."
            )
        else:
            fitting[name] = [_axes(f"the override of {name}", axes, mesh, say) for axes in spec]
    return fitting


def _disentangle(
    what: Workload,
    table: dict[str, Axes],
    overrides: dict[str, list[Axes]],
    sizes: Mapping[str, int],
    say: Report,
) -> None:
    """Where a mesh axis cuts two dims of one array, the later dim loses it."""
    for array in what.arrays:
        used: dict[str, str] = {}
        for place, dim in enumerate(array.present(sizes)):
            axes = (
                overrides[array.name][place] if array.name in overrides else array.axes(dim, table)
            )
            taken = [axis for axis in axes if axis in used]
            for axis in taken:
                say(
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
    say: Report,
) -> None:
    """Sizes that do not divide move to the nearest that do."""
    for dim, size in list(sizes.items()):
        holders = [array for array in what.arrays if dim in array.present(sizes)]
        cuts = [
            overrides[array.name][array.present(sizes).index(dim)]
            if array.name in overrides
            else array.axes(dim, table)
            for array in holders
        ]
        parts = math.lcm(*(math.prod(mesh[axis] for axis in axes) for axes in cuts))
        if size % parts:
            sizes[dim] = max(parts, (size + parts // 2) // parts * parts)
            over = " and ".join(
                f"{axis}={mesh[axis]}"
                for axis in dict.fromkeys(axis for axes in cuts for axis in axes)
            )
            say(f"{dim}={size} does not divide over {over}: {dim}={sizes[dim]} is used.")
