"""Topologies that a search may use, from `v5p:64`, `any:..64` or `v5p:4x4x4*2`; their meshes."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.machine import CHIPS, GPUS, Topology, get_topology, kind_of, legal_shapes
from spmd_core.plan import STAGE

MAX_SLICES = 256
_PLATFORM = re.compile("^(tpu|gpu):")
_COUNT = re.compile(r"([a-z0-9]+):(?:([0-9]{1,9}))?(\.\.)?([0-9]{1,9})?")
ANY, CURRENT = "any", ("v5e", "v5p", "v6e", "tpu7x")  # of them any may be
_SHAPE = re.compile(r"[a-z0-9]+[:-][0-9]+(?:x[0-9]+)*(?:\*[0-9]+)?")
_NO_PLACE = " is not a place to run"
_FIX = "write for example v5p:64, v5e:..256 for up to 256, any:..64, or v5p:4x4x4"


def read_chips(text: str, slices: str = "fewest") -> tuple[Topology, ...]:
    """The topologies that a word names; RequestError where there is none.

    `slices`: "fewest" takes one slice wherever one has so many chips (of a range, several only
    above what one slice has), "any" every number of equal
    slices, a number only that many.
    """
    words = _by_kind(text)
    match = _COUNT.fullmatch(words)
    kind, colon, _ = words.partition(":")
    platform = next(iter(_PLATFORM.findall(text.strip().lower())), "")
    kinds = [name for name, chip in CHIPS.items() if platform in ("", chip.platform)]
    if colon and kind not in kinds and (kind != ANY or platform == "gpu"):
        what = platform.upper() or "chips"
        raise refuse(f"chips {shorten(text)}", f"name no kind of {what}", f"use {', '.join(kinds)}")
    if (match is None or kind in GPUS) and _SHAPE.fullmatch(words):
        return (_built(text, words, kind),)
    generation, first, dots, last = match.groups() if match else (ANY, None, None, None)
    if (not first and not last) or (last and not dots):
        raise refuse(f"chips {shorten(text)}", "is not a number of chips", _FIX)
    least = int(first or 1)
    most = int(last or (10**6 if dots else least))
    named = CURRENT if generation == ANY else (generation,)
    topologies = tuple(each for name in named for each in _topologies(name, least, most, slices))
    if not topologies:
        title = ", ".join(CURRENT) if generation == ANY else CHIPS[generation].title
        near = sorted(
            {each.chips for name in named for each in _topologies(name, 1, 10**5, slices)},
            key=lambda chips: abs(math.log(chips / max(1, most))),
        )[:2]
        raise refuse(
            f"chips {shorten(text)}",
            f"is no number of chips of {title}"
            f"{'' if slices in ('fewest', 'any') else f' in {slices} slices'}",
            f"use {' or '.join(f'{generation}:{chips}' for chips in sorted(near))}",
        )
    return topologies


def _built(text: str, words: str, kind: str) -> Topology:
    """Returns the topology of a shape; RequestError of the chips, where that names other targets."""
    try:
        return get_topology(words)
    except RequestError as error:
        if kind not in CHIPS or _NO_PLACE not in str(error):
            raise
        rule = f"is no number of {CHIPS[kind].title}"
        raise refuse(f"chips {shorten(text)}", rule, _FIX) from error


def _by_kind(text: str) -> str:
    """Returns a word of chips without `tpu:` or `gpu:`, its kind by the name that is stored."""
    text = text.strip().lower().removeprefix("tpu:").removeprefix("gpu:")
    kind, colon, size = text.partition(":")
    return f"{kind_of(kind) or kind}{colon}{size}"


def generations(words: Iterable[str], slices: str = "fewest") -> list[str]:
    """The generations that such words name, each once; RequestError with each word that names none."""
    listed, refused = set[str](), []
    for text in words:
        try:
            listed.update(each.chip.generation for each in read_chips(text, slices))
        except RequestError as error:
            refused.append(str(error))
    if refused:
        raise RequestError("; ".join(refused))
    return sorted(listed)


def _topologies(generation: str, least: int, most: int, slices: str) -> list[Topology]:
    shapes = legal_shapes(generation)
    counts = [2**power for power in range(MAX_SLICES.bit_length())]
    listed = [
        Topology(CHIPS[generation], shape, count)
        for shape in shapes
        for count in counts
        if least <= math.prod(shape) * count <= most and slices in ("fewest", "any", str(count))
    ]
    if slices != "fewest":
        return listed
    fewest = {each.chips: each.slices for each in sorted(listed, key=lambda each: -each.slices)}
    largest = max(map(math.prod, shapes))
    return [
        each
        for each in listed
        if each.slices == fewest[each.chips]
        and (each.slices == 1 or least == most or each.chips > largest)
    ]


def check_slices(value: Any) -> str:
    """ "fewest", "any", or a number of slices; RequestError for anything else."""
    text = str(value)
    if text in ("fewest", "any") or (text.isdigit() and 1 <= int(text) <= MAX_SLICES):
        return text if not text.isdigit() else str(int(text))
    raise refuse(
        f"slices={shorten(value)}",
        "is not a number of slices",
        f"use fewest, any, or 1 to {MAX_SLICES}",
    )


MAX_AXES = 3
STAGES = (2, 4, 8, 16)  # of a pipeline, tried where their number is not given


@cache
def factorizations(devices: int, axes: int) -> tuple[tuple[int, ...], ...]:
    """Ordered products of `axes` factors above 1 that are `devices`; one device is no axis at all.

    >>> factorizations(8, 2), factorizations(1, 0)
    (((2, 4), (4, 2)), ((),))
    """
    if axes == 0:
        return ((),) if devices == 1 else ()
    return tuple(
        (first, *rest)
        for first in range(2, devices + 1)
        if devices % first == 0
        for rest in factorizations(devices // first, axes - 1)
    )


def named_meshes(
    devices: int, names: tuple[str, ...], most: int = MAX_AXES
) -> Iterator[tuple[tuple[str, int], ...]]:
    """Meshes of up to `most` of these axes, in the order of the names, fewest axes first."""
    for count in range(0 if devices == 1 else 1, min(most, len(names)) + 1):
        for chosen in itertools.combinations(names, count):
            for sizes in factorizations(devices, count):
                yield tuple(zip(chosen, sizes, strict=True))


def staged_meshes(
    devices: int, names: tuple[str, ...], numbers: tuple[int, ...] = STAGES
) -> Iterator[tuple[tuple[str, int], ...]]:
    """Meshes of so many stages, which come first, beside up to two of these axes."""
    for stages in numbers:
        if devices % stages == 0:
            for inside in named_meshes(devices // stages, names, 2):
                yield ((STAGE, stages), *inside)
