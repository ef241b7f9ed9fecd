"""The command line, as processes: what it prints, and its exit codes."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys

import numpy as np
import pytest

from spmd_core import __main__ as command_line
from spmd_core.commands.run import write_traces
from spmd_core.experiment import parse_experiment
from spmd_core.experiment.link import decode, encode
from spmd_core.lab import Lab
from spmd_core.pictures import TRACED, Recorded, of_recorded, to_text
from spmd_core.results import Environment, Result
from tests.commands.calls import call, told
from tests.labs import PATIENCE_S, ROOT, until
from tests.pictures.timeline.test_traced import FACTS, call as call_events
from tests.ui.predictions import store

QUICK = {
    "workload": "layer",
    "mesh": {"x": 8},
    "sharding": {"in": "x"},
    "target": "cpu:8",
    "timing": {"samples": 3, "min_seconds": 0},
}
ENDLESS = {**QUICK, "strategies": ["single"], "timing": {"samples": 1000, "min_seconds": 60}}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """One data folder for all commands of this file."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("data")
        patch.setenv("SPMD_LAB_DATA", str(path))
        yield path
        Lab.open().close()  # that of the commands which were called here


@pytest.fixture(scope="module")
def finished(folder) -> Result:
    """The result of a run from standard input, as it was printed."""
    done = call("run", "-", "--json", stdin=json.dumps(QUICK))
    assert (done.returncode, done.stderr) == (0, "")
    return Result.model_validate_json(done.stdout)


def test_run_prints_the_result_as_json(finished):
    assert finished.experiment == parse_experiment(QUICK) and finished.environment.device_count == 8
    for found in finished.strategies.values():
        assert found.status == "ok" and len(found.samples_s) == 3 and found.correct
        assert np.allclose(
            found.outputs["y"].values, [0.02138914, 0.89311206, 0.5989201, 0.97742504], atol=1e-6
        )


def test_run_prints_a_table_for_people():
    done = told("run", "recipe:local_shape")
    assert done.returncode == 0 and done.stderr == ""
    assert (
        "As written: global shape: (32,)" in done.stdout
        and "As written: device local shape: (4,)" in done.stdout
    )
    assert "As written: y = 0 2 4 6 8 10 12 14 …" in done.stdout


def test_the_traced_steps_of_all_strategies_are_one_file(finished, tmp_path, capsys):
    file, step = (
        tmp_path / "steps.json",
        to_text(of_recorded(Recorded(call_events(), ()), FACTS)[0]),
    )
    lab = Lab.open(tmp_path / "data", serve=False)
    try:
        write_traces(lab, finished, file)
        assert "no trace" in capsys.readouterr().err and not file.exists()
        store(tmp_path / "data", finished, {name: {TRACED: step} for name in ("auto", "single")})
        write_traces(lab, finished, file)
    finally:
        lab.close()
    events = json.loads(file.read_text())["traceEvents"]
    assert {
        each["args"]["name"]: each["pid"] for each in events if each["name"] == "process_name"
    } == {"Single device": 1, "Automatic": 2}
    assert sum(each["ph"] == "X" and each["pid"] == 2 for each in events) == 5
    assert "open it at ui.perfetto.dev" in capsys.readouterr().err


def test_run_says_what_would_remove_a_collective():
    spec = QUICK | {"dims": {"batch": 64, "in": 2048, "out": 512}, "strategies": ["auto"]}
    spec |= {"target": "tpu:v5e:2x4"}  # simulated devices of a busy machine tell less apart
    result = Result.model_validate_json(
        told("run", "-", "--remedies", "--json", stdin=json.dumps(spec)).stdout
    )
    (found,) = result.strategies["auto"].collectives
    assert found.kind == "all-reduce" and found.remove.removes, found.remove
    assert found.remove.experiment.id != result.experiment.id
    assert "no all-reduce over `x`" in found.remove.sentence
    listed = told("history", "--run", result.run)
    assert f"remedy, Automatic: {found.remove.sentence}" in listed.stdout, "stored with the run"


def test_history_lists_runs_and_prints_one(finished):
    listed = json.loads(told("history", "--json").stdout)
    mine = next(entry for entry in listed if entry["run"] == finished.run)
    assert (
        mine["status"] == "succeeded"
        and parse_experiment(mine["experiment"]) == finished.experiment
    )
    assert mine["medians_s"]["auto"] == finished.strategies["auto"].median_s
    assert finished.run in told("history").stdout
    assert [
        entry["run"]
        for entry in json.loads(told("history", encode(finished.experiment), "--json").stdout)
    ] == [finished.run]
    assert json.loads(told("history", "--workload", "elementwise", "--json").stdout) == []
    assert "no stored run is like that" in told("history", "--workload", "elementwise").stdout
    assert (
        Result.model_validate_json(told("history", "--run", finished.run, "--json").stdout)
        == finished
    )
    rows = told("history", "--run", finished.run, "--csv").stdout.splitlines()
    # constrained has two timings
    assert len(rows) == 1 + 5 * 3 and rows[0].startswith("run,experiment,")


def test_history_deletes_runs():
    run = json.loads(told("run", "recipe:psum_total", "--json").stdout)["run"]
    assert told("history", "--delete", run).stdout == "deleted 1 run\n"
    assert run not in told("history").stdout
    assert told("history", "--delete", run).returncode == 2


def test_devices_are_asked_through_the_worker():
    done = told("devices", "cpu:4", "--json")
    environment = Environment.model_validate_json(done.stdout)
    assert done.returncode == 0 and environment.device_count == 4 and environment.simulated
    assert "cpu:8: cpu, 8 simulated CPU devices" in told("devices", "recipe:layer").stdout


def test_script_prints_a_script_that_compares_itself_with_the_run(finished):
    plain, of_run = (
        told("script", encode(finished.experiment)),
        told("script", "--run", finished.run),
    )
    assert plain.returncode == of_run.returncode == 0
    compile(plain.stdout, "plain", "exec")
    assert "RUN = {}" in plain.stdout and "'auto': {'y': [0.0213" in of_run.stdout


def test_link_prints_a_link_that_leads_back(tmp_path):
    spec = tmp_path / "1.json"
    spec.write_text(json.dumps(QUICK))
    link = told("link", str(spec), "--base", "https://lab.example/spmd/").stdout.strip()
    assert link.startswith("https://lab.example/spmd/compare?experiment=1.") and decode(
        link
    ) == parse_experiment(QUICK)
    assert (
        json.loads(told("link", link, "--json").stdout)["experiment"] == parse_experiment(QUICK).id
    )
    assert (
        told("link", "-", stdin=link + "\n").stdout
        == told("link", encode(parse_experiment(QUICK))).stdout
    )


def test_layout_link_and_script_load_neither_jax_nor_the_lab():
    code = (
        "import sys\nfrom spmd_core.__main__ import main\n"
        "for line in sys.argv[1:]:\n    assert main(line.split()) == 0, line\n"
        "print([name for name in ('jax', 'jaxlib', 'streamlit', 'sqlite3', 'spmd_core.lab') if "
        "name in sys.modules], file=sys.stderr)"
    )
    lines = (
        "layout recipe:layer",
        "link recipe:layer",
        "script recipe:layer",
        "layout --mesh x=2 --shape 4",
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *lines], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


def test_a_run_without_any_right_strategy_fails():
    inexpressible = {
        "mesh": {"x": 2},
        "dims": {"batch": 2, "in": 4, "out": 4},
        "strategies": ["shard_map"],
        "sharding": {"batch": "x", "out": "x"},
        "overrides": {"y": ["x", None]},
    }
    done = told("run", "-", "--json", stdin=json.dumps(QUICK | inexpressible))
    assert (
        done.returncode == 1
        and "failed: shard_map cannot express this sharding" in done.stderr
        and done.stderr.count("\n") == 1
    )
    assert json.loads(done.stdout)["strategies"]["shard_map"]["error"]["kind"] == "inexpressible"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_cancelled_and_what_was_measured_is_kept(number, folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "spmd_core", "run", "-", "--json"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    process.stdin.write(json.dumps(ENDLESS))
    process.stdin.close()
    process.stdin = None
    lab = Lab.open(folder, serve=False)
    (run,) = until(lambda: [status.run for status in lab.active() if status.medians_s])
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    result = Result.model_validate_json(out)
    assert (
        result.run == run
        and result.partial
        and f"run {result.run} cancelled" in err
        and err.count("\n") == 1
    )
    assert lab.status(run).state == "cancelled"
    lab.close()


def test_a_terminal_sees_the_progress_and_then_a_clean_line(tmp_path):
    """Standard error is a terminal; standard output, which is not, gets the result alone."""
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(QUICK))
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "spmd_core", "run", str(spec), "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=follower,
    )
    os.close(follower)
    out, _ = process.communicate(timeout=PATIENCE_S)
    with os.fdopen(leader, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        shown = bytearray()
        while part := terminal.read(4096):  # fails with EIO at the end
            shown += part
    assert Result.model_validate_json(out).run
    assert b"compiling" in shown and shown.endswith(b"\r\x1b[K")


def test_a_reader_that_leaves_is_no_error():
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "spmd_core",
            "layout",
            "--mesh",
            "x=256,y=64",
            "--shape",
            "256,64",
            "--json",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(PATIENCE_S) == 1
    process.stderr.close()


def test_an_old_python_is_refused_before_what_it_cannot_import():
    code = (
        "import runpy, sys\nsys.version_info = (3, 10, 12)\nsys.modules['spmd_core.base'] = None\n"
        "runpy.run_module('spmd_core', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "Python 3.10 is too old: SPMD Lab needs 3.11 or newer, which README.md says how to get\n"
    )


def test_help_names_every_command(capsys):
    assert command_line.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(
        f"  {name} " in printed
        for name in ("devices", "layout", "run", "history", "script", "link")
    )
