"""What a search of plans states of its best: of how many compiled, and which estimates are lower."""

from dataclasses import replace
from itertools import islice

import pytest

from spmd_core.facts import Estimate
from spmd_core.search import Answer, models, read_question
from spmd_core.surveys import search as words
from spmd_core.surveys.search.candidates import named_words
from spmd_lab.ui.search.rows import ranked_rows

ASKED = {
    "model": "scaled:1",
    "chips": ["v5e:4x4"],
    "global_batch": 32,
    "remat": ["full"],
    "offload": False,
    "plan": {"microbatches": 1},  # a fifth of the space
}


def compiled(each, times):
    took = (each.seconds or 0.0) * times
    predicted = Estimate(low=0.9 * took, estimate=took, high=1.1 * took)
    return replace(each, stage="compiled", predicted=predicted, memory_span=None, fits="yes")


@pytest.fixture(scope="module")
def answer():
    """Of three plans that are compiled one is slower than estimates of its mesh and batch."""
    question = read_question(ASKED)
    found = [*models.candidates(question)]
    firsts = [g[0].candidate for g in Answer(question, len(found), found, True).shardings[:3]]
    times = dict(zip((each.number for each in firsts), (1.03, 1.05, 1.9), strict=True))
    known = [compiled(e, times[e.number]) if e.number in times else e for e in found]
    return Answer(question, len(known), known, False, 252.0)


def test_the_best_is_of_what_was_compiled_and_lower_estimates_are_named(answer):
    assert answer.winner.stage == "compiled" and answer.open_estimates
    assert words.best_words(answer, answer.winner).startswith("Best of 3 compiled: ")
    mine = answer.ranking[0].score
    lower = [
        group[0]
        for group in answer.shardings
        if group[0].candidate.stage == "estimated" and group[0].score < mine
    ]
    sentence = words.ahead_estimates(answer)
    assert bool(sentence) == bool(lower)
    assert sentence.startswith(f"{len(lower)} estimates are lower, from ") or len(lower) < 2


def test_one_count_of_others_that_could_win_is_in_every_sentence(answer):
    many = len(answer.rivals) + answer.open_estimates
    assert words.open_words(answer) == f"Not settled: {many} others could win"
    assert f"{many} other meshes or batches could win" in words.search_headline(answer)
    assert "of them to be faster" not in words.search_headline(answer)


def test_each_that_is_compiled_has_a_row(answer):
    rows = [row.candidate for row in ranked_rows(answer.shardings)]
    assert sum(each.stage == "compiled" for each in rows) == answer.counts["compiled"] == 3


def test_rows_are_listed_in_order_of_what_is_known_then_of_time(answer):
    groups = answer.listed(15)
    assert groups[0] == answer.shardings[0] and len(groups) == len(answer.shardings[:15])
    for stage in ("compiled", "estimated"):
        for fits in (True, False):
            scores = [
                group[0].score
                for group in groups[1:]
                if group[0].candidate.stage == stage and (group[0].candidate.fits == "yes") is fits
            ]
            assert scores == sorted(scores)


@pytest.mark.parametrize(
    ("budget_s", "is_few", "stated"),
    [
        (600.0, True, "Stopped after 252 s, once the 3 best were compiled."),
        (200.0, False, "Stopped after its 200 s, with 3 compiled."),
        (None, False, "3 compiled in 252 s."),
    ],
)
def test_why_a_search_stopped_is_one_line(answer, budget_s, is_few, stated):
    assert words.stopped_words(answer, budget_s, is_few) == stated


def test_a_search_whose_time_ended_before_a_compile_says_so():
    question = read_question(ASKED)
    found = [*islice(models.candidates(question), 400)]
    for space, seconds in ((400, 29.0), (400, 35.0), (900, 35.0)):
        short = Answer(question, space, found, True, seconds)
        stopped = words.stopped_words(short, 30.0, False)
        ended = "Its 30 s ended before a first compile did: give it more."
        assert stopped == ended * (seconds > 30)
        assert not words.stopped_words(short, None, False), "it was to compile nothing"
        assert words.open_words(short)
        assert (" of 400 looked at could win" in words.open_words(short)) is (space > 400)


def test_milliseconds_of_other_batches_name_the_sequences_that_they_are_of():
    question = read_question(ASKED | {"global_batch": None})
    found = [*islice(models.candidates(question), 400)]
    answer = Answer(question, len(found), found, True)
    winner = answer.winner
    others = [g[0].candidate for g in answer.shardings if g[0].candidate.fits == "yes"]
    sentences = {each.tokens == winner.tokens: words.beats(winner, each) for each in others[1:]}
    for is_same, sentence in sentences.items():
        has_times = " ms " in sentence or " s less" in sentence
        assert not has_times or ("For " in sentence) is not is_same


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "x=2,y=4 · batch:y hidden:x+z · auto",
            "x=2 y=4, batch over y, hidden over x+z, Automatic",
        ),
        ("x=8 · replicated · shard_map", "x=8, replicated, shard_map"),
        ("tp=8 · make.py:74 P(None, 'tp')", "tp=8, make.py:74 P(None, 'tp')"),
        ("data=1,model=8 · as exported", "data=1 model=8, as exported"),
    ],
)
def test_a_name_in_words_leaves_specs_of_programs_as_they_are(name, words):
    assert named_words(name) == words
