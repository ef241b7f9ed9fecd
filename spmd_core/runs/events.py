"""Messages between supervisor and worker: JSON lines over a dedicated socket, so that printed output
cannot interfere.
"""

import ctypes
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from spmd_core.base import Frozen, WorkerError, shorten
from spmd_core.experiment import Experiment
from spmd_core.facts import Accident, Collective, Estimate, LostBatch
from spmd_core.fields import Spec
from spmd_core.results import Environment, Failure, Operation, Point, Result

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
MAX_LINE_BYTES = 256 * 2**20
READ_BYTES = 2**20
T = TypeVar("T")


class Lines(Generic[T]):
    """Bytes in, values out: splits a stream into lines and validates each."""

    def __init__(self, adapter: TypeAdapter[T]):
        self._adapter, self._pending, self._searched = adapter, bytearray(), 0

    def feed(self, data: bytes) -> Iterator[T]:
        """The values that these bytes complete; WorkerError for a line that is none."""
        self._pending += data
        while (end := self._pending.find(b"\n", self._searched)) >= 0:
            line = bytes(self._pending[:end])
            del self._pending[: end + 1]
            self._searched = 0
            try:
                yield self._adapter.validate_json(line)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                raise WorkerError(
                    f"line {shorten(line)} does not belong to the protocol: {first['msg']}"
                ) from None
        self._searched = len(self._pending)
        if self._searched > MAX_LINE_BYTES:
            raise WorkerError(
                f"a line of more than {MAX_LINE_BYTES} bytes does not belong to the protocol"
            )


def channel_to_parent(number: int) -> socket.socket:
    """The socket that a child inherited from its parent. On Linux it is killed when the thread that
    started it ends.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = socket.socket(fileno=number)
    channel.set_inheritable(False)
    return channel


def encode(value: BaseModel) -> bytes:
    """Serializes a value as one line."""
    return value.model_dump_json().encode() + b"\n"


def send(channel: socket.socket, value: BaseModel) -> None:
    """Send a value, waiting until the other side has taken it."""
    channel.sendall(encode(value))


class RunCommand(Frozen):
    """Down: run this experiment."""

    command: Literal["run"] = "run"
    run: str
    experiment: Experiment
    compile_only: bool = False
    # of these rows only their rounds, since other processes have measured them: which process it is
    again: tuple[str, ...] = ()
    process: int = 1


class CancelCommand(Frozen):
    """Down: stop this run at the next round and keep what was measured. A run that has ended
    ignores it.
    """

    command: Literal["cancel"] = "cancel"
    run: str | None = None  # None: the active run


class PingCommand(Frozen):
    """Down, before an idle worker is used again: does it still answer?"""

    command: Literal["ping"] = "ping"


class RestedCommand(Frozen):
    """Down, just before a paused worker continues: how long it was stopped."""

    command: Literal["rested"] = "rested"
    seconds: float


class Pong(Frozen):
    """Up, immediately, even while a run is active."""

    event: Literal["pong"] = "pong"


class Started(Frozen):
    """Up, first: the process ends with its parent from here on, so that it may be paused."""

    event: Literal["started"] = "started"


class Ready(Frozen):
    """Up, once: the devices are available and match the request."""

    event: Literal["ready"] = "ready"
    environment: Environment


class Phase(Frozen):
    """Up: a phase begins: trace, lower, compile, first_run, warm_up, sample, check, write, repeat."""

    event: Literal["phase"] = "phase"
    phase: str
    strategy: str | None = None


class Progress(Frozen):
    """Up, at most ten a second: rounds done, and the provisional median of each strategy with its
    95 % interval in seconds.
    """

    event: Literal["progress"] = "progress"
    done: int
    of: int
    medians_s: dict[str, float] = {}
    intervals_s: dict[str, tuple[float, float]] = {}
    series: dict[str, tuple[float, ...]] = {}  # live curves, for example a training loss


class Points(Frozen):
    """Up: points of a sweep of collectives, as soon as they are measured."""

    event: Literal["points"] = "points"
    points: tuple[Point, ...]
    done: int
    of: int


class Texts(Frozen):
    """Up: the program texts of a strategy: program, jaxpr, stablehlo, hlo."""

    event: Literal["texts"] = "texts"
    strategy: str
    texts: dict[str, str]


class Measured(Frozen):
    """From the worker, before a profiler records a step: the result so far. It is kept if the
    profiler ends the process.
    """

    event: Literal["measured"] = "measured"
    result: Result


class Finished(Frozen):
    """Up: the run's result; `partial` inside it where the run was cancelled."""

    event: Literal["finished"] = "finished"
    result: Result
    renew_worker: bool = False  # True after memory ran out: start the next run in a fresh process


class Failed(Frozen):
    """Up: the run, or the start of the worker, failed."""

    event: Literal["failed"] = "failed"
    error: Failure


Command = Annotated[
    RunCommand | CancelCommand | PingCommand | RestedCommand, Field(discriminator="command")
]
Event = Annotated[
    Started | Ready | Phase | Progress | Points | Texts | Measured | Finished | Failed | Pong,
    Field(discriminator="event"),
]
COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)


class Requested(Collective):
    """A collective of a partitioned program; `dim` is the dim of the array that it moves, None of a
    sum and of one that carries several arrays.
    """

    dim: int | None = None


class PartitionCommand(Frozen):
    """Down: partition the program of an experiment; `is_quick`: only propagate its shardings."""

    command: Literal["partition"] = "partition"
    experiment: Experiment
    strategy: str
    is_quick: bool = False


class Partitioned(Frozen):
    """Up: the collectives of the program, its peak memory on a device, whether it was compiled to its
    end, as programs for GPUs and with Pallas kernels are, the estimate of its time on an
    absent target, and its seconds by part, what else a device does, where that can be listed, and
    the CPU seconds that this took; `values`: of propagation alone, its values by source line and type,
    and how many there are of each, and the specs of an exported program's outputs; no collectives.
    `lost_batch` and `accidents`: what is known against an exported program; None where nothing looked.
    """

    event: Literal["partitioned"] = "partitioned"
    collectives: tuple[Requested, ...]
    peak_bytes: int | None = None
    is_compiled: bool = False
    values: tuple[tuple[str, str, int], ...] | None = None
    outputs: tuple[Spec | None, ...] | None = None
    predicted_s: Estimate | None = None
    shares_s: dict[str, float] | None = None
    operations: tuple[Operation, ...] | None = None
    lost_batch: LostBatch | None = None
    accidents: tuple[Accident, ...] | None = None
    seconds: float = 0.0


PARTITION: TypeAdapter[PartitionCommand] = TypeAdapter(PartitionCommand)
PARTITIONED: TypeAdapter[Partitioned | Failed] = TypeAdapter(
    Annotated[Partitioned | Failed, Field(discriminator="event")]
)
