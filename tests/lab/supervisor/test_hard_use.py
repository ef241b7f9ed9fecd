"""What the queue bears: rows of other versions, folders that vanish, locks that are deleted,
workers that freeze.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

from spmd_core.base import RequestError, StorageError, UnreadableRun, failing_line
from spmd_core.commands.waiting import LOOK_S, wait
from spmd_core.lab import Lab
from spmd_core.lab.store.database import FILE_NAME
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import FILE_NAME as LOCK
from spmd_core.lab.supervisor.process import tail_with
from tests.labs import (
    HASTY,
    PATIENCE_S,
    ROOT,
    experiment,
    is_running,
    is_stopped,
    start_python,
    until,
)
from tests.standin import sitecustomize as standin

pytestmark = pytest.mark.usefixtures("standin_engine")


def change(folder, statement, *values):
    """Change the database as another program would."""
    db = sqlite3.connect(folder / FILE_NAME)
    with db:
        db.execute(statement, values)
    db.close()


def queued(folder, run="old", **changes):
    """A queued run in the folder, whose spec is then changed by hand."""
    store = Store(folder)
    store.submit(run, experiment(7))
    store.close()
    spec = experiment(7).to_json() | changes
    change(folder, "UPDATE experiments SET spec = ?", json.dumps(spec))


# Rows that this version cannot read ------------------------------------------------------------


def test_a_queued_run_of_a_workload_that_is_gone_fails_and_the_queue_goes_on(open_lab, data_folder):
    queued(data_folder, workload="a_workload_of_tomorrow")
    lab = open_lab()
    assert lab.wait(lab.submit(experiment()), PATIENCE_S).state == "succeeded"
    assert lab.active() == ()
    (unread,) = lab.unread()
    assert (unread.run, unread.state) == ("old", "failed")
    assert "workload 'a_workload_of_tomorrow'" in unread.reason
    with pytest.raises(UnreadableRun, match=r"run 'old': this version cannot read its experiment"):
        lab.status("old")
    assert lab.delete(["old"]) == 1
    assert lab.unread() == ()


def test_what_a_newer_version_noted_of_a_run_at_hand_is_left_aside(data_folder):
    store = Store(data_folder)
    store.submit("a", experiment())
    store.start("a")
    noted = json.dumps({"phase": "sample", "a_key_of_tomorrow": [1]})
    change(data_folder, "UPDATE runs SET state = 'running', progress = ?", noted)
    assert store.status("a").phase == "sample"
    change(data_folder, "UPDATE runs SET progress = '{'")
    assert (store.status("a").phase, store.status("a").state) == (None, "running")
    store.close()


def test_a_queued_run_that_nobody_can_read_can_be_deleted_where_nobody_works(data_folder):
    queued(data_folder, version=9)
    assert Lab.open(data_folder, serve=False, settings=HASTY).delete(["old"]) == 1


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE results SET body = substr(body, 1, 40)",
        "UPDATE results SET body = x'00'",
    ],
)
def test_a_result_that_is_cut_short_is_a_sentence(open_lab, data_folder, damage):
    lab = open_lab()
    run = lab.submit(experiment())
    lab.wait(run, PATIENCE_S)
    change(data_folder, damage)
    lab._results.clear()
    with pytest.raises(RequestError, match="this version cannot read its result"):
        lab.result(run)
    change(data_folder, "UPDATE texts SET body = x'00'")
    with pytest.raises(RequestError, match="cannot read its program texts"):
        lab.texts(run, "single")
    lab.close()
    told = command(data_folder, "history", "--run", run)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.count("\n") == 1 and "cannot read its result" in told.stderr


def test_devices_that_a_newer_version_described_are_asked_anew(open_lab, data_folder):
    lab = open_lab()
    lab.probe("cpu:8", PATIENCE_S)
    change(data_folder, 'UPDATE environments SET body = \'{"jax": 7, "of_tomorrow": 1}\'')
    assert lab.devices("cpu:8") is None
    assert lab.wait(lab.submit(experiment()), PATIENCE_S).state == "succeeded"


# Folders that fail -----------------------------------------------------------------------------


def full(store):
    """Have SQLite say what it says of a full disk."""
    with store._writing:
        pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
        store._writer.execute(f"PRAGMA max_page_count = {pages}")


@pytest.fixture
def goes_on(tmp_path, monkeypatch):
    """The runs of a test wait for this file before their results."""
    file = tmp_path / "goes on"
    monkeypatch.setenv("STANDIN_UNTIL", str(file))
    return file


def test_a_result_that_cannot_be_written_is_kept_in_memory_and_written_later(
    open_lab, goes_on, capfd
):
    lab = open_lab(write_s=0.3)
    run = lab.submit(experiment(standin.LARGE))
    until(lambda: lab.status(run).phase == "sample")
    full(lab._store)
    goes_on.touch()
    status = lab.wait(run, PATIENCE_S)
    assert (status.state, status.error.kind) == ("failed", "NotWritten")
    assert "keeps it in memory until it ends: download it now" in status.error.message
    assert lab.result(run).strategies["single"].median_s == 0.001
    assert lab.texts(run, "single")["program"].startswith("text")
    assert lab.active() == ()
    until(lambda: lab.problem)  # on every screen
    assert f"run {run}: its result cannot be written yet" in capfd.readouterr().err
    with lab._store._writing:
        lab._store._writer.execute("PRAGMA max_page_count = 1073741823")
    assert until(lambda: lab.status(run).state == "succeeded")
    assert lab._store.result(run) is not None


def test_a_deleted_data_folder_ends_the_wait_with_a_sentence(open_lab, data_folder, goes_on):
    lab = open_lab(write_s=0.3)
    run = lab.submit(experiment())
    until(lambda: lab.status(run).state == "running")
    for file in data_folder.iterdir():
        file.unlink(missing_ok=True)
    goes_on.touch()
    status = lab.wait(run, PATIENCE_S)
    assert status.error.kind == "NotWritten"
    with pytest.raises(StorageError, match=r"lab\.sqlite3"):
        lab.submit(experiment())


# The lock --------------------------------------------------------------------------------------


SERVE = """
import sys
from spmd_core.lab.lab import Lab
from tests.labs import HASTY, experiment
lab = Lab.open(settings=HASTY)
print(lab.submit(experiment(int(sys.argv[1]))), flush=True)
sys.stdin.read()
"""


def test_deleting_the_lock_in_mid_run_does_not_interrupt_the_run(data_folder):
    process = start_python(SERVE, data_folder, str(standin.ROUNDS))
    try:
        run = process.stdout.readline().strip()
        other = Lab.open(data_folder, settings=HASTY)
        until(lambda: other.status(run).state == "running")
        for _ in range(3):
            (data_folder / LOCK).unlink()
            assert other.status(run).state == "running"
            assert other.queue_holder == process.pid
            until((data_folder / LOCK).exists)
        ours = other.submit(experiment())
        other.cancel(run)
        assert other.wait(run, PATIENCE_S).state == "cancelled"
        assert other.wait(ours, PATIENCE_S).state == "succeeded"
        (data_folder / LOCK).unlink()
        process.kill()
        process.wait()
        assert other.wait(other.submit(experiment()), PATIENCE_S).state == "succeeded"
        other.close()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


# Workers ---------------------------------------------------------------------------------------


def test_a_worker_that_froze_while_idle_is_replaced(open_lab):
    lab = open_lab(ping_s=0.3)
    assert lab.wait(lab.submit(experiment()), PATIENCE_S).state == "succeeded"
    frozen = lab.worker_pid
    os.kill(frozen, signal.SIGSTOP)
    until(lambda: is_stopped(frozen))  # a thread that had a core could answer a ping until then
    status = lab.wait(lab.submit(experiment()), PATIENCE_S)
    assert status.state == "succeeded", status
    assert lab.worker_pid != frozen
    assert not is_running(frozen)


FATAL = "F1121 17:15:50.123456   42 rendezvous.cc:36] Check failed: 7 of 8 threads arrived"
DUMP = (
    "*** Check failure stack trace: ***\n    @     0x7f00 absl::Fail()\n"
    "Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
    + '  File "a.py", line 1 in main\n'
    * 900
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"W1121 17:15:49.1 42 a.cc:1] slow\n{FATAL}\n{DUMP}",
            "Check failed: 7 of 8 threads arrived",
        ),
        (f"one\nCheck failed: x == y\n{DUMP}", "Check failed: x == y"),
        (f"the last words\n{DUMP}", "the last words"),
        (
            "Traceback\nModuleNotFoundError: No module named 'jax'\n",
            "ModuleNotFoundError: No module named 'jax'",
        ),
        (
            "E0000 00:00:1.2 42 common_lib.cc:554] INVALID_ARGUMENT: Error: unexpected worker "
            "hostname\n"
            "ERROR: Unknown command line flag 'xla_tpu_no_such_flag'\n",
            # libtpu logs the first wherever it runs
            "ERROR: Unknown command line flag 'xla_tpu_no_such_flag'",
        ),
        (
            "E0000 00:00:1.2 42 common_lib.cc:860] INVALID_ARGUMENT: unexpected worker hostname\n"
            "=== Source Location Trace: ===\nlearning/45eac/tfrc/runtime/libtpu_init_utils.cc:370\n"
            'Fatal Python error: Illegal instruction\n\nThread 0x1:\n  File "a.py", line 1 in main\n'
            "E1126 14:42:57.292918   18001 process_state.cc:794] RAW: Raising signal 4",
            "Fatal Python error: Illegal instruction",
        ),
        ('Traceback:\n  File "a.py", line 1 in main\n    exit(3)\nSystemExit: 3', "SystemExit: 3"),
        ("", "it said nothing"),
    ],
)
def test_the_line_with_the_failed_check_is_found_before_the_dump(text, line):
    assert failing_line(text) == line
    assert line in tail_with(line, text[-100:]) or line == "it said nothing"


def test_an_abort_says_why_and_keeps_the_line_although_the_dump_is_longer(open_lab):
    lab = open_lab()
    status = lab.wait(lab.submit(experiment(standin.ABORT)), PATIENCE_S)
    assert status.state == "crashed"
    assert (
        "SIGABRT in compile of single: the rendezvous was not reached in time; run it again"
        in status.error.message
    )
    assert "the rendezvous was not reached in time" in status.stderr_tail


# The command line ------------------------------------------------------------------------------


def command(folder, *words, **options):
    environ = os.environ | {"SPMD_LAB_DATA": str(folder)}
    line = [sys.executable, "-m", "spmd_core", *words]
    return subprocess.run(
        line,
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        **options,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("layout", "-"),
        ("script", "-"),
    ],
)
def test_specs_that_a_command_has_nothing_for_are_refused_in_a_sentence(data_folder, words):
    spec = {
        "layout": {"workload": "train_step", "mesh": {"x": 8}},
        "script": {
            "workload": "program",
            "mesh": {"x": 4},
            "target": "tpu:v5e:2x2",
            "options": {"program": "linear_gradient"},
        },
    }[words[0]]
    told = command(data_folder, *words, input=json.dumps(spec))
    assert "Traceback" not in told.stderr
    assert told.returncode == 0 or (told.returncode == 2 and told.stderr.count("\n") == 1)


def test_few_file_descriptors_are_a_sentence(data_folder):
    import resource

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (11, 11))

    told = command(data_folder, "run", "recipe:layer", preexec_fn=few)
    assert told.returncode in (1, 2)
    assert "Traceback" not in told.stderr
    assert "ulimit" in told.stderr


def test_a_run_whose_folder_vanishes_ends_with_code_1(data_folder, goes_on, monkeypatch):
    monkeypatch.setenv("SPMD_LAB_WRITE_S", "0.5")
    process = subprocess.Popen(
        [sys.executable, "-m", "spmd_core", "run", "-"],
        cwd=ROOT,
        text=True,
        env=os.environ | {"SPMD_LAB_DATA": str(data_folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(json.dumps(experiment().to_json()))
    process.stdin.close()
    until((data_folder / FILE_NAME).exists)
    watcher = Store(data_folder)
    until(lambda: any(status.done for status in watcher.active()))  # there is something to print
    watcher.close()
    shutil.rmtree(data_folder.rename(data_folder.parent / "gone"))  # file by file, some come back
    goes_on.touch()
    out, told = process.stdout.read(), process.stderr.read()
    assert process.wait(PATIENCE_S) == 1
    assert "Traceback" not in told
    assert "could not be written" in told
    assert "single" in out  # the result itself is printed
    process.stdout.close()
    process.stderr.close()


def test_who_waits_in_short_looks_is_told_that_the_folder_fails(open_lab):
    lab = open_lab(write_s=3 * LOOK_S)
    with lab._store._writing:
        lab._store._writer.execute("DROP TABLE requests")
    run = lab.submit(experiment())
    with pytest.raises(StorageError):
        wait(lab, run, PATIENCE_S, None)
