"""Topologies of absent devices: TPU slices that the compiler accepts, and NVLink domains that are
built.
"""

import math
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NoReturn

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.machine.chip import Chip
from spmd_core.machine.chips import CHIPS, OTHER_NAMES, TPUS
from spmd_core.machine.gpus import GPUS
from spmd_core.machine.targets import Target, is_known, parse_target
from spmd_core.machine.topology import (
    Topology,
    absent_target,
    legal_shapes,
    nearest_counts,
    topology_of_chips,
)


@lru_cache(maxsize=4096)  # requested several times for each of a search's plans
def get_topology(text: str | Target) -> Topology:
    """The topology that a target names; RequestError, with the nearest legal ones, where there is
    none.
    """
    target = (
        text
        if isinstance(text, Target)
        else parse_target(text if is_known(text) else f"tpu:{text}")
    )
    if target.generation is None:
        raise refuse(
            f"target {shorten(target.text)}", "is not a TPU topology", "use for example tpu:v5e:4x4"
        )
    if target.generation not in (GPUS if target.is_gpu else TPUS):
        _refuse_generation(target)
    chip, shape = CHIPS[target.generation], target.topology
    if shape not in legal_shapes(target.generation):
        shown = target.text if chip.is_gpu else target.text.removeprefix("tpu:")
        what = _built(chip) if chip.is_gpu else f"is not a shape of {chip.title}"
        near = dict.fromkeys((*_more_domains(target), *nearest_names(target)))
        raise refuse(f"topology {shown}", what, f"use {' or '.join(near)}")
    if not 1 <= target.slices <= chip.max_slices:
        raise refuse(
            f"{target.slices} {chip.slice_word}s", "are out of range", f"use 1 to {chip.max_slices}"
        )
    return Topology(chip, shape, target.slices)


def _refuse_generation(target: Target) -> NoReturn:
    name = target.generation or ""
    if target.is_gpu:
        *_, near = sorted(GPUS, key=lambda known: SequenceMatcher(None, name, known).ratio())
        count = absent_target(near, nearest_shapes(near, target.topology, 1)[0], 1, "gpu")
        others = ", ".join(each for each in GPUS if each != near)
        raise refuse(f"GPU {name!r}", "has no data sheet here", f"use {count}, or one of {others}")
    near = nearest_names(target) if name in OTHER_NAMES else ()
    raise refuse(
        f"generation {name!r}",
        "is not one that the TPU compiler knows",
        f"use {' or '.join(near)}" if near else f"use one of {', '.join(TPUS)}",
    )


def _more_domains(target: Target) -> tuple[str, ...]:
    """As many GPUs in full domains, where one cannot have them: 16 H100 are `gpu:h100:2x8`."""
    largest, count = legal_shapes(target.generation or "")[-1][0], math.prod(target.topology)
    if not target.is_gpu or target.slices > 1 or count <= largest or count % largest:
        return ()
    return (absent_target(target.generation or "", (largest,), count // largest, "gpu"),)


def _built(chip: Chip) -> str:
    """That NVLink joins another number of GPUs."""
    counts = [shape[0] for shape in legal_shapes(chip.generation)]
    listed = f"{', '.join(map(str, counts[:-1]))} or {counts[-1]}"
    words = f"a multiple of 4 up to {counts[-1]}" if len(counts) > 4 else listed
    return f"is not built: an NVLink domain of {chip.title} has {words} GPUs"


def nearest_names(target: Target, count: int = 2) -> tuple[str, ...]:
    """Names of the legal topologies nearest to an illegal one, with the same number of slices, the
    nearest first; empty if there is none.
    """
    generations = OTHER_NAMES.get(target.generation or "", (target.generation,))
    known = [name for name in generations if name and name in CHIPS]
    each = max(1, count // max(1, len(known)))
    return tuple(
        absent_target(
            name, shape, min(max(1, target.slices), CHIPS[name].max_slices), CHIPS[name].platform
        )
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


_FALLBACK = {"tpu": "v5e", "gpu": "h100"}  # of an unknown generation; one device per chip


def nearest_of_chips(generation: str, chips: int) -> Topology:
    """The topology of that many chips, or else the legal single slice nearest to them."""
    try:
        return topology_of_chips(generation, chips)
    except RequestError:
        return topology_of_chips(generation, nearest_counts(generation, chips)[0])


def nearest_topology(target: Target | None, devices: int, platform: str = "tpu") -> Topology:
    """The topology that a target names, or the legal one nearest to it.

    Near in shape where the generation is known, with as many slices (at most 256); of a generation
    that is not, or where the target is none (or None), one of v5e or H100 with about as many devices.
    """
    names: tuple[str, ...] = ()
    if target is not None and target.generation is not None:
        try:
            return get_topology(target)
        except RequestError:
            names = nearest_names(target)
    return get_topology(names[0]) if names else nearest_of_chips(_FALLBACK[platform], devices)
