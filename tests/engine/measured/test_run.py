import gc
import itertools
import math
import os
import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spmd_core.engine import devices, lower
from spmd_core.engine.measured import prepare, run as engine_run, sample
from spmd_core.program.communication.specs import REPLICATES
from spmd_core.runs import EVENTS, Finished
from spmd_core.script import program_text

ALL = ["single", "auto", "constrained", "explicit", "shard_map"]
TUTORIAL_LAYER = {
    "workload": "layer",
    "mesh": {"x": 8},
    "sharding": {"in": "x"},
    "dims": {"in": 32, "out": 4},
    "strategies": ALL,
}
GRID = {
    "mesh": {"x": 2, "y": 4},
    "dims": {"rows": 4, "cols": 8},
    "data": {"x": "arange"},
    "sharding": {"rows": "x", "cols": "y"},
    "strategies": ALL,
}


def test_the_tutorial_s_layer_is_right_under_every_strategy(run):
    finished = run(**TUTORIAL_LAYER)
    for name, outcome in finished.result.strategies.items():
        assert (name, outcome.status, outcome.error) == (name, "ok", None)
        assert outcome.outputs["y"].values == pytest.approx(
            [0.02138914, 0.89311206, 0.5989201, 0.97742504], rel=2e-6
        )
        assert outcome.correct
        assert (
            outcome.max_rel_error < 8 * math.sqrt(32) * 2**-23
            and outcome.tolerance is None
            and outcome.wrong is None
        )
        assert all(
            seconds > 0
            for seconds in (
                outcome.phases_s.trace,
                outcome.phases_s.lower,
                outcome.phases_s.compile,
                outcome.phases_s.first_run,
            )
        )
        assert len(outcome.samples_s) == len(outcome.turns_s) - len(outcome.remeasured_s) == 3
        assert outcome.median_s == pytest.approx(np.median(outcome.samples_s))
        assert outcome.memory_bytes.output == 16
    assert not finished.renew_worker
    assert not finished.result.partial


@pytest.mark.newer_whole
def test_the_peak_is_of_all_that_is_allocated_while_the_program_runs(run):
    """XLA's own leaves out temporaries on CPU: here the partial sums, before they are added."""
    held = run(**TUTORIAL_LAYER).result.strategies["auto"].memory_bytes
    assert held.temp > 0 and held.peak == held.argument + held.output + held.temp


def test_a_donated_operand_counts_once_in_the_peak():
    x = jnp.ones((64, 64))
    step = jax.jit(lambda x: jnp.tanh(x @ x) @ x, donate_argnums=0)
    held = prepare.memory_bytes(step.lower(x).compile())
    assert (held.argument, held.output) == (x.nbytes, x.nbytes)
    assert held.temp > 0 and held.peak == x.nbytes + held.temp


def test_the_tutorial_s_layer_communicates_once_unless_it_runs_on_one_device(run):
    strategies = run(**TUTORIAL_LAYER).result.strategies
    assert strategies["single"].collectives == ()
    for name in ALL[1:]:
        (found,) = strategies[name].collectives
        assert (found.kind, found.axes, found.bytes, found.count, found.group_size) == (
            "all-reduce",
            ("x",),
            16,
            1,
            8,
        )
        assert found.reason.startswith(
            "the contracted dim `in` is sharded over x: each device holds a partial sum, so the "
        )
        file, line = found.source.split(":")
        assert file == f"layer_{name}.py"
        text = next(
            event.texts["program"]
            for event in run.events
            if event.event == "texts" and event.strategy == name
        )
        # the line points into the text that is shown
        assert ("psum" if name == "shard_map" else "matmul") in text.splitlines()[int(line) - 1]


def test_operands_and_results_say_who_holds_what(run):
    strategies = run(**TUTORIAL_LAYER).result.strategies
    for name in ("auto", "constrained", "explicit", "shard_map"):
        weights = strategies[name].operands["weights"]
        assert (weights.shape, weights.dtype, weights.spec, weights.memory) == (
            (32, 4),
            "float32",
            ("x", None),
            "device",
        )
        assert [shard.index for shard in weights.shards] == [
            ((4 * device, 4 * device + 4), (0, 4)) for device in range(8)
        ]
        assert len(strategies[name].outputs["y"].shards) == 8
    alone = strategies["single"].operands["weights"]
    assert (alone.spec, [(shard.device, shard.index) for shard in alone.shards]) == (
        None,
        [(0, ((0, 32), (0, 4)))],
    )


def test_a_contraction_over_a_grid(run):
    strategies = run(workload="contraction", **GRID).result.strategies
    for outcome in strategies.values():
        assert outcome.outputs["y"].values == (48, 52, 56, 60, 64, 68, 72, 76)
        assert outcome.max_abs_error == 0
    assert [(each.kind, each.axes, each.bytes) for each in strategies["auto"].collectives] == [
        ("all-reduce", ("x",), 8)
    ]
    assert strategies["auto"].outputs["y"].spec == ("y",)


def test_an_elementwise_program_communicates_nothing_and_keeps_its_sharding(run):
    strategies = run(workload="elementwise", **GRID).result.strategies
    for name, outcome in strategies.items():
        assert outcome.outputs["y"].values == pytest.approx(
            [2 * math.sin(value) + 1 for value in range(32)], rel=1e-5, abs=1e-6
        )
        assert outcome.collectives == ()
        if name != "single":
            assert outcome.outputs["y"].spec == outcome.operands["x"].spec == ("x", "y")


def test_constrained_reports_unsharded_calls_apart(run):
    outcome = run(**TUTORIAL_LAYER | {"strategies": ["constrained"]}).result.strategies[
        "constrained"
    ]
    assert len(outcome.from_unsharded.samples_s) == 3
    assert outcome.from_unsharded.median_s == pytest.approx(
        np.median(outcome.from_unsharded.samples_s)
    )
    assert outcome.operands["x"].spec == ("x",)  # as compiled, though it was given unsharded


def test_overrides_reshard_and_say_why(run):
    outcome = run(
        workload="layer",
        mesh={"x": 2, "y": 4},
        dims={"batch": 64, "in": 64, "out": 32},
        sharding={"batch": "y"},
        overrides={"weights": [None, "y"]},
        strategies=["auto", "shard_map"],
    )
    for strategy in outcome.result.strategies.values():
        assert strategy.correct
        assert any(
            each.kind == "all-gather"
            and each.axes == ("y",)
            and "`weights` is stored sharded over y along `out`" in each.reason
            for each in strategy.collectives
        )


def test_a_full_rematerialization_is_attached_to_the_strategy_that_caused_it(run, capfd):
    spec = {
        "workload": "layer",
        "mesh": {"x": 2, "y": 4},
        "dims": {"batch": 64, "in": 64, "out": 32},
        "sharding": {"in": "x", "batch": "y"},
        "overrides": {"weights": [None, "y"], "x": ["x", "y"]},
        "strategies": ["single", "explicit"],
    }
    strategies = run(**spec).result.strategies
    assert strategies["single"].warnings == ()
    (warning,) = strategies["explicit"].warnings
    assert warning.startswith(
        "The compiler found no efficient way from one sharding to another and replicates the array"
    )
    assert 'op_name="weights"' in warning
    (warned,) = [each for each in strategies["explicit"].collectives if each.warning]
    between = f"{REPLICATES}: P(None, 'y') to P('x', None)"
    assert warned.kind == "all-gather" and warned.warning == between
    assert "Involuntary full rematerialization" in capfd.readouterr().err  # passed through


def test_pinned_host_operands_lie_in_host_memory(run):
    spec = TUTORIAL_LAYER | {"memory": {"weights": "pinned_host", "y": "pinned_host"}}
    for outcome in run(**spec).result.strategies.values():
        assert (outcome.status, outcome.correct) == ("ok", True)
        assert outcome.operands["weights"].memory == outcome.outputs["y"].memory == "pinned_host"
        assert outcome.operands["x"].memory == "device"
        assert (
            outcome.memory_bytes.host
            >= math.prod(
                stop - start for start, stop in outcome.operands["weights"].shards[0].index
            )
            * 4
        )


def test_a_sharding_that_a_strategy_cannot_express_is_its_error_beside_the_others(run):
    spec = {
        "workload": "layer",
        "mesh": {"x": 8},
        "dims": {"batch": 8, "in": 8, "out": 8},
        "sharding": {"batch": "x", "in": "x"},
        "overrides": {"x": ["x", None], "y": ["x", None]},
        "strategies": ["auto", "explicit"],
    }
    strategies = run(**spec).result.strategies
    assert strategies["auto"].correct
    assert strategies["explicit"].error.kind == "inexpressible"
    assert "mesh axis 'x' shards both" in strategies["explicit"].error.message


def test_placing_an_array_reports_what_the_devices_hold(run):
    finished = run(
        workload="array",
        mesh={"x": 2, "y": 4},
        dims={"d0": 4, "d1": 8},
        sharding={"d0": "x", "d1": "y"},
        memory={"array": "pinned_host"},
    )
    placed = finished.result.strategies["place"]
    assert (placed.status, placed.correct, placed.max_abs_error) == ("ok", True, 0)
    array = placed.outputs["array"]
    assert (array.spec, array.memory, array.shards[5].index) == (
        ("x", "y"),
        "pinned_host",
        ((2, 4), (2, 4)),
    )
    assert placed.median_s > 0
    assert placed.phases_s.compile is None


def test_the_events_tell_each_phase_and_cross_the_pipe(run):
    finished = run(**TUTORIAL_LAYER | {"strategies": ["auto", "shard_map"]})
    phases = [(event.phase, event.strategy) for event in run.events if event.event == "phase"]
    per_strategy = ["trace", "lower", "compile", "first_run"]
    assert phases[:8] == [
        (phase, strategy) for strategy in ("auto", "shard_map") for phase in per_strategy
    ]
    assert [phase for phase, _ in phases[8:]] == ["warm_up", "sample", "check", "sample"]
    progress = [event for event in run.events if event.event == "progress"]
    assert set(progress[0].medians_s) == {"auto", "shard_map"}
    assert (progress[0].done, progress[0].of) == (1, 3)
    assert progress[-1].done == progress[-1].of > 3
    for event in [*run.events, finished]:
        assert EVENTS.validate_json(event.model_dump_json()) == event
    texts = next(event.texts for event in run.events if event.event == "texts")
    assert list(texts) == ["program", "jaxpr", "stablehlo", "hlo"]
    assert "psum" not in texts["program"]
    assert "layer_auto.py" in texts["stablehlo"]
    assert "all-reduce" in texts["hlo"]


@pytest.mark.this_python
def test_progress_is_told_at_most_ten_times_a_second(run, monkeypatch):
    readings = itertools.count()
    # as if a round took that long
    monkeypatch.setattr(sample, "monotonic", lambda: 0.03 * next(readings))
    run(
        **TUTORIAL_LAYER | {"strategies": ["single"], "timing": {"samples": 50, "min_seconds": 0.0}}
    )
    told = [event.done for event in run.events if event.event == "progress"]
    assert told == [*range(1, 50, 4), 50]  # the first and the last are told at once


@pytest.mark.this_python
def test_a_cancelled_run_keeps_what_was_measured(run):
    asked = 0

    def cancelled():
        nonlocal asked
        asked += 1
        return any(event.event == "progress" and event.done >= 1 for event in run.events)

    result = run(
        cancelled,
        **TUTORIAL_LAYER
        | {"strategies": ["single", "auto"], "timing": {"samples": 500, "min_seconds": 5}},
    ).result
    assert result.partial
    for outcome in result.strategies.values():
        assert 1 <= len(outcome.samples_s) < 500
        assert outcome.status == "ok"
        assert any(
            note.startswith(f"stopped after {len(outcome.samples_s)} of 500")
            for note in outcome.notes
        )
        assert outcome.correct
    assert asked > 3


@pytest.mark.this_python
def test_a_run_cancelled_at_once_measured_nothing(run):
    result = run(lambda: True, **TUTORIAL_LAYER).result
    assert result.partial
    assert result.comparison is None
    assert {outcome.status for outcome in result.strategies.values()} == {"cancelled"}
    assert all(
        outcome.median_s is None and outcome.samples_s == () and outcome.collectives is None
        for outcome in result.strategies.values()
    )


def other_program(monkeypatch, strategy, change):
    """The text of one strategy's program, changed; the run is the real one."""
    monkeypatch.setattr(
        prepare,
        "program_text",
        lambda experiment, name: (
            change(program_text(experiment, name))
            if name == strategy
            else program_text(experiment, name)
        ),
    )


def test_memory_that_runs_out_fails_that_strategy_in_xla_s_words_and_renews_the_worker(
    run, monkeypatch
):
    other_program(
        monkeypatch,
        "auto",
        lambda text: (
            text + "\nprogram = jax.jit(lambda *operands: jnp.cumsum(jnp.ones(1 << 46)))\n"
        ),
    )
    monkeypatch.setattr(devices, "spare_bytes", lambda: None)  # else it is refused before it starts
    finished = run(**TUTORIAL_LAYER | {"strategies": ["single", "auto", "shard_map"]})
    assert isinstance(finished, Finished)
    failed = finished.result.strategies["auto"]
    assert (failed.status, failed.error.kind) == ("error", "resource_exhausted")
    assert (
        "RESOURCE_EXHAUSTED: Out of memory allocating 281474976710656 bytes" in failed.error.message
    )
    assert finished.renew_worker
    assert {finished.result.strategies[name].correct for name in ("single", "shard_map")} == {True}
    assert "auto" not in (
        finished.result.comparison.fastest,
        *(ratio.strategy for ratio in finished.result.comparison.ratios),
    )


def test_a_wrong_answer_is_told_and_never_ranked(run, monkeypatch):
    other_program(monkeypatch, "single", lambda text: text.replace("+ bias)", "+ 1.1 * bias)"))
    result = run(**TUTORIAL_LAYER | {"strategies": ["single", "auto", "shard_map"]}).result
    wrong = result.strategies["single"]
    assert (wrong.status, wrong.correct) == ("ok", False)
    assert (wrong.wrong.count, wrong.wrong.of, wrong.wrong.share) == (4, 4, 1.0)
    worst = wrong.wrong.worst
    assert worst.result == "y" and abs(worst.got - worst.expected) > worst.bound > 0
    assert worst.got == pytest.approx(wrong.outputs["y"].values[worst.index[0]])
    assert "wrong values: not ranked" in wrong.notes
    # though it is the fastest
    assert "single" not in (
        result.comparison.fastest,
        *(ratio.strategy for ratio in result.comparison.ratios),
    )


def test_an_exception_of_a_program_is_its_error_and_points_into_its_text(run, monkeypatch, capfd):
    other_program(
        monkeypatch,
        "auto",
        lambda text: text.replace("jnp.matmul(x, weights", "jnp.matmul(weights, weights"),
    )
    result = run(**TUTORIAL_LAYER | {"strategies": ["auto", "single"]}).result
    assert result.strategies["auto"].error.kind == "TypeError"
    assert result.strategies["single"].correct
    trace = capfd.readouterr().err
    assert 'File "layer_auto.py", line ' in trace
    assert "jnp.matmul(weights, weights" in trace  # the line itself, though no file holds it


@pytest.mark.this_python
def test_the_environment_is_that_of_the_measurement(run, environment):
    result = run(**TUTORIAL_LAYER | {"strategies": ["single", "auto"]}).result
    assert environment.dispatch_floor_s is None
    assert result.environment.dispatch_floor_s > 0
    assert result.environment.load is not None
    assert "8 simulated devices share" in result.notes[0]
    # it times nothing
    assert (
        run(workload="program", mesh={"x": 8}, options={"program": "unsharded_array"}).result.notes
        == ()
    )


@pytest.mark.this_python
def test_what_takes_little_more_than_a_call_is_dispatch_bound(run, monkeypatch):
    notes = {}
    for floor_s in (1e-9, 1.0):
        monkeypatch.setattr(
            engine_run.Floors,
            "of",
            lambda floors, row, floor_s=floor_s: floor_s if row.strategy == "single" else 1e-9,
        )
        strategies = run(
            **TUTORIAL_LAYER
            | {"strategies": ["single", "auto"], "timing": {"samples": 9, "min_seconds": 0.05}}
        ).result.strategies
        notes[floor_s] = strategies["single"].notes
        assert "dispatch bound" not in strategies["auto"].notes  # each by its own floor
    assert "dispatch bound" in notes[1.0]
    assert "dispatch bound" not in notes[1e-9]
    assert {
        "9 samples, fewer than the usual 20",
        "sampled for 0.05 s, less than the usual 0.2 s",
    } <= set(notes[1.0])


@pytest.mark.parametrize("order", ["topology", "plain"])
def test_axes_are_found_in_either_device_order(run, order):
    outcome = run(
        workload="layer",
        mesh={"x": 2, "y": 2, "z": 2},
        dims={"batch": 8, "in": 8, "out": 8},
        sharding={"in": ["z", "x"], "batch": "y"},
        options={"device_order": order},
        strategies=["auto", "shard_map", "explicit"],
    )
    for strategy in outcome.result.strategies.values():
        assert [(each.kind, each.axes) for each in strategy.collectives] == [
            ("all-reduce", ("x", "z"))
        ]
        assert strategy.operands["x"].spec == ("y", ["z", "x"])
        assert strategy.correct


RUN_ONCE = """
from spmd_core.engine.devices import describe
from spmd_core.engine.measured.run import run_experiment
from spmd_core.experiment import parse_experiment
spec = {"target": "cpu:8", "workload": "layer", "mesh": {"x": 8}, "strategies": ["auto"], "timing": {"samples": 1, "min_seconds": 0}}
run_experiment(parse_experiment(spec), "run", describe("cpu:8"), lambda event: None, lambda: False)
"""


@pytest.mark.this_python
def test_compile_times_are_never_those_of_a_cache(tmp_path):
    """Though whoever started the process asked JAX for one."""
    asked = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    subprocess.run(
        [sys.executable, "-c", RUN_ONCE], env=os.environ | asked, check=True, timeout=120
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.newer_whole
def test_programs_of_past_runs_are_let_go_now_and_then(run, monkeypatch):
    """JAX keeps them otherwise, about 5 MB a run, for as long as the worker lives."""
    made = []

    def execute(text, name):
        names = original(text, name)
        made.append(weakref.ref(names["program"]))
        return names

    original = prepare.execute
    monkeypatch.setattr(prepare, "execute", execute)
    monkeypatch.setattr(lower, "RUNS_REMEMBERED", 2)
    for seed in range(4):
        run(**TUTORIAL_LAYER | {"strategies": ["single", "auto"], "seed": seed})
    gc.collect()
    assert len(made) == 8
    assert sum(reference() is not None for reference in made) <= 2


@pytest.mark.this_python
@pytest.mark.parametrize(("data", "told"), [("ones", True), ("normal", False)])
def test_data_that_hides_exchanged_parts_is_told(run, data, told):
    outcome = run(
        **TUTORIAL_LAYER
        | {"strategies": ["auto"], "data": dict.fromkeys(("x", "weights", "bias"), data)}
    ).result.strategies["auto"]
    assert outcome.correct
    assert any("parts that were exchanged would not show" in note for note in outcome.notes) is told
