"""Estimates the changes of an exported program by partitioned programs, before any is compiled."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from spmd_core.base import RequestError, WorkerError
from spmd_core.experiment import Experiment
from spmd_core.lab import Asker, Lab
from spmd_core.results import StrategyResult
from spmd_core.runs import Partitioned
from spmd_core.trials.remedies.candidate import MOST, RemedyCandidate
from spmd_core.trials.remedies.judged import Tried, helps, verdict
from spmd_core.trials.trying.trial import RemedyTrial


def is_cheap(experiment: Experiment) -> bool:
    """Returns True of an exported program whose time is known from its partitioned program: of one for
    GPUs that is compiled to its end.
    """
    return experiment.exported is not None and experiment.place.kind == "tpu"


def estimated(
    lab: Lab, asker: Asker, base: StrategyResult, candidate: RemedyCandidate
) -> Tried | None:
    """Returns a candidate as it is partitioned, without its time; None where its program was compiled
    to its end, or its process ended. `base`: the compiled program that it changes.
    """
    try:
        program = lab.partition(candidate.experiment, asker)
    except RequestError:
        return Tried(candidate, is_estimated=True)
    except WorkerError:
        return None
    if program.is_compiled or program.predicted_s is None or base.prediction is None:
        return None
    return Tried(candidate, _as_outcome(base, program), is_estimated=True)


def _as_outcome(base: StrategyResult, program: Partitioned) -> StrategyResult:
    """Returns what a compile would add but its memory by kind, which no partitioned program has."""
    assert base.prediction is not None
    held = base.prediction.memory_bytes.model_copy(update={"argument": None})
    given = {"collectives": program.collectives, "predicted_s": program.predicted_s}
    prediction = base.prediction.model_copy(update={**given, "memory_bytes": held})
    return base.model_copy(
        update={"collectives": program.collectives, "prediction": prediction, "accidents": ()}
    )


def is_faster(trials: Sequence[RemedyTrial], tried: Tried) -> RemedyTrial | None:
    """Returns the first collective of which a candidate is estimated to help; None of none."""
    for each in trials:
        judged = verdict(each.target, each.base, tried)
        if judged is not None and helps(each.target, each.expected, judged):
            return each
    return None


def in_turns(trials: Sequence[RemedyTrial]) -> tuple[int, list[RemedyCandidate]]:
    """Returns the candidates of all collectives once, one of each in turn, and how many of them are of
    the MOST nearest.
    """
    near = _once(zip_longest(*(each.candidates[:MOST] for each in trials)))
    rest = _once(zip_longest(*(each.candidates[MOST:] for each in trials)))
    every = near | {name: each for name, each in rest.items() if name not in near}
    return len(near), list(every.values())


def _once(turns: Iterable[Sequence[RemedyCandidate | None]]) -> dict[str, RemedyCandidate]:
    return {each.experiment.id: each for turn in turns for each in turn if each is not None}
