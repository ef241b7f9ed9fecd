"""A prediction: does it fit, how long, what binds, where the time goes."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from spmd_core.base import Frozen
from spmd_core.results.collective import Collective

PROGRAM = "program"  # the key of a program's fingerprint among the facts of its compile
Binds = Literal["compute", "memory", "interconnect", "host", "data centre network"]


class Estimate(Frozen):
    """A predicted duration in seconds, with the interval that it stands for."""

    low: float
    estimate: float
    high: float


class Bounds(Frozen):
    """Seconds of the step if every transfer ran beside the work, and if none did, at the rates of
    the estimate.
    """

    overlapped: float
    sequential: float


class PredictedMemory(Frozen):
    """Bytes per device. `peak` is what is live at once in HBM; `capacity` what a program may use;
    `missing` what it is over by.
    """

    argument: int | None = None
    output: int | None = None
    temp: int | None = None
    alias: int | None = None
    code: int | None = None
    peak: int | None = None
    host: int | None = None
    capacity: int
    missing: int = 0


class Buffer(Frozen):
    """An array that matters to memory, bytes per device."""

    name: str
    bytes: int
    shape: str
    op: str | None = None


class Prediction(Frozen):
    """What the compiler and the cost model make of a program. None where it does not fit and there
    is no schedule to price.
    """

    fits: bool
    compiled: bool = True  # False: estimated from the plan alone
    # what was read: as the compiler scheduled it, or with its code; None: not said, or not compiled
    program: Literal["scheduled", "final"] | None = None
    memory_bytes: PredictedMemory
    predicted_s: Estimate | None = None
    bounds_s: Bounds | None = None
    mfu: float | None = None
    tflops_per_chip: float | None = None
    tokens_per_s_per_chip: float | None = None
    chip_seconds: float | None = None  # chips times the step's time
    binds: Binds | None = None
    # where the estimate goes: matmul, kernel, memory, and waits by what is waited for
    shares_s: dict[str, float] = {}
    collectives: tuple[Collective, ...] = ()
    # empty: the segments that older versions stored here are left, since nothing reads them
    timeline: Annotated[tuple[()], BeforeValidator(lambda stored: ())] = ()
    buffers: tuple[Buffer, ...] = ()
    notes: tuple[str, ...] = ()
    before_compiling: dict[str, Any] = {}  # the memory estimate that was made without the compiler
    compile: dict[str, Any] = {}  # seconds, versions, flags
