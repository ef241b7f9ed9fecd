"""Where a traced step spent its time, by device and by operation."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from spmd_core.base import Frozen

MAX_POINTS = 200  # of a curve that is drawn; a result keeps every step
STEP_TIME = "step_s"  # the curve of seconds per step


def thinned(values: Sequence[float]) -> tuple[float, ...]:
    """At most MAX_POINTS of a curve's values, evenly, the first and the last among them."""
    return tuple(values[step] for step in steps_drawn(len(values)))


def steps_drawn(count: int) -> list[int]:
    """Which of `count` steps, from 0, are drawn.

    >>> steps_drawn(3), len(steps_drawn(10_000))
    ([0, 1, 2], 200)
    """
    return np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(int).tolist()


def labelled(curve: str, strategy: str) -> str:
    """The key of a strategy's curve while a run streams it."""
    return f"{curve}/{strategy}"


def by_curve(series: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Sequence[float]]]:
    """Curve -> strategy -> values, from streamed series.

    >>> by_curve({"loss/auto": (2.0, 1.0)})
    {'loss': {'auto': (2.0, 1.0)}}
    """
    curves: dict[str, dict[str, Sequence[float]]] = {}
    for label, values in series.items():
        curve, _, strategy = label.partition("/")
        curves.setdefault(curve, {})[strategy] = values
    return curves


class NoTrace(StrEnum):
    """Why nothing was traced, where no error is the reason."""

    NOTHING = "nothing recorded"
    ONLY_HOST = "no device operations"
    RUNNING = "another profiler"
    ENDED = "the process ended"


class TracedDevice(Frozen):
    """Seconds of the step on one device: what it computes, the exposed part of its collectives,
    waits, copies and idle time are together the step.

    A collective begins when the last of its devices arrives: until then the others wait for that
    device (`waits_s`). `exposed_s` is the part of `collectives_s` in which the device computes
    nothing; copies count where it does neither.
    """

    device: int  # JAX's number of it
    compute_s: float
    collectives_s: float
    exposed_s: float
    waits_s: float
    copies_s: float
    idle_s: float


class TracedOperation(Frozen):
    """An instruction of the compiled program: its seconds in the step on each device, all its
    executions together. `device_s` is in the order of the trace's devices, None where it did not
    run; left out above 64 devices.
    """

    name: str
    kind: str  # matmul, compute, copy, wait, or the collective's
    op: str = ""
    source: str = ""
    count: int
    mean_s: float
    least_s: float
    most_s: float
    slowest: int  # the device of `most_s`
    device_s: tuple[float | None, ...] = ()


class Trace(Frozen):
    """One call among `calls` that were traced after the timing: the one of median length.

    `step_s` is from the first operation of any device to the end of the last; the other seconds are
    means over the devices. `skew` is (most - least) / most of the devices' computing time. Where
    nothing could be traced, `reason` explains why and all other fields are None.
    """

    reason: str | None = None  # as stored: a `NoTrace`, or an error's message
    sentence: str = ""  # for those who read: not stored
    step_s: float | None = None
    calls_s: tuple[float, ...] = ()  # of every call, by the clock of the trace
    compute_s: float | None = None
    collectives_s: float | None = None
    exposed_s: float | None = None
    waits_s: float | None = None
    skew: float | None = None
    devices: tuple[TracedDevice, ...] = ()
    operations: tuple[TracedOperation, ...] = ()  # the longest first
    other_operations: int = 0  # that are not listed
    # devices that recorded asynchronous operations, where not all did: their means are over these
    asynchronous_on: int | None = None
    # share of the devices' busy time in kernels without an instruction, which count by their names
    unattributed: float = 0.0
    left_out: int = 0  # events of a long trace that were not read
    notes: tuple[str, ...] = ()  # for those who read: not stored
