"""The rules of an experiment; each refusal names the value, the rule and a fix."""

import keyword
import math
import re
from collections.abc import Mapping
from typing import Any

from spmd_core.base import check_known, mesh_text, numbered, refuse, shorten
from spmd_core.experiment.options import read_in_axes
from spmd_core.fields import Axes, Fields, Mesh, Spec
from spmd_core.machine import Target, get_topology
from spmd_core.workloads import DTYPE_BYTES, STRATEGIES, Dims, Program, Workload, programs

MAX_DEVICES = 2**20  # of which a layout takes 50 MB, and its JSON 100 MB
MAX_MESH_AXES = 6
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")


def fill_dims(workload: Workload, given: Any) -> dict[str, object]:
    """Sizes in the workload's order: its defaults where none are given, else the required ones."""
    if given is not None and not given and workload.is_bare_array:
        raise refuse(
            "dims={}",
            "make an array of rank 0, which cannot be sharded",
            "name d0 at least, for example d0=8",
        )
    pairs = dict(given or ())
    needed = [dim for dim in workload.defaults if not pairs or dim not in workload.optional_dims]
    if pairs and workload.is_bare_array:  # naming its dims sets its rank: none is added
        needed = []
    return {
        dim: pairs[dim] if dim in pairs else workload.default_size(dim, pairs)
        for dim in workload.dims
        if dim in pairs or dim in needed
    } | pairs


def check_mesh(mesh: Mesh) -> None:
    """1 to 6 axes with Python identifiers as names, and at most the devices of the largest target."""
    if not 1 <= len(mesh) <= MAX_MESH_AXES:
        raise refuse(
            f"mesh with {len(mesh)} axes",
            "is not a mesh",
            f"use 1 to {MAX_MESH_AXES} axes, for example x=8",
        )
    for name, _ in mesh:
        check_axis(name)
    devices = math.prod(size for _, size in mesh)
    if devices > MAX_DEVICES:
        raise refuse(
            f"mesh of {shorten(devices)} devices",
            "is larger than anything built",
            "use smaller axes",
        )


def check_axis(name: str) -> None:
    """A name of a mesh axis is one that Python takes."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise refuse(
            f"mesh axis {shorten(name)}",
            "is not a name",
            "use letters, digits and underscores, at most 32, for example x",
        )


def check_names(what: Workload, fields: Fields) -> None:
    """Dims, dtype, strategies, and the arrays that overrides, memory and data name."""
    check_dims(what, dict(fields["dims"]))
    _check_dtype(what, fields["dtype"])
    _check_strategies(what, fields["strategies"])
    _check_arrays(what, fields)
    if what.moves and fields["memory"]:
        raise refuse(
            "memory",
            f"of {what.name} follows from its option {next(iter(what.options))}",
            "leave memory out, and choose that option",
        )
    _check_in_axes(what, dict(fields["options"]).get("in_axes"))


def check_dims(what: Workload, sizes: Dims) -> None:
    """Every dim is one of the workload's, none that it needs is missing, and their sizes are
    consistent.
    """
    for dim in sizes:
        check_known("dim", dim, what.dims, f"is not one of {what.name}")
    for dim in what.dims:
        if dim not in sizes and dim not in what.optional_dims:
            raise refuse(
                f"dims {shorten(sizes)}",
                f"lack {dim}",
                f"add {dim}, for example {dim}={what.defaults.get(dim, 8)}",
            )
    for dim, _, rule, fix in what.amended(sizes):
        raise refuse(f"{dim}={sizes[dim]}", rule, fix)
    if what.is_bare_array and tuple(sizes) != what.dims[: len(sizes)]:
        raise refuse(
            f"dims {', '.join(sizes)}", "skip one", f"use {', '.join(what.dims[: len(sizes)])}"
        )


def _check_dtype(what: Workload, dtype: str) -> None:
    if dtype not in DTYPE_BYTES:
        raise refuse(
            f"dtype {shorten(dtype)}", "is not known here", f"use {', '.join(what.dtypes)}"
        )
    if dtype not in what.dtypes:
        raise refuse(
            f"dtype {dtype}", f"makes no sense for {what.name}", f"use {', '.join(what.dtypes)}"
        )


def _check_strategies(what: Workload, strategies: tuple[str, ...]) -> None:
    if not strategies:
        raise refuse("no strategy", "is chosen", f"choose at least one, such as {_titled(what)}")
    for name in strategies:
        check_known("strategy", name, what.strategies, f"is not one of {what.name}")
        if strategies.count(name) > 1:
            raise refuse(f"strategy {name!r}", "is listed twice", "list each strategy once")


def _titled(what: Workload) -> str:
    """The workload's usual strategies, by the title on screen and the name in a spec."""
    titles = [
        title if (title := STRATEGIES[name].title) == name else f"{title} ({name})"
        for name in what.default_strategies
    ]
    return " or ".join(filter(None, (", ".join(titles[:-1]), titles[-1])))


def _check_arrays(what: Workload, fields: Fields) -> None:
    names = [array.name for array in what.arrays]
    operands = [array.name for array in what.operands]
    for field, allowed in (("overrides", names), ("memory", names), ("data", operands)):
        for name, _ in fields[field]:
            check_known(f"{field} of", name, allowed, f"names no array of {what.name}")
    for name, kind in fields["data"]:
        if kind not in what.draws:
            rule = f"makes numbers in {what.name} that no rounding error can be judged by"
            raise refuse(f"data of {name}={kind!r}", rule, f"use {' or '.join(what.draws)}")


def _check_in_axes(what: Workload, text: str | None) -> None:
    axes = None if text is None else read_in_axes(text)
    if axes and len(axes) != len(what.operands):
        operands = ", ".join(array.name for array in what.operands)
        raise refuse(
            f"in_axes={text}",
            f"has {numbered(len(axes), 'entry')}",
            f"give one for each of {operands}",
        )


def check_specs(what: Workload, fields: Fields) -> None:
    """Axes are the mesh's, none shards one array twice, sharded dims divide, overrides have the
    array's rank.
    """
    sizes, axis_sizes = dict(fields["dims"]), dict(fields["mesh"])
    table, overrides = dict(fields["sharding"]), dict(fields["overrides"])
    if what.artifact:
        overrides = _check_program(what, fields)
    for dim, axes in table.items():
        check_known("sharding of", dim, what.dims, f"names no dim of {what.name}")
        if dim not in sizes:
            raise refuse(
                f"sharding of {dim}",
                f"names a dim that is left out of {what.name} here",
                f"give {dim} a size, or leave it unsharded",
            )
        _check_axes(axes, axis_sizes)
        _check_once(axes, f"dim {dim}")
    for array in what.arrays:
        dims = tuple(zip(array.present(sizes), array.shape(sizes), strict=True))
        spec = overrides[array.name] if array.name in overrides else array.spec(sizes, table)
        of = "" if {dim for dim, _ in dims} <= {*sizes} else f" of {array.name}"
        check_array(array.name, dims, spec, axis_sizes, of, has_fixed_sizes=bool(what.artifact))


def _check_program(what: Workload, fields: Fields) -> dict[str, Spec]:
    """The specs of an exported program by array, once it fits its mesh: all of its axes are named,
    and those that its `shard_map` uses have their size; specs are given by pattern.
    """
    for field in ("sharding", "overrides", "memory", "data"):
        if fields[field]:
            fix = 'use specs, for example {"blocks/*/up": ["x", null]}'
            raise refuse(f"{field} of {what.name}", "is not read", fix)
    mesh, described = fields["mesh"], programs.find(what.artifact or "")
    for axis, size in described.mesh:  # of none, any mesh is given to it
        now = dict(mesh).get(axis)
        if now is None:
            raise refuse(
                f"mesh {mesh_text(mesh)}",
                f"lacks axis {axis} of the program",
                f"add {axis}={size}, or {axis}=1",
            )
        if axis in described.manual_axes and now != size:
            rule = "is used inside shard_map, where shapes and groups are those of its mesh"
            raise refuse(f"mesh axis {axis}={now}", rule, f"use {axis}={size}")
    if described.mesh and [axis for axis, _ in mesh] != [axis for axis, _ in described.mesh]:
        raise refuse(
            f"mesh {mesh_text(mesh)}",
            "has other axes than the program, or in another order",
            f"write {mesh_text(dict(described.mesh) | dict(mesh))}"
            if len(mesh) == len(described.mesh)
            else f"use {', '.join(dict(described.mesh))} alone",
        )
    program = Program(described, mesh, fields["specs"], dict(fields["dims"]))
    for source, spec in program.constraints:
        _check_constraint(source, spec, program)
    return program.array_specs()


def _check_constraint(source: str, spec: Spec, program: Program) -> None:
    name, _, line = source.rpartition(":")
    files = [file.rpartition("/")[2] for file in program.described.files]
    if name not in files or not (line.isascii() and line.isdigit()):
        raise refuse(
            f"spec of value {shorten(source)}",
            "names no line of the program's files",
            f"write @FILE:LINE with a file of {shorten(', '.join(files) or 'none')}",
        )
    axes = tuple(axis for entry in spec for axis in entry)
    _check_axes(axes, dict(program.mesh))
    _check_once(axes, f"the value of {source}")


def check_array(
    array: str,
    dims: Mesh,
    spec: Spec,
    axis_sizes: Mapping[str, int],
    of: str = "",
    has_fixed_sizes: bool = False,
) -> None:
    """One array's spec, an entry per (dim, size): axes of the mesh, each once, and dims divide. `of`
    names the array beside a dim whose name other arrays have for dims of their own;
    `has_fixed_sizes`: its sizes are part of a program, and the mesh alone may change.
    """
    if len(spec) != len(dims):
        raise refuse(
            f"spec of {array} with {numbered(len(spec), 'entry')}",
            f"does not fit its rank {len(dims)}",
            f"give one entry for each of {', '.join(dim for dim, _ in dims) or 'no dims'}",
        )
    used: dict[str, str] = {}
    for (dim, size), axes in zip(dims, spec, strict=True):
        _check_axes(axes, axis_sizes)
        _check_once(axes, f"dim {dim} of {array}")
        for axis in axes:
            if axis in used:
                raise refuse(
                    f"mesh axis {axis!r}",
                    f"shards both {used[axis]} and {dim} of {array}",
                    f"shard one of them over another axis, or override {array}",
                )
            used[axis] = dim
        _check_divides(dim, size, axes, axis_sizes, of, has_fixed_sizes)


def _check_axes(axes: Axes, axis_sizes: Mapping[str, int]) -> None:
    for axis in axes:
        if axis not in axis_sizes:
            raise refuse(
                f"mesh axis {shorten(axis)}",
                "is not in the mesh",
                f"use {', '.join(axis_sizes)}, or leave the dim unsharded",
            )


def _check_once(axes: Axes, where: str) -> None:
    for axis in axes:
        if axes.count(axis) > 1:
            raise refuse(f"mesh axis {axis!r}", f"is used twice on {where}", "name each axis once")


def _check_divides(
    dim: str, size: int, axes: Axes, axis_sizes: Mapping[str, int], of: str, has_fixed_sizes: bool
) -> None:
    parts = math.prod(axis_sizes[axis] for axis in axes)
    if size % parts == 0:
        return
    names = " and ".join(f"{axis}={axis_sizes[axis]}" for axis in axes)
    below, above = size // parts * parts, -(-size // parts) * parts
    sizes = f"{dim}={below} or {above}" if below else f"{dim}={above}"
    if len(axes) == 1 and (less := _dividing(parts, size)[0]) > 1:
        sizes += f", {axes[0]}={less}"  # an axis that was touched is mended as well as a dim
    if has_fixed_sizes:
        known = ((axis, _dividing(axis_sizes[axis], size)) for axis in axes)
        sizes = " and ".join(f"{axis}={' or '.join(map(str, each))}" for axis, each in known)
    noun = "axis" if len(axes) == 1 else "axes"
    raise refuse(
        f"{dim}={size}{of}",
        f"does not divide over mesh {noun} {names}",
        f"use {sizes}, or leave {dim} unsharded",
    )


def _dividing(length: int, size: int) -> tuple[int, ...]:
    """Returns the lengths of an axis next to its own that divide a size: one below, and one above, which
    may need more devices than there are.
    """
    below = next(each for each in range(length, 0, -1) if size % each == 0)
    above = next((each for each in range(length + 1, 2 * length + 1) if size % each == 0), None)
    return (below, above) if above else (below,)


def check_fits_target(mesh: Mesh, target: Target, device_count: int | None = None) -> None:
    """The mesh fits the target; `device_count` is the number of its devices, if known."""
    available = target.device_count if device_count is None else device_count
    devices = math.prod(size for _, size in mesh)
    if available is not None and devices > available:
        axes = mesh_text(mesh)
        raise refuse(
            f"mesh {axes} of {devices} devices",
            f"is larger than target {target.text} with {available}",
            f"use at most {available} devices, or another target",
        )


def check_count(mesh: Mesh, target: Target) -> None:
    """The mesh fits the target, where the number of its devices is known without asking it."""
    check_fits_target(mesh, target, get_topology(target).devices if target.is_absent else None)


def check_compiles(what: Workload, target: Target) -> None:
    """There is something to compile for a compile-only topology: a computation of arrays."""
    if not (what.results or what.compile_only or what.has_formula):
        raise refuse(
            f"workload {what.name}",
            f"has nothing to compile for {target.text}",
            "use a computation, for example layer, or a target such as cpu:8",
        )


def check_traces(options: tuple[tuple[str, Any], ...], target: Target) -> None:
    """A trace is requested only if something runs."""
    if target.is_absent and dict(options).get("trace"):
        raise refuse(
            "trace=true",
            f"finds nothing to trace on {target.text}, where nothing runs",
            "leave trace out, or choose a target such as cpu:8",
        )
