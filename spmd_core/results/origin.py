"""What put a mesh axis on a value: an argument, a constraint, an output, or a shard_map; and the steps
of propagation from there to the value.
"""

from enum import StrEnum
from typing import Literal

from spmd_core.base import Frozen

Spec = tuple[tuple[str, ...], ...]  # mesh axes of each dim, major first
OriginPlace = tuple[str, str, str | None, str | None]  # kind, name, source, called
OriginKind = Literal["argument", "constraint", "output", "shard_map"]


class NoOrigin(StrEnum):
    """Why the origin of an axis is unknown."""

    NO_RECORD = (
        "no record"  # the compiler wrote none: it does not use Shardy, or is another version
    )
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"
    NO_OPERATION = "no operation"  # none before partitioning has the collective's name and line
    NO_VALUE = "no value"  # none there is sharded over the axis: the compiler moves shards over it
    NOT_FOLLOWED = "not followed"  # a step of the propagation was not recorded


class OriginStep(Frozen):
    """An operation that carried an axis; `backward` if it went from a result to an operand."""

    operation: str
    source: str = ""  # file:line
    backward: bool = False


class AxisOrigin(Frozen):
    """What put an axis on a value.

    `name` is the path of an argument or an output, the function of a `shard_map`; `source` is the
    line of a constraint or a `shard_map`; `called` is the line that calls the function which
    constrains, where several do; `spec` is what is written there. `steps` lead from there to the value; `left_out` counts those in their middle that are not listed.
    `values` counts the values of the program that have the axis by it.
    `also`: it has put the axis nowhere, but would if the others did not; `elsewhere`: on another dim.
    `inferred`: it is the nearest place that names the axis on that dim, where the compiler keeps no
    record of its propagation, as of a program with a `shard_map`.
    """

    axis: str
    kind: OriginKind
    name: str = ""
    source: str | None = None
    called: str | None = None
    spec: Spec = ()
    steps: tuple[OriginStep, ...] = ()
    left_out: int = 0
    also: bool = False
    elsewhere: bool = False
    inferred: bool = False
    values: int | None = None

    @property
    def place(self) -> OriginPlace:
        """Where it is in the program."""
        return self.kind, self.name, self.source, self.called
