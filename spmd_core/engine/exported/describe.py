"""Reads a file of `jax.export` in a process of its own, whose memory and time are bounded: `python
-m spmd_core.engine.exported.describe FD`, which reads GIVEN and KEPT.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from jax import export
from jax._src.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from spmd_core.base import RequestError, answer, refuse
from spmd_core.engine.exported.allowed import (
    check_arrays,
    check_axes,
    check_module,
    check_paths,
    operations,
)
from spmd_core.engine.exported.by_hand import fixed_axes
from spmd_core.engine.exported.flops import flops_of
from spmd_core.engine.exported.leaves import leaves, paths
from spmd_core.engine.exported.module import (
    Main,
    module_of,
    own_files,
    parsed,
    printed,
    serialized,
    with_short_paths,
)
from spmd_core.fields import Mesh
from spmd_core.workloads import Described, programs

_TEXTS = {  # of other files: what they begin with
    b"HloModule ": "HLO text",
    b"\nML\xefR": "StableHLO bytecode",  # a file of jax.export has it later
    b"stablehlo.": "StableHLO text",
    b"{ lambda ": "a jaxpr",
    b"\ndef ": "Python source",
}
MOST_LEAVES = 20_000
MOST_SYMBOLS, MOST_RESIZED = 2, 2**20  # symbols, and characters of a module, that are resized
SIZES, CHECKED = (64, 128, 256), 512  # of each symbol: FLOPs are at most quadratic in one
_VERSION = re.compile(rb"StableHLO_v(\d{1,4}\.\d{1,4}\.\d{1,4})")
_DECLARED = ("sdy.mesh", "func.func")  # whose attributes hold the axes of a mesh and of arguments
_NAMING = ("sdy.sharding", "sharding", "in_shardings", "out_shardings", "manual_axes")
_QUOTED = re.compile(r'"([^"]*)"')
_NEWER = re.compile(r"version|newer", re.IGNORECASE)


def described_file(given: Path, kept: Path) -> str:
    """The description of the file `given`; `kept` is then the file with short source paths."""
    exported = read(given.read_bytes())
    described, module = describe(exported)
    kept.write_bytes(dataclasses.replace(exported, mlir_module_serialized=module).serialize())
    return described.model_dump_json()


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
        begins = b"\n" + data[:4096]
        other = next((kind for mark, kind in _TEXTS.items() if mark in begins), None)
        known = f"is {other}, and no program of jax.export"
        unknown = "is not a file of jax.export, or is damaged"
        raise refuse("this file", known if other else unknown, programs.HOW) from error
    if size > MOST_LEAVES:
        raise refuse(
            f"{size:,} arguments and outputs",
            f"are more than {MOST_LEAVES:,}",
            "stack the arrays of repeated layers",
        )
    if not exported.out_avals:
        raise refuse(
            "this program", "returns nothing, so that there is nothing to compile", programs.HOW
        )
    if not exported.module_kept_var_idx:
        fix = "pass the arrays that it computes with as arguments"
        raise refuse("this program", "uses no argument, so that there is nothing to shard", fix)
    check_arrays((*exported.in_avals, *exported.out_avals))
    check_paths([*paths(exported.in_tree, None), *paths(exported.out_tree, None)])
    return dataclasses.replace(exported, disabled_safety_checks=(), _get_vjp=None)


def describe(exported: export.Exported, is_own: bool = False) -> tuple[Described, bytes]:
    """What a program is, and its module with short source paths; with full ones if it `is_own`,
    handed over by the process that this one works for.
    """
    with mlir.make_ir_context():
        module = _module_of(exported)
        kernels = check_module(module)
        text = printed(module)
        module = parsed(text if is_own else with_short_paths(text))
        kept = serialized(module)
        symbols = ir.SymbolTable(module.operation)
        if "main" not in symbols:
            raise refuse("the module of this file", "has no main function", programs.HOW)
        _check_shardings(exported, symbols["main"])
        mesh = mesh_of(module, exported.nr_devices)
        manual, named = manual_axes(module, mesh), named_axes(module, mesh)
        flops = flops_of(module, exported.platforms)
        unsized = printed(module)
        arguments, outputs = leaves(exported, module, mesh)  # changes the module
        described = Described(
            program="",
            name="",
            function=exported.fun_name[:200],
            platforms=exported.platforms,
            mesh=mesh,
            devices=exported.nr_devices,
            symbols=_symbols(exported),
            manual_axes=manual,
            named_axes=named,
            kernels=kernels,
            files=own_files(text, is_own),
            bytes=0,
            flops=flops,
            arguments=arguments,
            outputs=outputs,
        )
        return described.model_copy(update={"flops_at": _flops_at(described, unsized)}), kept


def _flops_at(described: Described, text: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    """The FLOPs at a grid of sizes of the symbols, from which those of others follow; () where
    they do not, or where counting them would take long.
    """
    symbols, platforms = described.symbols, described.platforms
    if not 0 < len(symbols) <= MOST_SYMBOLS or len(text) > MOST_RESIZED:
        return ()
    best = next((each for each in platforms if each != "cpu"), platforms[0])
    counted = []
    for point in (*itertools.product(SIZES, repeat=len(symbols)), (CHECKED,) * len(symbols)):
        sizes = dict(zip(symbols, point, strict=True))
        module = parsed(text)
        main = Main(module)
        try:
            main.choose_platform(platforms, best)
            main.resize(described.kept_shapes(sizes))
            counted.append((point, flops_of(mlir.refine_polymorphic_shapes(module))))
        except (RequestError, ValueError, ir.MLIRError):  # the symbols exclude such sizes
            return ()
    *grid, (_, expected) = counted
    fitted = described.model_copy(update={"flops_at": tuple(grid)})
    return fitted.flops_at if fitted.flops_of(sizes) == expected else ()


def _module_of(exported: export.Exported) -> ir.Module:
    try:
        return module_of(exported)
    except Exception as error:  # any error that the parser raises
        if (newer := _newer_version(exported.mlir_module_serialized)) is not None:
            rule = f"is of StableHLO {newer}, which JAX {jax.__version__} cannot read"
            fix = f"export it with JAX {jax.__version__} or an earlier version"
            raise refuse("the module of this file", rule, fix) from error
        raise refuse(
            "the module of this file", "cannot be read, or is damaged", programs.HOW
        ) from error


def _newer_version(module: bytes) -> str | None:
    if (match := _VERSION.search(module[:64])) is None:
        return None
    own = stablehlo.get_current_version().split(".")
    theirs = match[1].decode()
    return theirs if [*map(int, theirs.split("."))] > [*map(int, own)] else None


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


def mesh_of(module: ir.Module, devices: int) -> Mesh:
    """The mesh of the program: the first one of all its devices; () of one without shardings."""
    fitting = (mesh for mesh in _meshes(module) if math.prod(size for _, size in mesh) == devices)
    mesh = next(fitting, ())
    check_axes(mesh)
    return mesh


def _meshes(module: ir.Module) -> Iterator[Mesh]:
    every: Any = module.body.operations
    meshes = [sdy.MeshAttr(op.mesh) for op in every if op.operation.name == "sdy.mesh"]
    axes = ([sdy.MeshAxisAttr(axis) for axis in mesh.axes] for mesh in meshes)
    named = (tuple((str(axis.name), int(axis.size)) for axis in each) for each in axes)
    return iter(dict.fromkeys(mesh for mesh in named if mesh))


def _symbols(exported: export.Exported) -> tuple[str, ...]:
    symbols: dict[str, None] = {}
    for aval in exported.in_avals:
        for size in aval.shape:
            if not isinstance(size, int):
                symbols |= dict.fromkeys(sorted(size._get_vars()))
    return tuple(symbols)


def manual_axes(module: ir.Module, mesh: Mesh) -> tuple[str, ...]:
    """Returns the axes whose sizes are part of the program: all where it has several meshes."""
    if len(list(_meshes(module))) > 1:
        return tuple(name for name, _ in mesh)
    return fixed_axes(module, mesh)


def named_axes(module: ir.Module, mesh: Mesh) -> tuple[str, ...]:
    """Returns the axes that a program itself names, in constraints and `shard_map`s."""
    inside = (op for op in operations(module.operation) if op.name not in _DECLARED)
    texts = {str(op.attributes[name]) for op in inside for name in _NAMING if name in op.attributes}
    named = set[str]().union(*(_QUOTED.findall(text) for text in texts))
    return tuple(axis for axis, _ in mesh if axis in named)


if __name__ == "__main__":
    answer(lambda *files: described_file(*map(Path, files)), waits=True)
