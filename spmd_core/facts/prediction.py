"""A prediction: whether a step fits, its time, its bound, and where the time goes."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from spmd_core.base import Frozen, sums_by_key
from spmd_core.facts.collective import Collective

PROGRAM = "program"  # the key of a program's fingerprint among the facts of its compile
Fits = Literal["yes", "likely", "unlikely", "no"]  # by the interval of an estimate of memory
Binds = Literal["compute", "memory", "interconnect", "host", "data centre network"]

SAME_PROGRAM = "same program"  # `row`, the first whose compiled program is the same
# of a peak and of an estimate: the same program compiled twice differs by less
SAME_PEAK, SAME_ESTIMATE = 0.01, 0.02
MAY_TAKE_LONGER = "may take longer"  # an estimate's: plans like it compiled to more than theirs
TOOK_LONGER = "took longer"  # an estimate's: each published step on such chips took more
LONGER = (MAY_TAKE_LONGER, TOOK_LONGER)  # why an interval reaches far
RINGS = "may become rings"  # an estimate's: the compiler may split matmuls among few devices


_NOT_OF_AXES = ("copy", "host", "send", "slices", "stages")  # what else a step waits for


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

    def over(self, other: "Estimate") -> tuple[float, float]:
        """Returns the widest interval of its ratio to `other` that both intervals allow."""
        return self.low / other.high, self.high / other.low


class Bounds(Frozen):
    """Seconds of the step if every transfer overlapped with compute, and if none did, at the rates
    of the estimate.
    """

    overlapped: float
    sequential: float


class PredictedMemory(Frozen):
    """Bytes per device. `peak` is the maximum of live HBM; `capacity` what a program may use;
    `missing` the excess. `host` is in host memory.
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


Fit = Literal["fits", "may not fit", "does not fit"]


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
    # a device's share of its host's memory; None: stored before it was compared
    host_capacity_bytes: int | None = None
    predicted_s: Estimate | None = None
    bounds_s: Bounds | None = None
    mfu: float | None = None
    # that without the pairs that a causal mask leaves out, of a plan; not stored: `mfu` times the
    # plan's `causal_share`
    mfu_causal: float | None = None
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

    @property
    def shares_by_axis(self) -> dict[str, float]:
        """Returns `shares_s` with the waits for collectives by mesh axes, `exposed: fsdp`, instead
        of by kind."""
        waits = {
            name: s
            for name, s in self.shares_s.items()
            if name.startswith("wait: ") and name.removeprefix("wait: ") not in _NOT_OF_AXES
        }
        exposed = sums_by_key(
            (each.axes, each.exposed_in_all_s)
            for each in self.collectives
            if f"wait: {each.kind}" in waits
        )
        total = sum(exposed.values())
        if not total:
            return self.shares_s
        kept = {name: s for name, s in self.shares_s.items() if name not in waits}
        scale = sum(waits.values()) / total
        by_axis = {f"exposed: {' '.join(axes)}": scale * s for axes, s in exposed.items() if s}
        return kept | by_axis

    @property
    def host_missing(self) -> int:
        """Bytes per device that its share of the host's memory does not hold."""
        held, capacity = self.memory_bytes.host, self.host_capacity_bytes
        return max(0, held - capacity) if held and capacity is not None else 0

    @property
    def is_timed(self) -> bool:
        """False for a program that does not fit: no time is given. An estimate may fit up to the
        low end of its interval.
        """
        low = self.before_compiling.get("low")
        is_open = low is not None and low <= self.memory_bytes.capacity and not self.host_missing
        return self.fits or (is_open and not self.compiled)

    @property
    def fit(self) -> Fit:
        """The verdict on memory: of what is compiled by its peak, of an estimate by its interval.

        An estimate whose interval has the capacity in it may not fit.
        """
        if not (self.predicted_s and self.fits if self.compiled else self.is_timed):
            return "does not fit"
        is_open = self.before_compiling.get("high", 0) > self.memory_bytes.capacity
        return "may not fit" if is_open and not self.compiled else "fits"

    def on_one_of(self, chips: int) -> "Prediction":
        """Returns the same of a program that takes one of so many chips: its rates are of that one."""
        rates = ("mfu", "mfu_causal", "tflops_per_chip", "tokens_per_s_per_chip")
        known = {name: getattr(self, name) for name in rates}
        update = {name: chips * each for name, each in known.items() if each is not None}
        if self.chip_seconds is not None:
            update["chip_seconds"] = self.chip_seconds / chips
        return self.model_copy(update=update)

    @property
    def without_time(self) -> "Prediction":
        """The prediction of a program that does not fit: its memory alone."""
        kept = {"fits", "compiled", "program", "memory_bytes", "host_capacity_bytes", "buffers"}
        kept |= {"notes", "facts", "before_compiling", "compile"}
        return Prediction(**{name: getattr(self, name) for name in kept})

    @model_validator(mode="before")
    @classmethod
    def _without_impossible(cls, given: Any) -> Any:
        """No chip does more than its peak: what comes out above it, also in stored results, is no
        utilization.
        """
        mfu = given.get("mfu") if isinstance(given, dict) else None
        if not isinstance(mfu, float) or possible(mfu) == mfu:
            return given
        return given | {
            "mfu": None,
            "mfu_causal": None,
            "tflops_per_chip": None,
            "impossible_mfu": mfu,
        }
