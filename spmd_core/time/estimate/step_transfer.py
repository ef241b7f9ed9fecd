"""A collective of a training step, timed on its links; and those of a layer that XLA for GPUs sends
as one, whose latency counts once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from spmd_core.plan import Plan
from spmd_core.time.cost.links import EXPECTED, NOMINAL, Route, collective_s, route_of
from spmd_core.time.estimate.constants import NOT_OF_A_LAYER
from spmd_core.time.estimate.shapes import Shapes
from spmd_core.time.gpu.constants import COMBINED

COMPLETE = "complete "  # begins names of what the optimizer moves
PASSED, EXCHANGED = "keys and values", "heads for tokens"  # names of what attention moves
GRADIENT = "transpose("  # in the name of an operation that makes gradients, as JAX writes it


@dataclass(frozen=True, slots=True)
class StepTransfer:
    """One collective: `seconds` of one execution, `count` in a step. `beside`: what it can hide
    under.

    "layers": the layers' work, but for the share that is `late`; "": nothing but for the share of
    it that is not `alone`, the rest holds the chip.
    """

    kind: str
    axes: tuple[str, ...]
    nbytes: float
    count: int
    seconds: float
    bound_s: float
    where: Route
    beside: str
    asked: str | None = None
    op_name: str = ""
    name: str = ""
    alone: float = 1.0
    late: float = 0.0

    @property
    def wanted(self) -> str:
        """What the program requests."""
        return self.asked or self.kind

    @property
    def reduction(self) -> str:
        """What a reduction computes: a training step's are all sums."""
        return "add"

    @property
    def ring(self) -> int:
        """Devices of a collective matmul's ring: none is estimated, the compiler makes them."""
        return 0

    @property
    def source(self) -> None:
        """The line that causes it: no program is written."""


def is_of_context(name: str) -> bool:
    """Returns True for a transfer by which attention reaches tokens of other devices."""
    return name.startswith((PASSED, f"gradient of {PASSED}", EXCHANGED))


def is_of_update(name: str) -> bool:
    """Returns True for a transfer of the optimizer, once a step however many microbatches it has."""
    return name.startswith(COMPLETE)


def that_move(listed: Iterable[StepTransfer]) -> tuple[StepTransfer, ...]:
    """Returns the transfers over links, cores or slices: others take no time."""
    return tuple(
        each for each in listed if each.where.spans or each.where.cores > 1 or each.where.slices > 1
    )


@lru_cache(maxsize=256)
def route_along(shapes: Shapes, axes: tuple[str, ...]) -> Route:
    """Returns the links between the devices along mesh axes."""
    plan: Plan = shapes.plan
    return route_of(shapes.topology, plan.mesh, plan.device_order, axes)


def transfer(
    shapes: Shapes,
    kind: str,
    axes: tuple[str, ...],
    nbytes: float,
    count: int,
    beside: str,
    asked: str | None = None,
    op_name: str = "",
    name: str = "",
) -> StepTransfer:
    """Returns a collective of `nbytes` over `axes`, executed `count` times a step, with the seconds
    of each at expected and at nominal rates.
    """
    where, topology = route_along(shapes, axes), shapes.topology
    seconds, bound = (
        collective_s(topology, kind, where, nbytes, rates) for rates in (EXPECTED, NOMINAL)
    )
    return StepTransfer(
        kind, axes, nbytes, count, seconds, bound, where, beside, asked, op_name, name
    )


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
