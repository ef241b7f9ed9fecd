"""One communication op of a compiled program: the same value for a run, a prediction and a screen;
and its remedy: a change that was compiled and removes it, or why none does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import model_validator

from spmd_core.base import Frozen
from spmd_core.experiment import Experiment
from spmd_core.facts.shardings import AxisOrigin, NoOrigin
from spmd_core.facts.verdicts import Ratio
from spmd_core.fields import axes_of
from spmd_core.workloads import TRANSFERS

_MANY = 1 << 20  # devices, of which a share of bytes is that of any more


class Change(Frozen):
    """A change of one field of an experiment, in its JSON form. `name` is the dim, array or option;
    "" if the field has none.
    """

    field: str
    name: str = ""
    before: Any = None
    after: Any = None

    @property
    def shards_more(self) -> bool:
        """Whether more mesh axes shard a dim than before."""
        return len(axes_of(self.after)) > len(axes_of(self.before))


class CollectiveKind(Frozen):
    """What a collective is to a reader. `kind` is as compiled: `send` is a transfer between slices;
    `asked` is the kind that the program requested, where the compiler chose another.
    """

    kind: str
    asked: str | None = None
    axes: tuple[str, ...]


class Predicted(Frozen):
    """Seconds of the program before and after the change."""

    before: float
    after: float

    @property
    def quotient(self) -> float | None:
        """The slower over the faster; None where one has no time."""
        low, high = sorted((self.before, self.after))
        return high / low if low else None


class Remedy(Frozen):
    """The smallest compiled change that removes a collective or reduces its time.

    `memory_bytes` is the increase per device (negative: a decrease); `experiment` is what one click
    opens; `removes` is False if the collective remains and takes less time. The seconds are a
    `guess` on simulated devices that were not calibrated; `measured_s` are medians of both, timed
    side by side where predictions left the order open, and `ratio` compares them.

    `bytes_moved`: of the collectives in question before the change, and of those that remain;
    `count`: how many of their kind there were over these axes, of which `others` remain beside
    those; `new`: what replaces them. `sentence` is made of these when it is read. `lessens` is False
    of an exported program whose step takes less time though the collective stays as it is;
    `estimated`, `compiled`: how many changes were partitioned alone, and how many compiled.
    """

    changes: tuple[Change, ...]
    experiment: Experiment
    sentence: str = ""
    memory_bytes: int | None
    predicted_s: Predicted
    removes: bool = True
    strategy: str | None = None  # of the experiment, whose program this is
    predicted_by: Literal["cost model", "calibration", "guess"] = "cost model"
    measured_s: Predicted | None = None
    ratio: Ratio | None = None
    bytes_moved: tuple[int, int] = (0, 0)
    count: int = 1
    others: int = 0
    new: tuple[CollectiveKind, ...] = ()
    lessens: bool = True
    estimated: int = 0
    compiled: int = 0


class TriedChange(Frozen):
    """A change that was compiled; `removes` and `seconds` are None where it does not compile."""

    changes: tuple[Change, ...]
    removes: bool | None = None
    seconds: float | None = None


class Nothing(Frozen):
    """No change removes it in less time; `experiment`: the change that perhaps does.

    `is_small`: nothing was tried; else `tried`, of which that at place `best` removes it and is the
    fastest, beside the `seconds` of the program; `measured_s` and `ratio` as of a remedy. `reason`
    is made of these when it is read.
    """

    reason: str = ""
    experiment: Experiment | None = None
    is_small: bool = False
    tried: tuple[TriedChange, ...] = ()
    best: int | None = None
    seconds: float | None = None
    measured_s: Predicted | None = None
    ratio: Ratio | None = None


Removal = Remedy | Nothing


class Part(Frozen):
    """An array that a merged collective carries, e.g. the gradient of one parameter.

    `bytes` is per device.
    """

    name: str
    bytes: int


class Collective(CollectiveKind):
    """A collective: its kind, mesh axes, bytes, count and reason; with a cost estimate also its
    seconds.

    `bytes` is per device and execution, of the larger of operand and result; seconds are of one
    execution. Totals are over the `count` executions of a step, and None where that is unknown.
    """

    groups: tuple[tuple[int, ...], ...] | None = None  # JAX device ids; of a permute, its pairs
    bytes: int
    count: int | None
    bytes_total: int | None = None
    op: str | None = None
    source: str | None = None
    name: str | None = None  # the instruction's name in the compiled text
    group_size: int | None = None  # devices that take part together; of a permute, None
    reason: str | None = None  # why it is there, in a sentence
    asynchronous: bool = False  # the compiler wrote its start and its end apart
    parts: tuple[Part, ...] = ()  # of one that carries several arrays, the largest first
    seconds: float | None = None
    exposed_s: float | None = None  # what the chip waits for it, on average
    bound_s: float | None = None  # at the links' nominal rate, without latency
    seconds_total: float | None = None
    exposed_total_s: float | None = None
    route: str | None = None
    algorithm: str = ""
    warning: str | None = None  # the compiler's warning about this collective
    origin: tuple[AxisOrigin, ...] = ()  # of its axes, on the value that it moves or adds
    against: tuple[AxisOrigin, ...] = ()  # of the sharding that this value is moved to
    no_origin: NoOrigin | None = None
    # what would remove it, as compiled; None where that was not tried
    remove: Removal | None = None

    @property
    def times(self) -> int:
        """Executions that an estimate counts: one where the count is unknown."""
        return 1 if self.count is None else self.count

    @property
    def sent_share(self) -> float:
        """Bytes that a device sends by rings, over `bytes`; where its group is not known, of many."""
        if (known := TRANSFERS.get(self.kind)) is None:
            return 1.0
        size = self.group_size or len(self.groups[0] if self.groups else ())
        return known.bus_factor(size or _MANY)

    @property
    def total_s(self) -> float:
        """Estimated seconds in total, 0 without a cost."""
        return (self.seconds or 0.0) * self.times

    @property
    def exposed_in_all_s(self) -> float:
        """Estimated exposed seconds in total."""
        return (self.exposed_s or 0.0) * self.times

    @model_validator(mode="before")
    @classmethod
    def _older(cls, given: Any) -> Any:
        """Older stored results have totals in `seconds` and `exposed_s`, and no `bytes_total`."""
        if not isinstance(given, Mapping):
            return given
        values, count = dict(given), given.get("count")
        if "bytes_total" not in values and count is not None and "bytes" in values:
            values["bytes_total"] = values["bytes"] * count
        if values.get("seconds") is not None and "seconds_total" not in values:
            for each, total in (("seconds", "seconds_total"), ("exposed_s", "exposed_total_s")):
                values[total] = values.get(each)
                values[each] = (values.get(each) or 0.0) / max(1, count or 1)
        return values


def executed(counts: Sequence[int | None]) -> int | None:
    """Returns how many collectives a device runs in a step, by the count of each; None where a loop's
    count is not known.
    """
    return None if None in counts else sum(each or 0 for each in counts)


def sent_at_least(listed: Sequence[Collective]) -> int:
    """Returns the bytes that a device sends in a step, where a loop of unknown count runs once."""
    return round(sum(each.sent_share * each.bytes * each.times for each in listed))


def sent_per_step(listed: Sequence[Collective] | None) -> int | None:
    """Returns the bytes that a device sends in a step; None where collectives, or a count of theirs,
    are not known.
    """
    sizes = [(each.sent_share, each.bytes_total) for each in listed or ()]
    if listed is None or any(size is None for _, size in sizes):
        return None
    return round(sum(share * (size or 0) for share, size in sizes))
