"""The sentence about several strategies: which one is fastest, where that can be told."""

from collections.abc import Mapping, Sequence

from spmd_core.results.prediction import PROGRAM, Estimate
from spmd_core.results.result import Ratio, Result, StrategyResult
from spmd_core.results.stats import too_few
from spmd_core.units import seconds_text
from spmd_core.words.names import listed, title, titles

Group = tuple[tuple[str, ...], Estimate]  # strategies that compile to one program, and its time
PAIRED = ("Rows are in the order of the medians. The paired ratio compares the calls that "
          "strategies made side by side in each round, so that a slow stretch of the machine counts "
          "for all of them: it decides what is called slower, and can differ from the quotient of "
          "the medians.")


def measured(result: Result) -> str:
    """Which strategy is fastest and by how much, or that no difference can be told."""
    timed = {name: found for name, found in result.strategies.items()
             if found.median_s is not None and found.correct is not False}
    if not timed:
        return "No strategy was measured to the end."
    answer = result.comparison
    if answer is None and len(timed) > 1:
        return f"Too few samples to rank {_with_times(result, list(timed))}."
    fastest = answer.fastest if answer else next(iter(timed))
    takes = seconds_text(result.strategies[fastest].median_s)
    if answer is None or not answer.ratios:
        interval = result.strategies[fastest].ci95_s
        low, high = map(seconds_text, interval or (None, None))
        between = f" (95 % interval {low} to {high})" if interval else ""
        return f"{title(fastest)} takes {takes} per call{between}."
    place = {name: number for number, name in enumerate(result.order)}
    apart = [ratio for ratio in answer.ratios if ratio.differs]
    slower = min(apart, key=lambda ratio: place[ratio.strategy], default=None)
    after = f" Next is {_slower(result, slower)}." if slower else ""
    if not answer.tied:
        return f"{title(fastest)} is fastest: {takes} per call.{after}"
    few = " Too few samples: take more." if any(map(too_few, answer.ratios)) else ""
    return f"No difference between {_with_times(result, (fastest, *answer.tied))}.{few}{after}"


def predicted(result: Result) -> str:
    """Which strategy is predicted fastest, what cannot be told from it, which compile to one
    program, and which do not fit."""
    found = result.strategies
    groups = same_programs(found)
    unfit = [name for name, each in found.items() if each.prediction and not each.prediction.fits]
    absent = f"{titles(unfit)} {_do(unfit, 'does', 'do')} not fit." if unfit else ""
    if not groups:
        return absent or "No strategy was compiled to the end."
    said = [_order(groups)]
    if len(groups) > 1:
        said += [f"{titles(names)} compile to the same program."
                 for names, _ in groups if len(names) > 1]
    return " ".join([*said, *([absent] if absent else [])])


def ratio_words(ratio: Ratio) -> str:
    """A paired ratio with its interval: `2.50× (2.25 to 2.75)`."""
    low, high = ratio.interval
    return f"{_factor(ratio.ratio)}× ({_factor(low)} to {_factor(high)})"


def same_programs(found: Mapping[str, StrategyResult]) -> list[Group]:
    """Strategies with a predicted time, the fastest first; those of one program together."""
    groups: dict[str, tuple[list[str], Estimate]] = {}
    for name, each in found.items():
        if each.predicted_s is not None:
            program = each.prediction.compile.get(PROGRAM) if each.prediction else None
            group = groups.setdefault(str(program or f"of {name}"), ([], each.predicted_s))
            group[0].append(name)
    return sorted(((tuple(names), time) for names, time in groups.values()),
                  key=lambda group: group[1].estimate)


def overlap(one: Estimate, other: Estimate) -> bool:
    """Whether two predicted times are too close to tell: the estimate of one lies within the
    interval of the other."""
    return one.low <= other.estimate <= one.high or other.low <= one.estimate <= other.high


def _slower(result: Result, ratio: Ratio) -> str:
    takes = seconds_text(result.strategies[ratio.strategy].median_s)
    low, high = ratio.interval
    interval = f"95 % interval {_factor(low)} to {_factor(high)}"
    return f"{title(ratio.strategy)}: {takes}, paired ratio {_factor(ratio.ratio)}× ({interval})"


def _with_times(result: Result, names: Sequence[str]) -> str:
    return listed([f"{title(name)} ({seconds_text(result.strategies[name].median_s)})"
                   for name in names])


def _factor(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _order(groups: Sequence[Group]) -> str:
    (names, best), others = groups[0], groups[1:]
    span = f"{seconds_text(best.low)} to {seconds_text(best.high)}"
    takes = f"{seconds_text(best.estimate)} ({span})"
    if not others:
        same = "" if len(names) == 1 else " compile to the same program, which"
        return f"{titles(names)}{same} is predicted to take {takes}."
    close = [group for group in others if overlap(best, group[1])]
    apart = next((group for group in others if not overlap(best, group[1])), None)
    slower = ""
    if apart:
        time = apart[1].estimate
        factor = f"{time / best.estimate:.3g}× as long"
        slower = f" {title(apart[0][0])} takes {seconds_text(time)}, {factor}."
    if not close:
        fastest = _do(names, "is", "are")
        return f"{titles(names)} {fastest} predicted fastest: {takes}.{slower}"
    told = listed([f"{title(name)} ({seconds_text(time.estimate)})"
                   for group, time in (groups[0], *close) for name in group])
    return f"No difference between {told}: their predicted intervals overlap.{slower}"


def _do(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several
