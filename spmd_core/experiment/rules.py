"""The rules that an experiment must keep, each refusal naming the value, the rule and a fix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spmd_core.errors import refuse, shorten
from spmd_core.experiment.options import read_in_axes
from spmd_core.machine.targets import parse_target
from spmd_core.workloads.strategies import STRATEGIES
from spmd_core.workloads.workload import DTYPE_BYTES, Workload

if TYPE_CHECKING:
    from spmd_core.experiment.experiment import Experiment
    from spmd_core.experiment.types import Axes, Spec


def fill_dims(workload: Workload, given: Any) -> dict[str, Any]:
    """Sizes in the workload's order: its defaults where none are given, else the required ones that lack."""
    if given is not None and not given and workload.name == "array":
        raise refuse("dims={}", "make an array of rank 0, which cannot be sharded", "name d0 at least, for example d0=8")
    pairs = dict(given or ())
    given_rank = pairs and workload.name == "array"  # a rank is chosen by naming its dims: none is added
    needed = [] if given_rank else [dim for dim in workload.defaults if not pairs or dim not in workload.optional_dims]
    sizes = {dim: pairs[dim] if dim in pairs else workload.default_size(dim, pairs) for dim in workload.dims if dim in pairs or dim in needed}
    return sizes | pairs


def check_workload_fields(experiment: Experiment, what: Workload) -> None:
    """Dims, dtype, strategies, and the names in sharding, overrides, memory and data."""
    _check_dims(experiment, what)
    if experiment.dtype not in DTYPE_BYTES:
        raise refuse(f"dtype {shorten(experiment.dtype)}", "is not known here", f"use {', '.join(what.dtypes)}")
    if experiment.dtype not in what.dtypes:
        raise refuse(f"dtype {experiment.dtype}", f"makes no sense for {what.name}", f"use {', '.join(what.dtypes)}")
    if not experiment.strategies:
        raise refuse("strategies=[]", "leaves nothing to run", f"name at least one of {', '.join(what.strategies)}")
    for name in experiment.strategies:
        if name not in STRATEGIES or name not in what.strategies:
            raise refuse(f"strategy {shorten(name)}", f"is not one of {what.name}", f"use {', '.join(what.strategies)}")
        if experiment.strategies.count(name) > 1:
            raise refuse(f"strategy {name!r}", "is listed twice", "list each strategy once")
    names = [array.name for array in what.arrays]
    operands = [array.name for array in what.operands]
    for field, allowed in (("overrides", names), ("memory", names), ("data", operands)):
        for name, _ in getattr(experiment, field):
            if name not in allowed:
                raise refuse(f"{field} of {shorten(name)}", f"names no array of {what.name}", f"use {', '.join(allowed) or 'none'}")
    for name, kind in experiment.data:
        if kind not in what.draws:
            raise refuse(f"data of {name}={kind!r}", f"makes numbers in {what.name} that no rounding error can be judged by",
                         f"use {' or '.join(what.draws)}")
    if what.moves and experiment.memory:
        raise refuse("memory", f"of {what.name} follows from its option {next(iter(what.options))}", "leave memory out, and choose that option")
    if (axes := read_in_axes(experiment.option("in_axes")) if "in_axes" in dict(experiment.options) else None) and len(axes) != len(operands):
        raise refuse(f"in_axes={experiment.option('in_axes')}", f"has {len(axes)} {'entry' if len(axes) == 1 else 'entries'}",
                     f"give one for each of {', '.join(operands)}")


def _check_dims(experiment: Experiment, what: Workload) -> None:
    sizes = experiment.sizes
    for dim in sizes:
        if dim not in what.dims:
            raise refuse(f"dim {shorten(dim)}", f"is not one of {what.name}", f"use {', '.join(what.dims) or 'none'}")
    for dim in what.dims:
        if dim not in sizes and dim not in what.optional_dims:
            raise refuse(f"dims {shorten(sizes)}", f"lack {dim}", f"add {dim}, for example {dim}={what.defaults.get(dim, 8)}")
    for dim, _, rule, fix in what.amended(sizes):
        raise refuse(f"{dim}={sizes[dim]}", rule, fix)
    if what.name == "array" and tuple(sizes) != what.dims[: len(sizes)]:
        raise refuse(f"dims {', '.join(sizes)}", "skip one", f"use {', '.join(what.dims[: len(sizes)])}")


def check_specs(experiment: Experiment, what: Workload) -> None:
    """Every axis is one of the mesh, none cuts one array twice, every cut dim divides, overrides have the array's rank."""
    axis_sizes = experiment.axis_sizes
    for dim, axes in experiment.sharding:
        if dim not in what.dims:
            raise refuse(f"sharding of {shorten(dim)}", f"names no dim of {what.name}", f"use {', '.join(what.dims) or 'none'}")
        if dim not in experiment.sizes:
            raise refuse(f"sharding of {dim}", f"names a dim that is left out of {what.name} here", f"give {dim} a size, or leave it unsharded")
        _check_axes(axes, axis_sizes)
        _check_once(axes, f"dim {dim}")
    for array in what.arrays:
        dims = tuple((dim, experiment.sizes[dim]) for dim in array.present(experiment.sizes))
        check_array(array.name, dims, experiment.spec(array.name), axis_sizes)


def check_array(array: str, dims: tuple[tuple[str, int], ...], spec: Spec, axis_sizes: Mapping[str, int]) -> None:
    """One array's spec, an entry per dim: its axes are of the mesh, each cuts the array once, and every cut dim divides."""
    if len(spec) != len(dims):
        raise refuse(f"spec of {array} with {len(spec)} {'entry' if len(spec) == 1 else 'entries'}", f"does not fit its rank {len(dims)}",
                     f"give one entry for each of {', '.join(dim for dim, _ in dims) or 'no dims'}")
    used: dict[str, str] = {}
    for (dim, size), axes in zip(dims, spec, strict=True):
        _check_axes(axes, axis_sizes)
        _check_once(axes, f"dim {dim} of {array}")
        for axis in axes:
            if axis in used:
                raise refuse(f"mesh axis {axis!r}", f"cuts both {used[axis]} and {dim} of {array}",
                             f"shard one of them over another axis, or override {array}")
            used[axis] = dim
        _check_divides(dim, size, axes, axis_sizes)


def _check_axes(axes: Axes, axis_sizes: Mapping[str, int]) -> None:
    for axis in axes:
        if axis not in axis_sizes:
            raise refuse(f"mesh axis {shorten(axis)}", "is not in the mesh", f"use {', '.join(axis_sizes)}, or leave the dim unsharded")


def _check_once(axes: Axes, where: str) -> None:
    for axis in axes:
        if axes.count(axis) > 1:
            raise refuse(f"mesh axis {axis!r}", f"is used twice on {where}", "name each axis once")


def _check_divides(dim: str, size: int, axes: Axes, axis_sizes: Mapping[str, int]) -> None:
    parts = math.prod(axis_sizes[axis] for axis in axes)
    if size % parts == 0:
        return
    names = " and ".join(f"{axis}={axis_sizes[axis]}" for axis in axes)
    below, above = size // parts * parts, -(-size // parts) * parts
    sizes = f"{below} or {above}" if below else f"{above}"
    noun = "axis" if len(axes) == 1 else "axes"
    raise refuse(f"{dim}={size}", f"does not divide over mesh {noun} {names}", f"use {sizes}, or leave {dim} unsharded")


def check_fits_target(experiment: Experiment, device_count: int | None = None) -> None:
    """The mesh fits the target. `device_count` is what the devices themselves said, where they were asked."""
    available = device_count if device_count is not None else parse_target(experiment.target).device_count
    if available is not None and experiment.device_count > available:
        mesh = ", ".join(f"{name}={size}" for name, size in experiment.mesh)
        raise refuse(f"mesh {mesh} of {experiment.device_count} devices", f"is larger than target {experiment.target} with {available}",
                     f"use at most {available} devices, or another target")
