"""The chart of time against memory: what may not fit is named, and the first is in sight."""

import re
from dataclasses import replace
from html import escape
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest

from spmd_core.base import bytes_text, sums_by_key
from spmd_core.experiment import link
from spmd_core.search import Answer, Candidate, Ranked, read_array_question, read_question, score
from spmd_core.search.models import candidates
from spmd_core.surveys.search import (
    ahead_of,
    best_words,
    funnel_words,
    how_sure,
    open_words,
    picked_words,
    span_of_tokens,
    time_of_tokens,
)
from spmd_core.sweeps import first_look
from spmd_core.time import estimate_step
from spmd_core.words import apart_words, share_words
from spmd_lab.ui import style
from spmd_lab.ui.search import answer as of_answer
from spmd_lab.ui.search.charts import front_chart, times_of
from spmd_lab.ui.search.rows import html, ranked_rows
from tests.cover import whole


def test_what_may_not_fit_is_named_and_the_first_is_drawn_over_the_others():
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found = list(candidates(question))
    known = Answer(question, len(found), found, True)
    on_front = {each.number for each in known.front}
    ranked = [each.candidate for each in known.ranking[1:] if not each.alike]
    other = next(each for each in ranked if each.number not in on_front)
    found[found.index(other)] = replace(other, fits="likely")
    answer = Answer(question, len(found), found, True)
    chart = front_chart(answer.ranking, answer.front)
    every, line, first, name = chart["layer"]
    kinds = {row["name"]: row["kind"] for row in every["data"]["values"]}
    assert kinds[other.name] == "may not fit" and kinds[answer.winner.name] == "front"
    color = every["encoding"]["color"]["scale"]
    of_front = dict(zip(color["domain"], color["range"], strict=True))["front"]
    assert line["mark"]["color"] == of_front, "a front and its points are one color"
    assert [row["name"] for row in first["data"]["values"]] == [answer.winner.name]
    assert name["data"] == first["data"] and name["mark"]["type"] == "text"
    assert first["mark"]["size"] > every["mark"]["size"]


def test_what_is_known_in_different_ways_is_below_headings_of_its_own():
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found = list(candidates(question))
    answer = Answer(question, len(found), found, True)
    best = answer.ranking[0].candidate
    measured = replace(best, stage="measured", measured_s=2 * best.seconds)
    found[found.index(best)] = measured
    mixed = Answer(question, len(found), found, True)
    rows = ranked_rows(mixed.shardings)
    assert [row.group for row in rows].count("measured") == 1
    drawn = html(rows, "Time", mixed.counts)
    parts = re.findall(
        r'colgroup">(.*?)</th>|row">(?:<a [^>]*>)?([^<]*)(?:</a>)?<small>[^<]*</small></th><td class=.bar',
        drawn,
    )
    assert [head or name for head, name in parts][:3] == [
        "measured",
        rows[0].name,
        f"estimated, {len(rows) - 1} of {mixed.counts['estimated']}",
    ]
    assert sum(bool(name) for _, name in parts) == len(rows)
    assert ranked_rows([]) == []
    assert all(row.low <= row.high for row in rows)
    best = rows[0]
    assert f"--low: {best.low:.1%}; --high: {best.high:.1%}" in drawn


def _less_sure(each: Candidate) -> Candidate:
    """A candidate of which every third may take five times what is expected."""
    expected = each.predicted
    high = expected.high if each.number % 3 else 5 * expected.estimate
    return replace(each, predicted=expected.model_copy(update={"high": high}))


def test_an_interval_that_is_drawn_shorter_says_where_it_ends():
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found = [_less_sure(each) if each.predicted else each for each in candidates(question)]
    answer = Answer(question, len(found), found, True)
    rows = ranked_rows(answer.shardings)
    best = {row.candidate.number: row.candidate for row in rows}
    assert {row.policy for row in rows} == {each.step.policy.words for each in best.values()}
    longest = max(row.candidate.span[1] for row in rows if row.high < 1)
    short = [row for row in rows if row.candidate.span[1] > 1.2 * longest]
    assert short and {row.high for row in short} == {1.0}
    drawn = html(rows, "Time", {})
    assert drawn.count('<u class="open"') == len(short), "it is drawn without an end"
    for row in rows:
        ends = [float(each.replace(",", "")) for each in re.findall(r"[\d.,]+", row.span)]
        hours = 1e9 / 3600 / row.candidate.tokens
        assert ends == pytest.approx([hours * each for each in row.candidate.span], rel=5e-3)


@pytest.mark.parametrize(
    ("model", "chips"), [("llama-3.1-8b", "v5p:8"), ("mixtral-8x7b", "v6e:32")]
)
def test_every_bar_has_the_length_of_its_time_and_the_best_that_fits_the_shortest(model, chips):
    answer = first_look(read_question({"model": model, "chips": [chips], "sequence": 2048}))
    rows = ranked_rows(answer.shardings)
    assert rows[0].candidate is answer.winner
    first = rows[0]
    for row in rows:
        longer = score(row.candidate) / score(first.candidate)
        assert row.end == pytest.approx(first.end * longer) and row.end <= 1
        shown = float(row.time.split()[0].replace(",", ""))
        assert shown == pytest.approx(float(first.time.split()[0]) * longer, rel=0.01)
        assert row.low <= row.end
    sure = [row.end for row in rows if row.candidate.fits == "yes"]
    assert first.end == min(sure) == sure[0]
    ends = [float(row.time.split()[0]) for row in rows if row.group == "may not fit"]
    assert ends == sorted(ends)


def test_what_takes_several_times_as_long_is_no_row_that_hides_the_others():
    answer = first_look(
        read_question({"model": "llama-3.1-8b", "chips": ["v5e:256"], "sequence": 8192})
    )
    rows = ranked_rows(answer.shardings)
    least = min(row.end for row in rows)
    assert len(rows) >= 3 and least > 0.25
    few = ranked_rows([answer.shardings[0], *answer.shardings[-2:]])
    assert len(few) == 3 and max(row.end for row in few) <= 1


def test_the_parts_of_a_bar_are_those_of_its_step_and_add_up_to_it():
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]}))
    for row in ranked_rows(answer.shardings):
        shares = {part.kind: part.share for part in row.parts}
        assert sum(shares.values()) == pytest.approx(1.0)
        step = estimate_step(row.candidate.plan)
        exposed = sum(s for name, s in step.shares_s.items() if name.startswith("wait"))
        total = sum(step.shares_s.values())
        assert shares.get("exposed", 0.0) == pytest.approx(exposed / total)
        assert shares["matmul"] == pytest.approx(step.shares_s["matmul"] / total)


def test_a_bar_whose_parts_are_unknown_has_a_color_that_the_key_names():
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]}))
    rows = ranked_rows(answer.shardings)
    named = "all parts of the time"
    assert named not in html(rows, "Time", {})
    drawn = html([replace(rows[0], parts=()), *rows[1:]], "Time", {})
    assert named in drawn and f'<div style="width:{rows[0].end:.1%}"></div>' in drawn
    gray = re.findall(r"\.(?:bar > div|ranked \.unsplit i) .*background: (.*?); ", style._CSS)
    assert len(gray) == 2 and len(set(gray)) == 1, "of the bar and of its key"


def test_a_row_is_a_link_to_the_prediction_of_its_plan():
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]}))
    rows = ranked_rows(answer.shardings)
    drawn = html(rows, "Time", {})
    assert len({row.path for row in rows}) == len(rows)
    for row in rows:
        assert row.path.startswith("/predict?experiment=")
        code = parse_qs(urlsplit(row.path).query)["experiment"][0]
        assert link.decode(code).plan == row.candidate.plan
        assert escape(row.path) in drawn
        assert row.name.endswith(f", {row.candidate.plan.batch} sequences")
    assert '<th scope="col">Mesh, global batch</th>' in drawn


def ticks_of(rows):
    pattern = r'<span style="left:([\d.]+)%">([\d.]+)( \w+)?</span>'
    return re.findall(pattern, html(rows, "Time", {}))


def test_the_axis_of_the_rows_has_round_times_where_the_bars_have_them():
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]}))
    rows = ranked_rows(answer.shardings)
    ticks = ticks_of(rows)
    assert 3 <= len(ticks) <= 8 and ticks[0][:2] == ("0.0", "0")
    assert [unit for *_, unit in ticks[:-1]] == [""] * (len(ticks) - 1)
    first = rows[0]
    value, unit = first.time.split()
    assert ticks[-1][2] == f" {unit}"
    for left, tick, _ in ticks:
        assert float(left) == pytest.approx(100 * first.end * float(tick) / float(value), abs=0.6)


def bar_parts(candidate):
    """Seconds of the parts of a candidate's bar, exposed collectives as one."""
    step = estimate_step(candidate.step.plan)
    return sums_by_key(
        ("exposed" if name.startswith(("wait: all", "wait: red", "wait: coll")) else name, seconds)
        for name, seconds in step.shares_s.items()
    )


@pytest.mark.parametrize("chips", ["v5p:8", pytest.param("v5e:256", marks=whole), "v6e:64"])
def test_why_the_first_is_ahead_names_what_the_next_mesh_spends_more_on(chips):
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": [chips]}))
    winner = answer.winner
    mesh = winner.step.of_mesh.mesh
    others = [group[0].candidate for group in answer.shardings]
    other = next(each for each in others if each.step.of_mesh.mesh != mesh and each.fits == "yes")
    mine, theirs = bar_parts(winner), bar_parts(other)
    scale = winner.tokens / other.tokens
    more = {name: scale * seconds - mine.get(name, 0.0) for name, seconds in theirs.items()}
    most = share_words(max(more, key=lambda name: more[name]))
    apart = apart_words(winner.seconds / winner.tokens, other.seconds / other.tokens)
    mesh = other.name.partition(" · ")[0].replace(",", " ")
    words = ahead_of(answer)
    less = apart.removesuffix(" apart")
    assert words.startswith(f"The first takes {less} less time than the next {winner.stage} mesh, ")
    overlap = winner.span[1] / winner.tokens >= other.span[0] / other.tokens
    but = ", but their ranges overlap" * overlap
    assert words.endswith(f" mesh, {mesh}{but}: mostly less {most}.")


def test_candidates_are_counted_by_how_far_they_got():
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found = list(candidates(question))
    answer = Answer(question, len(found), found, True)
    words = funnel_words(answer)
    assert words.startswith(f"{len(found)} candidates: ") and "left out" not in words
    estimated = answer.counts["estimated"]
    assert f" {estimated} estimated" in words
    chosen = funnel_words(replace(answer, space=10 * len(found)))
    left = f"{9 * len(found):,} not looked at, "
    assert chosen.startswith(f"{10 * len(found):,} candidates: {left}")


def test_what_may_not_fit_is_counted_apart_where_others_are_as_fast():
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found = [_less_sure(each) if each.predicted else each for each in candidates(question)]
    known = Answer(question, len(found), found, True)
    assert open_words(known).endswith(f" {len(known.rivals)} others could win")
    for at in range(1, len(known.rivals)):
        unsure = {each.number for each in known.rivals[:at]}
        every = [replace(each, fits="likely") if each.number in unsure else each for each in found]
        answer = Answer(question, len(every), every, True)
        many = len(answer.rivals)
        fit = sum(each.fits == "yes" for each in answer.rivals)
        counts = list(map(int, re.findall(r"\d+", picked_words(answer))))
        assert counts == [count for count in (many, many - fit) if count]
        assert open_words(answer) == "" or f" {many} other" in open_words(answer)


def test_one_count_of_what_could_win_is_in_all_sentences_and_each_is_said_once():
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]}))
    many = len(answer.rivals)
    assert many > 9 and open_words(answer) == f"Not settled: {many} others could win"
    points = how_sure(answer)
    assert points[0].startswith(f"Estimated, not compiled: its range overlaps {many} others")
    assert "equal to" not in best_words(answer, answer.winner)
    said = " ".join(points)
    assert said.count("not compiled") == 1 and said.count("only estimated") == 1
    assert said.count("overlap") == 1 and "Not complete" not in said


def test_rows_of_one_batch_have_the_time_that_is_minimized():
    asked = {"model": "llama-3.1-8b", "chips": ["v5p:8"], "global_batch": 64}
    rows = ranked_rows(first_look(read_question(asked)).shardings)
    _, title, unit = times_of([row.candidate for row in rows])
    assert (title, unit) == ("Time of a billion tokens", "h")
    assert rows[0].time.endswith(" h")


def test_what_may_not_fit_has_the_memory_that_it_needs_beside_its_time():
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]}))
    rows = ranked_rows(answer.shardings)
    assert max(row.end for row in rows) <= 1
    assert {row.group for row in rows} == {"estimated", "may not fit"}
    assert [row.group for row in rows] == sorted(row.group for row in rows)
    for row in rows:
        needs = re.fullmatch(r"([\d.]+) to ([\d.]+) GiB", row.memory)
        assert bool(needs) == (row.group == "may not fit")
        assert needs is None or float(needs[1]) < 95.7 < float(needs[2])
    assert "Memory per device, of 95.7 GiB" in html(rows, "Time", {})
    assert "80% range of the best<" in html(rows, "Time", {})
    assert "80% range of the best: overlapping it could win<" in html(rows, "Time", {}, True)
    computed = [replace(row, candidate=replace(row.candidate, step=None)) for row in rows]
    drawn = html(computed, "Time", {}, True)
    assert "range of the best<" in drawn and "80%" not in drawn, "a measured interval is another"
    drawn = html(computed, "Time", {}, True, {computed[1].candidate.number})
    assert "range of the best, behind what could win<" in drawn
    assert drawn.count(" settled") == len(computed) - 2, "but the best and what is open"


def test_estimates_whose_intervals_reach_the_compiled_first_could_still_win():
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found = list(candidates(question))
    best = Answer(question, len(found), found, True).winner
    compiled = replace(best, stage="compiled")
    found[found.index(best)] = compiled
    answer = Answer(question, len(found), found, True)
    assert answer.winner == compiled
    others = [group[0].candidate for group in answer.shardings[1:]]
    low = compiled.span[0]
    apart = sum(each.span[0] >= compiled.span[1] or low >= each.span[1] for each in others)
    overlapping = len(others) - apart
    count = answer.open_estimates
    assert 0 < count <= overlapping and f"{count} estimate" in picked_words(answer)
    assert open_words(answer).startswith(f"Not settled: {count + len(answer.rivals)} other")
    assert best_words(answer, compiled).startswith("Best so far: ")
    slow = [
        replace(each, predicted=each.predicted.model_copy(update={"low": 9e9, "high": 1e10}))
        if each.number != compiled.number and each.predicted
        else each
        for each in found
    ]
    alone = Answer(question, len(slow), slow, True)
    assert open_words(alone) == "" and best_words(alone, compiled).startswith("Best: ")


def test_the_time_of_tokens_has_the_interval_of_the_step():
    best = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]})).winner
    hours = [float(each) for each in re.findall(r"[\d.]+", span_of_tokens(best))]
    of_best = float(time_of_tokens(best).removesuffix(" h"))
    assert hours == pytest.approx([of_best * end / best.seconds for end in best.span], rel=0.01)
    assert hours[0] < of_best < hours[1]


def test_a_link_to_predict_takes_the_prices_of_its_question():
    asked = {"model": "llama-3.1-8b", "chips": ["v5p:8"], "price": {"v5p": 4.2}}
    found = first_look(read_question(asked))
    assert of_answer._prices(found, "Predict") == {"price": "v5p=4.2"}
    assert of_answer._prices(found, "Compare") == {}


@pytest.mark.parametrize("host_bytes", [None, 0, 28 * 2**30])
def test_the_memory_of_the_best_plan_has_what_is_on_the_host(host_bytes):
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5e:256"]}))
    winner = replace(answer.winner, host_bytes=host_bytes)
    figures = {each.title: each for each in of_answer._figures(winner, answer)}
    room = bytes_text(winner.host_capacity_bytes)
    shown = figures["Memory per device"].more
    assert (f", 28.0 GiB of {room} on the host" in shown) is bool(host_bytes)


def test_estimates_that_differ_in_their_strategy_alone_are_one_row():
    asked = {"workload": "mlp", "target": "cpu:8", "mesh": None, "sharding": None}
    question = read_array_question(asked | {"strategies": ["auto", "shard_map"]})
    answer = first_look(question)
    assert answer is not None
    rows = ranked_rows(answer.shardings)
    names = [row.name for row in rows]
    assert all(name.endswith(", Automatic or shard_map") for name in names)
    assert len({name.partition(", Automatic")[0] for name in names}) == len(rows)
    every = [number for row in rows for number in (row.candidate.number, *row.others)]
    assert len(set(every)) == len(every) == 2 * len(rows)
    assert f"estimated, {len(every)} of " in html(rows, "Time", answer.counts)


def test_what_was_measured_alone_is_no_row_among_those_of_the_same_rounds():
    asked = {"workload": "mlp", "target": "cpu:8", "mesh": None, "sharding": None}
    answer = first_look(read_array_question(asked))
    assert answer is not None
    one, other, alone = (
        replace(
            entry.candidate, stage="measured", measured_s=seconds, interval_s=(seconds, seconds)
        )
        for entry, seconds in zip(answer.ranking, (2.0, 3.0, 1.0), strict=False)
    )
    groups = [[Ranked(each, each.measured_s)] for each in (one, other, alone)]
    proof = SimpleNamespace(numbers=(one.number, other.number))
    rows = ranked_rows(groups, proof)
    assert [row.group for row in rows] == [
        *["measured side by side"] * 2,
        "measured alone, each at another time",
    ]
    assert {row.group for row in ranked_rows(groups)} == {"measured"}
    proof.alone_s = None
    assert "each at another time<" in html(rows, "Time", answer.counts, proof=proof)
    proof.alone_s = 0.5, 0.75
    then = "each at another time, when those side by side took 500 to 750 ms<"
    assert then in html(rows, "Time", answer.counts, proof=proof)
