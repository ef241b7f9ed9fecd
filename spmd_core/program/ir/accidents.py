"""What a compiled program does that its author hardly meant: it loses or replicates its batch, repeats
work along an axis, gathers what a weight is multiplied with, multiplies in a wider type than its
weights', holds constants, gathers stacked weights, or sums over the turns of a loop.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from spmd_core.facts import Accident, Judged, LostBatch
from spmd_core.fields import Spec
from spmd_core.program.hlo.lines import File, line_of
from spmd_core.program.hlo.module import Computation, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.ir.batch import dropped_batch, lost_batch
from spmd_core.program.ir.crossed_weights import crossed_weights
from spmd_core.program.ir.dropped_axes import with_specs
from spmd_core.program.ir.products import (
    MAPPED,
    OWN,
    RECOMPUTED,
    Sums,
    axes_at,
    sums_of,
)
from spmd_core.program.ir.replicated_batch import replicated_batch
from spmd_core.program.ir.ring_notes import ring_notes
from spmd_core.program.ir.shardings import CONSTRAINT, last_part, result_shardings, sharding_of

Donated = Mapping[str, tuple[int, int]]
REPEATED = 1.5  # times the work of a device without the repetition along one axis
DROPPED = 1.25  # the same where a constraint drops an axis of the batch
LITTLE = 1.05  # the same: below, there is no note of it
WIDE = 0.5  # of a device's matmul FLOPs that are of a wider type than the weights'
LARGE = 2**20  # bytes of a constant that an argument should be
SMALLEST = 2**16  # bytes over all devices of a gathered value
_BITS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}
_PASSED_ON = ("convert", "copy", "reshape", "transpose", "bitcast")


def judged(
    module: Module,
    mesh: Mesh,
    batch: Mapping[str, int],
    file: File,
    weights: Mapping[str, int] = MappingProxyType({}),
    partitioned: Module | None = None,
    donated: Donated = MappingProxyType({}),
    is_trained: bool = False,
    arguments: Mapping[str, int] = MappingProxyType({}),
) -> Judged:
    """Returns where the batch is lost, and the other accidents, the costliest kinds first.

    Args:
        module: the program after propagation, before partitioning.
        mesh: names and sizes of the mesh axes.
        batch: path of each argument of the batch -> the number of its parameter in the entry.
        file: the program's own source files.
        weights: path of each weight -> the number of its parameter.
        partitioned: the program of one device, whose products may be divided to move fewer bytes.
        donated: path of a donated argument -> numbers of its parameter and of its result.
        is_trained: whether the program updates its weights.
        arguments: path of each argument that the program uses -> the number of its parameter.
    """
    numbers, updated = tuple(batch.values()), partitioned if is_trained else None
    lost = lost_batch(module, mesh, numbers, file, partitioned) if batch else None
    sums, of_batch = sums_of(module, mesh, (), file, partitioned), _axes_of(module, mesh, numbers)
    accidents = (
        *(replicated_batch(module, updated, mesh, batch, [*weights.values()]) if updated else ()),
        *crossed_weights(module, mesh, weights, of_batch, file),
        *(_dropped(module, mesh, numbers, lost, file) if batch else ()),
        *with_specs(_repeated(sums, _kept(mesh, lost), of_batch), module, mesh, file),
        *_wide(sums, _element(module, weights.values())),
        *_constants(module, file),
        *_gathered(module, mesh, file),
        *_carried_otherwise(module, mesh, file),
        *_resharded(module.entry, mesh, donated),
        *ring_notes(module, mesh, arguments, file),
    )
    return Judged(lost_batch=lost, accidents=accidents, **_again(sums))


def _dropped(
    module: Module, mesh: Mesh, numbers: Sequence[int], lost: LostBatch | None, file: File
) -> Iterator[Accident]:
    """Constraints that drop the batch, elsewhere than where it is lost."""
    for each in dropped_batch(module, mesh, numbers, file):
        if lost is None or each.source != lost.source:
            yield each


def _again(sums: Sums) -> dict[str, float]:
    return {"mapped_flops": sums[MAPPED], "recomputed_flops": sums[RECOMPUTED]}


def _kept(mesh: Mesh, lost: LostBatch | None) -> list[tuple[str, int]]:
    return [each for each in mesh if lost is None or each[0] not in lost.axes]


def _axes_of(module: Module, mesh: Mesh, numbers: Sequence[int]) -> set[str]:
    of = module.entry
    return set[str]().union(*(axes_at(of.parameters[at], of, mesh) for at in numbers))


def _repeated(
    sums: Sums, axes: Sequence[tuple[str, int]], of_batch: set[str]
) -> Iterator[Accident]:
    """Axes along which devices compute much alike, and the line with most of that."""
    for axis, size in axes:
        own, repeated = float(sums[OWN]), float(sums[axis,])
        lines = {
            key[1:]: flops
            for key, flops in sums.items()
            if isinstance(key, tuple) and key[0] == axis and len(key) > 1 and key[1]
        }
        source, dropped_at = max(lines, key=lambda line: lines[line], default=("", ""))
        least = DROPPED if dropped_at and axis in of_batch else REPEATED
        if not repeated or own < LITTLE * (own - repeated + repeated / size):
            continue
        yield Accident(
            kind="repeated_work",
            axes=(axis,),
            source=source,
            dropped_at=dropped_at,
            share=repeated / own,
            is_minor=own < least * (own - repeated + repeated / size),
            in_map=sums[MAPPED, axis] > repeated / 2,
            work=own / (own - repeated + repeated / size),
        )


def _wide(sums: Sums, weights: str) -> Iterator[Accident]:
    for element, bits in _BITS.items():
        share = float(sums[element]) / (float(sums[OWN]) or 1.0)
        if bits > _BITS.get(weights, 64) and share >= WIDE:
            yield Accident(kind="wide_products", dtype=element, share=share)


def _element(module: Module, weights: Collection[int]) -> str:
    """The element type that most bytes of the weights have."""
    held = Counter[str]()
    for at in weights:
        shape = module.entry.parameters[at].shape
        held[shape.element] += shape.bytes
    return max(held, key=lambda element: held[element], default="")


def _constants(module: Module, file: File) -> Iterator[Accident]:
    """Arrays that are written into the program."""
    for of in module.computations:
        for each in of.instructions:
            if each.opcode == "constant" and each.shape.dims and each.shape.bytes >= LARGE:
                near = (each, *of.users[each.name])
                source = next(filter(None, (line_of(one, file) for one in near)), "")
                yield Accident(kind="constant", source=source, bytes=each.shape.bytes)


def _gathered(module: Module, mesh: Mesh, file: File) -> Iterator[Accident]:
    """Stacked weights that the program gathers before the loop that takes a layer at a time."""
    for of in module.computations:
        for each in of.instructions:
            axes = _gathers(each, of, mesh)
            if axes and each.shape.bytes >= SMALLEST and _is_looped_over(each, of, module):
                source = line_of(each, file) or ""
                bytes_ = each.shape.bytes
                yield Accident(kind="gathered_whole", axes=axes, source=source, bytes=bytes_)


def _gathers(each: Instruction, of: Computation, mesh: Mesh) -> tuple[str, ...]:
    """The axes over which the program itself gathers a value: by all_gather, or by a constraint."""
    sizes = dict(mesh)
    if each.opcode == "all-gather":
        return tuple(axis for axis, size in mesh if size > 1)
    if last_part(each.op_name) != CONSTRAINT or len(each.operands) != 1:
        return ()
    before, after = (sharding_of(one, of, mesh) for one in (of.by_name[each.operands[0]], each))
    if before is None or after is None:
        return ()
    kept = {axis for dim in after.spec for axis in dim}
    return tuple(a for dim in before.spec for a in dim if sizes[a] > 1 and a not in kept)


def _carried_otherwise(module: Module, mesh: Mesh, file: File) -> Iterator[Accident]:
    """Sums over the turns of a loop that a constraint replicates over axes that shard them from turn
    to turn: for each line the axes and bytes a device of all, and the spec of the largest.
    """
    lines: dict[str, list[tuple[int, tuple[str, ...], Spec]]] = {}
    loops = (each for of in module.computations for each in of.instructions)
    bodies = (module.callee(each, "body") for each in loops if each.opcode == "while")
    for body in filter(None, bodies):
        for value, before in _carries(body):
            after, kept = sharding_of(value, body, mesh), sharding_of(before, body, mesh)
            if after is None or kept is None or value.shape.bytes < SMALLEST:
                continue
            had = {axis for dim in after.spec for axis in dim}
            if axes := tuple(axis for dim in kept.spec for axis in dim if axis not in had):
                held = value.shape.bytes // math.prod(dict(mesh)[axis] for axis in had)
                source = line_of(body.by_name[value.operands[0]], file) or ""
                lines.setdefault(source, []).append((held, axes, kept.spec))
    for source, sums in lines.items():
        lost = {axis for _, some, _ in sums for axis in some}
        yield Accident(
            kind="replicated_carry",
            axes=tuple(axis for axis, _ in mesh if axis in lost),
            source=source,
            bytes=sum(size for size, *_ in sums),
            spec=max(sums)[-1],
        )


def _carries(body: Computation) -> Iterator[tuple[Instruction, Instruction]]:
    """Of each sum over turns that a constraint returns, the constraint and the sum of before, which
    nothing else uses: other values may be needed otherwise within a turn.
    """
    if body.root.opcode != "tuple":
        return
    for at, name in enumerate(body.root.operands):
        value = body.by_name[name]
        if last_part(value.op_name) != CONSTRAINT or len(value.operands) != 1:
            continue
        sum_ = body.by_name[value.operands[0]]
        for operand in sum_.operands if sum_.opcode == "add" else ():
            before = body.by_name[operand]
            is_given = before.opcode == "get-tuple-element"
            is_given = is_given and body.by_name[before.operands[0]].opcode == "parameter"
            if is_given and _index(before) == at and len(body.users[operand]) == 1:
                yield value, before


def _resharded(of: Computation, mesh: Mesh, donated: Donated) -> Iterator[Accident]:
    """The largest donated argument that leaves in another sharding, and how many do."""
    results, moved = result_shardings(of, mesh), []
    for path, (at, result) in donated.items():
        given = of.parameters[at]
        before, after = sharding_of(given, of, mesh), results[result] if results else None
        if before and after and before.spec != after.spec and given.shape.bytes >= SMALLEST:
            parts = math.prod(dict(mesh)[axis] for dim in before.spec for axis in dim)
            moved.append((given.shape.bytes // parts, path, after.spec))
    if moved:
        _, path, spec = max(moved)
        held = sum(size for size, *_ in moved)
        others = len(moved) - 1
        yield Accident(kind="resharded_donation", path=path, others=others, bytes=held, spec=spec)


def _index(element: Instruction) -> int:
    return int(element.attributes.get("index") or 0)


def _is_looped_over(each: Instruction, of: Computation, module: Module) -> bool:
    waiting = [each]
    while waiting:
        at = waiting.pop()
        for user in of.users[at.name]:
            if user.opcode in _PASSED_ON:
                waiting.append(user)
            elif user.opcode == "tuple":
                loops = [one for one in of.users[user.name] if one.opcode == "while"]
                index = user.operands.index(at.name)
                if any(_slices(module.callee(loop, "body"), index) for loop in loops):
                    return True
    return False


def _slices(body: Computation | None, index: int) -> bool:
    """Whether a loop's body slices the carry of this number."""
    return body is not None and any(
        user.opcode == "dynamic-slice"
        for each in body.instructions
        if each.opcode == "get-tuple-element" and _index(each) == index
        for user in body.users[each.name]
    )
