"""Predictions through the Lab and the real TPU compiler: values, failures of their own, crashes,
cancelling, and what a missing libtpu says.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spmd_core.advice import in_words
from spmd_core.base import Settings
from spmd_core.commands.printed.report import report
from spmd_core.engine.absent.topology import explain
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Shardings
from spmd_core.pictures import text as timeline
from spmd_core.program import NAME as SHARDINGS
from spmd_core.runs import TIMING
from spmd_core.time import is_current, versions
from spmd_core.words import run_headline
from spmd_core.words.strategies import same_programs
from spmd_core.workloads import DEFAULT_SPEC
from tests.labs import ROOT, is_stopped, lab_of_module, until
from tests.specs import LONGEST_COMPILE

pytest.importorskip("libtpu")

PATIENT = Settings(run_timeout_s=1, predict_timeout_s=500, idle_s=300, cancel_grace_s=0.5)
LAYER = {
    "workload": "layer",
    "mesh": {"x": 4},
    "target": "tpu:v5e:2x2",
    "dims": {"batch": 1024, "in": 1024, "out": 1024},
    "dtype": "bfloat16",
    "sharding": {"in": "x"},
    "strategies": ["auto"],
}
HERE = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": {"x": 8},
    "strategies": ["auto"],
    "timing": {"samples": 3, "min_seconds": 0},
}
TIMED = HERE | {"timing": {"samples": 50, "min_seconds": 1}}  # most of a minute


def cpu_ticks(pid):
    """Time that a process and its threads have computed, in clock ticks; proc(5): utime, stime."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


lab = lab_of_module(PATIENT)


def predicted(lab, **changes):
    """The id and the result of a run that is to succeed."""
    run = lab.submit(parse_experiment(LAYER | changes))
    status = lab.wait(run, 500)
    assert status.state == "succeeded", (status.error, status.stderr_tail)
    return run, lab.result(run)


def test_every_strategy_is_compiled_and_priced_and_nothing_is_executed(lab):
    run, result = predicted(lab, strategies=["single", "auto", "shard_map", "vmap", "pmap(vmap)"])
    environment = result.environment
    assert (environment.platform, environment.device_kind, environment.device_count) == (
        "tpu",
        "TPU v5 lite",
        4,
    )
    assert (
        not environment.simulated
        and environment.libtpu == versions()["libtpu"]
        and len(environment.devices) == 4
    )
    assert environment.devices[3].coords == (1, 1, 0)
    assert any("none is executed" in note for note in in_words(result).notes)
    auto, single = result.strategies["auto"], result.strategies["single"]
    for found in (auto, single, result.strategies["shard_map"]):
        assert (
            found.status == "ok"
            and found.prediction.fits
            and found.samples_s == ()
            and found.median_s is None
        )
        assert (
            found.predicted_s == found.prediction.predicted_s
            and 0 < found.predicted_s.low <= found.predicted_s.high < 1e-3
        )
        assert (
            found.phases_s.trace > 0
            and found.phases_s.lower > 0
            and found.phases_s.compile > 0
            and found.phases_s.first_run is None
        )
        assert found.memory_bytes.argument == found.prediction.memory_bytes.argument
    (sum_,) = auto.collectives
    assert (sum_.kind, sum_.axes, sum_.bytes, sum_.count) == (
        "all-reduce",
        ("x",),
        1024 * 1024 * 2,
        1,
    )
    assert "contracted dim `in` is sharded over x" in sum_.reason and sum_.source.startswith(
        "layer_auto.py:"
    )
    assert single.collectives == () and single.prediction.binds in ("compute", "memory")
    for each, chips in ((auto, 4), (single, 1)):
        paid = chips * each.prediction.predicted_s.estimate
        assert each.prediction.chip_seconds == pytest.approx(paid), "of the chips that it takes"
    assert auto.memory_bytes.argument < single.memory_bytes.argument
    for name in ("vmap", "pmap(vmap)"):
        assert result.strategies[name].error.kind == "inexpressible"
        assert (
            "there is nothing to compile for absent ones" in result.strategies[name].error.message
        )
    texts = lab.texts(run, "auto")
    assert set(texts) == {"program", "jaxpr", "stablehlo", "hlo", timeline.NAME, SHARDINGS}
    steps = Shardings.model_validate_json(texts[SHARDINGS]).steps
    assert any(step.sums == ("x",) and "all-reduce over x" in step.collectives for step in steps)
    assert "jax.devices()" in texts["program"] and "all-reduce" in texts["hlo"]
    whole = timeline.from_text(texts[timeline.NAME]).scenes[0]
    assert whole.length_s == pytest.approx(auto.predicted_s.estimate)
    assert {"matmul", "all-reduce"} <= {span.kind for span in whole.spans}
    assert lab.latest(result.experiment) == run and is_current(result)
    older = {
        name: found.model_copy(
            update={
                "prediction": found.prediction.model_copy(
                    update={"compile": {"versions": {"jax": "0.1"}}}
                )
            }
        )
        for name, found in result.strategies.items()
        if found.prediction
    }
    assert not is_current(result.model_copy(update={"strategies": older}))


@pytest.mark.this_python
def test_strategies_that_compile_to_the_same_program_are_named(lab):
    # in bfloat16 shard_map would keep its sums in float32, which is another program
    _, result = predicted(
        lab, strategies=["single", "auto", "shard_map"], sharding={"batch": "x"}, dtype="float32"
    )
    assert same_programs(result.strategies)[0][0] == ("auto", "shard_map")
    said = run_headline(result)
    assert said.endswith("Automatic and shard_map compile to the same program.")
    assert "Single device takes" in said and report(result)[0] == said


@pytest.mark.this_python
def test_a_study_over_targets_measures_what_is_here_and_predicts_the_rest(lab):
    dims = {"dims": {"batch": 64, "in": 64, "out": 64}, "sharding": {"batch": "x"}}
    absent = [
        HERE | dims | {"target": f"tpu:{each}:2x2", "mesh": {"x": 4}} for each in ("v5e", "v6e")
    ]
    study = parse_experiment(
        {
            "study": [
                {"experiment": each}
                for each in (*absent, HERE | dims | {"strategies": ["single", "auto"]})
            ]
        }
    )
    run = lab.submit(study)
    status = lab.wait(run, 500)
    assert status.state == "succeeded" and status.lane == TIMING, (status.error, status.stderr_tail)
    result = lab.result(run)
    assert list(result.strategies) == ["v5e:2x2/auto", "v6e:2x2/auto", "cpu:8/single", "cpu:8/auto"]
    assert (
        {name for name, each in result.strategies.items() if each.median_s}
        == {"cpu:8/single", "cpu:8/auto"}
        == {result.comparison.fastest, result.comparison.ratios[0].strategy}
    )
    assert (
        set(result.only_predicted_s)
        == {"v5e:2x2/auto", "v6e:2x2/auto"}
        == {result.predicted.fastest, result.predicted.ratios[0].strategy}
    )
    assert [result.of_variant(each.name).environment.device_kind for each in study.variants] == [
        "TPU v5 lite",
        "TPU v6 lite",
        "cpu",
    ]
    assert result.predicted.sentence and run_headline(result).endswith(result.predicted.sentence)
    assert "all-reduce" not in lab.text(run, "v6e:2x2/auto", "hlo")


@pytest.mark.this_python
def test_one_worker_compiles_for_several_topologies_in_turn(lab):
    predicted(lab)
    pid = lab.compiler_pid
    _, result = predicted(lab, target="tpu:v5p:2x2x1", mesh={"x": 2, "y": 2})
    assert lab.compiler_pid == pid
    assert (result.environment.device_kind, result.environment.device_count) == ("TPU v5", 4)
    assert (
        lab.devices("tpu:v5p:2x2x1").device_kind == "TPU v5"
        and lab.devices("tpu:v5e:2x2").device_kind == "TPU v5 lite"
    )
    _, result = predicted(lab, mesh={"x": 2})  # fewer devices than there are
    assert lab.compiler_pid == pid and result.strategies["auto"].collectives[0].axes == ("x",)


SMALLEST = {
    "v2": "2x2",
    "v3": "2x2",
    "v4": "2x2x1",
    "v5e": "2x2",
    "v5p": "2x2x1",
    "v6e": "2x2",
    "tpu7x": "2x2x1",
}


@pytest.mark.this_python
@pytest.mark.parametrize("generation", SMALLEST)
def test_a_small_topology_of_each_generation_is_compiled_for(lab, generation):
    devices = 8 if generation in ("v2", "v3", "tpu7x") else 4
    target = f"tpu:{generation}:{SMALLEST[generation]}"
    _, result = predicted(
        lab, target=target, mesh={"x": devices}, dims={"batch": 1024, "in": 2048, "out": 2048}
    )
    found = result.strategies["auto"].prediction
    assert found.fits and found.predicted_s is not None
    assert 0 < found.predicted_s.low <= found.predicted_s.estimate <= found.predicted_s.high < 1e-2
    assert {each.kind for each in found.collectives} & {"all-reduce", "reduce-scatter"}
    assert all(each.axes == ("x",) for each in found.collectives if each.kind == "all-reduce")
    assert result.environment.device_count == devices


def test_a_program_that_does_not_fit_says_by_how_much(lab):
    _, result = predicted(lab, dims={"batch": 65536, "in": 4096, "out": 262144}, sharding={})
    found = result.strategies["auto"]
    assert found.status == "ok" and not found.prediction.fits and found.predicted_s is None
    memory = found.prediction.memory_bytes
    assert (
        memory.peak > 65536 * 262144 * 2
        and memory.missing > 16 * 2**30
        and found.memory_bytes.peak == memory.peak
    )


@pytest.mark.this_python
def test_flags_that_the_compiler_does_not_know_crash_it_and_the_next_run_has_a_new_one(lab):
    pid = lab.compiler_pid
    run = lab.submit(
        parse_experiment(
            DEFAULT_SPEC | {"options": {"compiler_flags": "xla_tpu_no_such_flag=true"}}
        )
    )
    status = lab.wait(run, 300)
    assert (
        status.state == "crashed"
        and "Unknown command line flag 'xla_tpu_no_such_flag'" in status.error.message
    )
    predicted(lab)
    assert lab.compiler_pid not in (None, pid)


@pytest.mark.this_python
def test_a_long_compile_rests_while_a_run_is_timed_and_is_cancelled_without_a_trace(
    lab, monkeypatch
):
    monkeypatch.setattr(lab._supervisor.lanes[TIMING], "_settings", Settings())
    assert lab.wait(lab.submit(parse_experiment(HERE)), 60).state == "succeeded"  # a warm worker
    run = lab.submit(parse_experiment(LONGEST_COMPILE))
    until(lambda: lab.status(run).phase in ("partition", "optimize"), 300)
    pid = lab.status(run).worker_pid
    timed = lab.submit(parse_experiment(TIMED))
    # each thread stops on its own way out of the kernel
    until(lambda: lab.status(run).paused_for and is_stopped(pid), 60)
    lab.cancel(timed)
    assert lab.wait(timed, 60).state == "cancelled"
    until(lambda: not lab.status(run).paused_for)
    used = cpu_ticks(pid)
    until(lambda: cpu_ticks(pid) > used, 60)  # it compiles on
    lab.cancel(run)
    assert lab.wait(run, 60).state == "cancelled"
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.this_python
def test_a_missing_libtpu_is_named_with_what_to_install(tmp_path):
    """In a child whose libtpu cannot be imported."""
    (tmp_path / "libtpu").mkdir()
    (tmp_path / "libtpu" / "__init__.py").write_text("raise ImportError('blocked')\n")
    program = (
        "import sys\nfrom pathlib import Path\nfrom spmd_core.lab import Lab\nfrom "
        "spmd_core.experiment import parse_experiment\n"
        f"lab = Lab.open(Path({str(tmp_path / 'data')!r}), serve=False)\nstatus = "
        f"lab.wait(lab.submit(parse_experiment({LAYER!r})), 300)\n"
        "print(status.state, status.error.message)\n"
    )
    # importing libtpu sets it
    environ = {name: value for name, value in os.environ.items() if name != "TPU_LIBRARY_PATH"}
    environ["PYTHONPATH"] = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    wanted = (
        f"libtpu, which holds the TPU compiler, is not installed: run `pip install "
        f"'jax[tpu]=={versions()['jax']}'`"
    )
    assert done.stdout.strip() == f"failed {wanted}", done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "INVALID_ARGUMENT: Failed to deserialize module",
        "Failed to parse serialized HloModuleProto",
        "Mismatched PJRT plugin PJRT API version (0.90) and framework PJRT API version 0.80",
        "INTERNAL: PJRT_Client_Compile: failed to deserialize CompileOptionsProto",
        "Failed to parse PjRtTopologyDescriptionProto from binary string",
        "Unexpected PJRT_Plugin_Attributes_Args size: expected 32, got 24. The plugin is likely "
        "built with a later version than the framework.",
        "INTERNAL: Unknown opcode: ragged-foo",
        "failed to deserialize portable artifact using StableHLO_v1.7.5",
        "Failed to deserialize the Mosaic module: INTERNAL: Unsupported version: expected <= 7 "
        "but got 8",
    ],
)
def test_a_libtpu_that_jaxlib_cannot_read_is_named_with_what_to_install(words):
    said = explain(words)
    assert said.startswith(
        f"libtpu {versions()['libtpu']} and jaxlib {versions()['jaxlib']} do not fit one another: "
        f"run `pip install 'jax[tpu]=="
    )
    assert words in said
    assert explain("INVALID_ARGUMENT: something else") == "INVALID_ARGUMENT: something else"


@pytest.mark.parametrize(
    "words",
    [
        "INVALID_ARGUMENT: Incompatible shapes for matmul: f32[3] and f32[4]",
        "INTERNAL: prototype of kernel unsupported",
        "INTERNAL: during parsing of flags",
        "UNIMPLEMENTED: this protocol is not in API version 2 of the custom call",
        "INVALID_ARGUMENT: sharding is incompatible with the shape",
        "Failed to parse TPUEmbeddingConfiguration proto from config attr",
        "NOT_FOUND: custom call target 'mine'",
    ],
)
def test_what_the_compiler_says_of_a_program_is_left_as_it_is(words):
    assert explain(words) == words
