"""The best few side by side: one run in whose shuffled rounds each of them takes turns."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby

from spmd_core.base import LabError
from spmd_core.experiment import Experiment, study_of
from spmd_core.facts import SURE_PROCESSES
from spmd_core.lab import Batch, Lab
from spmd_core.results import SPREAD_WARNING, Comparison, Result, StrategyResult
from spmd_core.runs import RunStatus
from spmd_core.search import Answer, Candidate, Proof
from spmd_core.trials.searching.outcomes import answered, experiment_of, run_key


class Runs(Batch):
    """A batch whose timed runs are repeated where something else ran on the machine."""

    disturbed: int = 0  # how many were measured again

    def steady(self, experiment: Experiment) -> tuple[RunStatus | None, Result | None]:
        """The same as `run`, a second time where the times spread as on a busy machine: the
        steadier of both.
        """
        first = self.run(experiment)
        if first[1] is None or spread(first[1]) <= SPREAD_WARNING or self.is_over:
            return first
        self.disturbed += 1
        second = self.run(experiment)
        steadier = second[1] is not None and spread(second[1]) < spread(first[1])
        return second if steadier else first


def spread(result: Result) -> float:
    """The middle half of the samples over their median, of the strategy where it is largest."""
    return max((each.spread or 0.0 for each in result.strategies.values()), default=0.0)


# Few samples let the lucky ones look best: so many of those that came near the best are
# measured again, fewer where less time is left for the processes that a close verdict takes
MOST, ROW_S = 8, 1.6 * SURE_PROCESSES
PROOFS = 2  # the second with what came near where the lucky best of the first was slower
NEAR = 1.5  # times the best: what took longer is not near it


def finalists(answer: Answer, left_s: float = MOST * ROW_S) -> list[Candidate]:
    """The best few of those that were measured, and the best standard sharding, in the order of the
    space; none where there are no two on the winner's target. The winner that was proven and its
    ties stay among them.
    """
    winner = answer.winner
    if winner is None:
        return []
    measured = sorted(
        (
            each
            for each in answer.found
            if each.target == winner.target and each.measured_s is not None
        ),
        key=lambda each: each.measured_s or 0.0,
    )
    near = [each for each in measured if (each.measured_s or 0.0) <= NEAR * _seconds(measured[0])]
    most = max(2, min(MOST, int(left_s / ROW_S)))
    best = answer.proof.best_numbers if answer.proof else ()
    proven = [each for each in measured if each.number in best]
    # strategies of one sharding are near each other: another sharding goes first
    firsts = {run_key(each): each for each in reversed(measured)}
    ahead = sorted(firsts.values(), key=_seconds)[:2]
    order = {each.number: each for each in (*proven, *ahead, *near)}
    chosen = dict(list(order.items())[:most])
    known = (each.candidate for each in answer.standards if each.candidate)
    baselines = [each for each in known if each.measured_s is not None]
    if baselines:  # the fastest of the measured shardings that everyone knows
        baseline = min(baselines, key=_seconds)
        chosen[baseline.number] = baseline
    return [chosen[number] for number in sorted(chosen)] if len(chosen) > 1 else []


def prove(runs: Runs, answer: Answer) -> tuple[Proof | None, list[Candidate]]:
    """(the proof by a run of the best few side by side, the candidates as it measured them);
    (None, []) where there are no two, or no time was left.
    """
    chosen = finalists(answer, runs.left_s)
    if not chosen or runs.is_over:
        return None, []
    result, keys = side_by_side(runs, chosen)
    if result is None:
        return None, []
    changed = [
        _as_measured(each, result.strategies[keys[each.number]], result)
        for each in chosen
        if each.number in keys
    ]
    proof = proof_of(chosen, result)
    return proof and replace(proof, alone_s=_alone_s(runs.lab, chosen)), changed


def side_by_side(runs: Runs, chosen: Iterable[Candidate]) -> tuple[Result | None, dict[int, str]]:
    """(the result of one run of these candidates of one target, or None; the keys of their rows in
    it by their numbers).
    """
    listed = sorted({each.number: each for each in chosen}.values(), key=lambda each: each.number)
    groups = [list(group) for _, group in groupby(listed, run_key)]
    _, result = runs.run(study_of([(None, experiment_of(group)) for group in groups]), partial=True)
    return result, _keys(listed, result) if result else {}


def stored_proof(lab: Lab, candidates: Sequence[Candidate]) -> Proof | None:
    """The last proof of these candidates; None where there is none, or its run is gone."""
    run = max((each.study for each in candidates if each.study), default=None)
    if run is None:
        return None
    try:
        result = lab.facts(run)
    except LabError:
        return None
    chosen = [each for each in candidates if each.study == run]
    proof = proof_of(chosen, result) if result else None
    return proof and replace(proof, alone_s=_alone_s(lab, chosen))


def _alone_s(lab: Lab, chosen: Iterable[Candidate]) -> tuple[float, float] | None:
    """Returns the least and the most that candidates took in the runs that first measured them; None
    where these are gone.
    """
    took: list[float] = []
    for each in chosen:
        with suppress(LabError):
            result = lab.facts(each.run) if each.run else None
            outcome = result.strategies.get(each.strategy) if result else None
            took += [outcome.median_s] if outcome and outcome.median_s else []
    return (min(took), max(took)) if took else None


def proof_of(chosen: Sequence[Candidate], result: Result) -> Proof | None:
    """The proof by a run of these candidates; None where it could not compare any two."""
    answer, keys = result.comparison, _keys(chosen, result)
    if answer is None or not answer.ratios:
        return None
    named = {keys[each.number]: each for each in chosen if each.number in keys}
    listed = {answer.fastest, *(each.strategy for each in answer.ratios)}
    order = [key for key in result.order if key in listed]
    comparison = Comparison(
        fastest=named[answer.fastest].name,
        ratios=tuple(
            each.model_copy(update={"strategy": named[each.strategy].name})
            for each in answer.ratios
        ),
        tied=tuple(named[key].name for key in answer.tied),
    )
    medians = {named[key].name: result.strategies[key].median_s or 0.0 for key in order}
    return Proof(
        result.run,
        result.experiment,
        comparison,
        medians,
        tuple(named[key].number for key in order),
        comparison.ratios[0].rounds or 0,
        result.partial,
    )


def _keys(chosen: Sequence[Candidate], result: Result) -> dict[int, str]:
    """The keys of candidates' rows in a result, by their numbers; without those not in it."""
    rows = {
        _identity(row.experiment, row.strategy): row.key
        for row in result.experiment.rows
        if row.key in result.strategies
    }
    compared = {each.number: rows.get(_identity(each.experiment, each.strategy)) for each in chosen}
    return {number: key for number, key in compared.items() if key is not None}


def _identity(experiment: Experiment, strategy: str) -> str:
    return experiment.vary(strategies=[strategy]).id


def _as_measured(candidate: Candidate, outcome: StrategyResult, result: Result) -> Candidate:
    if outcome.median_s is None and outcome.error is None:
        return candidate
    only = result.model_copy(update={"strategies": {candidate.strategy: outcome}})
    return replace(answered([candidate], only)[0], run=candidate.run, study=result.run)


def _seconds(candidate: Candidate) -> float:
    return candidate.measured_s or 0.0
