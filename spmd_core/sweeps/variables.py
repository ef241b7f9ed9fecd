"""What a sweep can vary: one row each, read by command line, screen, curves, words and docs.

To add a variable, add its row to VARIABLES. Every field that has no default must be given: a
variable that changes nothing would give the same experiment at every point, which a test of the
full table refuses too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from spmd_core.base import RequestError, mesh_text, refuse, shorten, suffixed_sizes
from spmd_core.experiment import Experiment, on_topology
from spmd_core.fields import Mesh
from spmd_core.machine import (
    CHIPS,
    Topology,
    get_topology,
    kind_of,
    nearest_of_chips,
    topology_of_chips,
)
from spmd_core.workloads import parse_mesh

Scaling = Literal["weak", "strong"]
Value = float | int | str
Changes = dict[str, Any]  # fields of an experiment, as `Experiment.vary` takes them
MAX_CHIPS, MAX_SIZE = 65_536, 2**20
CHIPS_WORTH = (8, 64, 256, 1024, 4096)
MIN_SEQUENCE = 128  # of the values offered


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One thing that a sweep varies."""

    name: str  # as `--sweep NAME=VALUES` and the link have it
    title: str  # in the screen's choice
    axis: Callable[[Experiment], str]  # title of the curves' x axis and of the tables' first column
    example: str  # values, as they are written
    help: str  # of the screen's field
    also: str  # what else changes with it, for the docs
    parse: Callable[[str], Value]  # one value; RequestError where it is none
    default: Callable[[Experiment], tuple[Value, ...]]  # worth starting with; its own is among them
    vary: Callable[[Experiment, Value, Scaling], Changes]  # RequestError where a value cannot be
    separator: str = ","  # between values
    needs: str | None = None  # a dim without which there is nothing to vary
    is_categorical: bool = False  # the values have no order of their own
    scales: bool = False  # it varies the chips: weak or strong scaling, and scaling efficiency
    is_of_topology: bool = False  # values for one topology mean nothing for another
    choices: Callable[[], dict[str, str]] | None = None  # every value there is, with its title
    label: Callable[[Value, Topology], str] | None = None  # of a point; else the value itself
    point: Callable[[Value, str], str] | None = None  # of value and label, in a sentence

    def label_of(self, value: Value, topology: Topology | None = None) -> str:
        """A value as tables and axes write it, thousands separated."""
        if self.label is not None and topology is not None:
            return self.label(value, topology)
        if isinstance(value, str):
            return value
        return f"{value:,}" if isinstance(value, int) else f"{value:,g}"

    def text_of(self, values: tuple[Value, ...]) -> str:
        """Values as they are read back."""
        return self.separator.join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)


def read_number(name: str, text: str, most: int = MAX_SIZE, *, integer: bool = True) -> float | int:
    """A positive number of at most `most`; RequestError where the text is none."""
    example = VARIABLES[name].example
    what = f"{name}={shorten(text)}"
    if sizes := suffixed_sizes(text):
        raise refuse(what, "has a suffix that may mean either", f"write {sizes[0]} or {sizes[1]}")
    if len(text) > 1 and text[0] == "0" and text.isdigit():
        raise refuse(what, "is not a size", f"write thousands without a comma, as in {example}")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= most or (integer and number != int(number)):
        raise refuse(what, "is not a size", f"write for example {example}")
    return int(number) if number == int(number) else number


def _integer_of(count: float, what: str) -> int:
    if count != int(count) or count < 1:
        raise refuse(what, f"makes {count:g} in all, which is not a whole number", "use a multiple")
    return int(count)


# Batch and sequence ------------------------------------------------------------------------------


def _batch_default(base: Experiment) -> tuple[Value, ...]:
    own = base.sizes.get("batch", base.device_count) / base.device_count
    values = (value for value in (own / 2, own, own * 2, own * 4) if value >= min(1, own))
    return tuple(int(value) if value == int(value) else value for value in values)


def _batch(base: Experiment, value: Value, _: Scaling) -> Changes:
    batch = _integer_of(float(value) * base.device_count, f"batch-per-device={float(value):g}")
    return {"dims": base.sizes | {"batch": batch}}


def _sequence_default(base: Experiment) -> tuple[Value, ...]:
    own = base.sizes.get("sequence", 2048)
    return tuple(size for size in (own // 2, own, own * 2, own * 4) if size >= MIN_SEQUENCE)


# Mesh --------------------------------------------------------------------------------------------


def _mesh_default(base: Experiment) -> tuple[Value, ...]:
    own, devices = mesh_text(base.mesh, ","), base.device_count
    if base.what.named_axes:
        meshes = [(("fsdp", devices),)]
        meshes += [
            (("fsdp", devices // tensor), ("tensor", tensor))
            for tensor in (2, 4, 8)
            if devices % tensor == 0 and devices > tensor
        ]
    elif len(base.mesh) == 2:
        (a, _), (b, _) = base.mesh
        sizes = [size for size in (1, 2, 4, 8, 16) if devices % size == 0]
        meshes = [((a, devices // size), (b, size)) for size in sizes]
    else:
        meshes = []
    return tuple(dict.fromkeys([own, *(mesh_text(mesh, ",") for mesh in meshes)]))


def _mesh(base: Experiment, value: Value, _: Scaling) -> Changes:
    mesh, devices = parse_mesh(str(value)), get_topology(base.target).devices
    count = math.prod(size for _, size in mesh)
    if count != devices:
        raise refuse(
            f"mesh {value}",
            f"has {count} devices and does not fill {base.target} with its {devices}",
            f"make the axes multiply to {devices}",
        )
    return {"mesh": [list(pair) for pair in mesh]}


# Generation and chips ----------------------------------------------------------------------------


def _read_generation(text: str) -> Value:
    kind = kind_of(text.lower().removeprefix("tpu:"))
    if kind is None:
        raise refuse(
            f"generation {shorten(text)}",
            "is not one that the TPU compiler knows",
            f"use {', '.join(CHIPS)}",
        )
    return kind


def _generation_default(base: Experiment) -> tuple[Value, ...]:
    own = get_topology(base.target).chip.generation
    return tuple(dict.fromkeys((own, "v5e", "v5p", "v6e")))


def _chips_default(base: Experiment) -> tuple[Value, ...]:
    own = get_topology(base.target)
    worth = sorted({*CHIPS_WORTH, own.chips})
    return tuple(chips for chips in worth if _exists(own.chip.generation, chips))


def _exists(generation: str, chips: int) -> bool:
    try:
        topology_of_chips(generation, chips)
    except RequestError:
        return False
    return True


def _chips(base: Experiment, value: Value, scaling: Scaling) -> Changes:
    generation = get_topology(base.target).chip.generation
    return _moved(base, topology_of_chips(generation, int(value)), scaling)


def _moved(base: Experiment, new: Topology, scaling: Scaling) -> Changes:
    old = get_topology(base.target)
    mesh, grows = _resized(base, new)
    changes: Changes = {"target": new.target, "mesh": [list(pair) for pair in mesh]}
    if scaling == "weak" and new.chips != old.chips:
        dim = _grown_dim(base, grows)
        size = base.sizes[dim]
        grown = _integer_of(size * new.chips / old.chips, f"{size / old.chips:g} of {dim} per chip")
        changes["dims"] = base.sizes | {dim: grown}
    return changes


def _resized(base: Experiment, new: Topology) -> tuple[Mesh, str]:
    """The mesh on another topology, and the axis that takes the change.

    RequestError where more than that axis would change: a sweep varies one thing.
    """
    plan = on_topology(base, new)
    if not plan.changed:
        return plan.mesh, plan.takes
    what = "of a slice" if new.slices > 1 else "in all"
    devices = f"{new.devices // new.slices} devices {what} of {new.name}"
    axes = mesh_text(plan.others, " x ")
    multiple = math.prod(size for _, size in plan.others)
    raise refuse(
        devices,
        f"do not divide over {axes}",
        f"use multiples of {multiple}, or start the sweep from {plan.text}",
    )


def _grown_dim(base: Experiment, grows: str) -> str:
    """The dim that grows with the chips in weak scaling: batch, or the first over that axis."""
    if "batch" in base.sizes:
        return "batch"
    for dim, axes in base.sharding:
        if grows in axes:
            return dim
    raise refuse(
        f"workload {base.workload}",
        f"has no batch, and no dim is sharded over {grows}",
        "use strong scaling",
    )


VARIABLES: dict[str, Variable] = {
    row.name: row
    for row in (
        Variable(
            name="batch-per-device",
            title="Batch per device",
            axis=lambda base: f"{base.what.batch_unit} per device",
            needs="batch",
            example="1,2,4,8",
            also="the batch alone",
            help="Sequences per device and step, with commas between them",
            parse=lambda text: read_number("batch-per-device", text, integer=False),
            default=_batch_default,
            vary=_batch,
        ),
        Variable(
            name="sequence",
            title="Sequence",
            axis=lambda base: "tokens per sequence",
            needs="sequence",
            example="2048,4096,8192",
            also="the sequence alone; sequences per device stay",
            help="Tokens of a sequence, with commas between them",
            parse=lambda text: read_number("sequence", text),
            default=_sequence_default,
            vary=lambda base, value, _: {"dims": base.sizes | {"sequence": int(value)}},
        ),
        Variable(
            name="mesh",
            title="Mesh",
            axis=lambda base: "mesh",
            separator=";",
            is_categorical=True,
            is_of_topology=True,
            example="fsdp=16,tensor=4;fsdp=64",
            also="the mesh alone; it must fill the topology",
            help="Meshes with semicolons between them: fsdp=64;fsdp=16,tensor=4",
            parse=lambda text: mesh_text(parse_mesh(text), ","),
            default=_mesh_default,
            vary=_mesh,
            point=lambda value, label: label,
        ),
        Variable(
            name="generation",
            title="Generation",
            axis=lambda base: "generation",
            is_categorical=True,
            example="v5e,v5p,v6e",
            also="the shape with as many chips, or the nearest; the mesh where it no longer fills; "
            "the batch per chip stays",
            help="The same number of chips of each, or the nearest that exists",
            parse=_read_generation,
            default=_generation_default,
            vary=lambda base, value, _: _moved(
                base, nearest_of_chips(str(value), get_topology(base.target).chips), "weak"
            ),
            choices=lambda: {name: chip.title for name, chip in CHIPS.items()},
            label=lambda value, topology: topology.name,
            point=lambda value, label: f"{CHIPS[str(value)].title} ({label})",
        ),
        Variable(
            name="chips",
            title="Chips",
            axis=lambda base: "chips",
            scales=True,
            example="8,64,512,4096",
            also="shape, mesh and, with `--scaling weak`, the batch",
            help="Numbers of chips, with commas between them. Beyond the largest slice of a "
            "generation, several slices are joined by DCN, the data center network",
            parse=lambda text: read_number("chips", text, MAX_CHIPS),
            default=_chips_default,
            vary=_chips,
        ),
        # Add a variable above this line.
    )
}
FIRST = "chips"  # that the screen offers before another is chosen
