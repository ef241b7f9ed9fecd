"""The program texts: what is shown is plain JAX that computes the workload under every strategy."""

import ast
import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from spmd_core.base import Inexpressible
from spmd_core.experiment import Experiment, parse_experiment, spec_code
from spmd_core.reference import arithmetic, references
from spmd_core.script import program_text
from spmd_core.script.bodies import body_text
from spmd_core.script.parts import move_lines, spaced
from spmd_core.script.source import select_source
from spmd_core.workloads import WORKLOADS
from spmd_core.workloads.strategies import MAP_STRATEGIES, SHARDING_STRATEGIES
from tests.specs import experiments

LAYER = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "dims": {"batch": 8, "in": 32, "out": 16},
}


def namespace(experiment: Experiment, strategy: str) -> dict:
    names: dict = {}
    exec(
        compile(program_text(experiment, strategy), f"{experiment.workload}_{strategy}.py", "exec"),
        names,
    )
    return names


def outcome(experiment: Experiment, strategy: str) -> jax.Array:
    names = namespace(experiment, strategy)
    if strategy == "place":
        return names["program"]()
    operands, placed = names.get("arrange", dict)(names["make_operands"]()), names["placed"]
    return names["program"](
        *(
            value if placed[name] is None else jax.device_put(value, placed[name])
            for name, value in operands.items()
        )
    )


def holds(array: jax.Array, spec) -> bool:
    """Whether each device of the mesh holds what the spec says, in device order."""
    held = array.sharding.devices_indices_map(array.shape)
    devices = (
        list(array.sharding.mesh.devices.flat)
        if hasattr(array.sharding, "mesh")
        else sorted(held, key=lambda device: device.id)
    )
    mesh = jax.sharding.Mesh(
        np.array(devices).reshape([size for _, size in spec[0]]), [name for name, _ in spec[0]]
    )
    wanted = jax.sharding.NamedSharding(
        mesh, jax.sharding.PartitionSpec(*(axes or None for axes in spec[1]))
    )
    return wanted.devices_indices_map(array.shape) == held


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(experiments())
def test_every_strategy_computes_the_workload_or_says_why_not(experiment):
    for strategy in experiment.what.strategies:
        try:
            output = outcome(experiment, strategy)
        except Inexpressible as reason:
            assert (
                strategy in ("explicit", "shard_map", *MAP_STRATEGIES)
                and str(reason).startswith(strategy)
                and "; " in str(reason)
            )
            continue
        operands = namespace(experiment, strategy)["make_operands"]()
        if experiment.workload == "array":
            assert np.array_equal(np.asarray(output), operands["array"])
            assert output.sharding.memory_kind == experiment.memory_kind("array")
            assert holds(output, (experiment.mesh, experiment.spec("array")))
            continue
        how = arithmetic(experiment, "cpu", strategy)
        arrays = output if isinstance(output, tuple) else (output,)
        for (name, expected), array in zip(
            references(experiment, operands, how).items(), arrays, strict=True
        ):
            judged = expected.judge(np.asarray(array).reshape(experiment.shape(name)))
            assert judged.correct, (strategy, name, judged)
            if strategy in ("constrained", "explicit", "shard_map"):
                assert holds(array, (experiment.mesh, experiment.spec(name))), (
                    strategy,
                    name,
                    array.sharding,
                )


@pytest.mark.parametrize(
    "workload",
    [workload for workload in WORKLOADS.values() if workload.operands],
    ids=lambda workload: workload.name,
)
def test_operands_are_drawn_in_order_in_float64_and_then_cast(workload):
    experiment = parse_experiment(
        {
            "workload": workload.name,
            "mesh": {"x": 1},
            "seed": 5,
            "dims": dict.fromkeys(workload.dims, 2),
        }
    )
    operands = namespace(experiment, experiment.strategies[0])["make_operands"]()
    rng = np.random.default_rng(5)
    for array in workload.operands:
        drawn = rng.normal(size=experiment.shape(array.name))
        assert operands[array.name].dtype == np.dtype(workload.dtypes[0])
        if array.name not in {name for name, _, _ in workload.program.derived}:
            assert np.array_equal(operands[array.name], drawn.astype(workload.dtypes[0]))


def test_data_may_be_counted_or_ones():
    experiment = parse_experiment(
        LAYER | {"data": {"x": "arange", "bias": "ones"}, "dtype": "bfloat16"}
    )
    operands = namespace(experiment, "auto")["make_operands"]()
    assert np.array_equal(
        operands["x"], np.arange(8 * 32).reshape(8, 32).astype(jax.numpy.bfloat16)
    )
    assert (operands["bias"] == 1).all()
    assert np.array_equal(
        operands["weights"],
        np.random.default_rng(0).normal(size=(32, 16)).astype(jax.numpy.bfloat16),
    )


@pytest.mark.parametrize("strategy", SHARDING_STRATEGIES)
def test_texts_are_tidy_and_use_all_that_they_import(strategy, tmp_path):
    moved = {
        "sharding": {"in": "x", "batch": "y"},
        "memory": {"weights": "pinned_host"},
        "overrides": {"y": [None, "x"]},
    }
    experiment = parse_experiment(LAYER | moved)
    text = program_text(experiment, strategy)
    assert text.endswith(body_text(experiment, strategy).lstrip("\n"))
    file = tmp_path / "program.py"
    file.write_text(text)
    pytest.importorskip("ruff")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--preview",
        "--select",
        "E,F,W",
        "--ignore",
        "E501",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_types_and_shard_map_cannot_express_is_said():
    experiment = parse_experiment(
        LAYER | {"sharding": {"batch": "x", "out": "x"}, "overrides": {"y": ["x", None]}}
    )
    for strategy in ("explicit", "shard_map"):
        with pytest.raises(
            Inexpressible,
            match=f"{strategy} cannot express this sharding: mesh axis 'x' shards both batch and "
            f"out of y",
        ):
            program_text(experiment, strategy)
    assert program_text(experiment, "auto")


def test_specs_are_written_as_jax_writes_them():
    assert spec_code(()) == "P()"
    assert spec_code((("x",), (), ("y", "z"))) == "P('x', None, ('y', 'z'))"


def test_moves_gather_what_is_cut_too_finely_and_slice_what_is_not_cut_enough():
    sizes = {"x": 2, "y": 4}
    assert move_lines("a", (("x",),), (("x",),), (16,), sizes) == []
    assert move_lines("a", (("x", "y"),), (("x",),), (16,), sizes) == [
        "    a = jax.lax.all_gather(a, 'y', axis=0, tiled=True)"
    ]
    assert move_lines("a", ((),), (("y",),), (16,), sizes) == [
        "    a = jax.lax.dynamic_slice_in_dim(a, 4 * jax.lax.axis_index('y'), 4, axis=0)"
    ]
    assert len(move_lines("a", (("x",),), (("y",),), (16,), sizes)) == 2


def test_only_what_is_used_is_taken_from_a_program_file():
    source = (
        "A = 1\nB = 2\n\ndef help(x):\n    return x + A\n\ndef main(x):\n    return "
        "help(x)\n\ndef other(x):\n    return B\n\nalias = main\n"
    )
    lines, name = select_source(source, "alias", {"A": "7"})
    assert (
        name == "main"
        and "A = 7" in lines
        and not any("other" in line or "B = " in line for line in lines)
    )


def test_definitions_stand_two_lines_apart():
    lines = spaced(
        [
            "",
            "a = {",
            "    'b': 1,",
            "}",
            "@jit",
            "",
            "def f():",
            "    x = 1",
            "",
            "",
            "    return x",
            "g = 2",
            "",
            "",
            "h = 3",
        ]
    )
    assert lines == [
        "a = {",
        "    'b': 1,",
        "}",
        "",
        "",
        "@jit",
        "def f():",
        "    x = 1",
        "",
        "",
        "    return x",
        "",
        "",
        "g = 2",
        "",
        "h = 3",
    ]
    assert ast.parse("\n".join(lines))
