"""Returns collectives of a program that the compiler has partitioned and made no code of."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from spmd_core.base import Frozen
from spmd_core.experiment import Experiment
from spmd_core.results import Collective, Estimate
from spmd_core.runs.events import Failed


class Requested(Collective):
    """A collective of a partitioned program; `dim` is the dim of the array that it moves, None of a
    sum and of one that carries several arrays.
    """

    dim: int | None = None


class PartitionCommand(Frozen):
    """Down: partition the program of an experiment."""

    command: Literal["partition"] = "partition"
    experiment: Experiment
    strategy: str


class Partitioned(Frozen):
    """Up: the collectives of the program, its peak memory on a device, the estimate of its time on an
    absent target, and the CPU seconds that this took.
    """

    event: Literal["partitioned"] = "partitioned"
    collectives: tuple[Requested, ...]
    peak_bytes: int | None = None
    predicted_s: Estimate | None = None
    seconds: float = 0.0


PARTITION: TypeAdapter[PartitionCommand] = TypeAdapter(PartitionCommand)
PARTITIONED: TypeAdapter[Partitioned | Failed] = TypeAdapter(
    Annotated[Partitioned | Failed, Field(discriminator="event")]
)
