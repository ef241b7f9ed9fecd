"""What would remove a run's collectives, tried through real processes of the compiling lane."""

import re

import pytest

from spmd_core.advice import removal_words
from spmd_core.base import WorkerError
from spmd_core.commands.remedies import with_tried
from spmd_core.facts import Collective, Remedy
from spmd_core.lab import Lab
from spmd_core.runs import COMPILING
from spmd_core.trials import RemedySearch, carried_out, with_remedies
from spmd_core.trials.remedies import arrays
from spmd_core.trials.remedies.candidate import AlikeCollectives
from spmd_core.trials.trying import remedy_search as search_module, trial as trial_module
from spmd_core.trials.trying.remedy_searches import known, store
from tests.labs import HASTY, PATIENCE_S, STANDIN, experiment, until
from tests.standin import sitecustomize as standin

SUM = {
    "workload": "contraction",
    "dims": {"rows": 4096, "cols": 1024},
    "mesh": {"x": 8},
    "sharding": {"rows": "x"},
    "strategies": ["auto"],
}
SUM_OVER_X = Collective(kind="all-reduce", axes=("x",), bytes=2**24, count=1)


@pytest.fixture
def lab(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    return Lab.open(data_folder, settings=HASTY)


def compiled(lab, **changes):
    """A run that was only compiled, and its result."""
    run = lab.submit(experiment(standin.SUMS, **SUM | changes), compile_only=True)
    assert lab.status(run).lane == COMPILING and lab.wait(run, PATIENCE_S).state == "succeeded"
    return lab.result(run)


def test_a_candidate_that_ends_the_compiler_costs_itself_alone(lab, monkeypatch):
    result = compiled(lab)
    search = RemedySearch(lab, store(lab), result)
    seen = []
    monkeypatch.setattr(
        RemedySearch,
        "_keep",
        lambda search, state, keep=RemedySearch._keep: (
            seen.append((state, dict(search._first), search.first)),
            keep(search, state),
        ),
    )
    fatal, *_ = arrays.candidates(result.experiment, "auto", SUM_OVER_X)
    assert "cols" in dict(fatal.experiment.sharding), "the first one"
    search.run()
    assert search.state == "done" and search._compiled[fatal.experiment.id] is None
    found, *_ = with_remedies(result, search.answers).strategies["auto"].collectives or ()
    assert isinstance(found.remove, Remedy) and found.remove.removes
    assert found.remove.memory_bytes == 2**20
    assert found.remove.predicted_s.after < found.remove.predicted_s.before
    assert found.remove.sentence.startswith(
        "store array `x` sharded over axis `x` along dim `cols`: no all-reduce over `x`; +1.0 MiB of peak per device"
    )
    assert known(lab, result.run) == ("done", search.answers), "as stored"
    assert not removal_words(search.answers["auto"][0]), "facts alone"
    # the first that helped was known before the search was over, and then gave way to the answer
    assert seen[0][0] == "running" and isinstance(seen[0][1]["auto"][0], Remedy)
    assert search.first == {}
    assert lab.history() == () and lab.latest(result.experiment) is None


def test_a_search_that_stops_says_so_in_its_answer(lab, monkeypatch, capsys):
    result = compiled(lab)

    def stops(search, trials):
        raise WorkerError("the scheduler is gone")

    monkeypatch.setattr(RemedySearch, "_work_off", stops)
    answered, interrupted = with_tried(lab, result)
    note = "what removes collectives was not tried to the end: the scheduler is gone"
    assert answered.notes[-1] == note and not interrupted
    assert capsys.readouterr() == ("", ""), "not on stderr, which no reader of the answer sees"


def test_candidates_for_absent_devices_are_compiled_ahead_and_judged_in_their_order(
    lab, monkeypatch
):
    monkeypatch.setattr(search_module, "is_current", lambda result: True)
    result = compiled(lab)
    absent = result.experiment.vary(target="tpu:v5e:2x4")
    search = RemedySearch(lab, store(lab), result.model_copy(update={"experiment": absent}))
    given = search._candidates(absent.rows[0], AlikeCollectives((0,), SUM_OVER_X, 1.0))
    search.run()
    assert search.state == "done" and not lab.active()
    found = search.answers["auto"][0]
    assert isinstance(found, Remedy) and found.removes
    names = [each.experiment.id for each in given]
    assert names.index(found.experiment.id) == 1, (
        "the first one is fatal, and the second settles it"
    )
    runs = lab.history(searched=True)
    compiled_ = {each.experiment.id for each in runs}
    assert {*names[:2]} <= compiled_ <= {*names[:4]}, "at most two ahead of it"
    assert lab.latest(found.experiment)
    again = RemedySearch(lab, store(lab), result.model_copy(update={"experiment": absent}))
    assert again.run() == search.answers
    assert len(lab.history(searched=True)) == len(runs) + 1, "all but the fatal one are known"


def test_without_a_predicted_time_nothing_is_tried_and_it_says_what_to_do(lab):
    result = compiled(lab)
    unknown = result.environment.model_copy(update={"simulated": False})
    search = RemedySearch(lab, store(lab), result.model_copy(update={"environment": unknown}))
    assert search.run() == {} and search.state == "stopped"
    assert "calibrate it with this mesh first" in search.problem
    assert known(lab, result.run) is None, "nothing is kept"


def test_what_was_found_stays_when_it_is_cancelled(lab):
    result = compiled(lab)
    slow = result.model_copy(update={"experiment": result.experiment.vary(seed=standin.ROUNDS)})
    search = RemedySearch(lab, store(lab), slow)

    def interrupt(_):
        if lab.active():
            raise KeyboardInterrupt

    assert carried_out(search, "remedies", interrupt).answers == {}
    assert search.state == "cancelled" and search.answers == {}
    until(lambda: not lab.active())
    assert known(lab, result.run) == ("cancelled", {})


def test_what_the_time_leaves_is_tried_by_the_next_one(lab):
    result = compiled(lab)
    search = RemedySearch(lab, store(lab), result, seconds=0.0)
    assert search.run() == {} and search.state == "stopped"
    assert re.fullmatch(
        r"1 of 1 collectives is left after \S+ \S+: no change is begun after 0 s", search.problem
    )
    further = RemedySearch(lab, store(lab), result, known=search.answers, before=search)
    assert further.run() and further.state == "done"
    again = RemedySearch(
        lab, store(lab), result, seconds=0.0, known=further.answers, before=further
    )
    assert again.run() == further.answers and again.state == "done", "nothing is left"


def test_time_that_runs_short_is_spent_on_timing_what_may_help(lab, monkeypatch):
    """Half of the time is over at once: what may help is timed before all are compiled."""
    monkeypatch.setattr(search_module, "_HURRY", 0.0)
    timed, judged = [], []

    def beside(search, trial, candidate):
        timed.append(candidate)
        judged.append(trial.judged)
        return

    monkeypatch.setattr(RemedySearch, "_timed", beside)
    monkeypatch.setattr(trial_module, "doubtful", lambda *given: given[-1][-1].candidate)
    monkeypatch.setattr(trial_module, "settles", lambda *given: False)
    search = RemedySearch(lab, store(lab), compiled(lab), seconds=PATIENCE_S)
    search.run()
    assert search.state == "done" and judged == [1] and timed and search.partial == {}


def test_what_was_judged_of_a_collective_that_the_time_left_is_known(lab, monkeypatch):
    result = compiled(lab)
    search = RemedySearch(lab, store(lab), result, seconds=PATIENCE_S)
    judge = trial_module.RemedyTrial.judge

    def once(trial, tried):
        judge(trial, tried)
        search._until = 0.0

    monkeypatch.setattr(trial_module.RemedyTrial, "judge", once)
    search.run()
    assert search.state == "stopped" and search.problem and not search.answers.get("auto")
    assert set(search.partial) == {"auto"} and search.partial["auto"][0].tried
