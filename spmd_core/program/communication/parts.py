"""The arrays of a combined collective: the compiler merges several sums into one."""

from collections.abc import Mapping, Sequence

from spmd_core.base import bytes_text
from spmd_core.program.hlo.collective_ops import BETWEEN_SLICES, Site
from spmd_core.program.hlo.module import Computation, Instruction, Module, Shape
from spmd_core.results import Part

_SAME_VALUE = ("bitcast", "copy", "copy-start", "copy-done", "reshape", "transpose", "convert")
_MAX_NAMED = 4  # of the parts, in a sentence


def parts_of(site: Site, module: Module, named: Mapping[tuple[int, ...], str]) -> tuple[Part, ...]:
    """The arrays of a collective that carries several, the largest first; () of one array.

    `named` gives an array's name by its dims on a device. Other arrays are named by the operation
    that made them, or by their shape.
    """
    if site.start.kind == BETWEEN_SLICES:
        return ()
    carried = _carried(site, module)
    if len(carried) < 2:
        return ()
    parts = [Part(name=_name(shape, maker, named), bytes=shape.bytes) for shape, maker in carried]
    return tuple(sorted(parts, key=lambda part: -part.bytes))


def _carried(site: Site, module: Module) -> list[tuple[Shape, Instruction | None]]:
    """(shape, maker) of each array: the operands, or the arrays that were concatenated into one
    operand.
    """
    start = site.start
    operands = [start.computation.by_name[name] for name in start.inner.operands]
    if len(operands) != 1:
        return [(each.shape, each) for each in operands]
    maker = _maker(start.computation, operands[0])
    joined = [start.computation.by_name[name] for name in maker.operands]
    if not (maker.opcode == "concatenate" or _joins(module, maker)):
        return []
    if sum(each.shape.elements for each in joined) != maker.shape.elements:
        return []
    return [(each.shape, _maker(start.computation, each)) for each in joined]


def _joins(module: Module, fusion: Instruction) -> bool:
    """Whether a fusion concatenates its operands, possibly by padding and adding them."""
    callee = module.callee(fusion) if fusion.opcode == "fusion" else None
    if callee is None:
        return False
    opcodes = [each.opcode for each in callee.instructions]
    return "concatenate" in opcodes or opcodes.count("pad") == len(fusion.operands)


def _maker(computation: Computation, value: Instruction) -> Instruction:
    while value.opcode in _SAME_VALUE and value.operands:
        value = computation.by_name[value.operands[0]]
    return value


def _name(shape: Shape, maker: Instruction | None, named: Mapping[tuple[int, ...], str]) -> str:
    if shape.dims in named:
        return named[shape.dims]
    if maker is not None and maker.op_name:
        return "/".join(maker.op_name.split("/")[-2:])
    return f"{shape.element}[{','.join(map(str, shape.dims))}]"


def names_by_dims(
    shapes: Sequence[tuple[int, ...]],
    names: Sequence[str],
) -> dict[tuple[int, ...], str]:
    """Name by dims; arrays of equal dims share a combined name, e.g. `w1 or w2`."""
    by_dims: dict[tuple[int, ...], str] = {}
    for dims, name in zip(shapes, names, strict=True):
        by_dims[dims] = f"{by_dims[dims]} or {name}" if dims in by_dims else name
    return by_dims


def parts_words(parts: Sequence[Part]) -> str:
    """The end of a sentence, e.g. "; one op carries `w` (4 MiB) and `b` (16 KiB)"."""
    if not parts:
        return ""
    named = [f"`{part.name}` ({bytes_text(part.bytes)})" for part in parts[:_MAX_NAMED]]
    rest = len(parts) - len(named)
    last = f"{rest} more" if rest else named.pop()
    return f"; one op carries {', '.join(named)} and {last}"
