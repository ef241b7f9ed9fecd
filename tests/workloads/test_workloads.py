"""Every workload under every strategy, through the real worker: right values, or a sentence that
says why not.
"""

import numpy as np
import pytest

from bench import pipelines
from bench.every_cut import ALL_DEVICES, MAPPED, MAPS, MESH, OVER_THE_MESH, SHARDED, outcomes, wrong
from spmd_core.experiment import parse_experiment
from spmd_core.fields import Choice
from spmd_core.workloads import WORKLOADS
from spmd_core.workloads.strategies import MAP_STRATEGIES
from tests.labs import HASTY, PATIENCE_S, lab_of_module

pytestmark = pytest.mark.slow

QUICK = {"samples": 1, "min_seconds": 0.0}
TOO_MANY = ("pmap", "jit(pmap)", "pmap(jit)")
# of those whose programs are long; tests/workloads/test_transformer.py has the cuts of
# attention
FEW_MAPS = ("single", "jit(vmap)", "pmap")


def of_each(cases):
    """The first case of each workload, and of each word of its options: bench/every_cut.py has all."""
    first = {}
    for case in cases:
        first.setdefault((case[0], *case[1].values()), case)
    return list(first.values())


lab = lab_of_module(HASTY)


def words(case):
    return "-".join([case[0], *map(str, case[1].values()), *case[3]])


@pytest.mark.parametrize("case", of_each(MAPPED), ids=words)
def test_a_dim_cut_over_all_devices_is_within_reach_of_the_maps(lab, case):
    is_long, beyond = case[0] in ("attention", "transformer_block"), case[4]
    found = outcomes(lab, case, FEW_MAPS if is_long else MAPS)
    assert list(wrong(found, beyond)) == []
    assert all(outcome.median_s > 0 for name, outcome in found.items() if name not in beyond)
    flat = {
        name: [value for report in outcome.outputs.values() for value in report.values]
        for name, outcome in found.items()
        if name not in beyond
    }
    for name, values in flat.items():
        assert values == pytest.approx(flat["single"], rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("case", of_each(SHARDED), ids=words)
def test_a_cut_is_within_reach_of_the_strategies_that_shard(lab, case):
    found = outcomes(lab, case, OVER_THE_MESH)
    assert list(wrong(found)) == []
    for outcome in found.values():
        for result, report in outcome.outputs.items():
            assert report.spec is not None, result


@pytest.mark.parametrize("case", pipelines.CASES[1::2], ids=str)
def test_a_circular_pipeline_is_as_right_as_one_device_and_moves_what_its_formula_has(lab, case):
    assert list(pipelines.off(lab, case)) == []


def test_what_the_compiler_partitions_wrongly_is_called_wrong_and_not_ranked(lab):
    """XLA drops terms of a convolution whose row and kernel are both cut (JAX 0.10.2 and 0.12); the
    halo exchange by hand is right.
    """
    experiment = parse_experiment(
        {
            "target": "cpu:8",
            "mesh": MESH,
            "workload": "convolve",
            "dims": {"rows": 3, "length": 16, "width": 4},
            "sharding": {"length": "x", "width": "y"},
            "strategies": ["auto", "shard_map"],
            "timing": QUICK,
        }
    )
    run = lab.submit(experiment)
    lab.wait(run, PATIENCE_S)
    result = lab.result(run)
    assert (
        result.strategies["auto"].correct is False
        and "wrong values: not ranked" in result.strategies["auto"].notes
    )
    assert result.strategies["shard_map"].correct is True
    assert result.comparison is None or result.comparison.fastest == "shard_map"


def test_the_tables_name_every_workload_and_every_word_of_its_options():
    covered = {(case[0], *case[1].values()) for case in (*MAPPED, *SHARDED)}
    for workload in WORKLOADS.values():
        words = [
            option.choices for option in workload.options.values() if isinstance(option, Choice)
        ]
        wanted = [(workload.name, word) for word in words[0]] if words else [(workload.name,)]
        has_cases = workload.kind in ("computation", "transfer")
        assert not has_cases or set(wanted) <= covered, workload.name


def test_maps_are_called_as_they_are_and_have_the_phases_that_they_have(lab):
    run = lab.submit(
        parse_experiment(
            {
                "target": "cpu:8",
                "mesh": {"x": 8},
                "workload": "dot",
                "dims": {"n": 8, "k": 3},
                "timing": QUICK,
                "strategies": MAP_STRATEGIES,
            }
        )
    )
    lab.wait(run, PATIENCE_S)
    found = lab.result(run).strategies
    phases = {
        name: {
            phase for phase, seconds in outcome.phases_s.model_dump().items() if seconds is not None
        }
        for name, outcome in found.items()
    }
    assert phases["vmap"] == {"first_run"}
    assert phases["jit(vmap)"] == phases["jit(pmap)"] == {"trace", "lower", "compile", "first_run"}
    assert (
        phases["pmap"]
        == phases["pmap(jit)"]
        == phases["pmap(vmap)"]
        == {"lower", "compile", "first_run"}
    )
    assert set(lab.texts(run, "vmap")) == {"program", "jaxpr"}
    for name in ("jit(vmap)", *TOO_MANY, "pmap(vmap)"):
        assert set(lab.texts(run, name)) == {"program", "jaxpr", "stablehlo", "hlo"}
        assert "program = jax." in lab.texts(run, name)["program"]
    assert (
        "shard_map" in lab.texts(run, "pmap")["jaxpr"]
        and "shard_map" not in lab.texts(run, "jit(vmap)")["jaxpr"]
    )
    assert found["pmap(vmap)"].outputs["y"].shape == (8, 1) and found["pmap"].outputs[
        "y"
    ].shape == (8,)
    assert found["pmap"].outputs["y"].spec == ("x",) and found["vmap"].outputs["y"].spec is None


def test_the_sum_that_pmap_adds_over_devices_is_read_from_its_program(lab):
    dims = {"batch": 16, "in": 6, "out": 4}
    (sum_,) = outcomes(lab, ("train_step", {}, dims, {"batch": ALL_DEVICES}), ["pmap"])[
        "pmap"
    ].collectives
    assert (sum_.kind, sum_.axes, sum_.count) == ("all-reduce", ("x", "y"), 1)
    assert sum_.source.startswith("train_step_pmap.py:")


@pytest.mark.parametrize("case", [case for case in MAPPED if case[0] == "train_step"], ids=words)
def test_the_parallel_gradient_is_that_of_one_device(lab, case):
    workload, options, _, _, beyond = case
    found = outcomes(lab, case, MAPS)
    what = WORKLOADS[workload].chosen(options)
    for result, operand in what.training.carried:
        rate = what.program.constants["LEARNING_RATE"]
        moved = {
            name: np.array(outcome.outputs[result].values) / rate
            for name, outcome in found.items()
            if name not in beyond
        }
        # the old parameters are the same for all: what differs is the gradient
        for name, gradient in moved.items():
            assert np.abs(gradient - moved["single"]).max() <= 1e-5, (name, operand)


def test_a_transfer_says_how_many_bytes_a_second_it_moves(lab):
    found = outcomes(lab, ("transfer", {}, {"bytes": 2**20}, {"bytes": ALL_DEVICES}), ["auto"])[
        "auto"
    ]
    assert found.operands["x"].memory == "pinned_host" and found.outputs["y"].memory == "device"
    assert found.bytes_per_s == pytest.approx(2**20 / found.median_s)
    assert not any("GB/s" in note for note in found.notes)  # it has a column of its own
    back = outcomes(
        lab, ("transfer", {"direction": "device_to_host"}, {"bytes": 64}, {}), ["single"]
    )["single"]
    assert (back.operands["x"].memory, back.outputs["y"].memory) == ("device", "pinned_host")
    assert (
        outcomes(lab, ("dot", {}, {"n": 8, "k": 3}, {}), ["single"])["single"].bytes_per_s is None
    )
