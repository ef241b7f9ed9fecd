"""What a step costs: chip-seconds, and money at a price, in words, tables and JSON."""

import pytest

from spmd_core.answers import strategies_table
from spmd_core.base import RequestError
from spmd_core.terms.costs import StepCost, cost, cost_of, cost_words, money_text, read_price, rows
from spmd_lab.ui.predict.beside import numbers_table
from tests.answers import records
from tests.ui.predictions import TOO_LARGE, predicted, prediction


def test_money_is_the_price_of_the_chips_time():
    found = prediction()
    spent = cost_of(found, 3.6)
    assert found.chip_seconds and found.tokens_per_s_per_chip
    assert spent.money_per_step == pytest.approx(found.chip_seconds * 0.001)
    hours = 1e9 / found.tokens_per_s_per_chip / 3600
    assert spent.chip_hours_per_billion_tokens == pytest.approx(hours)
    assert spent.money_per_billion_tokens == pytest.approx(3.6 * hours)
    assert set(spent.to_json()) == {
        "chip_hours_per_billion_tokens",
        "price_per_chip_hour",
        "money_per_step",
        "money_per_billion_tokens",
    }


def test_without_a_price_nothing_is_said_of_money():
    spent = cost_of(prediction())
    assert spent.money_per_step is None and "$" not in cost_words(spent)
    assert list(rows(spent)) == ["MFU", "Chip-seconds per step", "Chip-hours per billion tokens"]
    assert cost_words(cost_of(TOO_LARGE, 2.0)) == "" and rows(StepCost()) == {}
    assert list(rows(cost(10.0, None, 2.0), step=False)) == [
        "Chip-seconds per execution",
        "Cost per execution",
    ]


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "1e9", "four", "1" * 5000])
def test_what_is_no_price_is_refused_in_one_sentence(text):
    with pytest.raises(RequestError, match="give dollars per chip-hour") as error:
        read_price(text)
    assert len(str(error.value)) < 200


def test_costs_stand_beside_one_another():
    two = prediction(10**15)
    table = numbers_table(prediction(), two, (3.6, 3.6))
    assert {"MFU", "Chip-seconds", "Cost", "Cost per billion tokens"} <= set(table[""])
    shown = table["A"][table[""].index("Cost")].replace("\\", "")  # of Markdown
    assert shown.replace("\u00a0", " ") == money_text(cost_of(prediction(), 3.6).money_per_step)
    fitting, too_large = (
        records(strategies_table(predicted(**each), "screen", 3.6))[0]
        for each in ({}, {"auto": TOO_LARGE})
    )
    assert fitting["MFU"] == f"{prediction().mfu:.1%}" and fitting["Cost"].startswith("$")
    assert too_large["Time"] == "does not fit" and "MFU" not in too_large
