"""Rewrites a module as XLA has it when it propagates shardings.

The order of ops, and of the values that a loop carries, decides where shardings conflict. So the
module goes to HLO and back. Then calls are inlined, and the custom calls of Shardy's ops in HLO
become these ops again.
"""

from collections.abc import Iterator
from typing import Any

from jax._src.interpreters import mlir
from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
from jaxlib.mlir import ir, passmanager
from jaxlib.mlir.dialects import sdy

_IN, _OUT = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_BODY = "xla.sdy.manual_computation_body"
_FRONTEND = "mhlo.frontend_attributes"


def as_xla(module: ir.Module) -> ir.Module:
    """Returns the module in the same context, with `main` alone."""
    given: Any = mlir.module_to_bytecode(module)
    computation = _jax.mlir.mlir_module_to_xla_computation(given, False, False)
    again = ir.Module.parse(_jax.mlir.xla_computation_to_mlir_module(computation))
    passes = "builtin.module(xla-sdy-round-trip-import-shardy-attrs,symbol-dce)"
    passmanager.PassManager.parse(passes).run(again.operation)
    for op in [*_named(again.operation, "stablehlo.custom_call")]:
        if _target(op) == "Sharding" and "sdy.sharding" in op.attributes:
            _constrain(op)
    _inline(again)
    return again


def _constrain(op: Any) -> None:
    (sharding,) = sdy.TensorShardingPerValueAttr(op.attributes["sdy.sharding"]).shardings
    with ir.InsertionPoint(op), op.location:
        held = sdy.ShardingConstraintOp(op.operands[0], sharding)
    op.results[0].replace_all_uses_with(held.result)
    op.erase()


def _inline(module: ir.Module) -> None:
    """Moves the body of every called function to its calls: MLIR's own inliner leaves calls inside
    of `stablehlo.while`.
    """
    functions = {
        ir.StringAttr(op.attributes["sym_name"]).value: op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    flat = set[str]()

    def flatten(name: str) -> None:
        if name in flat:
            return
        flat.add(name)
        for call in [*_named(functions[name], "func.call")]:
            callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            flatten(callee)
            copy = functions[callee].clone(ip=ir.InsertionPoint(module.body))
            (_by_hand if callee.startswith(_BODY) else _inlined)(call, copy.regions[0].blocks[0])
            copy.erase()

    flatten("main")
    for name, function in functions.items():
        if name != "main" and name in flat:
            function.erase()


def _inlined(call: Any, block: Any) -> None:
    *ops, last = block.operations
    _replace(block.arguments, call.operands)
    for op in ops:
        op.operation.move_before(call)
    _replace(call.results, last.operation.operands)
    call.erase()


def _by_hand(call: Any, block: Any) -> None:
    """A `shard_map`: the body becomes a region, of global arrays."""
    entry = _defining(call.operands[0], _IN) if len(call.operands) else None
    ends = {use.owner.operation for result in call.results for use in result.uses}
    (leave,) = ends if ends else (None,)
    attributes = {
        "in_shardings": _given(entry, "in_shardings"),
        "out_shardings": _given(leave, "out_shardings"),
        "manual_axes": _given(entry or leave, "manual_axes"),
    }
    after = _flat(leave) if leave else []
    with call.location, ir.InsertionPoint(leave or call):
        op = ir.Operation.create(
            "sdy.manual_computation",
            results=[each.type for each in after],
            operands=list(entry.operands) if entry else [],
            attributes=attributes,
            regions=1,
        )
        body = op.regions[0].blocks.append(*(each.type for each in call.operands))
        *ops, last = block.operations
        _replace(block.arguments, body.arguments)
        for each in ops:
            body.append(each.operation)
        with ir.InsertionPoint(body):
            ir.Operation.create("sdy.return", operands=list(last.operation.operands))
    _replace(after, op.results)
    for each in (*_readers(leave), leave, call, *_readers(entry), entry):
        if each is not None:
            each.erase()


def _flat(op: Any) -> list[Any]:
    """The arrays that an op gives, in a tuple or not."""
    readers = _readers(op)
    if not readers:
        return list(op.results)
    return [reader.results[0] for reader in readers]


def _readers(op: Any) -> list[Any]:
    """The ops that take a tuple apart, by place."""
    if op is None or not len(op.results) or not isinstance(op.results[0].type, ir.TupleType):
        return []
    owners = [use.owner.operation for use in op.results[0].uses]
    return sorted(owners, key=lambda each: ir.IntegerAttr(each.attributes["index"]).value)


def _given(op: Any, name: str) -> ir.Attribute:
    """An attribute of Shardy's, which HLO has as text."""
    if op is None:
        return ir.Attribute.parse("#sdy.sharding_per_value<[]>")
    held = {each.name: each.attr for each in ir.DictAttr(op.attributes[_FRONTEND])}
    return ir.Attribute.parse(ir.StringAttr(held[f"xla.sdy.{name}"]).value)


def _defining(value: Any, target: str) -> Any:
    op = value.owner.operation
    return op if op.name == "stablehlo.custom_call" else op.operands[0].owner.operation


def _target(op: Any) -> str:
    return ir.StringAttr(op.attributes["call_target_name"]).value


def _replace(values: Any, by: Any) -> None:
    for value, other in zip(list(values), list(by), strict=True):
        value.replace_all_uses_with(other)


def _named(op: Any, name: str) -> Iterator[Any]:
    for region in op.regions:
        for block in region:
            for each in block.operations:
                if each.operation.name == name:
                    yield each.operation
                elif each.operation.regions:
                    yield from _named(each.operation, name)
