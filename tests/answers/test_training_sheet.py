"""The answer of a training run in words, by value."""

from dataclasses import replace
from itertools import pairwise

import pytest

from spmd_core.answers import (
    batch_words,
    devices_words,
    five_figures,
    range_words,
    trade_table,
    training_headline,
    training_table,
    training_tables,
    tried_words,
    unpriced_words,
)
from spmd_core.base import bytes_text, number_text
from spmd_core.commands.printed.predict_lines import training_json
from spmd_core.facts import Estimate
from spmd_core.sweeps import TrainingAnswer, TrainingQuestion, least_chip_days, train
from spmd_core.terms import chip_title, money_text
from spmd_core.words import tokens_text

FORM = {"model": "llama-3.1-8b", "sequence": 8192}
KINDS = ("v5e", "v5p")
PRICE = (("v5e", 1.2), ("v5p", 8.4))


def asked(**given):
    return train(TrainingQuestion(FORM, 1e12, 512, KINDS, **given))


def test_the_sheet_has_each_number_of_its_row():
    answer = asked(days=30, price=PRICE)
    table, rows = training_table(answer), answer.ordered
    for name, of in {
        "Chips": lambda row: row.plan.topology.chips,
        "Days": lambda row: row.run.days.estimate,
        "Dollars": lambda row: row.run.money,
        "$ a chip-hour": lambda row: row.price,
        "Causal MFU": lambda row: row.step.mfu_causal,
        "Memory": lambda row: row.step.memory_bytes.peak,
    }.items():
        assert [cell.value for cell in table.column(name)] == [of(row) for row in rows]
    marks = [cell.text for cell in table.column("Verdict")]
    assert rows[0] is answer.best and marks[0] == "cheapest" and marks.count("cheapest") == 1
    for row, mark in zip(rows[1:], marks[1:], strict=True):
        more = row.run.money / answer.best.run.money
        assert mark == f"{number_text(more)}× the dollars"
    large = train(TrainingQuestion(FORM | {"model": "llama-3.1-70b"}, 1e12, 512, KINDS, chips=64))
    marks = training_table(large).column("Verdict")
    held = large.ordered[1].step.memory_bytes
    assert held.peak > held.capacity
    needs = f"does not fit: {bytes_text(held.peak)} of {bytes_text(held.capacity)} per device"
    assert [cell.text for cell in marks] == ["fastest", needs]
    assert answer.even == () and training_json(answer)["about_even"] == []


def test_the_headline_of_a_number_of_chips_names_the_cheapest_of_those_with_prices():
    answer = asked(chips=256, price=PRICE)
    cheapest = min(answer.rows, key=lambda row: row.run.money)
    assert cheapest is not answer.best, "else the fastest is the cheapest"
    words = f"; {cheapest.kind} is cheapest, {money_text(cheapest.run.money)}."
    assert training_headline(answer).endswith(words)
    assert len(training_headline(answer).split()) <= 20
    assert "cheapest" not in training_headline(asked(chips=256, price=PRICE[:1]))


def test_tokens_of_a_step_are_in_the_table_where_they_differ():
    assert "Tokens a step" not in training_table(asked(chips=256)).columns
    answer = train(TrainingQuestion(FORM, 1e12, 512, ("v5p", "h100"), chips=48))
    steps = {cell.text for cell in training_table(answer).column("Tokens a step")}
    assert steps == {f"{number_text(row.plan.tokens / 1e6)}M" for row in answer.rows}
    assert len(steps) == 2


@pytest.mark.parametrize("given", [{"days": 30}, {"chips": 256}, {"days": 30, "price": PRICE}])
def test_a_row_that_needs_as_much_as_the_best_has_no_multiple_of_one(given):
    answer = asked(**given)
    other = next(kind for kind in KINDS if kind != answer.best.kind)
    run = answer.best.run
    days = run.days.model_copy(update={"low": run.days.estimate, "high": run.days.estimate})
    run = run.model_copy(update={"days": days})
    later = days.model_copy(update=dict.fromkeys(("low", "estimate", "high"), 1.002 * days.low))
    paid = run.money and 1.002 * run.money
    twin = replace(
        answer.best, kind=other, run=run.model_copy(update={"days": later, "money": paid})
    )
    both = TrainingAnswer(answer.question, (replace(answer.best, run=run), twin))
    word = {"chips": "as few", "days": "as fast", "dollars": "as cheap"}[both.by]
    assert [cell.text for cell in training_table(both).column("Verdict")][1] == word


def test_kinds_on_other_numbers_of_chips_and_refused_kinds_are_named_below_the_table():
    form = FORM | {"schedule": "gpipe"}
    answer = train(TrainingQuestion(form, 1e12, 512, ("v5p", "h100"), chips=100))
    verdicts = [cell.text for cell in training_table(answer).column("Verdict")]
    assert max(map(len, verdicts)) < 80 and "no mesh of gpu:h100:25x4 works" in verdicts[1]
    words = tried_words(answer)
    assert words.startswith("Compared: ") and ", 512 sequences of " in words
    assert "100 chips form no slice of v5p." in words and "H100: use other chips" in words
    assert "form no slice" not in tried_words(asked(chips=256))


@pytest.mark.parametrize("kinds", [("tpu7x", "b200"), ("tpu7x", "v5p")])
def test_kinds_whose_published_steps_took_longer_are_not_even_with_others(kinds):
    answer = train(TrainingQuestion(FORM, 1e12, 512, kinds, chips=256))
    words = range_words((chip_title(row.kind), row.step) for row in answer.rows)
    is_of_b200 = "b200" in kinds
    assert ("cannot tell which of" in training_headline(answer)) is is_of_b200
    assert ("Far ends of B200: each of 2 published steps" in words) is is_of_b200
    marks = [cell.text for cell in training_table(answer).column("Verdict")]
    assert not is_of_b200 or all(each.startswith("cannot tell") for each in marks)


@pytest.mark.parametrize("given", [{"chips": 256}, {"days": 30.0}])
def test_which_numbers_of_chips_are_tried_is_named_where_some_are(given):
    assert ("Numbers of chips: powers of two" in tried_words(asked(**given))) is ("days" in given)


def test_the_headline_names_the_best_or_what_is_missed():
    answer = asked(days=30)
    best = answer.best
    assert training_headline(answer) == (
        f"Fewest within 30 days: {best.plan.topology.chips} v5p, "
        f"{number_text(best.run.days.estimate)} days, 4,194,304 tokens a step."
    )
    assert training_headline(asked(days=0.01)).startswith("Nothing keeps 14.4 minutes") is False
    missed = training_headline(asked(days=0.01))
    assert missed.startswith(
        "Nothing up to 16,384 chips keeps 0.01 days at 4,194,304 tokens a step: the fastest is"
    )
    assert training_headline(asked(chips=256)).startswith("Of 256 chips each, v5p is fastest")
    alone = replace(asked(chips=256), rows=asked(chips=256).rows[:1])
    assert "fastest" not in training_headline(alone)  # nothing was compared
    for given in ({"days": 30}, {"chips": 256}, {"days": 0.01}, {"budget": 1e6, "price": PRICE}):
        assert len(training_headline(asked(**given)).split()) <= 20


@pytest.mark.parametrize("share", [0.1, 0.9, 1.1])
def test_a_budget_below_the_cost_at_the_peak_is_of_no_number_of_chips(share):
    prices = dict(PRICE)
    rows = asked(chips=256, price=PRICE).rows
    least = min(
        24 * prices[row.kind] * least_chip_days(row.plan, 1e12)
        for row in rows
        if row.kind in prices
    )
    words = training_headline(asked(budget=share * least, price=PRICE))
    peak = f", even at 100% MFU ({money_text(least)}): the cheapest is "
    assert (peak in words) is (share < 1) and words.startswith("Nothing")
    assert ("up to" in words) is (share > 1) and len(words.split()) <= 25


@pytest.mark.parametrize(("times", "mark"), [(1.1, "about even"), (4, "cannot tell")])
@pytest.mark.parametrize("given", [{"chips": 256}, {"days": 30, "price": PRICE}])
def test_kinds_whose_intervals_meet_have_no_order(given, times, mark):
    """The same two rows, once with intervals that meet and once with such that do not; estimates
    that are far apart are not called even."""
    answer = asked(**given)
    best, other = sorted((row for row in answer.rows), key=lambda row: row is not answer.best)
    least, money = best.run.days.estimate, best.run.money
    days = Estimate(low=1.05 * least, estimate=times * least, high=1e9)
    changes = {"days": days, "money": money and times * money}
    near = replace(other, run=other.run.model_copy(update=changes), meets=True)
    days = best.run.days.model_copy(update={"high": 1.1 * least})
    first = replace(best, run=best.run.model_copy(update={"days": days}))
    meeting = TrainingAnswer(answer.question, (near, first))
    assert {row.kind for row in meeting.even} == {best.kind, other.kind}
    assert mark in training_headline(meeting)
    assert len(training_headline(meeting).split()) <= 20
    is_in_time = times * least <= given.get(
        "days", 0
    )  # by its estimate: its range ends in 1e9 days
    marks = [cell.text for cell in training_table(meeting).column("Verdict")]
    apart = f", {times:g}× apart" if times >= 2 else f", {times - 1:.0%} apart"
    assert marks == [mark, mark + apart + ", may miss" * is_in_time]
    assert set(training_json(meeting)["about_even"]) == {best.kind, other.kind}
    days = days.model_copy(update={"high": 1.04 * least})
    apart = replace(best, run=best.run.model_copy(update={"days": days}))
    assert TrainingAnswer(answer.question, (near, apart)).even == ()


def test_two_priced_kinds_are_compared_by_dollars_and_one_without_a_price_is_named():
    answer = train(TrainingQuestion(FORM, 1e12, 512, (*KINDS, "v6e"), days=60, price=PRICE))
    priced = [row for row in answer.rows if row.price]
    assert answer.best is min(priced, key=lambda row: row.run.money)
    words = training_headline(answer)
    assert words.startswith("Cheapest within 60 days: ")
    assert money_text(answer.best.run.money) in words
    marks = dict(zip((row.kind for row in answer.ordered), training_table(answer).column("Verdict"), strict=True))  # fmt: skip
    assert marks["v6e"].text.startswith("no price") and answer.ordered[-1].kind == "v6e"
    one = train(TrainingQuestion(FORM, 1e12, 512, KINDS, days=60, price=PRICE[:1]))
    assert training_headline(one).startswith("Fewest within 60 days: "), "one is not compared"
    assert "$" in training_headline(replace(one, rows=one.rows[:1]))


def test_a_deadline_inside_the_range_of_days_may_be_missed():
    answer = asked(days=30)
    best = answer.best
    for high, doubt in ((29.9, ""), (30.1, ", may miss")):
        days = best.run.days.model_copy(update={"high": high})
        row = replace(best, run=best.run.model_copy(update={"days": days}))
        seen = TrainingAnswer(answer.question, (row,))
        assert training_table(seen).column("Verdict")[0].text == f"fewest{doubt}"
        assert (", may miss" in training_headline(seen)) is bool(doubt)
        assert training_table(seen).column("Range of days")[0].text.endswith(number_text(high))


def test_five_figures_of_a_plan():
    row = asked(chips=256, price=PRICE).rows[0]
    figures = {each.title: each for each in five_figures(row.plan, row.step, row.run, row.price)}
    assert list(figures) == ["Chips", "Mesh", "Step", "Time", "Dollars", "Bound by"]
    assert figures["Chips"].value == "256" and figures["Chips"].more == "v5e:16x16"
    assert figures["Mesh"].value == "data=2 fsdp=128" and figures["Bound by"].value == "compute"
    assert figures["Time"].value == f"{row.run.days.estimate:.3g} days"
    hours = row.run.chip_hours
    assert figures["Time"].more.endswith(f" days, {hours:,.0f} chip-hours")
    assert figures["Step"].more.startswith("80% range ")
    assert figures["Dollars"].value == f"${hours * 1.2:,.0f}" and "$1.20" in figures["Dollars"].more
    unpriced = {each.title: each for each in five_figures(row.plan, row.step, None)}
    assert unpriced["Time"].value == "–" and "Dollars" not in unpriced


def test_the_json_form_is_the_answer():
    answer = asked(days=30)
    form = training_json(answer)
    assert form["deadline_days"] == 30 and form["best"] == "v5p" and form["global_batch"] == 512
    for row, of in zip(answer.rows, form["rows"], strict=True):
        assert of["plan"] == row.plan.to_json() and of["training_run"] == row.run.model_dump()
        assert of["tried"][-1]["chips"] == row.plan.topology.chips
    assert tokens_text(form["tokens"]) == "1T tokens"


def test_kinds_that_may_not_fit_and_have_other_tokens_are_named_in_the_headline():
    answer = asked(chips=256)
    best, other = sorted(answer.rows, key=lambda row: row is not answer.best)
    unsure = best.step.model_copy(
        update={"before_compiling": {"low": 1, "high": best.step.memory_bytes.capacity + 1}}
    )
    assert unsure.fit == "may not fit", "else nothing is tested"
    fewer = other.plan.model_copy(update={"batch_per_device": other.plan.batch_per_device / 2})
    both = replace(
        answer,
        rows=(replace(best, step=unsure), replace(other, step=unsure, plan=fewer, run=best.run)),
    )
    headline = training_headline(both)
    assert headline.endswith(", both may not fit, at other tokens a step.")
    one = replace(answer, rows=(replace(best, step=unsure), other))
    assert training_headline(one).endswith(", may not fit.")
    assert "fit" not in training_headline(answer)


def test_kinds_without_the_price_of_a_budget_are_no_rows_of_dashes():
    answer = asked(budget=1e6, price=PRICE[:1])
    kind = PRICE[0][0]
    table = training_table(answer)
    assert [cell.text for cell in table.column("On")] == [chip_title(kind)]
    others = [chip_title(each) for each in KINDS if each != kind]
    words = unpriced_words(answer)
    assert words.startswith("Without a price per chip-hour: ") and all(e in words for e in others)
    assert words in tried_words(answer) and unpriced_words(asked(chips=256)) == ""


def test_another_batch_than_the_question_has_is_explained():
    asked_of = TrainingQuestion(FORM, 1e12, 512, ("v5e",), days=10)
    (row,) = train(asked_of).rows
    assert row.plan.batch != 512, "else nothing is tested"
    chips = row.plan.topology.chips
    assert batch_words(row.plan, 512) == (
        f"{row.plan.tokens:,} tokens a step in place of 4,194,304: {chips:,} chips do not divide these."
    )
    assert batch_words(row.plan, row.plan.batch) == ""
    (few,) = train(TrainingQuestion(FORM, 1e12, 512, ("h100",), chips=4)).rows
    assert few.plan.batch == 512 or batch_words(few.plan, 512).endswith(": these do not fit.")


def test_a_budget_inside_the_range_of_dollars_may_be_exceeded():
    answer = asked(budget=2e5, price=PRICE[:1])
    best = answer.best
    for times, doubt in ((0.99, ""), (1.01, ", may exceed")):
        high = times * best.run.days.estimate * 2e5 / best.run.money
        days = best.run.days.model_copy(update={"high": high})
        row = replace(best, run=best.run.model_copy(update={"days": days}))
        seen = TrainingAnswer(answer.question, (row,))
        assert training_table(seen).column("Verdict")[0].text == f"fastest{doubt}"
        assert (", may exceed" in training_headline(seen)) is bool(doubt)


@pytest.mark.parametrize(
    ("limit", "others"),
    [
        ({"budget": 1e6}, ""),
        ({"budget": 2e5}, "may exceed"),
        ({"budget": 1.5e5}, "misses"),
        ({"days": 3.0}, "misses"),
    ],
)
def test_numbers_of_chips_are_days_against_dollars(limit, others):
    answer = train(TrainingQuestion(FORM, 1e12, 512, ("v5e",), price=PRICE[:1], **limit))
    (row,), (table,) = answer.rows, training_tables(answer)
    assert table == trade_table(answer) and "On" not in table.columns
    known = {each.chips: each for each in row.tried}
    shown = [known[int(cell.value)] for cell in table.column("Chips")]
    assert len(shown) > 1
    for name, of in {
        "Days": lambda each: each.days,
        "Dollars": lambda each: each.run.money,
        "Causal MFU": lambda each: each.step.mfu_causal,
    }.items():
        assert [cell.value for cell in table.column(name)] == [of(each) for each in shown]
    for one, other in pairwise(shown):
        assert one.run.money < other.run.money and one.days > other.days
    marks = [*zip(shown, (cell.text for cell in table.column("Verdict")), strict=True)]
    own = [each.plan for each, mark in marks if mark.startswith("the answer")]
    assert own == ([row.plan] if row.meets else [])
    assert any(mark.endswith(others) for _, mark in marks if not mark.startswith("the"))
    for each, mark in marks:
        if limit == {"budget": 1e6} and each.run.days.low > row.run.days.high:
            assert mark == f"{number_text(each.days / row.run.days.estimate)}× as long"


def test_a_trade_needs_a_price_and_a_limit_and_names_kinds_where_there_are_several():
    assert trade_table(asked(days=3)) is None is trade_table(asked(chips=256, price=PRICE))
    kinds, trade = training_tables(asked(budget=1e6, price=PRICE))
    assert kinds == training_table(asked(budget=1e6, price=PRICE)) and trade.columns[0] == "On"


@pytest.mark.parametrize("times", [0.9, 1.1])
def test_a_thriftier_run_whose_days_meet_those_of_the_fastest_is_not_called_slower(times):
    question = TrainingQuestion(FORM, 1e12, 512, ("v5e",), budget=1e6, price=(("v5e", 1.2),))
    (row,) = train(question).rows
    chips, thrifty = row.thrifty.chips, row.thrifty.run
    days = row.run.days.model_copy(update={"high": times * thrifty.days.low})
    row = replace(row, run=row.run.model_copy(update={"days": days}))
    answer = TrainingAnswer(question, (row,))
    meets, words = times > 1, training_headline(answer)
    assert words.startswith("About fastest" if meets else "Fastest")
    assert (f"; cannot tell from {chips:,}, " in words) is meets
    assert (
        training_table(answer)
        .column("Verdict")[0]
        .text.startswith("cannot tell" if meets else "fastest")
    )


def test_a_kind_of_several_devices_a_chip_is_named_and_so_is_its_topology():
    answer = train(TrainingQuestion(FORM, 1e12, 512, ("v5e", "tpu7x"), chips=64))
    assert devices_words(answer) == "Meshes count devices: a chip of TPU7x has 2."
    named = {row.kind: five_figures(row.plan, row.step, row.run)[0].more for row in answer.rows}
    assert named["tpu7x"].endswith(", 2 devices a chip") and "devices" not in named["v5e"]
    assert devices_words(replace(answer, rows=answer.rows[:1])) == ""


def test_what_a_plan_compiled_to_is_its_memory_and_not_its_days():
    answer = asked(chips=256)
    row, *others = answer.rows
    assert row.step
    memory = row.step.memory_bytes.model_copy(update={"peak": 3 * 2**30})
    known = row.step.model_copy(update={"compiled": True, "memory_bytes": memory})
    unsure = row.step.model_copy(update={"before_compiling": {"low": 0, "high": 2**50}})
    doubted = replace(answer, rows=(replace(row, step=unsure), *others))
    assert doubted.rows[0].is_sure is (unsure.fit == "fits")
    settled = replace(answer, rows=(replace(row, step=unsure, compiled=known), *others))
    assert settled.rows[0].is_sure
    at = [each.kind for each in settled.ordered].index(row.kind)
    assert training_table(settled).column("Memory")[at].text == "3.0 GiB, compiled"
    assert training_table(settled).column("Days")[at] == training_table(answer).column("Days")[at]


def test_a_run_of_less_than_a_day_is_in_hours_in_the_headline_and_in_the_table():
    answer = asked(chips=4096)
    short = replace(answer.question, tokens=1e10)
    answer = train(short)
    assert answer.best.run.days.estimate < 1 and " hours" in training_headline(answer)
    table = training_table(answer)
    at = table.columns.index("Hours")
    assert "Range of hours" in table.columns and "Days" not in table.columns
    hours = 24 * answer.best.run.days.estimate
    assert float(table.rows[0][at].text) == pytest.approx(hours, rel=0.01)


@pytest.mark.parametrize(
    ("model", "kinds", "is_named"),
    [
        ("mixtral-8x7b", ("tpu7x", "v6e"), False),
        ("mixtral-8x7b", ("tpu7x", "h100"), True),
        ("llama-3.1-8b", ("tpu7x", "h100"), False),
    ],
)
def test_kinds_on_which_no_step_of_experts_was_compared_are_named_with_the_answer(
    model, kinds, is_named
):
    form = {"model": model, "sequence": 4096}
    words = training_headline(train(TrainingQuestion(form, 1e12, 1024, kinds, 256)))
    assert (words.endswith("; steps with experts were compared with published ones on v6e and TPU7x alone.")) is is_named  # fmt: skip


def test_a_range_that_reaches_far_has_its_reason():
    form = {"model": "llama-3.1-405b", "sequence": 8192}
    (row,) = train(TrainingQuestion(form, 1e12, 512, ("v5e",), 1024)).rows
    words = range_words([("v5e", row.step)])
    is_far = row.step.predicted_s.high > 2 * row.step.predicted_s.estimate
    assert is_far and words.startswith(
        "Far ends of v5e: plans that offload over slices may compile"
    )
