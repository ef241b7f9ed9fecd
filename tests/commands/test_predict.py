"""Predictions from the command line: through the Lab, into the history, and from the store where
the same versions made them.
"""

import json
import signal
import subprocess
import sys

import pytest

from spmd_core.answers import ways_headline, ways_json
from spmd_core.commands import predict, search
from spmd_core.lab import Lab
from spmd_core.plan import PRESETS
from spmd_core.results import Result
from spmd_core.sweeps import TrainingQuestion, ways_out
from spmd_core.terms import money_text
from spmd_core.workloads import parse_plan
from tests.commands.calls import told
from tests.labs import HASTY, PATIENCE_S, ROOT, until
from tests.specs import LONGEST_COMPILE

pytest.importorskip("libtpu")

SPEC = {
    "workload": "layer",
    "mesh": {"x": 4},
    "target": "tpu:v5e:2x2",
    "dims": {"batch": 512, "in": 512, "out": 512},
    "sharding": {"in": "x"},
    "strategies": ["single", "auto"],
}

PLAN = (
    "--target",
    "tpu:v5e:4x4",
    "--model",
    "scaled:1",
    "--mesh",
    "fsdp=16",
    "--batch-per-device",
    "2",
)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """One data folder for all commands of this file."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("data")
        patch.setenv("SPMD_LAB_DATA", str(path))
        # a compile that is cancelled is ended after less than the five seconds of a user's
        lab = Lab.open(path, settings=HASTY)
        yield path
        lab.close()


@pytest.fixture(scope="module")
def spec(folder):
    path = folder / "spec.json"
    path.write_text(json.dumps(SPEC))
    return str(path)


def runs():
    return [entry["run"] for entry in json.loads(told("history", "--json").stdout)]


def test_run_prints_what_was_predicted(spec):
    done = told("run", spec)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("Strategy"))
    head, single, auto = lines[at : at + 3]
    assert all(each in head for each in ("Time", "Interval", "Bound", "Fits", "Peak per device"))
    assert single.startswith("Single device (single)") and auto.startswith("Automatic (auto)")
    assert "predicted" in auto and "  yes  " in auto and "all-reduce over x" in auto
    result = Result.model_validate_json(told("history", "--run", runs()[0], "--json").stdout)
    assert result.strategies["auto"].prediction.fits and result.environment.platform == "tpu"


def test_predict_answers_from_the_store_what_the_same_versions_predicted(spec):
    first = told("predict", spec, "--json")
    assert first.returncode == 0, first.stderr
    found, known = json.loads(first.stdout), runs()
    assert (
        found["strategy"] == "auto"
        and found["fits"] is True
        and found["experiment"]["strategies"] == ["single", "auto"]
    )
    assert (
        found["predicted_s"]["low"]
        <= found["predicted_s"]["estimate"]
        <= found["predicted_s"]["high"]
    )
    assert json.loads(told("predict", spec, "--json").stdout) == found and runs() == known
    assert (
        f"compiled before, in run {known[0]}: --fresh compiles again"
        in told("predict", spec).stdout
    )
    assert (
        json.loads(told("predict", spec, "--strategy", "auto", "--fresh", "--json").stdout)[
            "predicted_s"
        ]
        == found["predicted_s"]
    )
    assert len(runs()) == len(known) + 1
    other = json.loads(told("predict", spec, "--strategy", "single", "--json").stdout)
    assert other["strategy"] == "single" and other["collectives"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--strategy", "pjit"), "strategy 'pjit' is not one of layer"),
        (
            ("--target", "cpu:8"),
            "target cpu:8 is not a TPU topology: name one with --target, for example tpu:v5e:4x4",
        ),
        (
            ("--target", "tpu:v5e:1x1"),
            "mesh x=4 of 4 devices is larger than target tpu:v5e:1x1 with 1",
        ),
        (("--estimate",), "--estimate of workload layer is not available"),
        (
            ("--sweep", "chips=8,64", "--tokens", "1T"),
            "--tokens of workload layer is not available",
        ),
        (("--keep", "kept.json"), "--keep of workload layer is not available"),
        (("--model", "scaled:1"), "--model with a spec means nothing: say it in the spec"),
        (("--compiler-flags", "xla_a=1"), "--compiler-flags with a spec means nothing"),
        (("--scaling", "strong"), "--scaling with no --sweep means nothing: add --sweep"),
        (("--baseline", "kept.json"), "a spec with --baseline means nothing"),
        (("--timeout", "nan"), "--timeout 'nan' is no number: write digits, such as 2 or 8e3"),
        (
            ("--strategy", "vmap"),
            "vmap is called on attached devices: there is nothing to compile for absent ones",
        ),
    ],
)
def test_a_bad_request_is_one_sentence(spec, words, said):
    done = told("predict", spec, *words)
    assert (
        done.returncode == 2
        and done.stdout == ""
        and said in done.stderr
        and done.stderr.count("\n") == 1
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--strategy", "shard_map"), "--strategy with a model means nothing"),
        (("--estimate", "--keep", "kept.json"), "--keep with --estimate means nothing"),
        (
            ("--schedule", "gpipe"),
            "--schedule with a mesh without stage means nothing: name it in --mesh",
        ),
        (("--repeats", "2"), "--repeats with a mesh without stage means nothing"),
        (("--estimate", "--remedies"), "--remedies with --estimate means nothing"),
        (
            ("--keep", "no/such/folder/kept.json"),
            "cannot be written (no such file or directory): name a file in another folder",
        ),
        (
            ("--compiler-flags=--xla_jf_generate_cpu_profile_to=here",),
            "compiler flag 'xla_jf_generate_cpu_profile_to=here' reads or writes files",
        ),
    ],
)
def test_a_bad_request_for_a_model_is_one_sentence(words, said):
    done = told("predict", *PLAN, *words)
    assert (
        done.returncode == 2
        and done.stdout == ""
        and said in done.stderr
        and done.stderr.count("\n") == 1
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[" * 200_000, "this file is not JSON"),
        ('{"baseline": 2}', "is not a baseline that `predict --keep` wrote"),
        ("", "this file is not JSON"),
        (" " * 2**21, "is larger than any baseline"),
    ],
)
def test_what_is_no_baseline_is_one_sentence(tmp_path, content, said):
    (tmp_path / "kept.json").write_text(content)
    done = told("predict", "--baseline", str(tmp_path / "kept.json"))
    assert (
        done.returncode == 2
        and done.stdout == ""
        and said in done.stderr
        and done.stderr.count("\n") == 1
    )


def test_a_time_limit_ends_the_compile_with_a_sentence(tmp_path):
    path = tmp_path / "long.json"
    path.write_text(json.dumps(LONGEST_COMPILE))
    done = told("predict", str(path), "--timeout", "1")
    assert done.returncode == 1 and done.stdout == ""
    assert (
        "the compile took longer than 1 s and was ended: allow it more time, or make the "
        "program smaller" in done.stderr
    )
    assert json.loads(told("history", "--json").stdout)[0]["status"] == "cancelled"


def test_ctrl_c_cancels_a_prediction(folder):
    command = [sys.executable, "-m", "spmd_core", "run", "-"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    process.stdin.write(json.dumps(LONGEST_COMPILE))
    process.stdin.close()
    lab = Lab.open(folder, serve=False)
    (run,) = until(lambda: [status.run for status in lab.active() if status.state == "running"])
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 130
    assert lab.status(run).state == "cancelled"
    lab.close()


@pytest.mark.parametrize(
    "flags",
    [
        "--xla_tpu_enable_async_collective_fusion=false",
        "xla_tpu_enable_async_collective_fusion=false",
    ],
)
def test_a_lone_compiler_flag_may_keep_its_dashes(flags):
    words = (
        "--target",
        "tpu:v5e:4x4",
        "--model",
        "scaled:1",
        "--mesh",
        "fsdp=16",
        "--batch-per-device",
        "1",
        "--estimate",
        "--json",
    )
    done = told("predict", *words, "--compiler-flags", flags)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fits"] is True


def test_an_axis_that_shards_no_parameter_is_named_in_either_form():
    wide = (*PLAN, "--target", "tpu:v5e:16x16*16", "--mesh", "fsdp=4096", "--estimate")
    sentence = (
        "embed=2048 does not divide over fsdp=4096: parameters are replicated on every device"
    )
    line = told("predict", *wide).stdout.splitlines()[0]
    assert "too much. Weights and optimizer" in line and f"per device. {sentence}." in line
    found = json.loads(told("predict", *wide, "--json").stdout)
    assert found["before_compiling"]["notes"] == [sentence]


def test_an_estimate_that_does_not_fit_names_the_nearest_plan_that_does():
    large = (
        "predict",
        "--target",
        "tpu:v5e:4x4",
        "--model",
        "llama-2-70b",
        "--mesh",
        "fsdp=16",
        "--batch-per-device",
        "2",
        "--estimate",
    )
    lines = told(*large).stdout.splitlines()
    found = json.loads(told(*large, "--json").stdout)
    plan = parse_plan(found["plan"])
    question = TrainingQuestion(found["plan"], 1e12, plan.batch, ("v5e",), 16)
    ways = ways_out(question, plan)  # as the screen has them
    assert "does not fit, " in lines[0] and lines[1] == ways_headline(plan, ways)
    first = next(way for way in ways if way.is_sure)
    assert lines[2].startswith(f"try: --target {first.plan.target} --mesh ")
    assert "Days of 1T tokens." in lines and len(found["ways_out"]) == len(ways) > 0
    assert found["ways_out"] == json.loads(json.dumps(ways_json(ways)))
    near = found["nearest"]
    assert near["plan"]["target"] == "tpu:v5e:8x16" and len(near["changes"]) == 3
    fitting = json.loads(told("predict", *PLAN, "--estimate", "--json").stdout)
    assert (fitting["nearest"], fitting["fit"], fitting["ways_out"]) == (None, "fits", [])


@pytest.mark.parametrize("batch", ["1", "2", "4", "16"])
@pytest.mark.parametrize("target", ["tpu:v5e:4x4", "tpu:v5e:8x16", "tpu:v5p:2x2x4"])
def test_whether_a_plan_fits_is_one_word_in_text_and_json_and_the_nearest_one_does(target, batch):
    devices = {"tpu:v5e:4x4": 16, "tpu:v5e:8x16": 128, "tpu:v5p:2x2x4": 16}[target]
    asked = ("predict", "--model", "llama-2-70b", "--sequence", "4096", "--estimate", "--target",
             target, "--mesh", f"fsdp={devices}", "--batch-per-device", batch)  # fmt: skip
    text, found = told(*asked).stdout, json.loads(told(*asked, "--json").stdout)
    words = ["fits", "may not fit", "does not fit"]
    assert [each for each in words if f": {each}" in text.splitlines()[0]] == [found["fit"]]
    assert found["fits"] or found["fit"] != "fits"
    assert (found["nearest"] is None) == found["fits"]
    if (near := found["nearest"]) is None:
        return
    plan = near["plan"]
    again = ("predict", "--model", "llama-2-70b", "--sequence", "4096", "--estimate", "--target",
             plan["target"], "--mesh", ",".join(f"{k}={v}" for k, v in plan["mesh"]),
             "--batch-per-device", f"{plan['batch_per_device']:.15g}", "--remat", plan["remat"],
             "--offload", ",".join(plan.get("offload", [])))  # fmt: skip
    answer = json.loads(told(*again, "--json").stdout)
    assert (answer["fit"], near["fit"]) == ("fits", "fits")
    assert answer["memory_bytes"]["peak"] == near["peak_bytes"]


@pytest.mark.parametrize(
    ("flag", "text", "said"),
    [
        ("--sequence", "8192", None),
        ("--sequence", "8.192e3", None),
        ("--sequence", "8_192", None),
        ("--sequence", "8k", "--sequence '8k' is no number: write 8192 or 8000"),
        ("--sequence", "0.5", "--sequence '0.5' is no whole number: use 0"),
        ("--sequence", "inf", "--sequence 'inf' is no number: write digits, such as 2 or 8e3"),
        ("--tokens", "15T", None),
        ("--tokens", "500b", None),
        ("--tokens", "15e12", None),
        ("--tokens", "0", "--tokens '0' is no number of tokens: use more than 0, at most 1e+16"),
        ("--tokens", "15Q", "'15Q' is no number: write digits, such as 2 or 8e3, with m or b or t"),
    ],
)
def test_a_number_is_read_without_doubt_or_refused_in_a_sentence(flag, text, said):
    done = told("predict", *PLAN, "--estimate", "--json", flag, text)
    if said:
        assert (done.returncode, done.stdout) == (2, "") and said in done.stderr
        assert done.stderr.count("\n") == 1 and "--help" not in done.stderr
    else:
        plain = {"8.192e3": "8192", "8_192": "8192", "15T": "15e12", "500b": "5e11"}.get(text, text)
        assert done.returncode == 0
        assert done.stdout == told("predict", *PLAN, "--estimate", "--json", flag, plain).stdout


def test_what_does_not_fit_has_no_time_no_cost_and_no_collectives():
    large = ("predict", *PLAN, "--target", "tpu:v5e:4x4", "--model", "llama-2-70b", "--estimate")
    text = told(*large).stdout
    assert "does not fit" in text and "per device:" in text
    assert not any(words in text for words in ("a step (", "MFU", "cost:", "exposed", "all-gather"))
    found = json.loads(told(*large, "--json").stdout)
    assert found["fits"] is False and found["collectives"] == []
    assert all(found[name] is None for name in ("predicted_s", "mfu", "binds", "chip_seconds"))


def test_host_memory_stands_in_text_and_json_beside_what_a_device_may_take():
    offloading = ("predict", *PLAN, "--offload", "input,mlp_up", "--estimate")
    found = json.loads(told(*offloading, "--json").stdout)
    held, room = found["memory_bytes"]["host"], found["host_capacity_bytes"]
    assert 0 < held < room == int(0.9 * 192 * 2**30 / 4)
    assert f" GiB of {room / 2**30:.1f} GiB of host memory: fits." in told(*offloading).stdout


def test_memory_that_a_dim_takes_because_it_does_not_divide_is_explained():
    placed = ("--target", "tpu:v5p:4x4x8", "--mesh", "fsdp=128", "--batch-per-device", "1")
    text = told("predict", *placed, "--model", "gpt-oss-120b", "--estimate").stdout
    why = "embed=2880 does not divide over fsdp=128: parameters are replicated on every device"
    assert f"per device. {why}." in text.splitlines()[0] and text.count(why) == 1


def test_models_stand_in_the_help():
    for arguments in (predict.ARGUMENTS, search.ARGUMENTS):
        assert all(name in arguments["--model"]["help"] for name in PRESETS)


def test_each_point_of_a_sweep_costs_the_price_of_its_own_kind():
    words = ("predict", *PLAN, "--estimate", "--sweep", "generation=v5e,v5p,v6e")
    free = json.loads(told(*words, "--json").stdout)
    given = ("--price-per-chip-hour", "v5p=4.2,v6e=2.7")
    priced = json.loads(told(*words, *given, "--json").stdout)
    spent = [each["money_per_step"] for each in priced]
    assert spent[0] is None
    for each, dollars, price in zip(free[1:], spent[1:], (4.2, 2.7), strict=True):
        assert dollars == pytest.approx(each["chip_seconds"] / 3600 * price)
    assert "Cost per billion tokens" in told(*words, *given).stdout
    trained = (*words, "--tokens", "1T", "--price-per-chip-hour", "v5e=1.2,v5p=4.2,v6e=2.7")
    runs = [each["training"] for each in json.loads(told(*trained, "--json").stdout)]
    assert [run["money"] / run["chip_hours"] for run in runs] == pytest.approx([1.2, 4.2, 2.7])
    least = min(run["money"] for run in runs)
    assert f"\nFewest dollars: {money_text(least)} at TPU v" in told(*trained).stdout
