"""Several processes on one data folder, and what is left when one of them is killed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from spmd_core.lab import Lab
from spmd_core.lab.supervisor.folder_lock import FILE_NAME as CLIENTS
from tests.cover import whole
from tests.labs import (
    HASTY,
    PATIENCE_S,
    ROOT,
    STANDIN,
    experiment,
    is_running,
    start_python,
    until,
)
from tests.standin import sitecustomize as standin

SERVE = """
import sys
from pathlib import Path
from spmd_core.lab.lab import Lab
from tests.labs import PATIENT, experiment, until
lab = Lab.open(settings=PATIENT)
for behaviour in sys.argv[1:]:
    print(lab.submit(experiment(int(behaviour))), flush=True)
until(lambda: lab.queue_holder)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def standin_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setenv("STANDIN_LOG", str(tmp_path / "log"))


@pytest.fixture
def dashboard(data_folder):
    """Starts a process that works the queue, as a dashboard does; it is killed at the end."""
    started = []

    def start(*behaviours):
        process = start_python(SERVE, data_folder, *map(str, behaviours))
        started.append(process)
        runs = [process.stdout.readline().strip() for _ in behaviours]
        assert process.stdout.readline() == "ready\n"
        return process, runs

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def follower(data_folder):
    """A Lab of this process that works the queue only for its own runs, as the command line does."""
    return Lab.open(data_folder, serve=False, settings=HASTY)


@pytest.fixture
def command_line(data_folder, follower):
    """Starts `run` of an experiment, and gives its process and its run; it is killed at the end."""
    started = []

    def start(*what, **changes):
        known = {summary.run for summary in follower.history()}
        process = subprocess.Popen(
            [sys.executable, "-m", "spmd_core", "run", "-", "--json"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": f"{STANDIN}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        process.stdin.write(json.dumps(experiment(*what, **changes).to_json()))
        process.stdin.close()
        process.stdin = None
        return process, until(
            lambda: next((each.run for each in follower.history() if each.run not in known), None)
        )

    yield start
    for process in started:
        process.kill()
        process.communicate()


def in_progress(lab, run):
    """Wait until a run has left the queue."""
    until(lambda: lab.status(run).state in ("starting", "running"))


def runs_started(tmp_path):
    log = tmp_path / "log"
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.parametrize("behaviour", [standin.ROUNDS, pytest.param(standin.ENDLESS, marks=whole)])
def test_killing_the_dashboard_leaves_no_orphan_and_the_queue_goes_on_after_a_restart(
    dashboard, follower, data_folder, tmp_path, behaviour
):
    process, (first, second) = dashboard(behaviour, standin.QUICK)
    pid = until(lambda: (status := follower.status(first)).state == "running" and status.worker_pid)
    assert follower.status(first).waiting_for is None
    until(lambda: runs_started(tmp_path) == [first])  # it is said to run before its worker has it
    process.kill()
    process.wait()
    until(lambda: not is_running(pid))
    assert follower.status(first).state == "interrupted"  # by who only reads
    assert [(summary.run, summary.state) for summary in follower.history()] == [
        (second, "queued"),
        (first, "interrupted"),
    ]
    assert [summary.run for summary in follower.history(state="interrupted")] == [first]
    assert follower.history(state="running") == ()
    assert "open the dashboard" in follower.status(second).waiting_for
    dashboard()
    assert follower.wait(second, PATIENCE_S).state == "succeeded"
    assert follower.status(first).state == "interrupted"
    # what was interrupted is not silently run again
    assert runs_started(tmp_path) == [first, second]


def test_one_process_works_the_queue_and_the_other_follows(dashboard, follower, tmp_path):
    process, (theirs,) = dashboard(standin.ROUNDS)
    ours = follower.submit(experiment())
    assert until(lambda: follower.queue_holder) == process.pid
    assert until(lambda: follower.status(theirs).done)  # progress crosses the database
    assert follower.status(ours).queue_position == 1
    assert follower.worker_pid is None
    follower.cancel(theirs)
    assert follower.wait(theirs, PATIENCE_S).state == "cancelled"
    assert follower.wait(ours, PATIENCE_S).state == "succeeded"
    assert follower.result(ours).strategies["single"].median_s == 0.001
    assert follower.texts(ours, "single") == {"program": "text text "}
    assert runs_started(tmp_path) == [theirs, ours]
    # one worker for both
    assert len({line.split()[1] for line in (tmp_path / "log").read_text().splitlines()}) == 1
    worker = int((tmp_path / "log").read_text().split()[1])
    follower.release()
    until(lambda: not is_running(worker))


def test_a_follower_takes_over_when_the_other_process_dies(dashboard, follower, tmp_path):
    process, (theirs,) = dashboard(standin.ROUNDS)
    until(lambda: follower.status(theirs).state == "running")
    ours = follower.submit(experiment())
    process.kill()
    process.wait()
    assert follower.wait(ours, PATIENCE_S).state == "succeeded"
    assert follower.status(theirs).state == "interrupted"
    assert follower.worker_pid


def test_a_run_is_not_forgotten_when_the_queue_is_looked_at_while_it_is_submitted(follower):
    stored = follower._store.submit

    def slowly(*arguments, **named):
        follower._is_wanted()  # what the queue's thread asks at any moment
        stored(*arguments, **named)

    follower._store.submit = slowly
    assert follower.wait(follower.submit(experiment()), PATIENCE_S).state == "succeeded"


def test_a_process_without_runs_of_its_own_makes_way(dashboard, follower):
    ours = follower.submit(experiment())
    assert follower.wait(ours, PATIENCE_S).state == "succeeded"
    assert follower.queue_holder == os.getpid()  # nobody waits: the worker stays warm for a while
    process, (theirs,) = dashboard(standin.QUICK)
    assert follower.wait(theirs, PATIENCE_S).state == "succeeded"
    assert follower.queue_holder == process.pid
    assert follower.worker_pid is None


def test_many_processes_submit_and_every_run_runs_once(dashboard, follower, tmp_path):
    (_, first), (_, second) = dashboard(*[standin.QUICK] * 4), dashboard(*[standin.QUICK] * 4)
    runs = [*first, *second, follower.submit(experiment())]
    assert {follower.wait(run, PATIENCE_S).state for run in runs} == {"succeeded"}
    assert sorted(runs_started(tmp_path)) == sorted(runs)


def test_leaving_in_an_orderly_way_ends_the_worker_and_marks_the_run(dashboard, follower):
    process, (run,) = dashboard(standin.ENDLESS)
    pid = until(lambda: (status := follower.status(run)).state == "running" and status.worker_pid)
    process.stdin.close()
    assert process.wait(PATIENCE_S) == 0
    assert not is_running(pid)
    status = follower.status(run)
    assert (status.state, status.finished_at is None) == ("interrupted", False)


def test_a_stopped_dashboard_still_counts_as_the_one_that_works(dashboard, follower):
    process, (run,) = dashboard(standin.ROUNDS)
    until(lambda: follower.status(run).state == "running")
    process.send_signal(signal.SIGSTOP)
    assert follower.status(run).state == "running"
    process.send_signal(signal.SIGCONT)
    follower.cancel(run)
    assert follower.wait(run, PATIENCE_S).state == "cancelled"


ABSENT = {"target": "tpu:v5e:2x4"}  # compiled, and paused while something is timed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_command_line_gets_its_answer_when_the_one_that_worked_its_run_ends(
    command_line, follower, tmp_path, monkeypatch, number
):
    monkeypatch.setenv("STANDIN_UNTIL", str(tmp_path / "the first has ended"))
    first, theirs = command_line(standin.ROUNDS, **ABSENT)
    in_progress(follower, theirs)
    second, ours = command_line(standin.QUICK)
    in_progress(follower, ours)
    assert follower.queue_holder == first.pid
    first.send_signal(number)
    first.communicate()
    (tmp_path / "the first has ended").touch()
    out, err = second.communicate(timeout=PATIENCE_S)
    assert (second.returncode, err, json.loads(out)["run"]) == (0, "", ours)
    state = "interrupted" if number == signal.SIGKILL else "cancelled"
    assert follower.status(theirs).state == state


def test_runs_that_nobody_waits_for_any_more_are_interrupted(command_line, follower, tmp_path):
    working = follower.submit(experiment(standin.ROUNDS, **ABSENT))
    in_progress(follower, working)
    first, timed = command_line(standin.ROUNDS)
    second, queued = command_line(standin.QUICK)
    in_progress(follower, timed)
    assert follower.queue_holder == os.getpid()
    for process in (second, first):
        process.kill()
        process.wait()
    assert follower.wait(queued, PATIENCE_S).state == "interrupted"
    assert follower.wait(timed, PATIENCE_S).state == "interrupted"
    until(lambda: follower.status(working).state == "running")  # it may have rested as it started
    assert queued not in runs_started(tmp_path)


def test_a_command_line_whose_run_is_cancelled_says_that_it_has_nothing(command_line, follower):
    working = follower.submit(experiment(standin.ROUNDS))
    in_progress(follower, working)
    process, queued = command_line(standin.QUICK)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (
        130,
        f"run {queued} cancelled: nothing measured or compiled\n",
    )
    told = json.loads(out)
    assert (told["status"], told["strategies"]) == ("cancelled", {})


def test_a_queued_run_of_a_command_line_that_is_gone_is_interrupted_where_nobody_works(
    command_line, follower
):
    first, theirs = command_line(standin.ROUNDS)
    in_progress(follower, theirs)
    second, queued = command_line(standin.QUICK)
    second.kill()
    second.wait()
    first.kill()
    first.wait()
    for run in (theirs, queued):
        assert follower.status(run).state == "interrupted"
    assert {each.run for each in follower.history(state="interrupted")} == {theirs, queued}


def test_deleting_the_lock_of_the_clients_interrupts_nobody(command_line, follower, data_folder):
    working = follower.submit(experiment(standin.ROUNDS))
    in_progress(follower, working)
    process, queued = command_line(standin.QUICK)
    (data_folder / CLIENTS).unlink()
    until((data_folder / CLIENTS).exists)
    follower.cancel(working)
    assert process.communicate(timeout=PATIENCE_S)[1] == ""
    assert follower.status(queued).state == "succeeded"
