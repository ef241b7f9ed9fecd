"""What a predicted step costs: MFU, chip-seconds, and money at a price that somebody names."""

import math
from dataclasses import dataclass

from spmd_core.base import number_text, refuse, shorten
from spmd_core.facts import Prediction
from spmd_core.machine import CHIPS, kind_of
from spmd_core.search import check_prices, read_prices

_HOUR_S, _BILLION = 3600.0, 1e9
HIGHEST_PRICE = 1e6  # dollars for an hour of a chip


@dataclass(frozen=True, slots=True)
class StepCost:
    """Of a step, and of a billion tokens where it has tokens; money in dollars, None without a
    price per chip-hour.
    """

    mfu: float | None = None
    chip_seconds: float | None = None
    chip_hours_per_billion_tokens: float | None = None
    price_per_chip_hour: float | None = None
    money_per_step: float | None = None
    money_per_billion_tokens: float | None = None

    def to_json(self) -> dict[str, float | None]:
        """What a prediction's JSON form does not have itself."""
        return {
            name: getattr(self, name)
            for name in (
                "chip_hours_per_billion_tokens",
                "price_per_chip_hour",
                "money_per_step",
                "money_per_billion_tokens",
            )
        }


def cost(
    chip_seconds: float | None,
    tokens_per_s_per_chip: float | None,
    price: float | None = None,
    mfu: float | None = None,
) -> StepCost:
    """The cost of a step of so many chip-seconds; `price` in dollars per chip-hour.

    >>> cost(7200.0, 1e9 / 3600, 2.0).money_per_step, cost(7200.0, 1e9 / 3600).money_per_step
    (4.0, None)
    """
    hours = _BILLION / tokens_per_s_per_chip / _HOUR_S if tokens_per_s_per_chip else None
    return StepCost(
        mfu,
        chip_seconds,
        hours,
        price,
        _times(chip_seconds, price and price / _HOUR_S),
        _times(hours, price),
    )


def cost_of(prediction: Prediction, price: float | None = None) -> StepCost:
    """The cost of a prediction's step; empty where there is no time."""
    return cost(prediction.chip_seconds, prediction.tokens_per_s_per_chip, price, prediction.mfu)


def _times(amount: float | None, price: float | None) -> float | None:
    return None if amount is None or price is None else amount * price


def mfu_words(mfu: float | None, causal: float | None = None) -> str:
    """Returns the MFU that is shown first, in words: that of a causal mask where it is known; "" of
    none.

    >>> mfu_words(0.486, 0.287), mfu_words(0.486)
    ('28.7% causal MFU', '48.6% MFU')
    """
    if causal is not None:
        return f"{share_text(causal)} causal MFU"
    return f"{share_text(mfu)} MFU" if mfu else ""


def share_text(share: float) -> str:
    """A share in percent, also one that one decimal would write as nothing.

    >>> share_text(0.4971), share_text(0.00004), share_text(1e-9)
    ('49.7%', '0.004%', '< 0.0001%')
    """
    if share >= 0.001:
        return f"{share:.1%}"
    if share >= 1e-6:
        return f"{100 * share:.2g}%"
    return "< 0.0001%"


def money_text(dollars: float | None) -> str:
    """Dollars: cents of a few, else three digits.

    >>> money_text(0.0123), money_text(1.9), money_text(1849.6), money_text(2.5e6)
    ('$0.0123', '$1.90', '$1,850', '$2.5 million')
    """
    if dollars is None:
        return "–"
    if 1 <= dollars < 999.5:
        return f"${dollars:.2f}"
    if dollars >= 1e6:
        return f"${number_text(dollars / 1e6)} million"
    return f"${number_text(dollars)}"


def rows(cost: StepCost, step: bool = True) -> dict[str, str]:
    """What is known of a cost, label -> value, in the order in which every table has it."""
    each = "step" if step else "execution"
    shown: list[tuple[str, float | None, str]] = [
        ("MFU", cost.mfu, f"{cost.mfu or 0:.1%}"),
        (f"Chip-seconds per {each}", cost.chip_seconds, number_text(cost.chip_seconds or 0)),
        (f"Cost per {each}", cost.money_per_step, money_text(cost.money_per_step)),
        (
            "Chip-hours per billion tokens",
            cost.chip_hours_per_billion_tokens,
            number_text(cost.chip_hours_per_billion_tokens or 0),
        ),
        (
            "Cost per billion tokens",
            cost.money_per_billion_tokens,
            money_text(cost.money_per_billion_tokens),
        ),
    ]
    return {label: text for label, value, text in shown if value is not None}


def cost_words(cost: StepCost, step: bool = True) -> str:
    """A step's cost in a line, the number first; "" where there is none.

    >>> cost_words(cost(7200.0, 1e9 / 3600, 2.0))
    '7,200 chip-seconds a step ($4.00), 1 chip-hours per billion tokens ($2.00)'
    """
    if cost.chip_seconds is None:
        return ""
    words = f"{number_text(cost.chip_seconds)} chip-seconds{' a step' if step else ''}"
    if cost.money_per_step is not None:
        words += f" ({money_text(cost.money_per_step)})"
    if (hours := cost.chip_hours_per_billion_tokens) is not None:
        words += f", {number_text(hours)} chip-hours per billion tokens"
        if cost.money_per_billion_tokens is not None:
            words += f" ({money_text(cost.money_per_billion_tokens)})"
    return words


def read_price(text: str) -> float:
    """A price in dollars per chip-hour; RequestError where it is none.

    >>> read_price("4.2")
    4.2
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= HIGHEST_PRICE:
        raise refuse(
            f"price {shorten(text)}",
            f"is not above 0 and at most {HIGHEST_PRICE:,.0f}",
            "give dollars per chip-hour, for example 4.2",
        )
    return value


def read_prices_by_kind(text: str) -> dict[str, float]:
    """Dollars per chip-hour by kind of chip: `4.2` is that of every kind; RequestError for others.

    >>> read_prices_by_kind("7x=12, h100=3"), read_prices_by_kind("4.2")["v5p"], read_prices_by_kind("")
    ({'tpu7x': 12.0, 'h100': 3.0}, 4.2, {})
    """
    if "=" not in text:
        return dict.fromkeys(CHIPS, read_price(text)) if text.strip() else {}
    given = [(kind_of(name.lower()) or name, value) for name, value in read_prices(text)]
    check_prices(given, tuple(CHIPS))
    return dict(given)
