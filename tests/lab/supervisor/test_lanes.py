"""The two lanes of the queue, through real processes: a compile and a timed run go side by side, the
compile's worker is paused while something is timed, and neither costs the other anything.
"""

import os
import signal
import time
from dataclasses import replace

import pytest

from spmd_core.lab import Asker, Lab
from spmd_core.lab.supervisor.active import ActiveRun
from spmd_core.runs import COMPILING, TIMING, RunStatus, behind
from spmd_core.terms import experiment_words
from spmd_core.words import phase_words
from spmd_lab.ui.live import behind_words
from tests.labs import (
    HASTY,
    PATIENCE_S,
    experiment,
    is_running,
    is_stopped,
    start_python,
    until,
)
from tests.standin import sitecustomize as standin

pytestmark = pytest.mark.usefixtures("standin_engine")

# The stand-in's rounds take ten minutes: a run that is at hand until it is cancelled
ABSENT = {"target": "tpu:v5e:2x2", "mesh": {"x": 4}}
SERVE = """
import sys
from spmd_core.lab.lab import Lab
from tests.labs import PATIENT, experiment
from tests.standin import sitecustomize as standin
lab = Lab.open(settings=PATIENT)
print(lab.submit(experiment(standin.ROUNDS, target="tpu:v5e:2x2", mesh={"x": 4})), flush=True)
sys.stdin.readline()
print(lab.submit(experiment(standin.ROUNDS)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def patient_lab(open_lab):
    return open_lab(cancel_grace_s=PATIENCE_S)


def absent(behaviour=standin.QUICK, **changes):
    return experiment(behaviour, **ABSENT | changes)


def sampling(lab, run):
    return until(lambda: (status := lab.status(run)).phase == "sample" and status)


def compiling(lab, run):
    return until(lambda: (status := lab.status(run)).phase == "compile" and status)


def paused(lab, run):
    return until(lambda: (status := lab.status(run)).paused_for and status)


def going_on(lab, run):
    return until(
        lambda: (status := lab.status(run)).state == "running" and not status.paused_for and status
    )


def cancelled(lab, *runs):
    for run in runs:
        lab.cancel(run)
    return [lab.wait(run, PATIENCE_S).state for run in runs]


def test_a_timed_run_begins_and_ends_while_a_compile_is_at_hand_and_paused(patient_lab):
    lab = patient_lab
    compile_ = lab.submit(absent(standin.ROUNDS))
    pid = sampling(lab, compile_).worker_pid
    timed = lab.submit(experiment(standin.ROUNDS))
    sampling(lab, timed)
    assert is_stopped(pid)
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 0.2)  # long enough to be told in tenths of a second
    assert cancelled(lab, timed) == ["cancelled"]
    assert (going_on(lab, compile_).worker_pid, is_stopped(pid)) == (pid, False)
    assert lab.worker_pid != lab.compiler_pid == pid
    done = lab.status(compile_).done
    until(lambda: lab.status(compile_).done > done)  # it goes on
    assert cancelled(lab, compile_) == ["cancelled"]
    told = lab.result(compile_).notes[0]  # its own clock stood, so that no pause is in its seconds
    assert told.startswith("rested for ") and told != "rested for 0.0 s"


def test_runs_of_a_batch_are_compiled_side_by_side_and_all_rest_while_one_is_timed(open_lab):
    lab = open_lab(compilers=2)
    batch = [
        lab.submit(
            absent(standin.ENDLESS, dims={"rows": 16, "cols": size}), Asker(batch="search a")
        )
        for size in (8, 16, 24)
    ]
    alone = lab.submit(absent(standin.ENDLESS))
    pids = [compiling(lab, run).worker_pid for run in batch[:2]]
    assert len(set(pids)) == 2
    assert [lab.status(run).state for run in (batch[2], alone)] == ["queued", "queued"]
    timed = lab.submit(experiment(standin.ENDLESS))
    compiling(lab, timed)
    until(lambda: all(map(is_stopped, pids)))
    assert cancelled(lab, timed) == ["cancelled"]
    until(lambda: not any(map(is_stopped, pids)))
    assert cancelled(lab, batch[2], *batch[:2]) == ["cancelled"] * 3
    assert compiling(lab, alone).worker_pid == lab.compiler_pid  # the first lane takes both kinds
    assert cancelled(lab, alone) == ["cancelled"]
    assert {each.run for each in lab.history(searched=False)} == {timed, alone}
    assert {each.run for each in lab.history(searched=True)} == set(batch)
    assert len(lab.history()) == 5
    lab.notebook.label(batch[0], name="the plan to book")
    assert {each.run for each in lab.history(searched=False)} == {timed, alone, batch[0]}


def test_a_paused_compile_says_for_what_and_a_waiting_one_behind_what(lab):
    first, second = lab.submit(absent(standin.ROUNDS)), lab.submit(absent(standin.ROUNDS, seed=5))
    sampling(lab, first)
    timed, next_timed = lab.submit(experiment(standin.ROUNDS)), lab.submit(experiment())
    status = paused(lab, first)
    what = experiment_words(experiment(standin.ROUNDS))
    assert phase_words(status).endswith(f"; paused while a run is timed ({what})")
    until(lambda: lab._store.status(first).paused_for == timed)  # and other processes can read it
    assert [each.run for each in lab.active()] == [first, second, timed, next_timed]
    assert [each.queue_position for each in lab.active()] == [None, 1, None, 1]
    waits = lab.status(second)
    assert phase_words(waits) == "number 1 in the compiler's queue, waiting for the current run"
    ahead = behind(waits, lab.active())
    assert ahead.run == first
    assert behind_words(ahead, 60).endswith("after 60 s at the latest, pauses not counted.")
    assert behind(lab.status(next_timed), lab.active()).run == timed
    assert cancelled(lab, next_timed, second, first, timed) == ["cancelled"] * 4


def test_a_compile_that_comes_while_a_run_is_timed_waits_for_it_in_the_queue(lab):
    timed = lab.submit(experiment(standin.ROUNDS))
    sampling(lab, timed)
    compile_ = lab.submit(absent())
    until(lambda: "the run that is timed (" in (lab.status(compile_).waiting_for or ""))
    assert behind(lab.status(compile_), lab.active()).run == timed
    assert lab.compiler_pid is None  # not even the start of a compiler disturbs
    assert cancelled(lab, timed) == ["cancelled"]
    assert lab.wait(compile_, PATIENCE_S).state == "succeeded"


def test_a_timed_run_does_not_wait_for_a_compile_nor_for_what_waits_behind_it(lab):
    compiles = [lab.submit(absent(standin.ROUNDS)) for _ in range(2)]
    sampling(lab, compiles[0])
    timed = lab.submit(experiment())
    assert lab.wait(timed, PATIENCE_S).state == "succeeded"
    assert behind(replace(lab.status(timed), state="queued"), lab.active()) is None
    assert [each.state for each in map(lab.status, compiles)] == ["running", "queued"]
    assert cancelled(lab, *reversed(compiles)) == ["cancelled"] * 2


def test_a_paused_compile_is_cancelled_and_the_timed_run_goes_on(lab):
    compile_ = lab.submit(absent(standin.ROUNDS))
    pid = sampling(lab, compile_).worker_pid
    timed = lab.submit(experiment(standin.ROUNDS))
    paused(lab, compile_)
    assert is_stopped(pid)
    assert cancelled(lab, compile_) == ["cancelled"]
    assert not is_running(pid)
    assert going_on(lab, timed) and cancelled(lab, timed) == ["cancelled"]
    assert lab.wait(lab.submit(absent()), PATIENCE_S).state == "succeeded"


@pytest.mark.parametrize("killed", [TIMING, COMPILING])
def test_killing_the_worker_of_either_lane_costs_only_its_own_run(lab, killed):
    runs = {COMPILING: lab.submit(absent(standin.ROUNDS))}
    sampling(lab, runs[COMPILING])
    runs[TIMING] = lab.submit(experiment(standin.ROUNDS))
    paused(lab, runs[COMPILING])
    os.kill(
        sampling(lab, runs[TIMING]).worker_pid if killed == TIMING else lab.compiler_pid,
        signal.SIGKILL,
    )
    other = runs.pop(COMPILING if killed == TIMING else TIMING)
    assert lab.wait(runs[killed], PATIENCE_S).state == "crashed"
    assert going_on(lab, other) and cancelled(lab, other) == ["cancelled"]


def test_the_time_of_a_compile_stands_while_it_is_paused():
    queued = RunStatus("r", "queued", absent(), 0.0)
    run = ActiveRun(queued, replace(HASTY, predict_timeout_s=10), now=0.0)
    run.pause("another", 9.0)
    assert run.status.paused_for == "another"
    assert not run.is_late(100.0)
    run.pause("a third", 50.0)  # the next timed run came at once
    run.pause(None, 100.0)
    assert run.status.paused_for is None
    assert not run.is_late(100.9)
    assert run.is_late(101.1)
    assert run.stop("timed_out", 102.0)
    assert not run.must_be_killed(102.1)  # it may listen


def test_killing_the_server_while_its_compiler_is_paused_leaves_no_process(data_folder):
    process = start_python(SERVE, data_folder)
    reader = Lab.open(data_folder, serve=False, settings=HASTY)
    try:
        compile_ = process.stdout.readline().strip()
        pid = sampling(reader, compile_).worker_pid
        process.stdin.write("\n")
        process.stdin.flush()
        timed = process.stdout.readline().strip()
        timing_pid = sampling(reader, timed).worker_pid
        paused(reader, compile_)
        assert is_stopped(pid)
        process.kill()
        process.wait()
        until(lambda: not is_running(pid) and not is_running(timing_pid))
        assert [reader.status(run).state for run in (compile_, timed)] == ["interrupted"] * 2
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        reader.close()


def test_an_orderly_end_interrupts_both_and_leaves_no_process(open_lab):
    lab = open_lab()
    compile_ = lab.submit(absent(standin.ENDLESS))
    until(lambda: lab.status(compile_).phase == "compile")
    timed = lab.submit(experiment(standin.ROUNDS))
    pids = [paused(lab, compile_).worker_pid, sampling(lab, timed).worker_pid]
    store = lab._store
    lab._supervisor.close()
    assert not any(map(is_running, pids))
    assert [store.status(run).state for run in (compile_, timed)] == ["interrupted"] * 2
    lab._supervisor = lab._new_supervisor()


def test_the_command_line_follows_both_lanes_of_another_process(data_folder):
    process = start_python(SERVE, data_folder)
    ours = Lab.open(data_folder, serve=False, settings=HASTY)
    try:
        compile_ = process.stdout.readline().strip()
        sampling(ours, compile_)
        timed = ours.submit(experiment())
        assert ours.wait(timed, PATIENCE_S).state == "succeeded"
        assert ours.queue_holder == process.pid
        assert ours.status(compile_).state == "running"
        ours.cancel(compile_)
        assert ours.wait(compile_, PATIENCE_S).state == "cancelled"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        ours.close()
