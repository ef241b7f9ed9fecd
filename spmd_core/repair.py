"""The nearest experiment that fits: what does not is changed, and every change is said in a sentence."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from spmd_core import forms
from spmd_core.checks import BY_POSITION, fill_options, read_in_axes, source_of
from spmd_core.errors import RequestError, shorten
from spmd_core.experiment import Axes, Experiment, parse_experiment
from spmd_core.targets import default_target, parse_target
from spmd_core.workloads import Array, Workload, get_workload

Say = Callable[[str], None]


class Nearest(NamedTuple):
    """An experiment that fits, and a sentence for each change that made it so."""

    experiment: Experiment
    changes: tuple[str, ...]


def nearest(data: Any, device_count: int | None = None, target: str | None = None) -> Nearest:
    """An experiment near what the JSON value describes, and a sentence for each change made; no sentence where it fits as it is.

    `device_count` is what the target has, where it is known; `target` replaces the target, for a machine that has not
    got the one named. RequestError where nothing near can be told: no workload, no mesh, another version.
    """
    try:
        asked = parse_experiment(data)
    except RequestError:
        asked = None
    if asked is not None and target in (None, asked.target) and asked.device_count <= _available(asked.target, device_count):
        return Nearest(asked, ())
    if not isinstance(data, Mapping) or data.get("workload") is None or data.get("mesh") is None or data.get("version", 1) != 1:
        return Nearest(parse_experiment(data), ())  # raises: there is nothing to start from
    said: list[str] = []
    return Nearest(parse_experiment(_repair(dict(data), device_count, target, said.append)), tuple(said))


def _available(target: str, device_count: int | None) -> float:
    known = device_count if device_count is not None else parse_target(target).device_count
    return math.inf if known is None else known


def _repair(data: dict[str, Any], device_count: int | None, target: str | None, say: Say) -> dict[str, Any]:
    what = _workload(data, say)
    data["options"] = _options(what, data.get("options"), say)
    what = what.chosen(data["options"])
    for field in [field for field in data if field not in Experiment.model_fields]:
        say(f"The field {shorten(field)} is not part of an experiment: left out.")
        del data[field]
    data["target"] = _target(data.get("target"), target, say)
    mesh = data["mesh"] = _mesh(data["mesh"], _available(data["target"], device_count), data["target"], say)
    sizes = _dims(what, data.get("dims"), say)
    table = _sharding(what, data, mesh, sizes, say)
    overrides = _overrides(what, data, mesh, sizes, say)
    _disentangle(what, table, overrides, sizes, say)
    _divide(what, table, overrides, mesh, sizes, say)
    data |= {"dims": sizes, "sharding": table, "overrides": overrides}
    for field, arrays in (("memory", () if what.moves else what.arrays), ("data", what.operands)):
        data[field] = _choices(field, data.get(field), arrays, say)
    _plain_fields(what, data, say)
    return data


def _kept(field: str, given: Any, say: Say) -> dict[str, Any]:
    """The pairs of a field; none, with a sentence, where it cannot be read."""
    try:
        return dict(forms.read_pairs(field, given if given is not None else {}))
    except RequestError as error:
        say(f"{_sentence(error)} It was left out.")
        return {}


def _sentence(error: RequestError) -> str:
    return f"{str(error)[0].upper()}{str(error)[1:]}."


def _target(given: Any, wanted: str | None, say: Say) -> str:
    if given is None and wanted is None:
        return default_target()
    try:
        asked = parse_target(forms.read_text("target", given if given is not None else wanted)).text
    except RequestError as error:
        asked = wanted or default_target()
        say(f"{_sentence(error)} Here it runs on {asked}.")
        return asked
    if wanted is not None and asked != wanted:
        say(f"The target {asked} is not on this machine: {wanted} is used.")
        return wanted
    return asked


def _mesh(given: Any, available: float, target: str, say: Say) -> dict[str, int]:
    mesh = dict(forms.read_sizes("mesh", given))
    if math.prod(mesh.values()) <= available:
        return mesh
    smaller = shrink(mesh, int(available))
    say(f"Mesh {_mesh_text(mesh)} has {math.prod(mesh.values())} devices and {target} has {int(available)}: {_mesh_text(smaller)} is used.")
    return smaller


def _mesh_text(mesh: Mapping[str, int]) -> str:
    return ", ".join(f"{axis}={size}" for axis, size in mesh.items())


def shrink(mesh: Mapping[str, int], available: int) -> dict[str, int]:
    """A mesh of the same axes with at most `available` devices: the longest axis loses its smallest prime factor, again and again.

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


def _dims(what: Workload, given: Any, say: Say) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for dim, size in _kept("dims", given, say).items():
        if dim not in what.dims:
            say(f"{what.name} has no dim {shorten(dim)}: left out.")
        elif forms.is_whole(size) and 1 <= size <= forms.MAX_SIZE:
            sizes[dim] = size
        else:
            sizes[dim] = what.defaults.get(dim, 1)
            say(f"{dim}={shorten(size)} is not a size: {dim}={sizes[dim]} is used.")
    if not sizes:
        return dict(what.defaults)
    for dim, fitting, rule, _ in list(what.amended(sizes)):
        say(f"{dim}={sizes[dim]} {rule}: {dim}={fitting} is used.")
        sizes[dim] = fitting
    if what.name == "array":  # d0, d1, … without a gap
        return _without_gaps(sizes, what, say)
    for dim in what.dims:
        if dim not in sizes and dim not in what.optional_dims:
            sizes[dim] = what.default_size(dim, sizes)
            say(f"{dim} has no size: {dim}={sizes[dim]} is used.")
    return {dim: sizes[dim] for dim in what.dims if dim in sizes}


def _without_gaps(sizes: dict[str, int], what: Workload, say: Say) -> dict[str, int]:
    last = max(what.dims.index(dim) for dim in sizes)
    for dim in what.dims[:last]:
        if dim not in sizes:
            sizes[dim] = 1
            say(f"{dim} is skipped: {dim}=1 is used.")
    return {dim: sizes[dim] for dim in what.dims[: last + 1]}


def _axes(where: str, given: Any, mesh: Mapping[str, int], say: Say) -> Axes:
    """The axes that the mesh has, each once."""
    try:
        named = forms.read_axes(where, given)
    except RequestError as error:
        say(f"{_sentence(error)} It is unsharded here.")
        return ()
    for axis in dict.fromkeys(named):
        if axis not in mesh:
            say(f"The mesh has no axis {shorten(axis)}: {where} leaves it out.")
        elif named.count(axis) > 1:
            say(f"{where} names mesh axis {axis} twice: once is kept.")
    return tuple(axis for axis in dict.fromkeys(named) if axis in mesh)


def _sharding(what: Workload, data: Mapping[str, Any], mesh: Mapping[str, int], sizes: Mapping[str, int], say: Say) -> dict[str, Axes]:
    table: dict[str, Axes] = {}
    for dim, axes in _kept("sharding", data.get("sharding"), say).items():
        if dim in sizes:
            table[dim] = _axes(f"the sharding of {dim}", axes, mesh, say)
        else:
            say(f"{what.name} has no dim {shorten(dim)} here: its sharding is left out.")
    return table


def _overrides(what: Workload, data: Mapping[str, Any], mesh: Mapping[str, int], sizes: Mapping[str, int], say: Say) -> dict[str, list[Axes]]:
    kept: dict[str, list[Axes]] = {}
    for name, spec in _kept("overrides", data.get("overrides"), say).items():
        array = next((array for array in what.arrays if array.name == name), None)
        if array is None:
            say(f"{what.name} has no array {shorten(name)}: its override is left out.")
        elif not isinstance(spec, list | tuple) or len(spec) != len(array.shape(sizes)):
            say(f"The override of {name} does not fit its rank {len(array.shape(sizes))}: left out.")
        else:
            kept[name] = [_axes(f"the override of {name}", axes, mesh, say) for axes in spec]
    return kept


def _disentangle(what: Workload, table: dict[str, Axes], overrides: dict[str, list[Axes]], sizes: Mapping[str, int], say: Say) -> None:
    """Where a mesh axis cuts two dims of one array, the later dim loses it."""
    for array in what.arrays:
        used: dict[str, str] = {}
        for place, dim in enumerate(array.present(sizes)):
            axes = overrides[array.name][place] if array.name in overrides else array.axes(dim, table)
            taken = [axis for axis in axes if axis in used]
            for axis in taken:
                say(f"Mesh axis {axis} cuts both {used[axis]} and {dim} of {array.name}: {dim} leaves it out.")
            kept = tuple(axis for axis in axes if axis not in taken)
            if array.name in overrides:
                overrides[array.name][place] = kept
            elif taken:
                table[dim] = kept
            used |= dict.fromkeys(kept, dim)


def _divide(
    what: Workload, table: Mapping[str, Axes], overrides: Mapping[str, list[Axes]], mesh: Mapping[str, int], sizes: dict[str, int], say: Say
) -> None:
    """Sizes that do not divide move to the nearest that do."""
    for dim, size in list(sizes.items()):
        holders = [array for array in what.arrays if dim in array.present(sizes)]
        cuts = [overrides[array.name][array.present(sizes).index(dim)] if array.name in overrides else array.axes(dim, table) for array in holders]
        parts = math.lcm(*(math.prod(mesh[axis] for axis in axes) for axes in cuts))
        if size % parts:
            sizes[dim] = max(parts, (size + parts // 2) // parts * parts)
            over = " and ".join(f"{axis}={mesh[axis]}" for axis in dict.fromkeys(axis for axes in cuts for axis in axes))
            say(f"{dim}={size} does not divide over {over}: {dim}={sizes[dim]} is used.")


def _choices(field: str, given: Any, arrays: Iterable[Array], say: Say) -> dict[str, Any]:
    names = [array.name for array in arrays]
    kept = {}
    for name, word in _kept(field, given, say).items():
        if name not in names or word not in forms.CHOICES[field]:
            say(f"{field} of {shorten(name)}={shorten(word)} is not known here: left out.")
        else:
            kept[name] = word
    return kept


def _workload(data: Mapping[str, Any], say: Say) -> Workload:
    """The workload, as it is declared now where the version of the user's own file is not known here."""
    name, options = forms.read_text("workload", data["workload"]), data.get("options")
    source = source_of(options) if isinstance(options, Mapping) else None
    try:
        return get_workload(name, source)
    except RequestError:
        if source is None:
            raise
    what = get_workload(name)
    if what.source is not None:
        say(f"{name} was declared by another version of its file: the one that is here is used.")
    return what


def _options(what: Workload, given: Any, say: Say) -> dict[str, Any]:
    kept = {}
    pairs = _kept("options", given, say)
    for name, value in pairs.items():
        if name == "source":
            kept |= {name: what.source} if what.source is not None else {}
        elif _is_option(what, pairs, name, value):
            kept[name] = value
        else:
            say(f"Option {shorten(name)}={shorten(value)} is not one of {what.name}: left out.")
    return kept


def _is_option(what: Workload, pairs: Mapping[str, Any], name: str, value: Any) -> bool:
    """Whether the workload has this option, and the option this value."""
    try:
        fill_options(what, ({"program": pairs.get("program")} if what.name == "program" else {}) | {name: value})
    except RequestError:
        return False
    return name != "in_axes" or value == BY_POSITION or len(read_in_axes(value) or ()) == len(what.chosen(pairs).operands)


def _plain_fields(what: Workload, data: dict[str, Any], say: Say) -> None:
    """Dtype, strategies, timing and seed: what is not known falls back to the default."""
    if data.get("dtype") is not None and data["dtype"] not in what.dtypes:
        say(f"Dtype {shorten(data['dtype'])} makes no sense for {what.name}: {what.dtypes[0]} is used.")
        data["dtype"] = what.dtypes[0]
    named = data.get("strategies")
    if named is not None:
        listed = named if isinstance(named, list | tuple) else [named]
        data["strategies"] = list(dict.fromkeys(name for name in listed if name in what.strategies))
        for name in listed:
            if name not in what.strategies:
                say(f"Strategy {shorten(name)} is not one of {what.name}: left out.")
        if len(data["strategies"]) < sum(name in what.strategies for name in listed):
            say("A strategy was listed twice: once is kept.")
        if not data["strategies"]:
            data["strategies"] = list(what.default_strategies)
            say(f"No strategy is left: {', '.join(what.default_strategies)} are used.")
    for field in ("timing", "seed"):
        try:
            if data.get(field) is not None:
                forms.READERS[field](data[field])
        except RequestError as error:
            say(f"{_sentence(error)} The default is used.")
            del data[field]


