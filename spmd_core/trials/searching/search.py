"""One search as it is carried out: its candidates, its state, and its answer at any moment."""

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from spmd_core.base import LabError, RequestError, WorkerError, refuse
from spmd_core.facts import StoredFact
from spmd_core.lab import COMMAND_LINE, Asker, Lab, Searches, why
from spmd_core.machine import compiler_refusal, parse_target
from spmd_core.roofline import Calibration, calibration_on
from spmd_core.search import (
    MOST,
    Answer,
    ArrayQuestion,
    Candidate,
    ModelQuestion,
    ProgramSpace,
    Proof,
    Space,
    meshes,
    models,
)
from spmd_core.surveys import search
from spmd_core.sweeps import best_plans
from spmd_core.trials.searching.behind import Kind, Scale, scaled, scales
from spmd_core.trials.searching.choice import CandidateChoice
from spmd_core.trials.searching.outcomes import (
    answered,
    experiment_of,
    failed,
    restored,
    restored_constraints,
    run_key,
    to_stored,
    within,
)
from spmd_core.trials.searching.partitioning import (
    LEAST_S,
    SHARE,
    constrained,
    open_candidates,
    partitioned,
    taught,
)
from spmd_core.trials.searching.prove import (
    MOST as MOST_PROVEN,
    PROOFS,
    ROW_S,
    Runs,
    finalists,
    prove,
    stored_proof,
)
from spmd_core.trials.searching.work import Work

QUICK = {"samples": 5, "min_seconds": 0.02}  # per strategy, to find the best few
RECALLED = 15  # of a model's plans, best first, that may have been compiled elsewhere
FEW_S = 600.0  # for the few plans of a model that are compiled
STORING = "storing"  # when it tries nothing more
LITTLE = 0.2  # of a budget: a search that needs less to try all that is left gets it
STEP = 16  # candidates whose partitioned programs are noted at once
CONSTRAINED = 2  # of an exported program, candidates whose values are constrained
PROVING = 0.5  # of the budget at most is left for the proof, which takes no longer than its rows
AnyQuestion = ModelQuestion | ArrayQuestion


class Search(Work):
    """A question being answered. Every method may be called from any thread; `run` once at a time.

    `budget_s` None: nothing is compiled or measured, only estimated. `compiles`: the most that are
    compiled. `batch`: what its runs are stored as.
    """

    def __init__(
        self,
        lab: Lab,
        store: Searches,
        question: AnyQuestion,
        budget_s: float | None,
        asker: Asker = COMMAND_LINE,
        compiles: int | None = None,
    ):
        super().__init__()
        self.question, self.budget_s, self._compiles = question, budget_s, compiles
        self._lab, self._store, self._asker = lab, store, asker
        self._guard = threading.Lock()
        self._candidates: list[Candidate] = []
        self._places: dict[int, int] = {}  # number of a candidate -> its place among the candidates
        self._changed: set[int] = set()
        self._proof: Proof | None = None
        self.space, self.doing = 0, "estimating"
        self.problem = ""
        self._begun, self._spent, self._version = time.monotonic(), 0.0, 0
        self._took_s = 0.0  # seconds, before it was opened again
        self._answer: tuple[int, Answer] | None = None
        self._glance: tuple[float, Answer] | None = None
        self._left_out, self._is_partial, self.batch = True, False, f"search {question.id}"
        self._notes: tuple[StoredFact, ...] = ()
        self._known: dict[str, Calibration] = {}
        self._constrained: set[int] = set()  # numbers of candidates whose values were
        self._compiled = 0  # plans, of this search alone
        self._is_finishing = False  # beyond its budget, since little is left
        self.most_s = self.budget_s  # seconds, with what that adds
        self.is_few = False  # it ended since it had compiled as many as it may

    @property
    def held(self) -> int:
        """Candidates that it holds in memory: of a wide space not all."""
        return len(self._candidates)

    @property
    def spent_s(self) -> float:
        """Seconds of work so far."""
        return self._spent if self.is_over else time.monotonic() - self._begun

    @property
    def is_ending(self) -> bool:
        """Whether it tries nothing more, and only stores what it has: it cannot be cancelled."""
        return self.is_cancelled or self.doing == STORING

    @property
    def share(self) -> float:
        """How much of the work is done, 0 to 1: of what is to be compiled, else of the budget, without
        one of the estimates.
        """
        if self.doing == STORING:
            share = 1.0
        elif self._compiles and self.doing == "compiling":
            share = self._compiled / self._compiles
        else:
            looked = len(self._candidates) / max(1, self.space)
            share = self.spent_s / self.most_s if self.most_s else looked
        return min(1.0, share)

    @property
    def problem_words(self) -> str:
        """Returns why it paused, or what it lost; "" where neither is so."""
        return f"The search paused. {self.problem}" if self.state == "paused" else self.problem

    @property
    def answer(self) -> Answer:
        """What is known now."""
        with self._guard:
            if self._answer is None or self._answer[0] != self._version:
                known = scales(self._candidates)
                answer = Answer(
                    self.question,
                    self.space,
                    scaled(self._candidates, known),
                    self.is_over and not self._left_out,
                    self.spent_s,
                    (*self._notes, *self._noted(known)),
                    self._proof,
                    self._is_partial,
                )
                self._answer = (self._version, answer)
            return self._answer[1]

    @property
    def glance(self) -> Answer:
        """What was known a moment ago, for who follows it: ranking 200,000 candidates anew at every
        look would take the time that finding them needs, so it gets a tenth of it.
        """
        begun = time.monotonic()
        if self._glance is None or self.is_over or begun >= self._glance[0]:
            answer = self.answer
            _ = answer.ranking  # worked out here, and kept
            self._glance = (begun + 10 * (time.monotonic() - begun), answer)
        return self._glance[1]

    def run(self) -> Answer:
        """Carry it out, going on from where an earlier search of the same question stopped."""
        deadline = self._begun + (self.budget_s or 1e9)
        earlier = self._store.find(self.question.id)
        if self.budget_s is None and earlier is not None:  # opened again: it took what it took
            self._took_s = earlier.spent_s
        try:
            self._enumerate(deadline)
            runs = Runs(self._lab, self._asker, self.batch, lambda: self.is_cancelled, deadline)
            self._recall(runs)
            if self.budget_s is not None and not self.is_cancelled:
                self._work(runs)
            self._left_out |= self._is_open
            self._end("cancelled" if self.is_cancelled else "done")
        except LabError as error:
            self.problem, self._left_out = str(error), True
            with suppress(LabError):  # it cannot be stored: `problem` has the reason
                self._end("paused")
        except BaseException:  # a mistake of ours: who looks must not wait for ever
            self.problem, self.state = "the search failed: the log of the server says why", "paused"
            raise
        return self.answer

    # Steps ---------------------------------------------------------------------------------------

    def _enumerate(self, deadline: float) -> None:
        question = self.question
        if isinstance(question, ModelQuestion):
            self.space, every = models.space_size(question), models.candidates
            candidates = every(question, lambda: self.is_cancelled or time.monotonic() > deadline)
        else:
            self._known = known = self._calibrations(question)
            here = [each for each in question.targets if not parse_target(each).is_absent]
            self._notes = tuple(_source(each, each in known) for each in here)
            kind = ProgramSpace if question.described else Space
            space = kind(question, self._lab.hardware().cores, known)
            self.space = space.size
            candidates = space.candidates(lambda: self.is_cancelled)
        most = MOST if isinstance(question, ArrayQuestion) else models.WIDEST
        if self.space > most:
            raise refuse(
                f"a space of {self.space if self.space < 10**9 else 'over a billion'} candidates",
                f"is more than the {most:,} that a search looks at",
                "fix the mesh or an axis, or name fewer targets",
            )
        self._store.begin(question.id, question.to_json(), self.space)
        outcomes = self._store.outcomes(question.id)
        part: list[Candidate] = []
        for each in candidates:
            stored = outcomes.get(each.number)
            part.append(restored(each, stored) if stored else each)
            if len(part) >= 2000:
                self._extend(part)
                part = []
            if self.budget_s is not None and time.monotonic() > deadline:
                break
        self._is_partial = self.is_cancelled or time.monotonic() > deadline
        self._extend(part)
        self._add_beside(question)
        self._left_out = len(self._candidates) < self.space
        with self._guard:
            self._take(taught(self._candidates, self._candidates, question.memory_bytes))
            self._proof = stored_proof(self._lab, self._candidates)
            self._version += 1

    def _add_beside(self, question: AnyQuestion) -> None:
        """Add what the space lacks: the plans that Predict finds, with more microbatches or these beside
        an offload; the best with constraints on their values, as they were.
        """
        outcomes = self._store.outcomes(question.id)
        known = {each.name for each in self._candidates}
        is_model = isinstance(question, ModelQuestion) and not self._is_partial
        for each in best_plans(question) if is_model else ():
            if each.name not in known:
                stored, new = outcomes.get(self.space), replace(each, number=self.space)
                self._add([restored(new, stored) if stored else new])
        self._add(restored_constraints(outcomes, self._candidates))

    def _calibrations(self, question: ArrayQuestion) -> dict[str, Calibration]:
        lab = self._lab
        each = (
            (target, calibration_on(target, meshes(question, target), lab.latest, lab.result))
            for target in question.targets
        )
        return {target: known for target, known in each if known}

    def _recall(self, runs: Runs) -> None:
        """Take what is stored of the best plans since: compiled elsewhere, or in a search that was
        ended before it noted that.
        """
        if isinstance(self.question, ModelQuestion):
            for entry in self.answer.ranking[:RECALLED]:
                each = entry.candidate
                if (
                    each.stage == "estimated"
                    and not each.is_pipeline
                    and (result := runs.known(entry.candidate.experiment))
                ):
                    self._keep(answered([entry.candidate], result))

    def _work(self, runs: Runs) -> None:
        attached = not any(parse_target(each).is_absent for each in self._targets())
        elsewhere = [each for each in self._targets() if compiler_refusal(each)]
        choice = CandidateChoice(self.question, self.space, not attached, elsewhere)
        if attached:
            self._partition(runs)
            self._measure_and_prove(runs, choice)
        else:
            self.doing = "compiling"
            self._compile(runs, choice)
        self.doing = STORING
        if runs.disturbed:
            self._notes += (StoredFact(kind="measured again", values={"count": runs.disturbed}),)
            self._version += 1

    def _partition(self, runs: Runs) -> None:
        end, left_s = runs.deadline, runs.deadline - time.monotonic()
        if isinstance(self.question, ArrayQuestion) and left_s > LEAST_S:
            self.doing = "partitioning"
            runs.deadline = end - (1 - SHARE) * left_s
            self._reprice(runs, open_candidates(self._candidates))
            runs.deadline = end

    def _reprice(self, runs: Runs, candidates: Sequence[Candidate]) -> None:
        part: list[Candidate] = []
        for each in candidates:
            if runs.is_over:
                break
            try:
                part.append(partitioned(self._lab, each, self._known, self._asker))
            except RequestError:  # a run of it reports why
                continue
            except WorkerError:  # it may end at each
                break
            if len(part) >= STEP:
                self._keep(part)
                part = []
        self._keep(part)

    def _constrain(self, runs: Runs) -> bool:
        """Add the best with constraints on its values, once it is compiled; True if any."""
        best = self.answer.winner
        if (
            best is None
            or not isinstance(self.question, ArrayQuestion)
            or "specs" not in self.question.searched
            or best.constrained
            or best.run is None
            or best.number in self._constrained
            or len(self._constrained) >= CONSTRAINED
        ):
            return False
        self._constrained.add(best.number)
        added = list(constrained(self._lab, best, self.space))
        self._add(added)
        self._reprice(runs, added)
        return bool(added)

    def _measure_and_prove(self, runs: Runs, choice: CandidateChoice) -> None:
        """Measure the best first and prove the winner, in turn until the budget is used or nothing
        is left to try: a proof often takes less than the time that is kept for it.
        """
        end, proves = runs.deadline, self.question.minimize != "memory"  # memory is known
        kept_s = min(PROVING * (end - time.monotonic()), PROOFS * MOST_PROVEN * ROW_S)
        left = True
        while left and not runs.is_over:
            left = self._measure(runs, choice, end, kept_s if proves else 0.0)
            runs.deadline = end
            if proves:
                self._prove(runs)
            again_s = 2 * ROW_S  # another two side by side
            kept_s = again_s if end - time.monotonic() > 2 * again_s else 0.0

    def _measure(self, runs: Runs, choice: CandidateChoice, end: float, kept_s: float) -> bool:
        """Measure until `kept_s` are left for the proof; True if candidates are left. No time is
        kept before there are two to compare: a first run may take most of a small budget.
        """
        self.doing = "measuring"
        while True:
            runs.deadline = end - kept_s * (len(finalists(self.answer)) > 1)
            if runs.is_over:
                return True
            if not (group := self._next(choice)):
                return False
            if not self._try(runs, group):
                choice.tried.discard(run_key(group[0]))
            self._constrain(runs)

    def _compile(self, runs: Runs, choice: CandidateChoice) -> None:
        """Compile the best first, several at a time; WorkerError where the cluster that is to do
        that does not answer or goes away, which pauses the search.
        """
        try:
            while not runs.is_over:
                self._finish(runs)
                while (
                    runs.has_room
                    and (self._compiles is None or len(choice.tried) < self._compiles)
                    and (group := self._next(choice))
                ):
                    try:
                        experiment = experiment_of(group)
                        if result := runs.known(experiment):
                            self._keep(answered(group, result))
                        else:
                            runs.submit(experiment, group)
                    except RequestError as error:
                        self._keep(failed(group, str(error)))
                if runs.is_idle:
                    if not self._constrain(runs):
                        self.is_few = len(choice.tried) == self._compiles
                        return
                    continue
                for group, finished in runs.finished():
                    self._keep(
                        failed(group, finished)
                        if isinstance(finished, str)
                        else answered(group, finished)
                    )
        finally:
            self.doing = STORING  # it waits for compiles that end, too
            if runs.left_out:
                values = {"words": runs.left_out}
                self._notes += (StoredFact(kind="workers left out", values=values),)
            if runs.lost:
                self.problem = f"{len(runs.lost):,} compiles were lost: {runs.lost[0]}"
            for group, result in runs.close():  # done after the last look, or before it was ended
                self._keep(answered(group, result))

    def _finish(self, runs: Runs) -> None:
        """Gives a search of which little is left the time for it, once."""
        left = sum(each.stage == "estimated" for each in self._candidates)
        done, budget_s = self._compiled, self.budget_s or 0.0
        if not self._is_finishing and left and done and budget_s:
            needed_s = left * (time.monotonic() - self._begun) / done
            self._is_finishing = needed_s < LITTLE * budget_s
            more_s = 1.5 * LITTLE * budget_s * self._is_finishing  # the last are the slowest
            runs.deadline += more_s
            self.most_s = budget_s + more_s

    @property
    def _is_open(self) -> bool:
        """Whether estimates are left that another compile or measurement may put first: all that a
        formula has of arrays, and of plans those beside some that were compiled.
        """
        stages = {each.stage for each in self._candidates}
        is_estimated = isinstance(self.question, ModelQuestion) and "compiled" not in stages
        return "estimated" in stages and not is_estimated

    def _targets(self) -> Sequence[str]:
        return (
            self.question.targets
            if isinstance(self.question, ArrayQuestion)
            else [each.target for each in self.question.topologies]
        )

    def _next(self, choice: CandidateChoice) -> list[Candidate]:
        """What is tried next, after what cannot win was ruled out."""
        while changed := choice.ruled_out(self._candidates):
            self._keep(changed)
        return [self._candidates[self._places[each.number]] for each in choice.next(self.answer)]

    def _try(self, runs: Runs, group: list[Candidate]) -> bool:
        """Measure candidates quickly; False if the time was over first."""
        try:
            experiment = experiment_of(group).vary(timing=QUICK)
            result = runs.known(experiment)
            if result is None:
                status, result = runs.steady(experiment)
                if status is None:
                    return False
                if result is None:
                    self._keep(failed(group, why(status), status.run))
                    return True
        except RequestError as error:
            self._keep(failed(group, str(error)))
            return True
        self._keep(answered(group, result))
        return True

    def _prove(self, runs: Runs) -> None:
        """Measure the best side by side; again with those that are near what the winner took
        there, and were not in it.
        """
        for _ in range(PROOFS):
            known = self._proof
            if (
                known is not None
                and not known.partial
                and all(
                    each.number in known.numbers for each in finalists(self.answer, runs.left_s)
                )
            ):
                return
            self.doing = "measuring the best side by side"
            proof, changed = prove(runs, self.answer)
            if proof is None or (proof.partial and known is not None and not known.partial):
                return
            self._proof = proof
            self._keep(changed)

    # State ---------------------------------------------------------------------------------------

    def _extend(self, part: list[Candidate]) -> None:
        with self._guard:
            for each in part:
                self._places[each.number] = len(self._places)
            self._candidates.extend(part)
            self._version += 1

    def _add(self, added: list[Candidate]) -> None:
        self._extend(added)
        self.space += len(added)
        self._constrained |= {each.constrained[0] for each in added if each.constrained}

    def _keep(self, changed: Iterable[Candidate]) -> None:
        listed = [within(each, self.question.memory_bytes) for each in changed]
        if not listed:
            return
        with self._guard:
            self._take(listed)
            self._compiled += self.doing == "compiling"
            self._take(taught(listed, self._candidates, self.question.memory_bytes))
            self._version += 1
        self._store.keep_outcomes(
            self.question.id, [(each.number, to_stored(each)) for each in listed]
        )

    def _take(self, changed: Iterable[Candidate]) -> None:
        for each in changed:
            self._candidates[self._places[each.number]] = each

    def _end(self, state: str) -> None:
        with self._guard:
            self._spent, self.state = self._took_s or time.monotonic() - self._begun, state
            self._version += 1
        self._store.keep(search.kept_search(self.answer, state, time.time()))

    def _noted(self, known: dict[Kind, Scale]) -> Iterable[StoredFact]:
        if count := sum(each.partitioned for each in self._candidates):
            yield StoredFact(kind="partitioned", values={"count": count})
        for (target, is_partitioned), scale in known.items():
            if not is_partitioned:
                yield scale.fact(target)


def _source(target: str, is_calibrated: bool) -> StoredFact:
    kind = "calibrated" if is_calibrated else "guessed"
    return StoredFact(kind=kind, values={"target": target})
