"""Collectives of a layer that XLA for GPUs sends as one, whose latency counts once; and one after
the other, so that some hide little.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spmd_core.time.cost.links import EXPECTED, NOMINAL, collective_s
from spmd_core.time.estimate.constants import NOT_OF_A_LAYER
from spmd_core.time.estimate.shapes import Shapes
from spmd_core.time.estimate.step_transfer import StepTransfer
from spmd_core.time.gpu.constants import COMBINED

_WEIGHTS = ("gather ", "gradient ")  # how transfers of weights are named


def as_one(shapes: Shapes, moved: Sequence[StepTransfer]) -> list[StepTransfer]:
    """Transfers with those of a layer's weights together, as far as their results are no more than
    the compiler's threshold: of a gather all of it, of a scattered sum a device's part.
    """
    kept, groups = list[StepTransfer](), dict[tuple[object, ...], list[StepTransfer]]()
    for each in moved:
        verb = next((verb for verb in _WEIGHTS if each.name.startswith(verb)), "")
        if not verb or each.name.removeprefix(verb) in NOT_OF_A_LAYER:
            kept.append(each)
        else:
            groups.setdefault((each.kind, each.axes, each.count, each.beside), []).append(each)
    parts = (part for group in groups.values() for part in _parts(shapes, group))
    return [*(_merged(shapes, part) for part in parts), *kept]


def in_turn(shapes: Shapes, moved: Sequence[StepTransfer], hides_s: float) -> list[StepTransfer]:
    """Transfers where XLA for GPUs runs one at a time (its `parallel_collective_overlap_limit` is
    1), and those over `tensor` hold the work up: another has only the work until the next of them
    beside it, `hides_s` of a layer's attention, with which a layer begins.
    """
    if shapes.tensor < 2:
        return list(moved)
    return [
        replace(each, late=max(0.0, 1 - hides_s / each.seconds))
        if each.beside and "tensor" not in each.axes and each.count >= shapes.size.all_layers
        else each
        for each in moved
    ]


def _parts(shapes: Shapes, group: Sequence[StepTransfer]) -> Iterator[list[StepTransfer]]:
    share = 1 / shapes.along(*group[0].axes) if group[0].kind == "reduce-scatter" else 1.0
    part, held = list[StepTransfer](), 0.0
    for each in sorted(group, key=lambda each: -each.nbytes):
        if part and held + each.nbytes * share > COMBINED:
            yield part
            part, held = [], 0.0
        part, held = [*part, each], held + each.nbytes * share
    yield part


def _merged(shapes: Shapes, part: Sequence[StepTransfer]) -> StepTransfer:
    first, nbytes = part[0], sum(each.nbytes for each in part)
    seconds, bound = (
        collective_s(shapes.topology, first.kind, first.where, nbytes, rates)
        for rates in (EXPECTED, NOMINAL)
    )
    verb = first.name.partition(" ")[0]
    names = ", ".join(each.name.partition(" ")[2] for each in part)
    return replace(first, nbytes=nbytes, seconds=seconds, bound_s=bound, name=f"{verb} {names}")
