"""The collectives of a compiled program, as every command and screen lists them, and the arrays of
those into which the compiler merges several.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from spmd_core.base import by_key, bytes_text, sums_by_key
from spmd_core.facts import Collective, Part
from spmd_core.machine import Coordinates
from spmd_core.program.communication.generic import generic, output_words, place_words
from spmd_core.program.communication.parsed import Mesh, ParsedCollective, read
from spmd_core.program.communication.reasons import Reasons
from spmd_core.program.hlo.collective_ops import BETWEEN_SLICES, Site, sites
from spmd_core.program.hlo.lines import File, named_line, op_name, source
from spmd_core.program.hlo.module import Instruction, Module, Shape
from spmd_core.program.hlo.trip_counts import same_value

_MAX_NAMED = 4  # of the parts, in a sentence


MOST_LISTED = 64  # devices listed by number; beyond, only mesh axes are given


def read_collectives(
    module: Module,
    mesh: Mesh,
    *,
    file: File = "",
    positions: tuple[int, ...] | None = None,
    devices: tuple[int, ...] = (),
    places: tuple[Coordinates, ...] = (),
    reasons: Reasons | None = None,
) -> tuple[Collective, ...]:
    """Every collective of a program, in the order in which it is written.

    `file` is the name of the program text that `source` quotes lines of, or the names of several.
    `positions[i]` is the mesh position of the program's device i; `devices[p]` the JAX id of the
    device at mesh position p (p itself where left out), and `places[p]` its coordinates, which
    include its slice. HloError where the groups of one cannot be read.
    """
    named = _names(module, reasons)
    program = reasons.experiment.exported if reasons else None
    mapped = program.described.manual_axes if program else None
    collectives = []
    for site in sites(module):
        name = op_name(site, module, file)
        line = source(site, module, file)
        one = read(site, module, mesh, positions, places, name, named_line(line, file), mapped)
        parts = parts_of(site, module, named)
        groups = _ids(one, module.device_count, positions, devices)
        why = reasons.why(one) if reasons else generic(one)
        reason = why + parts_words(parts) if why else None
        collectives.append(_collective(one, groups, parts, reason, (name, line)))
    return tuple(collectives)


def _collective(
    one: ParsedCollective,
    groups: tuple[tuple[int, ...], ...] | None,
    parts: tuple[Part, ...],
    reason: str | None,
    written: tuple[str | None, str | None],
) -> Collective:
    """A collective as it is listed; `written`: the name and the line that the program gives it."""
    start, count = one.site.start, one.site.count
    return Collective(
        kind=start.kind,
        asked=one.asked,
        axes=one.axes,
        groups=groups,
        bytes=start.bytes,
        count=count,
        bytes_total=None if count is None else start.bytes * count,
        op=written[0],
        source=written[1],
        name=start.outer.name,
        group_size=None
        if start.kind == "collective-permute" or not one.groups.size
        else one.groups.shape[1],
        asynchronous=start.asynchronous,
        parts=parts,
        reason=reason,
    )


def _ids(
    collective: ParsedCollective,
    device_count: int,
    positions: tuple[int, ...] | None,
    devices: tuple[int, ...],
) -> tuple[tuple[int, ...], ...] | None:
    """Groups by JAX's numbers of the devices; None above 64 devices, or where unknown."""
    if device_count > MOST_LISTED or not collective.groups.size:
        return None
    groups = collective.groups if positions is None else np.asarray(positions)[collective.groups]
    if devices:
        groups = np.asarray(devices)[groups]
    # (a shorter group is filled up with its first member)
    return tuple(
        tuple(dict.fromkeys(group))
        if collective.site.start.kind != "collective-permute"
        else tuple(group)
        for group in groups.tolist()
    )


def _names(module: Module, reasons: Reasons | None) -> Mapping[tuple[int, ...], str]:
    if reasons is None:
        return {}
    what, root = reasons.experiment.what, module.entry.root
    updated = dict(what.training.carried)
    if (program := reasons.experiment.exported) is not None:
        updated = program.described.updated
    names = [updated.get(each.name) or output_words(each.name) for each in what.results]
    shapes = [array.dims for array in root.arrays]
    if len(shapes) != len(names):
        return {}
    return {  # arrays of equal dims share a name such as `w1 or w2`; many of them have none
        dims: " or ".join(dict.fromkeys(alike))
        for dims, alike in by_key(zip(shapes, names, strict=True)).items()
        if dims and len(set(alike)) <= _MAX_NAMED
    }


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
    maker = same_value(start.computation, operands[0])
    joined = [start.computation.by_name[name] for name in maker.operands]
    if not (maker.opcode == "concatenate" or _joins(module, maker)):
        return []
    if sum(each.shape.elements for each in joined) != maker.shape.elements:
        return []
    return [(each.shape, same_value(start.computation, each)) for each in joined]


def _joins(module: Module, fusion: Instruction) -> bool:
    """Whether a fusion concatenates its operands, possibly by padding and adding them."""
    callee = module.callee(fusion) if fusion.opcode == "fusion" else None
    if callee is None:
        return False
    opcodes = [each.opcode for each in callee.instructions]
    return "concatenate" in opcodes or opcodes.count("pad") == len(fusion.operands)


def _name(shape: Shape, maker: Instruction | None, named: Mapping[tuple[int, ...], str]) -> str:
    if shape.dims in named:
        return named[shape.dims]
    op = maker.op_name if maker is not None else None
    if words := place_words(op, None).strip("`"):
        return f"backward {words}" if "transpose(" in (op or "") else words
    return f"{shape.element}[{','.join(map(str, shape.dims))}]"


def _all_of(name: str, counts: Mapping[str, int]) -> str:
    """`w1 and w2` for two arrays that are each `w1 or w2`."""
    every = counts[name] == name.count(" or ") + 1
    return name.replace(" or ", " and ") if every else name


def parts_words(parts: Sequence[Part]) -> str:
    """The end of a sentence, e.g. "; one op carries `w` (4 MiB) and `b` (16 KiB)"."""
    counts = Counter(part.name for part in parts)
    sizes = sums_by_key((_all_of(part.name, counts), part.bytes) for part in parts)
    if len(sizes) < 2:
        return ""  # the reason has that name
    named = [f"`{name}` ({bytes_text(size)})" for name, size in sizes.items()]
    rest = len(named) - _MAX_NAMED
    last = f"{rest} more" if rest > 0 else named.pop()
    return f"; one op carries {', '.join(named[:_MAX_NAMED])} and {last}"
