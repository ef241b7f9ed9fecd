"""What a ring sends more than it needs: the larger of two blocks, or a block that is not used."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from spmd_core.facts import Accident, RingNote
from spmd_core.fields import Spec
from spmd_core.program.hlo.lines import File, line_of
from spmd_core.program.hlo.module import Instruction, Module, Shape
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.ir.needed import numbers, summed_dims
from spmd_core.program.ir.ring_turns import BlockProduct, Entered, Filled, Permute, Turns, Value
from spmd_core.program.ir.shardings import sharding_of

SMALLEST = 2**16  # bytes of a device and step that are sent for nothing
LARGER = 2.0  # times the block that could go round instead
LEAST = 0.01  # of the permutations of a line


def ring_notes(
    module: Module, mesh: Mesh, arguments: Mapping[str, int], file: File
) -> Iterator[Accident]:
    """Yields the rings that send more than they need, those that pass on the larger block first.

    Args:
        module: the program after propagation, before partitioning.
        mesh: names and sizes of the mesh axes.
        arguments: path of each argument -> the number of its parameter in the entry.
        file: the program's own source files.
    """
    turns = Turns(module, mesh)
    paths = {module.entry.parameters[at].name: path for path, at in arguments.items()}
    for filled, leaves, of in turns.leaving:
        if ring := _Ring.of(filled, turns):
            spec = _swapped(sharding_of(leaves, of, mesh), ring)
            if spec and ring.saved_bytes >= SMALLEST:
                yield ring.accident(spec, paths, file)
    yield from _surplus(turns, file)


def _surplus(turns: Turns, file: File) -> Iterator[Accident]:
    """Permutations whose block nothing uses, by their lines; no line of which all are."""
    lines, needed = defaultdict[str, list[tuple[bool, Permute]]](list), turns.needed()
    for at, each in enumerate(turns.permutes):
        lines[line_of(each.each, file) or ""].append((at in needed, each))
    for line, listed in lines.items():
        number = sum(each.times for _, each in listed)
        used = sum(each.times for is_used, each in listed if is_used)
        more = sum(e.times * e.each.shape.bytes for is_used, e in listed if not is_used)
        axes = tuple(dict.fromkeys(each.step[0] for _, each in listed))
        loops = {each.turns for _, each in listed}
        if line and used and more >= SMALLEST and used <= (1 - LEAST) * number:
            yield Accident(
                kind="surplus_permute",
                axes=axes,
                source=line,
                bytes=more,
                is_minor=True,
                share=more / sum(each.times * each.each.shape.bytes for _, each in listed),
                ring=RingNote(
                    permutes=number, needed=used, turns=min(loops) if len(loops) == 1 else 0
                ),
            )


@dataclass(frozen=True)
class _Ring:
    """A ring whose products of each block that goes round with one that stays are all put together.

    Attributes:
        axis: that it goes around.
        size: devices along it.
        permute: one of its permutations.
        by: devices that a block comes further each turn.
        moved: the block that goes round, and what entered.
        kept: the same of the block that stays.
        dims: the dims of the result that both blocks divide.
        shape: of a product.
    """

    axis: str
    size: int
    permute: Instruction
    by: int
    moved: Entered
    kept: Entered
    dims: tuple[int, int]
    shape: Shape

    @classmethod
    def of(cls, filled: Filled, turns: Turns) -> "_Ring | None":
        """The ring of products; None where another computes others, or more is made of them."""
        first = filled.parts[0][0]
        sides = [at for at in (0, 1) if any(each.operands[at].shifts for each, _ in filled.parts)]
        if len(sides) != 1 or not _is_one(filled, turns):
            return None
        (at,) = sides
        moved, kept = first.operands[at].made, first.operands[1 - at].made
        axes = {axis for each, _ in filled.parts for axis, _ in each.operands[at].shifts}
        if not isinstance(moved, Entered) or not isinstance(kept, Entered) or len(axes) != 1:
            return None
        (axis,), size = axes, dict(turns.mesh)[next(iter(axes))]
        dims = [
            _dim(first, side, of, axis, turns.mesh) for side, of in ((at, moved), (1 - at, kept))
        ]
        permutes = _permutes(first.operands[at], filled, at, turns)
        ways = {each.step for each in permutes}
        if None in dims or len(ways) != 1 or not _is_complete(filled, at, dims[0], axis, turns):  # type: ignore[arg-type]
            return None
        ((_, by),) = ways
        both = (dims[0], dims[1])
        return cls(axis, size, permutes[-1].each, by, moved, kept, both, first.each.shape)  # type: ignore[arg-type]

    @property
    def saved_bytes(self) -> int:
        """Bytes that a device sends less in a step, were the result sharded as before by an
        all-to-all; 0 where the block that stays is no smaller by far.
        """
        moved, kept = self.moved.each.shape.bytes, self.kept.each.shape.bytes
        if moved < LARGER * kept:
            return 0
        turns = self.size - 1
        return max(0, turns * (moved - kept - self.shape.bytes))

    def accident(self, spec: Spec, paths: Mapping[str, str], file: File) -> Accident:
        """It, as what is known against a program."""
        return Accident(
            kind="larger_rotated",
            path=_path(self.kept, paths),
            axes=(self.axis,),
            source=line_of(self.permute, file) or "",
            bytes=self.moved.each.shape.bytes,
            is_minor=True,
            spec=spec,
            ring=RingNote(
                size=self.size,
                by=self.by,
                moved=_path(self.moved, paths),
                kept_bytes=self.kept.each.shape.bytes,
                dim=self.dims[1],
                shape=self.shape.dims,
            ),
        )


def _is_one(filled: Filled, turns: Turns) -> bool:
    """Whether all is of the same two values, and nothing else is made of it on the way."""
    pairs = {tuple(one.base for one in each.operands) for each, _ in filled.parts}
    bases = [*filled.bases, *(base for each, _ in filled.parts for base in each.bases)]
    return len(pairs) == 1 and all(len(turns.uses[base, False]) == 1 for base in bases)


def _dim(product: BlockProduct, at: int, of: Entered, axis: str, mesh: Mesh) -> int | None:
    """The dim of a product that an axis divides, by that of an operand; None unless it divides one
    dim, alone, that is neither summed nor of a batch.
    """
    within = sharding_of(product.each, product.of, mesh)
    if within is None or {*within.manual} != {name for name, _ in mesh}:
        return None
    sharding = sharding_of(of.of.by_name[of.each.operands[0]], of.of, mesh)
    batch = [numbers(product.each, f"{side}_batch_dims") for side in ("lhs", "rhs")]
    out = summed_dims(product.each, at)
    free = [n for n in range(len(of.each.shape.dims)) if n not in out and n not in batch[at]]
    over = [n for n, axes in enumerate(sharding.spec if sharding else ()) if axis in axes]
    if (
        len(over) != 1
        or sharding is None
        or sharding.spec[over[0]] != (axis,)
        or over[0] not in free
    ):
        return None
    rank = len(product.each.shape.dims)
    return (
        len(batch[0]) + free.index(over[0]) if at == 0 else rank - len(free) + free.index(over[0])
    )


def _permutes(value: Value, filled: Filled, at: int, turns: Turns) -> list[Permute]:
    """The permutations of a block; [] where other things are made of it on its way."""
    names = {each.each.name for each, _ in filled.parts}
    if {*turns.uses[value.base, True]} - names:
        return []
    sent = {each.operands[at].sent for each, _ in filled.parts}
    return [turns.permutes[number] for number in sorted(n for n in sent if n is not None)]


def _is_complete(filled: Filled, at: int, dim: int, axis: str, turns: Turns) -> bool:
    """Whether each device puts the product of each block in the place of that block."""
    sizes = tuple(size for _, size in turns.mesh)
    place = [name for name, _ in turns.mesh].index(axis)
    mine = np.unravel_index(np.arange(turns.devices), sizes)[place]
    met = list[int]()
    for each, starts in filled.parts:
        rows, came = each.each.shape.dims[dim], dict(each.operands[at].shifts).get(axis, 0)
        full = [n * (sizes[place] if k == dim else 1) for k, n in enumerate(each.each.shape.dims)]
        right = [(mine - came) % sizes[place] * rows * (k == dim) for k in range(len(full))]
        if full != [*filled.shape.dims] or any(one is None for one in starts):
            return False
        if any((one != other).any() for one, other in zip(starts, right, strict=True)):  # type: ignore[union-attr]
            return False
        met.append(came)
    return sorted(met) == [*range(sizes[place])]


def _swapped(sharding: object, ring: _Ring) -> Spec:
    """The spec of the result once the other block goes round; () where it is not known."""
    spec = [*getattr(sharding, "spec", ())]
    if not spec or spec[ring.dims[0]] or spec[ring.dims[1]] != (ring.axis,):
        return ()
    spec[ring.dims[0]], spec[ring.dims[1]] = spec[ring.dims[1]], ()
    return tuple(spec)


def _path(of: Entered, paths: Mapping[str, str]) -> str:
    """The argument that entered; "" of what was computed."""
    each = of.of.by_name[of.each.operands[0]]
    while each.opcode == "copy":
        each = of.of.by_name[each.operands[0]]
    return paths.get(each.name, "") if each.opcode == "parameter" else ""
