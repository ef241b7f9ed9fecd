"""The command line, as processes: what it prints, and its exit codes."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from spmd_core import __main__ as command_line
from spmd_core.commands.run import write_traces
from spmd_core.experiment.experiment import parse_experiment
from spmd_core.experiment.link import decode, encode
from spmd_core.lab import Lab
from spmd_core.results.environment import Environment
from spmd_core.results.result import Result
from spmd_core.timeline.recorded import Recorded
from spmd_core.timeline.text import TRACED, to_text
from spmd_core.timeline.traced import of_recorded
from spmd_core.words.layouts import devices_text
from tests.labs import until
from tests.timeline.test_traced import FACTS
from tests.timeline.test_traced import call as call_events
from tests.ui.predictions import store

ROOT = Path(__file__).resolve().parents[2]
QUICK = {"workload": "layer", "mesh": {"x": 8}, "sharding": {"in": "x"}, "target": "cpu:8",
         "timing": {"samples": 3, "min_seconds": 0}}
ENDLESS = {**QUICK, "strategies": ["single"], "timing": {"samples": 1000, "min_seconds": 60}}


def call(*words: str, stdin: str | bytes = b"",
         timeout: float = 120) -> subprocess.CompletedProcess[str]:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run([sys.executable, "-m", "spmd_core", *words], cwd=ROOT, input=given,
                          capture_output=True, timeout=timeout)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(),
                                       done.stderr.decode())


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """One data folder for all commands of this file."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("data")
        patch.setenv("SPMD_LAB_DATA", str(path))
        yield path


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
        assert np.allclose(found.outputs["y"].values,
                           [0.02138914, 0.89311206, 0.5989201, 0.97742504], atol=1e-6)


def test_run_prints_a_table_for_people():
    done = call("run", "recipe:local_shape")
    assert done.returncode == 0 and done.stderr == ""
    assert "As written: global shape: (32,)" in done.stdout and "As written: device local shape: (4,)" in done.stdout
    assert "As written: y = 0 2 4 6 8 10 12 14 …" in done.stdout


def test_the_traced_steps_of_all_strategies_are_one_file(finished, tmp_path, capsys):
    file, step = tmp_path / "steps.json", to_text(of_recorded(Recorded(call_events(), ()), FACTS)[0])
    lab = Lab.open(tmp_path / "data", serve=False)
    try:
        write_traces(lab, finished, file)
        assert "no trace" in capsys.readouterr().err and not file.exists()
        store(tmp_path / "data", finished, {name: {TRACED: step} for name in ("auto", "single")})
        write_traces(lab, finished, file)
    finally:
        lab.close()
    events = json.loads(file.read_text())["traceEvents"]
    assert {each["args"]["name"]: each["pid"] for each in events if each["name"] == "process_name"
            } == {"Single device": 1, "Automatic": 2}
    assert sum(each["ph"] == "X" and each["pid"] == 2 for each in events) == 5
    assert "open it at ui.perfetto.dev" in capsys.readouterr().err


def test_run_says_what_would_remove_a_collective():
    spec = QUICK | {"dims": {"batch": 64, "in": 2048, "out": 512}, "strategies": ["auto"]}
    result = Result.model_validate_json(call("run", "-", "--remedies", "--json",
                                             stdin=json.dumps(spec)).stdout)
    (found,) = result.strategies["auto"].collectives
    assert found.kind == "all-reduce" and found.remove.removes, found.remove
    assert found.remove.experiment.id != result.experiment.id
    assert "no all-reduce over `x`" in found.remove.sentence
    told = call("history", "--run", result.run)
    assert f"remedy, Automatic: {found.remove.sentence}" in told.stdout, "stored with the run"


def test_history_lists_runs_and_prints_one(finished):
    listed = json.loads(call("history", "--json").stdout)
    mine = next(entry for entry in listed if entry["run"] == finished.run)
    assert mine[
        "status"] == "succeeded" and parse_experiment(mine["experiment"]) == finished.experiment
    assert mine["medians_s"]["auto"] == finished.strategies["auto"].median_s
    assert finished.run in call("history").stdout
    assert [entry["run"]
            for entry in json.loads(call("history", encode(finished.experiment),
                                         "--json").stdout)] == [finished.run]
    assert json.loads(call("history", "--workload", "elementwise", "--json").stdout) == []
    assert "no stored run is like that" in call("history", "--workload", "elementwise").stdout
    assert Result.model_validate_json(call("history", "--run", finished.run,
                                           "--json").stdout) == finished
    rows = call("history", "--run", finished.run, "--csv").stdout.splitlines()
    # constrained has two timings
    assert len(rows) == 1 + 5 * 3 and rows[0].startswith("run,experiment,")


def test_history_deletes_runs():
    run = json.loads(call("run", "recipe:psum_total", "--json").stdout)["run"]
    assert call("history", "--delete", run).stdout == "deleted 1 run\n"
    assert run not in call("history").stdout
    assert call("history", "--delete", run).returncode == 2


def test_devices_are_asked_through_the_worker():
    done = call("devices", "cpu:4", "--json")
    environment = Environment.model_validate_json(done.stdout)
    assert done.returncode == 0 and environment.device_count == 4 and environment.simulated
    assert "cpu:8: cpu, 8 simulated CPU devices" in call("devices", "recipe:layer").stdout


def test_script_prints_a_script_that_compares_itself_with_the_run(finished):
    plain, of_run = call("script",
                         encode(finished.experiment)), call("script", "--run", finished.run)
    assert plain.returncode == of_run.returncode == 0
    compile(plain.stdout, "plain", "exec")
    assert "RUN = {}" in plain.stdout and "'auto': {'y': [0.0213" in of_run.stdout


def test_link_prints_a_link_that_leads_back(tmp_path):
    spec = tmp_path / "1.json"
    spec.write_text(json.dumps(QUICK))
    link = call("link", str(spec), "--base", "https://lab.example/spmd/").stdout.strip()
    assert link.startswith(
        "https://lab.example/spmd/compare?experiment=1.") and decode(
        link) == parse_experiment(QUICK)
    assert json.loads(call("link", link,
                           "--json").stdout)["experiment"] == parse_experiment(QUICK).id
    assert call("link", "-", stdin=link + "\n").stdout == call("link",
                                                               encode(
                                                                   parse_experiment(QUICK))).stdout


def test_layout_prints_shards_as_json():
    done = call("layout", "--mesh", "x=2,y=4", "--shape", "4,8", "--spec", '["x", ["y"]]', "--json")
    answer = json.loads(done.stdout)
    assert answer["shards"][0] == {"device": 0, "position": 0, "index": [[0, 2], [0, 2]]}
    assert answer["shards"][7] == {"device": 7, "position": 7, "index": [[2, 4], [6, 8]]}
    assert len(answer["shards"]) == 8 and answer["replication"] == 1
    assert json.loads(call("layout", "recipe:layout_2x4",
                           "--json").stdout)["shards"] == answer["shards"]


def test_layout_of_many_devices():
    done = call("layout", "--mesh", "x=256,y=256", "--shape", "256,512", "--spec", '["x", "y"]',
                "--json")
    shards = json.loads(done.stdout)["shards"]
    assert len(shards) == 65_536 and shards[-1] == {"device": 65_535, "position": 65_535,
                                                    "index": [[255, 256], [510, 512]]}


def test_layout_of_several_arrays():
    answer = json.loads(call("layout", "recipe:layer", "--json").stdout)
    assert list(answer["arrays"]) == ["x", "weights", "bias",
                                      "y"] and answer["arrays"]["bias"]["replication"] == 8
    assert json.loads(call("layout", "recipe:layer", "--array", "weights",
                           "--json").stdout) == answer["arrays"]["weights"]


def test_results_have_a_dtype_of_their_own():
    spec = json.dumps({"workload": "elementwise", "mesh": {"x": 2}, "dims": {"rows": 4},
                       "dtype": "int32"})
    assert [(name, found["dtype"]) for name, found in json.loads(call("layout", "-", "--json", stdin=spec).stdout)["arrays"].items()] == [
        ("x", "int32"), ("y", "float32")]
    assert "y: float32[4], P(None) on mesh x=2" in call("layout", "-", stdin=spec).stdout


def test_layout_draws_the_array():
    drawn = call("layout", "--mesh", "x=2,y=4", "--shape", "4,8", "--spec", '["x"]').stdout
    assert "array: float32[4, 8], P('x', None) on mesh x=2, y=4" in drawn
    assert "0:2 │ 0-3 │" in drawn and "2:4 │ 4-7 │" in drawn
    assert "d0 2:4\n" in call("layout", "--mesh", "x=2,y=4", "--shape", "4,8,8", "--spec",
                              '["x",null,"y"]').stdout
    assert "and 4,080 more devices" in call("layout", "--mesh", "x=64,y=64", "--shape", "64,64",
                                            "--spec", '["x","y"]').stdout


def test_device_numbers_are_said_briefly():
    assert devices_text([5]) == "5" and devices_text([0, 1, 2,
                                                      3]) == "0-3" and devices_text([0, 4]) == "0 4"
    assert devices_text(list(range(0, 64, 4))) == "0 4 8 … (16)"


def test_layout_link_and_script_load_neither_jax_nor_the_lab():
    code = ("import sys\nfrom spmd_core.__main__ import main\nassert main(sys.argv[1:]) == 0\n"
            "print([name for name in ('jax', 'jaxlib', 'streamlit', 'sqlite3', 'spmd_core.lab') if name in sys.modules], file=sys.stderr)")
    for words in (["layout", "recipe:layer"], ["link", "recipe:layer"], ["script", "recipe:layer"],
                  ["layout", "--mesh", "x=2", "--shape", "4"]):
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True,
                              text=True, check=True)
        assert done.stderr == "[]\n", words


BAD = [
    ([], f"no command was given: use one of {', '.join(command_line.COMMANDS)}, or --help"),
    (["walk"], "command 'walk' does not exist: use one of devices, layout"),
    (["run"], "the following arguments are required: SPEC: see python -m spmd_core run --help"),
    (["run", "recipe:layer", "--jsn"], "unrecognized arguments: --jsn"),
    (["run", "nowhere.json"], "spec file 'nowhere.json' does not exist: name a spec file"),
    (["run", "tests"], "spec file 'tests' cannot be read (is a directory)"),
    (["run", "x" * 5000], "cannot be read (file name too long)"),
    (["run", "a\0b"], "cannot be read (embedded null byte)"),
    (["run", "pyproject.toml"], "is not JSON"),
    (["run", "recipe:nothing"], "recipe 'nothing' does not exist: use one of"),
    (["run", "1.abc"], "link '1.abc' is damaged or truncated: copy all of it"),
    (["run", "http://localhost:8501/compare?experiment=2.abc"],
     "link of version 2 cannot be read by this version"),
    (["layout"],
     "there is nothing to lay out: name a spec, or give --mesh x=2,y=4 and --shape 4,8"),
    (["layout", "recipe:layer", "--mesh", "x=2"], "give one or the other"),
    (["layout", "recipe:layer", "--array", "z"],
     "array 'z' is not one of layer: use x, weights, bias, y"),
    (["layout", "recipe:local_shape"], "workload program describes no arrays"),
    (["layout", "--mesh", "x=3", "--shape", "4", "--spec", '["x"]'],
     "d0=4 does not divide over mesh axis x=3: use 3 or 6, or leave d0 unsharded"),
    (["layout", "--mesh", "x=2", "--shape", "4", "--spec", '["z"]'],
     "mesh axis 'z' is not in the mesh"),
    (["layout", "--mesh", "x=2", "--shape", "4", "--spec", '["x", "x"]'],
     "does not fit its rank 1"),
    (["layout", "--mesh", "x=2", "--shape", "4,4", "--spec", '["x", "x"]'],
     "mesh axis 'x' shards both d0 and d1 of array"),
    (["layout", "--mesh", "x=2", "--shape", "4", "--spec", "x"], "--spec 'x' is not a list"),
    (["layout", "--mesh", "x=2", "--shape", "0"], "d0=0 is not a size"),
    (["layout", "--mesh", "x=2", "--shape", "4,x"], "d1='x' is not a size"),
    (["layout", "--mesh", "x=2", "--shape", "1,1,1,1,1,1,1"], "has rank 7: use a rank from 1 to 6"),
    (["layout", "--mesh", "x:2", "--shape", "4"], "--mesh 'x:2' is not a mesh"),
    (["layout", "--mesh", "x=2,x=2", "--shape", "4"], "mesh names 'x' twice: name it once"),
    (["layout", "--mesh", "x=1099511627776", "--shape", "4"],
     "mesh of 1099511627776 devices is larger than anything built"),
    (["layout", "--mesh", "x=2", "--shape", "4", "--dtype", "float99"],
     "dtype 'float99' is not known here"),
    (["run", "recipe:layer", "--trace", "no/such/folder/t.json"],
     "trace file 'no/such/folder/t.json' cannot be written: name a file in a folder that exists"),
    (["run", "recipe:local_shape", "--trace", "t.json"], "has no timed calls to trace"),
    (["history", "--limit", "many"], "limit 'many' is not a number of runs: use 1 to 100000"),
    (["history", "--state", "odd"], "state 'odd' does not exist: use one of queued"),
    (["history", "--workload", "odd"], "workload 'odd' does not exist"),
    (["history", "--run", "odd"], "run 'odd' is not stored here"),
    (["history", "--csv"], "--csv was given without a run"),
    (["script"], "a script is made of one experiment"),
    (["script", "recipe:layer", "--run", "odd"], "a script is made of one experiment"),
    (["devices", "cpu:0"], "target 'cpu:0' asks for 0 simulated devices: use cpu:1 to cpu:256"),
]


@pytest.mark.parametrize(("words", "sentence"), BAD,
                         ids=[" ".join(words)[:40] or "nothing" for words, _ in BAD])
def test_bad_requests_say_one_sentence_and_nothing_else(words, sentence, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert command_line.main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and sentence in printed.err and printed.err.count(
        "\n") == 1 and printed.err.endswith("\n")


@pytest.mark.parametrize(("stdin", "sentence"), [
    (b"", "is not JSON"), (os.urandom(10_000_000), "spec of more than 65536 bytes is too long"), (b"[" * 60_000, "is not JSON"),
    (b'{"workload": "layer", "mesh": {"x": 16}, "target": "cpu:8"}', "mesh x=16 of 16 devices is larger than target cpu:8 with 8"),
    (b'{"workload": "array", "mesh": {"x": 8}, "dims": {"d0": 1099511627776}, "target": "cpu:8"}', "memory"),
])
def test_bad_specs_from_standard_input_are_refused(stdin, sentence):
    done = call("run", "-", stdin=stdin)
    assert done.returncode == 2 and done.stdout == "" and sentence in done.stderr and done.stderr.count("\n") == 1


def test_a_run_without_any_right_strategy_fails():
    inexpressible = {"mesh": {"x": 2}, "dims": {"batch": 2, "in": 4, "out": 4},
                     "strategies": ["shard_map"], "sharding": {"batch": "x", "out": "x"},
                     "overrides": {"y": ["x", None]}}
    done = call("run", "-", "--json", stdin=json.dumps(QUICK | inexpressible))
    assert done.returncode == 1 and "failed: shard_map cannot express this sharding" in done.stderr and done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["strategies"]["shard_map"]["error"]["kind"] == "inexpressible"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_cancelled_and_what_was_measured_is_kept(number, folder):
    process = subprocess.Popen([sys.executable, "-m", "spmd_core", "run", "-", "--json"], cwd=ROOT,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdin
    process.stdin.write(json.dumps(ENDLESS))
    process.stdin.close()
    process.stdin = None
    lab = Lab.open(folder, serve=False)
    (run,) = until(lambda: [status.run for status in lab.active() if status.medians_s], 60)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    result = Result.model_validate_json(out)
    assert result.run == run and result.partial and f"run {result.run} cancelled" in err and err.count("\n") == 1
    assert lab.status(run).state == "cancelled"
    lab.close()


def test_a_terminal_sees_the_progress_and_then_a_clean_line(tmp_path):
    """Standard error is a terminal; standard output, which is not, gets the result alone."""
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(QUICK))
    leader, follower = pty.openpty()
    process = subprocess.Popen([sys.executable, "-m", "spmd_core", "run", str(spec), "--json"],
                               cwd=ROOT, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    out, _ = process.communicate(timeout=60)
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    assert Result.model_validate_json(out).run
    assert "compiling" in shown and shown.endswith("\r\x1b[K")


def test_a_reader_that_leaves_is_no_error():
    process = subprocess.Popen([sys.executable, "-m", "spmd_core", "layout", "--mesh", "x=256,y=64",
                                "--shape", "256,64", "--json"], cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(30) == 1
    process.stderr.close()


def test_an_old_python_is_told_so(capsys, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))
    assert command_line.main(["layout", "recipe:layer"]) == 2
    assert capsys.readouterr().err == "Python 3.10 is too old: SPMD Lab needs 3.11 or newer, which README.md says how to get\n"


def test_help_names_every_command(capsys):
    assert command_line.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed
               for name in ("devices", "layout", "run", "history", "script", "link"))
