"""One search as it is carried out: its candidates, its state, and its answer at any moment."""

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from spmd_core.errors import LabError, RequestError, refuse
from spmd_core.lab import Lab
from spmd_core.machine.targets import parse_target
from spmd_core.search import models
from spmd_core.search.answer import Answer, Proof
from spmd_core.search.array_question import ArrayQuestion
from spmd_core.search.arrays import Space
from spmd_core.search.candidate import MOST, Candidate
from spmd_core.search.question import ModelQuestion
from spmd_core.searching.calibrated import machines_of
from spmd_core.searching.cluster import Cluster
from spmd_core.searching.outcomes import (
    answered,
    experiment_of,
    failed,
    fate_row,
    restored,
    run_key,
    to_stored,
)
from spmd_core.searching.pool import Pool
from spmd_core.searching.prove import prove
from spmd_core.searching.runs import Runs
from spmd_core.settings import read_settings
from spmd_core.store.limits import Asker
from spmd_core.store.searches import Searches
from spmd_core.words.search import disturbed_words, headline, rates_words

# of one search, best first, of each worker that compiles: what is left stays estimated
MOST_RUNS = 60
# runs after which the classics are tried, so that the winner is never behind: of shardings, and of
# models, of which one takes a minute
CLASSICS_AFTER, CLASSICS_OF_MODELS_AFTER = 3, 1
REFINED, MOST_REFINED = 3, 5  # of the best, measured again with all samples before the proof
QUICK = {"samples": 5, "min_seconds": 0.02}  # per strategy, to find the best few
# of the budget, after which nothing new is measured, and nothing again: the rest proves
FINDING, REFINING = 0.45, 0.6
AnyQuestion = ModelQuestion | ArrayQuestion


class Search:
    """A question being answered. Every method may be called from any thread; `run` once at a time.

    `budget_s` None: nothing is compiled or measured, only estimated.
    """

    def __init__(self, lab: Lab, store: Searches, question: AnyQuestion, budget_s: float | None,
                 asker: Asker | None = None, dask: str | None = None):
        self._dask = read_settings().dask if dask is None else dask
        self.question, self.budget_s = question, budget_s
        self._lab, self._store, self._asker = lab, store, asker
        self._guard, self._stopped = threading.Lock(), threading.Event()
        self._found: list[Candidate] = []
        self._changed: set[int] = set()
        self._proof: Proof | None = None
        self.space, self.state, self.doing = 0, "running", "estimating"
        self.problem = ""
        self._begun, self._spent, self._version = time.monotonic(), 0.0, 0
        self._answer: tuple[int, Answer] | None = None
        self._left_out, self._batch = True, f"search {question.id}"
        self._notes: tuple[str, ...] = ()

    def cancel(self) -> None:
        """Stop soon, and keep what was found."""
        self._stopped.set()

    @property
    def is_over(self) -> bool:
        """Whether nothing is looked at any more."""
        return self.state != "running"

    @property
    def spent_s(self) -> float:
        """Seconds of work so far."""
        return self._spent if self.is_over else time.monotonic() - self._begun

    @property
    def answer(self) -> Answer:
        """What is known now."""
        with self._guard:
            if self._answer is None or self._answer[0] != self._version:
                answer = Answer(self.question, self.space, tuple(self._found),
                                self.is_over and not self._left_out, self.spent_s,
                                self._notes, self._proof)
                self._answer = (self._version, answer)
            return self._answer[1]

    def run(self) -> Answer:
        """Carry it out, going on from where an earlier search of the same question stopped."""
        deadline = self._begun + (self.budget_s or 1e9)
        try:
            self._enumerate(deadline)
            if self.budget_s is not None and not self._stopped.is_set():
                self._work(Runs(self._lab, self._asker, self._stopped.is_set, deadline,
                                self._batch))
            elif isinstance(self.question, ArrayQuestion):  # whose formula only orders
                self._left_out |= any(each.fate == "estimated" for each in self._found)
            self._left_out |= self._stopped.is_set()
            self._end("cancelled" if self._stopped.is_set() else "done")
        except LabError as error:
            self.problem, self._left_out = str(error), True
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
            found = every(question, self._stopped.is_set)
        else:
            machines = machines_of(self._lab, question)
            self._notes = rates_words(question.targets, machines)
            space = Space(question, self._lab.hardware().cores, machines)
            self.space = space.size
            found = space.candidates(self._stopped.is_set)
        if self.space > MOST:
            raise refuse(f"a space of {self.space if self.space < 10**9 else 'over a billion'}"
                         " candidates", f"is more than the {MOST:,} that a search looks at",
                         "fix the mesh or an axis, or name fewer targets")
        self._store.begin(question.id, question.to_json(), self.space)
        outcomes = self._store.outcomes(question.id)
        part: list[Candidate] = []
        for each in found:
            stored = outcomes.get(each.number)
            part.append(restored(each, stored) if stored else each)
            if len(part) >= 2000:
                self._extend(part)
                part = []
            if self.budget_s is not None and time.monotonic() > deadline:
                break
        self._extend(part)
        self._left_out = len(self._found) < self.space
        if not self._left_out:
            self._store.keep_fates(question.id, map(fate_row, self._found))

    def _work(self, runs: Runs) -> None:
        """Compile and measure the best first, then prove the winner."""
        final = runs.deadline
        attached = not any(parse_target(each).is_absent for each in self._targets())
        if attached:
            runs.deadline = self._begun + FINDING * (self.budget_s or 0.0)
        tried: set[object] = set()
        self.doing = "measuring" if attached else "compiling"
        if not attached:
            self._compile(runs, tried)
        while not runs.is_over and len(tried) < MOST_RUNS:
            group = self._next(tried)
            if not group:
                break
            tried.add(run_key(group[0]))
            self._try(runs, group, quick=attached)
        runs.deadline = final
        entries = self.answer.ranking
        self._left_out |= any(entry.candidate.fate == "estimated" for entry in entries)
        if attached and not runs.is_over:
            self.doing = "measuring the best again"
            runs.deadline = self._begun + REFINING * (self.budget_s or 0.0)
            refined: set[object] = set()
            while len(refined) < MOST_REFINED and not runs.is_over \
                    and (group := self._unrefined(refined)):
                refined.add(run_key(group[0]))
                self._try(runs, group, quick=False, again=True)
            runs.deadline, self.doing = final, "proving the winner"
            self._proof = prove(runs, self.answer.ranking, self._keep)
        if runs.disturbed:
            self._notes += (disturbed_words(runs.disturbed),)
            self._version += 1

    def _compile(self, runs: Runs, tried: set[object]) -> None:
        """Compile the best first, several at a time: on a Dask cluster where there is one, else
        here; WorkerError where it does not answer or goes away, which pauses the search.
        """
        pool = Cluster(self._dask) if self._dask else Pool(self._lab, self._asker, self._batch)
        try:
            while not runs.is_over:
                while pool.has_room and len(tried) < MOST_RUNS * pool.workers \
                        and (group := self._next(tried)):
                    tried.add(run_key(group[0]))
                    try:
                        experiment = experiment_of(group)
                        if result := runs.known(experiment):
                            self._keep(answered(group, result))
                        else:
                            pool.submit(experiment, runs.left_s, group)
                    except RequestError as error:
                        self._keep(failed(group, str(error)))
                if pool.is_idle:
                    return
                for group, found in pool.finished():
                    self._keep(failed(group, found) if isinstance(found, str)
                               else answered(group, found, kept=pool.keeps))
        finally:
            pool.close()

    def _targets(self) -> Sequence[str]:
        return self.question.targets if isinstance(self.question, ArrayQuestion) else \
            [each.target for each in self.question.topologies]

    def _next(self, tried: set[object]) -> list[Candidate]:
        """Candidates of the best that was not tried; of the classics first, once others were."""
        self._prune_by_bound()
        answer = self.answer
        ranked = [entry.candidate for entry in answer.ranking]
        is_model = isinstance(self.question, ModelQuestion)
        if len(tried) >= (CLASSICS_OF_MODELS_AFTER if is_model else CLASSICS_AFTER):
            ranked = [each.candidate for each in answer.classics if each.candidate] + ranked
        left = [each for each in ranked if each.fate == "estimated" and run_key(each) not in tried]
        seen = {each.point.alike for each in self._found if each.point and run_key(each) in tried} \
            if left and left[0].point else set()
        # what differs only in how its axes are written comes after what differs in more
        first = next((each for each in left if each.point is None or each.point.alike not in seen),
                     left[0] if left else None)
        if first is None:
            return []
        key = run_key(first)
        return [each for each in self._found if each.fate == "estimated"
                and each.target == first.target and run_key(each) == key]

    def _prune_by_bound(self) -> None:
        """Rule out what cannot win: its lower bound is above the best that is known."""
        known = [each.seconds / each.tokens for each in self._found
                 if each.fate in ("measured", "compiled") and each.seconds is not None]
        if not known or self.question.minimize != "time":
            return
        best = min(known)
        late = [replace(each, fate="pruned", reason="lower bound above the best",
                        detail="its lower bound is above the best time that is known")
                for each in self._found
                if each.fate == "estimated" and each.bound_s is not None
                and each.bound_s / each.tokens > best]
        self._keep(late)

    def _try(self, runs: Runs, group: list[Candidate], quick: bool, again: bool = False) -> None:
        try:
            experiment = experiment_of(group)
            if quick:
                experiment = experiment.vary(timing=QUICK)
            result = runs.known(experiment)
            if result is None:
                status, result = runs.steady(experiment)
                if status is None:
                    return
                if result is None:
                    why = status.error.message if status.error else f"the run {status.state}"
                    self._keep(failed(group, why, status.run))
                    return
        except RequestError as error:
            self._keep(failed(group, str(error)))
            return
        found = answered(group, result)
        self._keep([each for each in found if not again or each.fate == "measured"])

    def _unrefined(self, refined: set[object]) -> list[Candidate]:
        """The best of the first few that was only measured quickly, with its fastest strategies:
        few samples let the lucky ones look best.
        """
        ranked = [one.candidate for one in self.answer.ranking if one.candidate.fate == "measured"]
        key = next((run_key(each) for each in ranked[:REFINED] if run_key(each) not in refined), None)
        return [each for each in ranked if key is not None and run_key(each) == key][:2]

    # State ---------------------------------------------------------------------------------------

    def _extend(self, part: list[Candidate]) -> None:
        with self._guard:
            self._found.extend(part)
            self._version += 1

    def _keep(self, changed: Iterable[Candidate]) -> None:
        """Take candidates as they are now, and store them."""
        listed = list(changed)
        if not listed:
            return
        with self._guard:
            for each in listed:
                self._found[each.number] = each
            self._version += 1
        self._store.keep_outcomes(self.question.id,
                                  [(each.number, to_stored(each)) for each in listed])

    def _end(self, state: str) -> None:
        with self._guard:
            self._spent, self.state = time.monotonic() - self._begun, state
            self._version += 1
        self._store.note(self.question.id, state, self._spent, headline(self.answer))
