"""Topologies of absent devices, and the topology of a number of chips."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from spmd_core.base import firsts_by_key, numbered, refuse
from spmd_core.machine.chip import Chip
from spmd_core.machine.chips import CHIPS
from spmd_core.machine.gpus import GPUS


@dataclass(frozen=True, slots=True)
class Topology:
    """One or more equal slices of a generation; `shape` counts chips along each physical axis of a
    slice. Of GPUs a slice is an NVLink domain, and `shape` its GPUs.
    """

    chip: Chip
    shape: tuple[int, ...]
    slices: int = 1

    @property
    def name(self) -> str:
        """As written in a target, e.g. `v5e:4x4*2`; of GPUs the target itself."""
        return self.target.removeprefix("tpu:")

    @property
    def target(self) -> str:
        """The target's text."""
        return absent_target(self.chip.generation, self.shape, self.slices, self.chip.platform)

    @property
    def chips(self) -> int:
        """Chips in all slices."""
        return math.prod(self.shape) * self.slices

    @property
    def called(self) -> str:
        """How many chips, and of v4 and v5p, whose accelerator types count TensorCores, the type of a
        slice: `8 chips, v5p-16 on Google Cloud`. Source: cloud.google.com/tpu/docs/v5p.
        """
        cores = math.prod(self.shape) * self.chip.cores
        counts = self.chip.cores > 1
        cloud = f", {self.chip.generation}-{cores}{' each' * (self.slices > 1)} on Google Cloud"
        return f"{numbered(self.chips, 'chip')}{cloud * counts}"

    @property
    def devices(self) -> int:
        """JAX devices in all slices."""
        return self.chips * self.chip.devices_per_chip

    @property
    def wraps(self) -> tuple[bool, ...]:
        """Whether each physical axis wraps around.

        v5e, v6e and older: only an axis as long as the pod's. v4, v5p, TPU7x: every axis of a slice
        of complete 4x4x4 cubes, whose optical switches close the rings. Source: "How to Scale Your
        Model", chapter 2.
        """
        if self.chip.wrap == "switch":
            return (False,)
        if self.chip.wrap == "cubes":
            cubes = all(size % 4 == 0 for size in self.shape)
            return tuple(cubes for _ in self.shape)
        return tuple(
            size == full for size, full in zip(self.shape, self.chip.max_shape, strict=True)
        )

    def larger(self) -> "Iterator[Topology]":
        """Yields topologies of the same generation with more chips, the fewest first: as many slices
        (of GPUs: NVLink domains) of a larger shape, then a power of two of the largest shape, and of
        the largest one whose own chips are a power of two.
        """
        shapes = sorted(legal_shapes(self.chip.generation), key=lambda of: (math.prod(of), sum(of)))
        by_chips = firsts_by_key((math.prod(shape), shape) for shape in shapes)  # the most compact
        of_shapes = (Topology(self.chip, shape, self.slices) for shape in by_chips.values())
        yield from (each for each in of_shapes if each.chips > self.chips)
        largest = sorted({max(by_chips), max(n for n in by_chips if n.bit_count() == 1)})
        powers = range(self.slices.bit_length(), self.chip.max_slices.bit_length())
        for slices in (2**power for power in powers):
            of_slices = (Topology(self.chip, by_chips[chips], slices) for chips in largest)
            yield from (each for each in of_slices if each.chips > self.chips)


@cache
def legal_shapes(generation: str) -> tuple[tuple[int, ...], ...]:
    """Shapes of one slice, smallest first: what Cloud offers and the compiler accepts."""
    if generation in GPUS:
        return GPUS[generation].domains
    chip = CHIPS[generation]
    if chip.torus_dims == 2:
        flat = [(2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32), (32, 32)]
        fits = [
            shape
            for shape in flat
            if all(size <= most for size, most in zip(shape, chip.max_shape, strict=True))
        ]
        if chip.smallest is None:
            return ((1, 1), *fits)
        return tuple(shape for shape in fits if shape != (2, 4))  # nor half a host's row
    small = [(2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4)]
    a_max, b_max, c_max = chip.max_shape
    cubes = [
        (a, b, c)
        for a in range(4, a_max + 1, 4)
        for b in range(a, b_max + 1, 4)
        for c in range(b, c_max + 1, 4)
    ]
    return tuple(small + sorted(cubes, key=lambda shape: (math.prod(shape), shape)))


def shape_text(shape: tuple[int, ...]) -> str:
    """Chips along each physical axis, e.g. `4x4`."""
    return "x".join(map(str, shape))


@lru_cache(maxsize=1024)  # requested several times for each of a search's plans
def absent_target(
    generation: str, shape: tuple[int, ...], slices: int = 1, platform: str = "tpu"
) -> str:
    """The text of a topology, legal or not, as `parse_target` reads it, e.g. `tpu:v5e:4x4*2`;
    `gpu:h100:2x8` is two NVLink domains of 8.
    """
    if platform == "gpu":
        return f"gpu:{generation}:{'' if slices == 1 else f'{slices}x'}{shape_text(shape)}"
    return f"tpu:{generation}:{shape_text(shape)}" + (f"*{slices}" if slices > 1 else "")


def topology_of_chips(generation: str, chips: int) -> Topology:
    """The topology of that many chips.

    A single slice if a legal shape has that many chips: the one with the most rings and, among
    these, the shortest sides. Beyond the largest, equal slices of the largest shape that divides the
    number; of more than half of it, two. RequestError, with the nearest numbers, if there is none.
    """
    chip = CHIPS[generation]
    single_slices = [Topology(chip, shape) for shape in legal_shapes(generation)]
    if exact := [topology for topology in single_slices if topology.chips == chips]:
        return min(exact, key=lambda topology: (-sum(topology.wraps), sum(topology.shape)))
    largest = max(topology.chips for topology in single_slices)
    if 2 * chips > largest:
        most_slices = chip.max_slices if chips > largest else min(2, chip.max_slices)
        for topology in sorted(
            single_slices, key=lambda topology: (-topology.chips, sum(topology.shape))
        ):
            if chips % topology.chips == 0 and chips // topology.chips <= most_slices:
                return Topology(chip, topology.shape, chips // topology.chips)
    near = nearest_counts(generation, chips)[:2]
    counts = (
        [f"{count:,}" for count in sorted(near)]
        if chips <= largest
        else [f"a multiple of {largest:,}"]
    )
    raise refuse(
        f"chips={chips}", f"do not form slices of {chip.title}", f"use {' or '.join(counts)}"
    )


def nearest_counts(generation: str, chips: int) -> list[int]:
    """Returns the chips of every single slice, the nearest first."""
    counts = sorted({math.prod(shape) for shape in legal_shapes(generation)})
    return sorted(counts, key=lambda count: abs(math.log(count) - math.log(max(1, chips))))
