"""The nearest transformer's training step that can be compiled, for a damaged or misfit experiment
of one.
"""

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any

from spmd_core.base import RequestError, mesh_text, refuse, shorten
from spmd_core.experiment import reading
from spmd_core.experiment.nearest_fields import (
    Say,
    drop_unknown,
    kept,
    options,
    plain_fields,
    sentence,
)
from spmd_core.experiment.plan.flags import flag_refusal, link_refusal
from spmd_core.experiment.plan.meshes import AXES, DATA_AXES
from spmd_core.experiment.plan.models import ACTIVATIONS, PRESETS, VARIABLE, ModelSize, get_model
from spmd_core.experiment.plan.plan import MAX_SEQUENCE, NAMES
from spmd_core.experiment.resized import resized
from spmd_core.experiment.workloads.decoder import DECODER, DEFAULT_SPEC, GATES, TABLES
from spmd_core.machine import Target, Topology, get_topology, nearest_topology, parse_target

BLOCK = 128  # tokens that a sequence is a multiple of
MAX_PER_DEVICE = 65536
_PLAIN = re.compile(r"[^a-z0-9]")


def repair_decoder(data: dict[str, Any], say: Say) -> dict[str, Any]:
    """The fields of an experiment near `data` that `parse_experiment` takes; a sentence for each
    change made.

    RequestError where the mesh cannot be read at all.
    """
    drop_unknown(data, say)
    for field in ("sharding", "overrides", "memory"):
        if data.pop(field, None):
            say(f"{field[0].upper()}{field[1:]} follows from the names of the mesh axes: left out.")
    wanted = dict(reading.read_sizes("mesh", data["mesh"]))
    topology = _topology(data.get("target"), math.prod(wanted.values()), say)
    data["target"] = topology.target
    chosen = options(DECODER, data.get("options"), say)
    chosen["model"] = _model(chosen.get("model", DEFAULT_SPEC["options"]["model"]), say)
    sizes = _sizes(data.get("dims"), say)
    model = _varied(get_model(chosen["model"]), sizes, chosen, topology, say)
    mesh = data["mesh"] = _mesh(wanted, topology, model, say)
    sizes["sequence"] = _sequence(sizes["sequence"], mesh.get("sequence", 1), say)
    sizes["batch"] = _batch(sizes["batch"], mesh, say)
    data |= {"dims": sizes, "options": _options(chosen, sizes["sequence"], topology, model, say)}
    plain_fields(DECODER, data, say)
    return data


def _topology(given: Any, devices: int, say: Say) -> Topology:
    """The topology of a target, or the nearest legal one; for no topology at all, one of v5e with
    about as many devices.
    """
    target: Target | None = None
    try:
        target = parse_target(reading.read_text("target", given))
        return get_topology(target)
    except RequestError as error:
        found = nearest_topology(target, devices)
        say(f"{sentence(error)} {found.target} is used.")
        return found


def _model(name: Any, say: Say) -> str:
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
        say(f"{sentence(error)} {near} is used.")
        return near


def _varied(
    preset: ModelSize, sizes: dict[str, int], chosen: dict[str, Any], topology: Topology, say: Say
) -> ModelSize:
    """The model with sizes and choices of its own, or where they make none, without them: then they
    are left out of `sizes` and `chosen`.
    """
    words = {"activation": {word: word for word in ACTIVATIONS}, "gate": GATES, "tables": TABLES}
    fields = {"activation": "activation", "gate": "gated", "tables": "tied"}
    for option, known in words.items():
        if option in chosen and chosen[option] not in ("", *known):
            say(
                f"{option}={shorten(chosen[option])} is not one of {' and '.join(filter(None, known))}: left out."
            )
            del chosen[option]
    choices = {
        fields[name]: known[chosen[name]] for name, known in words.items() if chosen.get(name)
    }
    try:
        found = preset.varied(
            **{name: size for name, size in sizes.items() if name in VARIABLE}, **choices
        )
        if found == preset or 2 * found.largest_weight[1] <= topology.chip.device_hbm_bytes:
            return found
        raise refuse(
            f"a weight of {found.largest_weight[1]:,} elements",
            "is more than a device holds",
            "use smaller sizes",
        )
    except RequestError as error:
        say(f"{sentence(error)} The sizes of {preset.name} are used.")
        for name in (*VARIABLE, *words):
            sizes.pop(name, None)
            chosen.pop(name, None)
        return preset


def _sizes(given: Any, say: Say) -> dict[str, int]:
    """Batch, sequence, and what of the model's sizes is named."""
    sizes: dict[str, int] = dict(DECODER.defaults)
    for dim, size in kept("dims", given, say).items():
        if dim not in DECODER.dims:
            say(f"{DECODER.name} has no dim {shorten(dim)}: left out.")
        elif (
            reading.is_whole(size)
            and 1 <= size <= reading.MAX_SIZE
            and not (dim == "layers" and size > 1024)
        ):
            sizes[dim] = size
        else:
            instead = f"{dim}={sizes[dim]} is used" if dim in sizes else "the model's own is used"
            say(f"{dim}={shorten(size)} is not a size: {instead}.")
    return sizes


def _mesh(
    wanted: Mapping[str, int], topology: Topology, model: ModelSize, say: Say
) -> dict[str, int]:
    """A mesh of axes that a decoder is sharded over, which fills the topology."""
    mesh = {}
    for axis, size in wanted.items():
        if axis in AXES:
            mesh[axis] = size
        else:
            say(f"A decoder is not sharded over a mesh axis {shorten(axis)}: left out.")
    before = dict(mesh)
    if "tensor" in mesh:
        mesh["tensor"] = math.gcd(mesh["tensor"], model.heads, model.mlp, model.embed)
        if mesh["tensor"] != before["tensor"]:
            say(
                f"tensor={before['tensor']} does not divide the heads, mlp and embed of {model.name}: tensor={mesh['tensor']} is used."
            )
            before = dict(mesh)
    found = dict(resized(tuple(mesh.items()), topology, workload=DECODER.name).mesh)
    if found != mesh:
        had = (
            f"Mesh {mesh_text(before)} has {math.prod(before.values())} devices"
            if before
            else "No mesh axis is left"
        )
        say(f"{had} and {topology.name} has {topology.devices}: {mesh_text(found)} is used.")
    return found


def _sequence(sequence: int, cuts: int, say: Say) -> int:
    unit = BLOCK * cuts
    fitting = min(max(unit, sequence // unit * unit), MAX_SEQUENCE // unit * unit)
    if fitting != sequence:
        say(
            f"sequence={sequence} does not divide into blocks of {BLOCK} over sequence={cuts}: sequence={fitting} is used."
        )
    return fitting


def _batch(batch: int, mesh: Mapping[str, int], say: Say) -> int:
    rows, devices = math.prod(mesh.get(axis, 1) for axis in DATA_AXES), math.prod(mesh.values())
    most = MAX_PER_DEVICE * devices // rows * rows
    fitting = min(most, rows * max(1, (2 * batch + rows) // (2 * rows)))
    if fitting != batch:
        over = (
            mesh_text({axis: size for axis, size in mesh.items() if axis in DATA_AXES})
            or "one device"
        )
        say(
            f"batch={batch} {f'does not divide over {over}' if batch <= most else 'is too large'}: batch={fitting} is used."
        )
    return fitting


def _options(
    given: dict[str, Any], sequence: int, topology: Topology, model: ModelSize, say: Say
) -> dict[str, Any]:
    """Options that go together, with this sequence and this model."""
    found = dict(given)
    for field in ("save", "offload"):
        words = [word for part in str(found.get(field, "")).split(",") if (word := part.strip())]
        taken = (
            [word.strip() for word in str(found.get("save", "")).split(",")]
            if field == "offload"
            else []
        )
        fitting = [
            word
            for word in words
            if word in NAMES and word not in taken and found.get("remat") != "none"
        ]
        if fitting != words:
            dropped = ", ".join(shorten(word) for word in words if word not in fitting)
            say(f"{field} leaves out {dropped}: a decoder's block saves no such array.")
        found[field] = ",".join(fitting)
    flags = str(found.get("compiler_flags", "")).split()
    known = [flag for flag in flags if flag_refusal(flag) is None and link_refusal(flag) is None]
    if known != flags:
        say(
            f"Compiler flags leave out {', '.join(shorten(flag) for flag in flags if flag not in known)}: "
            "a link may set only those of a list."
        )
    found["compiler_flags"] = " ".join(known)
    if found.get("fused_qkv") and model.kv_heads != model.heads:
        say(
            f"fused_qkv needs as many key heads as heads, and {model.name} has {model.kv_heads} of {model.heads}: left out."
        )
        del found["fused_qkv"]
    for field, words in (
        ("state_dtype", ("float32", "bfloat16")),
        ("parameter_dtype", ("float32", "bfloat16")),
        ("second_moment_dtype", ("float32", "bfloat16")),
    ):
        if field in found and found[field] not in words:
            say(
                f"{field}={shorten(found[field])} is not one of {' and '.join(words)}: {words[0]} is used."
            )
            del found[field]
    _fit_blocks(found, sequence, say)
    if found.get("fused_mlp") and not model.gated:
        say(f"fused_mlp is one matmul for gate and up, and {model.name} has no gate: left out.")
        del found["fused_mlp"]
    return {name: value for name, value in found.items() if value != ""}


def _fit_blocks(found: dict[str, Any], sequence: int, say: Say) -> None:
    """Blocks of the attention kernel that divide the sequence and one another."""
    asked = found.get("attention_blocks") or 0
    block = min(asked, sequence)
    if asked and (sequence % block or block % BLOCK):  # keys come in as many: whole registers
        fitting = math.gcd(max(1, block // BLOCK), sequence // BLOCK)
        found["attention_blocks"] = BLOCK * fitting
        say(
            f"attention_blocks={block} does not fit sequence={sequence}: {found['attention_blocks']} is used."
        )
    whole = found.get("attention_blocks") or 0
    for name in ("keys_block", "compute_block"):
        given = found.get(name) or 0
        within = sequence if name == "keys_block" else whole
        if given and (not whole or given < BLOCK or given % BLOCK or within % min(given, within)):
            say(f"{name}={given} does not fit the other blocks: left out.")
            del found[name]
        elif given and name == "keys_block":
            whole = min(given, sequence)
