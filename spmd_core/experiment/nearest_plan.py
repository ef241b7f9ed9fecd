"""The nearest transformer's training step that can be compiled, for a damaged or invalid
experiment.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spmd_core.base import RequestError, capital, mesh_text, numbered, shorten
from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.options import source_of
from spmd_core.experiment.resized import resized
from spmd_core.fields import reading
from spmd_core.machine import Target, Topology, get_topology, nearest_topology, parse_target
from spmd_core.plan import (
    CONTEXT,
    DATA_AXES,
    LENGTH_AXES,
    MAX_SEQUENCE,
    MESH_AXES,
    PRESETS,
    STAGE,
    ModelSize,
    get_model,
)
from spmd_core.workloads import DECODER, DEFAULT_SPEC, Workload, get_workload

Form = dict[str, Any]  # fields of an experiment, or entries of one
Report = Callable[[str], None]
Parse = Callable[[Form], Experiment]  # RequestError where it refuses
MAX_TRIED = 64  # entries of a field: each parses an experiment, and a link may have thousands
_ENTRIES = {
    "dims": "the size {}",
    "options": "option {}",
    "sharding": "the sharding of {}",
    "overrides": "the override of {}",
    "memory": "the memory of {}",
    "data": "the data of {}",
}


def sentence(error: RequestError) -> str:
    """An error as a sentence of its own."""
    return capital(f"{error}.")


def kept(field: str, given: Any, report: Report) -> Form:
    """The pairs of a field; none, with a sentence, where it cannot be read."""
    try:
        return dict(reading.read_pairs(field, given if given is not None else {}))
    except RequestError as error:
        report(f"{sentence(error)} It was left out.")
        return {}


def accepted(
    field: str,
    given: Mapping[str, Any],
    fields: Form,
    parse: Parse,
    report: Report,
    start: Mapping[str, Any] | None = None,
) -> Form:
    """The entries of a field that are accepted beside other `fields`: all of them, or each in turn.

    Args:
        field: the field of the experiment, an object.
        given: its entries.
        fields: fields that are accepted.
        parse: makes an experiment of fields, or refuses them.
        report: takes a sentence for each entry that is left out.
        start: entries that are accepted.
    """
    chosen = dict(start or {})
    if refusal(parse, fields | {field: chosen | dict(given)}) is None:
        return chosen | dict(given)
    for number, (name, value) in enumerate(given.items()):
        if number == MAX_TRIED:
            report(f"{capital(field)} have {len(given)} entries: all after {name} are left out.")
            break
        error = refusal(parse, fields | {field: chosen | {name: value}})
        if error is None:
            chosen[name] = value
        else:
            what = capital(_ENTRIES[field].format(shorten(name)[1:-1]))
            report(f"{sentence(error)} {what} is left out.")
    return chosen


def plain_fields(
    data: Mapping[str, Any],
    names: Iterable[str],
    fields: Form,
    parse: Parse,
    report: Report,
) -> Form:
    """The fields of these names that are accepted beside others; else they are at their default."""
    accepted = dict(fields)
    for name in names:
        if data.get(name) is None:
            continue
        if error := refusal(parse, accepted | {name: data[name]}):
            report(f"{sentence(error)} The default is used.")
        else:
            accepted[name] = data[name]
    return accepted


def strategies(what: Workload, given: Any, fields: Form, parse: Parse, report: Report) -> list[str]:
    """The strategies that are accepted, each once; the usual ones where none is."""
    kept: list[str] = []
    for name in given[:MAX_TRIED] if isinstance(given, list | tuple) else [given]:
        if error := refusal(parse, fields | {"strategies": [*kept, name]}):
            report(f"{sentence(error)} It is left out.")
        else:
            kept.append(name)
    if not kept:
        report(f"No strategy is left: {', '.join(what.default_strategies)} are used.")
    return kept or list(what.default_strategies)


def refusal(parse: Parse, fields: Form) -> RequestError | None:
    """Why fields are refused; None where they are accepted."""
    try:
        parse(fields)
    except RequestError as error:
        return error
    return None


def workload(data: Mapping[str, Any], report: Report) -> Workload:
    """The workload; its current declaration if the requested version of the user's own file is
    unknown.
    """
    name, given = reading.read_text("workload", data["workload"]), data.get("options")
    source = source_of(given) if isinstance(given, Mapping) else None
    try:
        return get_workload(name, source, reading.read_text("program", data.get("program", "")))
    except RequestError:
        if source is None:
            raise
    what = get_workload(name)
    if what.source is not None:
        report(f"{name} was declared by another version of its file: the one that is here is used.")
    return what


def drop_unknown(data: Form, report: Report) -> None:
    """Removes fields that no experiment has."""
    for field in [field for field in data if field not in Experiment.model_fields]:
        report(f"The field {shorten(field)} is not part of an experiment: left out.")
        del data[field]


BLOCK = 128  # tokens that a sequence is a multiple of
MAX_PER_DEVICE = 65536
_PLAIN = re.compile(r"[^a-z0-9]")


def repaired_plan(data: Mapping[str, Any], parse: Parse, report: Report) -> Form:
    """Workload, target, mesh, dims and options near those of `data`; a sentence for each change.

    RequestError where the mesh cannot be read at all.
    """
    wanted = dict(reading.read_sizes("mesh", data["mesh"]))
    topology = _topology(data.get("target"), math.prod(wanted.values()), report)
    options, sizes = (kept(field, data.get(field), report) for field in ("options", "dims"))
    model = {"model": _model(options.pop("model", DEFAULT_SPEC["options"]["model"]), report)}
    batch, sequence = (_size(dim, sizes, report) for dim in ("batch", "sequence"))
    fields = {"workload": DECODER.name, "target": topology.target, "options": model}
    fields |= {"mesh": {"fsdp": topology.devices}}
    start = {"batch": topology.devices, "sequence": DECODER.defaults["sequence"]}
    fields["dims"] = accepted("dims", sizes, fields, parse, report, start)
    size = getattr(parse(fields).plan, "size", get_model(model["model"]))
    mesh = fields["mesh"] = _mesh(wanted, topology, size, report)
    sequence = _sequence(sequence, mesh, report)
    fields["dims"] |= {"batch": _batch(batch, mesh, report), "sequence": sequence}
    fields["options"] = accepted("options", options, fields, parse, report, model)
    return fields


def _size(dim: str, sizes: Form, report: Report) -> int:
    """The size of a dim, which is removed from `sizes`; its default where it is none."""
    usual = DECODER.defaults[dim]
    size = sizes.pop(dim, usual)
    if reading.is_integer(size) and 1 <= size <= reading.MAX_SIZE:
        return size
    report(f"{dim}={shorten(size)} is not a size: {dim}={usual} is used.")
    return usual


def _topology(given: Any, devices: int, report: Report) -> Topology:
    """The topology of a target, or the nearest legal one; for no topology at all, one of v5e with
    about as many devices; of no GPU, H100.
    """
    target: Target | None = None
    try:
        target = parse_target(reading.read_text("target", given))
        return get_topology(target)
    except RequestError as error:
        platform = "gpu" if str(given).startswith("gpu:") else "tpu"
        nearest = nearest_topology(target, devices, platform)
        report(f"{sentence(error)} {nearest.target} is used.")
        return nearest


def _model(name: Any, report: Report) -> str:
    try:
        return get_model(str(name)).name
    except RequestError as error:
        text = str(name).strip().lower()
        scale = re.fullmatch(r"scaled:?-?([0-9]{1,6})", text)
        if scale:
            near = f"scaled:{1 << min(16, max(0, int(scale[1]).bit_length() - 1))}"
        else:
            spelled = {_PLAIN.sub("", preset): preset for preset in PRESETS}
            alike = difflib.get_close_matches(_PLAIN.sub("", text), list(spelled), 1, 0.6)
            near = spelled[alike[0]] if alike else str(DEFAULT_SPEC["options"]["model"])
        report(f"{sentence(error)} {near} is used.")
        return near


def _mesh(
    wanted: Mapping[str, int], topology: Topology, model: ModelSize, report: Report
) -> dict[str, int]:
    mesh = {}
    for axis, size in wanted.items():
        if axis in MESH_AXES:
            mesh[axis] = size
        else:
            report(f"A decoder is not sharded over a mesh axis {shorten(axis)}: left out.")
    blocks, least = (2, "two blocks") if mesh.get(CONTEXT, 1) > 1 else (1, "a block")
    room = MAX_SEQUENCE // (blocks * BLOCK)  # parts of the longest sequence
    few = f"leaves less than {least} of {BLOCK} tokens to a part of a sequence of"
    for axis, near, rule in (
        ("sequence", min(mesh.get("sequence", 1), room), few),
        (CONTEXT, min(mesh.get(CONTEXT, 1), max(1, room // mesh.get("sequence", 1))), few),
        (
            "tensor",
            math.gcd(mesh.get("tensor", 1), model.heads, model.mlp, model.embed),
            "does not divide the heads, mlp and embed of",
        ),
        (
            STAGE,
            model.fitting_stages(mesh.get(STAGE, 1), topology.devices),
            "is no number of stages of",
        ),
    ):
        if mesh.get(axis, near) != near:
            report(f"{axis}={mesh[axis]} {rule} {model.name}: {axis}={near} is used.")
            mesh[axis] = near
    before = dict(mesh)
    filled = dict(resized(tuple(mesh.items()), topology, workload=DECODER.name).mesh)
    if filled != mesh:
        had = (
            f"Mesh {mesh_text(before)} has {math.prod(before.values())} devices"
            if before
            else "No mesh axis is left"
        )
        report(f"{had} and {topology.name} has {topology.devices}: {mesh_text(filled)} is used.")
    return filled


def _sequence(sequence: int, mesh: Mapping[str, int], report: Report) -> int:
    shards = math.prod(mesh.get(axis, 1) for axis in LENGTH_AXES) * (1 + (mesh.get(CONTEXT, 1) > 1))
    unit = BLOCK * shards  # over `context` in two parts each
    fitting = min(max(unit, sequence // unit * unit), MAX_SEQUENCE // unit * unit)
    if fitting != sequence:
        report(
            f"sequence={sequence} does not divide into blocks of {BLOCK} over "
            f"{numbered(shards, 'part')}: sequence={fitting} is used."
        )
    return fitting


def _batch(batch: int, mesh: Mapping[str, int], report: Report) -> int:
    rows, devices = math.prod(mesh.get(axis, 1) for axis in DATA_AXES), math.prod(mesh.values())
    most = MAX_PER_DEVICE * devices // rows * rows
    fitting = min(most, rows * max(1, (2 * batch + rows) // (2 * rows)))
    if fitting != batch:
        over = (
            mesh_text({axis: size for axis, size in mesh.items() if axis in DATA_AXES})
            or "one device"
        )
        report(
            f"batch={batch} {f'does not divide over {over}' if batch <= most else 'is too large'}: "
            f"batch={fitting} is used."
        )
    return fitting
