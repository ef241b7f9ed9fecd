"""What a merged collective carries: the compiler sends several sums along with one another."""

from collections.abc import Mapping, Sequence

from spmd_core.base import bytes_text
from spmd_core.program.hlo.collectives import BETWEEN_SLICES, Site
from spmd_core.program.hlo.module import Computation, Instruction, Module, Shape
from spmd_core.results import Part

_SAME_VALUE = ("bitcast", "copy", "copy-start", "copy-done", "reshape", "transpose", "convert")
_TOLD = 4  # of the parts, in a sentence


def parts_of(site: Site, module: Module, named: Mapping[tuple[int, ...], str]) -> tuple[Part, ...]:
    """The arrays of a collective that carries several, the largest first; () of one array.

    `named` gives an array's name by its dims on a device. Another is called by the operation that
    made it, or by its shape.
    """
    if site.start.kind == BETWEEN_SLICES:
        return ()
    carried = _carried(site, module)
    if len(carried) < 2:
        return ()
    found = [Part(name=_name(shape, maker, named), bytes=shape.bytes) for shape, maker in carried]
    return tuple(sorted(found, key=lambda part: -part.bytes))


def _carried(site: Site, module: Module) -> list[tuple[Shape, Instruction | None]]:
    """(shape, maker) of each array: operands, or what was strung together to one operand."""
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
    """Whether a fusion puts its operands one behind the other: concatenated, or padded and met."""
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
    """Name by dims, where the names tell; arrays of equal dims share theirs, e.g. `w1 or w2`."""
    found: dict[tuple[int, ...], str] = {}
    for dims, name in zip(shapes, names, strict=True):
        found[dims] = f"{found[dims]} or {name}" if dims in found else name
    return found


def parts_words(parts: Sequence[Part]) -> str:
    """The end of a sentence, e.g. "; one op carries `w` (4 MiB) and `b` (16 KiB)"."""
    if not parts:
        return ""
    told = [f"`{part.name}` ({bytes_text(part.bytes)})" for part in parts[:_TOLD]]
    rest = len(parts) - len(told)
    last = f"{rest} more" if rest else told.pop()
    return f"; one op carries {', '.join(told)} and {last}"
