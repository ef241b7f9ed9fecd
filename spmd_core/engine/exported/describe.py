"""Reads a file of `jax.export` in a process of its own, whose memory and time are bounded: `python -m
spmd_core.engine.exported.describe FD GIVEN KEPT`.
"""

import dataclasses
import os
import re
import sys
from pathlib import Path
from typing import Any

import jax
from jax import export
from jax._src.interpreters import mlir
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

from spmd_core.base import RequestError, refuse
from spmd_core.engine.exported.allowed import check_module, operations
from spmd_core.engine.exported.module import (
    own_files,
    parsed,
    printed,
    serialized,
    with_short_paths,
)
from spmd_core.experiment import Described, Leaf, with_replaced

HOW = "docs/your_program.md shows the lines that write one"
MOST_LEAVES = 20_000
_BY_HAND = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_to_all", "reduce_scatter", "collective_permute"),
        *("collective_broadcast", "partition_id", "replica_id"),
    )
)
_NEWER = re.compile(r"version|newer", re.IGNORECASE)


def main() -> None:
    """Write the description, or `!` and why there is none, to the file descriptor; and the file
    with short source paths to KEPT.
    """
    answer, given, kept = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    os.set_inheritable(answer, False)
    try:
        exported = read(given.read_bytes())
        described, module = describe(exported)
        kept.write_bytes(dataclasses.replace(exported, mlir_module_serialized=module).serialize())
        text = described.model_dump_json()
    except RequestError as error:
        text = f"!{error}"
    with os.fdopen(answer, "w") as file:
        file.write(text)


def read(data: bytes) -> export.Exported:
    """The program of a file; RequestError where it is none, or one that this JAX cannot read. What
    the file states on safety checks is left out, and so are its derivatives.
    """
    try:
        exported = export.deserialize(bytearray(data))
        size = len(exported.in_avals) + len(exported.out_avals)
    except Exception as error:  # any error that a parser raises on bytes of another format
        reason = " ".join(str(error).split())[:120]
        if _NEWER.search(reason):
            fix = f"export it with JAX {jax.__version__} or an earlier version"
            raise refuse(
                "this file", f"cannot be read by JAX {jax.__version__} ({reason})", fix
            ) from error
        raise refuse("this file", "is no program of jax.export, or is damaged", HOW) from error
    if size > MOST_LEAVES:
        raise refuse(
            f"{size:,} arguments and outputs",
            f"are more than {MOST_LEAVES:,}",
            "stack the arrays of repeated layers",
        )
    return dataclasses.replace(exported, disabled_safety_checks=(), _get_vjp=None)


def describe(exported: export.Exported) -> tuple[Described, bytes]:
    """What a program is, and its module with short source paths."""
    with mlir.make_ir_context():
        try:
            module = exported.mlir_module(serialized=False)
        except Exception as error:  # any error that the parser raises
            raise refuse("the module of this file", "cannot be read, or is damaged", HOW) from error
        kernels = check_module(module)
        text = printed(module)
        module = parsed(with_short_paths(text))
        kept = serialized(module)
        symbols = ir.SymbolTable(module.operation)
        if "main" not in symbols:
            raise refuse("the module of this file", "has no main function", HOW)
        _check_shardings(exported, symbols["main"])
        mesh = _mesh(module, exported.nr_devices)
        manual = _manual_axes(module, tuple(name for name, _ in mesh))
        arguments, outputs = _leaves(exported, module, symbols["main"])  # changes the module
        described = Described(
            program="",
            name="",
            function=exported.fun_name[:200],
            platforms=exported.platforms,
            mesh=mesh,
            devices=exported.nr_devices,
            symbols=_symbols(exported),
            manual_axes=manual,
            kernels=kernels,
            files=own_files(text),
            bytes=0,
            arguments=arguments,
            outputs=outputs,
        )
        return described, kept


def _check_shardings(exported: export.Exported, main: Any) -> None:
    given = [ir.DictAttr(each) for each in (*main.arg_attrs, *main.result_attrs)]
    gspmd, shardy = (
        any(name in each for each in given) for name in ("mhlo.sharding", "sdy.sharding")
    )
    if exported.nr_devices > 1 and gspmd and not shardy:
        raise refuse(
            "this program",
            "was exported without Shardy, so that it names no mesh axes",
            "export it with a JAX of 2025 or later, and no jax_use_shardy_partitioner=False",
        )


def _mesh(module: ir.Module, devices: int) -> tuple[tuple[str, int], ...]:
    """The mesh of the program: the first one of all its devices."""
    operations: Any = module.body.operations
    for op in operations:
        if op.operation.name == "sdy.mesh":
            axes = [sdy.MeshAxisAttr(axis) for axis in sdy.MeshAttr(op.mesh).axes]
            mesh = tuple((str(axis.name), int(axis.size)) for axis in axes)
            if mesh and devices > 1:
                return mesh
    return ()


def _symbols(exported: export.Exported) -> tuple[str, ...]:
    symbols: dict[str, None] = {}
    for aval in exported.in_avals:
        for size in aval.shape:
            if not isinstance(size, int):
                symbols |= dict.fromkeys(sorted(size._get_vars()))
    return tuple(symbols)


def _manual_axes(module: ir.Module, every: tuple[str, ...]) -> tuple[str, ...]:
    """The axes whose sizes are part of the program: those of `shard_map`, and all of them where it
    communicates by hand, since the groups of a collective are numbers of devices.
    """
    manual: dict[str, None] = {}
    for op in operations(module.operation):
        if op.name in _BY_HAND:
            return every
        if op.name == "sdy.manual_computation":
            axes = sdy.ManualAxesAttr(op.attributes["manual_axes"])
            manual |= dict.fromkeys(str(getattr(axis, "value", axis)) for axis in axes)
    return tuple(manual)


def _leaves(
    exported: export.Exported, module: ir.Module, main: Any
) -> tuple[tuple[Leaf, ...], tuple[Leaf, ...]]:
    given = [ir.DictAttr(each) for each in main.arg_attrs]
    first = len(given) - len(exported.module_kept_var_idx)
    kept = dict(zip(exported.module_kept_var_idx, given[first:], strict=True))
    indexed = _indexed(main)
    names = _argument_names(main, first, exported)
    arguments = tuple(
        Leaf(
            path=path,
            sizes=tuple(map(str, aval.shape)),
            dtype=str(aval.dtype),
            spec=_spec(kept[number]) if number in kept else (),
            is_donated=number in kept
            and any(name in kept[number] for name in ("jax.buffer_donor", "tf.aliasing_output")),
            is_kept=number in kept,
            index_below=indexed.get(exported.module_kept_var_idx.index(number) + first)
            if number in kept
            else None,
        )
        for number, (path, aval) in enumerate(
            zip(_paths(exported.in_tree, names), exported.in_avals, strict=True)
        )
    )
    outputs = _outputs(exported, main)
    if {leaf.path for leaf in outputs} & {leaf.path for leaf in arguments}:
        outputs = tuple(leaf.model_copy(update={"path": f"output/{leaf.path}"}) for leaf in outputs)
    propagated = _propagated(module, len(outputs)) if exported.nr_devices > 1 else ()
    outputs = tuple(
        leaf.model_copy(update={"propagated": spec})
        for leaf, spec in zip(outputs, propagated or (None,) * len(outputs), strict=True)
    )
    return arguments, with_replaced(arguments, outputs)


def _outputs(exported: export.Exported, main: Any) -> tuple[Leaf, ...]:
    results = [ir.DictAttr(each) for each in main.result_attrs]
    results = results[len(results) - len(exported.out_avals) :]
    return tuple(
        Leaf(path=path, sizes=tuple(map(str, aval.shape)), dtype=str(aval.dtype), spec=_spec(attrs))
        for path, aval, attrs in zip(
            _paths(exported.out_tree, None), exported.out_avals, results, strict=True
        )
    )


def _paths(tree: Any, names: list[str] | None) -> list[str]:
    """The path of each leaf, its parts separated by `/`; `names` are those of the arguments, of
    which a single one is left out: its paths are enough.
    """
    numbered = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    paths = []
    for path, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]:
        parts = [_part(key) for key in path]
        if names is not None:  # (arguments, arguments by name)
            is_named, (place, *rest) = parts[0] == "1", parts[1:]
            by_name = is_named or int(place) >= len(names)
            alone = len(names) == 1 and rest
            parts = rest if alone else [place if by_name else names[int(place)], *rest]
        paths.append("/".join(parts) or "output")
    return paths


def _part(key: Any) -> str:
    return jax.tree_util.keystr((key,), simple=True)


def _argument_names(main: Any, first: int, exported: export.Exported) -> list[str]:
    """The names of the function's arguments, from the locations of their arrays; their numbers
    where these have none.
    """
    numbered = jax.tree_util.tree_unflatten(exported.in_tree, range(exported.in_tree.num_leaves))
    places = {each: place for place, each in enumerate(exported.module_kept_var_idx)}
    locations = [str(argument.location) for argument in main.arguments]
    names = []
    for number, argument in enumerate(numbered[0]):
        kept = [places[leaf] for leaf in jax.tree_util.tree_leaves(argument) if leaf in places]
        match = re.match(r'loc\("([A-Za-z_]\w*)', locations[kept[0] + first]) if kept else None
        names.append(match[1] if match else str(number))
    return names if len(set(names)) == len(names) else [str(number) for number in range(len(names))]


def _spec(attributes: ir.DictAttr) -> tuple[tuple[str, ...], ...] | None:
    """The spec of an argument or result, by its attributes; None where it has none."""
    if "sdy.sharding" not in attributes:
        return None
    sharding = sdy.TensorShardingAttr(attributes["sdy.sharding"])
    dims = [sdy.DimensionShardingAttr(dim) for dim in sharding.dimension_shardings]
    return tuple(tuple(str(sdy.AxisRefAttr(axis).name) for axis in dim.axes) for dim in dims)


def _indexed(main: Any) -> dict[int, int]:
    """Number of an integer argument -> size of the dim that it indexes, where it goes into a gather
    by itself, through conversions and reshapes alone.
    """
    indexes: dict[int, int] = {}
    for number, argument in enumerate(main.arguments):
        if "i32" in str(argument.type) or "i8" in str(argument.type) or "ui" in str(argument.type):
            size = _smallest_gathered(argument)
            if size is not None:
                indexes[number] = size
    return indexes


_THROUGH = (
    "convert",
    "reshape",
    "broadcast_in_dim",
    "select",
    "add",
    "concatenate",
    "slice",
    "dynamic_slice",
    "transpose",
    "clamp",
    "maximum",
    "minimum",
    "optimization_barrier",
)


def _smallest_gathered(value: Any) -> int | None:
    """The smallest dim that a value indexes; None where it indexes none."""
    waiting, seen, sizes = [value], set(), []
    while waiting and len(seen) < 2000:
        at = waiting.pop()
        for use in at.uses:
            op = use.owner
            if hash(op) in seen:
                continue
            seen.add(hash(op))
            name = op.operation.name.removeprefix("stablehlo.")
            if name == "gather" and use.operand_number == 1:
                sizes.append(_indexed_dim(op))
            elif name in _THROUGH:
                waiting += list(op.operation.results)
    return min((size for size in sizes if size is not None), default=None)


def _indexed_dim(op: Any) -> int | None:
    numbers = re.search(
        r"start_index_map = \[(\d+)", str(op.operation.attributes["dimension_numbers"])
    )
    shape = ir.RankedTensorType(op.operation.operands[0].type).shape
    return int(shape[int(numbers[1])]) if numbers else None


def _propagated(module: ir.Module, outputs: int) -> tuple[tuple[tuple[str, ...], ...] | None, ...]:
    """The specs that Shardy gives the outputs; () where it is not available."""
    try:
        passmanager.PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(
            module.operation
        )
    except Exception:  # the pass is the library's own: without it they are not known
        return ()
    main: Any = ir.SymbolTable(module.operation)["main"]
    specs = [_spec(ir.DictAttr(each)) for each in main.result_attrs]
    return tuple(specs[len(specs) - outputs :])


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)
