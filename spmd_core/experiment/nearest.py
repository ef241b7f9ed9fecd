"""The nearest experiment that fits: what does not is changed, and every change is named in a
sentence.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from spmd_core.base import RequestError, mesh_text, shorten
from spmd_core.experiment.experiment import Experiment, parse_experiment
from spmd_core.experiment.nearest_plan import (
    Form,
    Report,
    accepted,
    drop_unknown,
    kept,
    plain_fields,
    repaired_plan,
    sentence,
    strategies,
    workload,
)
from spmd_core.experiment.plans import check_flags
from spmd_core.fields import reading
from spmd_core.machine import default_target, parse_target
from spmd_core.workloads import Workload, files


class Nearest(NamedTuple):
    """An experiment that fits, and a sentence for each change that made it so."""

    experiment: Experiment
    changes: tuple[str, ...]


def nearest(data: Any, device_count: int | None = None, target: str | None = None) -> Nearest:
    """An experiment near what the JSON value describes, and a sentence for each change made; no
    sentence where it fits as it is.

    `device_count` is what the target has, where it is known; `target` replaces the target, for a
    machine that has not
    got the one named. RequestError where nothing near exists: no workload, no mesh, another
    version.
    """
    try:
        asked = _checked(data)
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
        return Nearest(_checked(data), ())  # raises: there is nothing to start from
    sentences: list[str] = []
    if "variants" in data:
        sentences.append("A study is not changed variant by variant: its first one is left.")
    first = {name: value for name, value in data.items() if name != "variants"}
    repaired = _repair(first, device_count, target, sentences.append)
    return Nearest(_checked(repaired), tuple(sentences))


def _checked(fields: Any) -> Experiment:
    experiment = parse_experiment(fields)
    check_flags(experiment)
    return experiment


def _available(target: str, device_count: int | None) -> float:
    known = device_count if device_count is not None else parse_target(target).device_count
    return math.inf if known is None else known


def _repair(data: Form, device_count: int | None, target: str | None, report: Report) -> Form:
    what = workload(data, report)
    drop_unknown(data, report)
    if what.named_axes:
        fields, parse = repaired_plan(data, _checked, report), _checked
    else:
        fields = _placed(what, data, device_count, target, report)
        what = what.chosen(fields["options"])
        if what.artifact:  # whose axes and specs are its own
            return data | fields
        fields["dims"] = _dims(what, data.get("dims"), report)

        def parse(fields: Form) -> Experiment:
            return parse_experiment(fields | {"dims": _divided(what, fields)})

    for field in ("sharding", "overrides", "memory", "data"):
        given = kept(field, data.get(field), report)
        fields[field] = accepted(field, given, fields, parse, report)
    fields = plain_fields(data, ("specs", "dtype", "timing", "seed"), fields, parse, report)
    if data.get("strategies") is not None:
        fields["strategies"] = strategies(what, data["strategies"], fields, parse, report)
    return fields if what.named_axes else fields | {"dims": _divided(what, fields, report)}


def _placed(
    what: Workload,
    data: Mapping[str, Any],
    device_count: int | None,
    target: str | None,
    report: Report,
) -> Form:
    place = _target(data.get("target"), target, report)
    mesh = _mesh(data["mesh"], _available(place, device_count), place, report)
    fields = {"workload": what.name, "target": place, "mesh": mesh}
    fields |= {"program": data["program"]} if what.artifact else {}
    given = kept("options", data.get("options"), report)
    if given.pop("source", None) is not None and what.source is not None:
        fields["options"] = {"source": what.source}  # pyrefly: ignore[bad-assignment]
    start = {"program": given.pop("program", None)} if what.is_small_program else {}
    start |= fields.pop("options", {})  # pyrefly: ignore[unsupported-operation]
    fields["options"] = accepted("options", given, fields, parse_experiment, report, start)
    return fields


def _target(given: Any, wanted: str | None, report: Report) -> str:
    if given is None and wanted is None:
        return default_target()
    try:
        asked = parse_target(
            reading.read_text("target", given if given is not None else wanted)
        ).text
    except RequestError as error:
        asked = wanted or default_target()
        report(f"{sentence(error)} Here it runs on {asked}.")
        return asked
    if wanted is not None and asked != wanted:
        report(f"The target {asked} is not on this machine: {wanted} is used.")
        return wanted
    return asked


def _mesh(given: Any, available: float, target: str, report: Report) -> dict[str, int]:
    mesh = dict(reading.read_sizes("mesh", given))
    if math.prod(mesh.values()) <= available:
        return mesh
    smaller = shrink(mesh, int(available))
    report(
        f"Mesh {mesh_text(mesh)} has {math.prod(mesh.values())} devices and {target} has "
        f"{int(available)}: {mesh_text(smaller)} is used."
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


def _divided(
    what: Workload, fields: Mapping[str, Any], report: Report = lambda sentence: None
) -> dict[str, int]:
    """The sizes, each the nearest that divides over the axes that shard it.

    RequestError where the sharding cannot be read.
    """
    sizes, mesh = dict(fields["dims"]), fields["mesh"]
    table = dict(reading.read_sharding(fields.get("sharding", {})))
    overrides = dict(reading.read_overrides(fields.get("overrides", {})))
    for dim, size in list(sizes.items()):
        sharded = [
            spec[present.index(dim)]
            for array in what.arrays
            if dim in (present := array.present(sizes))
            for spec in [overrides.get(array.name, array.spec(sizes, table))]
            if len(spec) == len(present)
        ]
        parts = math.lcm(*(math.prod(mesh.get(axis, 1) for axis in axes) for axes in sharded))
        if size % parts:
            sizes[dim] = max(parts, (size + parts // 2) // parts * parts)
            axes = dict.fromkeys(axis for axes in sharded for axis in axes)
            over = " and ".join(f"{axis}={mesh[axis]}" for axis in axes if axis in mesh)
            report(f"{dim}={size} does not divide over {over}: {dim}={sizes[dim]} is used.")
    return sizes


def has_newer(experiment: Experiment) -> bool:
    """Whether a file that declares one of its workloads declares it otherwise now; a file that is
    being loaded is not waited for.
    """
    return any(files.newer(each.experiment.what, 0.0) for each in experiment.members)


def newest(experiment: Experiment) -> Experiment:
    """The experiment of the versions of the files that are there now: of its fields those stay that
    the new version has. RequestError where a file declares its workload no longer.
    """
    if not any(files.newer(each.experiment.what) for each in experiment.members):
        return experiment
    members = [_as_now(each.experiment.to_json()) for each in experiment.members]
    if not experiment.variants:
        return parse_experiment(members[0])
    named = zip(experiment.variants, members, strict=True)
    return parse_experiment(
        {"study": [{"name": each.name, "experiment": member} for each, member in named]}
    )


def _as_now(form: Mapping[str, Any]) -> dict[str, object]:
    options = {name: value for name, value in form["options"].items() if name != "source"}
    return nearest({**form, "options": options}).experiment.to_json()
