"""What would remove the collectives of one run, tried by compiling: its state and its answers at
any moment.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from math import inf

from pydantic import TypeAdapter, ValidationError

from spmd_core.advice import change_words
from spmd_core.base import LabError, RequestError, agreed, seconds_text
from spmd_core.experiment import Experiment, Row, study_of
from spmd_core.facts import Removal, Shardings, Step
from spmd_core.fields import Mesh
from spmd_core.lab import COMMAND_LINE, Asker, Batch, Lab, Remedies
from spmd_core.program import NAME as SHARDINGS
from spmd_core.results import Result, StrategyResult
from spmd_core.roofline import (
    NOT_CALIBRATED,
    ProgramTime,
    TimeModel,
    calibration,
    program_time,
    times_where_run,
)
from spmd_core.runs import Pace, RunStatus
from spmd_core.time import is_current
from spmd_core.trials.remedies import arrays, plans
from spmd_core.trials.remedies.attached import Answers
from spmd_core.trials.remedies.candidate import (
    AlikeCollectives,
    RemedyCandidate,
    SideBySide,
    timed_of,
)
from spmd_core.trials.remedies.judged import Tried, answer, opens_finding, targets, untried
from spmd_core.trials.searching.work import Work
from spmd_core.trials.trying import screening
from spmd_core.trials.trying.trial import RemedyTrial
from spmd_core.words import progress
from spmd_core.workloads import STRATEGIES

PROCESSES = 3  # in which a program and its change are timed: enough for what is worth changing
_HURRY = 0.5  # of its seconds, from which on timing what may help comes before compiling others
_SCREENING = 0.5  # of all, where changes are estimated before they are compiled
_COMPILING = 0.4  # of what a collective takes: timing takes the rest, on devices that are here
_FORM: TypeAdapter[dict[str, dict[int, Removal]]] = TypeAdapter(dict[str, dict[int, Removal]])


class RemedySearch(Work):
    """The collectives of a run being tried. Every method may be called from any thread; `run` once.

    `state`: running, done, cancelled or stopped (then `problem` is the reason). It begins nothing
    after `seconds`. `known`: the answers of an earlier one that did not try all; `before`: that
    one, where it was of this process.
    """

    def __init__(
        self,
        lab: Lab,
        store: Remedies,
        result: Result,
        asker: Asker = COMMAND_LINE,
        seconds: float = inf,
        known: Answers | None = None,
        before: "RemedySearch | None" = None,
    ):
        super().__init__()
        self.result, self.problem, self.seconds = result, "", seconds
        self.done, self.of, self.doing = 0, 0, ""  # collectives judged, of how many; what compiles
        # what is done of all, which never grows less; and of what is being timed, in words
        self.share, self.pace = 0.0, ""
        self._lab, self._store, self._asker = lab, store, asker
        self._unpredicted = False  # what communicates, and takes nobody knows how long
        self._first: dict[str, dict[int, Removal]] = {}
        # as of a search, so that they are out of the way on History
        batch = f"search remedies {result.run}"
        self._until = self._hurry = inf
        self._left: Sequence[RemedyTrial] = ()
        self._runs = Batch(lab, asker, batch, lambda: self.is_cancelled)
        self._answers: dict[str, dict[int, Removal]] = {
            name: dict(each) for name, each in (known or {}).items()
        }
        self._times: dict[tuple[Mesh, str], TimeModel] = {}  # by mesh and dtype
        # by id of the experiment; what was timed is a study
        self._compiled: dict[str, StrategyResult | None] = before._compiled if before else {}
        self._measured: dict[str, SideBySide | None] = before._measured if before else {}

    @property
    def answers(self) -> Answers:
        """What is known now."""
        return {name: dict(answers) for name, answers in list(self._answers.items())}

    @property
    def first(self) -> Answers:
        """The first change that may help, compiled, until its collective has its answer."""
        known = self._answers
        is_over = any(self._first[name].keys() & known.get(name, {}).keys() for name in self._first)
        return {} if is_over else self._first

    def run(self) -> Answers:
        """Try the collectives that are worth it, strategy by strategy, the longest first."""
        state, began = "stopped", time.monotonic()
        self._until, self._hurry = began + self.seconds, began + _HURRY * self.seconds
        try:
            work = [
                (self.result.row(name), each)
                for name, outcome in self.result.strategies.items()
                if outcome.same_program is None  # else that one's answers are its own
                for each in self._targets(self.result.row(name), outcome)
            ]
            self.of = len(work)
            if not work and self._unpredicted:
                raise RequestError(NOT_CALIBRATED.reason)
            left = [
                (row, target)
                for row, target in work
                if set(target.numbers) - self._answers.get(row.key, {}).keys()
            ]
            self.done = self.of - len(left)
            self._work_off([self._trial(row, target) for row, target in left])
            if not self.is_cancelled and self.done < self.of:
                took_s = time.monotonic() - began
                self.problem = out_of_time(self.seconds, took_s, self.of - self.done, self.of)
            elif not self.is_cancelled:
                state = "done"
            else:
                state = "cancelled"
            self._keep(state)
        except LabError as error:
            self.problem = str(error)
        finally:
            with contextlib.suppress(LabError):
                self._runs.close()
            self.doing, self.state = "", state
        return self.answers

    @property
    def partial(self) -> Answers:
        """What was judged so far of collectives for which the time was too short."""
        answers: dict[str, dict[int, Removal]] = {}
        for each in self._left:
            if (
                each.judged
                and set(each.target.numbers) - self._answers.get(each.row.key, {}).keys()
            ):
                known = dict.fromkeys(each.target.numbers, each.answer)
                answers.setdefault(each.row.key, {}).update(known)
        return answers

    @property
    def left_s(self) -> float:
        """Seconds until it begins nothing more; infinite where it has no limit, and before it runs."""
        return max(0.0, self._until - time.monotonic())

    @property
    def _is_ended(self) -> bool:
        return self.is_cancelled or time.monotonic() >= self._until

    def _targets(self, row: Row, outcome: StrategyResult) -> list[AlikeCollectives]:
        kind = STRATEGIES[row.strategy]
        if kind.is_single_device or kind.is_map or outcome.status != "ok":
            return []
        expected = self._expected(row.experiment, row.strategy, outcome)
        if expected is None:
            self._unpredicted |= bool(outcome.collectives)
            return []
        large = targets(outcome, expected)
        if small := untried(outcome, large):
            self._answers.setdefault(row.key, {}).update(small)
        return large

    def _expected(
        self, experiment: Experiment, name: str, outcome: StrategyResult
    ) -> ProgramTime | None:
        return program_time(experiment, name, outcome, self._known(experiment))

    def _known(self, experiment: Experiment) -> TimeModel:
        key = experiment.mesh, experiment.dtype
        if key not in self._times:
            known = calibration(experiment, self._lab.latest, self._lab.result)
            self._times[key] = times_where_run(experiment, self.result.environment, known)
        return self._times[key]

    def _trial(self, row: Row, target: AlikeCollectives) -> RemedyTrial:
        base = self.result.strategies[row.key]
        expected = self._expected(row.experiment, row.strategy, base)
        assert expected is not None
        return RemedyTrial(row, base, target, expected, self._candidates(row, target))

    def _work_off(self, trials: list[RemedyTrial]) -> None:
        """Judge each trial's candidates in their order, until one settles it; the best is the
        answer. What several trials need next is compiled side by side.
        """
        self._screen(trials)
        while trials and not self._is_ended:
            if first := next((each for each in trials if each.wanted), None):
                self._compiles(first, first.wanted[0])
            self._left = trials
            self._left = trials = [each for each in trials if not self._is_answered(each)]
            if self._is_ended:
                return
            wanted = {each.experiment.id for trial in trials for each in trial.wanted}
            self._runs.cancel(lambda each, wanted=wanted: each.experiment.id not in wanted)
            self._begin(trials)
            if not self._runs.is_idle:
                for candidate, result in self._runs.finished():
                    self._take(candidate, None if isinstance(result, str) else result)

    def _screen(self, trials: Sequence[RemedyTrial]) -> None:
        """Estimate the candidates of an exported program: the MOST nearest of each collective, then the
        rest if none of them is faster. Each counts for all collectives: the step's time decides.
        """
        if not trials or not screening.is_cheap(trials[0].row.experiment):
            return
        looked: list[Tried] = []
        near, every = screening.in_turns(trials)
        for at, candidate in enumerate(every):
            if at == near and any(screening.is_faster(trials, each) for each in looked):
                break
            self._does("estimating", trials[0], candidate, at, near if at < near else len(every))
            self.share = max(self.share, _SCREENING * at / len(every))
            tried = None if self._is_ended else self._estimated(trials[0], candidate)
            if tried is None:
                break
            looked.append(tried)
            if first := screening.is_faster(trials, tried):
                best = answer(
                    first.row.experiment, first.base, first.expected, first.target, looked
                )
                self._first = {first.row.key: dict.fromkeys(first.target.numbers, best)}
        for trial in trials if looked and not self._is_ended else ():
            trial.screen(looked)

    def _estimated(self, trial: RemedyTrial, candidate: RemedyCandidate) -> Tried | None:
        tried = screening.estimated(self._lab, self._asker, trial.base, candidate)
        if tried is None or tried.outcome is None:
            return tried
        costs = self._expected(candidate.experiment, candidate.strategy, tried.outcome)
        return replace(tried, costs=costs)

    def _is_answered(self, trial: RemedyTrial) -> bool:
        """Judge what is known of a trial by now; whether it is over."""
        while trial.wanted and not self._is_ended:
            candidate = trial.wanted[0]
            if not self._is_known(candidate):
                if candidate.experiment.place.is_absent:
                    return False
                self._compile_here(trial, candidate)
            trial.is_hurried = time.monotonic() >= self._hurry
            trial.judge(self._tried(trial, candidate))
            if not self._first and (helped := trial.answer).experiment is not None:
                self._first = {trial.row.key: dict.fromkeys(trial.target.numbers, helped)}
            if not self._is_ended and (doubtful := trial.wants_timed) is not None:
                trial.time(doubtful, self._timed(trial, doubtful))
        if self.is_cancelled or not trial.is_over or trial.wants_timed is not None:
            return False
        answers = dict.fromkeys(trial.target.numbers, trial.answer)
        self._answers.setdefault(trial.row.key, {}).update(answers)
        self.done += 1
        self._has_come(0.0)
        self._keep("running")
        return True

    def _compiles(self, trial: RemedyTrial, candidate: RemedyCandidate) -> None:
        self._does("compiling", trial, candidate, trial.judged, trial.most)
        part = 1.0 if trial.row.experiment.place.is_absent else _COMPILING
        self._has_come(part * min(1.0, trial.judged / trial.most))

    def _does(
        self, verb: str, trial: RemedyTrial, candidate: RemedyCandidate, at: int, most: int
    ) -> None:
        change = change_words(trial.row.experiment, candidate.changes)
        self.doing = f"{verb} change {min(at + 1, most)} of {most}: {change}"

    def _has_come(self, part: float) -> None:
        """Count the collectives that are judged, and a part of the next one."""
        self.share = max(self.share, min(1.0, (self.done + part) / max(1, self.of)))

    def _begin(self, trials: list[RemedyTrial]) -> None:
        """Have compiled what is needed next, then what may be, as far as there is room. What comes
        after a known one may not be: that is judged first.
        """
        needed = [each for trial in trials for each in trial.wanted[:1]]
        beside = [
            each
            for trial in trials
            for each in takewhile(lambda one: not self._is_known(one), trial.wanted[1:])
        ]
        begun = {each.experiment.id for each in self._runs.at_work}
        for candidate in (*needed, *beside):
            if not self._runs.has_room:
                return
            if candidate.experiment.id not in begun and not self._is_known(candidate):
                begun.add(candidate.experiment.id)
                try:
                    self._runs.submit(candidate.experiment, candidate)
                except RequestError:
                    self._take(candidate, None)

    def _candidates(self, row: Row, target: AlikeCollectives) -> list[RemedyCandidate]:
        if row.experiment.plan:
            return plans.candidates(row.experiment.plan, target.first)
        times, cores = self._known(row.experiment), self.result.environment.cores or 1
        outcome = self.result.strategies[row.key]
        base = self._expected(row.experiment, row.strategy, outcome)
        return arrays.candidates(
            row.experiment,
            row.strategy,
            target.first,
            times,
            cores,
            base.total_s if base else inf,
            outcome.lost_batch,
            self._steps(row) if row.experiment.exported else (),
        )

    def _steps(self, row: Row) -> Sequence[Step]:
        text = self._lab.texts(self.result.run, row.key).get(SHARDINGS)
        return Shardings.model_validate_json(text).steps if text else ()

    def _tried(self, trial: RemedyTrial, candidate: RemedyCandidate) -> Tried:
        """The candidate, compiled, at the time that is expected of it in the way in which that of
        the program as it is was: earlier results do not have its operations.
        """
        outcome = self._compiled[candidate.experiment.id]
        if outcome is None or outcome.status != "ok" or outcome.collectives is None:
            return Tried(candidate)
        is_wrong = opens_finding(trial.row.experiment, trial.base, candidate, outcome)
        if trial.base.operations is None:
            outcome = outcome.model_copy(update={"operations": None})
        expected = self._expected(candidate.experiment, candidate.strategy, outcome)
        return Tried(candidate, outcome, expected, is_wrong)

    def _is_known(self, candidate: RemedyCandidate) -> bool:
        """Whether it was compiled: for this search, beside what is tried, or before."""
        if candidate.experiment.id not in self._compiled:
            if outcome := self._beside(candidate):
                self._compiled[candidate.experiment.id] = outcome
            elif candidate.experiment.place.is_absent:
                result = self._runs.known(candidate.experiment)
                if result and is_current(result):  # the versions of now would make the same
                    self._take(candidate, result)
        return candidate.experiment.id in self._compiled

    def _take(self, candidate: RemedyCandidate, result: Result | None) -> None:
        """Keep the program of a candidate; None where it cannot be compiled, whatever that cost the
        compiler's process.
        """
        self._compiled[candidate.experiment.id] = (
            result.strategies.get(candidate.strategy) if result else None
        )

    def _compile_here(self, trial: RemedyTrial, candidate: RemedyCandidate) -> None:
        self._compiles(trial, candidate)
        result = None
        with contextlib.suppress(RequestError):
            status, result = self._runs.run(candidate.experiment, compile_only=True)
            if status is not None:
                self._lab.delete([status.run])
        self._take(candidate, result)

    def _timed(self, trial: RemedyTrial, candidate: RemedyCandidate) -> SideBySide | None:
        row = trial.row
        change = change_words(row.experiment, candidate.changes)

        self.doing = f"timing beside the program as it was: {change}"

        def look(status: RunStatus) -> None:
            share, self.pace, _ = progress(status, Pace())
            self._has_come(_COMPILING + (1 - _COMPILING) * share)

        timing = {"processes": PROCESSES} | row.experiment.to_json()["timing"]
        now = row.experiment.vary(strategies=[row.strategy], timing=timing)
        with contextlib.suppress(RequestError):
            study = study_of([(None, now), (None, candidate.experiment.vary(timing=timing))])
            if study.id not in self._measured:
                status, result = self._runs.run(study, look=look)
                self.pace = ""
                if status is None:
                    return None
                self._lab.delete([status.run])
                self._measured[study.id] = timed_of(result)
            return self._measured[study.id]
        return None

    def _beside(self, candidate: RemedyCandidate) -> StrategyResult | None:
        """The candidate where it ran beside what is tried, such as another strategy."""
        for row in self.result.experiment.rows:
            if (
                row.strategy == candidate.strategy
                and row.key in self.result.strategies
                and candidate.experiment == row.experiment.vary(strategies=[row.strategy])
            ):
                return self.result.strategies[row.key]
        return None

    def _keep(self, state: str) -> None:
        self._store.keep(self.result.run, to_stored(state, self._answers))


def to_stored(state: str, answers: Answers) -> dict[str, object]:
    """JSON values: the state of the trial, and its answers so far."""
    kept = {name: dict(each) for name, each in answers.items()}
    return {"state": state, "answers": _FORM.dump_python(kept, mode="json")}


def from_stored(body: dict[str, object] | None) -> tuple[str, Answers] | None:
    """(state, answers); None where nothing was tried, or another version wrote it."""
    if body is None:
        return None
    try:
        return str(body.get("state")), _FORM.validate_python(body.get("answers", {}))
    except (ValidationError, RequestError):
        return None


def out_of_time(seconds: float, took_s: float, left: int, of: int) -> str:
    """Why not all collectives were tried.

    >>> out_of_time(60.0, 310.0, 1, 2)
    '1 of 2 collectives is left after 310 s: no change is begun after 60 s'
    """
    return (
        f"{left} of {of} collectives {agreed(left, 'is')} left after {seconds_text(took_s)}: no change is begun "
        f"after {seconds_text(seconds)}"
    )
