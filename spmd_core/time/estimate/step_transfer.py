"""A collective of a training step, timed on its links."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from spmd_core.plan import Plan
from spmd_core.time.cost.links import EXPECTED, NOMINAL, Route, collective_s, route_of
from spmd_core.time.estimate.shapes import Shapes

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
