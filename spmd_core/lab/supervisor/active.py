"""The run that a worker is busy with: turns its events, and the end of its time, into a status and
one outcome.
"""

import time
from dataclasses import dataclass, replace

from spmd_core.base import Settings, bytes_text, seconds_text
from spmd_core.facts import NoTrace, Trace
from spmd_core.machine import parse_target
from spmd_core.results import (
    OUT_OF_MEMORY,
    Environment,
    Failure,
    Result,
    StrategyResult,
    next_process,
    with_process,
)
from spmd_core.roofline import fits
from spmd_core.runs import (
    Event,
    Failed,
    Finished,
    Measured,
    Phase,
    Points,
    Progress,
    Ready,
    RunCommand,
    RunStatus,
    Texts,
)

# for a compile that ends by itself just now: its worker takes longer to start again
COMPILER_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    state: str
    result: Result | None = None
    error: Failure | None = None
    renew_worker: bool = False


class ActiveRun:
    """A run from leaving the queue to its outcome. `now` is monotonic seconds."""

    def __init__(self, status: RunStatus, settings: Settings, now: float):
        is_absent = status.experiment.place.is_absent
        self._is_compiling = is_absent or status.compile_only
        self._compiler = "the TPU compiler" if is_absent else "the compiler"
        self.status = replace(
            status,
            state="starting",
            queue_position=None,
            started_at=time.time(),
            waiting_for="compiler" if self._is_compiling else "devices",
        )
        self.texts: dict[str, dict[str, str]] = {}
        self.outcome: RunEnd | None = None
        self.environment: Environment | None = None
        self.is_sent = False
        self.again: tuple[str, ...] = ()  # what a further process is to measure
        self.process = 1
        self._before: RunEnd | None = None  # of the processes before this one
        self._measured: Result | None = None  # before a profiler began
        self._settings = settings
        self._timeout_s = settings.longest_s(self._is_compiling)
        if status.experiment.is_mixed:  # measured, then compiled
            self._timeout_s += settings.longest_s(True)
        self._begun = now
        self._deadline = now + self._timeout_s
        self._paused_at: float | None = None
        self._kill_at: float | None = None
        self._requested: str | None = None  # the terminal state that it was requested to stop in

    @property
    def command(self) -> RunCommand:
        """What its worker is sent."""
        return RunCommand(
            run=self.status.run,
            experiment=self.status.experiment,
            compile_only=self.status.compile_only,
            again=self.again,
            process=self.process,
        )

    def ready(self, environment: Environment) -> None:
        """The worker has the run's devices, and is sent the run."""
        self.environment, self.is_sent = environment, True
        self.status = replace(self.status, state="running", waiting_for=None)

    def take(self, event: Event) -> None:
        """Account for an event of the worker."""
        match event:
            case Phase():
                self.status = replace(self.status, phase=event.phase, strategy=event.strategy)
            case Progress():
                self.status = replace(
                    self.status,
                    done=event.done,
                    of=event.of,
                    medians_s=dict(event.medians_s),
                    intervals_s=dict(event.intervals_s),
                    series=dict(event.series),
                )
            case Points():
                self.status = replace(
                    self.status,
                    done=event.done,
                    of=event.of,
                    points=(*self.status.points, *event.points),
                )
            case Texts():
                self.texts.setdefault(event.strategy, {}).update(event.texts)
            case Measured():
                self._measured = event.result
            case Finished():
                self.outcome = self._finished(event)
            case Failed():
                self.outcome = self._before or RunEnd(
                    "failed", self._partial(), event.error, renew_worker=True
                )
            # a worker that compiles for absent devices names them anew for each topology
            case Ready():
                self.environment = event.environment if self.is_sent else self.environment

    def repeat(self) -> bool:
        """Begin to measure the best in a further process, where the answer wants one; whether it
        does.
        """
        ended = self.outcome
        if ended is None or ended.state != "succeeded" or ended.result is None or self._requested:
            return False
        took_s = (time.monotonic() - self._begun) / self.process
        if ended is self._before or time.monotonic() + took_s > self._deadline:
            return False  # the last process failed, or the next one would be ended
        self.again = () if self._is_compiling else next_process(ended.result)
        if not self.again:
            return False
        self._before, self.outcome, self.is_sent = ended, None, False
        self.process += 1
        self.status = replace(
            self.status, phase="repeat", strategy=None, process=self.process, done=0
        )
        return True

    def stop(self, state: str, now: float) -> bool:
        """Begin to stop it for `cancelled` or `timed_out`; True the first time, when the worker
        gets the command.
        """
        if self._requested or self.outcome:
            return False
        # a paused worker cannot obey, and a compiler only once it is done
        grace_s = self._settings.cancel_grace_s if self._paused_at is None else 0.0
        if self._is_compiling:
            grace_s = min(grace_s, COMPILER_GRACE_S)
        self._requested, self._kill_at = state, now + grace_s
        waiting_for = "end of compiler" if self._is_compiling else "end of round"
        self.status = replace(self.status, waiting_for=waiting_for)
        return True

    def pause(self, timed: str | None, now: float) -> None:
        """Its worker rests from `now` on while `timed` is timed, or goes on where that is None;
        meanwhile its time stands.
        """
        self.status = replace(self.status, paused_for=timed)
        if self._paused_at is not None:
            self._deadline += now - self._paused_at
        self._paused_at = None if timed is None else now

    def is_late(self, now: float) -> bool:
        """Whether its time is over."""
        return self._paused_at is None and now >= self._deadline

    def must_be_killed(self, now: float) -> bool:
        """Whether it did not stop within the time it has for that."""
        return self._kill_at is not None and now >= self._kill_at and not self.outcome

    def killed(self) -> None:
        """It did not stop, and was killed."""
        if self._before:
            self.outcome = self._stopped_again()
            return
        self.outcome = RunEnd(self._requested or "cancelled", self._partial(), self._stop_error())

    def ate_memory(self, most_bytes: int) -> None:
        """End the run as failed: its function exceeded `most_bytes`, and its worker was killed."""
        experiment = self.status.experiment
        is_file = experiment.exported is not None  # with nothing here to correct
        name = "this program" if is_file else experiment.workload
        fix = "predict it for a TPU or GPU target" if is_file else f"correct {name}"
        message = (
            f"{name} took more than {bytes_text(most_bytes)} of memory, nearly all that was free, and was "
            f"ended: {fix}, or make it smaller"
        )
        failure = Failure(kind=OUT_OF_MEMORY, message=message)
        self.outcome = RunEnd("failed", self._partial(), failure)

    def crashed(self, ending: str, words: str = "") -> None:
        """The worker is gone, and no outcome came; `words` are the line that names the cause."""
        if self._requested:
            self.killed()
            return
        if self._before:
            self.outcome = self._before
            return
        if (
            self._measured and not self.status.experiment.is_mixed
        ):  # the profiler took the process with it
            self.outcome = RunEnd("succeeded", without_trace(self._measured))
            return
        phase = f" in {self.status.phase}" if self.status.phase else " while it started"
        strategy = f" of {self.status.strategy}" if self.status.strategy else ""
        own = (
            f"correct {self.status.experiment.workload} if it ends the process, or "
            if self.status.experiment.what.source
            else ""
        )
        cause = f": {words}" if words else ""
        target = parse_target(self.status.experiment.target)
        is_of_many = target.is_cluster or target.hosts > 1  # the words name the member
        message = (
            f"the worker process {ending}{phase}{strategy}{cause}{'; ' if cause else ': '}"
            f"{own}run it again{'' if is_of_many else ', or make it smaller'}"
        )
        if self._is_compiling:
            message = f"{self._compiler}'s process {ending}{phase}{strategy}{cause}"
        self.outcome = RunEnd(
            "crashed", self._partial(), Failure(kind="WorkerCrashed", message=message)
        )

    def _finished(self, event: Finished) -> RunEnd:
        sent = event.result.run, event.result.experiment.id
        if sent != (self.status.run, self.status.experiment.id):  # a member may send anything
            failure = Failure(kind="WorkerCrashed", message="the worker sent another run's result")
            return RunEnd("crashed", error=failure, renew_worker=True)
        if self._before and self._before.result:
            if event.result.partial:
                return self._stopped_again()
            return RunEnd("succeeded", with_process(self._before.result, event.result))
        if event.result.partial and self._requested:
            return RunEnd(self._requested, event.result, self._stop_error(), event.renew_worker)
        failures = [
            outcome.error
            for outcome in event.result.strategies.values()
            if outcome.status == "error"
        ]
        if failures and len(failures) == len(event.result.strategies):
            return RunEnd("failed", event.result, failures[0], event.renew_worker)
        return RunEnd("succeeded", event.result, None, event.renew_worker)

    def _stopped_again(self) -> RunEnd:
        """It was stopped in a further process: what those before it measured is the result."""
        assert self._before and self._before.result
        result = self._before.result.model_copy(update={"partial": True})
        return RunEnd(self._requested or "cancelled", result, self._stop_error())

    def _stop_error(self) -> Failure | None:
        if self._requested != "timed_out":
            return None
        limit = seconds_text(self._timeout_s)
        variable = "SPMD_LAB_PREDICT_TIMEOUT_S" if self._is_compiling else "SPMD_LAB_RUN_TIMEOUT_S"
        return Failure(
            kind="TimedOut",
            message=f"the run took longer than {limit}: make it smaller, or set {variable}",
        )

    def _partial(self) -> Result | None:
        """What was measured before the end: all of it before a profiler began, provisional medians,
        points of a sweep.
        """
        if self._measured:
            return without_trace(self._measured)
        if not self.environment or not (self.status.medians_s or self.status.points):
            return None
        if self.status.points:
            outcome = StrategyResult(
                status="ok", points=self.status.points, fits=fits(self.status.points)
            )
            return Result(
                run=self.status.run,
                experiment=self.status.experiment,
                environment=self.environment,
                partial=True,
                strategies={self.status.strategy or "as_written": outcome},
            )
        note = "provisional median: the worker ended before the result"
        outcomes = {
            name: StrategyResult(status="cancelled", median_s=median, notes=(note,))
            for name, median in self.status.medians_s.items()
        }
        return Result(
            run=self.status.run,
            experiment=self.status.experiment,
            environment=self.environment,
            strategies=outcomes,
            partial=True,
        )


def without_trace(result: Result) -> Result:
    """A result whose process ended under a profiler; untraced strategies name that reason."""
    untraced = Trace(reason=NoTrace.ENDED)
    outcomes = {
        name: outcome.model_copy(update={"trace": untraced})
        if outcome.status == "ok" and outcome.trace is None
        else outcome
        for name, outcome in result.strategies.items()
    }
    return result.model_copy(update={"strategies": outcomes})
