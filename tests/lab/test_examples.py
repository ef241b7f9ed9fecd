"""Results that came with the program: there from the start, and never an answer for this machine."""

import json
import re

import pytest

from spmd_core.base import Settings, seconds_text
from spmd_core.commands.notebook.named import run_named
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab, examples
from spmd_core.recipes import get_recipe
from spmd_core.words import parts, run_headline

pytestmark = pytest.mark.fast


@pytest.fixture
def fresh(data_folder):
    lab = Lab.open(data_folder, serve=False, settings=Settings())
    yield lab
    lab.close()  # with the worker of what was submitted, and its pipes


def test_a_new_folder_takes_ten_in_once(fresh):
    taken = fresh.archives.take_examples()
    assert len(taken) == 10 and set(taken) == set(examples.run_ids())
    assert fresh.archives.take_examples() == ()
    fresh.delete(taken)
    assert fresh.archives.take_examples() == ()  # who deleted them has done with them


@pytest.mark.parametrize("before", [0, 1])
def test_a_folder_with_runs_takes_them_in_also_where_an_older_version_kept_them_out(fresh, before):
    fresh.submit(get_recipe("psum").experiment)
    fresh._store._write(f"UPDATE installation SET examples = {before}")
    taken = fresh.archives.take_examples()
    assert set(taken) == set(examples.run_ids())
    assert not set(taken) & {each.run for each in fresh.history()}
    fresh.delete(taken)
    fresh._store._write("UPDATE installation SET examples = 1")  # of who deleted them by then
    assert fresh.archives.take_examples() == ()


def test_they_are_of_the_experiments_that_the_texts_name(fresh):
    fresh.archives.take_examples()
    entries = json.loads(examples.SPECS.read_text("utf-8"))["runs"]
    for run, entry in zip(examples.run_ids(), entries, strict=True):
        spec = entry.get("spec")
        asked = parse_experiment(spec) if spec else get_recipe(entry["recipe"]).experiment
        status, result = fresh.status(run), fresh.result(run)
        assert (status.experiment, status.state) == (asked, "succeeded")
        assert result and all(each.status == "ok" for each in result.strategies.values())
        assert fresh.notebook.labels(run).name == entry["name"]


def test_they_answer_for_nothing_here(fresh):
    runs = fresh.archives.take_examples()
    experiments = [fresh.status(run).experiment for run in runs]
    assert [fresh.latest(each) for each in experiments] == [None] * 10
    assert [fresh.last_took_s(each) for each in experiments] == [None] * 10
    assert fresh.succeeded() == frozenset() and fresh.archives.every() == ()
    assert fresh.history() == () and fresh.history(source="here") == ()
    assert len(fresh.history(source="examples")) == len(fresh.history(text="is:example")) == 10
    with pytest.raises(Exception, match="0 are stored"):
        run_named(fresh, "last")


def test_the_tour_is_of_six_clicks_over_them():
    stops = examples.stops()
    assert len(stops) == 6
    every = (*stops, *examples.stops("page"))
    assert {run for stop in every for run in stop.runs} <= set(examples.run_ids())


def test_their_texts_are_no_surer_than_their_results(fresh):
    fresh.archives.take_examples()
    for stop in (*examples.stops(), *examples.stops("page")):
        if len(stop.runs) == 1 and (result := fresh.result(stop.runs[0])):
            is_open = run_headline(result).startswith("Cannot tell")
            assert is_open == ("cannot tell" in stop.look.lower())


def test_the_page_quotes_the_times_of_its_steps(fresh):
    fresh.archives.take_examples()
    (stop,) = [each for each in examples.stops("page") if len(each.runs) == 2]
    outcomes = [fresh.result(run).strategies["auto"].prediction for run in stop.runs]
    before, after = [sum(each.shares_s.values()) for each in outcomes]
    added = parts(outcomes[1])["exposed over tensor"]
    saved = added - (after - before)
    assert [seconds_text(each) for each in (added, saved)] == re.findall(r"[\d.]+ ms", stop.look)
