"""The best two head to head: a study of two variants, round by round in shuffled order."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median

from spmd_core.results.stats import summarize
from spmd_core.search.answer import Proof
from spmd_core.search.candidate import Candidate
from spmd_core.search.ranking import Ranked
from spmd_core.search.study import Study, Variant
from spmd_core.searching.runs import Runs

TURN = {"samples": 5, "min_seconds": 0.02}  # of each turn of a round


def prove(runs: Runs, entries: Sequence[Ranked],
          keep: Callable[[Iterable[Candidate]], None]) -> Proof | None:
    """Measure the best two in the same shuffled rounds, and say whether they differ; None where
    there are no two, or no time was left.
    """
    best = [entry.candidate for entry in entries if entry.candidate.fate == "measured"][:2]
    if len(best) < 2:
        return None
    study = Study(tuple(Variant(each.name, each.experiment.vary(timing=TURN))
                        for each in best))
    rounds, samples = measured(runs, study)
    comparison = study.compared(rounds)
    if comparison is None or not comparison.ratios:
        return None
    keep([_as_measured(each, samples[each.name]) for each in best if samples[each.name]])
    ratio = comparison.ratios[0]
    return Proof(comparison.fastest, ratio.strategy, ratio.ratio, ratio.interval, ratio.differs,
                 len(rounds))


def measured(runs: Runs, study: Study) -> tuple[list[dict[str, float]], dict[str, list[float]]]:
    """(seconds by variant, round by round; all samples by variant), until the time is over. A round
    that is not whole does not count.
    """
    rounds: list[dict[str, float]] = []
    samples: dict[str, list[float]] = {variant.name: [] for variant in study.variants}
    for order in study.order():
        seconds: dict[str, float] = {}
        for variant in order:
            if runs.is_over:
                break
            _, result = runs.run(variant.experiment)
            found = next(iter(result.strategies.values())) if result else None
            if found and found.median_s is not None:
                seconds[variant.name] = found.median_s
                samples[variant.name] += found.samples_s
        if len(seconds) < len(study.variants):
            break
        rounds.append(seconds)
    return rounds, samples


def _as_measured(candidate: Candidate, samples: list[float]) -> Candidate:
    return replace(candidate, measured_s=median(samples),
                   interval_s=summarize(samples).ci95_s)
