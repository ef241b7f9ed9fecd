"""Values of a sweep as text, and values worth starting with."""

from typing import get_args

from spmd_core.errors import RequestError, refuse, shorten
from spmd_core.experiment.experiment import Experiment
from spmd_core.machine.chips import CHIPS
from spmd_core.machine.of_chips import topology_of_chips
from spmd_core.machine.topologies import get_topology
from spmd_core.plan.plan import parse_mesh
from spmd_core.sweep.sweep import Scaling, Sweep, Value, Vary

MAX_POINTS = 24
MAX_CHIPS = 65_536
CHIPS_WORTH = (8, 64, 256, 1024, 4096)
VARIED: tuple[Vary, ...] = get_args(Vary)
EXAMPLES: dict[Vary, str] = {
    "batch-per-device": "1,2,4,8", "sequence": "2048,4096,8192", "mesh": "fsdp=16,tensor=4;fsdp=64", "generation": "v5e,v5p,v6e",
    "chips": "8,64,512,4096",
}


def parse_values(vary: Vary, text: str) -> tuple[Value, ...]:
    """`8,64,512`, `v5e,v5p`, or meshes with semicolons between them, as the values of a sweep; RequestError where one is none."""
    parts = [part.strip() for part in text.split(";" if vary == "mesh" else ",") if part.strip()]
    if not parts:
        raise refuse(f"sweep over {vary}", "names no values", f"write for example {EXAMPLES[vary]}")
    if len(parts) > MAX_POINTS:
        raise refuse(f"sweep of {len(parts)} values", f"is longer than {MAX_POINTS}", "use fewer")
    values = tuple(_value(vary, part) for part in parts)
    for value in values:
        if values.count(value) > 1:
            raise refuse(f"{vary}={value}", "appears twice", "name it once")
    return values


def _value(vary: Vary, text: str) -> Value:
    if vary == "mesh":
        return ",".join(f"{name}={size}" for name, size in parse_mesh(text))
    if vary == "generation":
        if text.lower() not in CHIPS:
            raise refuse(f"generation {shorten(text)}", "is not one that the TPU compiler knows", f"use {', '.join(CHIPS)}")
        return text.lower()
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    most = MAX_CHIPS if vary == "chips" else 2**20
    if not 0 < number <= most or (vary != "batch-per-device" and number != int(number)):
        raise refuse(f"{vary}={shorten(text)}", "is not a size", f"write for example {EXAMPLES[vary]}")
    return int(number) if number == int(number) else number


def values_text(vary: Vary, values: tuple[Value, ...]) -> str:
    """Values as `parse_values` reads them."""
    return (";" if vary == "mesh" else ",").join(value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
                                                 for value in values)


def parse_sweep(base: Experiment, text: str, scaling: Scaling = "weak") -> Sweep:
    """`chips=8,64,512` and so on, as the command line writes it, as a sweep of `base`; RequestError where it is none."""
    name, separator, values = text.partition("=")
    known: dict[str, Vary] = {each: each for each in VARIED}
    vary = known.get(name.strip().lower().replace("_", "-"))
    if vary is None or not separator:
        raise refuse(f"sweep {shorten(text)}", f"does not say what to vary, of {', '.join(VARIED)}", f"write for example chips={EXAMPLES['chips']}")
    return Sweep(base, vary, parse_values(vary, values), scaling)


def default_values(base: Experiment, vary: Vary) -> tuple[Value, ...]:
    """Values worth starting with; what the experiment itself has is among them."""
    topology = get_topology(base.target)
    match vary:
        case "chips":
            return tuple(chips for chips in sorted({*CHIPS_WORTH, topology.chips}) if _exists(topology.chip.generation, chips))
        case "batch-per-device":
            own = base.sizes.get("batch", base.device_count) / base.device_count
            return tuple(int(value) if value == int(value) else value for value in (own / 2, own, own * 2, own * 4) if value >= min(1, own))
        case "sequence":
            own = base.sizes.get("sequence", 2048)
            return tuple(value for value in (own // 2, own, own * 2, own * 4) if value >= 128)
        case "generation":
            return tuple(dict.fromkeys((topology.chip.generation, "v5e", "v5p", "v6e")))
        case "mesh":
            return _default_meshes(base)


def _default_meshes(base: Experiment) -> tuple[Value, ...]:
    own, devices = ",".join(f"{name}={size}" for name, size in base.mesh), base.device_count
    if base.workload == "decoder":
        wide = [f"fsdp={devices}"]
        wide += [f"fsdp={devices // tensor},tensor={tensor}" for tensor in (2, 4, 8) if devices % tensor == 0 and devices > tensor]
        return tuple(dict.fromkeys([own, *wide]))
    if len(base.mesh) == 2:
        (a, _), (b, _) = base.mesh
        return tuple(dict.fromkeys([own, *(f"{a}={devices // size},{b}={size}" for size in (1, 2, 4, 8, 16) if devices % size == 0)]))
    return (own,)


def _exists(generation: str, chips: int) -> bool:
    try:
        topology_of_chips(generation, chips)
    except RequestError:
        return False
    return True
