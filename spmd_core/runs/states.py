"""What is known of a run: its state, its progress, and its line in a list."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import ConfigDict

from spmd_core.experiment import Experiment
from spmd_core.facts import FEW_WITHIN, MOST_PROCESSES, SURE_PROCESSES
from spmd_core.machine import parse_target
from spmd_core.results import CONFIRMED_BELOW, Failure, Point
from spmd_core.runs.collection import NO_LABELS, Labels, Origin
from spmd_core.workloads import PROGRAM_FILE

ACTIVE = ("queued", "starting", "running")
TERMINAL = ("succeeded", "failed", "cancelled", "timed_out", "crashed", "interrupted")
STATES = ACTIVE + TERMINAL
# Lanes of the queue, each with one run at a time: on devices that are here, and for devices that
# are not, which are compiled for and never timed
TIMING, COMPILING = ("timing", "compiling")


def lane_of_target(target: str, compile_only: bool = False) -> str:
    """The lane that the runs of a target wait in. What is only compiled goes beside what is timed,
    but for attached accelerators: the worker of the timing lane holds them.
    """
    place = parse_target(target)
    return COMPILING if place.is_absent or (compile_only and place.is_simulated) else TIMING


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """What a process notes of a run in progress, for others; a newer version's other fields are
    left.
    """

    __pydantic_config__ = ConfigDict(extra="ignore", allow_inf_nan=False)

    phase: str | None = None
    strategy: str | None = None
    done: int = 0
    of: int = 0
    medians_s: Mapping[str, float] = field(default_factory=dict)
    intervals_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    series: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    waiting_for: str | None = None
    paused_for: str | None = None  # the run that is timed while this run's worker rests
    held_up: str | None = None  # a sentence: why the cluster that is to compile it does not
    left_out: str = ""  # a sentence: workers of the cluster that get no run, and why


@dataclass(frozen=True, slots=True)
class RunStatus(RunProgress):
    """The current state of a run. Times are seconds since the epoch; medians and series are
    provisional until the result is there.
    """

    run: str
    state: str
    experiment: Experiment
    submitted_at: float
    started_at: float | None = None
    finished_at: float | None = None
    queue_position: int | None = None  # 1 is next in its lane; None once it has left the queue
    points: tuple[Point, ...] = ()  # of a sweep of collectives, those measured so far
    error: Failure | None = None
    stderr_tail: str | None = None
    worker_pid: int | None = None
    compile_only: bool = False  # nothing of it is executed, and no screen lists it
    client: int | None = None  # the process that waits for it, by its number among clients
    lasts: bool = True  # its place in the queue outlasts that process
    process: int = 1  # that measures it; a study is measured in several, one after another

    @property
    def lane(self) -> str:
        """The lane of the queue that it waits and runs in."""
        return lane_of_target(self.experiment.target, self.compile_only)

    @property
    def is_over(self) -> bool:
        """Whether the state is a terminal one."""
        return self.state in TERMINAL

    @property
    def elapsed_s(self) -> float | None:
        """Seconds since it left the queue, to its end or to now; None while it is queued."""
        if self.started_at is None:
            return None
        return max(0.0, (self.finished_at or time.time()) - self.started_at)


def behind(waiting: RunStatus, active: Iterable[RunStatus]) -> RunStatus | None:
    """Of the `active` runs the one that a waiting run is held up by: that of its own lane, else the
    one that is timed; None where there is none, as for a run that is to be timed beside a compile,
    or for one that waits for the cluster.
    """
    if waiting.held_up:
        return None
    lanes = {status.lane: status for status in active if status.state != "queued"}
    return lanes.get(waiting.lane) or lanes.get(TIMING)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A stored run in a list: medians in seconds per strategy, None where a strategy has none.

    `predicted_s`: the estimates of strategies that were predicted and not measured.
    """

    run: str
    state: str
    experiment: Experiment
    submitted_at: float
    finished_at: float | None
    medians_s: Mapping[str, float | None]
    fastest: str | None
    partial: bool
    error: Failure | None
    predicted_s: Mapping[str, float] = field(default_factory=dict)
    labels: Labels = NO_LABELS
    origin: Origin | None = None  # of a foreign run
    owner: str = ""  # the name of whoever submitted it, by login
    is_imprecise: bool = False  # the fastest: right, and as far off as its sums are
    batch: str | None = None  # of runs that were submitted together

    @property
    def answer(self) -> tuple[str, float, bool] | None:
        """The strategy with the lowest median, its seconds per call or step, and whether they are
        predicted; None where there is no time.
        """
        first = self.fastest
        if first is None and self.experiment.workload == PROGRAM_FILE:  # no values to rank by
            first = next(iter(self.medians_s), None)
        if first is not None and (median := self.medians_s.get(first)) is not None:
            return first, median, False
        if not self.predicted_s:
            return None
        best = self.fastest
        if best is None or best not in self.predicted_s:
            best = min(self.predicted_s, key=lambda name: self.predicted_s[name])
        return best, self.predicted_s[best], True

    @property
    def best_experiment(self) -> Experiment:
        """The experiment, of a study its variant with the lowest time."""
        row = self.experiment.rows_by_key.get(self.answer[0]) if self.answer else None
        return row.experiment if row else self.experiment


@dataclass(frozen=True, slots=True)
class Pace:
    """What a viewer saw of a run before.

    Attributes:
      share: the largest share that was shown: a bar never goes back.
      process: the process that measured it then.
      began: seconds of the run, and the rounds of that process, at the first look at its rounds.
      turned_s: seconds of the run at the beginning of that process.
      round_s: seconds of a round, as last seen.
    """

    share: float = 0.0
    process: int = 1
    began: tuple[float, int] | None = None
    turned_s: float = 0.0
    round_s: float | None = None


def _expected(status: RunStatus) -> int:
    """Returns the rounds of a process: up to its next look, where the best is apart already."""
    first, *others = sorted(status.intervals_s.values()) or [(0.0, 0.0)]
    looks = status.experiment.timing.looks if status.process == 1 else ()
    ends = [look for look in looks if look >= status.done]
    is_apart = others and all(low > first[1] for low, _ in others)
    return ends[0] if ends and is_apart else status.of


def expected_processes(status: RunStatus) -> int:
    """Returns in how many processes a run ends, as it looks now.

    Few processes leave the verdict on near times open (`over_processes`), and more are measured: of a
    study whose two best are within twice FEW_WITHIN, SURE_PROCESSES; past these, MOST_PROCESSES.
    """
    planned, now = status.experiment.processes, status.process
    if not status.experiment.takes_more:
        return max(planned, now)
    ranked = {row.key for row in status.experiment.ranked_rows}
    times = sorted(seconds for row, seconds in status.medians_s.items() if row in ranked)
    is_near = len(times) > 1 and times[1] < times[0] * math.exp(2 * FEW_WITHIN)
    if not is_near and now <= planned:
        return planned
    return SURE_PROCESSES if now <= SURE_PROCESSES else MOST_PROCESSES


def paced(status: RunStatus, before: Pace) -> tuple[Pace, float | None]:
    """Returns the pace of a run now, and about how many seconds are left, None where unknown.

    The first round of a process comes after its compile, which is no measure of rounds. A process
    after this one is taken to last as long as this one takes for the same rows: the first may find a
    worker that runs already, each other one starts its own.
    """
    elapsed_s, count = status.elapsed_s or 0.0, expected_processes(status)
    rounds = _expected(status)
    part = min(1.0, status.done / rounds) if status.of else 0.0
    now = before
    if status.process != before.process:
        now = replace(before, process=status.process, began=None, turned_s=elapsed_s)
    if now.began is None and status.done:
        now = replace(now, began=(elapsed_s, status.done))
    if now.began is not None and status.done > now.began[1]:
        began_s, begun = now.began
        now = replace(now, round_s=(elapsed_s - began_s) / (status.done - begun))
    now = replace(now, share=max(now.share, (status.process - 1 + part) / count))
    here_s = elapsed_s - now.turned_s
    is_known = status.done <= rounds and (now.round_s is not None or status.process > 1)
    if not is_known:  # how many rounds follow those planned is not known
        return now, None
    left_s = max(0, rounds - status.done) * (now.round_s or 0.0)
    if not status.done or now.round_s is None:  # it starts or compiles, as those before did
        left_s = max(left_s, now.turned_s / max(1, status.process - 1) - here_s)
    measured_s = min(here_s + left_s, rounds * (now.round_s or 0.0))
    further_s = _further_s(status, here_s + left_s - measured_s, measured_s)
    return now, left_s + (count - status.process) * further_s


def _further_s(status: RunStatus, compiles_s: float, measured_s: float) -> float:
    """Returns the seconds of a further process by those that this one compiles and measures: after the
    first only the rows near the fastest are in it, two at least.
    """
    times = sorted(status.medians_s.values())
    if status.process > 1 or len(times) < 2:
        return compiles_s + measured_s
    near = max(2, sum(each < CONFIRMED_BELOW * times[0] for each in times))
    return compiles_s * near / len(times) + measured_s * sum(times[:near]) / sum(times)
