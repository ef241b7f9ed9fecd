"""What a program requests by the propagation of its shardings alone: no compiler has seen it."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from spmd_core.base import Frozen
from spmd_core.experiment import Experiment
from spmd_core.results.collective import Collective
from spmd_core.results.runs.events import Failed


class Requested(Collective):
    """A collective that propagation requests; `dim` is the dim of the array that it moves, None of a
    sum.
    """

    dim: int | None = None


class PropagateCommand(Frozen):
    """Down: propagate the shardings of an experiment's program."""

    command: Literal["propagate"] = "propagate"
    experiment: Experiment
    strategy: str


class Propagated(Frozen):
    """Up: the collectives that the program requests, and the CPU seconds that it took."""

    event: Literal["propagated"] = "propagated"
    collectives: tuple[Requested, ...]
    seconds: float


PROPAGATE: TypeAdapter[PropagateCommand] = TypeAdapter(PropagateCommand)
PROPAGATED: TypeAdapter[Propagated | Failed] = TypeAdapter(
    Annotated[Propagated | Failed, Field(discriminator="event")]
)
