"""What is exported: a script that runs without this project and gives the run's values, and results
as JSON and CSV.
"""

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.hostile_links import hold_example, specs
from spmd_core.base import RequestError
from spmd_core.experiment import Experiment, compiler_flags, parse_experiment
from spmd_core.recipes import RECIPES
from spmd_core.results import Environment, Failure, Result, StrategyResult, Unsharded
from spmd_core.results.export import CSV_COLUMNS, csv_text, json_text
from spmd_core.script import script_text, why_no_script
from spmd_core.script.bodies import body_text
from spmd_core.workloads import workload_names
from tests.labs import lab_of_module
from tests.needs import newer_python

QUICK = {"samples": 3, "min_seconds": 0}
LAYER = {
    "workload": "layer",
    "mesh": {"x": 8},
    "dims": {"in": 32, "out": 4},
    "sharding": {"in": "x"},
    "target": "cpu:8",
    "timing": QUICK,
    "strategies": ["single", "auto", "constrained", "explicit", "shard_map"],
}

OWN = """
import jax.numpy as jnp
from spmd_core.declare import workload


@workload(operands={"x": ("rows",)}, results={"y": ("rows",)}, defaults={"rows": 64})
def steep(x):
    return jnp.exp(4 * x)
"""


lab = lab_of_module()


def run(lab, experiment: Experiment) -> Result:
    run_id = lab.submit(experiment)
    assert lab.wait(run_id, 120).state == "succeeded"
    return lab.result(run_id)


def execute(
    script: str, folder: Path, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """The script in a folder and an environment that know nothing of this project."""
    file = folder / "script.py"
    file.write_text(script)
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAX", "XLA", "PYTHON", "SPMD"))
    }
    return subprocess.run(
        [python, "-W", "error", str(file)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )


def printed_values(text: str) -> dict[str, list[float]]:
    """`strategy: name` -> the values that the script printed."""
    return {
        match[1]: [float(value) for value in match[2].split()]
        for match in re.finditer(r"^(\S+: \w+) =(.*)$", text, re.MULTILINE)
    }


def test_the_script_gives_the_values_of_the_run(lab, tmp_path):
    experiment = parse_experiment(LAYER)
    result = run(lab, experiment)
    script = script_text(experiment, result)
    assert "spmd_core" not in script
    for strategy in experiment.strategies:
        assert f"# %% {strategy}\n{body_text(experiment, strategy).strip()}\n" in script
    done = execute(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert printed_values(done.stdout) == {
        f"{name}: y": list(found.outputs["y"].values) for name, found in result.strategies.items()
    }
    assert done.stdout.count("y: the very values of the run") == done.stdout.count("y: right") == 5
    assert re.search(r"^constrained: [\d.]+ µs from unsharded operands$", done.stdout, re.MULTILINE)


def test_the_script_runs_on_another_python_and_jax(lab, tmp_path):
    python = newer_python()
    if python is None:
        pytest.skip("no newer Python with JAX here")
    experiment = parse_experiment(
        LAYER
        | {
            "memory": {"weights": "pinned_host"},
            "overrides": {"y": ["x"]},
            "dims": {"in": 32, "out": 8},
        }
    )
    result = run(lab, experiment)
    # a flag of these tests alone, which only one version has
    script = script_text(experiment, result).replace("--xla_cpu_use_fusion_emitters=false", "")
    done = execute(script, tmp_path, python)
    assert done.returncode == 0, done.stderr
    for name, values in printed_values(done.stdout).items():
        assert values == pytest.approx(
            result.strategies[name.partition(":")[0]].outputs["y"].values, abs=1e-6
        )


@pytest.mark.parametrize(
    "spec",
    [
        {
            "workload": "dot",
            "dims": {"n": 8, "k": 16},
            "strategies": ["vmap", "jit(vmap)", "pmap", "jit(pmap)", "pmap(jit)", "pmap(vmap)"],
        },
        {"workload": "train_step", "strategies": ["single", "auto", "pmap"]},
    ],
    ids=lambda spec: spec["workload"],
)
def test_maps_and_several_results_are_exported_as_they_ran(spec, lab, tmp_path):
    experiment = parse_experiment({"mesh": {"x": 8}, "target": "cpu:8", "timing": QUICK} | spec)
    result = run(lab, experiment)
    done = execute(script_text(experiment, result), tmp_path)
    assert done.returncode == 0, done.stderr
    small = {
        f"{strategy}: {name}": list(array.values)
        for strategy, found in result.strategies.items()
        for name, array in found.outputs.items()
        if array.values is not None
    }
    assert small and printed_values(done.stdout) == small


def test_wrong_values_end_the_script_with_an_error_though_the_run_had_them_too(lab, tmp_path):
    experiment = parse_experiment(LAYER | {"strategies": ["single", "auto"]})
    script = script_text(experiment, run(lab, experiment))
    wrong = script.replace(
        "jnp.matmul(x, weights, precision=PRECISION) + bias",
        "jnp.matmul(x, weights, precision=PRECISION) + 1.01 * bias",
        1,
    )
    assert wrong != script
    done = execute(wrong, tmp_path)
    assert done.returncode == 1 and done.stderr.strip() == "single: 4 of 4 elements of y are wrong"
    # the others run all the same
    assert "single: y: WRONG" in done.stdout and "auto: y: right" in done.stdout


def test_without_a_run_values_are_judged_all_the_same(tmp_path):
    experiment = parse_experiment(
        LAYER | {"strategies": ["auto", "shard_map"], "dtype": "bfloat16", "target": "cpu:8"}
    )
    done = execute(script_text(experiment), tmp_path)
    assert done.returncode == 0 and done.stdout.count("y: right") == 2, done.stderr
    values = printed_values(done.stdout)
    assert values["auto: y"] == pytest.approx(values["shard_map: y"], abs=0.05)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("layout_2x4", "place: array = 0.0 1.0 2.0 3.0"),
        ("psum_total", "total = 496"),
    ],
)
def test_placing_and_small_programs_are_exported_too(name, words, tmp_path):
    experiment = RECIPES[name].experiment.vary(target="cpu:8", timing=QUICK)
    done = execute(script_text(experiment), tmp_path)
    assert done.returncode == 0 and words in done.stdout, done.stderr


def test_too_few_devices_stop_the_script_at_once(tmp_path):
    script = script_text(parse_experiment(LAYER)).replace(
        '"JAX_NUM_CPU_DEVICES"] = "8"', '"JAX_NUM_CPU_DEVICES"] = "2"'
    )
    done = execute(script, tmp_path)
    assert done.returncode == 1 and "made for 8 devices, here are 2" in done.stderr


def test_what_cannot_be_expressed_is_a_comment(tmp_path):
    experiment = parse_experiment(
        LAYER
        | {
            "mesh": {"x": 2},
            "dims": {"batch": 2, "in": 4, "out": 4},
            "sharding": {"batch": "x", "out": "x"},
            "overrides": {"y": ["x", None]},
            "strategies": ["auto", "explicit"],
        }
    )
    script = script_text(experiment)
    assert (
        "# %% explicit\n# explicit cannot express this sharding: mesh axis 'x' shards both batch "
        "and out of y" in script
    )
    assert execute(script, tmp_path).returncode == 0


def invented(**strategies: StrategyResult) -> Result:
    environment = Environment(
        jax="0", jaxlib="0", python="3", platform="cpu", device_kind="cpu", device_count=8
    )
    return Result(
        run="r1", experiment=parse_experiment(LAYER), environment=environment, strategies=strategies
    )


def test_a_strategy_that_failed_in_the_run_is_a_comment():
    script = script_text(
        parse_experiment(LAYER),
        invented(
            auto=StrategyResult(status="error", error=Failure(kind="ValueError", message="no\nway"))
        ),
    )
    assert "# %% auto\n# It failed in the run, with ValueError: no way" in script
    compile(script, "script", "exec")


def test_values_that_are_not_finite_are_written_as_python(tmp_path):
    found = invented().model_copy(
        update={
            "strategies": {
                "auto": StrategyResult.model_validate(
                    {
                        "status": "ok",
                        "outputs": {
                            "y": {"shape": [3], "dtype": "float32", "values": [1.0, "nan", "-inf"]}
                        },
                    }
                )
            }
        }
    )
    script = script_text(parse_experiment(LAYER), found)
    assert "'auto': {'y': [1.0, float('nan'), float('-inf')]}" in script
    compile(script, "script", "exec")


def test_results_as_json_come_back_the_same():
    result = invented(auto=StrategyResult(status="ok", samples_s=(1e-3, 2e-3), median_s=1.5e-3))
    assert Result.model_validate_json(json_text(result)) == result
    assert json.loads(json_text(result))["strategies"]["auto"]["predicted_s"] is None


def test_csv_has_a_row_per_sample():
    result = invented(
        auto=StrategyResult(status="ok", samples_s=(1e-3, 2e-3), outliers=(1,)),
        constrained=StrategyResult(
            status="ok",
            samples_s=(3e-3,),
            from_unsharded=Unsharded(samples_s=(4e-3,), median_s=4e-3),
        ),
        explicit=StrategyResult(status="error", error=Failure(kind="ValueError", message="no")),
    )
    rows = list(csv.DictReader(io.StringIO(csv_text(result, result))))
    assert len(rows) == 10 and tuple(rows[0]) == CSV_COLUMNS
    assert [
        (row["strategy"], row["operands"], row["sample"], row["seconds"], row["outlier"])
        for row in rows[:5]
    ] == [
        ("auto", "placed", "0", "0.001", "False"),
        ("auto", "placed", "1", "0.002", "True"),
        ("constrained", "placed", "0", "0.003", "False"),
        ("constrained", "unsharded", "0", "0.004", ""),
        ("explicit", "", "", "", ""),
    ]
    assert rows[0]["run"] == "r1" and rows[0]["mesh"] == "x=8" and rows[4]["status"] == "error"


def test_a_function_of_one_s_own_is_judged_by_itself(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    monkeypatch.setenv("SPMD_LAB_WORKLOADS", str(file))
    assert "steep" in workload_names(wait_s=None)
    experiment = parse_experiment(
        {
            "workload": "steep",
            "mesh": {"x": 8},
            "target": "cpu:8",
            "timing": QUICK,
            "strategies": ["single", "auto"],
        }
    )
    script = script_text(experiment)
    done = execute(script, tmp_path)
    assert done.returncode == 0 and done.stdout.count("y: right") == 2, done.stderr
    done = execute(
        script.replace("    return steep(x)", "    return 1.001 * steep(x)", 1), tmp_path
    )
    assert done.returncode == 1 and re.search(
        r"^single: \d+ of 64 elements of y are wrong$", done.stderr, re.MULTILINE
    )


def test_each_variant_of_a_study_computes_even_where_its_program_is_that_of_another_target():
    layer = {"workload": "layer", "mesh": {"x": 4}, "sharding": {"in": "x"}, "strategies": ["auto"]}
    study = parse_experiment(
        {
            "study": [
                {"experiment": layer | {"target": target}}
                for target in ("tpu:v5e:2x2", "tpu:v6e:2x2", "tpu:v5p:2x2x1", "cpu:8")
            ]
        }
    )
    text = script_text(study)
    compile(text, "script", "exec")
    assert text.startswith('"""Dense layer in 4 variants: ')
    assert text.count("report('auto', program.lower(") == 3 and text.count("# %% auto") == 4
    assert text.count("# %% compiling") == 1  # definitions stand once
    alone = text.count("run it in a process of its own")
    flags = [tuple(sorted(compiler_flags(each.experiment).items())) for each in study.variants[:3]]
    assert alone == sum(each != flags[0] for each in flags)


def test_every_kind_of_experiment_has_a_script_or_a_sentence(data_folder):
    hold_example(data_folder)
    told, first = set(), {(spec.get("workload"), spec.get("target")): spec for spec in specs()}
    for spec in first.values():
        try:
            experiment = parse_experiment(spec)
            assert script_text(experiment).startswith('"""')
            assert why_no_script(experiment) is None
        except RequestError as error:
            told.add(str(error))
    for sentence in (
        "workload program_file would need the file of the program, which is no Python: send",
        "workload collectives measures devices, and tpu:v5e:2x4 has none here: use a target",
    ):
        assert any(sentence in each for each in told)
