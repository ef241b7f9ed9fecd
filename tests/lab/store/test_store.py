"""The store on a real SQLite file."""

import os
import sqlite3
import stat
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from spmd_core.base import StorageError
from spmd_core.experiment import parse_experiment
from spmd_core.lab.store import database as store_module
from spmd_core.lab.store.archived import Incoming
from spmd_core.lab.store.database import FILE_NAME
from spmd_core.lab.store.migrations import MIGRATIONS, list_by_moment
from spmd_core.lab.store.store import Store
from spmd_core.results import Comparison, Environment, Failure, Result, StrategyResult
from spmd_core.runs import TIMING, Labels, RunStatus
from tests.labs import ROOT, experiment
from tests.results.test_study import RESULT, STUDY

ENVIRONMENT = Environment(
    jax="0", jaxlib="0", python="3", platform="cpu", device_kind="cpu", device_count=8
)


@pytest.fixture
def store(data_folder):
    store = Store(data_folder)
    yield store
    store.close()


def result_of(run, median=0.5, **changes):
    comparison = Comparison(fastest="single", ratios=(), tied=(), sentence="single is fastest")
    return Result(
        run=run,
        experiment=experiment(),
        environment=ENVIRONMENT,
        comparison=comparison,
        strategies={"single": StrategyResult(status="ok", median_s=median)},
        **changes,
    )


def submit_and_start(store, run="a"):
    store.submit(run, experiment())
    assert store.start(run)


def test_the_folder_is_the_users_own_and_the_journal_is_a_rollback_journal(store, data_folder):
    assert stat.S_IMODE(data_folder.stat().st_mode) == 0o700
    settings = {
        name: store._writer.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "mmap_size", "foreign_keys")
    }
    assert settings == {
        "journal_mode": "delete",
        "synchronous": 2,
        "mmap_size": 0,
        "foreign_keys": 1,
    }


def test_runs_leave_the_queue_in_the_order_in_which_they_came(store):
    for run in ("b", "a", "c"):
        store.submit(run, experiment())
    assert [status.queue_position for status in store.active()] == [1, 2, 3]
    assert store.next_queued("timing").run == "b"
    assert store.start("b")
    assert not store.start("b")
    assert store.next_queued("timing").run == "a"
    seen = [(status.run, status.state, status.queue_position) for status in store.active()]
    assert seen == [("b", "starting", None), ("a", "queued", 1), ("c", "queued", 2)]


def test_equal_experiments_are_stored_once(store):
    for run in ("a", "b"):
        store.submit(run, experiment())
    assert store._rows("SELECT COUNT(*) AS n FROM experiments")[0]["n"] == 1
    assert store.status("a").experiment == experiment()


def test_one_terminal_state_once_with_its_result(store):
    submit_and_start(store)
    assert store.finish(
        "a", "succeeded", result=result_of("a"), texts={"single": {"hlo": "HloModule"}}
    )
    assert not store.finish(
        "a", "crashed", result=result_of("a", 9.0), error=Failure(kind="late", message="too late")
    )
    status = store.status("a")
    assert (status.state, status.error) == ("succeeded", None)
    assert store.result("a") == result_of("a")
    assert store.texts("a", "single") == {"hlo": "HloModule"}
    assert store.texts("a", "auto") == {}
    with pytest.raises(ValueError, match="running is not a terminal state"):
        store.finish("a", "running")


def test_a_result_that_cannot_be_written_leaves_the_run_as_it_was(store):
    submit_and_start(store)
    store._writer.execute("DROP TABLE texts")
    with pytest.raises(StorageError):
        store.finish(
            "a", "succeeded", result=result_of("a"), texts={"single": {"hlo": "HloModule"}}
        )
    assert store.status("a").state == "starting"
    assert store.result("a") is None


def test_a_cancelled_run_cannot_be_started_and_a_started_one_not_taken_out_of_the_queue(store):
    store.submit("a", experiment())
    assert store.cancel_queued("a")
    assert not store.start("a")
    submit_and_start(store, "b")
    assert not store.cancel_queued("b")


def test_progress_is_kept_for_followers_and_gone_at_the_end_but_for_who_was_left_out(store):
    submit_and_start(store)
    started = store.status("a")
    store.note(
        RunStatus(
            "a",
            "running",
            started.experiment,
            started.submitted_at,
            phase="sample",
            strategy="auto",
            done=3,
            of=20,
            medians_s={"auto": 1e-3},
            series={"loss": (1.0, 0.5)},
            worker_pid=12,
            left_out="a worker failed",
        )
    )
    status = store.status("a")
    assert (
        status.state,
        status.phase,
        status.strategy,
        status.done,
        status.of,
        status.worker_pid,
    ) == ("running", "sample", "auto", 3, 20, 12)
    assert (status.medians_s, status.series) == ({"auto": 1e-3}, {"loss": (1.0, 0.5)})
    store.finish(
        "a",
        "crashed",
        error=Failure(kind="WorkerCrashed", message="it died"),
        stderr_tail="last words",
    )
    status = store.status("a")
    assert (status.phase, status.left_out, status.error.message, status.stderr_tail) == (
        None,
        "a worker failed",
        "it died",
        "last words",
    )
    store.note(RunStatus("a", "running", started.experiment, started.submitted_at))
    assert store.status("a").state == "crashed"


def test_a_run_that_nobody_works_goes_back_to_its_place_where_its_client_lives(store):
    for run, client in (("gone", 1), ("cancelled", 2), ("lives", 2), ("nobody's", None)):
        store.submit(run, experiment(), client=client)
        store.start(run)
    store.submit("queued", experiment(), client=1)
    store.ask("cancel", run="cancelled")
    store.give_back(lambda client: client == 2)
    states = {status.run: status.state for status in store.active()}
    assert states == {"lives": "queued", "queued": "queued"}
    assert [store.status(run).state for run in ("gone", "cancelled", "nobody's")] == [
        "interrupted",
        "cancelled",
        "interrupted",
    ]
    assert store.status("lives").queue_position == 1


def test_runs_are_abandoned_whose_place_in_the_queue_does_not_outlast_their_client(store):
    for run, client, lasts in (("kept", 1, True), ("left", 1, False), ("awaited", 2, False)):
        store.submit(run, experiment(), client=client, lasts=lasts)
    assert store.abandoned(lambda client: client == 2) == ("left",)


def test_history_filters_and_is_cheap_for_hundreds_of_runs(store):
    # 900 commits, each on the disk, would be all that this test does
    store._writer.execute("PRAGMA synchronous = OFF")
    for number in range(300):
        submit_and_start(store, f"run-{number:03}")
        store.finish(
            f"run-{number:03}",
            "failed" if number % 3 == 0 else "succeeded",
            result=result_of(f"run-{number:03}", number),
        )
    submit_and_start(store, "crashed")
    store.finish("crashed", "crashed", error=Failure(kind="WorkerCrashed", message="it died"))
    asked = []
    store._reader.set_trace_callback(asked.append)
    newest = store.history()
    store._reader.set_trace_callback(None)
    # one question, and no whole result is read
    assert len(asked) == 1 and "result" not in asked[0].lower()
    assert len(newest) == 200
    assert (newest[0].run, newest[0].error.message, newest[0].medians_s) == (
        "crashed",
        "it died",
        {},
    )
    assert (newest[1].run, newest[1].medians_s, newest[1].fastest, newest[1].partial) == (
        "run-299",
        {"single": 299.0},
        "single",
        False,
    )
    assert len(store.history(states=("failed", "crashed"), limit=500)) == 101
    assert [summary.run for summary in store.history(runs=("run-017", "none"))] == ["run-017"]
    assert len(store.history(where=lambda run: run.run < "run-1", limit=3)) == 3
    assert len(store.history(experiment=newest[1].experiment.id, limit=500)) == 301
    assert store.history(experiment="none") == ()
    assert store.history(workload="layer") == ()


def test_deleting_takes_results_texts_and_lonely_experiments_and_spares_the_active(store):
    submit_and_start(store)
    store.finish("a", "succeeded", result=result_of("a"), texts={"single": {"hlo": "HloModule"}})
    store.submit("b", experiment(seed=1))
    assert store.delete(["a", "b", "unknown"]) == 1
    counts = {
        table: store._rows(f"SELECT COUNT(*) AS n FROM {table}")[0]["n"]
        for table in ("runs", "results", "texts", "experiments")
    }
    assert counts == {"runs": 1, "results": 0, "texts": 0, "experiments": 1}


def test_requests_are_answered_once_and_in_order(store):
    first, second = store.ask("cancel", run="a"), store.ask("probe", target="cpu:8")
    assert [
        (request.id, request.kind, request.run, request.target) for request in store.requests()
    ] == [(first, "cancel", "a", None), (second, "probe", None, "cpu:8")]
    store.answer(first)
    store.answer(second, "no devices")
    assert store.requests() == ()
    assert (store.request(second).answered, store.request(second).error) == (True, "no devices")


def test_environments_are_kept_per_target(store):
    store.keep_environment("cpu:8", ENVIRONMENT)
    assert store.environment("cpu:8") == ENVIRONMENT
    assert store.environment("local") is None
    since = store.environment_seen_at("cpu:8")
    store.keep_environment("cpu:8", ENVIRONMENT)
    assert (
        since <= store.environment_seen_at("cpu:8") and store.environment_seen_at("local") is None
    )


def test_what_was_written_is_there_after_reopening(data_folder):
    first = Store(data_folder)
    submit_and_start(first)
    first.finish("a", "succeeded", result=result_of("a"))
    first.close()
    second = Store(data_folder)
    assert second.result("a") == result_of("a")
    assert [row["name"] for row in second._rows("SELECT name FROM migrations ORDER BY name")] == [
        name for name, _ in MIGRATIONS
    ]
    second.close()


def test_a_new_step_is_applied_once_and_a_failing_one_leaves_nothing(data_folder, monkeypatch):
    Store(data_folder).close()
    broken = ("0002 broken", ("ALTER TABLE runs ADD COLUMN comment TEXT", "CREATE NONSENSE"))
    monkeypatch.setattr(store_module, "MIGRATIONS", (*MIGRATIONS, broken))
    with pytest.raises(StorageError, match="syntax error"):
        Store(data_folder)
    added = ("0002 comments", ("ALTER TABLE runs ADD COLUMN comment TEXT",))
    monkeypatch.setattr(store_module, "MIGRATIONS", (*MIGRATIONS, added))
    for _ in range(2):
        store = Store(data_folder)
        assert [row["name"] for row in store._rows("PRAGMA table_info(runs)")].count("comment") == 1
        store.close()


def test_a_database_of_a_newer_version_is_left_alone(data_folder):
    store = Store(data_folder)
    store._writer.execute("INSERT INTO migrations VALUES ('0999 from the future', 0)")
    store.close()
    before = (data_folder / FILE_NAME).read_bytes()
    with pytest.raises(
        StorageError,
        match="'0999 from the future' of a newer SPMD Lab: update SPMD Lab, or name another folder",
    ):
        Store(data_folder)
    assert (data_folder / FILE_NAME).read_bytes() == before


def test_a_file_that_is_no_database_is_refused_in_a_sentence(data_folder):
    data_folder.mkdir()
    (data_folder / FILE_NAME).write_text("a text, and no database at all\n" * 100)
    with pytest.raises(StorageError, match="not a database: move the file away"):
        Store(data_folder)


def test_a_folder_that_cannot_be_made_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        StorageError,
        match="Not a directory: name a folder that can be read and written in SPMD_LAB_DATA",
    ) as caught:
        Store(tmp_path / "file" / "data")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_an_unreadable_folder_is_refused_in_a_sentence(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o000)
    with pytest.raises(StorageError, match="unable to open"):
        Store(folder)


def test_a_database_that_stays_locked_is_refused_in_a_sentence(data_folder, monkeypatch):
    monkeypatch.setattr(store_module, "BUSY_TIMEOUT_S", 0.1)
    store = Store(data_folder)
    other = sqlite3.connect(data_folder / FILE_NAME, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(
            StorageError, match="database is locked: another program holds the database"
        ):
            store.submit("a", experiment())
        with pytest.raises(StorageError, match="database is locked"):
            store.active()
    finally:
        other.execute("ROLLBACK")
        other.close()
    store.submit("a", experiment())
    assert len(store.active()) == 1
    store.close()


@pytest.mark.slow
def test_processes_that_write_at_once_lose_nothing(store, data_folder):
    program = """
import sys
from pathlib import Path
from spmd_core.lab.store.store import Store
from tests.labs import experiment
store = Store(Path(sys.argv[1]))
for number in range(50):
    store.submit(f"{sys.argv[2]}-{number}", experiment())
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(data_folder), name], cwd=ROOT)
        for name in ("one", "two")
    ]
    for number in range(50):
        store.submit(f"three-{number}", experiment())
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(store.active()) == 150


def test_what_was_predicted_is_in_the_list_of_runs_and_older_files_go_on(data_folder):
    with pytest.MonkeyPatch.context() as patch:
        # a file that an earlier version left
        patch.setattr(store_module, "MIGRATIONS", MIGRATIONS[:1])
        Store(data_folder).close()
    store = Store(data_folder)
    submit_and_start(store)
    time = {"low": 0.1, "estimate": 0.2, "high": 0.3}
    found = {
        "auto": StrategyResult.model_validate({"status": "ok", "predicted_s": time}),
        "single": StrategyResult.model_validate(
            {"status": "ok", "predicted_s": time, "median_s": 0.5}
        ),
    }
    assert store.finish(
        "a",
        "succeeded",
        result=Result(run="a", experiment=experiment(), environment=ENVIRONMENT, strategies=found),
    )
    (summary,) = store.history()
    assert (summary.predicted_s, summary.answer) == ({"auto": 0.2}, ("auto", 0.2, True))
    store.close()


def test_how_long_the_last_run_of_a_kind_took(store):
    assert store.last_took_s(experiment()) is None
    for run in ("a", "b"):
        submit_and_start(store, run)
        store.finish(run, "succeeded", result=result_of(run))
    store.submit("c", experiment())
    store.start("c")
    store.finish("c", "cancelled")
    took = store.last_took_s(experiment())
    status = store.status("b")
    assert took == pytest.approx(status.finished_at - status.started_at)
    assert store.last_took_s(experiment(target="cpu:4", mesh={"x": 4})) is None


def test_an_extreme_moment_is_an_unreadable_run_and_not_the_end_of_the_list(tmp_path):
    from bench.odd_surroundings import read_all, sql
    from bench.values import result, strategy

    store = Store(tmp_path)
    for run in ("20260101-000000-aaaaaa", "20260101-000000-bbbbbb"):
        found = result({"auto": strategy(1e-5)}, run=run)
        store.submit(run, found.experiment)
        store.start(run)
        store.finish(run, "succeeded", result=found)
    store.close()
    for column in ("submitted_at", "finished_at"):
        sql(f"UPDATE runs SET {column} = 1e18 WHERE id LIKE '%bbbbbb'")(tmp_path)
        store = Store(tmp_path)
        assert [each.run for each in store.history()] == ["20260101-000000-aaaaaa"]
        assert [each.run for each in store.unread()] == ["20260101-000000-bbbbbb"]
        store.close()
        assert read_all(tmp_path) is None


def test_bytes_that_are_no_text_in_the_schema_are_a_sentence(tmp_path):
    Store(tmp_path).close()
    path = tmp_path / "lab.sqlite3"
    data = path.read_bytes()
    at = data.index(b"CREATE TABLE migrations")
    path.write_bytes(data[:at] + b"\xff\xfe" * 10 + data[at + 20 :])
    with pytest.raises(StorageError, match="malformed"):
        Store(tmp_path).history()


def test_a_study_is_one_row_from_the_queue_to_the_history(tmp_path):
    store = Store(tmp_path)
    store.submit(RESULT.run, STUDY)
    queued = store.next_queued(TIMING)
    assert queued is not None and queued.experiment == STUDY
    assert [row.key for row in queued.experiment.rows] == list(RESULT.strategies)
    store.start(RESULT.run)
    texts = {"a/b/auto": {"program": "text"}}
    assert store.finish(RESULT.run, "succeeded", result=RESULT, texts=texts)
    assert store.result(RESULT.run) == RESULT and store.latest(STUDY.id) == RESULT.run
    assert store.texts(RESULT.run, "a/b/auto") == texts["a/b/auto"]
    (listed,) = store.history()
    assert listed.experiment == STUDY and listed.answer == ("a/b/auto", 1e-5, False)
    # its first variant alone is another experiment
    assert store.latest(parse_experiment(STUDY.to_json() | {"variants": None}).id) is None
    store.close()


# The order of a list --------------------------------------------------------------------------


def test_a_clock_that_was_ahead_leads_no_list_once_it_is_right(store, monkeypatch):
    now = time.time()
    for run, at in (("a", now), ("ahead", now + 3600), ("b", now + 1), ("c", now + 2)):
        clock = SimpleNamespace(time=lambda at=at: at)
        monkeypatch.setattr("spmd_core.lab.store.queue.time", clock)
        store.submit(run, experiment())
    assert [each.run for each in store.history()] == ["c", "b", "ahead", "a"]
    assert store.status("ahead").submitted_at == now + 3600  # which is what its row shows


def test_a_foreign_run_of_a_clock_ahead_is_listed_at_its_import(store):
    year_2223, year_2001 = 8e9, 1e9
    for run, moment in (("foreign", year_2223), ("older", year_2001)):
        columns = {"state": "failed", "submitted_at": moment}
        incoming = Incoming(run, experiment(), columns, Labels(), None, ())
        store.submit(f"before {run}", experiment())
        store.import_runs([(incoming, "0123456789ab")])
    listed = [each.run for each in store.history()]
    assert listed == ["before older", "foreign", "before foreign", "older"]
    store.submit("after", experiment())
    assert store.history()[0].run == "after"


def test_runs_that_a_version_of_before_stored_are_listed_in_that_order_too(store):
    for run, moment in (("a", 10.0), ("ahead", 99.0), ("b", 11.0), ("c", 12.0)):
        store.submit(run, experiment())
        store._write("UPDATE runs SET submitted_at = ? WHERE id = ?", (moment, run))
    store._write("UPDATE runs SET listed_at = 0")
    with store._transaction() as db:
        list_by_moment(db)
    assert [each.run for each in store.history()] == ["c", "b", "ahead", "a"]
    assert [row["listed_at"] for row in store._rows("SELECT listed_at FROM runs ORDER BY seq")] == [
        10.0,
        11.0,
        11.0,
        12.0,
    ]
