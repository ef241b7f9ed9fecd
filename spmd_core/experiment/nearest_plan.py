"""The nearest transformer's training step that can be compiled, for a damaged or invalid
experiment.
"""

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any

from spmd_core.base import RequestError, mesh_text, refuse, shorten
from spmd_core.experiment import reading
from spmd_core.experiment.nearest_fields import (
    Report,
    drop_unknown,
    kept,
    options,
    plain_fields,
    sentence,
)
from spmd_core.experiment.plan.flags import flag_refusal, link_refusal
from spmd_core.experiment.plan.meshes import AXES, DATA_AXES
from spmd_core.experiment.plan.model_size import ACTIVATIONS, VARIABLE, ModelSize
from spmd_core.experiment.plan.models import get_model
from spmd_core.experiment.plan.plan import MAX_SEQUENCE, NAMES
from spmd_core.experiment.plan.presets import PRESETS
from spmd_core.experiment.resized import resized
from spmd_core.experiment.workloads.decoder import DECODER, DEFAULT_SPEC, GATES, TABLES
from spmd_core.machine import Target, Topology, get_topology, nearest_topology, parse_target

BLOCK = 128  # tokens that a sequence is a multiple of
MAX_PER_DEVICE = 65536
_PLAIN = re.compile(r"[^a-z0-9]")


def repair_decoder(data: dict[str, Any], report: Report) -> dict[str, Any]:
    """The fields of an experiment near `data` that `parse_experiment` takes; a sentence for each
    change made.

    RequestError where the mesh cannot be read at all.
    """
    drop_unknown(data, report)
    for field in ("sharding", "overrides", "memory"):
        if data.pop(field, None):
            report(
                f"{field[0].upper()}{field[1:]} follows from the names of the mesh axes: left out."
            )
    wanted = dict(reading.read_sizes("mesh", data["mesh"]))
    topology = _topology(data.get("target"), math.prod(wanted.values()), report)
    data["target"] = topology.target
    chosen = options(DECODER, data.get("options"), report)
    chosen["model"] = _model(chosen.get("model", DEFAULT_SPEC["options"]["model"]), report)
    sizes = _sizes(data.get("dims"), report)
    model = _varied(get_model(chosen["model"]), sizes, chosen, topology, report)
    mesh = data["mesh"] = _mesh(wanted, topology, model, report)
    sizes["sequence"] = _sequence(sizes["sequence"], mesh.get("sequence", 1), report)
    sizes["batch"] = _batch(sizes["batch"], mesh, report)
    data |= {"dims": sizes, "options": _options(chosen, sizes["sequence"], topology, model, report)}
    plain_fields(DECODER, data, report)
    return data


def _topology(given: Any, devices: int, report: Report) -> Topology:
    """The topology of a target, or the nearest legal one; for no topology at all, one of v5e with
    about as many devices.
    """
    target: Target | None = None
    try:
        target = parse_target(reading.read_text("target", given))
        return get_topology(target)
    except RequestError as error:
        nearest = nearest_topology(target, devices)
        report(f"{sentence(error)} {nearest.target} is used.")
        return nearest


def _model(name: Any, report: Report) -> str:
    """The name of a model, or of the one that is spelled most alike."""
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


def _varied(
    preset: ModelSize,
    sizes: dict[str, int],
    chosen: dict[str, Any],
    topology: Topology,
    report: Report,
) -> ModelSize:
    """The model with changed sizes and choices; if they make no valid model, the unchanged one, and
    they are removed from `sizes` and `chosen`.
    """
    words = {"activation": {word: word for word in ACTIVATIONS}, "gate": GATES, "tables": TABLES}
    fields = {"activation": "activation", "gate": "gated", "tables": "tied"}
    for option, known in words.items():
        if option in chosen and chosen[option] not in ("", *known):
            report(
                f"{option}={shorten(chosen[option])} is not one of "
                f"{' and '.join(filter(None, known))}: left out."
            )
            del chosen[option]
    choices = {
        fields[name]: known[chosen[name]] for name, known in words.items() if chosen.get(name)
    }
    try:
        varied = preset.varied(
            **{name: size for name, size in sizes.items() if name in VARIABLE}, **choices
        )
        if varied == preset or 2 * varied.largest_weight[1] <= topology.chip.device_hbm_bytes:
            return varied
        raise refuse(
            f"a weight of {varied.largest_weight[1]:,} elements",
            "is more than a device holds",
            "use smaller sizes",
        )
    except RequestError as error:
        report(f"{sentence(error)} The sizes of {preset.name} are used.")
        for name in (*VARIABLE, *words):
            sizes.pop(name, None)
            chosen.pop(name, None)
        return preset


def _sizes(given: Any, report: Report) -> dict[str, int]:
    """Batch, sequence, and those of the model's sizes that are given."""
    sizes: dict[str, int] = dict(DECODER.defaults)
    for dim, size in kept("dims", given, report).items():
        if dim not in DECODER.dims:
            report(f"{DECODER.name} has no dim {shorten(dim)}: left out.")
        elif (
            reading.is_integer(size)
            and 1 <= size <= reading.MAX_SIZE
            and not (dim == "layers" and size > 1024)
        ):
            sizes[dim] = size
        else:
            instead = f"{dim}={sizes[dim]} is used" if dim in sizes else "the model's own is used"
            report(f"{dim}={shorten(size)} is not a size: {instead}.")
    return sizes


def _mesh(
    wanted: Mapping[str, int], topology: Topology, model: ModelSize, report: Report
) -> dict[str, int]:
    """A mesh of axes that a decoder is sharded over, which fills the topology."""
    mesh = {}
    for axis, size in wanted.items():
        if axis in AXES:
            mesh[axis] = size
        else:
            report(f"A decoder is not sharded over a mesh axis {shorten(axis)}: left out.")
    before = dict(mesh)
    if "tensor" in mesh:
        mesh["tensor"] = math.gcd(mesh["tensor"], model.heads, model.mlp, model.embed)
        if mesh["tensor"] != before["tensor"]:
            report(
                f"tensor={before['tensor']} does not divide the heads, mlp and embed of "
                f"{model.name}: tensor={mesh['tensor']} is used."
            )
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


def _sequence(sequence: int, shards: int, report: Report) -> int:
    unit = BLOCK * shards
    fitting = min(max(unit, sequence // unit * unit), MAX_SEQUENCE // unit * unit)
    if fitting != sequence:
        report(
            f"sequence={sequence} does not divide into blocks of {BLOCK} over sequence={shards}: "
            f"sequence={fitting} is used."
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


def _options(
    given: dict[str, Any], sequence: int, topology: Topology, model: ModelSize, report: Report
) -> dict[str, Any]:
    """Options that go together, with this sequence and this model."""
    options = dict(given)
    _fit_saved(options, report)
    flags = str(options.get("compiler_flags", "")).split()
    known = [flag for flag in flags if flag_refusal(flag) is None and link_refusal(flag) is None]
    if known != flags:
        report(
            "Compiler flags leave out "
            f"{', '.join(shorten(flag) for flag in flags if flag not in known)}: "
            "a link may set only those of a list."
        )
    options["compiler_flags"] = " ".join(known)
    if options.get("fused_qkv") and model.kv_heads != model.heads:
        report(
            f"fused_qkv needs as many key heads as heads, and {model.name} has {model.kv_heads} of "
            f"{model.heads}: left out."
        )
        del options["fused_qkv"]
    for field in ("state_dtype", "parameter_dtype", "second_moment_dtype"):
        if field in options and options[field] not in ("float32", "bfloat16"):
            report(
                f"{field}={shorten(options[field])} is not one of float32 and bfloat16: float32 is "
                "used."
            )
            del options[field]
    _fit_blocks(options, sequence, report)
    if options.get("fused_mlp") and not model.gated:
        report(f"fused_mlp is one matmul for gate and up, and {model.name} has no gate: left out.")
        del options["fused_mlp"]
    return {name: value for name, value in options.items() if value != ""}


def _fit_saved(options: dict[str, Any], report: Report) -> None:
    """Drop names that a block does not save, and of the offloaded those that are saved."""
    taken: list[str] = []
    for field in ("save", "offload"):
        words = [word for part in str(options.get(field, "")).split(",") if (word := part.strip())]
        fitting = [
            word
            for word in words
            if word in NAMES and word not in taken and options.get("remat") != "none"
        ]
        if fitting != words:
            dropped = ", ".join(shorten(word) for word in words if word not in fitting)
            report(f"{field} leaves out {dropped}: a decoder's block saves no such array.")
        options[field] = ",".join(fitting)
        taken = fitting


def _fit_blocks(options: dict[str, Any], sequence: int, report: Report) -> None:
    """Blocks of the attention kernel that divide the sequence and one another."""
    blocks = options.get("attention_blocks") or 0
    block = min(blocks, sequence)
    if blocks and (sequence % block or block % BLOCK):  # blocks of keys fill vector registers
        fitting = math.gcd(max(1, block // BLOCK), sequence // BLOCK)
        options["attention_blocks"] = BLOCK * fitting
        report(
            f"attention_blocks={block} does not fit sequence={sequence}: "
            f"{options['attention_blocks']} is used."
        )
    queries = options.get("attention_blocks") or 0
    for name in ("keys_block", "compute_block"):
        given = options.get(name) or 0
        within = sequence if name == "keys_block" else queries
        if given and (not queries or given < BLOCK or given % BLOCK or within % min(given, within)):
            report(f"{name}={given} does not fit the other blocks: left out.")
            del options[name]
        elif given and name == "keys_block":
            queries = min(given, sequence)
