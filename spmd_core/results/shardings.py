"""The sharding of every value of a program, from its operands to its results."""

from enum import StrEnum
from typing import Literal

from spmd_core.base import Frozen
from spmd_core.results.origin import AxisOrigin, Spec


class NoShardings(StrEnum):
    """Why no step was read, where no error is the reason."""

    NO_DUMP = "no dump"
    ONE_DEVICE = "one device"
    NOT_COMPILED = "not compiled"


class Reshard(Frozen):
    """An operand that a step reshards: from which spec to which.

    `free`: each device has its part already, so that nothing is sent. `origins` are of the axes that
    leave a dim, `against` of those that are needed instead.
    """

    operand: str
    before: Spec
    after: Spec
    free: bool = False
    origins: tuple[AxisOrigin, ...] = ()
    against: tuple[AxisOrigin, ...] = ()


class Step(Frozen):
    """A value: its name in the program, or its operation; its logical shape and its sharding.

    `spec` is None if the compiler's sharding cannot be written with mesh axes. Over `manual` axes
    the program shards by itself (shard_map): there `shape` is that of a shard. `sums` are the axes
    over which each device holds a partial sum that is added here. `inside` names the loop.
    """

    name: str = ""  # the variable that the line assigns; "" for what is inside a line
    operation: str
    op: str = ""
    shape: tuple[int, ...]
    dtype: str
    spec: Spec | None
    manual: tuple[str, ...] = ()
    bytes: int | None = None  # per device
    source: str = ""  # file:line
    code: str = ""  # that line
    inside: str = ""
    reshards: tuple[Reshard, ...] = ()
    sums: tuple[str, ...] = ()
    constraint: str = ""  # file:line of the program's with_sharding_constraint that it follows from
    origins: tuple[AxisOrigin, ...] = ()  # of the axes of `spec`
    collectives: tuple[str, ...] = ()  # of the compiled program, by the same operation and line


class Shardings(Frozen):
    """The steps of a program in its order, operands first; `left_out` counts those beyond."""

    steps: tuple[Step, ...] = ()
    left_out: int = 0
    reason: str | None = None  # why there are none: a `NoShardings`, or an error's message


class LostValue(Frozen):
    """A value at a gather or a loop's carry that has lost the batch: its line, and the spec that
    would keep it.
    """

    source: str  # file:line
    spec: Spec


class LostBatch(Frozen):
    """Where a program loses its batch first, over which axes: `work` is a device's matmul FLOPs over
    an even share, `share` that of the FLOPs which are computed without the batch's axes. `places`
    are the values that would keep it, once constrained; `origin` is what names these axes there.
    """

    axes: tuple[str, ...]
    source: str  # file:line
    work: float
    share: float
    places: tuple[LostValue, ...] = ()
    origin: tuple[AxisOrigin, ...] | None = None


class Accident(Frozen):
    """Something that a compiled program does and its author hardly meant, at a source line.

    `share`: of a device's matmul FLOPs. `work`: a device's over what it were without. `bytes`: per
    device. `origin`: what names these axes at that line; () where nothing does, None where that is
    unknown.
    """

    kind: Literal["repeated_work", "wide_products", "constant", "gathered_whole"]
    axes: tuple[str, ...] = ()
    source: str = ""  # file:line; "" where no line of the program's own is known
    share: float = 0.0
    work: float = 1.0
    bytes: int = 0
    dtype: str = ""
    origin: tuple[AxisOrigin, ...] | None = None


class Judged(Frozen):
    """What is known against a compiled program."""

    lost_batch: LostBatch | None = None
    accidents: tuple[Accident, ...] = ()
