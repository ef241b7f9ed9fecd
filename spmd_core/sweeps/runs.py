"""The points of a sweep as runs of the Lab: looked up where they are stored, queued together,
cancelled together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from spmd_core.base import LabError
from spmd_core.experiment import Experiment
from spmd_core.machine import compiler_refusal
from spmd_core.plan import Plan, undivided_axes
from spmd_core.results import Result
from spmd_core.runs import RunStatus
from spmd_core.sweeps.curves import ESTIMATED, Numbers, Outcome, failure, numbers_of, outcome_of
from spmd_core.sweeps.sweep import SweepPoint
from spmd_core.time import estimate_step, is_outdated

# each a few numbers: a sweep that is looked at every second would else read full results again
POINTS_KEPT = 512


def estimated(point: SweepPoint, outcome: Outcome | None = None) -> Outcome:
    """How a point stands, with the instant estimate of a model's step where it is not compiled yet;
    without an outcome, of a point that was never submitted."""
    if outcome is None:
        outcome = _too_large(point) if point.is_too_large else Outcome("not compiled")
        if point.experiment is None:
            outcome = Outcome("refused", words=point.refusal)
    known = outcome.numbers is not None or outcome.state not in ESTIMATED
    plan = point.experiment.plan if point.experiment else None
    if known or plan is None:
        return outcome
    # a plan is frozen, and so it has a hash, which pyright does not know
    return replace(outcome, numbers=_estimate(plan))  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=POINTS_KEPT)
def _estimate(plan: Plan) -> Numbers:
    return numbers_of(estimate_step(plan))


class SweepQueue(Protocol):
    """What starting a sweep needs of a batch."""

    def submit(self, experiment: Experiment) -> str: ...  # noqa: D102


class SweepRuns(Protocol):
    """What a sweep needs of the Lab."""

    folder: Path

    def status(self, run: str) -> RunStatus: ...  # noqa: D102
    def active(self) -> tuple[RunStatus, ...]: ...  # noqa: D102
    def facts(self, run: str) -> Result | None: ...  # noqa: D102
    def latest(self, experiment: Experiment) -> str | None: ...  # noqa: D102


@dataclass(slots=True)
class Asked:
    """What this viewer submitted: experiment id -> run, and why the Lab refused the
    others.
    """

    runs: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)


def look(
    lab: SweepRuns, points: Sequence[SweepPoint], asked: Asked | None = None
) -> tuple[Outcome, ...]:
    """The state of each point: from the store, from the queue, from the runs that were submitted,
    or from its sizes alone.
    """
    active = {status.experiment.id: status for status in lab.active()}
    return tuple(_outcome(lab, point, active, asked or Asked()) for point in points)


def _outcome(
    lab: SweepRuns, point: SweepPoint, active: Mapping[str, RunStatus], asked: Asked
) -> Outcome:
    if point.experiment is None:
        return Outcome("refused", words=point.refusal)
    name = point.experiment.id
    if status := active.get(name):
        if status.state == "queued":
            return Outcome("waiting", run=status.run, words=status.held_up)
        return Outcome("running", run=status.run, words=status.phase)
    run = asked.runs.get(name)
    if run and (failed := _failed(lab, run)):
        return failed
    if (known := lab.latest(point.experiment)) and (stored := _stored(lab, known, point.strategy)):
        return stored
    if name in asked.refusals:
        return failure(asked.refusals[name])
    if point.is_too_large:
        return _too_large(point)
    return Outcome("not compiled")


def _too_large(point: SweepPoint) -> Outcome:
    plan = point.experiment and point.experiment.plan
    return Outcome("too large", words="; ".join(undivided_axes(plan)) if plan else None)


def _failed(lab: SweepRuns, run: str) -> Outcome | None:
    try:
        status = lab.status(run)
    except LabError:
        return None  # deleted meanwhile
    if not status.is_over or status.state == "succeeded":
        return None
    if status.state == "cancelled":
        return Outcome("not compiled", words="cancelled")
    words = status.error.message if status.error else status.state.replace("_", " ")
    return failure(words, run)


def _stored(lab: SweepRuns, run: str, strategy: str) -> Outcome | None:
    """A stored strategy's outcome, read once: what is stored does not change. One that other
    versions made does not belong in a curve.
    """
    key = (lab.folder, run, strategy)
    if key in _outdated:
        return None
    if key not in _kept:
        result = lab.facts(run)
        if (
            result is None
            or strategy not in result.strategies
            or result.strategies[strategy].status == "cancelled"
        ):
            return None
        if is_outdated(result):
            _outdated.add(key)
            return None
        while len(_kept) >= POINTS_KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[key] = outcome_of(run, result.strategies[strategy])
    return _kept.get(key)


_kept: dict[tuple[Path, str, str], Outcome] = {}
_outdated: set[tuple[Path, str, str]] = set()  # results do not become current again


def seconds_taken(lab: SweepRuns, outcomes: Iterable[Outcome]) -> tuple[float, ...]:
    """How long the compiles of the points that are predicted took."""
    runs = [each.run for each in outcomes if each.run and each.state == "predicted"]
    return tuple(s for run in runs if (s := lab.status(run).elapsed_s))


def to_compile(points: Sequence[SweepPoint], outcomes: Sequence[Outcome]) -> tuple[SweepPoint, ...]:
    """The points that a compile would answer: neither known, nor under way, nor too large by their
    sizes, nor of a target whose compiler is not here. Equal experiments count once.
    """
    wanted = _open(points, outcomes)
    return tuple(point for point, refusal in wanted if refusal is None)


def missing_compilers(points: Sequence[SweepPoint], outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Returns why points that a compile would answer cannot be compiled here, each reason once."""
    wanted = _open(points, outcomes)
    return tuple(dict.fromkeys(refusal for _, refusal in wanted if refusal is not None))


def _open(
    points: Sequence[SweepPoint], outcomes: Sequence[Outcome]
) -> list[tuple[SweepPoint, str | None]]:
    """The points that a compile would answer, with why their target cannot be compiled here."""
    wanted = {
        point.experiment.id: (point, compiler_refusal(point.experiment.target))
        for point, outcome in zip(points, outcomes, strict=True)
        if point.experiment and outcome.state in ("not compiled", "failed")
    }
    return [*wanted.values()]


def start(lab: SweepQueue, points: Iterable[SweepPoint], asked: Asked) -> None:
    """Queue these points; one that the Lab refuses keeps its sentence, and the others go on."""
    for point in points:
        if point.experiment is not None:
            asked.refusals.pop(point.experiment.id, None)
            try:
                asked.runs[point.experiment.id] = lab.submit(point.experiment)
            except LabError as error:
                asked.refusals[point.experiment.id] = str(error)


def cancel(stop: Callable[..., object], outcomes: Iterable[Outcome]) -> None:
    """Cancel every point that is queued or running. `stop` cancels runs, as `Lab.cancel`."""
    runs = [each.run for each in outcomes if each.run and each.state in ("waiting", "running")]
    with suppress(LabError):  # one was deleted just now
        stop(*runs)
