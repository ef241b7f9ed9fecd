"""The sentence about several strategies: which one is fastest, where that is certain."""

from collections.abc import Mapping, Sequence
from typing import Literal

from spmd_core.base import agreed, numbered, seconds_text, span_text
from spmd_core.experiment import MARGIN
from spmd_core.facts import PROGRAM, Estimate, Ratio, Settles, Verdict
from spmd_core.results import (
    SPREAD_NOTICE,
    Comparison,
    Result,
    StrategyResult,
    against_baselines,
    best_rows,
    compare_rows,
    of_rows,
    predicted_verdict,
    without_baselines,
)
from spmd_core.terms import in_quotes, listed, margin_text, spoken, title
from spmd_core.words.facts import imprecise_words
from spmd_core.workloads import STRATEGIES

SIMULATED = "Simulated: a TPU may differ"
Group = tuple[tuple[str, ...], Estimate]  # strategies that compile to one program, and its time
RATIO_NOTE = (
    "The paired ratio compares calls of the same round, so that a slow stretch of the machine counts "
    "for all rows. Its interval (99%; those of times 95%) decides the verdict; it can differ from the "
    "quotient of the medians."
)
PAIRED_NOTE = (
    "Rows are in the order of their medians; a second timing of a strategy stands below it. "
    + RATIO_NOTE
)
ONE_PROCESS = (
    "Rows timed in 1 process stand last: they were so slow there that the other processes left them "
    "out. Compare them by their ratio; their times are of fewer rounds."
)
MIXED = (
    "Measured rows come first. A measured time and a predicted one are not ranked against each "
    "other: each kind has its own order."
)
BY_INTERVALS = (
    "The ratio is that of the estimates, with what both rows' intervals allow: a row is "
    "called slower only where that excludes 1."
)
_SETTLES: tuple[Settles, ...] = ("a quieter machine", "more processes", "more rounds")
_UNSETTLED: dict[Settles, str] = {
    "a quieter machine": "rounds scatter",
    "more processes": "too few processes",
    "more rounds": "too few rounds",
}
# from the quotient of two times: what a ratio beside them may be off, in sentences and in columns
_OFF = 0.03
# the ends of an interval over one another, from which on no figure between them is named, and it gives
# no information
_LOOSE, _WIDE = 2.0, 1000.0
LISTED = 3  # rows of a study that a sentence names: of more, the first and how many others


def measured(result: Result) -> str:
    """Which strategy is fastest; of a study first which variant, each by its fastest row, then
    which strategy within the best one.
    """
    return " ".join(part for part in answer_parts(result, is_brief=False) if part)


def answer_parts(
    result: Result, is_brief: bool = True, is_figured: bool = False
) -> tuple[str, str]:
    """The same in two parts: of a study the variants, and what holds within the best one (else
    ""). `is_brief`: without the evidence, which the table below a headline has. `is_figured`: below
    the name and the time of the fastest row, which it does not repeat.
    """
    best = best_rows(result) if result.experiment.variants else ()
    first = "" if is_figured else "fastest"
    if not result.comparison or not best or len(best) == len(result.strategies):
        return _measured(result, _Called(result, is_brief=is_brief, first=first)), ""
    variant = result.row(best[0]).variant
    aside = result.baselines.difference(best)
    within = of_rows(
        result,
        [
            name
            for name in result.strategies
            if result.row(name).variant == variant and name not in aside
        ],
    )
    beside = _baseline_words(result, best[0])
    called = _Called(result, is_brief=is_brief, first="the fastest variant" if beside else first)
    sentence = _measured(of_rows(without_baselines(result), best), called) + beside
    answer = within.comparison
    if not answer or not answer.ratios:
        return sentence, ""
    called = _Called(result, is_within=True, is_brief=is_brief)
    margin = result.experiment.timing.margin
    return (
        sentence,
        f"Within {in_quotes(variant)}: {compared(answer, result.medians_s, called, margin)}",
    )


def _baseline_words(result: Result, best: str) -> str:
    """How the fastest baseline beside a study's variants compares with the best of them; "" where the
    best is known to be faster, and of no baseline.
    """
    timed = {name: result.medians_s.get(name) for name in result.baselines - {best}}
    known = {name: seconds for name, seconds in timed.items() if seconds}
    name = min(known, key=lambda name: known[name], default="")
    pair = compare_rows(result, (best, name)) if name else None
    if pair is None or not pair.ratios:
        return ""
    ratio, is_first = pair.ratios[0], pair.fastest == name
    called, takes = title(result.row(name).strategy), seconds_text(result.medians_s[name])
    if ratio.verdict == "the same":
        margin = margin_text(result.experiment.timing.margin)
        return f" {called} takes the same time ({takes}), within {margin}."
    if ratio.verdict == "cannot tell":
        return f" Cannot tell whether {called} ({takes}) is {'faster' if is_first else 'slower'}."
    if not is_first:
        return ""
    quotient = pair.quotient(ratio, result.medians_s)
    factor = headline_ratio(ratio.inverse(name), "as long", 1 / quotient if quotient else None)
    return f" {called} is faster: {takes}, {factor}."


def _measured(result: Result, called: "_Called") -> str:
    """Which strategy is fastest and by how much, which take the same time, or that it is not
    known; and how imprecise the fastest is.
    """
    timed = {
        name: outcome
        for name, outcome in result.strategies.items()
        if outcome.median_s is not None and outcome.correct is not False
    }
    if not timed:
        return "No strategy was measured to the end."
    answer = result.comparison
    if answer is None and len(timed) > 1:
        return f"Too few samples to rank {called.with_times(result.medians_s, list(timed))}."
    fastest = answer.fastest if answer else next(iter(timed))
    takes = seconds_text(result.strategies[fastest].median_s)
    if answer is None or not answer.ratios:
        interval = result.strategies[fastest].ci95_s
        between = f" (95% interval {span_text(*interval)})" if interval else ""
        words = f"{called(fastest)} takes {takes} per call{between}."
    else:
        words = compared(answer, result.medians_s, called, result.experiment.timing.margin)
    loose = result.strategies[fastest].imprecise
    return f"{words} {called(fastest)} is imprecise: {imprecise_words(loose)}." if loose else words


def compared(
    answer: Comparison,
    medians_s: Mapping[str, float | None],
    called: "_Called | None" = None,
    margin: float = MARGIN,
    is_brief: bool = False,
) -> str:
    """The same of a comparison of several, and their medians; `is_brief`: without the evidence."""
    called = called or _Called(None, is_brief=is_brief)
    same, unsure, apart = (
        [each for each in answer.by_medians(medians_s) if each.verdict == verdict]
        for verdict in ("the same", "cannot tell", "faster")
    )
    slower = next(iter(apart), None)
    count = max(called.processes(answer.fastest), *(each.processes for each in answer.ratios))
    here = " in this process" if count == 1 else ""
    alike = [each.strategy for each in unsure if called.is_alike(each.strategy, answer.fastest)]
    unsure = [each for each in unsure if each.strategy not in alike]
    if called.is_brief and called.is_study and unsure:  # the table below has the others
        slower = None
    after = f" Next is {called.slower(medians_s, apart, count, answer)}." if slower else ""
    if alike and not same and not unsure:  # no difference is possible
        named = called.with_times(medians_s, [answer.fastest, *alike])
        return f"{named} compile to the same program: none of them is faster.{after}"
    after += called.same_program(
        [answer.fastest, *answer.tied, *([slower.strategy] if slower else [])]
    )
    if not answer.tied:
        takes = seconds_text(medians_s[answer.fastest])
        first = f"{called(answer.fastest)} is {called.first}{here}: {takes} per call."
        return f"{first if called.first else ''}{after}".strip()
    parts = []
    if same:
        best = [answer.fastest, *(each.strategy for each in same)]
        named = called.with_times(medians_s, best, all_tie=not (unsure or apart))
        parts.append(f"{named} take the same time{here}, within {margin_text(margin)}.")
    if unsure:
        question = _question(answer.fastest, unsure, medians_s, called, bool(same), here)
        parts.append(f"Cannot tell {question}{_unsure_words(unsure, called.is_brief)}.")
    return " ".join(parts) + after


def _question(
    fastest: str,
    unsure: Sequence[Ratio],
    medians_s: Mapping[str, float | None],
    called: "_Called",
    is_tied: bool,
    here: str,
) -> str:
    """What is not certain: which is fastest, or beside rows that tie whether the others are
    slower.
    """
    others = [each.strategy for each in unsure]
    if not is_tied:
        return f"{called.which(medians_s, [fastest, *others])}{here}"
    verb = agreed(len(others), "is")
    return f"whether {called.with_times(medians_s, others)} {verb} slower"


def _unsure_words(unsure: Sequence[Ratio], is_brief: bool) -> str:
    """The intervals of ratios whose verdict is open, and what would settle that."""
    settles = {each.settles for each in unsure}
    needed = next((f"; {each} might settle it" for each in _SETTLES if each in settles), "")
    if is_brief:  # the badge beside it has the reason
        return ""
    if len(unsure) == 1:
        interval = paired_words(unsure[0])
    else:
        low = min(each.interval[0] for each in unsure)
        high = max(each.interval[1] for each in unsure)
        interval = f"intervals of the paired ratios {ends_text((low, high))}"
    return f": {interval}{needed}"


def predicted(result: Result) -> str:
    """Which strategy is predicted fastest, what may be as fast, which compile to one
    program, and which do not fit."""
    called, groups = _Called(result), _predicted_groups(result)
    outcomes = _predicted_rows(result)
    unfit = [
        name for name, each in outcomes.items() if each.prediction and not each.prediction.fits
    ]
    absent = f"{called.several(unfit)} {_do(unfit, 'does', 'do')} not fit." if unfit else ""
    if not groups:
        return absent or "No strategy was compiled to the end."
    sentences = [_order(groups, called)]
    if len(groups) > 1:
        sentences += [
            f"{called.several(names)} compile to the same program."
            for names, _ in groups
            if len(names) > 1
        ]
    return " ".join([*sentences, *([absent] if absent else [])])


def _predicted_rows(result: Result) -> dict[str, StrategyResult]:
    """Returns the rows that are predicted, of a study of both kinds those on absent targets."""
    return {
        name: each
        for name, each in result.strategies.items()
        if not result.experiment.is_mixed or result.row(name).experiment.place.is_absent
    }


def _predicted_groups(result: Result) -> list[Group]:
    """Returns the rows that compile to one program, and their predicted time per token or call, the
    fastest first; of a study the best row of each variant.
    """
    best = best_rows(result) if result.experiment.variants else ()
    rows = _predicted_rows(result)
    ranked = {name: each for name, each in rows.items() if not best or name in best}
    groups = [
        (alike, Estimate(**{end: s / result.tokens(alike[0]) for end, s in time}))
        for alike, time in same_programs(
            ranked, {name: result.row(name).experiment.target for name in rows}
        )
    ]
    return sorted(groups, key=lambda group: group[1].estimate)


def mixed(result: Result) -> str:
    """The answer of what was measured, then that of what was predicted."""
    return f"{measured(result)} {predicted(result)}"


class _Called:
    """What the rows of a result (None: of no one run) are called in its sentences: a study's by
    their variants alone where all have one strategy, by their strategies alone within a variant.
    """

    def __init__(
        self,
        result: Result | None,
        is_within: bool = False,
        is_brief: bool = False,
        first: str = "fastest",
    ):
        self._result, self._is_within, self.is_brief = result, is_within, is_brief
        self.first = first
        self.is_study = result is None or bool(result.experiment.variants)

    def __call__(self, name: str) -> str:
        row = self._result.row(name) if self._result else None
        if row and row.variant and self._is_within:
            return title(row.strategy)
        return spoken(name, self._result)

    @property
    def unit(self) -> str:
        """What a predicted time is of, where it is not of a call."""
        if self._result is None or self._result.experiment.what.unit == "call":
            return ""
        per_token = any(self._result.tokens(name) > 1 for name in self._result.strategies)
        return " a token" if per_token else " a step"

    def slower(
        self,
        medians_s: Mapping[str, float | None],
        slower: Sequence[Ratio],
        processes: int,
        answer: Comparison,
    ) -> str:
        """The first of the slower rows, its time and its ratio, and which may be as fast as it; the
        ratio alone of what further processes left out.
        """
        ratio, near = slower[0], self._near(slower)
        name = self(ratio.strategy)
        if self.is_brief:
            quotient = answer.quotient(ratio, medians_s)
            return f"{name}, {headline_ratio(ratio, 'as long', quotient)}{near}"
        if ratio.processes == 1 < processes:
            return f"{name}, timed in 1 process: {paired_words(ratio)}{near}"
        return f"{name}: {seconds_text(medians_s[ratio.strategy])}, {paired_words(ratio)}{near}"

    def _near(self, slower: Sequence[Ratio]) -> str:
        """That rows after the next, the first of these, may be as fast as it; "" of none."""
        near = [each for each in slower[1:] if each.interval[0] <= slower[0].interval[1]]
        if not near:
            return ""
        others = self(near[0].strategy) if len(near) == 1 else f"{len(near)} others"
        return f"; {others} may be as fast as it"

    def processes(self, name: str) -> int:
        """In how many a row was timed, as far as is known."""
        return self._result.strategies[name].processes if self._result else 1

    def is_alike(self, one: str, other: str) -> bool:
        """Whether two rows are known to be compiled to the same program."""
        return is_same_program(self._result, one, other)

    def same_program(self, names: Sequence[str]) -> str:
        """That some of these rows were compiled to the same program as the first; "" if none was."""
        alike = [name for name in names if is_same_program(self._result, name, names[0])]
        return f" {self.several(alike)} compile to the same program." if len(alike) > 1 else ""

    def several(self, names: Sequence[str]) -> str:
        """Several rows: of many in a study the first, and how many others."""
        return self._shortened([self(name) for name in names])

    def with_times(
        self,
        medians_s: Mapping[str, float | None],
        names: Sequence[str],
        all_tie: bool = False,
        last: str = "and",
    ) -> str:
        """Several rows that were measured, with their medians."""
        return self.tied([(name, medians_s[name] or 0.0) for name in names], all_tie, last)

    def which(self, medians_s: Mapping[str, float | None], names: Sequence[str]) -> str:
        """The question of which row is fastest: `whether A (1 ms) or B (2 ms) is faster`."""
        if len(names) == 2:
            return f"whether {self.with_times(medians_s, names, last='or')} is faster"
        return f"which of {self.with_times(medians_s, names)} is fastest"

    def tied(
        self, timed: Sequence[tuple[str, float]], all_tie: bool = False, last: str = "and"
    ) -> str:
        """Several rows with their times, the fastest first: of many in a study that one, how many
        others, and the slowest.
        """
        shown = [f"{self(name)} ({seconds_text(seconds)})" for name, seconds in timed]
        if not self.is_study or len(shown) <= LISTED:
            return listed(shown, last)
        slowest = max(seconds for _, seconds in timed)
        every = f"any of the {len(shown)} rows: " if all_tie else ""
        return f"{every}{self._shortened(shown)} (up to {seconds_text(slowest)})"

    def _shortened(self, shown: Sequence[str]) -> str:
        if not self.is_study or len(shown) <= LISTED:
            return listed(shown)
        return f"{shown[0]} and {len(shown) - 1} others"


def ratio_words(ratio: Ratio, quotient: float | None = None) -> str:
    """Returns a paired ratio with its interval: `2.50× (2.25 to 2.75)`; where the `quotient` of two
    times beside it is another number, that one: `about 2.60× (1.80 to 2.75)`, and the interval alone
    where the interval excludes it or is wide: `1.80 to 2.75×`.
    """
    return _factor_words(ratio, quotient, "×")


def _factor_words(ratio: Ratio, quotient: float | None, what: str) -> str:
    ends = _ends(ratio, quotient)
    if quotient and _is_apart(ratio, quotient) and not _is_wide(ends):
        if not _is_held(ratio, quotient):
            return f"{ends_text(ends)}{what}"
        return factor_with_ends(quotient, ends, what, "about ")
    return factor_with_ends(ratio.ratio, ends, what)


def factor_with_ends(
    factor: float, ends: tuple[float, float], what: str = "×", about: str = ""
) -> str:
    """Returns a factor with the ends of its interval: `2.50× (2.25 to 2.75)`; the ends alone where one
    is more than twice the other.
    """
    if _is_loose(ends) and not _is_wide(ends):
        return f"{ends_text(ends)}{what}"
    return f"{about}{factor_text(factor)}{what} ({ends_text(ends)})"


def _is_held(ratio: Ratio, quotient: float) -> bool:
    """Returns True if a ratio's interval has the quotient of two times, on the same side of 1."""
    low, high = ratio.interval
    return low <= quotient <= high and (quotient > 1) is (ratio.ratio > 1)


def _is_apart(ratio: Ratio, quotient: float | None) -> bool:
    """Returns True if a reader who divides the two times gets another number than the ratio."""
    return quotient is not None and abs(quotient / ratio.ratio - 1) > _OFF


def _ends(ratio: Ratio, quotient: float | None) -> tuple[float, float]:
    """Returns a ratio's interval, with the `quotient` inside where that is another number."""
    if quotient is None or not _is_apart(ratio, quotient):
        return ratio.interval
    return min(*ratio.interval, quotient), max(*ratio.interval, quotient)


def headline_ratio(ratio: Ratio, what: str, quotient: float | None = None) -> str:
    """Returns the same in a sentence: `2.50× as long (2.25 to 2.75)`; where its digits are not those
    of the `quotient` of two times beside it, `paired ratio 2.48× (2.25 to 2.75)`; where that is more
    than 3 % off, it: `about 2.60× as long (1.80 to 2.75)`, if the interval has it, else that alone.
    """
    factor = factor_text(ratio.ratio)
    is_exact = not _is_apart(ratio, quotient)
    is_other = is_exact and factor != factor_text(quotient or ratio.ratio)
    if what == "as long" and is_other and not _is_loose(ratio.interval):
        return f"paired ratio {ratio_words(ratio)}"
    return _factor_words(ratio, quotient, f"× {what}")


def first_words(answer: Comparison, is_measured: bool, name_kind: bool = False) -> str:
    """What the first row of a comparison is: the fastest only where every other is proven slower.
    `name_kind`: where rows of both kinds stand in one table.
    """
    if answer.tied:
        return "lowest median" if is_measured else "lowest estimate"
    kind = "measured" if is_measured else "predicted"
    return f"fastest {kind}" if name_kind else "fastest"


def against_words(ratio: Ratio, quotient: float | None = None) -> str:
    """That ratio to the first row; its verdict, and why it is open, where the first is not faster."""
    words = ratio_words(ratio, quotient)
    if ratio.differs:
        return words
    why = f": {_UNSETTLED[ratio.settles]}" if ratio.settles else ""
    return f"{words}, {ratio.verdict}{why}"


def compared_first(result: Result) -> Comparison | None:
    """Returns the comparison that a headline is of: of a study its variants, each by its best row,
    unless a baseline is faster; without rows of the fastest one's program, of which none is faster,
    whatever was measured.
    """
    if result.experiment.variants and not against_baselines(result):
        result = of_rows(result, best_rows(result))
    if (answer := result.comparison) is None:
        return None
    apart = (
        each.strategy
        for each in answer.ratios
        if each.differs or not is_same_program(result, each.strategy, answer.fastest)
    )
    return of_rows(result, (answer.fastest, *apart)).comparison


def short_verdict(result: Result) -> str:
    """Returns how rows compare in a few words: `Cannot tell`, `the same`, `shard_map is 2.50× faster
    than Automatic (2.25 to 2.75)`. The ratio is that of the headline: of the next row by medians.
    """
    answer, medians_s = compared_first(result), result.medians_s
    if answer is None or unsettled_words(answer) is not None:
        return "Cannot tell"
    if not answer.ratios or not all(each.differs for each in answer.ratios):
        return "the same"
    next_ = answer.by_medians(medians_s)[0]
    # of a study the names are long, and in its own table
    than = "" if "/" in answer.fastest else f" than {spoken(next_.strategy)}"
    factor = headline_ratio(next_, f"faster{than}", answer.quotient(next_, medians_s))
    return f"{spoken(answer.fastest, result)} is {factor}"


def short_predicted(result: Result) -> tuple[str, str] | None:
    """Returns which row is predicted fastest in a few words, and how long the next one takes; None
    where fewer than two are predicted.
    """
    groups, called = _predicted_groups(result), _Called(result)
    if sum(len(names) for names, _ in groups) < 2:
        return None
    (names, best), others = groups[0], groups[1:]
    if not others:
        return "Same program", "predicted once"
    verdicts = [predicted_verdict(time, best) for _, time in others]
    if "cannot tell" in verdicts:
        return "Cannot tell", "which is fastest: predicted intervals overlap"
    if "faster" not in verdicts:
        return "Same time", "as predicted"
    (name, *_), time = others[verdicts.index("faster")]
    verb = _do(names, "is", "are")
    factor = _as_long(time.estimate / best.estimate)
    return f"{called.several(names)} {verb} predicted fastest", f"{called(name)} takes {factor}"


def _as_long(ratio: float) -> str:
    return f"{ratio:.3g}× as long"


def sides_words(result: Result) -> str:
    """Returns the two rows that a verdict is of with their times: `rows 10.9 ms, cols 11.2 ms`; ""
    where there are not two.
    """
    if (answer := compared_first(result)) is None or not answer.ratios:
        return ""
    next_ = answer.by_medians(result.medians_s)[0].strategy
    times = ((name, result.medians_s.get(name)) for name in (answer.fastest, next_))
    return ", ".join(f"{spoken(name, result)} {seconds_text(time)}" for name, time in times if time)


def _against_one_device(result: Result) -> tuple[Comparison, Ratio, bool] | None:
    """Returns the comparison, in it the ratio of the best sharded row and one device, and whether
    sharding is ahead.
    """
    answer = None if result.experiment.variants else result.comparison
    if answer is None:
        return None
    alone = {
        name for name in result.strategies if STRATEGIES[result.row(name).strategy].is_single_device
    }
    is_won = answer.fastest not in alone
    across = (
        each for each in answer.by_medians(result.medians_s) if is_won == (each.strategy in alone)
    )
    return next(((answer, each, is_won) for each in across), None)


def sharded_and_alone_s(result: Result) -> tuple[float, float] | None:
    """Returns the medians of the best sharded row and of one device; None where these were not
    compared, and of a study.
    """
    if (compared := _against_one_device(result)) is None:
        return None
    answer, ratio, is_won = compared
    ahead, behind = (result.medians_s[name] for name in (answer.fastest, ratio.strategy))
    if ahead is None or behind is None:
        return None
    return (ahead, behind) if is_won else (behind, ahead)


# whether sharding helped, in words
SHARDING = {
    "faster": "Sharding helped",
    "slower": "Sharding lost",
    "the same": "Same time",
    "too small": "Too small to shard",
    "cannot tell": "Cannot tell",
}


def sharding_verdict(
    result: Result,
) -> tuple[Verdict | Literal["slower", "too small"], str] | None:
    """Returns whether the best sharded row is faster than one device, and by how much in words; too
    small where dispatch is most of a sharded call. None where they were not compared, and of a
    study.
    """
    if (compared := _against_one_device(result)) is None:
        return None
    answer, ratio, is_won = compared
    if ratio.verdict == "cannot tell":
        reason = f": {_UNSETTLED[ratio.settles]}" if ratio.settles else ""
        return "cannot tell", f"whether sharding helps{reason}"
    if ratio.verdict == "the same":
        return "the same", f"within {margin_text(result.experiment.timing.margin)} of one device"
    judged = "faster" if is_won else "slower"
    words = headline_ratio(ratio, judged, answer.quotient(ratio, result.medians_s))
    floor = result.environment.dispatch_floor_s or 0.0
    is_small = (result.medians_s[answer.fastest] or floor) < floor or is_dispatch_bound(result)
    return "too small" if is_small and not is_won else judged, words


def is_dispatch_bound(result: Result) -> bool:
    """Returns True if dispatch is most of a call of each sharded row that was timed."""
    timed = [
        outcome
        for name, outcome in result.strategies.items()
        if outcome.median_s and not STRATEGIES[result.row(name).strategy].is_single_device
    ]
    return bool(timed) and all(each.is_dispatch_bound for each in timed)


def unsettled_words(answer: Comparison) -> str | None:
    """Returns why the first row is not known to be the fastest, "" where that is not known either;
    None where no verdict is open.
    """
    open_ratios = [each for each in answer.ratios if each.verdict == "cannot tell"]
    settles = {each.settles for each in open_ratios}
    reasons = (_UNSETTLED[each] for each in _SETTLES if each in settles)
    return next(reasons, "") if open_ratios else None


def caveats(result: Result) -> list[str]:
    """Returns what stands beside a verdict: that its devices are simulated, that a row scatters."""
    simulated = [SIMULATED] if result.environment.simulated else []
    return [*simulated, *filter(None, [noise_words(result)])]


def noise_words(result: Result) -> str:
    """Returns which rows of a verdict's two scatter, and by how much; "" where neither does."""
    if (answer := compared_first(result)) is None or not answer.ratios:
        return ""
    next_ = answer.by_medians(result.medians_s)[0].strategy
    spreads = {name: result.strategies[name].spread or 0.0 for name in (answer.fastest, next_)}
    noisy = [name for name, spread in spreads.items() if spread > SPREAD_NOTICE]
    each = (f"{spoken(name, result)} varies by {spreads[name]:.0%}" for name in noisy)
    return f"Noisy: {', '.join(each)}" * bool(noisy)


def is_same_program(result: Result | None, one: str, other: str) -> bool:
    """Whether two rows are one, or were compiled to the same program."""
    if result is None or one == other:
        return one == other
    first, second = (result.strategies[name].same_program or name for name in (one, other))
    return first == second


def same_programs(
    outcomes: Mapping[str, StrategyResult], targets: Mapping[str, str] | None = None
) -> list[Group]:
    """Strategies with a predicted time, the fastest first; those of one program on one target
    (`targets`, by strategy, where there are several) together."""
    groups: dict[str, tuple[list[str], Estimate]] = {}
    for name, each in outcomes.items():
        if each.predicted_s is not None:
            program = each.prediction.compile.get(PROGRAM) if each.prediction else None
            key = f"{program} {(targets or {}).get(name)}" if program else f"of {name}"
            group = groups.setdefault(key, ([], each.predicted_s))
            group[0].append(name)
    return sorted(
        ((tuple(names), time) for names, time in groups.values()),
        key=lambda group: group[1].estimate,
    )


def paired_words(ratio: Ratio, quotient: float | None = None) -> str:
    """A paired ratio with its interval, and what it is of: `paired ratio 1.08× (99% interval 1.05
    to 1.10, 60 rounds in 3 processes)`; where the `quotient` of two times beside it is more than 3 %
    off, that one, or the interval alone, as `ratio_words` has them.
    """
    share = "95" if ratio.rounds is None else "99"  # before there were three verdicts
    of = f", {rounds_words(ratio)}" if ratio.rounds else ""
    low, high = ends = _ends(ratio, quotient)
    if quotient and _is_apart(ratio, quotient) and not _is_wide(ends):
        if _is_held(ratio, quotient):
            return f"about {factor_text(quotient)}× ({share}% interval {ends_text(ends)}{of})"
        return f"{factor_text(low)} to {factor_text(high)}× ({share}% interval{of})"
    return f"paired ratio {factor_text(ratio.ratio)}× ({share}% interval {ends_text(ends)}{of})"


def ends_text(interval: tuple[float, float]) -> str:
    """The ends of a ratio's interval; of two processes they may be anywhere."""
    low, high = interval
    return "too wide to use" if _is_wide(interval) else f"{factor_text(low)} to {factor_text(high)}"


def _is_loose(interval: tuple[float, float]) -> bool:
    low, high = interval
    return high > _LOOSE * low


def _is_wide(interval: tuple[float, float]) -> bool:
    low, high = interval
    return high > _WIDE * low


def near_words(ratio: Ratio) -> str:
    """What takes the same time as the winner, or may: the verdict, and the ratio."""
    same = ratio.verdict == "the same"
    judged = "the same time as the winner's" if same else "cannot tell whether it is slower"
    return f"{judged}: {paired_words(ratio)}"


def evidence_words(result: Result) -> str | None:
    """What the ratios of an answer are of, for the line below its headline; None without any."""
    ratios = [
        each for each in (result.comparison.ratios if result.comparison else ()) if each.rounds
    ]
    if not ratios:
        return None
    processes = max(each.processes for each in ratios)
    counts = sorted(each.rounds or 0 for each in ratios if each.processes == processes)
    few = f"{counts[0]} to " if counts[0] != counts[-1] else ""
    most = max(ratios, key=lambda each: (each.processes, each.rounds or 0))
    planned = result.experiment.timing.samples
    is_early = result.is_settled and processes == 1
    early = f", of {planned} planned: every verdict was settled" if is_early else ""
    return f"ratios with 99% intervals, {few}{rounds_words(most)}{early}"


def rounds_words(ratio: Ratio) -> str:
    """How many rounds a ratio is of, and in how many processes."""
    several = f" in {numbered(ratio.processes, 'process')}" if ratio.processes > 1 else ""
    return f"{numbered(ratio.rounds or 0, 'round')}{several}"


def timed_in(result: Result, name: str) -> str:
    """`, in 1 process` of a row that was timed in fewer processes than others; else ""."""
    own, most = result.strategies[name], max(each.processes for each in result.strategies.values())
    is_less = own.median_s is not None and own.processes < most
    return f", in {numbered(own.processes, 'process')}" if is_less else ""


def factor_text(value: float) -> str:
    """A ratio in three digits, without the sign."""
    if value < 0.1:
        return f"{value:.2g}"
    if value < 10:
        return f"{value:.2f}"
    if value < 100:
        return f"{value:,.1f}"
    return f"{value:,.0f}"


def _order(groups: Sequence[Group], called: _Called) -> str:
    (names, best), others = groups[0], groups[1:]
    span = span_text(best.low, best.high)
    takes = f"{seconds_text(best.estimate)}{called.unit} ({span})"
    if not others:
        same = "" if len(names) == 1 else " compile to the same program, which"
        return f"{called.several(names)}{same} is predicted to take {takes}."
    verdicts = [predicted_verdict(time, best) for _, time in others]
    close = [group for group, each in zip(others, verdicts, strict=True) if each != "faster"]
    apart = next((group for group in others if group not in close), None)
    slower = ""
    if apart:
        time = apart[1].estimate
        factor = _as_long(time / best.estimate)
        slower = f" {called(apart[0][0])} takes {seconds_text(time)}, {factor}."
    if not close:
        fastest = _do(names, "is", "are")
        return f"{called.several(names)} {fastest} predicted fastest: {takes}.{slower}"
    timed = [(name, time.estimate) for group, time in (groups[0], *close) for name in group]
    if "cannot tell" not in verdicts:
        named = called.tied(timed, all_tie=apart is None)
        return f"{named}{called.unit} are predicted to take the same time.{slower}"
    question = called.which(dict(timed), [name for name, _ in timed])
    return f"Cannot tell {question}{called.unit}: their predicted intervals overlap.{slower}"


def _do(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several
