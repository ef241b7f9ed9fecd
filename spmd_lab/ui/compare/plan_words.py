"""The answer of several plans side by side: the fastest, how sure that is, and the cheapest."""

from collections.abc import Mapping, Sequence

from spmd_core.base import bytes_text, seconds_text
from spmd_core.machine import get_topology
from spmd_core.results import Comparison, Estimate, compare_predicted
from spmd_core.sweeps import SweepRow
from spmd_core.words import LISTED, listed, money_text, row_cost, slower_words

NONE = "–"


def ranked_rows(rows: Sequence[SweepRow]) -> tuple[SweepRow, ...]:
    """The fastest per token first; then those that do not fit, failed or cannot be."""

    def order(row: SweepRow) -> tuple[bool, float]:
        token_s = _token_s(row)
        return not (token_s and _fits(row)), token_s or 0.0

    return tuple(sorted(rows, key=order))


def grid_headline(rows: Sequence[SweepRow], prices: Mapping[str, float]) -> str:
    """Which plan is fastest per token, which may be as fast, and the cheapest where another is.
    `prices`: dollars per chip-hour, by generation; without one for each, chip-hours are compared.
    """
    fitting = [row for row in ranked_rows(rows) if _fits(row) and row.numbers.step_s]
    # a copy that nothing was changed in yet competes with nobody
    timed = list({row.point.experiment: row for row in reversed(fitting)}.values())[::-1]
    if not timed:
        return "None of these plans has a time yet." if rows else ""
    best = timed[0]
    known = "estimated" if best.is_estimated else "compiled"
    compared = _compared(timed)
    tied = compared.tied if compared else ()
    is_what = "has the lowest time" if tied else "is the fastest"
    takes = f"{seconds_text(best.numbers.step_s)} a step, {known}"
    words = [f"{best.point.label} {is_what} per token: {takes}."]
    if tied:
        others = f"{len(tied)} others" if len(tied) > LISTED else listed(tied)
        words.append(f"{others} may be as fast: the intervals overlap.")
    elif compared and compared.ratios:
        words.append(f"Next is {compared.ratios[0].strategy}, {slower_words(compared.ratios[0])}.")
    if (cheapest := _cheapest(timed, prices)) is not best:
        words.append(f"{cheapest.point.label} is the cheapest: {_cost(cheapest, prices)}.")
    if 0 < (guessed := sum(row.is_estimated for row in timed)) < len(timed):
        words.append(f"{guessed} of {len(timed)} are estimates, not compiled.")
    return " ".join(words)


def grid_row(row: SweepRow, prices: Mapping[str, float]) -> dict[str, str]:
    """The cells of a plan: time, interval, causal MFU, tokens, price and memory."""
    numbers, spent = row.numbers, row_cost(row, _price(row, prices))
    hours, money = spent.chip_hours_per_billion_tokens, spent.money_per_billion_tokens
    between = f"{seconds_text(numbers.low_s)} to {seconds_text(numbers.high_s)}"
    return {
        "Step": seconds_text(numbers.step_s) if numbers.step_s else NONE,
        "Interval": between if numbers.low_s else NONE,
        "Causal MFU": f"{row.mfu_causal:.1%}" if row.mfu_causal else NONE,
        "Tokens/s per chip": f"{numbers.tokens_per_s_per_chip:,.0f}"
        if numbers.tokens_per_s_per_chip
        else NONE,
        "Chip-hours per billion tokens": f"{hours:,.0f}" if hours else NONE,
        "Price per billion tokens": money_text(money) if money else NONE,
        "Memory": bytes_text(numbers.peak_bytes) if numbers.peak_bytes else NONE,
    }


def _price(row: SweepRow, prices: Mapping[str, float]) -> float | None:
    target = row.point.experiment.target if row.point.experiment else ""
    return prices.get(get_topology(target).chip.generation) if target else None


def _cheapest(timed: Sequence[SweepRow], prices: Mapping[str, float]) -> SweepRow:
    """By money where every row has a price, else by chip-hours."""
    costs = [row_cost(row, _price(row, prices)) for row in timed]
    money = [each.money_per_billion_tokens or 0.0 for each in costs]
    hours = [each.chip_hours_per_billion_tokens or 0.0 for each in costs]
    by = money if all(money) else hours
    return timed[by.index(min(by))]


def _cost(row: SweepRow, prices: Mapping[str, float]) -> str:
    spent = row_cost(row, _price(row, prices))
    if spent.money_per_billion_tokens:
        return f"{money_text(spent.money_per_billion_tokens)} a billion tokens"
    return f"{spent.chip_hours_per_billion_tokens or 0:,.0f} chip-hours a billion tokens"


def _fits(row: SweepRow) -> bool:
    return row.numbers.fits and row.outcome.state not in ("too large", "does not fit", "failed")


def _token_s(row: SweepRow) -> float | None:
    plan = row.point.experiment.plan if row.point.experiment else None
    return row.numbers.step_s / plan.tokens if plan and row.numbers.step_s else None


def _compared(timed: Sequence[SweepRow]) -> Comparison | None:
    """Plans beside the fastest, per token, by the intervals of those that have one."""
    times = {}
    for row in timed:
        numbers, plan = row.numbers, row.point.experiment and row.point.experiment.plan
        if plan and numbers.low_s and numbers.step_s and numbers.high_s:
            ends = numbers.low_s, numbers.step_s, numbers.high_s
            low, middle, high = (seconds / plan.tokens for seconds in ends)
            times[row.point.label] = Estimate(low=low, estimate=middle, high=high)
    return compare_predicted(times)
