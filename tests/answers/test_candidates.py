"""The rows of candidates: one sheet for the screen, the terminal and documents."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from spmd_core.answers import (
    best_table,
    every_table,
    kept_ranking,
    ranking_table,
    search_lines as lines,
)
from spmd_core.facts import Estimate
from spmd_core.search import (
    Answer,
    ArrayQuestion,
    Space,
    models,
    read_array_question,
    read_question,
)
from spmd_core.surveys import search as words

SPEC = {
    "workload": "mlp",
    "target": "tpu:v5e:2x2",
    "mesh": None,
    "sharding": None,
    "strategies": ["auto"],
}
MODEL = {"model": "scaled:1", "chips": ["v5e:4x4"], "batch_per_device": 2, "remat": ["full"]}
MODEL |= {"offload": False, "plan": {"microbatches": 1}}  # a small space


@pytest.fixture(scope="module")
def mixed():
    """Two compiled candidates above those that are only estimated."""
    question = read_array_question(SPEC)
    found = list(Space(question, 2).candidates())
    best = Answer(question, len(found), tuple(found), False).ranking[:2]
    for at, entry in enumerate(best, 1):
        known = Estimate(low=0.9 * at, estimate=at, high=1.1 * at)
        found[entry.candidate.number] = replace(entry.candidate, stage="compiled", predicted=known)
    return Answer(question, len(found), tuple(found), False)


@pytest.mark.parametrize("place", ["screen", "terminal", "document"])
def test_an_estimate_shares_no_column_with_a_compiled_time(mixed, place):
    table = ranking_table(mixed, place, 9)
    known = [cell.text for cell in table.column("Known by")]
    assert {*known} == {"compiled", "estimate"}
    for title, how in (("Time", "compiled"), ("Estimate", "estimate")):
        shown = [cell.value is not None for cell in table.column(title)]
        assert shown == [each == how for each in known]


def test_the_screen_the_terminal_and_the_report_have_the_same_cells(mixed):
    kept = words.kept_search(mixed, "done", 0.0)
    document = kept_ranking(kept)
    for place in ("screen", "terminal"):
        table = ranking_table(mixed, place, len(kept.ranking))
        for title in ("Time", "Estimate", "Memory", "Fits", "Known by"):
            assert table.column(title) == document.column(title)
    printed = lines(mixed, 3)
    assert any("Time" in line and "Estimate" in line for line in printed)
    assert words.search_headline(mixed) == kept.words == printed[0]


def test_steps_of_several_batches_are_compared_by_their_tokens():
    given = {"chips": ["v5e:4"], "batch_per_device": None, "price": {"v5e": 1.2}}
    question = read_question(MODEL | given)
    answer = Answer(question, 9, tuple(models.candidates(question)), True)
    table = ranking_table(answer, "terminal", 9)
    assert "Estimate of 1B" in table.columns and "Estimate" not in table.columns
    row = answer.shardings[0][0].candidate
    assert table.column("Estimate of 1B")[0].value == pytest.approx(1e9 * row.seconds / row.tokens)
    assert table.column("Price of a billion tokens")[0].text == words.cost_text(
        row, "price", dict(question.price)
    )
    (best,) = best_table(answer).column("Estimate of 1B")
    assert best == table.column("Estimate of 1B")[0]


def test_every_candidate_has_its_stage_and_its_rule(mixed):
    listed = [each for each in mixed.found if each.stage == "pruned"][:3]
    table = every_table(listed, mixed)
    assert [cell.text for cell in table.column("Stage")] == ["ruled out"] * 3
    assert [cell.text for cell in table.column("Why")] == [each.reason for each in listed]


def test_a_search_that_was_kept_without_causal_mfu_shows_it_as_its_plan_has_it():
    question = read_question(MODEL)
    answer = Answer(question, 9, tuple(models.candidates(question)), True)
    kept = words.kept_search(answer, "done", 0.0)
    assert kept.ranking and all(each.mfu_causal < each.mfu for each in kept.ranking)
    before = [each.model_copy(update={"mfu_causal": None}) for each in kept.ranking]
    older = kept.model_copy(update={"ranking": tuple(before)})
    assert older.digest == kept.digest
    shown, expected = (
        [cell.value for cell in kept_ranking(each).column("Causal MFU")] for each in (older, kept)
    )
    assert shown == pytest.approx(expected)
    of_another_version = older.model_copy(update={"question": {"kind": "model", "model": 7}})
    assert of_another_version.rows == older.ranking


def test_a_computation_without_sizes_ends_with_its_target():
    """Such as an exported program."""
    question = read_array_question(SPEC)
    assert words.asked_words(question).startswith("Two dense layers on tpu:v5e:2x2, batch=64")
    unsized = Mock(spec=ArrayQuestion, targets=("cpu:8",), sample=Mock(sizes={}))
    unsized.sample.exported.described.name = "step.jaxexport"
    assert words.asked_words(unsized) == "step.jaxexport on cpu:8", "a program by its name"
    unsized.sample.exported = None
    unsized.sample.what.title = "Two layers"
    assert words.asked_words(unsized) == "Two layers on cpu:8"
