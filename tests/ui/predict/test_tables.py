"""Predictions in words and tables."""

import pytest

from spmd_core.experiment.plans import plan_of
from spmd_core.results.prediction import Estimate, PredictedCollective, merged
from tests.ui.predictions import MODEL, TOKENS, TOO_LARGE, predicted, prediction
from ui.predict import beside, keep, tables

GATHER = PredictedCollective(kind="all-gather", axes=("fsdp",), bytes=2**20, count=10, seconds=0.01, exposed_s=0.002, route="a ring", name="a",
                             op="jit(step)/while/body/dot_general")


def plain_spaces(table):
    return {name: [cell.replace("\u00a0", " ").replace("\\", "") for cell in column] for name, column in table.items()}


def test_the_answer_says_how_long_and_what_binds():
    assert tables.headline(prediction()) == "Fits, and takes about 14.7 ms a step at 95.1% MFU; compute binds."
    assert tables.headline(prediction(), step=False).startswith("Fits, and takes about 14.7 ms at")


def test_what_does_not_fit_says_by_how_much():
    assert tables.headline(TOO_LARGE) == "Does not fit: it needs 20.0 GiB of memory per device, and there are 16.0 GiB: 4.0 GiB too much."


def test_a_run_is_answered_by_its_one_prediction_or_by_all():
    assert tables.answer(predicted()) == tables.headline(prediction())
    assert tables.answer(predicted(auto=TOO_LARGE)).startswith("Does not fit")


def test_strategies_are_compared():
    slow = prediction().model_copy(update={"predicted_s": Estimate(low=0.02, estimate=0.03, high=0.04)})
    experiment = MODEL.vary(workload="layer", dims={"batch": 256, "in": 256, "out": 256}, options={}, sharding={"in": "fsdp"},
                            strategies=["auto", "explicit", "shard_map"], dtype="bfloat16")
    found = predicted(experiment, auto=prediction(), explicit=prediction(), shard_map=slow).strategies
    assert tables.comparison(found) == "Automatic and Explicit are fastest, about 14.7 ms. shard_map takes 2.05× as long."
    table = plain_spaces(tables.strategies_table(found))
    assert table["Time"] == ["14.7 ms", "14.7 ms", "30 ms"]
    alike = predicted(experiment, auto=slow, explicit=slow).strategies
    assert tables.comparison(alike) == "Both strategies take the same, about 30 ms."
    assert tables.comparison(predicted(experiment, auto=TOO_LARGE).strategies) == "None of the strategies fits."


def test_collectives_have_their_axes_and_a_reason():
    table = plain_spaces(tables.collectives_table(prediction(), {}))
    assert table["Collective"] == ["all-gather"]
    assert table["Times"] == ["10"]
    assert table["Exposed"] == ["hidden"]
    assert table["Why"] == ["parameters are stored cut over fsdp, but a matmul needs them whole"]
    own = tables.collectives_table(prediction(), {"begin": "`x` is needed whole"})
    assert own["Why"] == ["x is needed whole"]


def test_collectives_alike_share_a_row():
    rows = merged([GATHER, GATHER.model_copy(update={"name": "b", "count": 5}), GATHER.model_copy(update={"axes": ("tensor",)})])
    assert [(each.axes, each.count) for each in rows] == [(("fsdp",), 15), (("tensor",), 10)]


def test_a_training_run_in_steps_days_and_chip_hours():
    words = tables.run_words(prediction(), plan_of(MODEL), 1e12)
    steps = 1e12 / TOKENS
    assert words is not None
    assert words.startswith(f"{steps:,.0f} steps, {steps * 0.014666667 / 3600:,.3g} hours without a stop")
    assert words.endswith(f"{256 * steps * 0.014666667 / 3600:,.0f} chip-hours on 256 chips")
    assert tables.run_words(TOO_LARGE, plan_of(MODEL), 1e12) is None


def test_a_measured_time_is_inside_or_outside():
    assert tables.measured_words(prediction(), 0.016) == "The estimate is -8.3% off your 16 ms, which is inside the interval."
    assert "outside" in (tables.measured_words(prediction(), 0.2) or "")


def test_two_predictions_side_by_side():
    half = prediction().model_copy(update={"predicted_s": Estimate(low=0.007, estimate=0.0073333333, high=0.008), "collectives": (GATHER,)})
    table = plain_spaces(beside.numbers_table(prediction(), half))
    row = table[""].index("Tokens per second and chip")
    assert table["A"][row] == "837,818"
    assert "HBM-bound operations" not in table[""]
    assert (table["A"][0], table["B"][0], table["B against A"][0]) == ("14.7 ms", "7.33 ms", "-50.0%")
    differ = beside.collectives_difference(prediction(), half)
    assert differ["Collective"] == ["all-gather over fsdp, 1.0 MiB", "all-gather over fsdp, 32.0 MiB"]
    assert differ["Times, A"] == ["0", "10"]
    assert beside.collectives_difference(half, half)["Collective"] == []


@pytest.mark.parametrize("text", ["", "-1", "0", "inf", "nan", "1e99", "<script>", "1;2"])
def test_a_hostile_number_of_a_link_is_none(text):
    assert keep.number(text, 1e6) is None
