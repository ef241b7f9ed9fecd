"""What a worker can do to a run: each behaviour of the stand-in engine, through a real process, the
real supervisor and SQLite.
"""

import os
import signal
import threading
import time

import pytest

from spmd_core.base import RequestError, WorkerError
from spmd_core.lab.supervisor.active import ActiveRun
from spmd_core.runs import TIMING, Phase
from tests.labs import PATIENCE_S, experiment, is_running, until
from tests.standin import sitecustomize as standin

pytestmark = pytest.mark.usefixtures("standin_engine")


def finish(lab, behaviour=standin.QUICK, timeout_s=PATIENCE_S, **changes):
    return lab.wait(lab.submit(experiment(behaviour, **changes)), timeout_s)


def in_phase(lab, run, phase):
    return until(lambda: (status := lab.status(run)).phase == phase and status)


def test_a_run_succeeds_and_leaves_its_result_texts_and_devices(lab):
    status = finish(lab)
    assert (status.state, status.error, status.queue_position) == ("succeeded", None, None)
    assert status.started_at <= status.finished_at
    result = lab.result(status.run)
    assert result.strategies["single"].median_s == 0.001
    assert result.run == status.run
    assert lab.texts(status.run, "single") == {"program": "text text "}
    assert lab.devices("cpu:8").device_kind == "stand-in"
    assert lab.history()[0].medians_s == {"single": 0.001}
    assert lab.active() == ()


def test_a_worker_serves_many_runs_and_another_target_gets_another(lab):
    finish(lab)
    first = lab.worker_pid
    assert finish(lab).state == "succeeded"
    assert lab.worker_pid == first
    finish(lab, target="cpu:16")
    assert lab.worker_pid != first
    assert not is_running(first)


def test_what_is_printed_cannot_corrupt_the_protocol(lab):
    assert finish(lab, standin.STRAY).state == "succeeded"


def test_results_and_texts_of_many_megabytes_arrive_whole(lab):
    status = finish(lab, standin.LARGE)
    assert status.state == "succeeded"
    assert len(lab.result(status.run).notes[0]) == 8_000_000
    assert len(lab.texts(status.run, "single")["program"]) == 8_000_000


def test_junk_in_the_protocol_is_a_crash_and_not_a_hang(lab):
    status = finish(lab, standin.JUNK)
    assert status.state == "crashed"
    assert (
        "broke the protocol (line b'this is no event' does not belong to the protocol"
        in status.error.message
    )
    assert finish(lab).state == "succeeded"


def test_an_abort_is_a_crash_with_the_last_words(lab):
    status = finish(lab, standin.ABORT)
    assert status.state == "crashed"
    assert status.error.message == (
        "the worker process was ended by SIGABRT in compile of single: "
        "the rendezvous was not reached in time; run it again, or make it smaller"
    )
    assert "a stray print\nF0000 the rendezvous was not reached in time" in status.stderr_tail
    partial = lab.result(status.run)
    assert partial.partial
    assert partial.strategies["single"].median_s == 0.001
    assert finish(lab).state == "succeeded"


def test_a_worker_that_dies_in_the_middle_of_a_line_is_a_crash(lab):
    status = finish(lab, standin.HALF_LINE)
    assert status.state == "crashed"
    assert "ended with exit status 7" in status.error.message


def test_stderr_without_end_is_kept_only_as_a_tail(lab):
    lab.probe("cpu:8", PATIENCE_S)
    written = os.dup(lab._supervisor.lanes[TIMING].worker._stderr.fileno())
    status = finish(lab, standin.NOISY)
    assert status.state == "crashed"
    assert len(status.stderr_tail) < 20_000
    assert "the last words" in status.stderr_tail
    found = os.fstat(written)
    os.close(written)
    assert found.st_size > 40_000_000 and found.st_blocks * 512 < 20_000_000  # on the disk


def test_an_error_of_the_engine_fails_the_run_and_renews_the_worker(lab):
    finish(lab)
    before = lab.worker_pid
    status = finish(lab, standin.RAISES)
    assert (status.state, status.error.kind, status.error.message) == (
        "failed",
        "RuntimeError",
        "a mistake in the engine",
    )
    assert "Traceback" in status.stderr_tail
    assert finish(lab).state == "succeeded"
    assert lab.worker_pid != before


def test_a_worker_that_asks_to_be_renewed_is_renewed(lab):
    assert finish(lab, standin.RENEW).state == "succeeded"
    assert lab.worker_pid is None


def test_a_worker_without_devices_fails_the_run_with_its_words(lab, monkeypatch):
    monkeypatch.setenv("STANDIN_NO_DEVICES", "1")
    status = finish(lab)
    assert (status.state, status.error.kind) == ("failed", "WorkerError")
    assert status.error.message == "target has no usable device: this is a test"
    with pytest.raises(WorkerError, match="no usable device: this is a test"):
        lab.probe("cpu:8", PATIENCE_S)


def test_a_worker_that_dies_at_its_start_says_why(lab, monkeypatch):
    monkeypatch.setenv("STANDIN_DIES_AT_START", "1")
    status = finish(lab)
    assert status.state == "crashed"
    assert "ended with exit status 3 while it started" in status.error.message
    assert "cannot load the driver" in status.stderr_tail
    with pytest.raises(
        WorkerError, match="exit status 3 before it named its devices: cannot load the driver"
    ):
        lab.probe("cpu:8", PATIENCE_S)


@pytest.mark.parametrize("behaviour", [standin.ENDLESS, standin.STUBBORN])
def test_a_native_endless_loop_is_ended_by_its_timeout(lab, behaviour, monkeypatch):
    finish(lab)
    pid = lab.worker_pid
    with monkeypatch.context() as late:  # its time is over as soon as it has told how it goes
        late.setattr(ActiveRun, "is_late", lambda run, now: bool(run.status.medians_s))
        status = finish(lab, behaviour)
    assert status.state == "timed_out"
    assert "longer than 120 s" in status.error.message
    assert lab.result(status.run).strategies["single"].median_s == 0.001
    assert not is_running(pid)
    assert finish(lab).state == "succeeded"


def test_cancelling_between_rounds_keeps_what_was_measured_and_the_worker(open_lab):
    lab = open_lab(cancel_grace_s=PATIENCE_S)
    run = lab.submit(experiment(standin.ROUNDS))
    pid = in_phase(lab, run, "sample").worker_pid
    lab.cancel(run)
    assert lab.wait(run, PATIENCE_S).state == "cancelled"
    assert lab.result(run).partial
    assert finish(lab).state == "succeeded"
    assert lab.worker_pid == pid


@pytest.mark.parametrize("behaviour", [standin.DEAF, standin.ENDLESS])
def test_cancelling_a_worker_that_does_not_listen_ends_it(lab, behaviour):
    run = lab.submit(experiment(behaviour))
    pid = until(lambda: (status := lab.status(run)).medians_s and status.worker_pid)
    lab.cancel(run)
    assert lab.wait(run, PATIENCE_S).state == "cancelled"
    assert lab.result(run).strategies["single"].status == "cancelled"
    assert not is_running(pid)


def test_a_compile_that_is_cancelled_is_not_waited_for(open_lab):
    lab = open_lab(cancel_grace_s=PATIENCE_S)
    run = lab.submit(experiment(standin.DEAF, target="tpu:v5e:2x2", mesh={"x": 4}))
    pid = until(lambda: (status := lab.status(run)).medians_s and status.worker_pid)
    lab.cancel(run)
    assert lab.wait(run, 0.5 * PATIENCE_S).state == "cancelled"
    assert not is_running(pid)


def test_cancelling_a_queued_run_takes_it_out_of_the_queue(lab):
    first, second, third = (lab.submit(experiment(standin.ROUNDS)) for _ in range(3))
    in_phase(lab, first, "sample")
    assert [lab.status(run).queue_position for run in (first, second, third)] == [None, 1, 2]
    lab.cancel(second)
    assert lab.status(second).state == "cancelled"
    assert lab.status(third).queue_position == 1
    assert [status.run for status in lab.active()] == [first, third]
    for run in (first, third):
        lab.cancel(run)
        assert lab.wait(run, PATIENCE_S).state == "cancelled"
    assert lab.result(second) is None


def test_cancel_races_with_finish_and_exactly_one_of_them_wins(open_lab):
    lab, states = open_lab(cancel_grace_s=PATIENCE_S), []
    finish(lab)  # a warm worker
    for delay in range(20):
        run = lab.submit(experiment())
        time.sleep(delay * 0.001)
        lab.cancel(run)
        status = lab.wait(run, PATIENCE_S)
        states.append(status.state)
        assert (lab.result(run) is not None) == (
            status.state == "succeeded" or bool(lab.result(run) and lab.result(run).partial)
        )
    assert set(states) <= {"succeeded", "cancelled"}
    assert finish(lab).state == "succeeded"  # no late cancel hits the next run
    assert lab.active() == ()


@pytest.mark.parametrize("phase", ["compile", "sample"])
def test_killing_the_worker_is_a_crash(lab, phase):
    run = lab.submit(experiment(standin.ROUNDS))
    pid = (
        in_phase(lab, run, phase).worker_pid
        if phase == "sample"
        else until(lambda: lab.status(run).worker_pid)
    )
    os.kill(pid, signal.SIGKILL)
    status = lab.wait(run, PATIENCE_S)  # it does not wait for the run's time-out, which is longer
    assert status.state == "crashed"
    assert "SIGKILL" in status.error.message


def test_killing_the_worker_while_it_writes_the_result_loses_nothing_that_was_finished(
    lab, monkeypatch
):
    before, take = finish(lab), ActiveRun.take

    def take_and_kill(run, event):
        take(run, event)
        if run.status.phase == "write" and isinstance(event, Phase):
            os.kill(lab.worker_pid, signal.SIGKILL)

    with monkeypatch.context() as killing:
        killing.setattr(ActiveRun, "take", take_and_kill)
        status = finish(lab, standin.LARGE)
    assert status.state in ("crashed", "succeeded")
    if status.state == "succeeded":  # it had all been written
        assert len(lab.result(status.run).notes[0]) == 8_000_000
    assert lab.result(before.run).strategies["single"].status == "ok"
    assert finish(lab).state == "succeeded"


def test_an_idle_worker_that_dies_costs_no_run(lab):
    finish(lab)
    pid = lab.worker_pid
    os.kill(pid, signal.SIGKILL)
    # a kill takes its time: a run that is sent before has begun on a worker that dies
    until(lambda: not is_running(pid))
    assert finish(lab).state == "succeeded"
    assert lab.worker_pid != pid


def test_an_idle_worker_is_let_go(open_lab):
    lab = open_lab(idle_s=0.3)
    finish(lab)
    pid = lab.worker_pid
    until(lambda: lab.worker_pid is None and not is_running(pid))


def test_release_frees_the_devices_at_once_and_the_next_run_waits_for_them(lab):
    finish(lab)
    pid = lab.worker_pid
    lab.release()
    until(lambda: not is_running(pid))
    run, waits = lab.submit(experiment()), []
    assert (
        lab.wait(run, PATIENCE_S, on_change=lambda status: waits.append(status.waiting_for)).state
        == "succeeded"
    )
    assert "the devices of cpu:8" in waits


def test_probing_asks_the_devices_and_keeps_what_they_say(lab):
    assert lab.devices("cpu:8") is None
    assert lab.probe("cpu:8", PATIENCE_S).device_kind == "stand-in"
    assert lab.devices("cpu:8").device_count == 8
    pid = lab.worker_pid
    assert finish(lab).state == "succeeded"
    assert lab.worker_pid == pid  # the run finds a warm worker


def test_two_threads_submit_at_once_and_each_run_runs_once(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("STANDIN_LOG", str(tmp_path / "log"))
    runs = []

    def submit():
        runs.extend(lab.submit(experiment()) for _ in range(5))

    threads = [threading.Thread(target=submit) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {lab.wait(run, PATIENCE_S).state for run in runs} == {"succeeded"}
    assert sorted(
        line.split()[0] for line in (tmp_path / "log").read_text().splitlines()
    ) == sorted(runs)


def test_deleting_what_is_not_over_is_refused(lab):
    run = lab.submit(experiment(standin.ROUNDS))
    in_phase(lab, run, "sample")
    with pytest.raises(RequestError, match=f"run {run} is not over: cancel it first"):
        lab.delete([run])
    lab.cancel(run)
    lab.wait(run, PATIENCE_S)
    assert lab.delete([run]) == 1
    with pytest.raises(RequestError, match="is not stored here"):
        lab.status(run)


def test_a_full_disk_delays_a_result_and_does_not_lose_it(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("STANDIN_UNTIL", str(tmp_path / "is full"))
    run = lab.submit(experiment(standin.LARGE))
    until(lambda: lab.status(run).phase == "sample")
    store = lab._store
    with store._writing:  # SQLite's own limit: what it says then is what it says of a full disk
        pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
        store._writer.execute(f"PRAGMA max_page_count = {pages}")
    (tmp_path / "is full").touch()
    status = until(
        lambda: "room to write" in ((status := lab.status(run)).waiting_for or "") and status
    )
    assert "database or disk is full: make room on this disk" in status.waiting_for
    assert not status.is_over
    with store._writing:
        store._writer.execute("PRAGMA max_page_count = 1073741823")
    assert lab.wait(run, PATIENCE_S).state == "succeeded"
    assert len(lab.result(run).notes[0]) == 8_000_000
    assert lab.problem is None
