"""Scripts for topologies that are not attached: plain JAX that compiles the very module that the
Lab priced.
"""

import json
import re
import subprocess
import sys
from collections import Counter

import pytest

from spmd_core.base import RequestError, Settings, bytes_text
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.results import Result
from spmd_core.results.export import CSV_COLUMNS, csv_text, json_text
from spmd_core.script import program_text, script_text
from spmd_core.script.decoder import configuration, decoder_text
from spmd_core.workloads import DEFAULT_SPEC
from tests.commands.calls import told
from tests.cover import whole

pytest.importorskip("libtpu")

SMALL = {
    "batch": 8,
    "sequence": 256,
    "layers": 2,
    "embed": 256,
    "heads": 2,
    "kv_heads": 2,
    "mlp": 512,
    "vocab": 512,
}
SPECS = [
    {
        "workload": "layer",
        "mesh": {"x": 2, "y": 2},
        "target": "tpu:v4:2x2x1",
        "dims": {"batch": 256, "in": 512, "out": 256},
        "sharding": {"in": "x", "batch": "y"},
        "strategies": ["single", "auto", "shard_map", "vmap"],
    },
    DEFAULT_SPEC | {"target": "tpu:v5e:2x2", "mesh": {"fsdp": 2, "tensor": 2}, "dims": SMALL},
    {
        "workload": "serving_step",
        "target": "tpu:v5e:2x2",
        "mesh": {"data": 2, "tensor": 2},
        "dims": {"requests": 4, "slots": 256},
        "options": {"model": "scaled:1"},
        "strategies": ["auto"],
    },
]
COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)(?:-start)?\("
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """One Lab, which the commands of this file find too."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("data")
        patch.setenv("SPMD_LAB_DATA", str(folder))
        lab = Lab.open(folder, settings=Settings(predict_timeout_s=500))
        yield lab
        lab.close()


# a decoder's differs in its program alone, which is compiled for the command line below
@pytest.mark.parametrize(
    "spec",
    [SPECS[0], *(pytest.param(spec, marks=whole) for spec in SPECS[1:])],
    ids=lambda spec: spec["workload"],
)
def test_a_script_compiles_the_module_that_was_priced(lab, spec, tmp_path):
    experiment = parse_experiment(spec)
    run = lab.submit(experiment)
    status = lab.wait(run, 500)
    assert status.state == "succeeded", (status.error, status.stderr_tail)
    result = lab.result(run)
    file = tmp_path / "script.py"
    file.write_text(script_text(experiment, result))
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = dict(line.split(" = ") for line in done.stdout.splitlines() if " = " in line)
    for strategy, found in result.strategies.items():
        if found.prediction is None:
            assert strategy == "vmap" and f"{strategy}:" not in done.stdout
            continue
        memory = found.prediction.memory_bytes
        assert int(said[f"{strategy}: argument_size"]) == memory.argument
        # an answer from the schedule counts the assignment of buffers, which for small programs has
        # tables of tuples besides
        is_final = found.prediction.program != "scheduled"
        peak = int(said[f"{strategy}: peak_memory"])
        assert peak == memory.peak if is_final else peak + 2**16 >= memory.peak
        kinds = Counter(COLLECTIVE.findall(lab.texts(run, strategy)["hlo"]))
        assert re.findall(rf"^{strategy}: ([a-z-]+) x (\d+)$", done.stdout, re.MULTILINE) == [
            (kind, str(n)) for kind, n in sorted(kinds.items())
        ]
    if spec["workload"] == "decoder":
        assert {axis for one in result.strategies["auto"].collectives for axis in one.axes} == {
            "fsdp",
            "tensor",
        }
        assert all(
            one.source is None or one.source.startswith("decoder_auto.py:")
            for one in result.strategies["auto"].collectives
        )
        assert lab.texts(run, "auto")["program"] == decoder_text(experiment.plan)
        assert result.strategies["auto"].prediction.mfu > 0
    assert Result.model_validate_json(json_text(result)) == result
    rows = [line.split(",") for line in csv_text(result).splitlines()]
    row = dict(zip(CSV_COLUMNS, next(row for row in rows if row[5] == "auto"), strict=True))
    time = result.strategies["auto"].predicted_s
    assert (row["fits"], row["peak_bytes"]) == (
        "True",
        str(result.strategies["auto"].prediction.memory_bytes.peak),
    )
    assert [
        float(row[name]) for name in ("predicted_low_s", "predicted_s", "predicted_high_s")
    ] == [time.low, time.estimate, time.high]
    assert row["seconds"] == ""


def test_the_command_line_answers_with_what_was_priced_and_keeps_it(lab, tmp_path):
    """The decoder of above: the program that is compiled is that of its script."""
    kept, spec = tmp_path / "plan.json", tmp_path / "spec.json"
    spec.write_text(json.dumps(SPECS[1]))
    done = told("predict", str(spec), "--keep", str(kept), "--json")
    assert done.returncode == 0, done.stderr
    found, before = json.loads(done.stdout), len(lab.history())
    assert json.loads(told("predict", str(spec), "--json").stdout) == found
    assert len(lab.history()) == before, "it was compiled once"
    assert found["fits"] is True
    assert (
        found["predicted_s"]["low"]
        <= found["predicted_s"]["estimate"]
        <= found["predicted_s"]["high"]
    )
    assert 0 < found["mfu"] < 1
    assert found["tflops_per_chip"] == pytest.approx(197 * found["mfu"])
    assert {axis for each in found["collectives"] for axis in each["axes"]} == {"fsdp", "tensor"}
    assert found["shares_s"]["kernel"] > 0, "the attention kernel's"
    assert found["timeline"] == [], "no screen read it; the key stays"
    experiment = parse_experiment(SPECS[1])
    program = decoder_text(experiment.plan)
    assert lab.texts(lab.latest(experiment), "auto")["program"] == program
    # the script's, on devices of a topology
    assert program.strip().replace("jax.devices()", "devices") in script_text(experiment)
    kept_plan = json.loads(kept.read_text())
    assert kept_plan["plan"]["remat"] == "full"
    assert kept_plan["estimate_s"] == found["predicted_s"]["estimate"]
    kind, axes, size, count = kept_plan["collectives"][0]
    more = [[kind, axes, size, count + 1], *kept_plan["collectives"][1:]]
    kept.write_text(json.dumps(kept_plan | {"collectives": more}))
    again = told("predict", "--baseline", str(kept))
    assert again.returncode == 1, again.stderr
    assert (
        again.stdout
        == f"{kind} over {', '.join(axes)} of {bytes_text(size)}: {count + 1} before, {count} now\n"
    )
    assert len(lab.history()) == before + 1, "no further run but the one that is compared"


def test_the_environment_is_set_before_jax_is_imported():
    text = script_text(parse_experiment(SPECS[1]))
    before, _, _ = text.partition("import jax\n")
    for name in (
        "JAX_PLATFORMS",
        "TPU_SKIP_MDS_QUERY",
        "ALLOW_MULTIPLE_LIBTPU_LOAD",
        "LIBTPU_INIT_ARGS",
    ):
        assert f'os.environ["{name}"] = ' in before
    assert (
        "--xla_enable_async_all_gather=true" in before
        and "spmd_core" not in text
        and "jax.devices()" not in text
    )


def test_a_configuration_says_only_what_is_not_the_default():
    plan = parse_experiment(
        DEFAULT_SPEC | {"options": {"model": "gemma-2-9b", "remat": "minimal", "save": "out"}}
    ).plan
    said = configuration(plan)
    assert (
        said["window"] == 4096
        and said["stages"] == ((({}, {"window": None}), 21),)
        and said["remat"] == "minimal"
        and said["save"] == ("out",)
        and said["tied"] is True
    )
    assert "attention_block" not in said and "state_dtype" not in said and "name" not in said


def test_slices_are_outermost_in_the_mesh():
    spec = DEFAULT_SPEC | {
        "target": "tpu:v5e:2x2*2",
        "mesh": {"data": 2, "fsdp": 4},
        "dims": {"batch": 8},
    }
    text = decoder_text(parse_experiment(spec).plan)
    assert (
        "mesh_utils.create_hybrid_device_mesh((1, 4), (2, 1), jax.devices(), "
        "allow_split_physical_axes=True)" in text
    )
    plain = decoder_text(parse_experiment(spec | {"options": {"device_order": "plain"}}).plan)
    assert "np.array(jax.devices()).reshape((2, 4))" in plain and "mesh_utils" not in plain


@pytest.mark.parametrize(
    ("target", "mesh", "placed"),
    [
        (
            "tpu:v5p:8x8x8",
            {"x": 128, "y": 4},
            "mesh_utils.create_device_mesh((128, 4), jax.devices()[:512], "
            "allow_split_physical_axes=True)",
        ),
        (
            "tpu:v5e:4x4*2",
            {"x": 16, "y": 2},
            "mesh_utils.create_hybrid_device_mesh((8, 2), (2, 1), jax.devices()[:32], "
            "allow_split_physical_axes=True)",
        ),
        (
            "tpu:v5e:4x4*2",
            {"x": 16},
            "mesh_utils.create_device_mesh((16,), jax.devices()[:16], "
            "allow_split_physical_axes=True)",
        ),
    ],
)
def test_a_mesh_over_absent_devices_may_split_physical_axes_and_span_slices(target, mesh, placed):
    experiment = parse_experiment({"workload": "layer", "target": target, "mesh": mesh})
    assert f"mesh = Mesh({placed}, " in program_text(experiment, "auto")
    assert "make_mesh" in program_text(experiment.vary(target="cpu:8", mesh={"x": 8}), "auto")


def test_slices_that_do_not_divide_over_the_mesh_are_refused_in_a_sentence():
    experiment = parse_experiment(
        {"workload": "layer", "target": "tpu:v5e:4x4*2", "mesh": {"x": 24}}
    )
    with pytest.raises(
        RequestError, match=r"2 slices do not divide over mesh axes \[24\]: fill all 32 devices"
    ):
        program_text(experiment, "auto")
