"""A prediction: whether a step fits, its time, its bound, and where the time goes."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from spmd_core.base import Frozen
from spmd_core.results.collective import Collective

PROGRAM = "program"  # the key of a program's fingerprint among the facts of its compile
Binds = Literal["compute", "memory", "interconnect", "host", "data centre network"]

SAME_PROGRAM = "same program"  # `row`, the first whose compiled program is the same
RINGS = "may become rings"  # an estimate's: the compiler may split matmuls among few devices


def possible(share: float | None) -> float | None:
    """Returns a share of a peak; None for one above 1, whose FLOPs or peak are counted wrong."""
    return None if share is not None and share > 1 else share


class StoredFact(Frozen):
    """What readers need to know beside numbers, as it is stored: a kind of `words/facts.py`, and the
    values that its sentence names.
    """

    kind: str
    values: Mapping[str, int | float | str] = {}


class Estimate(Frozen):
    """A predicted duration in seconds, with its interval."""

    low: float
    estimate: float
    high: float


class Bounds(Frozen):
    """Seconds of the step if every transfer overlapped with compute, and if none did, at the rates
    of the estimate.
    """

    overlapped: float
    sequential: float


class PredictedMemory(Frozen):
    """Bytes per device. `peak` is the maximum of live HBM; `capacity` what a program may use;
    `missing` the excess.
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
    """An array that contributes to peak memory, bytes per device."""

    name: str
    bytes: int
    shape: str
    op: str | None = None


class Prediction(Frozen):
    """The compiler's and the cost model's account of a program. Fields are None if it does not fit,
    since then there is no schedule to estimate.
    """

    fits: bool
    compiled: bool = True  # False: estimated from the plan alone
    # what was read: the scheduled program, or the one with code; None: not recorded, or not
    # compiled
    program: Literal["scheduled", "final"] | None = None
    memory_bytes: PredictedMemory
    predicted_s: Estimate | None = None
    bounds_s: Bounds | None = None
    mfu: float | None = None
    impossible_mfu: float | None = None  # a share above 1, of wrong FLOPs or peak; then no `mfu`
    tflops_per_chip: float | None = None
    tokens_per_s_per_chip: float | None = None
    chip_seconds: float | None = None  # chips times the step's time
    binds: Binds | None = None
    # seconds by category: matmul, kernel, memory, and waits by what is waited for
    shares_s: dict[str, float] = {}
    collectives: tuple[Collective, ...] = ()
    # empty: the segments that older versions stored here are left, since nothing reads them
    timeline: Annotated[tuple[()], BeforeValidator(lambda stored: ())] = ()
    buffers: tuple[Buffer, ...] = ()
    notes: tuple[str, ...] = ()  # for those who read: not stored, but by older versions
    facts: tuple[StoredFact, ...] | None = None  # what notes are made of; None: notes are stored
    before_compiling: dict[str, Any] = {}  # the estimate of memory without the compiler
    compile: dict[str, Any] = {}  # seconds, versions, flags

    @model_validator(mode="before")
    @classmethod
    def _without_impossible(cls, given: Any) -> Any:
        """No chip does more than its peak: what comes out above it, also in stored results, is no
        utilization.
        """
        mfu = given.get("mfu") if isinstance(given, dict) else None
        if not isinstance(mfu, float) or possible(mfu) == mfu:
            return given
        return given | {"mfu": None, "tflops_per_chip": None, "impossible_mfu": mfu}
