"""Parses the devices of a collective from the forms in which XLA writes them."""

import math
import re
from itertools import pairwise

import numpy as np

from spmd_core.base import shorten
from spmd_core.program.hlo.module import HloError

_IOTA = re.compile(r"\[(?P<dims>[\d,]+)\](?:<=\[(?P<reshape>[\d,]+)\])?(?:T\((?P<order>[\d,]+)\))?")
_MESH = re.compile(
    r"mesh\[(?P<axes>[^\]]*)\](?:, device_ids=\((?P<ids>.*?)\))? \{(?P<refs>[^}]*)\}"
)
_AXIS = re.compile(r"'?(?P<name>[^'=,]+)'?=(?P<size>\d+)")
_REF = re.compile(r"'?(?P<name>[^':,]+)'?(?::\((?P<before>\d+)\)(?P<size>\d+))?")
_LISTS = re.compile(r"\{(\{[\d,]*\}(,\{[\d,]*\})*)?\}")


def parse_groups(text: str, device_count: int) -> np.ndarray:
    """Groups of positions in the program's device order, int64 [groups, devices of a group];
    HloError where it cannot be read.

    >>> parse_groups("{{0,1},{2,3}}", 4).tolist()
    [[0, 1], [2, 3]]
    >>> parse_groups("[2,2]<=[2,2]T(1,0)", 4).tolist()
    [[0, 2], [1, 3]]
    >>> parse_groups("mesh['x'=2,'y'=2] {'x'}", 4).tolist()
    [[0, 2], [1, 3]]
    """
    text = text.strip()
    bare = re.sub(r"\s", "", text)
    if bare == "{}":
        return np.arange(device_count).reshape(1, -1)
    if _LISTS.fullmatch(bare):
        return _lists(bare)
    if (match := _IOTA.fullmatch(bare)) and match["reshape"]:
        return _iota(match["reshape"], match["order"]).reshape(_numbers(match["dims"]))
    if match := _MESH.fullmatch(text):
        return _mesh_groups(match["axes"], match["ids"], match["refs"])
    raise HloError(f"replica groups {shorten(text)} of a compiled program are in no known form")


def parse_pairs(text: str) -> np.ndarray:
    """Pairs of source and target, int64 [pairs, 2], e.g. from `{{0,1},{1,0}}`."""
    bare = re.sub(r"\s", "", text)
    if not _LISTS.fullmatch(bare):
        raise HloError(f"source-target pairs {shorten(text)} of a compiled program cannot be read")
    return np.empty((0, 2), np.int64) if bare == "{}" else _lists(bare).reshape(-1, 2)


def axes_of(
    groups: np.ndarray, mesh: tuple[tuple[str, int], ...], positions: tuple[int, ...] | None = None
) -> tuple[str, ...]:
    """The smallest set of mesh axes along which the members of some group differ, in mesh order.

    `positions[i]` is the mesh position of the program's device i; None where both orders are the
    same.
    """
    sizes = tuple(size for _, size in mesh)
    count = math.prod(sizes)
    members = np.asarray(groups if positions is None else np.asarray(positions)[groups])
    if members.size and not (members.min() >= 0 and members.max() < count):
        raise HloError(
            f"a collective names device {int(members.max())}, but the mesh has {count} devices"
        )
    coordinates = (
        np.stack(np.unravel_index(members, sizes))
        if members.size
        else np.zeros((len(mesh), 1, 1), np.int64)
    )
    moves = (coordinates != coordinates[:, :, :1]).any(axis=(1, 2))
    return tuple(name for (name, _), moved in zip(mesh, moves, strict=True) if moved)


def parse_iota(text: str) -> np.ndarray:
    """Devices as `<=[2,4]T(1,0)` lists them: int64, in the shape after the transposition.

    >>> parse_iota("<=[2,2]T(1,0)").tolist()
    [[0, 2], [1, 3]]
    """
    match = re.fullmatch(r"<=\[([\d,]+)\](?:T\(([\d,]+)\))?", text.strip())
    if match is None:
        raise HloError(f"devices {shorten(text)} of a compiled program are in no known form")
    return _iota(match[1], match[2])


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _lists(bare: str) -> np.ndarray:
    rows = [_numbers(part) for part in re.findall(r"\{([\d,]*)\}", bare[1:-1])]
    longest = max(map(len, rows), default=0)
    # Groups of unequal length (allowed by XLA) are padded with their own first member.
    return np.array(
        [row + (row[0],) * (longest - len(row)) for row in rows if row], np.int64
    ).reshape(-1, longest)


def _iota(reshape: str, order: str | None) -> np.ndarray:
    dims = _numbers(reshape)
    ids = np.arange(math.prod(dims)).reshape(dims)
    return ids.transpose(_numbers(order)) if order else ids


def _device_ids(text: str | None, count: int) -> np.ndarray:
    if text is None:
        return np.arange(count)
    bare = re.sub(r"\s", "", text)
    if match := _IOTA.fullmatch(bare):
        return _iota(match["reshape"] or match["dims"], match["order"]).reshape(-1)
    if re.fullmatch(r"[\d,]+", bare):
        return np.array(_numbers(bare))
    raise HloError(f"device ids {shorten(text)} of a compiled program are in no known form")


def _mesh_groups(axes: str, ids: str | None, refs: str) -> np.ndarray:
    """Groups along mesh axes or along sub-axes: `'y':(2)2` is the sub-axis of y of size 2 that
    follows one of size 2.
    """
    sizes = {match["name"]: int(match["size"]) for match in _AXIS.finditer(axes)}
    wanted: list[tuple[str, int, int]] = []
    for match in _REF.finditer(refs):
        if match["name"] not in sizes:
            raise HloError(
                f"replica groups name axis {match['name']!r}, which is not in their mesh "
                f"{shorten(axes)}"
            )
        before = int(match["before"] or 1)
        wanted.append((match["name"], before, before * int(match["size"] or sizes[match["name"]])))
    factors: list[tuple[str, int, int]] = []  # each axis split at every bound: (axis, from, to)
    for name, size in sizes.items():
        bounds = sorted(
            {
                1,
                size,
                *(bound for axis, low, high in wanted if axis == name for bound in (low, high)),
            }
        )
        factors += [(name, low, high) for low, high in pairwise(bounds)]
    grouped = [
        index
        for name, low, high in wanted
        for index, (axis, start, stop) in enumerate(factors)
        if axis == name and low <= start and stop <= high
    ]
    rest = [index for index in range(len(factors)) if index not in grouped]
    shape = tuple(high // low for _, low, high in factors)
    members = math.prod(shape[index] for index in grouped)
    return (
        _device_ids(ids, math.prod(sizes.values()))
        .reshape(shape)
        .transpose(rest + grouped)
        .reshape(-1, members)
    )
