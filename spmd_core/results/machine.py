"""A machine as JAX reports it, and what was measured of it: its ceilings, its collectives and their fits."""

from typing import Literal

from spmd_core.base import Frozen
from spmd_core.facts import possible


class Device(Frozen):
    """One device, as JAX lists it."""

    id: int
    process: int
    coords: tuple[int, ...] | None = None
    core: int | None = None
    memory_kinds: tuple[str, ...] = ()
    memory_bytes: int | None = None


class Environment(Frozen):
    """What a worker runs on: versions, platform, devices, and the machine's state when it was
    measured.
    """

    jax: str
    jaxlib: str
    python: str
    platform: str
    platform_version: str | None = None
    device_kind: str
    device_count: int
    process_count: int = 1
    process_index: int = 0
    hosts: tuple[str, ...] = ()  # of several processes: the name of each one's machine
    devices: tuple[Device, ...] = ()
    default_memory: str | None = None
    cores: int | None = None
    host_memory_bytes: int | None = None
    load: float | None = None
    dispatch_floor_s: float | None = None
    xla_flags: str = ""
    libtpu_init_args: str = ""  # flags of the TPU compiler and runtime, from the environment
    libtpu: str | None = None  # of a compile-only target: the package that holds the compiler
    simulated: bool = False
    notes: tuple[str, ...] = ()  # for those who read: not stored, but by older versions


Interval = tuple[float, float]


class Point(Frozen):
    """One size of one collective over some mesh axes; bandwidths in bytes per second.

    `bytes` and both bandwidths are counted as nccl-tests does (`workloads/machine.py`). Times are
    seconds; None where nothing was measured, or predicted.
    """

    kind: str
    axes: tuple[str, ...]
    devices: int  # in a group; all groups of the mesh communicate at the same time
    dtype: str
    bytes: int
    time_s: float | None = None
    ci95_s: Interval | None = None
    algbw: float | None = None
    busbw: float | None = None
    predicted_s: float | None = None
    correct: bool | None = None
    error: str | None = None
    in_program: bool = False  # of one within a program, rather than a call that does nothing else


class Fit(Frozen):
    """Time of a collective as latency + bytes x bus factor / bandwidth, with 95 % intervals.

    `knee_bytes`: the size at which both parts are equal.
    """

    kind: str
    axes: tuple[str, ...]
    devices: int
    latency_s: float
    latency_ci95_s: Interval
    bandwidth: float  # bytes per second, as bus bandwidth counts them
    bandwidth_ci95: Interval
    knee_bytes: float
    worst_error: float  # the largest |fit / measured - 1| of its points


class Operation(Frozen):
    """What each device does, `count` times: a matmul of `sizes` rows, inner, columns; or an
    elementwise loop that reads and writes `sizes` bytes, in their order (`copy`) or across it
    (`relayout`); or as many elements of a transcendental function; or a fresh result of as many
    bytes, beyond writing it.
    """

    kind: Literal["matmul", "copy", "relayout", "transcendental", "result"]
    sizes: tuple[int, ...]
    count: int = 1


class Cost(Frozen):
    """Measured seconds of an operation while all devices run it, without the overhead of the call."""

    operation: Operation
    seconds: float


class MoveCost(Frozen):
    """Measured seconds of a collective of `bytes`, as a `Point` counts them, over mesh axes."""

    kind: str
    axes: tuple[str, ...]
    devices: int
    bytes: int
    seconds: float


class Ceiling(Frozen):
    """The highest rate that was measured on this machine.

    `value` is in `unit`, `interval` its 95 % interval; `spread` the middle half of the repeats over
    their median, which is small on an idle machine.
    """

    name: str
    title: str
    value: float
    interval: Interval
    unit: str
    spread: float = 0.0
    data_sheet: float | None = None  # from the chip's data sheet, in the same unit


class Roofline(Frozen):
    """A roofline: the minimum seconds of a program by each of the machine's ceilings.

    `share` is the largest roof over the measured time; None where nothing was measured.
    """

    compute_s: float
    memory_s: float
    communication_s: float
    dispatch_s: float
    share: float | None = None
    ideal_s: float | None = None  # all FLOPs, shared by all devices, at their matmul rate
    mfu: float | None = None  # that over the measured time

    @property
    def roofs_s(self) -> dict[str, float]:
        """Seconds of each roof, by resource."""
        return {
            "compute": self.compute_s,
            "memory": self.memory_s,
            "communication": self.communication_s,
            "dispatch": self.dispatch_s,
        }

    @property
    def binds(self) -> str:
        """The resource of the largest roof."""
        return max(self.roofs_s, key=self.roofs_s.__getitem__)

    def reached(self, median_s: float | None) -> "Roofline":
        """A copy with the share of the largest roof that a measured time reaches, and its MFU."""
        share = self.roofs_s[self.binds] / median_s if median_s else None
        mfu = possible(self.ideal_s / median_s) if median_s and self.ideal_s else None
        return self.model_copy(update={"share": share, "mfu": mfu})
