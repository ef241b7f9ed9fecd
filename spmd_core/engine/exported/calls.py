"""Checks a custom call of somebody else's program against its signature, before native code runs: it
writes past a buffer that is smaller than its operands ask for.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from spmd_core.base import refuse, shorten
from spmd_core.engine.exported.signature import ArrayType, Signature
from spmd_core.engine.exported.signatures import SIGNED, TARGET as TOP_K, signature_of, top_k_misfit

# Calls that compute nothing: how many operands they have, and whether the result has their type
MARKS = {
    "Sharding": (1, True),
    "SPMDFullToShardShape": (1, False),
    "SPMDShardToFullShape": (1, False),
    "annotate_device_placement": (1, True),
    "AllocateBuffer": (0, False),
}
KNOWN = frozenset(("shape_assertion", TOP_K, *MARKS, *SIGNED))  # what they read and write
_ATTRIBUTES = frozenset(
    (
        *("call_target_name", "api_version", "has_side_effect", "backend_config"),
        *("mhlo.backend_config", "called_computations", "operand_layouts", "result_layouts"),
        *("output_operand_aliases", "mhlo.frontend_attributes", "sdy.sharding_rule"),
        *("sdy.sharding", "mhlo.sharding", "indices_of_shape_operands", "xla_shape"),
    )
)
_NUMBER = re.compile(r"(-?\d+) : (\w+)")
_FLAGS = {"true": 1, "false": 0}


class _Misfit(Exception):
    """The mismatch of a call, to follow its name."""


def check_call(op: Any, target: str, is_final: bool) -> None:
    """Checks types, attributes, layouts and aliases of a call. Sizes may be dynamic unless
    `is_final`.

    Raises:
        RequestError: the call is none that JAX writes.
    """
    try:
        if target in MARKS:
            _check_mark(op, *MARKS[target])
        elif target == TOP_K:
            _check_top_k(op, is_final)
        elif target in SIGNED:
            _check(op, target, is_final)
    except (_Misfit, ValueError, IndexError, TypeError) as error:  # of an attribute of another kind
        what = str(error) if isinstance(error, _Misfit) else "has an attribute that cannot be read"
        raise refuse(
            f"custom call {shorten(target)} of this program", what, "export it again with JAX"
        ) from error


def _check_mark(op: Any, count: int, is_alike: bool) -> None:
    """XLA aborts on a mark without its operand."""
    operands, results = _arrays(op, False)
    if (len(operands), len(results)) != (count, 1):
        raise _Misfit(f"has {len(operands)} operands and {len(results)} results")
    if is_alike and operands != results:
        raise _Misfit(f"has a result of type {results[0]}, not {operands[0]}")


def _check(op: Any, target: str, is_final: bool) -> None:
    if unknown := sorted(set(op.attributes) - _ATTRIBUTES):
        raise _Misfit(f"has the attribute {shorten(unknown[0])}, which none has")
    typed = _attributes(op)
    attributes = {name: number for name, (number, _) in typed.items()}
    signature = signature_of(target, attributes)
    _check_attributes(signature, typed)
    _check_interface(op, signature)
    operands, results = _arrays(op, is_final)
    if misfit := signature.misfit(operands, results, attributes):
        raise _Misfit(misfit)
    _check_batch(op, len(operands[0].sizes) - len(signature.operands[0].dims))
    _check_aliases(op, signature)
    _check_layouts(op, signature.is_ffi, _layouts(signature, attributes, operands, results))


def _check_top_k(op: Any, is_final: bool) -> None:
    config = op.attributes.get("mhlo.backend_config")
    texts = {} if config is None else {each.name: str(each.attr) for each in ir.DictAttr(config)}
    operands, results = _arrays(op, is_final)
    if misfit := top_k_misfit(operands, results, texts):
        raise _Misfit(misfit)


def _arrays(op: Any, is_final: bool) -> tuple[list[ArrayType], list[ArrayType]]:
    """Returns the types of operands, without those that are shapes of results, and of results."""
    values, results = list(op.operands), _types(op.results)
    shapes = range(0) if is_final else _shape_operands(op)
    operands = _types(values[: len(values) - len(shapes)])
    if is_final and any(None in array.sizes for array in (*operands, *results)):
        raise _Misfit("has sizes that its operands do not give")
    return operands, results


def _types(values: Any) -> list[ArrayType]:
    """The types of arrays; a file of old has its results in one tuple."""
    return [_array(each) for value in values for each in _flat(value.type)]


def _flat(kind: Any) -> list[Any]:
    is_tuple = isinstance(kind, ir.TupleType)
    return [kind.get_type(at) for at in range(kind.num_types)] if is_tuple else [kind]


def _array(kind: Any) -> ArrayType:
    if not isinstance(kind, ir.RankedTensorType):
        raise _Misfit("has an operand or result that is no array")
    sizes = (
        None if kind.is_dynamic_dim(dim) else kind.get_dim_size(dim) for dim in range(kind.rank)
    )
    return ArrayType(str(kind.element_type), tuple(sizes))


def _shape_operands(op: Any) -> range:
    """The places of the operands that are shapes of results: one for each, after all others."""
    if "indices_of_shape_operands" not in op.attributes:
        return range(0)
    count, listed = len(list(op.operands)), list(op.attributes["indices_of_shape_operands"])
    last = range(count - len(list(op.results)), count)
    if listed != list(last):
        raise _Misfit("has shapes of results in other places than last")
    return last


def _attributes(op: Any) -> dict[str, tuple[int, str]]:
    given = op.attributes.get("mhlo.backend_config")
    plain = op.attributes.get("backend_config")
    if isinstance(plain, ir.DictAttr):
        if given is not None:
            raise _Misfit("passes attributes twice")
        given = plain
    if given is None:
        return {}
    return {each.name: _number(each.name, str(each.attr)) for each in ir.DictAttr(given)}


def _number(name: str, text: str) -> tuple[int, str]:
    if text in _FLAGS:
        return _FLAGS[text], "i1"
    if match := _NUMBER.fullmatch(text):
        return int(match[1]), match[2]
    raise _Misfit(f"passes {shorten(name)}={shorten(text)}, no number")


def _check_attributes(signature: Signature, given: Mapping[str, tuple[int, str]]) -> None:
    if given.keys() != signature.attributes.keys():
        expected = ", ".join(sorted(signature.attributes)) or "none"
        listed = ", ".join(map(shorten, sorted(given))) or "none"
        raise _Misfit(f"passes the attributes {listed}, not {expected}")
    for name, (kind, allowed) in signature.attributes.items():
        number, its_kind = given[name]
        if its_kind != kind or number not in allowed:
            raise _Misfit(f"passes {name}={number} : {its_kind}")


def _check_interface(op: Any, signature: Signature) -> None:
    attributes = op.attributes
    version = attributes.get("api_version")
    number = 1 if version is None else ir.IntegerAttr(version).value
    given = attributes.get("backend_config")
    text = given.value if isinstance(given, ir.StringAttr) else ""
    is_typed = "mhlo.backend_config" in attributes or isinstance(given, ir.DictAttr)
    if is_typed != signature.is_ffi or number not in ((1, 4) if signature.is_ffi else (1, 2)):
        raise _Misfit(f"has interface version {number}")
    if not re.fullmatch(signature.config, text):
        raise _Misfit(f"passes {shorten(text)}")
    if len(attributes.get("called_computations") or ()):
        raise _Misfit("calls functions")


def _check_batch(op: Any, rank: int) -> None:
    """The partitioner takes the first dims, as many as the call states, for a batch."""
    frontend = op.attributes.get("mhlo.frontend_attributes")
    stated = {} if frontend is None else {each.name: str(each.attr) for each in frontend}
    if (count := stated.get("num_batch_dims", f'"{rank}"')) != f'"{rank}"':
        raise _Misfit(f"has num_batch_dims={shorten(count)}, not {rank}")


def _check_aliases(op: Any, signature: Signature) -> None:
    allowed = [
        ([result] if len(list(op.results)) > 1 else [], operand, [])
        for operand, result in signature.aliases.items()
    ]
    given = [
        (list(each.output_tuple_indices), each.operand_index, list(each.operand_tuple_indices))
        for each in map(
            stablehlo.OutputOperandAlias, op.attributes.get("output_operand_aliases") or ()
        )
    ]
    if any(each not in allowed or given.count(each) > 1 for each in given):
        raise _Misfit("has a result that shares the buffer of another operand than its own")


def _layouts(
    signature: Signature,
    attributes: Mapping[str, int],
    operands: Sequence[ArrayType],
    results: Sequence[ArrayType],
) -> dict[str, list[list[int]]]:
    """Returns layouts by attribute: matrices column-major where a routine reads them so, and all else
    row-major.
    """
    most = max(len(array.sizes) for array in operands)
    is_column_major = signature.is_column_major(attributes)
    both = {"operand_layouts": operands, "result_layouts": results}
    return {
        name: [_layout(rank, is_column_major and rank == most) for rank in ranks]
        for name, ranks in (
            (name, [len(array.sizes) for array in arrays]) for name, arrays in both.items()
        )
    }


def _check_layouts(op: Any, is_ffi: bool, expected: Mapping[str, list[list[int]]]) -> None:
    """Shapes of results come after the operands, and have layouts of their own."""
    for name, layouts in expected.items():
        listed = op.attributes.get(name)
        given = None if listed is None else [list(each) for each in listed][: len(layouts)]
        if given != (layouts if is_ffi else None):
            raise _Misfit(f"has {name} {shorten(given)}, not {layouts}")


def _layout(rank: int, is_column_major: bool) -> list[int]:
    dims = list(reversed(range(rank)))
    return [rank - 2, rank - 1, *dims[2:]] if is_column_major else dims
