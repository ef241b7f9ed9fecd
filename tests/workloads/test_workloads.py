"""Every workload under every strategy, through the real worker: right values, or a sentence that
says why not.
"""

from typing import Any

import numpy as np
import pytest

from spmd_core.experiment.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.workloads.catalog import WORKLOADS
from spmd_core.workloads.options import Choice
from spmd_core.workloads.strategies import MAP_STRATEGIES, SHARDING_STRATEGIES
from tests.labs import HASTY

MESH = {"x": 2, "y": 4}
ALL_DEVICES = ["x", "y"]
QUICK = {"samples": 1, "min_seconds": 0.0}
# one device against the maps; the strategies that shard have cases of their own
MAPS = ("single", *MAP_STRATEGIES)
OVER_THE_MESH = tuple(name for name in SHARDING_STRATEGIES if name != "single")
ATTENTION = {"batch": 2, "sequence": 16, "heads": 8, "kv_heads": 4, "head_dim": 4}
BLOCK = {"batch": 2, "sequence": 16, "embed": 8, "heads": 8, "kv_heads": 4, "head_dim": 4,
         "mlp": 16}
SMALL = {"batch": 2, "sequence": 4, "heads": 4, "kv_heads": 2, "head_dim": 2}
TOO_MANY = ("pmap", "jit(pmap)", "pmap(jit)")

# workload, options, dims, sharding, strategies that cannot express it
MAPPED = [
    ("elementwise", {}, {"rows": 8, "cols": 4}, {"rows": ALL_DEVICES}, ()),
    ("contraction", {}, {"rows": 6, "cols": 8}, {"cols": ALL_DEVICES}, ()),
    ("contraction", {}, {"rows": 16}, {"rows": ALL_DEVICES}, ("pmap(vmap)",)),
    ("layer", {}, {"batch": 8, "in": 6, "out": 4}, {"batch": ALL_DEVICES}, ()),
    ("layer", {"in_axes": "1, 0, None"}, {"batch": 4, "in": 16, "out": 4}, {"in": ALL_DEVICES},
     ("pmap(vmap)",)),
    ("layer", {"in_axes": "None, 1, 0"}, {"batch": 4, "in": 6, "out": 8}, {"out": ALL_DEVICES}, ()),
    ("dot", {}, {"n": 8, "k": 3}, {"n": ALL_DEVICES}, ()),
    ("dot", {}, {"n": 16, "k": 3}, {"n": ALL_DEVICES}, TOO_MANY),
    ("matmul", {}, {"batch": 8, "m": 2, "k": 3, "n": 4}, {"batch": ALL_DEVICES}, ()),
    ("matmul", {}, {"m": 8, "k": 3, "n": 4}, {"m": ALL_DEVICES}, ()),
    ("convolve", {}, {"rows": 8, "length": 32, "width": 5}, {"rows": ALL_DEVICES}, ()),
    ("normalize", {"over": "rows"}, {"rows": 16, "cols": 4}, {"rows": ALL_DEVICES},
     ("pmap(vmap)",)),
    ("normalize", {"over": "cols"}, {"rows": 8, "cols": 4}, {"rows": ALL_DEVICES}, ()),
    ("normalize", {"over": "both"}, {"rows": 16, "cols": 4}, {"rows": ALL_DEVICES},
     ("pmap(vmap)",)),
    ("mlp", {}, {"batch": 8, "in": 6, "hidden": 10, "out": 4}, {"batch": ALL_DEVICES}, ()),
    ("attention", {}, SMALL | {"batch": 8}, {"batch": ALL_DEVICES}, ()),
    ("attention", {"in_axes": "1, 1, 1"}, SMALL | {"sequence": 16}, {"sequence": ALL_DEVICES},
     ("pmap(vmap)",)),
    ("transformer_block", {}, SMALL | {"batch": 8, "embed": 8, "mlp": 6}, {"batch": ALL_DEVICES},
     ()),
    ("train_step", {"model": "linear"}, {"batch": 16, "in": 6, "out": 4}, {"batch": ALL_DEVICES},
     ("pmap(vmap)",)),
    ("train_step", {"model": "two-layer"}, {"batch": 16, "in": 6, "hidden": 10, "out": 4},
     {"batch": ALL_DEVICES}, ("pmap(vmap)",)),
]
SHARDED: list[tuple[str, dict[str, str], dict[str, int], dict[str, Any]]] = [
    ("elementwise", {}, {"rows": 8, "cols": 8}, {"rows": "x", "cols": "y"}),
    ("contraction", {}, {"rows": 8, "cols": 8}, {"rows": "y", "cols": "x"}),
    ("layer", {}, {"batch": 4, "in": 16, "out": 8}, {"batch": "x", "in": "y"}),
    ("dot", {}, {"n": 4, "k": 16}, {"n": "x", "k": "y"}),
    ("matmul", {}, {"batch": 2, "m": 8, "k": 8, "n": 8}, {"batch": "x", "k": "y"}),
    ("matmul", {}, {"batch": 3, "m": 8, "k": 5, "n": 8}, {"m": "x", "n": "y"}),
    ("convolve", {}, {"rows": 4, "length": 32, "width": 4}, {"rows": "x", "length": "y"}),
    ("convolve", {}, {"rows": 3, "length": 64, "width": 16},
     {"length": ALL_DEVICES, "width": ["x"]}),
    ("normalize", {"over": "rows"}, {"rows": 8, "cols": 8}, {"rows": "x", "cols": "y"}),
    ("normalize", {"over": "cols"}, {"rows": 8, "cols": 8}, {"rows": "x", "cols": "y"}),
    ("normalize", {"over": "both"}, {"rows": 8, "cols": 8}, {"rows": "x", "cols": "y"}),
    ("mlp", {}, {"batch": 4, "in": 8, "hidden": 16, "out": 4}, {"batch": "x", "hidden": "y"}),
    ("mlp", {}, {"batch": 4, "in": 8, "hidden": 16, "out": 4}, {"in": "x", "out": "y"}),
    ("attention", {}, ATTENTION, {"heads": "y", "kv_heads": "y", "batch": "x"}),
    ("attention", {}, ATTENTION, {"heads": ALL_DEVICES}),
    ("attention", {}, ATTENTION, {"heads": ALL_DEVICES, "kv_heads": ["x"]}),
    ("attention", {}, ATTENTION, {"heads": "x", "kv_heads": "y"}),
    ("attention", {}, ATTENTION | {"kv_heads": 1}, {"heads": "x", "sequence": "y"}),
    ("attention", {}, ATTENTION, {"sequence": ["y", "x"]}),
    ("attention", {}, ATTENTION, {"head_dim": "y", "kv_heads": "x"}),
    ("transformer_block", {}, BLOCK, {"batch": "x", "embed": "x"}),
    ("transformer_block", {}, BLOCK, {"heads": "y", "kv_heads": "y", "mlp": "y"}),
    ("transformer_block", {}, BLOCK, {"batch": "x", "embed": "x", "heads": "y", "mlp": "y"}),
    ("transformer_block", {}, BLOCK, {"batch": "x", "sequence": "y", "embed": ["x", "y"]}),
    ("transformer_block", {}, BLOCK, {"head_dim": "x", "kv_heads": "y", "mlp": ["y", "x"]}),
    ("train_step", {"model": "linear"}, {"batch": 8, "in": 8, "out": 4}, {"batch": "x", "in": "y"}),
    ("train_step", {"model": "linear"}, {"batch": 8, "in": 8, "out": 4},
     {"batch": "x", "out": "y"}),
    ("train_step", {"model": "two-layer"}, {"batch": 8, "in": 4, "hidden": 8, "out": 4},
     {"batch": "x", "hidden": "y"}),
    ("train_step", {"model": "two-layer"}, {"batch": 8, "in": 4, "hidden": 8, "out": 4},
     {"in": "x", "out": "y"}),
    ("transfer", {"direction": "host_to_device"}, {"bytes": 64}, {"bytes": ALL_DEVICES}),
    ("transfer", {"direction": "device_to_host"}, {"bytes": 64}, {"bytes": "y"}),
    ("transfer", {"direction": "resident"}, {"bytes": 64}, {}),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab.open(tmp_path_factory.mktemp("workloads"), settings=HASTY)
    yield lab
    lab.close()


def outcomes(lab, workload, options, dims, sharding, strategies, **more):
    """Strategy -> what a run gave; a run that another test has had is not repeated."""
    experiment = parse_experiment({"target": "cpu:8", "mesh": MESH, "workload": workload,
                                   "options": options, "dims": dims, "sharding": sharding,
                                   "strategies": strategies, "timing": QUICK} | more)
    done = [summary.run for summary in lab.history() if summary.experiment == experiment]
    run = done[0] if done else lab.submit(experiment)
    lab.wait(run, 120)
    return lab.result(run).strategies


def words(case):
    return "-".join([case[0], *map(str, case[1].values()), *case[3]])


@pytest.mark.parametrize("case", MAPPED, ids=words)
def test_a_dim_cut_over_all_devices_is_within_reach_of_the_maps(lab, case):
    workload, options, dims, sharding, beyond = case
    found = outcomes(lab, workload, options, dims, sharding, MAPS)
    for name, outcome in found.items():
        if name in beyond:
            assert (outcome.status, outcome.error.kind) == ("error", "inexpressible"), name
            assert outcome.error.message.startswith(
                f"{name} cannot ") and "; use " in outcome.error.message
        else:
            assert (name, outcome.status, outcome.error,
                    outcome.correct) == (name, "ok", None, True)
            assert outcome.median_s > 0
    flat = {name: [value for report in outcome.outputs.values() for value in report.values]
            for name, outcome in found.items() if name not in beyond}
    for name, values in flat.items():
        assert values == pytest.approx(flat["single"], rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("case", SHARDED, ids=words)
def test_any_cut_is_within_reach_of_the_strategies_that_shard(lab, case):
    workload, options, dims, sharding = case
    for name, outcome in outcomes(lab, workload, options, dims, sharding, OVER_THE_MESH).items():
        assert (name, outcome.status, outcome.error, outcome.correct) == (name, "ok", None, True)
        for result, report in outcome.outputs.items():
            assert report.spec is not None, result


def test_what_the_compiler_partitions_wrongly_is_called_wrong_and_not_ranked(lab):
    """XLA drops terms of a convolution whose row and kernel are both cut (JAX 0.10.2 and 0.12); the
    halo exchange by hand is right.
    """
    experiment = parse_experiment({"target": "cpu:8", "mesh": MESH, "workload": "convolve",
                                   "dims": {"rows": 3, "length": 16, "width": 4},
                                   "sharding": {"length": "x", "width": "y"},
                                   "strategies": ["auto", "shard_map"], "timing": QUICK})
    run = lab.submit(experiment)
    lab.wait(run, 60)
    result = lab.result(run)
    assert result.strategies[
        "auto"].correct is False and "wrong values: not ranked" in result.strategies["auto"].notes
    assert result.strategies["shard_map"].correct is True
    assert result.comparison is None or result.comparison.fastest == "shard_map"


def test_the_tables_name_every_workload_and_every_word_of_its_options():
    covered = {(case[0], *case[1].values()) for case in (*MAPPED, *SHARDED)}
    for workload in WORKLOADS.values():
        words = [option.words for option in workload.options.values() if isinstance(option, Choice)]
        wanted = [(workload.name, word) for word in words[0]] if words else [(workload.name,)]
        has_cases = workload.kind in ("computation", "transfer")
        assert not has_cases or set(wanted) <= covered, workload.name


def test_maps_are_called_as_they_are_and_have_the_phases_that_they_have(lab):
    run = lab.submit(parse_experiment({"target": "cpu:8", "mesh": {"x": 8}, "workload": "dot",
                                       "dims": {"n": 8, "k": 3}, "timing": QUICK,
                                       "strategies": MAP_STRATEGIES}))
    lab.wait(run, 60)
    found = lab.result(run).strategies
    phases = {name: {phase for phase, seconds in outcome.phases_s.model_dump().items()
                     if seconds is not None} for name, outcome in found.items()}
    assert phases["vmap"] == {"first_run"}
    assert phases["jit(vmap)"] == phases["jit(pmap)"] == {"trace", "lower", "compile", "first_run"}
    assert phases["pmap"] == phases["pmap(jit)"] == phases["pmap(vmap)"] == {"lower", "compile",
                                                                             "first_run"}
    assert set(lab.texts(run, "vmap")) == {"program", "jaxpr"}
    for name in ("jit(vmap)", *TOO_MANY, "pmap(vmap)"):
        assert set(lab.texts(run, name)) == {"program", "jaxpr", "stablehlo", "hlo"}
        assert "program = jax." in lab.texts(run, name)["program"]
    assert "shard_map" in lab.texts(run,
                                    "pmap")["jaxpr"] and "shard_map" not in lab.texts(run,
                                                                                      "jit(vmap)")[
        "jaxpr"]
    assert found["pmap(vmap)"].outputs["y"].shape == (8,
                                                      1) and found[
        "pmap"].outputs["y"].shape == (8,)
    assert found["pmap"].outputs["y"].spec == ("x",) and found["vmap"].outputs["y"].spec is None


def test_the_sum_that_pmap_adds_over_devices_is_read_from_its_program(lab):
    dims = {"batch": 16, "in": 6, "out": 4}
    (sum_,) = outcomes(lab, "train_step", {}, dims, {"batch": ALL_DEVICES},
                       ["pmap"])["pmap"].collectives
    assert (sum_.kind, sum_.axes, sum_.count) == ("all-reduce", ("x", "y"), 1)
    assert sum_.source.startswith("train_step_pmap.py:")


@pytest.mark.parametrize("case", [case for case in MAPPED if case[0] == "train_step"], ids=words)
def test_the_parallel_gradient_is_that_of_one_device(lab, case):
    workload, options, dims, sharding, beyond = case
    found = outcomes(lab, workload, options, dims, sharding, MAPS)
    what = WORKLOADS[workload].chosen(options)
    for result, operand in what.training.carried:
        rate = what.program.constants["LEARNING_RATE"]
        moved = {name: np.array(outcome.outputs[result].values) / rate
                 for name, outcome in found.items() if name not in beyond}
        # the old parameters are the same for all: what differs is the gradient
        for name, gradient in moved.items():
            assert np.abs(gradient - moved["single"]).max() <= 1e-5, (name, operand)


def test_a_transfer_says_how_many_bytes_a_second_it_moves(lab):
    found = outcomes(lab, "transfer", {}, {"bytes": 2**20}, {"bytes": ALL_DEVICES},
                     ["auto"])["auto"]
    assert found.operands["x"].memory == "pinned_host" and found.outputs["y"].memory == "device"
    assert found.bytes_per_s == pytest.approx(2**20 / found.median_s)
    assert not any("GB/s" in note for note in found.notes)  # it has a column of its own
    back = outcomes(lab, "transfer", {"direction": "device_to_host"}, {"bytes": 64}, {},
                    ["single"])["single"]
    assert (back.operands["x"].memory, back.outputs["y"].memory) == ("device", "pinned_host")
    assert outcomes(lab, "dot", {}, {"n": 8, "k": 3}, {}, ["single"])["single"].bytes_per_s is None
