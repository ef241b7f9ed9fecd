"""A search as it is carried out, with real workers whose engine answers at once."""

import threading
import time

import pytest

from bench.values import result, strategy
from spmd_core.__main__ import main
from spmd_core.lab import Batch, Lab, Searches
from spmd_core.search import SAME, read_array_question, read_question
from spmd_core.surveys.search import (
    answer_json,
    next_label,
    next_words,
    rule_words,
    search_headline,
    state_words,
    why_not,
)
from spmd_core.sweeps import best_plans
from spmd_core.trials import Search, carried_out
from spmd_core.trials.searching import search as searching
from spmd_core.trials.searching.choice import CandidateChoice
from spmd_core.trials.searching.prove import Runs, spread
from tests.cover import whole
from tests.labs import HASTY, PATIENCE_S, STANDIN, experiment, until

SPEC = {
    "workload": "elementwise",
    "target": "cpu:8",
    "mesh": None,
    "sharding": None,
    "dims": {"rows": 16, "cols": 8},
    "strategies": ["auto", "shard_map"],
    "seed": 0,
}
ENDLESS, ABORT, ROUNDS = 1, 8, 5


@pytest.fixture
def lab(data_folder, monkeypatch):
    monkeypatch.setattr(searching, "open_candidates", lambda candidates: [])
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setenv("STANDIN_LOG", str(data_folder.parent / "log"))
    return Lab.open(data_folder, settings=HASTY)


@pytest.fixture
def store(data_folder):
    store = Searches(data_folder)
    yield store
    store.close()


def search(lab, store, budget_s=5 * PATIENCE_S, **changes) -> Search:
    return Search(lab, store, read_array_question(SPEC | changes), budget_s)


def runs(lab) -> int:
    log = lab.folder.parent / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_the_best_is_measured_proven_and_remembered(lab, store):
    first = search(lab, store)
    answer = first.run()
    assert first.state == "done" and answer.complete
    assert answer.winner.stage == "measured" and len(answer.winner.experiment.mesh) == 1
    # the stand-in's times are alike where the meshes have as many axes
    assert answer.proof.rounds == 100 and answer.proof.faster == answer.winner.name
    assert [each.name for each in answer.ties] == list(answer.proof.comparison.tied)
    guessed, times = answer_json(answer)["notes"]
    assert guessed.startswith("cpu:8 is not calibrated: estimates are guesses")
    assert times.startswith("Of ")
    proven = [each for each in answer.found if each.study == answer.proof.run]
    assert {each.number for each in proven} == set(answer.proof.numbers)
    assert answer.proof.experiment.variants and lab.result(answer.proof.run).comparison
    assert {each.stage for each in answer.found} == {"measured", "pruned"}
    assert sum(answer.pruned.values()) + len(answer.ranking) == answer.space
    stored = store.find(first.question.id)
    assert stored.state == "done" and answer.winner.name in stored.words

    before = runs(lab)
    again = search(lab, store, None).run()  # as after a restart: nothing is run anew
    assert runs(lab) == before
    assert again.winner.name == answer.winner.name
    assert again.proof == answer.proof and again.ties == answer.ties
    on = search(lab, store).run()  # all was measured and proven: nothing is left to do
    assert runs(lab) == before and on.proof == answer.proof
    assert [each.name for each in again.found if each.stage == "measured"] == [
        each.name for each in answer.found if each.stage == "measured"
    ]


def test_a_rule_that_an_older_version_stored_keeps_its_sentence(lab, store):
    first = search(lab, store, None)
    rival = first.run().ranking[-1].candidate
    sentence = "its lower bound is above the best time that is known"
    before = dict.fromkeys(("run", "measured_s", "fingerprint", "study", "interval_s"))
    before |= {"fate": "pruned", "reason": "lower bound above the best", "detail": sentence}
    before |= {"memory_bytes": 64, "parts": [], "predicted": rival.predicted.model_dump()}
    store.keep_outcomes(first.question.id, [(rival.number, before)])
    answer = search(lab, store, None).run()
    (found,) = (each for each in answer.found if each.number == rival.number)
    assert (found.stage, rule_words(found.detail)) == ("pruned", sentence)
    assert sentence[3:] in why_not(answer, found)


def test_what_crashes_is_recorded_and_the_others_are_tried(lab, store):
    answer = search(lab, store, mesh={"x": 8}, seed=ABORT, strategies=["auto"]).run()
    assert answer.winner is None
    failed = [each for each in answer.found if each.stage == "failed"]
    assert len(failed) == 3 and all(each.run and each.detail for each in failed)
    assert search_headline(answer).startswith(
        f"None of {answer.space} candidates can run: 3 failed, the first of them {failed[0].name}"
    )


def test_a_first_run_of_most_of_the_budget_is_kept_and_the_budget_is_used(lab, store, monkeypatch):
    """Half of the budget is kept for the proof only once there are two to compare."""
    search(lab, store, mesh={"x": 8}, strategies=["auto"]).run()  # a worker is ready
    budget_s, steady = 12.0, Runs.steady

    def slow(runs, experiment):
        time.sleep(0.6 * budget_s if not measured() else 0.0)
        return steady(runs, experiment)

    def measured():
        return [each for each in found.answer.found if each.stage == "measured"]

    monkeypatch.setattr(Runs, "steady", slow)
    found = search(lab, store, budget_s, dims={"rows": 32, "cols": 8})
    answer = found.run()
    assert measured()
    assert found.spent_s >= 0.9 * budget_s or not answer.counts["estimated"]


def test_what_is_proven_stays_proven_while_more_is_measured(lab, store, monkeypatch):
    """A proof takes less than what is kept for it: the time that is left measures more."""
    few, choose = 3, CandidateChoice.next

    def a_few_each_time(choice, answer):
        return choose(choice, answer) if found._proof or len(choice.tried) < few else []

    found = search(lab, store)
    measure = Search._measure
    monkeypatch.setattr(
        Search, "_measure", lambda *args: measure(*args) or len(args[2].tried) == few
    )
    monkeypatch.setattr(CandidateChoice, "next", a_few_each_time)
    answer = found.run()
    assert answer.proof and answer.counts["measured"] > few and answer.complete


def test_cancel_keeps_what_was_found(lab, store):
    slow = search(lab, store, seed=ROUNDS, strategies=["auto"])
    thread = threading.Thread(target=slow.run)
    thread.start()
    until(lambda: any(each.state == "running" for each in lab.active()))
    slow.cancel()
    thread.join(PATIENCE_S)
    assert slow.state == "cancelled" and not lab.active()
    assert slow.answer.ranking and not slow.answer.complete
    assert store.find(slow.question.id).state == "cancelled"


def test_candidates_of_an_absent_target_go_to_a_pool_and_are_runs_of_the_search(
    lab, store, monkeypatch, capsys
):
    found = search(lab, store, target="tpu:v5e:2x2", strategies=["auto"])
    answer = found.run()
    assert found.state == "done" and answer.complete
    assert {each.stage for each in answer.found} <= {"measured", "compiled", "pruned"}
    own = lab.history(searched=True)
    assert {each.run for each in own} == {each.run for each in answer.found if each.run}
    assert not lab.history(searched=False)
    monkeypatch.setattr("spmd_core.commands.history.Lab.open", lambda **_: lab)
    for words, lines in (((), 2), (("--searches",), 1 + len(own))):
        assert main(["history", *words]) == 0
        said = capsys.readouterr().out.splitlines()
        assert len(said) == lines
        assert ("--searches lists them" in said[-1]) == (not words)


def test_a_pool_takes_one_run_more_than_there_are_compilers_and_cancels_what_is_left(lab):
    pool = Batch(lab, name="search a")
    for rows in (16, 32):
        until(lambda: list(pool.finished()) == [] and pool.has_room)
        pool.submit(
            experiment(
                ENDLESS, target="tpu:v5e:2x2", mesh={"x": 4}, dims={"rows": rows, "cols": 8}
            ),
            rows,
        )
        assert not pool.has_room and not pool.is_idle
    assert [each.state for each in lab.active()] != ["queued", "queued"]
    assert list(pool.finished()) == []
    assert pool.close() == []  # cancelled: nothing ended with a result
    assert pool.is_idle and not lab.active()
    assert {each.state for each in lab.history()} == {"cancelled"}


def test_what_was_compiled_as_the_time_ran_out_is_of_the_answer_and_stored(lab, store, monkeypatch):
    def is_over(one):
        return one._stop() or any(lab.status(run).is_over for run in one._runs)

    monkeypatch.setattr(Runs, "is_over", property(is_over))
    monkeypatch.setattr(Runs, "finished", lambda one: time.sleep(0.01) or iter(()))
    found = search(lab, store, target="tpu:v5e:2x2", strategies=["auto"])
    answer = found.run()
    done = {each.run for each in lab.history(searched=True) if each.state == "succeeded"}
    assert done and {each.run for each in answer.found if each.run} == done
    assert answer.winner.run in done and answer.winner.name in store.find(found.question.id).words
    again = Search(lab, store, found.question, None).run()
    assert again.winner == answer.winner


def test_of_runs_that_are_cancelled_together_none_that_waits_begins(lab):
    asked = [
        lab.submit(experiment(ENDLESS, dims={"rows": rows, "cols": 8})) for rows in (16, 32, 64)
    ]
    until(lambda: lab.status(asked[0]).state == "running")
    lab.cancel(*asked)
    until(lambda: not lab.active())
    ended = [lab.status(run) for run in asked]
    assert {each.state for each in ended} == {"cancelled"}
    assert [each.started_at is None for each in ended] == [False, True, True]


def test_a_batch_whose_time_is_over_cancels_its_run_and_keeps_what_was_measured(lab):
    batch = Batch(lab, deadline=time.monotonic() + 1.0)
    assert batch.run(experiment(ENDLESS)) == (None, None) and batch.is_over
    assert batch.is_idle and not lab.active()


def test_a_model_is_estimated_without_a_run_and_a_thread_tells_how_it_goes(lab, store):
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    seen = []
    search = Search(lab, store, question, None)
    answer = carried_out(search, "search", lambda one: seen.append(one.state), 0.05).answer
    assert answer.complete and answer.winner.stage == "estimated" and runs(lab) == 0
    assert seen[0] == "running"  # its end may come between two looks


def test_a_plan_that_was_compiled_elsewhere_is_compiled_in_a_search_that_is_opened(lab, store):
    question = read_question(
        {"model": "scaled:1", "chips": ["v5e:4x4"], "global_batch": 32, "remat": ["minimal"]}
    )
    first = Search(lab, store, question, None)
    winner = first.run().winner
    assert winner.stage == "estimated"
    run = lab.submit(winner.experiment)
    assert lab.wait(run, PATIENCE_S).state == "succeeded"
    opened = Search(lab, store, question, None)
    known = next(each for each in opened.run().found if each.number == winner.number)
    assert known.run == run and known.stage != "estimated" and runs(lab) == 1
    assert store.outcomes(question.id)[winner.number]["run"] == run


@pytest.mark.parametrize(
    ("model", "chips", "batch"),
    [
        ("llama-3.1-70b", "v5e:128", 512),
        pytest.param("llama-3.1-8b", "v5e:16", 512, marks=whole),
        ("llama-3.1-8b", "v5e:32", 4096),
    ],
)
def test_a_search_has_the_plan_that_predict_finds_and_so_has_one_opened_again(
    lab, store, model, chips, batch
):
    asked = {"model": model, "chips": [chips], "global_batch": batch, "sequence": 8192}
    question = read_question(asked)
    (best,) = best_plans(question)
    first, again = (Search(lab, store, question, None).run() for _ in range(2))
    for answer in (first, again):
        assert best.name in {each.candidate.name for each in answer.ranking}
        assert answer.ranking[0].score <= best.seconds / best.tokens * (1 + SAME)
        assert (answer.winner is None) is (best.fits != "yes")
        assert sum(answer.counts.values()) == answer.space
    assert len({each.number for each in first.found}) == len(first.found)


def test_a_compiler_that_is_not_here_fails_no_candidate(lab, store, monkeypatch):
    monkeypatch.setattr("spmd_core.machine.absent.plugin_version", lambda: None)
    question = read_question(
        {"model": "scaled:1", "chips": ["h100:8"], "global_batch": 32, "remat": ["minimal"]}
    )
    answer = Search(lab, store, question, PATIENCE_S).run()
    assert answer.counts["failed"] == 0 and answer.winner.stage == "estimated" and runs(lab) == 0
    assert next_words(answer).startswith("Not compiled: the compiler for GPUs is not installed")
    assert next_label(answer) == "Search again"


@pytest.mark.parametrize("few", [1, 60])
def test_a_search_opened_again_says_what_it_said(lab, store, few, monkeypatch):
    choose = CandidateChoice.next

    def next_few(choice, answer):
        return choose(choice, answer) if len(choice.tried) < few else []

    monkeypatch.setattr(CandidateChoice, "next", next_few)
    first = search(lab, store)
    said = first.run()
    again = Search(lab, store, first.question, None).run()
    assert search_headline(again) == search_headline(said)
    assert (state_words(again), next_words(again)) == (state_words(said), next_words(said))
    assert answer_json(again) == answer_json(said) and said.complete == (few > 1)


def test_what_cannot_win_is_pruned_by_its_bound_and_by_nothing_else(lab, store):
    one = search(lab, store)
    one._enumerate(1e9)
    best = next(each for each in one.answer.found if each.stage == "estimated")
    lowest = min(each.bound_s for each in one.answer.found if each.stage == "estimated")
    one._keep(
        [
            type(best)(
                best.number,
                best.name,
                best.target,
                8,
                "measured",
                measured_s=lowest * 1.5,
                point=best.point,
            )
        ]
    )
    one._keep(CandidateChoice(one.question, one.space, draws=False).ruled_out(one.answer.found))
    for each in one.answer.found:
        if each.reason == "lower bound above the best":
            assert each.bound_s > lowest * 1.5
        elif each.stage == "estimated":
            assert each.bound_s <= lowest * 1.5
    bodies = store.outcomes(one.question.id).values()
    rules = [each["detail"] for each in bodies if each["fate"] == "pruned"]
    assert rules and all(set(each) == {"kind", "values"} for each in rules), "facts are stored"
    again = search(lab, store, None).run()
    assert [each.detail for each in again.found] == [each.detail for each in one.answer.found]


class Canned(Runs):
    """Runs whose results are given, by the spread of their times."""

    def __init__(self, *spreads):
        super().__init__(None)
        self.left = [result({"auto": strategy(1.0) | {"iqr_s": each}}) for each in spreads]

    def run(self, experiment, compile_only=False):
        return None, self.left.pop(0)


@pytest.mark.parametrize(
    ("spreads", "kept", "disturbed"), [((0.1,), 0.1, 0), ((0.6, 0.2), 0.2, 1), ((0.6, 0.9), 0.6, 1)]
)
def test_times_that_spread_are_measured_once_more(spreads, kept, disturbed):
    runs = Canned(*spreads)
    assert spread(runs.steady(experiment())[1]) == kept and not runs.left
    assert runs.disturbed == disturbed
