"""The layout of an array: the shard that each device of a mesh holds, computed from the mesh, the
shape and the spec.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spmd_core.base import RequestError, count_text, refuse, shorten
from spmd_core.experiment import rules
from spmd_core.experiment.experiment import Experiment
from spmd_core.fields import Spec, axes_json
from spmd_core.machine import device_ids, get_topology, listed, mesh_places, parse_target
from spmd_core.workloads import item_bytes

MeshAxes = tuple[tuple[str, int], ...]
Ints = NDArray[np.int64]

_SHORT = {"float": "f", "uint": "u", "int": "i", "complex": "c"}  # as JAX shortens dtypes


@dataclass(frozen=True, eq=False)
class Layout:
    """The shards of one array over one mesh, by the devices' positions in the mesh's device order,
    row-major over the axes.

    `device_ids` are JAX's numbers of the devices by position, None where they are the positions or
    are not known. `blocks`, int64 [devices, rank], is the index of the block that a device holds
    along each dim; a dim of `parts` blocks has blocks 0 to parts - 1, each of `shard_shape[dim]`
    elements.
    """

    mesh: MeshAxes
    shape: tuple[int, ...]
    spec: Spec
    parts: tuple[int, ...]
    blocks: Ints
    device_ids: Ints | None = None
    hosts: Ints | None = None  # of each device, [devices]; None where all are of one
    dims: tuple[str, ...] = ()  # names; where there are none, d0, d1, …

    def dim_name(self, dim: int) -> str:
        """What a dim is called."""
        return self.dims[dim] if self.dims else f"d{dim}"

    @property
    def device_count(self) -> int:
        """Devices in the mesh."""
        return len(self.blocks)

    @property
    def shard_shape(self) -> tuple[int, ...]:
        """Shape of the shard that each device holds, the same on every device."""
        return tuple(size // parts for size, parts in zip(self.shape, self.parts, strict=True))

    @property
    def shard_count(self) -> int:
        """Shards that differ from one another."""
        return math.prod(self.parts)

    @property
    def replication(self) -> int:
        """Devices that hold the same shard: 1 where nothing is replicated."""
        return self.device_count // self.shard_count

    @property
    def replicated_axes(self) -> tuple[str, ...]:
        """Mesh axes longer than 1 that shard no dim: the array is replicated along them."""
        used = {axis for axes in self.spec for axis in axes}
        return tuple(name for name, size in self.mesh if name not in used and size > 1)

    @cached_property
    def starts(self) -> Ints:
        """First index that each device holds along each dim, [devices, rank]."""
        return self.blocks * np.asarray(self.shard_shape, np.int64)

    @cached_property
    def stops(self) -> Ints:
        """Index after the last that each device holds along each dim, [devices, rank]."""
        return self.starts + np.asarray(self.shard_shape, np.int64)

    @cached_property
    def shard_of(self) -> Ints:
        """Number of the shard that each device holds, [devices]; shards are counted row-major over
        the array's dims.
        """
        strides = [math.prod(self.parts[dim + 1 :]) for dim in range(len(self.parts))]
        return self.blocks @ np.asarray(strides, np.int64)

    @cached_property
    def groups(self) -> Ints:
        """Devices that hold the same data, ascending, [shards, replication]; row `s` holds shard
        `s` of `shard_of`.
        """
        position = {name: number for number, (name, _) in enumerate(self.mesh)}
        cutting = [position[axis] for axes in self.spec for axis in axes]
        others = [number for number in range(len(self.mesh)) if number not in cutting]
        devices = np.arange(self.device_count).reshape([size for _, size in self.mesh])
        return devices.transpose(cutting + others).reshape(self.shard_count, self.replication)

    @property
    def numbers(self) -> Ints:
        """The number shown for each device, [devices]: JAX's id where it is known to differ from
        the position.
        """
        return np.arange(self.device_count) if self.device_ids is None else self.device_ids

    @cached_property
    def named_groups(self) -> Ints:
        """`groups` by the devices' numbers, ascending."""
        return (
            self.groups
            if self.device_ids is None
            else np.sort(self.device_ids[self.groups], axis=1)
        )

    @cached_property
    def coordinates(self) -> Ints:
        """Position of each device along each mesh axis, [devices, axes]."""
        sizes = [size for _, size in self.mesh]
        return np.indices(sizes).reshape(len(sizes), -1).T

    def holders(self, element: Sequence[int]) -> Ints:
        """Positions of the devices that hold the element with this index, ascending, [replication]."""
        blocks = np.asarray(element, np.int64) // np.asarray(self.shard_shape, np.int64)
        return np.flatnonzero((self.blocks == blocks).all(axis=1))

    def ranges(self) -> list[list[list[int]]]:
        """[start, stop) of each dim, for every device, as JSON values. Devices in one block of a
        dim share its pair.
        """
        pairs = [
            [[block * size, (block + 1) * size] for block in range(parts)]
            for parts, size in zip(self.parts, self.shard_shape, strict=True)
        ]
        columns = [
            [of_dim[block] for block in self.blocks[:, dim].tolist()]
            for dim, of_dim in enumerate(pairs)
        ]
        return (
            [list(row) for row in zip(*columns, strict=True)]
            if columns
            else [[] for _ in range(self.device_count)]
        )

    def shard_bytes(self, dtype: str) -> int:
        """Bytes that each device holds."""
        return math.prod(self.shard_shape) * item_bytes(dtype)

    def array_bytes(self, dtype: str) -> int:
        """Bytes of the array, counted once."""
        return math.prod(self.shape) * item_bytes(dtype)

    def held_bytes(self, dtype: str) -> int:
        """Bytes that all devices hold together, replicas included."""
        return self.shard_bytes(dtype) * self.device_count


def layout(mesh: MeshAxes, shape: tuple[int, ...], spec: Spec) -> Layout:
    """The layout of an array of `shape` sharded by `spec`, one tuple of mesh axes per dim, major
    first.

    RequestError where the spec breaks a rule: an axis that is not in the mesh, one axis twice, a
    dim that does not divide.
    """
    sizes = dict(mesh)
    rules.check_array(
        "array", tuple((f"d{dim}", size) for dim, size in enumerate(shape)), spec, sizes
    )
    names = list(sizes)
    blocks = np.empty((*sizes.values(), len(shape)), np.int64)
    parts = []
    for dim, axes in enumerate(spec):
        count, block = 1, np.zeros([1] * len(names), np.int64)
        for axis in reversed(axes):  # the last axis is the minor one
            along = [1] * len(names)
            along[names.index(axis)] = sizes[axis]
            block = block + count * np.arange(sizes[axis]).reshape(along)
            count *= sizes[axis]
        blocks[..., dim] = block
        parts.append(count)
    return Layout(
        tuple(mesh),
        tuple(shape),
        spec,
        tuple(parts),
        blocks.reshape(math.prod(sizes.values()), len(shape)),
    )


def sharded_further(placed: Layout) -> Spec | None:
    """Returns the spec with each replicated axis over the dim whose shard is the longest of those
    that it divides; None where no axis is replicated, or one divides none.
    """
    spec, shard, sizes = list(placed.spec), list(placed.shard_shape), dict(placed.mesh)
    for axis in placed.replicated_axes:
        dims = [dim for dim, size in enumerate(shard) if size and size % sizes[axis] == 0]
        if not dims:
            return None
        longest = max(dims, key=shard.__getitem__)
        spec[longest] += (axis,)
        shard[longest] //= sizes[axis]
    return tuple(spec) if placed.replicated_axes else None


def read_element(text: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of an element, as in NumPy: `[5, 2]` or `5, -1`. RequestError where an array of
    this shape has no such element.
    """
    parts = text.strip().strip("[]()").replace(",", " ").split()
    if any(re.fullmatch("-?[0-9]{1,18}", part, re.ASCII) is None for part in parts):
        example = ", ".join(str(size - 1) for size in shape)
        raise refuse(f"element {shorten(text)}", "is not an index", f"write for example {example}")
    index = tuple(map(int, parts))
    if len(index) != len(shape):
        what = f"element [{', '.join(parts)}] of {len(index)} dims"
        raise refuse(what, f"is not of rank {len(shape)}", f"write {len(shape)} numbers")
    for dim, (at, size) in enumerate(zip(index, shape, strict=True)):
        if not -size <= at < size:
            what = f"index {at} of d{dim}"
            raise refuse(what, f"is outside an array of size {size}", f"use 0 to {size - 1}")
    return tuple(at % size for at, size in zip(index, shape, strict=True))


def layout_of(experiment: Experiment, array: str = "array") -> Layout:
    """The layout of an operand or result of an experiment."""
    shards = replace(
        layout(experiment.mesh, experiment.shape(array), experiment.spec(array)),
        dims=experiment.what.array(array).present(experiment.sizes),
    )
    ids, place = device_numbers(experiment), experiment.place
    if place.hosts > 1 and place.device_count:
        each = place.device_count // place.hosts
        return replace(shards, hosts=np.arange(shards.device_count) // each)
    return (
        shards
        if ids is None or not parse_target(experiment.target).is_absent
        else replace(shards, device_ids=ids)
    )


def device_numbers(experiment: Experiment) -> Ints | None:
    """JAX's numbers of a mesh's devices by position, [devices]; None if it is known only from the
    devices.

    On a TPU topology mesh_utils places the devices, so that the fifth device of x=8 on v5e:2x4 is
    7. Placement of a mesh that does not fill its topology is not computed.
    """
    target = parse_target(experiment.target)
    if target.kind == "cpu":
        return np.arange(experiment.device_count)
    if not target.is_absent:
        return None
    order = str(experiment.option("device_order"))
    try:
        topology = get_topology(target)
    except RequestError:  # an illegal topology has no device ids; its picture is drawn without them
        return None
    if order == "plain":
        return device_ids(topology, np.array(listed(topology)[: experiment.device_count]))
    try:
        places = mesh_places(topology, [size for _, size in experiment.mesh], order)
    except RequestError:
        return None
    return device_ids(topology, places).reshape(-1)


def dtype_of(experiment: Experiment, array: str) -> str:
    """Dtype of an operand or result: a float function of int32 operands gives float32."""
    if own := experiment.what.array(array).dtype:
        return own
    is_result = array in {result.name for result in experiment.what.results}
    return experiment.what.result_dtype(experiment.dtype) if is_result else experiment.dtype


def layout_json(experiment: Experiment, array: str = "array") -> dict[str, object]:
    """The layout as plain JSON values, with its bytes.

    Every shard has `device` (JAX's id, None if it is known only from the devices), `position` in
    the mesh's device order, and `index`, [start, stop) of each dim. `groups` are numbers of devices
    too, positions where those are not known.
    """
    shards, dtype = layout_of(experiment, array), dtype_of(experiment, array)
    ids = device_numbers(experiment)
    called = [None] * shards.device_count if ids is None else ids.tolist()
    return {
        "shards": [
            {"device": called[position], "position": position, "index": ranges}
            for position, ranges in enumerate(shards.ranges())
        ],
        "mesh": [list(axis) for axis in shards.mesh],
        "shape": list(shards.shape),
        "spec": [axes_json(axes) for axes in shards.spec],
        "dtype": dtype,
        "memory": experiment.memory_kind(array),
        "devices": shards.device_count,
        "shard_shape": list(shards.shard_shape),
        "shard_count": shards.shard_count,
        "replication": shards.replication,
        "replicated_axes": list(shards.replicated_axes),
        "groups": shards.named_groups.tolist(),
        "bytes_per_device": shards.shard_bytes(dtype),
        "bytes_array": shards.array_bytes(dtype),
        "bytes_held": shards.held_bytes(dtype),
    }


def type_text(dtype: str, shape: tuple[int, ...], spec: Spec) -> str:
    """Returns an array's type as `jax.typeof` writes it under Explicit axes.

    >>> type_text("float32", (8, 4, 2), (("x", "y"), ("z",), ()))
    'f32[8@(x,y),4@z,2]'
    """
    for name, short in _SHORT.items():
        dtype = dtype.replace(name, short)
    dims = (
        f"{size}@({','.join(axes)})" if len(axes) > 1 else "@".join((str(size), *axes))
        for size, axes in zip(shape, spec, strict=True)
    )
    return f"{dtype}[{','.join(dims)}]"


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape in words, e.g. `4 × 8`; `a scalar` where the rank is 0."""
    return " × ".join(count_text(size) for size in shape) or "a scalar"
