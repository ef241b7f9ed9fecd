"""What would remove the collectives of one run, tried by compiling: its state and its answers at
any moment.
"""

import contextlib
import math
from collections.abc import Sequence

from spmd_core.bandwidth.known import calibration
from spmd_core.cost.predicting import is_current
from spmd_core.errors import LabError, RequestError, refuse
from spmd_core.experiment.experiment import Experiment, Row
from spmd_core.experiment.types import Mesh
from spmd_core.lab import Lab
from spmd_core.remedies import arrays, plans
from spmd_core.remedies.attached import Answers
from spmd_core.remedies.candidate import Candidate, Target
from spmd_core.remedies.expected import Costs, Rates, costs, rates_of
from spmd_core.remedies.judged import Tried, answer, settles, targets, verdict
from spmd_core.results.remedy import Removal
from spmd_core.results.result import Result, StrategyResult
from spmd_core.searching.pool import Pool
from spmd_core.searching.runs import Runs
from spmd_core.searching.work import Work
from spmd_core.store.limits import Asker
from spmd_core.store.remedies import Remedies
from spmd_core.trying.ahead import Ahead
from spmd_core.trying.stored import to_stored
from spmd_core.workloads.strategies import MAP_STRATEGIES, ONE_DEVICE


class Tryout(Work):
    """The collectives of a run being tried. Every method may be called from any thread; `run` once.

    `state`: running, done, cancelled or stopped (then `problem` says why).
    """

    def __init__(self, lab: Lab, store: Remedies, result: Result, asker: Asker | None = None):
        super().__init__()
        self.result, self.problem = result, ""
        self.done, self.of, self.doing = 0, 0, ""  # collectives judged, of how many; what compiles
        self._lab, self._store = lab, store
        self._unpredicted = False  # what communicates, and takes nobody knows how long
        # as of a search, so that they are out of the way on History
        batch = f"search remedies {result.run}"
        self._runs = Runs(lab, asker, lambda: self.is_cancelled, math.inf, batch)
        self._pool = Pool(lab, asker, batch)
        self._found: dict[str, dict[int, Removal]] = {}
        self._rates: dict[Mesh, Rates | None] = {}  # of the target with each mesh
        self._compiled: dict[str, StrategyResult | None] = {}  # by id of the experiment

    @property
    def answers(self) -> Answers:
        """What is known now."""
        return {name: dict(found) for name, found in list(self._found.items())}

    def run(self) -> Answers:
        """Try the collectives that are worth it, strategy by strategy, the longest first."""
        state = "stopped"
        try:
            work = [(self.result.row(name), each) for name, found in self.result.strategies.items()
                    for each in self._targets(self.result.row(name), found)]
            self.of = len(work)
            if not work and self._unpredicted:
                raise refuse("the time of these programs", "is not predicted on this target",
                             "calibrate it with this mesh first, on Collectives")
            for row, target in work:
                if self.is_cancelled:
                    break
                self._judge(row, target)
            state = "cancelled" if self.is_cancelled else "done"
            self._keep(state)
        except LabError as error:
            self.problem = str(error)
        finally:
            with contextlib.suppress(LabError):
                self._pool.close()
            self.doing, self.state = "", state
        return self.answers

    def _targets(self, row: Row, found: StrategyResult) -> list[Target]:
        if row.strategy in (*ONE_DEVICE, *MAP_STRATEGIES) or found.status != "ok":
            return []
        expected = self._costs(row.experiment, row.strategy, found)
        if expected is None:
            self._unpredicted |= bool(found.collectives)
            return []
        return targets(found, expected)

    def _costs(self, experiment: Experiment, name: str, found: StrategyResult) -> Costs | None:
        mesh = experiment.mesh
        if mesh not in self._rates:
            known = calibration(experiment, self._lab.latest, self._lab.result)
            self._rates[mesh] = rates_of(experiment, self.result.environment, known)
        return costs(experiment, name, found, self._rates[mesh])

    def _judge(self, row: Row, target: Target) -> None:
        """Compile its candidates until one settles it; the best is the answer."""
        experiment, base = row.experiment, self.result.strategies[row.key]
        expected = self._costs(experiment, row.strategy, base)
        assert expected is not None
        tried: list[Tried] = []
        candidates = self._candidates(row, target)
        ahead = self._ahead(candidates)
        for candidate in candidates:
            if self.is_cancelled:
                return
            self.doing = candidate.words
            tried.append(self._tried(candidate, ahead, base.operations is not None))
            if settles(target, expected, verdict(target, base, tried[-1])):
                break
        ahead.drop()
        if self.is_cancelled:
            return
        found = answer(experiment, base, expected, target, tried)
        self._found.setdefault(row.key, {}).update(dict.fromkeys(target.numbers, found))
        self.done += 1
        self._keep("running")

    def _candidates(self, row: Row, target: Target) -> list[Candidate]:
        if row.experiment.what.has_plan:
            return plans.candidates(row.experiment, target.first)
        cores, rates = self.result.environment.cores or 1, self._rates.get(row.experiment.mesh)
        return arrays.candidates(row.experiment, row.strategy, target.first, cores,
                                 rates.machine if rates else None)

    def _ahead(self, candidates: Sequence[Candidate]) -> Ahead:
        """Those of the candidates that are compiled for absent devices."""
        known = {each.experiment.id for each in candidates if self._beside(each)}

        def is_known(experiment: Experiment) -> bool:
            return experiment.id in known or experiment.id in self._compiled \
                or self._stored(experiment) is not None

        return Ahead(self._pool, [each.experiment for each in candidates
                                  if each.experiment.place.is_absent],
                     is_known, lambda: self.is_cancelled)

    def _tried(self, candidate: Candidate, ahead: Ahead, by_operations: bool) -> Tried:
        """The candidate, compiled, at the time that is expected of it in the way in which that of
        the program as it is was: results of before do not say its operations.
        """
        key = candidate.experiment.id
        if key not in self._compiled:
            self._compiled[key] = self._compile(candidate, ahead)
        found = self._compiled[key]
        if found is None or found.status != "ok" or found.collectives is None:
            return Tried(candidate)
        if not by_operations:
            found = found.model_copy(update={"operations": None})
        return Tried(candidate, found,
                     self._costs(candidate.experiment, candidate.strategy, found))

    def _compile(self, candidate: Candidate, ahead: Ahead) -> StrategyResult | None:
        """The candidate's program; None where it cannot be compiled, whatever that costs the
        compiler's process.
        """
        experiment, result = candidate.experiment, None
        if found := self._beside(candidate):
            return found
        if experiment.place.is_absent:
            result = self._stored(experiment) or ahead.result(experiment)
        else:
            with contextlib.suppress(RequestError):
                status, result = self._runs.run(experiment, compile_only=True)
                if status is not None:
                    self._lab.delete([status.run])
        return result.strategies.get(candidate.strategy) if result else None

    def _beside(self, candidate: Candidate) -> StrategyResult | None:
        """The candidate where it ran beside what is tried, such as another strategy."""
        for row in self.result.experiment.rows:
            if row.strategy == candidate.strategy and row.key in self.result.strategies \
                    and candidate.experiment == row.experiment.vary(strategies=[row.strategy]):
                return self.result.strategies[row.key]
        return None

    def _stored(self, experiment: Experiment) -> Result | None:
        """A stored result that the versions of now would make as well."""
        result = self._runs.known(experiment)
        return result if result and is_current(result) else None

    def _keep(self, state: str) -> None:
        self._store.keep(self.result.run, to_stored(state, self._found))
