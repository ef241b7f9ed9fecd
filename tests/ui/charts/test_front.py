"""The chart of time against memory: what may not fit is named, and the first is in sight."""

import re
from dataclasses import replace

import pytest

from spmd_core.search import Answer, Candidate, read_question
from spmd_core.search.models import candidates
from spmd_core.surveys.search import best_words, open_words, span_of_tokens, time_of_tokens
from spmd_core.sweeps import first_look
from spmd_lab.ui.search.charts import front_chart, ranked_chart


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
    span = ranked_chart(mixed.shardings)["layer"][0]
    rows, labels = span["data"]["values"], span["encoding"]["y"]["scale"]["domain"]
    assert [row["group"] for row in rows].count("measured") == 1
    assert labels[:3] == ["measured", rows[0]["row"], "estimated"]
    assert sorted([*labels[1:2], *labels[3:]]) == sorted({row["row"] for row in rows})
    assert ranked_chart([]) is None
    assert all(row["low"] <= row["x"] <= max(row["high"], row["x"]) for row in rows)
    key = ranked_chart(mixed.shardings)["layer"][-1]
    assert key["data"]["values"][0]["row"] == "measured", "the band's key is above the first row"


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
    layers = ranked_chart(answer.shardings)["layer"]
    rows = layers[0]["data"]["values"]
    (arrows,) = (each for each in layers if each["mark"].get("shape") == "triangle-right")
    assert arrows["data"]["values"] == [row for row in rows if "up to" in row["label"]]
    best = [group[0].candidate for group in answer.shardings][: len(rows)]
    assert {row["policy"] for row in rows} == {each.step.policy.words for each in best}
    top = max(row["end"] for row in rows)
    cut = [row for row in rows if "up to" in row["label"]]
    longest = sorted(
        round(1e3 * high) for each in best for _, high in [each.span] if 1e3 * high > top
    )
    shown = [re.search(r"up to ([\d,.]+)", row["label"])[1].strip(",") for row in cut]
    assert cut and {row["end"] for row in cut} == {top}
    assert sorted(float(each.replace(",", "")) for each in shown) == pytest.approx(
        longest, rel=5e-3
    )


def test_what_may_not_fit_is_counted_apart_where_others_are_as_fast():
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found = [_less_sure(each) if each.predicted else each for each in candidates(question)]
    known = Answer(question, len(found), found, True)
    assert open_words(known).endswith(f"{len(known.rivals)} others")
    for at in range(1, len(known.rivals)):
        unsure = {each.number for each in known.rivals[:at]}
        every = [replace(each, fits="likely") if each.number in unsure else each for each in found]
        answer = Answer(question, len(every), every, True)
        fit = sum(each.fits == "yes" for each in answer.rivals)
        counts = list(map(int, re.findall(r"\d+", open_words(answer))))
        assert counts == [count for count in (fit, len(answer.rivals) - fit) if count]


def test_what_may_not_fit_has_the_memory_that_it_needs_beside_its_time():
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]}))
    span, *_ = ranked_chart(answer.shardings)["layer"]
    rows, ticks = span["data"]["values"], span["encoding"]["x"]["axis"]["values"]
    assert ticks[0] <= min(row["low"] for row in rows)
    assert max(row["end"] for row in rows) <= ticks[-1]
    assert ticks[1] > min(row["low"] for row in rows), "no tick is further than needed"
    assert {row["is_open"] for row in rows} == {False, True}
    for row in rows:
        needs = re.fullmatch(r"([\d.]+) GiB to ([\d.]+) GiB", row["memory"])
        assert bool(needs) == row["is_open"]
        assert needs is None or float(needs[1]) < 95.7 < float(needs[2])


def test_names_are_beside_the_marks_of_wide_windows_and_above_those_of_narrow_ones():
    answer = first_look(read_question({"model": "llama-3.1-8b", "chips": ["v5p:8"]}))
    layers = ranked_chart(answer.shardings)["layer"]
    (above,) = (each for each in layers if "dy" in each["mark"])
    axis = layers[0]["encoding"]["y"]["axis"]
    domain = layers[0]["encoding"]["y"]["scale"]["domain"]
    assert [row["row"] for row in above["data"]["values"]] == domain
    narrow = axis["labelExpr"].partition(" ? ")[0]
    assert axis["labelExpr"].endswith(" : ''") and axis["labelAlign"] == "left"
    assert above["mark"]["opacity"] == {"expr": f"{narrow} ? 0 : 1"}


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
    assert 0 < count <= overlapping and open_words(answer).startswith(f"{count} estimate")
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
    hours = [float(each) for each in re.findall(r"([\d.]+) h", span_of_tokens(best))]
    of_best = float(time_of_tokens(best).removesuffix(" h"))
    assert hours == pytest.approx([of_best * end / best.seconds for end in best.span], rel=0.01)
    assert hours[0] < of_best < hours[1]
