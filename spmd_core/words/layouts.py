"""Devices, slices and mesh coordinates in words, for many shards at a time."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spmd_core.experiment.layout import Layout, shape_text
from spmd_core.units import bytes_text, count_text, number_text

Ints = NDArray[np.int64]
_LISTED = 4  # devices that are named one by one
_GROUPS = 24  # devices that a sentence names, about


def headline(found: Layout, dtype: str) -> str:
    """The layout: `8 devices each hold 2 × 2 of 4 × 8: 16 B of 128 B; nothing is replicated`."""
    held, all_bytes = bytes_text(found.shard_bytes(dtype)), bytes_text(found.array_bytes(dtype))
    many = found.device_count > 1
    who = f"{count_text(found.device_count)} devices each hold" if many else "1 device holds"
    shape = shape_text(found.shape)
    if found.shard_count == 1:
        same = "; fully replicated" if many else ""
        return f"{who} all of {shape}: {all_bytes}{same}"
    share = f"{who} {shape_text(found.shard_shape)} of {shape}: {held} of {all_bytes}"
    if found.replication == 1:
        return f"{share}; nothing is replicated"
    axes = " and ".join(found.replicated_axes)
    return f"{share}; replicated {count_text(found.replication)}× over {axes}"


def not_to_scale(rows: str, stretch: float) -> str:
    """What of a picture is not as the array's proportions are.

    >>> not_to_scale("d0", 0.25)
    'Not to scale, so that every shard can be read: d0 is drawn 4 times shorter than it is.'
    """
    times, how = (stretch, "longer") if stretch > 1 else (1 / stretch, "shorter")
    return (f"Not to scale, so that every shard can be read: {rows} is drawn "
            f"{number_text(times)} times {how} than it is.")


def group_texts(groups: Ints) -> list[str]:
    """The devices of every row of `groups`, [shards, replication], as text: `3`, `0, 4`, `0–7`, or
    `0, 8 … 56 (8 devices)`.
    """
    count = groups.shape[1]
    if count <= _LISTED:
        return [", ".join(map(str, row)) for row in groups.tolist()]
    ends = groups[:, (0, 1, -1)].tolist()
    if (groups[:, -1] - groups[:, 0] == count - 1).all():
        return [f"{first}–{last}" for first, _, last in ends]
    return [f"{first}, {second} … {last} ({count_text(count)} devices)"
            for first, second, last in ends]


def short_group_texts(groups: Ints) -> list[str]:
    """The same in as few characters as fit a cell: `3`, `0, 4`, `0–7`, or `0 +7` for eight devices,
    the first of which is 0.
    """
    count = groups.shape[1]
    if count <= 2:
        return group_texts(groups)
    if (groups[:, -1] - groups[:, 0] == count - 1).all():
        return [f"{first}–{last}" for first, last in groups[:, (0, -1)].tolist()]
    return [f"{first} +{count - 1}" for first in groups[:, 0].tolist()]


def range_texts(starts: Ints, stops: Ints) -> list[str]:
    """Slices along one dim, `2:4`."""
    return [f"{start}:{stop}" for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]


def index_texts(starts: Ints, stops: Ints) -> list[str]:
    """Slices of all dims, `[0:2, 2:4]`; starts and stops are [shards, rank]."""
    by_dim = [range_texts(starts[:, dim], stops[:, dim]) for dim in range(starts.shape[1])]
    return [f"[{', '.join(row)}]"
            for row in zip(*by_dim, strict=True)] if by_dim else ["[]"] * len(starts)


def coordinate_texts(found: Layout, devices: Ints, anywhere: tuple[str, ...] = ()) -> list[str]:
    """Mesh coordinates of devices, `x=0, y=3`; along the axes `anywhere` it says `any`."""
    columns = [[f"{name}=any"] * len(devices)
               if name in anywhere
               else [f"{name}={place}" for place in found.coordinates[devices, axis].tolist()]
               for axis, (name, _) in enumerate(found.mesh)]
    return [", ".join(row) for row in zip(*columns, strict=True)]


def devices_text(devices: Sequence[int], limit: int = 14) -> str:
    """Device numbers, ascending, as briefly as they can be said.

    >>> devices_text([0, 1, 2, 3]), devices_text([0, 4]), devices_text(list(range(0, 64, 4)))
    ('0-3', '0 4', '0 4 8 … (16)')
    """
    if len(devices) > 2 and devices[-1] - devices[0] == len(devices) - 1:
        return f"{devices[0]}-{devices[-1]}"
    text = " ".join(str(device) for device in devices)
    if len(text) <= limit:
        return text
    return f"{' '.join(str(device) for device in devices[:3])} … ({len(devices)})"


def sharing_text(found: Layout) -> str | None:
    """Which devices hold the same data, in a sentence; None where no two do."""
    if found.replication == 1:
        return None
    if found.shard_count == 1:
        return "All devices hold the same data."
    listed = _GROUPS // min(found.replication, _LISTED)
    groups = " · ".join(text.partition(" (")[0] for text in group_texts(found.named_groups[:listed])) + (" · …" if found.shard_count > listed else "")
    return f"{count_text(found.shard_count)} groups of {count_text(found.replication)} devices hold the same data: {groups}"


def dim_text(found: Layout, dim: int) -> str:
    """A dim and its mesh axes: `d0 over x`, `d1 over y then z`, `d2 replicated`."""
    if not found.shape:
        return "a scalar"
    axes = found.spec[dim]
    return f"d{dim} over {' then '.join(axes)}" if axes else f"d{dim} replicated"


def compact(number: int) -> str:
    """A whole number in few characters, and exactly: `512Ki` is 512 × 1,024, `3Mi` is 3 × 1,024².

    >>> compact(1000), compact(2**19), compact(2**20 + 1)
    ('1000', '512Ki', '1048577')
    """
    for power, name in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if number >= 16 * 1024 and number % 2**power == 0:
            return f"{number >> power}{name}"
    return str(number)
