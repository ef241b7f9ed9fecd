"""A sweep: one prediction varied in batch, sequence, mesh, generation or chips, as a frozen value, and its points."""

import math
from dataclasses import dataclass
from typing import Literal

from spmd_core.cost.memory import estimate_memory
from spmd_core.errors import RequestError, refuse
from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.plans import plan_of
from spmd_core.experiment.resized import Mesh, on_topology
from spmd_core.machine.of_chips import nearest_of_chips, topology_of_chips
from spmd_core.machine.topologies import Topology, get_topology
from spmd_core.plan.plan import parse_mesh

Vary = Literal["batch-per-device", "sequence", "mesh", "generation", "chips"]
Scaling = Literal["weak", "strong"]
Value = float | int | str
TOO_LARGE = 1.15  # of the capacity: a peak estimated from the sizes was up to 11 % off, so what is beyond this does not fit
_COMPILE_S = {"v6e": 660.0, "tpu7x": 120.0}  # rough seconds of a decoder's step on two cores; 669 s were seen for v6e, tpu7x is a guess
_DECODER_S, _SMALL_S = 60.0, 4.0  # 60 to 121 s were seen on v5e and v5p, with other work beside


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is varied, over which values. `scaling` is for chips: `weak` keeps the batch per chip, `strong` the total batch."""

    base: Experiment
    vary: Vary
    values: tuple[Value, ...]
    scaling: Scaling = "weak"

    @property
    def is_categorical(self) -> bool:
        """Whether the values have no order of their own."""
        return self.vary in ("mesh", "generation")


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a sweep: its experiment, or the sentence that says why there is none.

    `expected_bytes` is the peak per device estimated from the sizes, before any compile; None where only the compiler can say.
    """

    label: str
    value: Value
    experiment: Experiment | None = None
    refusal: str | None = None
    chips: int = 0
    slices: int = 1
    capacity_bytes: int = 0
    expected_bytes: int | None = None

    @property
    def is_too_large(self) -> bool:
        """Whether the sizes alone say that it does not fit."""
        return self.expected_bytes is not None and self.expected_bytes > TOO_LARGE * self.capacity_bytes

    @property
    def strategy(self) -> str:
        """The strategy that is compiled."""
        return self.experiment.strategies[0] if self.experiment else ""


def variants(sweep: Sweep) -> tuple[Point, ...]:
    """One point for each value, in order; a value that cannot be is a point with its refusal."""
    return tuple(_point(sweep, value) for value in sweep.values)


def _point(sweep: Sweep, value: Value) -> Point:
    label = value if isinstance(value, str) else f"{value:,g}" if sweep.vary == "batch-per-device" else f"{value:,.0f}"
    try:
        experiment = _varied(sweep, value)
        topology = get_topology(experiment.target)
        expected = _expected_bytes(experiment)
    except RequestError as error:
        return Point(label, value, refusal=str(error), chips=value if sweep.vary == "chips" and isinstance(value, int) else 0)
    if sweep.vary == "generation":
        label = topology.name
    return Point(label, value, experiment, None, topology.chips, topology.slices, topology.chip.device_hbm_bytes, expected)


def _varied(sweep: Sweep, value: Value) -> Experiment:
    base = sweep.base
    strategy = next((name for name in base.strategies if name != "single"), base.strategies[0])
    changes: dict[str, object] = {"strategies": [strategy]}
    match sweep.vary:
        case "batch-per-device":
            changes["dims"] = base.sizes | {"batch": _whole(_dim(base, "batch") and float(value) * base.device_count, f"batch-per-device={value:g}")}
        case "sequence":
            changes["dims"] = base.sizes | {"sequence": _dim(base, "sequence") and int(value)}
        case "mesh":
            changes["mesh"] = [list(pair) for pair in _mesh(base, str(value))]
        case "generation":
            changes |= _moved(base, str(value), get_topology(base.target).chips, "weak", nearest=True)
        case "chips":
            changes |= _moved(base, get_topology(base.target).chip.generation, int(value), sweep.scaling)
    return base.vary(**changes)


def _moved(base: Experiment, generation: str, chips: int, scaling: Scaling, nearest: bool = False) -> dict[str, object]:
    """The changes that bring an experiment to another topology."""
    old = get_topology(base.target)
    new = (nearest_of_chips if nearest else topology_of_chips)(generation, chips)
    mesh = [list(pair) for pair in _resized(base, new)]
    changes: dict[str, object] = {"target": new.target, "mesh": mesh}
    if scaling == "weak" and new.chips != old.chips:
        dim = _grown_dim(base)
        changes["dims"] = base.sizes | {dim: _whole(base.sizes[dim] * new.chips / old.chips, f"{base.sizes[dim] / old.chips:g} of {dim} per chip")}
    return changes


def _resized(base: Experiment, new: Topology) -> Mesh:
    """The mesh on another topology; RequestError where more than one axis of it would change."""
    found = on_topology(base, new)
    if not found.changed:
        return found.mesh
    what = "of a slice" if new.slices > 1 else "in all"
    axes = " x ".join(f"{axis}={size}" for axis, size in found.others)
    multiple = math.prod(size for _, size in found.others)
    devices = f"{new.devices // new.slices} devices {what} of {new.name}"
    raise refuse(devices, f"do not divide over {axes}",
                 f"use multiples of {multiple}, or start the sweep from {found.text}")


def _grown_dim(base: Experiment) -> str:
    """The dim that grows with the chips in weak scaling: the batch, else the first that the growing axis cuts."""
    if "batch" in base.sizes:
        return "batch"
    grows = on_topology(base, get_topology(base.target)).takes
    for dim, axes in base.sharding:
        if grows in axes:
            return dim
    raise refuse(f"workload {base.workload}", f"has no batch, and no dim is cut over {grows}", "use strong scaling")


def _dim(base: Experiment, dim: str) -> bool:
    if dim not in base.sizes:
        raise refuse(f"workload {base.workload}", f"has no dim {dim!r} here", f"vary something else, it has {', '.join(base.sizes) or 'none'}")
    return True


def _whole(count: float, what: str) -> int:
    if count != int(count) or count < 1:
        raise refuse(what, f"makes {count:g} in all, which is not a whole number", "use a multiple")
    return int(count)


def _mesh(base: Experiment, text: str) -> Mesh:
    mesh, devices = parse_mesh(text), get_topology(base.target).devices
    count = 1
    for _, size in mesh:
        count *= size
    if count != devices:
        raise refuse(f"mesh {text}", f"has {count} devices and does not fill {base.target} with its {devices}",
                     f"make the axes multiply to {devices}")
    return mesh


def _expected_bytes(experiment: Experiment) -> int | None:
    if experiment.workload != "decoder":
        return None
    return estimate_memory(plan_of(experiment)).peak


def compile_seconds(point: Point) -> float:
    """A rough guess of how long a point's compile takes on one core; for telling the user, nothing else."""
    if point.experiment is None:
        return 0.0
    generation = get_topology(point.experiment.target).chip.generation
    return _COMPILE_S.get(generation, _DECODER_S) if point.experiment.workload == "decoder" else _SMALL_S
