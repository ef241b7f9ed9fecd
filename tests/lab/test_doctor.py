"""The self-test of a machine, with real child processes."""

import json
import os
import socket
import subprocess
import sys

import pytest

from spmd_core.advice import check
from spmd_core.lab import doctor
from spmd_core.machine import read_hardware
from spmd_core.machine.surroundings import folder_facts, variables

NAMES = [
    "versions",
    "accelerators",
    "holders",
    "environment",
    "slice",
    "memory",
    "data_folder",
    "ports",
    "dask",
    "clusters",
    *doctor.OF_DEVICES,
    "clock",
    "compiler",
]


def test_the_command_tests_this_machine(tmp_path):
    environ = os.environ | {"SPMD_LAB_DATA": str(tmp_path / "data"), "SPMD_LAB_TARGET": "cpu:2"}
    tested = subprocess.run(
        [sys.executable, "-m", "spmd_core", "doctor", "--json"],
        env=environ | {"SPMD_LAB_TOKEN": "abcdefghijklmnop123"},
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(tested.stdout)
    checks = {each["name"]: each for each in answer["checks"]}
    assert list(checks) == NAMES
    assert all(
        set(each) == {"name", "status", "value", "meaning", "do"} for each in checks.values()
    )
    failed = [name for name, each in checks.items() if each["status"] == "fail"]
    assert (tested.returncode, answer["ok"], failed) == (0, True, [])
    assert checks["devices"]["value"] == "2 × cpu on cpu"
    assert "abcdefghijklmnop123" not in tested.stdout
    assert answer["versions"]["jax"]


def test_each_named_cluster_is_tried():
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("", 0)) as other:
        answers, silent = there.getsockname()[1], other.getsockname()[1]
        other.close()
        clusters = f"a=tcp://127.0.0.1:{answers},b=tcp://127.0.0.1:{silent}"
        environ = {"SPMD_LAB_CLUSTERS": clusters, "SPMD_LAB_DASK": f"tcp://127.0.0.1:{answers}"}
        facts = dict(doctor._surroundings(read_hardware(environ=environ), environ))
    line = check("clusters", facts["clusters"])
    assert line.status == "fail" and f"127.0.0.1:{silent}: " in line.meaning
    assert str(answers) not in line.meaning and "a tcp://" in line.value
    assert check("dask", facts["dask"]).status == "ok"


def test_a_child_that_hangs_is_ended_and_the_rest_is_not_tried(monkeypatch):
    command = [
        sys.executable,
        "-c",
        'import time; print(\'{"name": "devices"}\', flush=True); time.sleep(600)',
    ]
    started = []
    real = subprocess.Popen

    def popen(_, **options):
        started.append(real(command, **options))
        return started[-1]

    monkeypatch.setattr(doctor.subprocess, "Popen", popen)
    answers = dict(doctor._answers(os.environ, ("devices", "copy", "psum"), 3.0))
    assert answers["devices"] == {}
    assert "no answer within 3 s" in answers["copy"]["error"]
    assert answers["psum"] == {"not_tried": "copy did not answer"}
    assert started[0].poll() is not None
    assert check("copy", answers["copy"]).status == "fail"
    assert check("psum", answers["psum"]).status == "unknown"


def test_a_child_that_cannot_start_jax_says_so():
    environ = {**os.environ, "JAX_PLATFORMS": "nonsense"}
    answers = dict(doctor._answers(environ, ("devices", "copy"), 120.0))
    line = check("devices", answers["devices"])
    assert (line.status, line.meaning) == ("fail", "JAX has no usable device: no run can start")
    assert "nonsense" in line.value


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("SPMD_LAB_TOKEN", "short", "***"),
        ("JAX_API_KEY", "x", "***"),
        ("SPMD_LAB_DASK", "tls://user:pass@10.0.0.1:8786", "tls://***@10.0.0.1:8786"),
        (
            "XLA_FLAGS",
            "--xla_force_host_platform_device_count=8",
            "--xla_force_host_platform_device_count=8",
        ),
        ("TPU_WORKER_HOSTNAMES", "t-0,t-1", "t-0,t-1"),
        ("JAX_COORDINATOR", "ya29a0AfH6SMBx1234567890abcdefghijkl", "***"),
    ],
)
def test_secrets_in_the_environment_are_masked(name, value, shown):
    assert variables({name: value}) == {name: shown}


def test_what_a_reading_means():
    held = {"holders": [{"pid": 7, "name": "python3"}], "lock_file": None}
    assert "pid 7" in check("holders", held).value
    stale = check("holders", {"holders": [], "lock_file": ("/tmp/libtpu_lockfile", "ana")})
    assert (stale.status, "sudo rm /tmp/libtpu_lockfile" in stale.do) == ("warn", True)
    cpu = {"count": 1, "kind": "cpu", "platform": "cpu", "chips": None, "expected": "tpu"}
    assert check("devices", cpu).status == "fail"
    wrong = {"devices": 4, "expected": 6.0, "received": [0.0, 6.0], "seconds": 1e-4}
    assert check("psum", wrong).status == "fail"
    ahead = {"events": 9, "calls": 1, "ahead_s": 4e-4}
    assert "400 µs ahead" in check("clock", ahead).value
    nothing = {"events": 0, "calls": 1, "ahead_s": None}
    assert check("trace", nothing).status == "warn"
    assert check("clock", nothing).status == "unknown"


def test_a_folder_that_is_not_there_yet_is_judged_by_its_parent(tmp_path):
    facts = folder_facts(tmp_path / "a" / "b")
    assert (facts["is_there"], facts["is_writable"], facts["is_private"]) == (False, True, True)
    (tmp_path / "a").mkdir(mode=0o755)
    assert check("data_folder", folder_facts(tmp_path / "a")).do.startswith("chmod 700")
