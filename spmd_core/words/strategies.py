"""The sentence about several strategies: which one is fastest, where that can be told."""

import math
from collections.abc import Mapping, Sequence

from spmd_core.base import seconds_text
from spmd_core.results import (
    PROGRAM,
    Comparison,
    Estimate,
    Ratio,
    Result,
    StrategyResult,
    overlap,
    too_few,
)
from spmd_core.words.names import listed, title

Group = tuple[tuple[str, ...], Estimate]  # strategies that compile to one program, and its time
PAIRED_NOTE = (
    "Strategies are in the order of their medians. The paired ratio compares the calls that "
    "they made side by side in each round, so that a slow stretch of the machine counts "
    "for all of them: it decides what is called slower, and can differ from the quotient of "
    "the medians."
)
MIXED = (
    "Measured rows come first. A measured time and a predicted one are not ranked against each "
    "other: each kind has its own fastest."
)
BY_INTERVALS = (
    "The ratio is that of the estimates, with what both rows' intervals allow: a row is "
    "called slower only where they do not overlap."
)
LISTED = 3  # rows of a study that a sentence names: of more, the first and how many others


def measured(result: Result) -> str:
    """Which strategy is fastest and by how much, or that no difference can be told."""
    timed = {
        name: found
        for name, found in result.strategies.items()
        if found.median_s is not None and found.correct is not False
    }
    called = _Called(result)
    if not timed:
        return "No strategy was measured to the end."
    answer = result.comparison
    if answer is None and len(timed) > 1:
        return f"Too few samples to rank {called.with_times(result.medians_s, list(timed))}."
    fastest = answer.fastest if answer else next(iter(timed))
    takes = seconds_text(result.strategies[fastest].median_s)
    if answer is None or not answer.ratios:
        interval = result.strategies[fastest].ci95_s
        low, high = map(seconds_text, interval or (None, None))
        between = f" (95 % interval {low} to {high})" if interval else ""
        return f"{called(fastest)} takes {takes} per call{between}."
    return compared(answer, result.medians_s, called)


def compared(
    answer: Comparison, medians_s: Mapping[str, float | None], called: "_Called | None" = None
) -> str:
    """The same of a comparison of several, and their medians."""
    called = called or _Called(None)
    apart = [ratio for ratio in answer.ratios if ratio.differs]
    slower = min(apart, key=lambda ratio: medians_s[ratio.strategy] or math.inf, default=None)
    after = f" Next is {called(slower.strategy)}: {_slower(medians_s, slower)}." if slower else ""
    fastest = answer.fastest
    if not answer.tied:
        takes = seconds_text(medians_s[fastest])
        return f"{called(fastest)} is fastest: {takes} per call.{after}"
    few = " Too few samples: take more." if any(map(too_few, answer.ratios)) else ""
    tied = called.with_times(medians_s, (fastest, *answer.tied), all_tie=not apart)
    return f"No difference between {tied}.{few}{after}"


def predicted(result: Result) -> str:
    """Which strategy is predicted fastest, what cannot be told from it, which compile to one
    program, and which do not fit."""
    called = _Called(result)
    names = [
        name
        for name in result.strategies
        if not result.experiment.is_mixed or result.row(name).experiment.place.is_absent
    ]
    found = {name: result.strategies[name] for name in names}
    groups = [
        (alike, _scaled(time, result.tokens(alike[0])))
        for alike, time in same_programs(
            found, {name: result.row(name).experiment.target for name in names}
        )
    ]
    groups.sort(key=lambda group: group[1].estimate)
    unfit = [name for name, each in found.items() if each.prediction and not each.prediction.fits]
    absent = f"{called.several(unfit)} {_do(unfit, 'does', 'do')} not fit." if unfit else ""
    if not groups:
        return absent or "No strategy was compiled to the end."
    said = [_order(groups, called)]
    if len(groups) > 1:
        said += [
            f"{called.several(names)} compile to the same program."
            for names, _ in groups
            if len(names) > 1
        ]
    return " ".join([*said, *([absent] if absent else [])])


def mixed(result: Result) -> str:
    """The answer of what was measured, then that of what was predicted."""
    return f"{measured(result)} {predicted(result)}"


class _Called:
    """What the rows of a result (None: of no one run) are called in its sentences: a study's by
    their variants alone where all have one strategy.
    """

    def __init__(self, result: Result | None):
        self._result = result
        self._is_study = result is None or bool(result.experiment.variants)
        self._alone = (
            result is not None and len({row.strategy for row in result.experiment.rows}) == 1
        )

    def __call__(self, name: str) -> str:
        row = self._result.row(name) if self._result and self._alone else None
        return row.variant if row and row.variant else title(name)

    @property
    def unit(self) -> str:
        """What a predicted time is of, where it is not of a call."""
        if self._result is None or self._result.experiment.what.unit == "call":
            return ""
        per_token = any(self._result.tokens(name) > 1 for name in self._result.strategies)
        return " a token" if per_token else " a step"

    def several(self, names: Sequence[str]) -> str:
        """Several rows: of many in a study the first, and how many others."""
        return self._cut([self(name) for name in names])

    def with_times(
        self, medians_s: Mapping[str, float | None], names: Sequence[str], all_tie: bool = False
    ) -> str:
        """Several rows that were measured, with their medians."""
        return self.tied([(name, medians_s[name] or 0.0) for name in names], all_tie)

    def tied(self, timed: Sequence[tuple[str, float]], all_tie: bool) -> str:
        """Several rows with their times, the fastest first: of many in a study that one, how many
        others, and the slowest.
        """
        shown = [f"{self(name)} ({seconds_text(seconds)})" for name, seconds in timed]
        if not self._is_study or len(shown) <= LISTED:
            return listed(shown)
        slowest = max(seconds for _, seconds in timed)
        every = f"any of the {len(shown)} rows: " if all_tie else ""
        return f"{every}{self._cut(shown)}, up to {seconds_text(slowest)}"

    def _cut(self, shown: Sequence[str]) -> str:
        if not self._is_study or len(shown) <= LISTED:
            return listed(shown)
        return f"{shown[0]} and {len(shown) - 1} others"


def ratio_words(ratio: Ratio) -> str:
    """A paired ratio with its interval: `2.50× (2.25 to 2.75)`."""
    low, high = ratio.interval
    return f"{_factor(ratio.ratio)}× ({_factor(low)} to {_factor(high)})"


def verdict(ratio: Ratio) -> str:
    """That ratio, and where it tells no difference that it does not."""
    few = ", too few samples" if too_few(ratio) else ", no difference"
    return ratio_words(ratio) + ("" if ratio.differs else few)


def same_programs(
    found: Mapping[str, StrategyResult], targets: Mapping[str, str] | None = None
) -> list[Group]:
    """Strategies with a predicted time, the fastest first; those of one program on one target
    (`targets`, by strategy, where there are several) together."""
    groups: dict[str, tuple[list[str], Estimate]] = {}
    for name, each in found.items():
        if each.predicted_s is not None:
            program = each.prediction.compile.get(PROGRAM) if each.prediction else None
            key = f"{program} {(targets or {}).get(name)}" if program else f"of {name}"
            group = groups.setdefault(key, ([], each.predicted_s))
            group[0].append(name)
    return sorted(
        ((tuple(names), time) for names, time in groups.values()),
        key=lambda group: group[1].estimate,
    )


def _scaled(time: Estimate, tokens: int) -> Estimate:
    return Estimate(low=time.low / tokens, estimate=time.estimate / tokens, high=time.high / tokens)


def paired_words(ratio: Ratio) -> str:
    """A paired ratio with the name of its interval: `paired ratio 1.08× (95 % interval …)`."""
    low, high = ratio.interval
    return f"paired ratio {_factor(ratio.ratio)}× (95 % interval {_factor(low)} to {_factor(high)})"


def _slower(medians_s: Mapping[str, float | None], ratio: Ratio) -> str:
    return f"{seconds_text(medians_s[ratio.strategy])}, {paired_words(ratio)}"


def _factor(value: float) -> str:
    if value < 10:
        return f"{value:.2f}"
    if value < 100:
        return f"{value:,.1f}"
    return f"{value:,.0f}"


def _order(groups: Sequence[Group], called: _Called) -> str:
    (names, best), others = groups[0], groups[1:]
    span = f"{seconds_text(best.low)} to {seconds_text(best.high)}"
    takes = f"{seconds_text(best.estimate)}{called.unit} ({span})"
    if not others:
        same = "" if len(names) == 1 else " compile to the same program, which"
        return f"{called.several(names)}{same} is predicted to take {takes}."
    close = [group for group in others if overlap(best, group[1])]
    apart = next((group for group in others if not overlap(best, group[1])), None)
    slower = ""
    if apart:
        time = apart[1].estimate
        factor = f"{time / best.estimate:.3g}× as long"
        slower = f" {called(apart[0][0])} takes {seconds_text(time)}, {factor}."
    if not close:
        fastest = _do(names, "is", "are")
        return f"{called.several(names)} {fastest} predicted fastest: {takes}.{slower}"
    told = called.tied(
        [(name, time.estimate) for group, time in (groups[0], *close) for name in group],
        all_tie=apart is None,
    )
    return f"No difference between {told}{called.unit}: their predicted intervals overlap.{slower}"


def _do(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several
