"""Shardings at rising concurrency, and the frontier of their points."""

from dataclasses import replace
from itertools import pairwise

import pytest

from spmd_core.answers import (
    beaten_words,
    beside_words,
    better_point,
    copies_words,
    enough_chips,
    enough_words,
    made_span,
    served_mesh,
    serving_headline,
    serving_json,
    serving_open_words,
    serving_rivals,
    serving_sure,
    waiting_rival,
    waiting_table,
    waiting_title,
)
from spmd_core.base import number_text, seconds_text
from spmd_core.search import (
    CompiledDecode,
    frontier,
    read_serving,
    serve,
    serving_curves,
    with_compiled,
)
from spmd_core.search.serving_frontier import reached


def answer_to(**form):
    return serve(read_serving({"model": "qwen3-32b", "chips": "v6e:..16"} | form))


@pytest.fixture(scope="module")
def answer():
    return answer_to()


@pytest.fixture(scope="module")
def curves(answer):
    return serving_curves(answer)


def test_each_curve_has_a_sharding_of_its_own_and_ends_where_the_cache_is_full(curves):
    meshes = [curve.row.plan.mesh for curve in curves]
    assert len({*meshes}) == len(meshes) > 5
    for curve in curves:
        counts = [point.concurrency for point in curve.points]
        most = curve.row.pool.requests * curve.row.plan.replicas
        assert counts == sorted({*counts}) and counts[-1] == most
        assert counts[0] == curve.row.plan.replicas
        last = curve.points[-1].row
        assert 0 <= last.pool.cache - last.cache_used < 2 * last.pool.sequence
        for _, row in curve.points:
            assert row.plan == curve.row.plan and not row.served.waiting
        speeds = [row.speed for _, row in curve.points]
        assert speeds[-1] < speeds[0], "more requests at once slow a user down"


def test_the_answer_is_the_point_of_its_curve_at_the_concurrency_of_the_question(answer, curves):
    (own,) = [curve for curve in curves if curve.row is answer.lead]
    assert dict(own.points)[64] == answer.lead


def test_no_curve_passes_above_the_frontier(curves):
    front = frontier(curves)
    speeds, made = zip(*((point.row.speed, point.row.per_chip) for _, point in front), strict=True)
    assert list(speeds) == sorted(speeds, reverse=True) and list(made) == sorted(made)
    for _, point in front:
        assert all(reached(each, point.row.speed) <= point.row.per_chip * 1.001 for each in curves)
    for curve in curves:
        for point in curve.points:
            is_above = any(reached(each, point.row.speed) > point.row.per_chip for each in curves)
            assert is_above is not ((curve, point) in front)


def test_between_two_points_a_curve_is_straight_and_beyond_its_fastest_there_is_none(curves):
    curve = curves[0]
    rows = sorted((row for _, row in curve.points), key=lambda row: row.speed)
    middle = (rows[0].speed + rows[1].speed) / 2
    assert reached(curve, middle) == pytest.approx((rows[0].per_chip + rows[1].per_chip) / 2)
    assert reached(curve, rows[-1].speed + 1) == 0
    assert reached(curve, 0) == max(row.per_chip for row in rows)


def test_of_many_shardings_those_that_own_the_frontier_are_kept(monkeypatch):
    answer = answer_to(model="llama-3.1-8b", chips="v6e:..32")
    few = serving_curves(answer)
    monkeypatch.setattr("spmd_core.search.serving_frontier._CURVES", 99)
    every = serving_curves(answer)
    assert len(few) == 10 < len(every) and answer.lead in [curve.row for curve in few]
    for _, point in frontier(every):
        best = max(reached(curve, point.row.speed) for curve in few)
        assert best >= 0.95 * point.row.per_chip


def test_a_rate_and_a_nearest_answer_have_their_own_sharding_among_the_curves():
    answer = answer_to(rate="8")
    assert answer.best is None
    curves = serving_curves(answer)
    assert answer.lead in [curve.row for curve in curves]
    assert not any(row.served.waiting for curve in curves for _, row in curve.points)


def test_a_compiled_step_slows_its_curve_alone(answer, curves):
    plan = answer.lead.plan
    slower = with_compiled(answer, {plan: CompiledDecode(0.02, 0.01, 1, True)})
    for before, after in zip(curves, serving_curves(slower), strict=False):
        if before.row.plan == after.row.plan:
            is_slower = after.points[0].row.speed < 0.9 * before.points[0].row.speed
            assert is_slower is (after.row.plan == plan)


@pytest.mark.parametrize("longer", [0.97, 1.0, 1.01, 1.03, 1.3])
def test_nothing_beats_the_answer_only_where_no_curve_has_a_point_that_does(answer, longer):
    """Whatever the compiled steps of its best three do to the frontier."""
    steps = {
        row.plan: CompiledDecode(longer * 1e-2, 1e-2, 1, True)
        for row in [each for each in answer.rows if each.served][:3]
    }
    known = with_compiled(answer, steps)
    curves, lead = serving_curves(known), known.lead
    ahead = [
        point
        for curve in curves
        for point in curve.points
        if point.row.per_chip > 1.01 * lead.per_chip and point.row.speed >= lead.speed
    ]
    words = beaten_words(known, better_point(known, curves))
    assert words.startswith("Nothing on these curves") is (not ahead), words
    assert ahead, "at each of these the drawn frontier passes above the answer"


def test_what_beats_the_answer_in_both_is_a_sentence_with_its_load(answer, curves):
    lead = answer.lead
    words = beaten_words(answer, better_point(answer, curves))
    at, named = words.removeprefix("With ").split(" at once, ")
    point = next(
        each
        for _, each in frontier(curves)
        if f"{each.concurrency:,}" == at and each.row.plan.mesh == (("data", 4), ("tensor", 2))
    )
    assert named == (
        f"8 v6e, data=4 tensor=2 may serve {point.row.per_chip / lead.per_chip - 1:.0%} more "
        f"tokens per chip, and each user is {point.row.speed / lead.speed - 1:.0%} faster; the ranges "
        "overlap."
    )
    alone = answer_to(chips="v6e:4", concurrency="16")
    (rival,) = serving_rivals(alone)
    times = rival.served.output_times(alone.question.load)
    low, high = (number_text(rival.per_chip * each) for each in times)
    named, arrive = serving_sure(alone)
    assert named.endswith(f"{served_mesh(rival)} could win: {low} to {high} tokens/s per chip.")
    within = seconds_text(alone.lead.served.ttft_p99_s)
    assert arrive == f"Requests arrive as others end: 99% have their first token within {within}."
    assert not serving_rivals(answer_to(chips="v6e:4", concurrency="16", tpot="40ms"))
    assert better_point(alone, serving_curves(alone)) is None
    assert beaten_words(alone, None) == "Nothing on these curves beats 4 v6e, tensor=4 in both."
    missed = answer_to(chips="v6e:4", concurrency="16", tpot="1ms")
    assert missed.best is None and not missed.lead.keeps
    assert beaten_words(missed, None) == "No point on these curves keeps the limits."


def test_within_a_limit_the_most_tokens_are_offered_of_the_answer_that_then_opens():
    asked = answer_to(chips="h100:..16", tpot="20ms")
    better = better_point(asked, serving_curves(asked))
    opened = answer_to(chips="h100:..16", tpot="20ms", concurrency=str(better.concurrency)).lead
    assert better.row.plan == opened.plan and opened.served.tpot_s <= 0.02
    assert better.row.per_chip > 1.4 * asked.lead.per_chip
    named = f"With {better.concurrency} at once, 4 H100, {served_mesh(opened)} serves 50% more"
    words = beaten_words(asked, better)
    assert words.startswith(named) and "each user is 25% slower" in words
    assert ("It may miss 20 ms" in words) is opened.even


@pytest.mark.parametrize("tpot", ["", "1ms", "20ms", "40ms"])
@pytest.mark.parametrize("concurrency", ["32", "256", "2000"])
def test_where_a_load_misses_its_limits_one_that_keeps_them_is_offered(tpot, concurrency):
    answer = answer_to(chips="v6e:8", tpot=tpot, concurrency=concurrency)
    curves = serving_curves(answer)
    better = better_point(answer, curves)
    words = beaten_words(answer, better, frontier(curves))
    is_kept = any(point.row.keeps for curve in curves for point in curve.points)
    if answer.best is None:
        assert words.startswith("No point on these curves keeps") is (not is_kept), words
    if answer.best is None and is_kept:
        own = answer_to(chips="v6e:8", tpot=tpot, concurrency=str(better.concurrency)).best
        assert own and own.keeps and own.plan == better.row.plan
        assert f"With {better.concurrency} at once, 8 v6e, {served_mesh(own)} " in words
        assert f"{number_text(own.per_chip)} tokens/s per chip" in words


def test_requests_that_wait_are_said_with_what_the_cache_holds():
    answer = answer_to(chips="v6e:4", concurrency="200")
    held = answer.lead.pool.requests
    assert serving_headline(answer).startswith(
        f"The cache of 4 v6e, tensor=4 holds {held} requests: {200 - held} wait"
    )


def test_the_json_has_the_curves_and_marks_the_frontier(answer, curves):
    listed = serving_json(answer)["curves"]
    assert [each["mesh"] for each in listed] == [dict(curve.row.plan.mesh) for curve in curves]
    marked = [point for each in listed for point in each["points"] if point["is_on_front"]]
    assert len(marked) == len(frontier(curves))
    own = next(each for each in listed if each["mesh"] == {"tensor": 4})
    at = next(point for point in own["points"] if point["concurrency"] == 64)
    assert at["tokens_per_s_per_chip"] == answer.lead.per_chip
    assert serving_json(replace(answer, rows=()))["curves"] == []


@pytest.mark.parametrize(("chips", "concurrency"), [("v6e:..16", "64"), ("v6e:4", "16")])
def test_a_row_whose_range_reaches_that_of_the_best_could_win_or_has_the_reason(chips, concurrency):
    answer = answer_to(chips=chips, concurrency=concurrency)
    load, lead = answer.question.load, answer.best
    low = made_span(lead, load)[0]
    reach = [
        row
        for row in answer.rows
        if row is not lead and row.served and made_span(row, load)[1] >= low
    ]
    named = [*serving_sure(answer)]
    could = [each for each in named if "could win" in each]
    assert len(could) == len(serving_rivals(answer))
    words = serving_open_words(answer)
    assert bool(words) is bool(could)
    if could:  # the first of those that are listed, by name, and how many more
        name = could[0].partition(" could win")[0]
        assert words.startswith(f"Not settled: {name}") and words.endswith(" could win")
        assert (f" or {len(could) - 1} other" in words) is (len(could) > 1)
    waiting = [row for row in reach if row.served.waiting]
    assert len(reach) == len(serving_rivals(answer)) + len(waiting)
    assert len([each for each in named if "is not counted" in each]) == min(3, len(waiting))


def test_a_difference_beyond_the_ranges_is_a_fact_and_one_within_them_is_not(answer, curves):
    better = better_point(answer, curves)
    assert "may serve" in beaten_words(answer, better)
    twice = replace(better.row.served, output_per_s=4 * better.row.served.output_per_s)
    far = better._replace(row=replace(better.row, served=twice))
    assert "may serve" not in beaten_words(answer, far)
    assert "times the tokens per chip" in beaten_words(answer, far)


@pytest.mark.parametrize(("model", "chips"), [("llama-3.1-70b", "v5e:8"), ("qwen3-32b", "v6e:1")])
def test_where_no_sharding_holds_a_request_more_chips_that_do_are_named(model, chips):
    answer = answer_to(model=model, chips=chips)
    assert answer.lead is None
    held = enough_chips(answer)
    assert held.best.keeps and held == answer_to(model=model, chips=held.question.chips[0])
    count = held.best.plan.topology.chips
    assert enough_words(held).startswith(f"Fits on {count} {chips.partition(':')[0]}: ")
    assert enough_chips(held) is None


@pytest.mark.parametrize(
    ("chips", "concurrency"), [("v6e:8", "256"), ("v6e:..16", "256"), ("v6e:8", "64"), ("v6e:4", "200")]
)  # fmt: skip
def test_a_row_that_makes_more_while_requests_wait_stands_beside_one_that_holds_them(
    chips, concurrency
):
    answer = answer_to(chips=chips, concurrency=concurrency)
    lead, beside = answer.lead, waiting_rival(answer)
    more = [row for row in answer.rows if row.served and row.per_chip > 1.01 * lead.per_chip]
    headlines = [serving_headline(answer, is_figured) for is_figured in (True, False)]
    assert (beside is not None) is bool(more and not lead.served.waiting)
    assert all((f"where all {concurrency} run" in each) is bool(beside) for each in headlines)
    assert max(len(each.split()) for each in headlines) <= 20
    if beside:
        assert beside.per_chip == max(row.per_chip for row in more)
        wait, first = (
            f"{beside.served.waiting} of {concurrency}",
            seconds_text(beside.served.ttft_s),
        )
        words = beside_words(answer)
        more_words = f"{beside.per_chip / lead.per_chip - 1:.0%} more while {wait} wait"
        assert words.startswith(f"8 v6e, {served_mesh(beside)}: {more_words}")
        assert first in words and len(words.split()) <= 20
        assert not any(
            f"{served_mesh(beside)} is not counted" in each for each in serving_sure(answer)
        )
    else:
        assert beside_words(answer) == ""


@pytest.mark.parametrize(
    ("chips", "concurrency"), [("v6e:8", "256"), ("v6e:..16", "256"), ("v6e:8", "64"), ("v6e:4", "200")]
)  # fmt: skip
def test_each_row_that_waits_less_for_fewer_tokens_is_beside_the_best(chips, concurrency):
    answer = answer_to(chips=chips, concurrency=concurrency)
    table, lead = waiting_table(answer), answer.lead
    assert (table is None) is (waiting_rival(answer) is None)
    if table is None:
        return
    cells = [table.column(name) for name in ("Tokens/s per chip", "First token, mean", "Wait")]
    rows = [tuple(cell.value for cell in row) for row in zip(*cells, strict=True)]
    assert rows[0] == (lead.per_chip, lead.served.ttft_s, 0)
    assert all(one < other for one, other in pairwise(rows))  # more tokens for a longer wait
    others = [(row.per_chip, row.served.ttft_s) for row in answer.rows if row.served]
    for made, first in others:  # each other row makes no more than one that waits as little
        kept = [each for each in rows if each[1] <= first]
        assert not kept or made <= 1.01 * max(each[0] for each in kept)
    more = f"{waiting_rival(answer).per_chip / lead.per_chip - 1:+.0%}"
    tokens = [cell.text for cell in table.column("Tokens/s per chip")]
    assert tokens[-1].endswith(f", {more}") and "%" not in tokens[0]
    mesh, *others = (cell.text for cell in table.column("Mesh"))
    assert mesh.endswith(", the answer") and not any("answer" in each for each in others)


@pytest.mark.parametrize(
    ("chips", "tpot"), [("v6e:8", "20ms"), ("v6e:..16", "10ms"), ("v6e:8", "60ms")]
)
def test_rows_nearer_to_a_missed_limit_while_requests_wait_are_beside_it(chips, tpot):
    answer = answer_to(chips=chips, concurrency="256", tpot=tpot)
    table, lead = waiting_table(answer), answer.lead
    nearer = [
        row
        for row in answer.rows
        if row.served and row.served.waiting
        if 1.01 * row.served.tpot_s < lead.served.tpot_s and row.per_chip >= lead.per_chip
    ]
    assert (table is not None) is (answer.best is None and bool(nearer))
    if table is None:
        return
    times = [cell.value for cell in table.column("Time per token")]
    assert times[0] == lead.served.tpot_s and min(times) == min(row.served.tpot_s for row in nearer)
    assert all(slow > fast for slow, fast in pairwise(times))
    assert waiting_title(answer) == "Nearer to the limits while requests wait"


@pytest.mark.parametrize("chips", ["v6e:8", "v6e:..16", "v6e:4"])
def test_meshes_of_several_copies_are_explained(chips):
    answer = answer_to(chips=chips)
    copied = [row.plan for row in answer.rows if row.served and row.plan.replicas > 1]
    words = copies_words(answer)
    assert bool(words) is bool(copied)
    assert not words or (
        words.startswith(tuple(f"{each.replicas} × " for each in copied))
        and any(f"{each.replicas} copies" in words for each in copied)
    )


def test_a_limit_or_a_rate_has_none_beside_it_that_lets_requests_wait():
    for form in ({"tpot": "60ms"}, {"rate": "1"}):
        answer = answer_to(chips="v6e:8", concurrency="256", **form)
        assert answer.best and waiting_rival(answer) is None


@pytest.mark.parametrize("tpot", ["20ms", "16ms", "40ms"])
def test_what_a_limit_costs_in_tokens_is_a_sentence(tpot):
    answer = answer_to(tpot=tpot)
    free, kept = answer_to().best, answer.best
    words = beside_words(answer)
    assert bool(words) is (free.per_chip > kept.per_chip)
    if words:
        lost = f"Keeping {seconds_text(answer.question.tpot_s)} each costs "
        assert words.startswith(f"{lost}{1 - kept.per_chip / free.per_chip:.0%} of the tokens")
        assert f"{served_mesh(free)} makes {number_text(free.per_chip)} tokens/s" in words


@pytest.mark.parametrize("chips", ["v6e:..16", "v6e:8", "v6e:..16,tpu7x:..8"])
@pytest.mark.parametrize("concurrency", ["16", "64", "256"])
def test_of_shardings_that_make_as_many_tokens_the_fastest_is_best(chips, concurrency):
    answer = answer_to(chips=chips, concurrency=concurrency)
    kept = [row for row in answer.rows if row.keeps]
    most = max(row.per_chip for row in kept)
    alike = [row.served.tpot_s for row in kept if row.per_chip >= 0.99 * most]
    assert answer.best.served.tpot_s == min(alike)


def test_where_no_point_keeps_the_limits_the_nearest_of_any_load_is_named():
    answer = answer_to(tpot="1ms")
    front = frontier(serving_curves(answer))
    (_, point) = min(front, key=lambda each: each[1].row.served.tpot_s)
    words = beaten_words(answer, None, front)
    assert point.row.served.tpot_s < answer.lead.served.tpot_s
    assert words.startswith(
        "No point on these curves keeps the limits: nearest with 1 at once, 16 v6e"
    )
    assert words.endswith(
        f"{served_mesh(point.row)}, {seconds_text(point.row.served.tpot_s)}/token."
    )


@pytest.mark.parametrize("times", [0.99, 1.0, 1.01])
def test_of_loads_that_make_as_many_tokens_the_one_of_fewest_chips_is_offered(times):
    """A compiled step that is a little slower moves no offer to twice the chips."""
    known = answer_to(chips="v6e:..16", concurrency="64")
    seconds = known.best.served.step.seconds
    step = CompiledDecode(times * seconds, seconds, 1, True)
    answer = with_compiled(known, {known.best.plan: step})
    better = better_point(answer, serving_curves(answer))
    assert better.row.chips == 8 and better.row.per_chip > answer.best.per_chip
