"""What a walk through a schedule keeps: clocks, what is ready when, sums and the timeline."""

from collections import defaultdict
from dataclasses import dataclass, field, fields

from spmd_core.time.cost.comm import Communication


@dataclass(slots=True)
class Segment:
    """A stretch of the timeline: on the chip, on links, or waiting. `count` is how often it comes
    in a step.
    """

    name: str
    kind: str  # matmul, kernel, memory, loop, wait or a collective's kind
    track: str  # chip, or the links
    start_s: float
    duration_s: float
    place: str  # computation
    count: int = 1
    detail: str = ""
    loop: str = ""  # the innermost loop around it, from whose last walked turn it starts


@dataclass(slots=True)
class Tally:
    """Sums over one walk, loops multiplied out; seconds."""

    work: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    # by kind: how much sooner the work may be done, and `slower`
    faster: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    slower: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    links: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    # by collective's kind, host or copy
    waits: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    # name -> it, count, exposed seconds
    communications: dict[str, tuple[Communication, int, float]] = field(default_factory=dict)
    flops: int = 0
    nbytes: int = 0
    blocking: float = 0.0  # collectives that nothing may overlap, by the compiler's choice
    unknown_loops: list[str] = field(default_factory=list)
    unknown_branches: list[str] = field(default_factory=list)
    # in branches that the estimate does not count
    untaken: dict[str, tuple[Communication, int, float]] = field(default_factory=dict)
    kernels: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, other: "Tally", times: int) -> None:
        """Add another tally `times` over."""
        for mine, theirs in (
            (self.work, other.work),
            (self.faster, other.faster),
            (self.slower, other.slower),
            (self.links, other.links),
            (self.waits, other.waits),
            (self.kernels, other.kernels),
        ):
            for key, value in theirs.items():
                mine[key] += value * times
        for name, (comm, count, exposed) in other.communications.items():
            self.note(comm, name, count * times, exposed * times)
        self.blocking += other.blocking * times
        self.flops += other.flops * times
        self.nbytes += other.nbytes * times
        self.unknown_loops += other.unknown_loops
        self.unknown_branches += other.unknown_branches
        self.untaken |= other.untaken

    def note(self, comm: Communication, name: str, count: int, exposed: float) -> None:
        """Count a collective."""
        _, before, waited = self.communications.get(name, (comm, 0, 0.0))
        self.communications[name] = (comm, before + count, waited + exposed)


@dataclass(slots=True)
class ReadyAt:
    """When a value is there, per element of a tuple, and what made it (for naming a wait)."""

    times: list[float]
    causes: list[str]

    @property
    def last(self) -> float:
        """When all of it is there."""
        return max(self.times, default=0.0)


@dataclass(slots=True)
class Busy:
    """A collective under way or just over: when it runs, and which one held its start up ("" for
    none).
    """

    comm: Communication
    start: float
    end: float
    behind: str


@dataclass(slots=True)
class Walk:
    """The result of walking a computation: its length, tally, and timeline."""

    seconds: float
    tally: Tally
    segments: list[Segment]


@dataclass(slots=True)
class State:
    """Clocks in seconds: the chip, each set of links, the last thing to end; collectives under way;
    and what was tallied so far.
    """

    chip: float = 0.0
    # of the current computation, or of this iteration of it: nothing in it starts earlier
    begin: float = 0.0
    tail: float = 0.0
    links: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    channels: dict[int, tuple[float, str]] = field(default_factory=dict)
    # between slices, by rendezvous
    transfers: dict[str, tuple[float, str]] = field(default_factory=dict)
    # the last run of each collective, by name
    under_way: dict[str, Busy] = field(default_factory=dict)
    # of links: name of the collective that had them last
    holders: dict[str, str] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    segments: list[Segment] = field(default_factory=list)

    def fork(self) -> "State":
        """A copy that goes on apart, with a tally and a timeline of its own."""
        return State(
            self.chip,
            self.begin,
            self.tail,
            defaultdict(float, self.links),
            dict(self.channels),
            dict(self.transfers),
            dict(self.under_way),
            dict(self.holders),
        )

    def become(self, other: "State") -> None:
        """Take over another's clocks; tally and timeline stay."""
        for each in fields(self):
            if each.name not in ("tally", "segments"):
                setattr(self, each.name, getattr(other, each.name))

    def shift(self, seconds: float) -> None:
        """Let time pass for all clocks alike."""
        self.chip += seconds
        self.tail += seconds
        for name in self.links:
            self.links[name] += seconds
        self.transfers = {key: (end + seconds, name) for key, (end, name) in self.transfers.items()}
        self.under_way = {
            name: Busy(busy.comm, busy.start + seconds, busy.end + seconds, busy.behind)
            for name, busy in self.under_way.items()
        }
        self.channels = {
            channel: (end + seconds, name) for channel, (end, name) in self.channels.items()
        }


def latest(*readies: ReadyAt) -> float:
    """When the last of these is there."""
    return max((ready.last for ready in readies), default=0.0)


def cause_of(*readies: ReadyAt) -> str:
    """What the last of these waits for."""
    late = latest(*readies)
    return next(
        (
            cause
            for ready in readies
            for time, cause in zip(ready.times, ready.causes, strict=True)
            if time == late and cause
        ),
        "",
    )
