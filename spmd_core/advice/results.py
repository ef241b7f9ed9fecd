"""The sentences of a stored result, and the next thing to try after it, which are made of its facts
each time it is read.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from statistics import median

from spmd_core.advice.arrays import RULES, Facts, remedied
from spmd_core.advice.nearest import change_words
from spmd_core.advice.programs import compiled_findings, program_of
from spmd_core.base import RequestError, bytes_text, mesh_text, numbered, seconds_text
from spmd_core.experiment import Experiment, experiment_of, study_of
from spmd_core.facts import STEP_TIME, SURE_PROCESSES, Estimate, Prediction
from spmd_core.machine import Topology
from spmd_core.plan import Plan
from spmd_core.results import (
    SPREAD_NOTICE,
    SPREAD_WARNING,
    Comparison,
    Environment,
    Next,
    Result,
    StrategyResult,
)
from spmd_core.search import best_neighbors
from spmd_core.sweeps import TrainingQuestion, train
from spmd_core.terms import environment_notes, widened_words
from spmd_core.time import NearestFit, estimate_step, nearest_fit
from spmd_core.words import (
    DISPATCH_BOUND,
    fact_words,
    imprecise_words,
    in_sentences,
    parts,
    runs,
    strategies,
    traces,
)

WORTH = 0.02  # of the time per token: less is within what the estimate is off
PAIRS, FASTER_TOO = 67, 59  # of `bench.plan_pairs`: estimates apart by WORTH, and so once compiled


CONFIRM = (
    "These verdicts are of one process; another one may place code and buffers otherwise: measure "
    "in "
    f"{SURE_PROCESSES} processes"
)


def confirmation(result: Result) -> Experiment | None:
    """The experiment with a timing plan of several processes, to confirm what one process measured;
    None where nothing is compared, or it was measured in several.
    """
    answer, experiment = result.comparison, result.experiment
    if answer is None or not answer.ratios or experiment.place.is_absent:
        return None
    if any(each.processes > 1 for each in answer.ratios) or experiment.variants:
        return None
    timing = experiment.timing.model_dump() | {"processes": SURE_PROCESSES}
    return experiment.vary(timing=timing)


def timed_together(one: Result, other: Result) -> Experiment | None:
    """Returns the experiment that settles which of two runs is faster, timed in the same rounds: the
    study of both, or of one experiment that ran twice its plan of several processes; None where
    they ran on no devices, or cannot be compared.
    """
    if one.experiment == other.experiment:
        return confirmation(one)
    if any(each.experiment.place.is_absent for each in (one, other)):
        return None
    with suppress(RequestError):
        return study_of([(None, one.experiment), (None, other.experiment)])
    return None


def next_step(result: Result) -> Next | None:
    """What to try next; None where there is nothing to vary: a small program, a bare array, a
    machine's own figures, or nothing that ran.
    """
    experiment = result.experiment
    if result.experiment.variants:
        return next_step(result.of_variant(result.row(result.order[0]).variant))
    name = next((name for name in result.order if result.strategies[name].status == "ok"), None)
    if name is None or not experiment.what.is_predicted:
        return None
    outcome = result.strategies[name]
    if experiment.plan:
        if outcome.prediction is None:
            return None
        tried = remedied(outcome) if outcome.prediction.fits else None
        return tried or next_plan(experiment.plan, outcome.prediction)
    facts = Facts(result, name, outcome)
    return next((advice for rule in RULES if (advice := rule(facts))), None)


def next_plan(plan: Plan, prediction: Prediction) -> Next | None:
    """What to try instead of a predicted plan: what fits, else what takes less time per token, else
    more chips. Tens of milliseconds.
    """
    if not prediction.fits:
        return _fit(plan, prediction)
    return _neighbor(plan, prediction) or _more_chips(plan, prediction)


def _fit(plan: Plan, prediction: Prediction) -> Next | None:
    nearest = nearest_fit(plan)
    if nearest is None:
        return None
    missing = prediction.memory_bytes.missing or 0
    return Next(
        rule="does_not_fit",
        number=missing,
        experiment=nearest.experiment,
        sentence=f"{bytes_text(missing)} per device too much. Try: {change_words(plan, nearest)}.",
    )


def _neighbor(plan: Plan, compiled: Prediction) -> Next | None:
    """The best of the plans one change away, by the estimates of both; where that is worth it beside
    what compiling the plan predicted too.
    """
    time = estimate_step(plan).predicted_s
    after, near = next(iter(best_neighbors(plan)), (math.inf, plan))
    if time is None or near == plan:
        return None
    seconds = [each.estimate for each in (time, compiled.predicted_s) if each]
    saved = 1 - after * plan.tokens / time.estimate
    if 1 - after * plan.tokens / min(seconds) < WORTH:
        return None
    best = NearestFit(near, estimate_step(near))
    # from the time of the plan that the screen has above
    takes_s = (1 - saved) * seconds[-1]
    takes = f"{seconds_text(seconds[-1])} -> {seconds_text(takes_s)}"
    off = abs(seconds[-1] / time.estimate - 1)
    doubt = f" (this one's is {off:.0%} off)" if off > WORTH else ""
    sentence = (
        f"{takes} for as many tokens, {saved:.1%} less by the estimates of both{doubt}. "
        f"Try: {change_words(plan, best)}."
    )
    return Next(
        rule="better_plan",
        number=saved,
        experiment=best.experiment,
        sentence=sentence,
        takes_s=takes_s,
        memory=best.prediction.memory_bytes,
    )


def gain_words(offered: Next, time: Estimate | None) -> tuple[str, str]:
    """Returns how often a gain within the range of its time holds once compiled, and of which pairs of
    plans; ("", "") beyond it.
    """
    if time is None or offered.takes_s is None or offered.takes_s < time.low:
        return "", ""
    return (
        f"Probably faster: of {PAIRS} such estimates {FASTER_TOO} were right once compiled.",
        f"Within this prediction's range. Pairs of plans with estimates {WORTH:.0%} or more apart.",
    )


def _more_chips(plan: Plan, prediction: Prediction) -> Next | None:
    """The plan that Predict finds for the same step on the next larger topology: what is left to make
    it faster.
    """
    total = sum(prediction.shares_s.values())
    if not total or not prediction.binds:
        return None
    here = plan.topology
    topology = next(here.larger(), Topology(here.chip, here.shape, here.slices * 2))
    shares = parts(prediction)  # by what the screens call them
    most = max(shares, key=shares.__getitem__)
    share = shares[most] / total
    kind, tokens = topology.chip.generation, float(plan.tokens)
    asked = TrainingQuestion(plan.to_json(), tokens, plan.batch, (kind,), topology.chips)
    (row,) = train(asked).rows
    if (other := row.plan) is None or not row.is_sure:
        return None
    sentence = (
        f"{share:.0%} of the step is {most}, and no change of one axis or policy takes less time per "
        f"token: try {other.target} with {mesh_text(other.mesh)}."
    )
    return Next(rule="more_chips", number=share, experiment=experiment_of(other), sentence=sentence)


USUAL_SAMPLES, USUAL_SECONDS = 20, 0.2
NOT_EARLY = (
    "the compiler wrote no schedule on the way: the program was compiled to its end, "
    "which takes several times as long"
)


STRAGGLER = 1.5  # times the median of the other hosts


def in_words(result: Result) -> Result:
    """A result with its answer, the notes and the words of the traces of its strategies, and what
    to try next; what an older version stored of these is replaced.
    """
    experiment = result.experiment
    environment = _environment(result.environment, experiment.target)
    # which are about times, and a program as written has none
    of_times = () if experiment.what.is_small_program else environment.notes
    others = (note for note in result.notes if note not in result.environment.notes)
    return result.model_copy(
        update={
            "environment": environment,
            "environments": {
                target: _environment(each, target) for target, each in result.environments.items()
            },
            "notes": tuple(dict.fromkeys((*others, *of_times))),
            "strategies": {name: _strategy(result, name) for name in result.strategies},
            "comparison": _with_sentence(result.comparison, runs.run_headline, result),
            "predicted": _with_sentence(result.predicted, strategies.predicted, result),
            "next": next_step(result),
        }
    )


def _environment(environment: Environment, target: str) -> Environment:
    return environment.model_copy(update={"notes": environment_notes(environment, target)})


def _with_sentence(
    comparison: Comparison | None, sentence: Callable[[Result], str], result: Result
) -> Comparison | None:
    return comparison and comparison.model_copy(update={"sentence": sentence(result)})


def _strategy(result: Result, name: str) -> StrategyResult:
    """A strategy with its notes, and the words of its trace; notes that an older version stored
    stay, since it stored nothing that they can be made of.
    """
    outcome, experiment = result.strategies[name], result.row(name).experiment
    update: dict[str, object] = {"trace": traces.in_words(result, name)}
    if outcome.facts is not None:
        update["notes"] = tuple(_notes(outcome, experiment, result.is_settled))
    if outcome.prediction is not None:
        predicted = _predicted(outcome.prediction, experiment)
        if outcome.facts is None:  # predicted alone
            listed = compiled_findings(outcome, program_of(experiment))
            notes = (*(each.sentence for each in listed), *predicted.notes)
            predicted = predicted.model_copy(update={"notes": notes})
        update["prediction"] = predicted
    return outcome.model_copy(update=update)


def _notes(outcome: StrategyResult, experiment: Experiment, is_settled: bool) -> Iterator[str]:
    yield from map(fact_words, outcome.facts or ())
    program = program_of(experiment)
    yield from (each.sentence for each in compiled_findings(outcome, program))
    if experiment.place.is_simulated and outcome.collectives:
        leaves = program.described.arguments if program else ()
        dtypes = [leaf.dtype for leaf in leaves] or [experiment.dtype]
        yield from filter(None, [widened_words(dtypes)])
    if outcome.wrong:
        yield "wrong values: not ranked"
    if loose := outcome.imprecise:
        better = "" if loose.dtype == "float32" else " (sums in float32 avoid it)"
        yield f"{imprecise_words(loose)}: {loose.count:,} of {loose.of:,} elements{better}"
    yield from _of_hosts(outcome)
    yield from _of_training(outcome, experiment)
    if outcome.median_s is not None and outcome.samples_s:
        yield from _of_samples(outcome, experiment, outcome.median_s, is_settled)


def _of_hosts(outcome: StrategyResult) -> Iterator[str]:
    if len(outcome.hosts) < 2:
        return
    slowest = max(outcome.hosts, key=lambda each: each.median_s)
    others = median(each.median_s for each in outcome.hosts if each is not slowest)
    name = f"process {slowest.process} on {slowest.host}"
    if slowest.median_s > STRAGGLER * others:
        yield (
            f"{name} falls behind: {seconds_text(slowest.median_s)} a call, "
            f"{slowest.median_s / others:.1f} times what the others take"
        )
    else:
        yield f"the time is that of {name}, the slowest of {len(outcome.hosts)}"


def _of_training(outcome: StrategyResult, experiment: Experiment) -> Iterator[str]:
    curve = experiment.what.training.curve or ""
    losses = outcome.series.get(curve, ())
    if losses:
        steps, seconds = experiment.option("steps"), median(outcome.series[STEP_TIME])
        short = "" if len(losses) == steps else f", stopped after {len(losses)} of {steps} steps"
        yield (
            f"{curve} {losses[0]:.4g} before the first step, {losses[-1]:.4g} before the last"
            f"{short}; {seconds_text(seconds)} a step"
        )


def _of_samples(
    outcome: StrategyResult, experiment: Experiment, median_s: float, is_settled: bool
) -> Iterator[str]:
    count, plan = len(outcome.samples_s), experiment.timing
    is_bare = experiment.what.is_bare_array
    if outcome.is_dispatch_bound and not is_bare:
        yield DISPATCH_BOUND
    if is_settled:  # enough
        pass
    elif count < plan.samples:
        yield f"stopped after {count} of {plan.samples} samples"
    elif count < USUAL_SAMPLES:
        yield f"{numbered(count, 'sample')}, fewer than the usual {USUAL_SAMPLES}"
    if plan.min_seconds < USUAL_SECONDS:
        yield f"sampled for {plan.min_seconds:g} s, less than the usual {USUAL_SECONDS:g} s"
    spread = outcome.spread or 0.0
    scattered = f"the middle half of the samples spreads over {spread:.0%} of the median"
    if spread > SPREAD_WARNING:
        yield f"very noisy: {scattered}; measure again on an idle machine"
    elif spread > SPREAD_NOTICE:
        yield f"noisy: {scattered}"


def _predicted(prediction: Prediction, experiment: Experiment) -> Prediction:
    plan = experiment.plan
    noted = in_sentences(prediction, plan)
    if plan is None or not noted.compiled:
        return noted
    notes = [
        *filter(None, [plan.beyond_context, noted.fits and plan.little_compared]),
        *noted.notes,
    ]
    if plan.with_fitting_blocks != plan:
        notes.append(f"{plan.kernel_refusal}: the step was compiled with these")
    if prediction.program == "final" and not experiment.place.is_gpu:
        notes.append(NOT_EARLY)
    return noted.model_copy(update={"notes": tuple(dict.fromkeys(notes))})
