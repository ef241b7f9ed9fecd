"""TPU topologies that the compiler accepts, and what each chip can do, every figure with its
source.
"""

import math
from dataclasses import dataclass
from functools import cache, lru_cache

from spmd_core.base import refuse, shorten
from spmd_core.machine.chips import CHIPS, OTHER_NAMES, Chip
from spmd_core.machine.targets import Target, parse_target, tpu_target


@dataclass(frozen=True, slots=True)
class Topology:
    """One or more equal slices of a generation; `shape` counts chips along each physical axis of a
    slice.
    """

    chip: Chip
    shape: tuple[int, ...]
    slices: int = 1

    @property
    def name(self) -> str:
        """As written in a target, e.g. `v5e:4x4*2`."""
        return self.target.removeprefix("tpu:")

    @property
    def target(self) -> str:
        """The target's text."""
        return tpu_target(self.chip.generation, self.shape, self.slices)

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
        """Whether each physical axis wraps around.

        v5e, v6e and older: only an axis as long as the pod's. v4, v5p, TPU7x: every axis of a slice
        of complete 4x4x4 cubes, whose optical switches close the rings. Source: "How to Scale Your
        Model", chapter 2.
        """
        if self.chip.wrap == "cubes":
            cubes = all(size % 4 == 0 for size in self.shape)
            return tuple(cubes for _ in self.shape)
        return tuple(
            size == full for size, full in zip(self.shape, self.chip.max_shape, strict=True)
        )


@cache
def legal_shapes(generation: str) -> tuple[tuple[int, ...], ...]:
    """Shapes of one slice, smallest first: what Cloud offers and the compiler accepts."""
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


@lru_cache(maxsize=4096)  # requested several times for each of a search's plans
def get_topology(text: str | Target) -> Topology:
    """The topology that a target names; RequestError, with the nearest legal ones, where there is
    none.
    """
    target = (
        text
        if isinstance(text, Target)
        else parse_target(text if text.startswith("tpu:") else f"tpu:{text}")
    )
    if target.generation is None:
        raise refuse(
            f"target {shorten(target.text)}", "is not a TPU topology", "use for example tpu:v5e:4x4"
        )
    if target.generation not in CHIPS:
        near = nearest_names(target) if target.generation in OTHER_NAMES else ()
        raise refuse(
            f"generation {target.generation!r}",
            "is not one that the TPU compiler knows",
            f"use {' or '.join(near)}" if near else f"use one of {', '.join(CHIPS)}",
        )
    shape = target.topology
    if shape not in legal_shapes(target.generation):
        raise refuse(
            f"topology {target.text.removeprefix('tpu:')}",
            f"is not a shape of {CHIPS[target.generation].title}",
            f"use {' or '.join(nearest_names(target))}",
        )
    if not 1 <= target.slices <= 256:
        raise refuse(f"{target.slices} slices", "are out of range", "use 1 to 256")
    return Topology(CHIPS[target.generation], shape, target.slices)


def nearest_names(target: Target, count: int = 2) -> tuple[str, ...]:
    """Names of the legal topologies nearest to an illegal one, with the same number of slices, the
    nearest first; empty if there is none.
    """
    generations = OTHER_NAMES.get(target.generation or "", (target.generation,))
    known = [name for name in generations if name in CHIPS]
    each = max(1, count // max(1, len(known)))
    slices = min(target.slices, 256)
    return tuple(
        tpu_target(name, shape, slices)
        for name in known
        for shape in nearest_shapes(name, target.topology, each)
    )


def nearest_shapes(
    generation: str, shape: tuple[int, ...], count: int = 2
) -> tuple[tuple[int, ...], ...]:
    """Legal shapes nearest in chips, and among these nearest in sizes."""
    chips = max(1, math.prod(shape))
    wanted = sorted(shape)

    def distance(legal: tuple[int, ...]) -> tuple[float, float]:
        sizes = sorted(legal)
        padded = [1] * (len(sizes) - len(wanted)) + wanted
        return abs(math.log2(math.prod(legal) / chips)), sum(
            abs(math.log2(a / max(1, b))) for a, b in zip(sizes, padded[-len(sizes) :], strict=True)
        )

    return tuple(sorted(legal_shapes(generation), key=distance)[:count])


Coordinates = tuple[int, ...]  # x, y, z, core, slice
