"""Parses the sharding of an array over a mesh from the forms in which XLA writes it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spmd_core.program.hlo.module import HloError
from spmd_core.program.hlo.replica_groups import parse_iota

Mesh = tuple[tuple[str, int], ...]
Axes = tuple[str, ...]
_TILES = re.compile(
    r"devices=\[(?P<dims>[\d,]+)\](?P<ids><=\[[\d,]+\](?:T\([\d,]+\))?|[\d,]+)"
    r"(?P<rest>.*)$"
)
_KINDS = re.compile(r"last_tile_dims=\{([^}]*)\}")
_MESH = re.compile(
    r"mesh\[(?P<axes>[^\]]*)\](?P<ids>, device_ids=[^\]]*?)?(?:, \[(?P<dims>.*?)\])?"
    r"(?P<rest>, (?:replicated|unreduced|manual)=.*|, (?:replicated|manual))?$"
)
_AXIS = re.compile(r"'([^']+)'=(\d+)")
_DIM = re.compile(r"\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Sharding:
    """Mesh axes of each dim, major first; over `manual` axes the program shards by itself, so the
    shape is that of a shard.
    """

    spec: tuple[Axes, ...]
    manual: Axes = ()


def parse_sharding(text: str | None, rank: int, mesh: Mesh) -> Sharding:
    """The sharding of an array of this rank, from the attribute `sharding` of its instruction; None
    is replicated. HloError if it cannot be written with mesh axes, such as part of an axis.

    >>> parse_sharding("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 2,
    ...                (("x", 2), ("y", 4))).spec
    ((), ('y',))
    >>> parse_sharding("{mesh['x'=2,'y'=4], [{'x'}, {}]}", 2, (("x", 2), ("y", 4))).spec
    (('x',), ())
    """
    bare = (text or "{replicated}").strip()[1:-1].strip()
    bare = re.sub(r"\s*metadata=\{.*\}$", "", bare)
    if bare.startswith("mesh["):
        return _of_mesh(bare, rank, mesh)
    if match := _TILES.fullmatch(bare):
        return _of_tiles(match, rank, mesh)
    if bare == "replicated" or bare.startswith("maximal"):
        return Sharding(((),) * rank)
    if bare == "manual":
        return Sharding(((),) * rank, tuple(name for name, _ in mesh))
    raise HloError(f"sharding {bare[:200]} of a compiled program is in no known form")


def _of_mesh(bare: str, rank: int, mesh: Mesh) -> Sharding:
    match = _MESH.fullmatch(bare)
    if match is None or match["ids"]:
        raise HloError(f"sharding {bare[:200]} of a compiled program is in no known form")
    sizes = {name: int(size) for name, size in _AXIS.findall(match["axes"])}
    if not sizes:
        return Sharding(((),) * rank)
    if any(dict(mesh).get(name) != size for name, size in sizes.items()):
        raise HloError(f"sharding {bare[:200]} names axes that the mesh does not have")
    rest = match["rest"] or ""
    if "manual=" in rest:
        manual = _axes(rest.partition("manual=")[2])
    elif "manual" in rest:
        manual = tuple(sizes)
    else:
        manual = ()
    dims = tuple(_axes(dim) for dim in _DIM.findall(match["dims"] or ""))
    return Sharding((*dims, *((),) * (rank - len(dims))), manual)


def _axes(text: str) -> Axes:
    if ":(" in text:
        raise HloError(f"sharding over {text.strip()} is over a part of an axis")
    return tuple(re.findall(r"'([^']+)'", text))


def _of_tiles(match: re.Match[str], rank: int, mesh: Mesh) -> Sharding:
    dims = tuple(int(size) for size in match["dims"].split(","))
    ids = match["ids"]
    devices = (
        parse_iota(ids)
        if ids.startswith("<=")
        else np.array([int(each) for each in ids.split(",")])
    )
    kinds = _KINDS.search(match["rest"])
    ends = (
        [kind.strip() for kind in kinds[1].split(",")]
        if kinds
        else ["replicated"] * (len(dims) - rank)
    )
    sizes = tuple(size for _, size in mesh)
    if devices.size != math.prod(sizes) or len(dims) != rank + len(ends):
        raise HloError(f"sharding {match[0][:200]} does not fit the mesh")
    # tile[d, k]: along dim d, which tile device k has
    tile = np.empty((len(dims), devices.size), np.int64)
    tile[:, devices.reshape(-1)] = np.stack(np.unravel_index(np.arange(devices.size), dims))
    spec = tuple(_followed(tile[dim], mesh) for dim in range(rank))
    manual = tuple(
        axis
        for at, kind in enumerate(ends)
        if kind == "manual"
        for axis in _followed(tile[rank + at], mesh)
    )
    return Sharding(spec, manual)


def _followed(tiles: np.ndarray, mesh: Mesh) -> Axes:
    """The axes, major first, that number these tiles; `tiles[k]` is that of device k."""
    sizes = tuple(size for _, size in mesh)
    grid = tiles.reshape(sizes)
    steps = {}
    for at, (name, size) in enumerate(mesh):
        first = np.take(grid, 0, at)
        if size > 1 and not np.array_equal(np.take(grid, 1, at), first):
            steps[name] = int(np.take(grid, 1, at).flat[0] - first.flat[0])
    ordered = tuple(sorted(steps, key=lambda name: -steps[name]))
    coordinates = np.stack(np.unravel_index(np.arange(tiles.size), sizes))
    expected = np.zeros_like(tiles)
    for name in ordered:
        at = [each for each, _ in mesh].index(name)
        expected = expected * sizes[at] + coordinates[at]
    if not np.array_equal(expected, tiles):
        raise HloError("a sharding follows a part of a mesh axis")
    return ordered


def without_ones(spec: Sequence[Axes], mesh: Mesh) -> tuple[Axes, ...]:
    """A spec without axes of size 1, which shard nothing."""
    sizes = dict(mesh)
    return tuple(tuple(axis for axis in axes if sizes[axis] > 1) for axes in spec)


def parts_of(axes: Axes, mesh: Mesh) -> int:
    """The number of shards of a dim over these axes."""
    return math.prod(dict(mesh)[axis] for axis in axes)
