"""What cannot be done is one sentence, exit code 2, and nothing else."""

import os

import pytest

from spmd_core import __main__ as command_line
from tests.commands.calls import told
from tests.labs import ROOT

BAD = [
    ([], f"no command was given: use one of {', '.join(command_line.COMMANDS)}, or --help"),
    (["walk"], "command 'walk' does not exist: use devices, layout"),
    (["run"], "the following arguments are required: SPEC: see python -m spmd_core run --help"),
    (["run", "recipe:layer", "--jsn"], "unrecognized arguments: --jsn"),
    (["run", "nowhere.json"], "spec file 'nowhere.json' does not exist: name a spec file"),
    (["run", "tests"], "spec file 'tests' cannot be read (is a directory)"),
    (["run", "x" * 5000], "cannot be read (file name too long)"),
    (["run", "a\0b"], "cannot be read (embedded null byte)"),
    (["import", "/dev/zero"], "cannot be read (it is no regular file)"),
    (["run", "pyproject.toml"], "is not JSON"),
    (["who", "x" * 5000], f"unrecognized arguments: '{'x' * 57}…': see"),
    (["history", "--limit=1", f"--{'x' * 5000}"], f"unrecognized arguments: '--{'x' * 55}…': see"),
    (["search", f"--top={'9x' * 500}"], f"--top '{'9x' * 28}9…' is no number: write digits"),
    (
        ["serve", "--model", "qwen3-8b", "--chips", "v6e:4", "--tpot", "-1ms"],
        "tpot='-1ms' is not a time from 1us to 100000s",
    ),
    (["predict", "--tokens", "-3t"], "--tokens '-3t' is no number of tokens: use more than 0"),
    (["history", "--limit", "-.5"], "limit '-.5' is not a number of runs: use 1 to 100000"),
    (["history", "--state", "x" * 5000], f"state '{'x' * 57}…' does not exist: use one of"),
    (["history", "--run", "\udcff"], "text '\\udcff' has what is no character"),
    (
        [
            "predict",
            "--model",
            "scaled:1",
            "--tokens",
            "1e9",
            "--budget",
            "9",
            "--target",
            "h100:8",
        ],
        "--target h100:8 names chips, whose number --chips, --deadline or --budget decides: use "
        "--target h100",
    ),
    (["run", "recipe:nothing"], "recipe 'nothing' does not exist: use "),
    (["run", "1.abc"], "link '1.abc' is damaged or truncated: copy all of it"),
    (
        ["run", "http://localhost:8501/compare?experiment=2.abc"],
        "link of version 2 cannot be read by this version",
    ),
    (
        ["layout"],
        "there is nothing to lay out: name a spec, or give --mesh x=2,y=4 and --shape 4,8",
    ),
    (["layout", "recipe:layer", "--mesh", "x=2"], "give one or the other"),
    (
        ["layout", "recipe:layer", "--array", "z"],
        "array 'z' is not one of layer: use x, weights, bias, y",
    ),
    (["explain", "mine/steps.py:step"], "function 'mine/steps.py:step' is no package.module:func"),
    (["explain", "shutil:move"], "function 'shutil:move' cannot be called so (missing a required"),
    (
        ["what-if", "spmd_core/recipes/example.jaxexport", "--spec", "params/embd=fsdp"],
        "spec 'params/embd' matches no argument: correct it",
    ),
    (["layout", "recipe:local_shape"], "workload program describes no arrays"),
    (
        ["layout", "--mesh", "x=3", "--shape", "4", "--spec", '["x"]'],
        "d0=4 does not divide over mesh axis x=3: use d0=3 or 6, x=2, or leave d0 unsharded",
    ),
    (
        ["layout", "--mesh", "x=2", "--shape", "4", "--spec", '["z"]'],
        "mesh axis 'z' is not in the mesh",
    ),
    (
        ["layout", "--mesh", "x=2", "--shape", "4", "--spec", '["x", "x"]'],
        "does not fit its rank 1",
    ),
    (
        ["layout", "--mesh", "x=2", "--shape", "4,4", "--spec", '["x", "x"]'],
        "mesh axis 'x' shards both d0 and d1 of array",
    ),
    (["layout", "--mesh", "x=2", "--shape", "4", "--spec", "x"], "--spec 'x' is not a list"),
    (["layout", "--mesh", "x=2", "--shape", "0"], "d0=0 is not a size"),
    (["layout", "--mesh", "x=2", "--shape", "4,x"], "d1='x' is not a size"),
    (["layout", "--mesh", "x=2", "--shape", "1,1,1,1,1,1,1"], "has rank 7: use a rank from 1 to 6"),
    (["layout", "--mesh", "x:2", "--shape", "4"], "--mesh 'x:2' is not a mesh"),
    (["layout", "--mesh", "x=2,x=2", "--shape", "4"], "mesh names 'x' twice: name it once"),
    (
        ["layout", "--mesh", "x=1099511627776", "--shape", "4"],
        "mesh of 1099511627776 devices is larger than anything built",
    ),
    (
        ["layout", "--mesh", "x=2", "--shape", "4", "--dtype", "float99"],
        "dtype 'float99' is not known here",
    ),
    (
        ["run", "recipe:layer", "--trace", "no/such/folder/t.json"],
        "--trace 'no/such/folder/t.json' cannot be written (no such file or directory): name "
        "a file in",
    ),
    (
        ["run", "recipe:layout_2x4", "--remedies"],
        "--remedies with workload array means nothing, since it is not compiled",
    ),
    (
        ["collectives", "--target", "cpu:4", "--mesh", "x=4", "--axes", "x+x"],
        "axes 'x+x' name one axis twice: name each once",
    ),
    (["run", "recipe:layer", "--force"], "--force without --trace means nothing: leave it out"),
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


@pytest.mark.parametrize(
    ("words", "sentence"), BAD, ids=[" ".join(words)[:40] or "nothing" for words, _ in BAD]
)
def test_bad_requests_say_one_sentence_and_nothing_else(words, sentence, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert command_line.main(words) == 2
    printed = capsys.readouterr()
    assert (
        printed.out == ""
        and sentence in printed.err
        and printed.err.count("\n") == 1
        and printed.err.endswith("\n")
    )


@pytest.mark.parametrize(
    ("stdin", "sentence"),
    [
        (b"", "is not JSON"),
        (os.urandom(10_000_000), "spec of more than 65536 bytes is too long"),
        (b"[" * 60_000, "is not JSON"),
        (
            b'{"workload": "layer", "mesh": {"x": 16}, "target": "cpu:8"}',
            "mesh x=16 of 16 devices is larger than target cpu:8 with 8",
        ),
        (
            b'{"workload": "array", "mesh": {"x": 8}, "dims": {"d0": 1099511627776}, "target": "cpu:8"}',
            "needs 52.0 TiB on 8 simulated devices (32.0 TiB of shards, 20.0 TiB to draw and check them), more than",
        ),
    ],
)
def test_bad_specs_from_standard_input_are_refused(stdin, sentence):
    done = told("run", "-", stdin=stdin)
    assert (
        done.returncode == 2
        and done.stdout == ""
        and sentence in done.stderr
        and done.stderr.count("\n") == 1
    )
