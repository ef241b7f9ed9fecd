"""Takes the samples of a run: warm-up, the planned rounds, and further rounds of the two best."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from spmd_core.engine import timing
from spmd_core.engine.members import agreed, alike
from spmd_core.engine.trial import Trial
from spmd_core.experiment import Experiment
from spmd_core.results import stats
from spmd_core.runs import Event, Phase, Progress

PROGRESS_INTERVAL_S = 0.1
SEEDS = 10_000  # of the shuffles of a process: more than it has rounds
MORE_ROUNDS_S = 3.0  # more rounds than planned are added only up to this many seconds


@dataclass
class Sampler:
    """Samples the trials of one run, sending progress to `emit`, until `cancelled`."""

    experiment: Experiment
    trials: Sequence[Trial]
    emit: Callable[[Event], None]
    cancelled: Callable[[], bool]
    process: int = 1  # each shuffles otherwise
    stopped: bool = False
    looks: tuple[int, ...] = ()  # rounds after which it looked at the verdicts
    _done: int = 0
    _reported_at: float = float("-inf")

    def warm_up(self) -> None:
        """Bring every program to its usual speed, and plan the turns of its rounds."""
        self.emit(Phase(phase="warm_up"))
        plan = self.experiment.timing
        # no warm-up is longer than the samples
        at_speed_s = min(timing.WARM_UP_AT_SPEED_S, plan.min_seconds)
        for trial in self.trials:
            if self._stop():
                return
            try:
                for timed in trial.timed:
                    with alike():
                        timing.warm_up(timed, at_speed_s)
            except Exception as error:  # whatever a program raises is its result; the others go on
                trial.fail(error)
        timing.plan_turns(
            [timed for trial in self.trials for timed in trial.timed],
            plan.min_seconds / plan.samples,
        )

    def measure(self) -> None:
        """The planned rounds, all strategies in each; fewer where a look at them finds enough."""
        if self._stop():
            return
        self.emit(Phase(phase="sample" if self.process == 1 else "repeat"))
        every = [timed for trial in self.trials for timed in trial.timed]
        for until in self.experiment.timing.looks:
            self._until(every, until)
            self.looks += (until,)
            if self.stopped or agreed(self._has_enough()):
                return
        self._until(every, self.experiment.timing.samples)

    def remeasure(self) -> None:
        """Further rounds of the two best of those with right values; in a study of all near
        the fastest whose verdict is open, since many are compared and few rounds settle few pairs.
        """
        planned = self.experiment.timing.samples
        if self.looks[-1:] == (self._done,):
            if agreed(self._has_enough()) or self._stop():
                return  # else what was fastest has wrong values
            self._until([timed for trial in self.trials for timed in trial.timed], planned)
        further = agreed(self._further())
        if further is None or self._stop():
            return
        names, count = further
        self.emit(Phase(phase="sample"))
        best = [trial.program for trial in self.trials if trial.key in names and trial.program]
        self._until(best, planned + count)

    def measure_again(self) -> None:
        """The planned rounds in a further process, and more of them on a busy machine: until the
        process' own error is less than what placement makes of equal programs.
        """
        self.measure()
        count = agreed(0 if self.stopped else self._to_settle())
        if count and not self._stop():
            programs = [trial.program for trial in self.trials if trial.program]
            self._until(programs, self._done + count)

    def _has_enough(self) -> bool:
        """Whether no further round is needed: in the first process since every verdict is settled,
        in another since its own error is below what placement makes.
        """
        right = [
            trial for trial in self.trials if trial.correct is not False
        ]  # None: not checked yet
        rounds = {each.key: each.program.rounds for each in right if each.program}
        if self.process > 1:
            return stats.rounds_to_settle(rounds, self._done) == 0
        return stats.is_settled(rounds, self.experiment.timing.margin)

    def _to_settle(self) -> int:
        """How many more rounds a further process measures, in the seconds that they may take."""
        timed = [trial for trial in self.trials if trial.program and trial.program.rounds]
        rounds = {trial.key: trial.program.rounds for trial in timed if trial.program}
        count = stats.rounds_to_settle(rounds, self._done)
        allowed_s = MORE_ROUNDS_S * len(timed) / 2
        return min(count, int(allowed_s / sum(map(_seconds_of_round, timed)))) if count else 0

    def _further(self) -> tuple[Sequence[str], int] | None:
        rounds = rankable_rounds(self.trials)
        planned = self.experiment.timing.samples
        of_study = bool(self.experiment.variants)
        aside = self.experiment.baselines  # of which no variant's rank depends
        rounds = {name: each for name, each in rounds.items() if name not in aside} or rounds
        names = stats.contenders(rounds, planned) if of_study else stats.two_best(rounds)
        if names is None:
            return None
        alpha = stats.corrected(len(rounds) if of_study else 2)
        count = max(
            stats.rounds_to_add(rounds, (names[0], other), planned, alpha) for other in names[1:]
        )
        best = [trial for trial in self.trials if trial.key in names]
        allowed_s = MORE_ROUNDS_S * len(best) / 2
        if count > planned and count * sum(map(_seconds_of_round, best)) > allowed_s:
            count = planned
        return names, count

    def _until(self, programs: Sequence[timing.Timed], of: int) -> None:
        before, planned = self._done, self.experiment.timing.samples

        def after_round(done: int) -> None:
            self._done = before + done
            if self._done == of or monotonic() - self._reported_at >= PROGRESS_INTERVAL_S:
                self._reported_at = monotonic()
                rounds = {
                    trial.key: trial.program.rounds
                    for trial in self.trials
                    if trial.program and trial.program.rounds
                }
                self.emit(
                    Progress(
                        done=self._done,
                        of=max(of, planned),
                        medians_s={key: stats.median_s(each) for key, each in rounds.items()},
                        intervals_s={
                            key: stats.rank_interval(each) for key, each in rounds.items()
                        },
                    )
                )

        with timing.quiet():
            done = timing.sample_rounds(
                programs,
                of - before,
                seed=self.experiment.seed + before + SEEDS * (self.process - 1),
                cancelled=self.cancelled,
                after_round=after_round,
            )
        self.stopped = self.stopped or done < of - before
        for trial in self.trials:
            for timed in trial.timed:
                if timed.error is not None and trial.failure is None:
                    trial.fail(timed.error)

    def _stop(self) -> bool:
        self.stopped = self.stopped or self.cancelled()
        return self.stopped


def rankable_rounds(trials: Sequence[Trial]) -> dict[str, stats.Rounds]:
    """Rounds of the strategies that were timed and are not known to be wrong."""
    return {
        trial.key: trial.program.rounds
        for trial in trials
        if trial.program and trial.program.rounds and trial.failure is None and trial.correct
    }


def _seconds_of_round(trial: Trial) -> float:
    program = trial.program
    return (
        stats.median_s(program.rounds) * program.calls_per_turn * program.turns if program else 0.0
    )
