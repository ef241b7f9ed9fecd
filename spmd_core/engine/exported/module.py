"""The module of an exported program as text: read, written, with short paths and all branches, and
on another mesh.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from jax import export
from jax._src.interpreters import mlir
from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from spmd_core.fields import Mesh, Spec
from spmd_core.workloads import programs

_NUMBER = "tensor<i32>"  # of a branch


def take_branches(module: ir.Module, chosen: ir.Value, number: int) -> None:
    """Put the operations of the branch that `number` chooses in the place of each `case` whose
    index is the value `chosen`, or what such a branch gives; also in functions and regions that it
    is passed to.
    """
    functions = ir.SymbolTable(module.operation)
    waiting, seen = [(chosen, number)], set[ir.Value]()
    while waiting:
        value, known = waiting.pop()
        while (case := _case_of(value)) is not None:
            waiting += _unwrap(case, known)
        if value in seen:
            continue
        seen.add(value)
        for use in list(value.uses):
            op = use.owner.operation
            if op.name == "stablehlo.convert":
                waiting.append((op.results[0], known))
            elif _is_constant(value):
                continue  # other calls of the function may pass another number
            elif op.name == "func.call":
                callee: Any = functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
                waiting.append((callee.entry_block.arguments[use.operand_number], known))
            elif op.name == "sdy.manual_computation":
                block = op.regions[0].blocks[0]
                waiting.append((block.arguments[use.operand_number], known))


def _case_of(value: ir.Value) -> ir.Operation | None:
    """A `case` whose index is a value; one at a time, since its branches may have others."""
    users = (use.owner.operation for use in value.uses)
    return next((op for op in users if op.name == "stablehlo.case"), None)


def _is_constant(value: ir.Value) -> bool:
    return getattr(getattr(value.owner, "operation", None), "name", "") == "stablehlo.constant"


def _unwrap(case: ir.Operation, number: int) -> Iterator[tuple[ir.Value, int]]:
    """Put a branch in the place of its `case`; the numbers that it gives."""
    last = len(case.regions) - 1
    branch = case.regions[number if 0 <= number <= last else last].blocks[0]
    *inner, returned = branch.operations
    for each in inner:
        each.operation.move_before(case)
    values = list(returned.operation.operands)
    for result, value in zip(case.results, values, strict=True):
        result.replace_all_uses_with(value)
    case.erase()
    for value in values:
        if _is_constant(value) and str(value.type) == _NUMBER:
            made = value.owner.operation
            yield value, int(np.array(ir.DenseIntElementsAttr(made.attributes["value"])))


_FILE = re.compile(r'(loc\(")((?:[^"\\]|\\.)*)(":\d)')
_LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "<frozen ")
_MESH = re.compile(r"^ *sdy\.mesh @.*$", re.MULTILINE)
_AXIS = re.compile(r'"(\w+)"=(\d+)')
_MODULE = re.compile(r"^module @.*\{$", re.MULTILINE)
_ALIAS = "tf.aliasing_output"
_SHARDINGS = ("sdy.sharding", "mhlo.sharding")
_PARTITIONS = re.compile(r"(mhlo\.num_partitions = )\d+")


def printed(module: ir.Module) -> str:
    """A module as text, with its locations."""
    return str(module.operation.get_asm(enable_debug_info=True))


def parsed(text: str) -> ir.Module:
    """The module of a text, in the current context."""
    return ir.Module.parse(text)


def module_of(exported: export.Exported) -> ir.Module:
    """The module of an exported program, in the current context; what a parser raises is raised."""
    try:
        return exported.mlir_module(serialized=False)
    except TypeError:  # before JAX 0.9 it gives bytecode
        return parsed(str(exported.mlir_module()))


def serialized(module: ir.Module) -> bytes:
    """A module as a portable artifact, as `jax.export` writes it."""
    version = stablehlo.get_version_from_compatibility_requirement(
        stablehlo.StablehloCompatibilityRequirement.WEEK_4
    )
    try:
        return _jax.mlir.serialize_portable_artifact(module, version, True)
    except TypeError:  # before JAX 0.9 it takes bytecode
        given: Any = mlir.module_to_bytecode(module)
        return _jax.mlir.serialize_portable_artifact(given, version, True)


def with_short_paths(text: str) -> str:
    """The last two parts of each source file's path: the others name a machine and its users."""
    return _FILE.sub(lambda match: f"{match[1]}{_short(match[2])}{match[3]}", text)


def own_files(text: str, is_full: bool = False) -> tuple[str, ...]:
    """The source files that its author wrote, short as above unless `is_full`."""
    own = filter(is_own_file, dict.fromkeys(match[2] for match in _FILE.finditer(text)))
    return tuple(own) if is_full else tuple(dict.fromkeys(map(_short, own)))


def is_own_file(path: str) -> bool:
    """Returns True if a source file is of no installed library."""
    return not any(part in path for part in _LIBRARIES)


def _short(path: str) -> str:
    parts = PurePath(path.replace("\\\\", "/")).parts
    return "/".join(part for part in parts[-2:] if part != "/")


def on_mesh(text: str, mesh: Mesh) -> str:
    """The text of a module with these sizes of its mesh axes, or with this mesh where it has none."""
    sizes, devices = dict(mesh), math.prod(size for _, size in mesh)
    text = _PARTITIONS.sub(rf"\g<1>{devices}", text)
    if not _MESH.search(text):
        axes = ", ".join(f"{json.dumps(name)}={size}" for name, size in mesh)
        return _MODULE.sub(
            lambda match: f"{match[0]}\n  sdy.mesh @mesh = <[{axes}]>", text, count=1
        )
    return _MESH.sub(lambda match: _resized(match[0], sizes), text)


def with_axes(text: str, names: Sequence[str]) -> str:
    """The text of a module whose mesh also has those of the named axes that it lacks, of size 1."""

    def line(match: re.Match[str]) -> str:
        own = dict(_AXIS.findall(match[0]))
        if not own.keys() < {*names} or list(own) != [name for name in names if name in own]:
            return match[0]
        axes = ", ".join(f'"{name}"={own.get(name, 1)}' for name in names)
        return f"{match[0].partition('<')[0]}<[{axes}]>"

    return _MESH.sub(line, text)


def _resized(line: str, sizes: dict[str, int]) -> str:
    for name, size in sizes.items():
        quoted = f'"{name}"'
        line = re.sub(rf"{quoted}=\d+", f"{quoted}={size}", line)
        line = re.sub(rf"(name = {quoted}, size = )\d+", rf"\g<1>{size}", line)
    return line


class Main:
    """The main function of a module, changed in place."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.main: Any = ir.SymbolTable(module.operation)["main"]
        self.block = self.main.entry_block  # pyrefly: ignore[missing-attribute]

    def choose_platform(self, platforms: Sequence[str], platform: str) -> None:
        """Take the branches of one platform, and the argument away that chooses among several."""
        if platform == "gpu":  # as devices call what a file calls by its maker's interface
            platform = next((each for each in platforms if each in programs.GPUS), platform)
        if len(platforms) < 2:
            return
        attributes = list(self.main.arg_attrs)
        argument = self.block.arguments[0]
        take_branches(self.module, argument, platforms.index(platform))
        with ir.InsertionPoint.at_block_begin(self.block), ir.Location.unknown():
            number = ir.IntegerAttr.get(
                ir.RankedTensorType(argument.type).element_type, platforms.index(platform)
            )
            value = ir.DenseElementsAttr.get_splat(argument.type, number)
            argument.replace_all_uses_with(stablehlo.constant(value))
        self.block.erase_argument(0)
        self._typed(attributes[1:])

    def shard_arguments(self, specs: Sequence[Spec]) -> None:
        """Give each argument its spec."""
        self.main.arg_attrs = ir.ArrayAttr.get(
            [_sharded(old, spec) for old, spec in zip(self.main.arg_attrs, specs, strict=True)]
        )

    def shard_results(self, specs: Sequence[Spec | None]) -> None:
        """Give each result its spec; None leaves it to the compiler."""
        olds = [ir.DictAttr.get({})] * len(specs)
        if "res_attrs" in self.main.attributes:
            olds = list(self.main.result_attrs)
        self.main.attributes["res_attrs"] = ir.ArrayAttr.get(
            [
                old if spec is None else _sharded(old, spec)
                for old, spec in zip(olds, specs, strict=True)
            ]
        )

    def free_donations(self, specs: Sequence[Spec], results: Sequence[Spec | None]) -> None:
        """Leave to the compiler what replaces a donated argument whose result is sharded otherwise:
        JAX names one of the same shape when it exports, by the shardings of that time.
        """
        attributes = []
        for old, spec in zip(self.main.arg_attrs, specs, strict=True):
            held = {each.name: each.attr for each in old}
            at = held.get(_ALIAS)
            if at is not None and results[ir.IntegerAttr(at).value] not in (None, spec):
                del held[_ALIAS]
                held["jax.buffer_donor"] = ir.BoolAttr.get(True)
            attributes.append(ir.DictAttr.get(held))
        self.main.arg_attrs = ir.ArrayAttr.get(attributes)

    def resize(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Give each argument its shape, where sizes are symbols."""
        with ir.Location.unknown():
            for argument, shape in zip(self.block.arguments, shapes, strict=True):
                before = argument.type
                after = ir.RankedTensorType.get(shape, ir.RankedTensorType(before).element_type)
                if after == before:
                    continue
                argument.set_type(after)
                with ir.InsertionPoint.at_block_begin(self.block):
                    converted = stablehlo.convert(before, argument)
                argument.replace_all_uses_except(converted, converted.owner.operation)
        self._typed(list(self.main.arg_attrs))

    def _typed(self, attributes: list[ir.Attribute]) -> None:
        inputs = [argument.type for argument in self.block.arguments]
        function = ir.FunctionType.get(inputs, list(self.main.type.results))
        self.main.attributes["function_type"] = ir.TypeAttr.get(function)
        self.main.arg_attrs = ir.ArrayAttr.get(attributes)


def _sharded(attributes: ir.Attribute, spec: Spec) -> ir.DictAttr:
    dims = ", ".join(f"{{{', '.join(json.dumps(axis) for axis in axes)}}}" for axes in spec)
    every = ir.DictAttr(attributes)
    old = {each.name: each.attr for each in every if each.name not in _SHARDINGS}
    sharding = ir.Attribute.parse(f"#sdy.sharding<@mesh, [{dims}]>")
    return ir.DictAttr.get(old | {"sdy.sharding": sharding})
