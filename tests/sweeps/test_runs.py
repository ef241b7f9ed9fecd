"""The points of a sweep as runs: known ones from the store, the others queued together; refusals,
failures and cancelling.
"""

import json
from dataclasses import replace
from importlib.metadata import version

import pytest

from spmd_core import __main__ as command_line
from spmd_core.commands import predict_sweep
from spmd_core.experiment import parse_experiment
from spmd_core.machine import absent
from spmd_core.results import Failure, StrategyResult
from spmd_core.sweeps import (
    Asked,
    SweepPoint,
    cancel,
    curves,
    estimated,
    look,
    missing_compilers,
    parse_sweep,
    start,
    to_compile,
    variants,
)
from spmd_core.workloads import DEFAULT_SPEC
from tests.standin_lab import StandInLab, found

BASE = parse_experiment(DEFAULT_SPEC)
LARGE = parse_experiment({**DEFAULT_SPEC, "options": {"model": "llama-2-13b", "remat": "full"}})


@pytest.fixture
def lab(tmp_path) -> StandInLab:
    return StandInLab(tmp_path)


def points(text="chips=8,24,64,256", base=BASE) -> tuple[SweepPoint, ...]:
    return variants(parse_sweep(base, text))


def states(outcomes) -> list[str]:
    return [outcome.state for outcome in outcomes]


def test_unknown_points_are_queued_together_and_fill_in_as_they_come(lab):
    given, asked = points(), Asked()
    assert states(look(lab, given, asked)) == [
        "not compiled",
        "refused",
        "not compiled",
        "not compiled",
    ]
    start(lab, to_compile(given, look(lab, given, asked)), asked)
    assert [status.experiment for status in lab.queue] == [
        given[0].experiment,
        given[2].experiment,
        given[3].experiment,
    ]
    lab.queue[0] = replace(lab.queue[0], state="running", phase="compile")
    assert states(look(lab, given, asked)) == ["running", "refused", "waiting", "waiting"]
    lab.end("run0", "succeeded", found=found(2.0))
    outcomes = look(lab, given, asked)
    assert (states(outcomes), outcomes[0].numbers.step_s) == (
        ["predicted", "refused", "waiting", "waiting"],
        2.0,
    )
    assert to_compile(given, outcomes) == ()


def test_a_stored_point_is_answered_without_a_compile_and_read_once(lab):
    given = points("chips=8")
    lab.end(lab.submit(given[0].experiment), "succeeded", found=found(3.0))
    for _ in range(3):
        (known,) = look(lab, given)
    assert (known.state, known.run, known.numbers.step_s, lab.reads) == (
        "predicted",
        "run0",
        3.0,
        1,
    )
    assert to_compile(given, [known]) == ()


def test_a_point_that_other_versions_predicted_is_compiled_anew(lab):
    given, old = points("chips=8"), found(3.0)
    prediction = old.prediction.model_copy(update={"compile": {"versions": {"jax": "0.1"}}})
    lab.end(
        lab.submit(given[0].experiment),
        "succeeded",
        found=old.model_copy(update={"prediction": prediction}),
    )
    for _ in range(3):
        outcomes = look(lab, given)
    assert states(outcomes) == ["not compiled"] and lab.reads == 1


def test_points_too_large_by_their_sizes_are_not_compiled(lab):
    given = points("chips=8,64", LARGE)
    outcomes = look(lab, given)
    assert states(outcomes) == ["too large", "not compiled"]
    assert to_compile(given, outcomes) == (given[1],)


def test_a_failure_keeps_its_words_the_others_go_on_and_it_can_be_tried_again(lab):
    given, asked = points("chips=8,64"), Asked()
    start(lab, given, asked)
    lab.end("run0", "crashed", Failure(kind="WorkerError", message="the compiler\ndied"))
    outcomes = look(lab, given, asked)
    assert [(outcome.state, outcome.words) for outcome in outcomes] == [
        ("failed", "the compiler died"),
        ("waiting", None),
    ]
    assert to_compile(given, outcomes) == (given[0],)
    lab.end(
        "run1",
        "succeeded",
        found=StrategyResult(status="error", error=Failure(kind="WorkerError", message="refused")),
    )
    assert [(outcome.state, outcome.words) for outcome in look(lab, given, asked)][1] == (
        "failed",
        "refused",
    )


def test_a_point_that_failed_keeps_its_estimate_and_the_base_of_the_efficiencies(lab):
    given, asked = points("chips=8,64,256"), Asked()
    before = curves(given, [estimated(point) for point in given])
    start(lab, given, asked)
    for run in ("run0", "run1", "run2"):
        lab.end(run, "crashed", Failure(kind="WorkerError", message="no compiler"))
    outcomes = look(lab, given, asked)
    assert states(outcomes) == ["failed"] * 3
    rows = curves(given, list(map(estimated, given, outcomes)))
    assert [row.efficiency for row in rows] == [row.efficiency for row in before]
    assert all(row.is_estimated and row.numbers.step_s for row in rows)


@pytest.mark.parametrize("plugin", [None, f"jax-cuda12-plugin {version('jaxlib')}"])
def test_points_without_a_compiler_here_are_not_compiled_and_the_reason_is_named_once(
    lab, plugin, monkeypatch
):
    monkeypatch.setattr(absent, "plugin_version", lambda: plugin)
    given = points("generation=v5e,h100,b200")
    outcomes = look(lab, given)
    ready = [point.value for point in to_compile(given, outcomes)]
    assert ready == (["v5e"] if plugin is None else ["v5e", "h100", "b200"])
    reasons = missing_compilers(given, outcomes)
    assert [each.partition(":")[0] for each in reasons] == (
        ["the compiler for GPUs is not installed"] if plugin is None else []
    )


def test_a_point_that_the_lab_refuses_says_why_and_the_others_are_queued(lab):
    given, asked = points("chips=8,64"), Asked()
    lab.refuses = lambda experiment: "no room" if experiment.device_count == 8 else None
    start(lab, given, asked)
    assert [(outcome.state, outcome.words) for outcome in look(lab, given, asked)] == [
        ("failed", "no room"),
        ("waiting", None),
    ]


def test_cancelling_ends_what_is_queued_and_what_runs(lab):
    given, asked = points("chips=8,64,256"), Asked()
    start(lab, given, asked)
    lab.queue[0] = replace(lab.queue[0], state="running")
    cancel(lab.cancel, look(lab, given, asked))
    assert lab.cancelled == ["run0", "run1", "run2"]
    assert states(look(lab, given, asked)) == ["not compiled"] * 3


def test_equal_points_are_compiled_once(lab):
    given = points("generation=v5e") * 2
    assert len(to_compile(given, look(lab, given))) == 1


# The command line
# --------------------------------------------------------------------------------------------------------

COMMAND = [
    "predict",
    "--target",
    "tpu:v5e:4x4",
    "--model",
    "llama-2-13b",
    "--mesh",
    "fsdp=16",
    "--batch-per-device",
    "2",
]


def call(capsys, *words: str) -> tuple[int, str, str]:
    try:
        code = command_line.main([*COMMAND, *words])
    except SystemExit as end:
        code = end.code
    written = capsys.readouterr()
    return code, written.out, written.err


def test_the_command_says_from_the_sizes_what_fits(capsys):
    code, out, _ = call(capsys, "--sweep", "chips=8,24,64", "--estimate", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [(row["value"], row["state"]) for row in rows] == [
        (8, "too large"),
        (24, "refused"),
        (64, "not compiled"),
    ]
    assert rows[0]["expected_bytes"] > rows[0]["capacity_bytes"] > rows[2]["expected_bytes"]
    assert rows[1]["words"] == "chips=24 do not form slices of TPU v5e: use 16 or 32"
    code, out, _ = call(capsys, "--sweep", "chips=8", "--estimate")
    assert code == 1 and out.startswith("8 chips do not fit in memory.\n")


def test_the_command_compiles_what_is_unknown_and_prints_the_curves(capsys, lab, monkeypatch):
    def wait(run, timeout_s=None, on_change=None):
        del timeout_s
        if not lab.status(run).is_over:
            if gone:
                on_change(replace(lab.status(run), held_up="the Dask scheduler is gone"))
            lab.end(
                run, "succeeded", found=found(1.0 if run in ("run0", "run2") else 1.25, 8, 1e15)
            )
        return lab.status(run)

    lab.wait, gone = wait, []
    monkeypatch.setattr(predict_sweep.Lab, "open", lambda **_: lab)
    code, out, err = call(capsys, "--model", "llama-2-7b", "--sweep", "batch-per-device=2,4")
    assert (code, err) == (0, "")
    assert out.startswith(
        "From 2 to 4 sequences per device causal MFU falls from 60% to 48%; most work per chip and "
        "second at 4 sequences per device."
    )
    assert [
        line.split()[:6] for line in out.splitlines() if line.lstrip().startswith(("2 ", "4 "))
    ] == [
        ["2", "v5e:4x4", "fsdp=16", "compiled", "1.00", "s"],
        ["4", "v5e:4x4", "fsdp=16", "compiled", "1.25", "s"],
    ]
    call(capsys, "--model", "llama-2-7b", "--sweep", "batch-per-device=2,4", "--json")
    assert len(lab.over) == 2  # known now
    call(capsys, "--model", "llama-2-7b", "--sweep", "batch-per-device=2,4", "--fresh", "--json")
    assert len(lab.over) == 4
    gone.append(True)
    *_, err = call(capsys, "--model", "llama-2-7b", "--sweep", "batch-per-device=1,8", "--json")
    assert err == "waiting: the Dask scheduler is gone\n", "once for all points"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--sweep", "colour=1"), "sweep 'colour=1' does not say what to vary"),
        (("--sweep", "chips=8", "--keep", "x"), "--keep with --sweep"),
    ],
)
def test_a_bad_sweep_is_one_line(capsys, words, sentence):
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "") and sentence in err and err.count("\n") == 1
