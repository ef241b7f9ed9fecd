"""The protocol, the environment of a worker, and the lock of a data folder."""

import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from spmd_core.base import StorageError, WorkerError, read_settings
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.environment import without_secrets, worker_environment
from spmd_core.lab.supervisor.folder_lock import FILE_NAME, FolderLock, QueueLock
from spmd_core.machine import Hardware
from spmd_core.runs import (
    COMMANDS,
    EVENTS,
    CancelCommand,
    Lines,
    Phase,
    Progress,
    RunCommand,
    encode,
    events,
    send,
)
from tests.labs import ROOT, experiment

NOTHING = Hardware(None, None, (), (), cores=2, memory_bytes=None, available_bytes=None)


def machine(kind, files=("/dev/accel0",), hosts=1):
    return Hardware(kind, kind, files, (), 2, None, None, slice_hosts=hosts, chips=len(files))


def test_values_survive_any_cutting_of_the_stream():
    progress = Progress(done=1, of=2, medians_s={"auto": 1e-6}, series={"loss": (1.0,)})
    events = [Phase(phase="compile", strategy="auto"), progress, Phase(phase="sample")]
    stream = b"".join(map(encode, events))
    for step in (1, 7, len(stream)):
        lines = Lines(EVENTS)
        assert [
            event
            for start in range(0, len(stream), step)
            for event in lines.feed(stream[start : start + step])
        ] == events


def test_commands_carry_the_experiment_whole():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = RunCommand(run="a", experiment=experiment(memory={"x": "pinned_host"}))
        send(ours, command)
        send(ours, CancelCommand(run="a"))
        assert list(Lines(COMMANDS).feed(theirs.recv(2**20))) == [command, CancelCommand(run="a")]


@pytest.mark.parametrize(
    "junk",
    [
        b"no json\n",
        b'{"event": "unknown"}\n',
        b'{"event": "progress", "done": "many"}\n',
        b"\xff\xfe\n",
        b"\n",
    ],
)
def test_a_line_that_is_no_event_is_an_error(junk):
    with pytest.raises(WorkerError, match="does not belong to the protocol"):
        list(Lines(EVENTS).feed(junk))


def test_what_came_before_the_junk_is_not_lost():
    feed = Lines(EVENTS).feed(encode(Phase(phase="compile")) + b"junk\n")
    assert next(feed) == Phase(phase="compile")
    with pytest.raises(WorkerError):
        next(feed)


def test_a_line_without_end_is_an_error(monkeypatch):
    monkeypatch.setattr(events, "MAX_LINE_BYTES", 1000)
    with pytest.raises(WorkerError, match="a line of more than 1000 bytes"):
        list(Lines(EVENTS).feed(b"x" * 1001))


def test_simulated_devices_are_counted_in_one_way_only():
    environ = worker_environment(
        "cpu:16",
        NOTHING,
        {"XLA_FLAGS": "--a=1 --xla_force_host_platform_device_count=4 --b", "HOME": "/home/me"},
    )
    assert environ == {
        "HOME": "/home/me",
        "XLA_FLAGS": "--a=1 --b",
        "JAX_ENABLE_COMPILATION_CACHE": "0",
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "16",
        "NPROC": "64",
        # what a study needs that also predicts for absent topologies
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "LIBTPU_INIT_ARGS": "",
    }


@pytest.mark.parametrize(
    ("count", "cores", "threads"),
    [
        (8, 2, 32),
        (1, 2, 4),
        (8, 64, 64),
        (256, 2, 320),
    ],
)
def test_simulated_devices_have_threads_to_spare_for_a_collective(count, cores, threads):
    environ = worker_environment(f"cpu:{count}", replace(NOTHING, cores=cores), {"NPROC": "1"})
    assert environ["NPROC"] == str(threads)
    assert threads > count  # each device waits on one until all have arrived


def test_devices_that_are_not_simulated_have_the_threads_that_the_shell_gives_them():
    for target in ("local", "tpu:v5e:4x4"):
        assert worker_environment(target, machine("tpu"), {"NPROC": "5"})["NPROC"] == "5"
        assert "NPROC" not in worker_environment(target, machine("tpu"), {})


def test_settings_of_the_shell_do_not_change_what_is_measured():
    inherited = {
        "JAX_ENABLE_X64": "1",
        "JAX_COMPILATION_CACHE_DIR": "/tmp/cache",
        "JAX_PLATFORMS": "tpu",
        "JAX_DEFAULT_MATMUL_PRECISION": "highest",
    }
    environ = worker_environment("cpu:8", NOTHING, inherited)
    assert {name for name in environ if name.startswith("JAX_")} == {
        "JAX_PLATFORMS",
        "JAX_NUM_CPU_DEVICES",
        "JAX_ENABLE_COMPILATION_CACHE",
    }
    assert environ["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize(
    ("kind", "platforms"),
    [("tpu", "tpu,cpu"), ("nvidia", "cuda,cpu"), ("amd", "rocm,cpu"), (None, "cpu")],
)
def test_the_platform_of_this_machine_is_always_explicit(kind, platforms):
    environ = worker_environment("local", machine(kind), {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1"})
    assert environ["JAX_PLATFORMS"] == platforms
    # whoever owns TPU chips must be alone
    assert ("ALLOW_MULTIPLE_LIBTPU_LOAD" in environ) == (kind != "tpu")


def test_a_gpu_s_memory_is_not_taken_in_advance_unless_it_is_asked_for():
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    assert worker_environment("local", machine("nvidia"), {})[name] == "false"
    assert worker_environment("local", machine("nvidia"), {name: "true"})[name] == "true"
    assert name in without_secrets({name: "true"})
    assert name not in worker_environment("local", machine("tpu"), {})


def test_a_compile_only_worker_shares_libtpu_and_asks_no_metadata_server():
    environ = worker_environment("tpu:v5e:4x4", machine("tpu"), {})
    assert (
        environ["JAX_PLATFORMS"],
        environ["TPU_SKIP_MDS_QUERY"],
        environ["ALLOW_MULTIPLE_LIBTPU_LOAD"],
    ) == ("cpu", "1", "1")


def test_a_host_of_a_slice_uses_its_own_chips_alone():
    chips = tuple(f"/dev/accel{chip}" for chip in range(4))
    environ = worker_environment("local", machine("tpu", chips, hosts=4), {})
    assert (environ["TPU_PROCESS_BOUNDS"], environ["TPU_CHIPS_PER_PROCESS_BOUNDS"]) == (
        "1,1,1",
        "2,2,1",
    )
    assert "TPU_PROCESS_BOUNDS" not in worker_environment("local", machine("tpu", chips), {})
    chosen = worker_environment(
        "local", machine("tpu", chips, hosts=4), {"TPU_PROCESS_BOUNDS": "2,2,1"}
    )
    assert "TPU_CHIPS_PER_PROCESS_BOUNDS" not in chosen


def test_nothing_of_the_slice_that_a_pod_is_in_reaches_a_host_that_works_alone():
    pod = {
        "TPU_WORKER_HOSTNAMES": "t-0,t-1,t-2,t-3",
        "TPU_PROCESS_ADDRESSES": "t-0:8476,t-1:8476,t-2:8476,t-3:8476",
        "TPU_WORKER_ID": "2",
        "TPU_HOST_BOUNDS": "2,2,1",
        "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1",
        "TPU_TOPOLOGY": "4x4",
        "TPU_ACCELERATOR_TYPE": "v5litepod-16",
        "TPU_SKIP_MDS_QUERY": "true",
    }
    chips = tuple(f"/dev/vfio/{chip}" for chip in range(4))
    environ = worker_environment("local", machine("tpu", chips, hosts=4), pod)
    assert {
        name: value for name, value in environ.items() if name.startswith(("TPU_", "CLOUD"))
    } == {
        "TPU_SKIP_MDS_QUERY": "true",
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "2,2,1",
        "TPU_HOST_BOUNDS": "1,1,1",
        "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1",
        "TPU_VISIBLE_CHIPS": "0,1,2,3",
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
        "CLOUD_TPU_TASK_ID": "0",
    }
    alone = worker_environment("local", machine("tpu", chips), pod)
    assert alone["TPU_TOPOLOGY"] == "4x4"  # a pod of one host: what GKE says of it is right


def test_the_lock_has_one_holder_and_is_asked_without_being_taken(tmp_path):
    lock = FolderLock(tmp_path)
    program = f"""
import os
from pathlib import Path
from spmd_core.lab.supervisor.folder_lock import FolderLock
lock = FolderLock(Path({str(tmp_path)!r}))
while (line := input()) != "end":
    print(getattr(lock, line)(), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:

        def ask(what):
            other.stdin.write(f"{what}\n")
            other.stdin.flush()
            return other.stdout.readline().strip()

        assert (lock.holder(), ask("holder")) == (None, "None")
        assert ask("acquire") == "True"
        assert lock.holder() == other.pid
        assert not lock.acquire()
        ask("release")
        assert lock.holder() is None
        assert lock.acquire()
        assert ask("acquire") == "False"
        assert ask("holder") == str(lock.holder())
        lock.release()
        assert ask("acquire") == "True"
        other.kill()
    assert lock.holder() is None  # the kernel gives a dead process's lock back
    lock.close()


def test_a_lock_that_is_made_anew_between_two_looks_is_seen(tmp_path, monkeypatch):
    store, looks = Store(tmp_path), iter([None, 7])
    turn = QueueLock(tmp_path, store)
    monkeypatch.setattr(FolderLock, "holder", lambda lock: next(looks))
    assert turn.holder() == 7
    turn.close()
    store.close()


def test_a_deleted_lock_is_open_until_the_next_is_noted(tmp_path, monkeypatch):
    store = Store(tmp_path)
    turn = QueueLock(tmp_path, store)
    assert turn.acquire()
    (tmp_path / FILE_NAME).unlink()
    noted = []

    def note(pid, mark, file):
        (tmp_path / FILE_NAME).unlink()  # a third file, which may get the inode of a closed one
        third = FolderLock(tmp_path)
        noted.append((store.holder()[2], third.file, file))
        third.close()

    monkeypatch.setattr(store, "note_holder", note)
    turn.keep()
    assert len({*noted[0]}) == 3
    turn.close()
    store.close()


def test_a_lock_that_cannot_be_made_is_refused_in_a_sentence(tmp_path):
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(
        StorageError, match="Is a directory: name a folder that can be written in SPMD_LAB_DATA"
    ):
        FolderLock(tmp_path)


def test_settings_come_from_the_environment():
    settings = read_settings({"SPMD_LAB_RUN_TIMEOUT_S": "12.5", "SPMD_LAB_IDLE_S": ""})
    assert (settings.run_timeout_s, settings.idle_s) == (12.5, 300.0)
    with pytest.raises(
        ValueError,
        match=r"SPMD_LAB_IDLE_S='soon' is not a number of seconds: use for example SPMD_LAB_IDLE_S=300, or leave it out",
    ):
        read_settings({"SPMD_LAB_IDLE_S": "soon"})
    with pytest.raises(ValueError, match="is not a number of seconds"):
        read_settings({"SPMD_LAB_RUN_TIMEOUT_S": "0"})
