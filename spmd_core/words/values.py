"""The sentence about wrong values, for screens and command line."""

from spmd_core.base import count_text, number_text
from spmd_core.results import StrategyResult, Wrong


def wrong_words(outcome: StrategyResult) -> str | None:
    """What is wrong with a strategy's values, in one sentence without its full stop; None if
    nothing is known to be wrong.
    """
    if outcome.correct is not False:
        return None
    if outcome.wrong is None:  # an older result, without judgement of each element
        return (
            f"its largest relative error {_text(outcome.max_rel_error)} is above "
            f"{_text(outcome.tolerance)}"
        )
    return _sentence(outcome.wrong, several=len(outcome.outputs) > 1)


def _sentence(wrong: Wrong, *, several: bool) -> str:
    """Such as `3.1 % of y is wrong (512 of 16,384 elements): worst at [3, 7], got 1.25,
    expected 2.5 ± 0.01`."""
    worst = wrong.worst
    at = ", ".join(map(str, worst.index))
    where = f"{worst.result}[{at}]" if at else worst.result
    if not several:
        where = f"[{at}]"
    what = "all results" if several else worst.result
    elements = "element" if wrong.of == 1 else "elements"
    place = f"worst at {where}, " if at or several else ""
    return (
        f"{_percent(wrong.share)} of {what} is wrong ({count_text(wrong.count)} of "
        f"{count_text(wrong.of)} {elements}): "
        f"{place}got {_text(worst.got)}, expected {_text(worst.expected)} ± {_text(worst.bound)}"
    )


def _percent(share: float) -> str:
    """Two digits, and never 0 or 100 % where it is not that."""
    if share < 0.001:
        return "less than 0.1 %"
    if 0.995 <= share < 1:
        return "more than 99 %"
    return f"{share * 100:.3g} %" if share >= 0.1 else f"{share * 100:.2g} %"


def _text(value: float | str | None) -> str:
    """A value with the digits that show how far it is off."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if abs(value) < 1e-3:
        return number_text(value)
    return f"{value:.6g}"
