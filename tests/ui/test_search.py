"""The Search screen without a browser: nothing runs by itself, what is stored is shown, and a bad
link or field is one sentence.
"""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest

from bench.exported import written
from spmd_core.answers import ranking_table
from spmd_core.lab import Searches
from spmd_core.search import Answer, candidates, models, read_array_question, read_question
from spmd_core.search.link import decode, encode
from spmd_core.surveys import search as words, why_not
from spmd_core.sweeps import first_look
from spmd_core.trials import Search, searches as running
from spmd_core.trials.searching.outcomes import failed
from spmd_core.trials.searching.prove import Runs
from spmd_core.trials.searching.searches import Registry
from spmd_core.words import days_text
from spmd_core.workloads import programs
from spmd_lab.ui.search import answer as search_answer, keep
from spmd_lab.ui.search.question_inputs import DEFAULT
from tests.cover import whole
from tests.labs import until
from tests.ui import opened, said

pytestmark = pytest.mark.slow

SMALL = {
    "model": "scaled:1",
    "chips": ["v5e:4x4"],
    "global_batch": 32,
    "sequence": 2048,
    "remat": ["full"],
    "offload": False,
    "plan": {"microbatches": 1},  # a fifth of the space
}
STRUCT = jax.ShapeDtypeStruct((64, 64), "float32")
BEGINS = DEFAULT | {key: SMALL[key] for key in SMALL if key not in ("model", "chips")}


@pytest.fixture
def begins(monkeypatch):
    """What the screen begins with."""
    monkeypatch.setattr("spmd_lab.ui.search.question_inputs.DEFAULT", BEGINS)
    return read_question(BEGINS)


def pressed(screen):
    return "Search" in [each.label for each in screen.button]


def test_nothing_is_searched_before_it_is_asked_for_and_a_stored_search_is_shown(lab, begins):
    question = read_question(SMALL)
    first = opened("search", search=encode(question))
    assert pressed(first) and running.running() == 0
    linked = opened("search", search=encode(begins))  # what the screen begins with, by a link
    assert pressed(linked) and running.find(lab, begins) is None
    search = running.start(lab, question, None)
    until(lambda: search.is_over)
    shown = opened("search", search=encode(question))
    text = said(shown)
    assert search.answer.winner.name in text
    assert "Against the standard shardings" in [each.label for each in shown.expander]
    assert "Estimated, not compiled" in text
    assert len(shown.dataframe[0].value) == search_answer.most_rows(search.answer)
    third = search.answer.ranking[2].candidate  # a link says which row is chosen
    linked = opened("search", search=encode(question), candidate=str(third.number))
    assert why_not(search.answer, third) in said(linked)
    assert linked.query_params["candidate"] == str(third.number)
    assert "candidate" not in opened("search", search=encode(question), candidate="x").query_params
    fit = search.answer.space - sum(search.answer.pruned.values())
    assert f"{fit:,} candidates in {len(search.answer.shardings):,} rows" in text
    past = opened("search")  # opening computes nothing
    assert pressed(past) and running.find(lab, begins) is None
    first_one = running.start(lab, begins, None)
    until(lambda: first_one.is_over)
    past.run()
    assert first_one.answer.winner.name in said(past) and first_one.budget_s is None
    assert "Searched before" in said(past) and search.answer.winner.name in said(past)
    assert (
        f" h for a billion tokens, {words.STAGES['estimated']}: {search.answer.winner.name}"
        in said(past)
    )
    limit = next(each for each in past.number_input if each.label.startswith("Compile for"))
    limit.set_value(30)
    past.number_input[0].set_value(128).run()  # a look at the fields as they are now
    assert pressed(past) and "A first look" in said(past) and "Before:" not in said(past)
    assert first_one.answer.winner.name in said(past)
    next(each for each in past.button if each.label == "Open").click().run()
    assert search.answer.winner.name in said(past)
    kept = next(each for each in past.number_input if each.label.startswith("Compile for"))
    assert kept.value == 30  # in fields that are drawn anew


def test_a_stored_search_opens_with_its_answer_before_its_estimates_are_there(lab, monkeypatch):
    question, gate, candidates = read_question(SMALL), threading.Event(), models.candidates
    first = running.start(lab, question, None)
    until(lambda: first.is_over and running.stored(lab).find(question.id).words)
    monkeypatch.setattr(running, "_searches", Registry("search", len, Searches))  # a restart
    monkeypatch.setattr(models, "candidates", lambda *a: gate.wait(60) and candidates(*a))
    shown = opened("search", search=encode(question))
    assert first.answer.winner.name in said(shown) and not running.find(lab, question).held
    assert len(shown.dataframe[0].value) > 3
    gate.set()
    until(lambda: running.find(lab, question).is_over)
    shown.run()
    assert "Estimated, not compiled" in said(shown)


def test_a_first_look_stays_until_a_search_has_more_and_a_stopped_one_goes_on(lab, monkeypatch):
    question, gate, listed = read_question(SMALL), threading.Event(), models.candidates
    monkeypatch.setattr(models, "candidates", lambda *a: gate.wait(60) and listed(*a))
    search = running.start(lab, question, 60.0, compiles=4)
    shown = said(opened("search", search=encode(question)))
    assert search.answer.winner is None and "A first look" in shown
    assert f"of at most {search.budget_s:g} s" in shown and "left out" not in shown
    search.cancel()
    gate.set()
    until(lambda: search.is_over)
    for has_all in (False, True):
        kept = replace(search.answer, found=list(listed(question)), is_partial=not has_all)
        assert kept.winner and kept.next_compiles
        over = SimpleNamespace(answer=kept, is_over=True)
        assert search_answer.may_begin(over) is not has_all


def test_the_best_so_far_is_shown_while_a_search_compiles(lab, monkeypatch):
    question, gate = read_question(SMALL), threading.Event()

    def compiles_one(search, runs, choice):
        search._keep(failed([search.answer.ranking[-1].candidate], "no compiler"))
        gate.wait(60)

    monkeypatch.setattr(Search, "_compile", compiles_one)
    search = running.start(lab, question, 60.0, compiles=4)
    until(lambda: search.doing == "compiling" and search.answer.counts["failed"])
    assert search.share == 0.25  # of four, whatever the budget leaves
    shown = said(opened("search", search=encode(question)))
    assert "So far, Estimated" in shown
    assert words.funnel_words(search.answer) in shown
    assert words.best_words(search.answer, search.answer.winner) in shown
    gate.set()
    until(lambda: search.is_over)


def test_a_search_that_only_stores_what_it_compiled_has_no_way_to_end_it(lab, monkeypatch):
    question, gates = read_question(SMALL), {"look": threading.Event(), "end": threading.Event()}
    monkeypatch.setattr(Runs, "is_over", property(lambda runs: gates["look"].wait(60)))
    monkeypatch.setattr(Runs, "close", lambda runs: gates["end"].wait(60) and [])
    search = running.start(lab, question, 60.0)

    def has_cancel():
        screen = opened("search", search=encode(question))
        return "search:cancel" in [each.key for each in screen.button]

    until(lambda: search.doing == "compiling")
    assert has_cancel() and search.share < 1
    gates["look"].set()
    until(lambda: search.doing != "compiling")
    assert not has_cancel() and search.share == 1 and not search.is_over
    gates["end"].set()
    until(lambda: search.is_over)


@pytest.mark.parametrize("left", [2, 200])
def test_a_search_that_gets_more_time_for_the_last_has_it_in_its_line(lab, left):
    search = Search(lab, Searches(lab.folder), read_question(SMALL), 100.0)
    search._candidates = [SimpleNamespace(stage="estimated")] * left
    search._compiled, search._begun = 10, time.monotonic() - 50
    runs = SimpleNamespace(deadline=1000.0)
    search._finish(runs)
    assert search.most_s == pytest.approx(100.0 + runs.deadline - 1000.0)
    assert (search.most_s > 100) is (left == 2)


def test_a_search_that_nothing_is_added_to_is_offered_again(lab, monkeypatch):
    monkeypatch.setattr("spmd_core.machine.absent.plugin_version", lambda: None)
    question = read_question(SMALL | {"chips": ["h100:8"]})
    first = running.start(lab, question, None)
    until(lambda: first.is_over)
    again = opened("search", search=encode(question)).button(key="search:next")
    assert again.label == "Search again"
    again.click().run()
    second = running.find(lab, question)
    assert second is not first
    until(lambda: second.is_over)


@pytest.mark.parametrize("chips", ["v5p:8", pytest.param("v5e:64", marks=whole), "h100:16"])
def test_a_question_that_no_plan_fits_has_an_answer_and_its_button_another(lab, begins, chips):
    search = running.start(lab, begins, None)
    until(lambda: search.is_over)
    screen = opened("search", search=encode(begins))
    assert search.answer.winner.name in said(screen)
    next(each for each in screen.selectbox if each.label == "Model").set_value("llama-3.1-70b")
    next(each for each in screen.text_input if each.label == "Chips").set_value(chips).run()
    text = said(screen)
    assert "Before:" not in text and "No estimate at once" not in text
    assert "Nothing fits on" in text or "Nothing is sure to fit on" in text
    more = screen.button(key="search:more-chips")
    assert more.label.startswith("Search on ") and f"Fits on {more.label[10:]}:" in text
    more.click().run()
    assert "A first look" in said(screen) and "Nothing" not in said(screen)


def test_a_bad_link_or_field_is_one_sentence(lab, begins):
    search = running.start(lab, begins, None)  # what the fields begin with
    until(lambda: search.is_over)
    broken = opened("search", search="1.nonsense")
    for screen in (broken, broken.run()):  # until a field says something else
        assert "This link cannot be opened as it is. Link" in said(screen)
        assert "Against the standard shardings" not in said(screen)  # no answer: of which question?
    broken.number_input[0].set_value(128).run()
    assert "This link" not in said(broken)
    screen = opened("search", search=encode(read_question(SMALL)))
    chips = next(each for each in screen.text_input if each.label == "Chips")
    chips.set_value("v5e:17").run()
    assert "is no number of chips of TPU v5e" in said(screen)


def test_of_several_targets_the_best_of_each_comes_first_and_each_row_names_its_own(lab):
    question = read_question(SMALL | {"chips": ["v5e:4", "v5e:8"]})
    search = running.start(lab, question, None)
    until(lambda: search.is_over)
    screen = opened("search", search=encode(question))
    best, ranking = (frame.value for frame in screen.dataframe[:2])
    assert list(best["Target"]) == ["v5e:2x4", "v5e:2x2"] and "Price" not in best
    assert set(ranking["Chips"]) <= {"v5e:2x4", "v5e:2x2"}
    next(each for each in screen.button if each.label == "Compile it").click().run()
    assert [each.experiment for each in lab.active()] == [search.answer.winner.experiment]


def test_a_link_is_the_question_and_cannot_set_the_compiler_s_files():
    question = read_question(SMALL | {"fixed": {"data": 2}})
    assert decode(encode(question)) == question
    from spmd_core.search.array_question import read_array_question

    array = read_array_question(
        {
            "workload": "mlp",
            "target": ["cpu:8", "tpu:v5e:4x4"],
            "mesh": None,
            "sharding": None,
            "dtype": "bfloat16",
        }
    )
    assert decode(encode(array)).id == array.id
    with pytest.raises(ValueError, match="xla_dump_to"):
        read_question(SMALL | {"plan": {"compiler_flags": ["xla_dump_to=/tmp/x"]}})
    flags = ["xla_tpu_wait_for_debugger=true"]  # a command line may set it
    harmful = read_question(SMALL | {"plan": {"compiler_flags": flags}})
    with pytest.raises(ValueError, match="xla_tpu_wait_for_debugger"):
        decode(encode(harmful))


def test_a_space_beyond_all_bounds_is_refused_before_it_is_listed(lab):
    huge = read_question({"model": "mixtral-8x7b", "chips": ["v5p:..8960"], "slices": "any"})
    search = running.start(lab, huge, None)
    until(lambda: search.is_over)
    assert "is more than the 10,000,000" in search.problem


def test_what_is_fixed_of_a_computation_is_in_its_fields_and_bad_words_leave_them(lab):
    from spmd_core.search.array_question import read_array_question

    asked = read_array_question(
        {
            "workload": "mlp",
            "target": "cpu:8",
            "mesh": None,
            "sharding": None,
            "overrides": {"w1": [None, "x"]},
        },
        memory_bytes=2**30,
    )
    screen = opened("search", search=encode(asked))
    fields = {each.label: each for each in (*screen.text_input, *screen.number_input)}
    assert fields["Arrays that stay put"].value == '{"w1": [null, "x"]}'
    assert fields["Memory per device, at most (GiB)"].value == 1.0
    assert "Compile and measure for at most (s)" in fields, "cpu:8 is here to measure"
    screen.segmented_control[0].set_value("model").run()
    assert "Compile for at most (s)" in [each.label for each in screen.number_input]
    screen = opened("search", search=encode(asked))
    assert decode(screen.query_params["search"]) == asked  # the fields ask the same
    for label, text, sentence in (
        ("Mesh", "x=4", "mesh x=4 does not use the 8 devices of cpu:8"),
        ("Arrays that stay put", "{", "is not JSON"),
        ("Arrays that stay put", "[1]", "overrides=[1] is not an object"),
    ):
        screen = opened("search", search=encode(asked))
        next(each for each in screen.text_input if each.label == label).set_value(text).run()
        assert sentence in said(screen) and not screen.exception
        assert decode(screen.query_params["search"]) == asked


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_per_device": 2.0, "global_batch": None},
        {"global_batch": None},
        {"memory_bytes": 2 * 2**40},
        {"price": {"v5e": 1.2}},
        {"plan": {"tied": True}},
        {"plan": {"state_dtype": "float32", "attention_blocks": [512, 256, 128]}},
        {"plan": {"compiler_flags": ["xla_tpu_dot_dot_fusion=true"], "layers": 2}},
    ],
)
def test_a_search_that_is_opened_is_the_one_that_was_stored(lab, changes):
    asked = read_question(SMALL | changes)
    shown = opened("search", search=encode(asked))
    assert "cannot be opened" not in said(shown)
    code = shown.query_params["search"]
    assert decode(code if isinstance(code, str) else code[0]) == asked


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory_bytes": 10**400}, "memory_bytes="),
        ({"plan": {"compiler_flags": 5}}, "compiler_flags=5 is not a list of names: write"),
        ({"plan": {"compiler_flags": [5]}}, "is not a list of names"),
    ],
)
def test_a_question_that_is_none_is_a_sentence(lab, changes, words):
    from bench.hostile_links import code_of

    shown = opened("search", search=code_of(SMALL | changes))
    assert words in said(shown) and "This link cannot be opened as it is" in said(shown)


def test_a_field_of_plans_is_one_of_the_question(lab):
    shown = opened("search", search=encode(read_question(SMALL | {"plan": {"fused_mlp": True}})))
    fields = {each.label: each for each in (*shown.selectbox, *shown.toggle)}
    assert fields["One matmul for gate and up"].value is True
    assert "Experts drop no token" not in fields
    fields["Optimizer state"].set_value("bfloat16").run()
    asked = decode(shown.query_params["search"])
    assert dict(asked.plan) == {"fused_mlp": True, "state_dtype": "bfloat16"}


def test_the_next_compiles_take_as_long_as_those_of_the_search(monkeypatch):
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    found, took = list(candidates(question)), {"a": 10.0, "b": 20.0, "c": 60.0, "gone": None}
    for at, run in enumerate(took):
        found[at] = replace(found[at], stage="compiled", run=run)
    known = {run: SimpleNamespace(elapsed_s=seconds) for run, seconds in took.items() if seconds}
    monkeypatch.setattr(search_answer, "find", known.get)
    some = Answer(question, len(found), found, False)
    assert search_answer._compile_s(some) == some.next_compiles * 20.0 > 0
    monkeypatch.setattr(search_answer, "find", lambda run: None)
    assert search_answer._compile_s(some) == 0, "no time is given where none is known"


def test_a_question_in_other_words_opens_the_search_that_is_kept(lab):
    """Predict names a topology where the fields have a number of chips."""
    question = read_question(SMALL)
    search = running.start(lab, question, None)
    until(lambda: search.is_over)
    (topology,) = question.topologies
    other = read_question(SMALL | {"chips": [topology.target]})
    assert other.id != question.id and running.alike(lab, other) == question
    screen = opened("search", search=encode(other))
    assert "A first look" not in said(screen)
    assert "Against the standard shardings" in [each.label for each in screen.expander]
    first = search.answer.winner
    days = 1e12 / first.tokens * first.seconds / 86400
    assert words.days_of_tokens(first, 1e12) == days_text(days)


def test_the_ranking_has_all_that_could_win_and_the_usual_rows_where_nothing_could():
    looked = first_look(read_question(DEFAULT))
    one = Answer(looked.question, 1, [looked.winner], True)
    assert not one.open_numbers and search_answer.most_rows(one) == search_answer.ROWS
    many = len(looked.open_numbers)
    assert many == len(looked.rivals) + looked.open_estimates > 0
    table = ranking_table(looked, "screen", search_answer.most_rows(looked))
    assert [cell.text for cell in table.column("Could win")].count("yes") == many


def test_a_search_of_a_program_opens_on_the_screen_of_programs(lab, begins, read_here, monkeypatch):
    program = programs.take(written(lambda x, w: x @ w, {"x": STRUCT, "w": STRUCT})).program
    spec = {"workload": "program_file", "program": program, "target": "tpu:v5e:2x4"}
    question = read_array_question(spec | {"mesh": None, "specs": None})
    stored = SimpleNamespace(question=question.to_json(), id="a", words="", updated_at=0.0)
    monkeypatch.setattr(keep.running, "latest", lambda *_: [stored])
    screen = opened("search")
    assert not [each for each in screen.button if str(each.key).startswith("search:past:")]
    (link,) = [e.proto for e in screen.get("page_link") if e.proto.label == "Open on Programs"]
    assert link.page == "programs" and "experiment=" in link.query_string
