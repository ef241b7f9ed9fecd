"""TPU topologies that the compiler accepts, and what each chip can do, every figure with its source."""

import math
from dataclasses import dataclass
from functools import cache

from spmd_core.errors import refuse, shorten
from spmd_core.machine.targets import Target, parse_target

GIB = 2**30
# Sources, by short name:
BOOK = '"How to Scale Your Model", chapter 2 (jax-ml/scaling-book, tpus.md)'
DOCS = "cloud.google.com/tpu/docs, the page of the generation"
CACM = 'Jouppi et al., "A domain-specific supercomputer for training deep neural networks", CACM 2020, table 3'
ISCA = 'Jouppi et al., "TPU v4: an optically reconfigurable supercomputer", ISCA 2023, table 4'
COMPILER = "read off libtpu: capacity from its RESOURCE_EXHAUSTED messages, clock from estimated_cycles of plain matmuls against the peak"
GUESS = "a guess"


@dataclass(frozen=True, slots=True)
class Chip:
    """A generation. Per chip unless said otherwise; bandwidths in bytes per second, one way."""

    generation: str
    title: str
    peak_flops: float  # bfloat16
    hbm_bytes: int  # what a program may use
    hbm_bandwidth: float
    link_bandwidth: float  # of one link, one direction, nominal
    torus_dims: int
    dcn_bandwidth: float  # per chip, out of the slice
    host_bandwidth: float  # per chip, to host memory, each way
    clock_hz: float
    matrix_unit: int  # rows and columns of one matrix unit
    max_shape: tuple[int, ...]
    wrap: str  # "full": an axis wraps at the size of max_shape; "cubes": every axis of a slice of whole 4x4x4 cubes wraps
    devices_per_chip: int = 1
    options: tuple[tuple[str, str], ...] = ()
    sources: str = ""

    @property
    def device_flops(self) -> float:
        """Peak bfloat16 FLOP/s of one JAX device."""
        return self.peak_flops / self.devices_per_chip

    @property
    def device_hbm_bandwidth(self) -> float:
        """HBM bandwidth of one JAX device, when all of a chip are busy."""
        return self.hbm_bandwidth / self.devices_per_chip

    @property
    def device_hbm_bytes(self) -> int:
        """HBM of one JAX device."""
        return self.hbm_bytes // self.devices_per_chip


CHIPS: dict[str, Chip] = {
    chip.generation: chip
    for chip in (
        Chip("v2", "TPU v2", 46e12, int(14.96 * GIB), 700e9, 62e9, 2, 3.125e9, 1.5e10, 0.70e9, 128, (16, 16), "full", 2,
             sources=f"peak, HBM bandwidth, clock, links (496 Gbit/s): {CACM}; capacity: {COMPILER}; dcn, host: {GUESS}"),
        Chip("v3", "TPU v3", 123e12, int(30.96 * GIB), 900e9, 82e9, 2, 3.125e9, 1.5e10, 0.94e9, 128, (32, 32), "full", 2,
             sources=f"peak, HBM bandwidth, clock, links (656 Gbit/s): {CACM}; capacity: {COMPILER}; dcn, host: {GUESS}"),
        Chip("v4", "TPU v4", 275e12, int(30.75 * GIB), 1.228e12, 5e10, 3, 6.25e9, 1.5e10, 1.05e9, 128, (16, 16, 16), "cubes", 1,
             (("chip_config_name", "megacore"),), sources=f"peak, HBM bandwidth, clock, links: {ISCA}; capacity: {COMPILER}; "
                                                          f"host: {BOOK}; dcn: {GUESS}"),
        Chip("v5e", "TPU v5e", 197e12, int(15.75 * GIB), 8.1e11, 5e10, 2, 3.125e9, 1.5e10, 1.50e9, 128, (16, 16), "full",
             sources=f"peak: {DOCS}; HBM bandwidth, links, host: {BOOK}; dcn (2 x 100 Gbit/s for 8 chips): {DOCS}; capacity, clock: {COMPILER}"),
        Chip("v5p", "TPU v5p", 459e12, int(95.74 * GIB), 2.765e12, 1e11, 3, 6.25e9, 1.5e10, 1.75e9, 128, (16, 20, 28), "cubes",
             sources=f"peak, HBM bandwidth, links (1,200 GB/s in all), dcn (50 Gbit/s): {DOCS}; host: {BOOK}; capacity, clock: {COMPILER}"),
        Chip("v6e", "TPU v6e (Trillium)", 918e12, int(31.25 * GIB), 1.64e12, 1e11, 2, 1.25e10, 3.2e10, 1.75e9, 256, (16, 16), "full",
             sources=f"peak, HBM bandwidth, links (800 GB/s in all), dcn (4 x 200 Gbit/s for 8 chips): {DOCS}; host: {BOOK}; "
                     f"capacity, clock: {COMPILER}"),
        Chip("tpu7x", "TPU7x (Ironwood)", 2307e12, int(189.5 * GIB), 7.38e12, 1e11, 3, 1.25e10, 3.2e10, 2.20e9, 256, (16, 24, 24), "cubes", 2,
             sources=f"peak, HBM bandwidth, links (1,200 GB/s in all): {DOCS}; capacity: {COMPILER}; dcn, host, clock: {GUESS}"),
    )
}


# What else generations are called.
OTHER_NAMES = {"v7": ("tpu7x",), "v7x": ("tpu7x",), "tpu7": ("tpu7x",), "ironwood": ("tpu7x",), "v6": ("v6e",), "trillium": ("v6e",),
               "v5": ("v5e", "v5p"), "v5lite": ("v5e",), "v5x": ("v5p",)}


@dataclass(frozen=True, slots=True)
class Topology:
    """One or more equal slices of a generation; `shape` counts chips along each physical axis of a slice."""

    chip: Chip
    shape: tuple[int, ...]
    slices: int = 1

    @property
    def name(self) -> str:
        """As a target's text writes it, e.g. `v5e:4x4*2`."""
        text = f"{self.chip.generation}:{'x'.join(map(str, self.shape))}"
        return text if self.slices == 1 else f"{text}*{self.slices}"

    @property
    def target(self) -> str:
        """The target's text."""
        return f"tpu:{self.name}"

    @property
    def chips(self) -> int:
        """Chips in all slices."""
        return math.prod(self.shape) * self.slices

    @property
    def devices(self) -> int:
        """JAX devices in all slices."""
        return self.chips * self.chip.devices_per_chip

    @property
    def wraps(self) -> tuple[bool, ...]:
        """Per physical axis, whether its ends are linked.

        v5e, v6e and older: only an axis as long as the pod's. v4, v5p, TPU7x: every axis of a slice made of whole 4x4x4 cubes,
        whose optical switches close the rings. Source: "How to Scale Your Model", chapter 2.
        """
        if self.chip.wrap == "cubes":
            whole = all(size % 4 == 0 for size in self.shape)
            return tuple(whole for _ in self.shape)
        return tuple(size == full for size, full in zip(self.shape, self.chip.max_shape, strict=True))


@cache
def legal_shapes(generation: str) -> tuple[tuple[int, ...], ...]:
    """Shapes of one slice, smallest first: what Cloud offers and the compiler accepts."""
    chip = CHIPS[generation]
    if chip.torus_dims == 2:
        flat = [(2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32), (32, 32)]
        smallest = [] if generation in ("v2", "v3") else [(1, 1)]
        fits = [shape for shape in flat if all(size <= most for size, most in zip(shape, chip.max_shape, strict=True))]
        return tuple(smallest + [shape for shape in fits if generation not in ("v2", "v3") or shape != (2, 4)])
    small = [(2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4)]
    a_max, b_max, c_max = chip.max_shape
    cubes = [(a, b, c) for a in range(4, a_max + 1, 4) for b in range(a, b_max + 1, 4) for c in range(b, c_max + 1, 4)]
    return tuple(small + sorted(cubes, key=lambda shape: (math.prod(shape), shape)))


def get_topology(text: str | Target) -> Topology:
    """The topology that a target names; RequestError, with the nearest legal ones, where there is none."""
    target = text if isinstance(text, Target) else parse_target(text if text.startswith("tpu:") else f"tpu:{text}")
    if target.generation is None:
        raise refuse(f"target {shorten(target.text)}", "is not a TPU topology", "use for example tpu:v5e:4x4")
    if target.generation not in CHIPS:
        near = nearest_names(target) if target.generation in OTHER_NAMES else ()
        raise refuse(f"generation {target.generation!r}", "is not one that the TPU compiler knows",
                     f"use {' or '.join(near)}" if near else f"use one of {', '.join(CHIPS)}")
    shape = target.topology
    if shape not in legal_shapes(target.generation):
        raise refuse(f"topology {target.text.removeprefix('tpu:')}", f"is not a shape of {CHIPS[target.generation].title}",
                     f"use {' or '.join(nearest_names(target))}")
    if not 1 <= target.slices <= 256:
        raise refuse(f"{target.slices} slices", "are out of range", "use 1 to 256")
    return Topology(CHIPS[target.generation], shape, target.slices)


def nearest_names(target: Target, count: int = 2) -> tuple[str, ...]:
    """Names of legal topologies near to one that is not, the nearest first, with as many slices; none for a generation without a near one."""
    generations = OTHER_NAMES.get(target.generation or "", (target.generation,))
    known = [name for name in generations if name in CHIPS]
    each = max(1, count // max(1, len(known)))
    slices = f"*{min(target.slices, 256)}" if target.slices > 1 else ""
    return tuple(_text(name, shape) + slices for name in known for shape in nearest_shapes(name, target.topology, each))


def nearest_shapes(generation: str, shape: tuple[int, ...], count: int = 2) -> tuple[tuple[int, ...], ...]:
    """Legal shapes nearest in chips, and among these nearest in sizes."""
    chips = max(1, math.prod(shape))
    wanted = sorted(shape)

    def distance(legal: tuple[int, ...]) -> tuple[float, float]:
        sizes = sorted(legal)
        padded = [1] * (len(sizes) - len(wanted)) + wanted
        return abs(math.log2(math.prod(legal) / chips)), sum(abs(math.log2(a / max(1, b))) for a, b in zip(sizes, padded[-len(sizes):], strict=True))

    return tuple(sorted(legal_shapes(generation), key=distance)[:count])


def _text(generation: str, shape: tuple[int, ...]) -> str:
    return f"tpu:{generation}:{'x'.join(map(str, shape))}"
