"""What is said of a run, first and while it goes."""

from dataclasses import replace

import pytest

from bench.exported import sgd_step
from bench.values import comparison, result, strategy
from spmd_core.answers import samples_table
from spmd_core.answers.measuring import measuring_table
from spmd_core.experiment import as_exported, parse_experiment
from spmd_core.history import origin_words
from spmd_core.results import Fit, Point
from spmd_core.runs import EXAMPLES, Origin, Pace, RunStatus
from spmd_core.terms import ago, environment_words, experiment_words
from spmd_core.terms.bandwidth import bandwidths, off_line_words
from spmd_core.words import evidence_words, progress
from spmd_core.words.runs import (
    compile_words,
    counted_words,
    failures,
    floor_words,
    kept_words,
    output_texts,
    outputs as outputs_of,
    phase_words,
    run_headline,
    samples_words,
    waiting_words,
)
from spmd_core.workloads import DEFAULT_SPEC, programs
from tests.answers import texts


def test_a_lone_strategy_is_given_with_its_interval():
    assert (
        run_headline(result({"auto": strategy(25e-6)}))
        == "Automatic takes 25 µs per call (95% interval 24.5 to 25.5 µs)."
    )


def test_failures_that_differ_by_the_name_of_the_strategy_are_one():
    def failed(message):
        return {"status": "error", "error": {"kind": "inexpressible", "message": message}}

    why = {"pmap": "pmap cannot map n=9", "jit(pmap)": "jit(pmap) cannot map n=9", "vmap": "no"}
    found = failures(result({name: failed(message) for name, message in why.items()}))
    assert found == {"pmap cannot map n=9": ["pmap", "jit(pmap)"], "no": ["vmap"]}


def test_a_wrong_answer_is_never_the_headline():
    found = result({"auto": strategy(5e-6, correct=False), "single": strategy(10e-6)})
    assert run_headline(found).startswith("Single device takes 10 µs")
    nothing = result({"auto": {"status": "error", "error": {"kind": "X", "message": "no"}}})
    assert run_headline(nothing) == "No strategy was measured to the end."


def test_what_a_run_has_that_ended_before_it_was_done():
    timed = strategy(25e-6)
    few = timed | {"samples_s": timed["samples_s"][:3]}
    compiled = {"status": "cancelled", "phases_s": {"compile": 0.2}}
    provisional = {"status": "cancelled", "median_s": 25e-6}
    for strategies, words in (
        ({"auto": timed}, "1 strategy timed, 5 of 20 samples each"),
        ({"auto": timed, "single": few}, "2 of 2 strategies timed, 3 to 5 of 20 samples each"),
        ({"auto": few, "single": compiled}, "1 of 2 strategies timed, 3 of 20 samples each"),
        ({"auto": compiled, "single": compiled}, "2 of 2 strategies compiled, none timed"),
        ({"auto": provisional}, "1 strategy timed provisionally"),
        ({"auto": {"status": "cancelled"}}, "nothing measured or compiled"),
    ):
        assert kept_words(result(strategies)) == words
    assert kept_words(None) == "nothing measured or compiled"
    pair = comparison("auto", ("single", 2.0, True))
    pair["ratios"][0] |= {"rounds": 415, "processes": 3}
    ended = result({"auto": strategy(25e-6), "single": strategy(5e-5)}, comparison=pair)
    assert kept_words(ended).endswith("5 of 20 samples each, ratios of 415 rounds in 3 processes")
    assert "415 rounds in 3 processes" in (evidence_words(ended) or "")


def test_what_a_run_is_doing():
    experiment = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}})
    queued = RunStatus(
        "r", "queued", experiment, 0.0, queue_position=2, waiting_for="1 queued before it"
    )
    assert phase_words(queued) == "number 2 in the queue, waiting for 1 queued before it"
    assert (
        phase_words(RunStatus("r", "running", experiment, 0.0, phase="compile", strategy="auto"))
        == "compiling Automatic"
    )
    assert phase_words(RunStatus("r", "starting", experiment, 0.0)) == "starting a worker on cpu:8"


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ("devices", "the devices of cpu:8"),
        ("compiler", "the compiler to load"),
        ("earlier runs: 3", "3 queued before it"),
        ("timed run: r-1", "the run that is timed (a layer)"),
        ("room to write: disk full: 0 left", "room to write the result: disk full: 0 left"),
        ("the devices of cpu:8", "the devices of cpu:8"),  # by a process of another version
        (None, None),
    ],
)
def test_what_a_run_waits_for_is_put_in_words(stored, words):
    experiment = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}})
    status = RunStatus("r", "queued", experiment, 0.0, waiting_for=stored)
    assert waiting_words(status, {"r-1": "a layer"}.__getitem__) == words


def test_a_slow_start_shows_what_its_process_wrote_last():
    experiment = parse_experiment({"workload": "layer", "target": "local", "mesh": {"x": 4}})
    starting = RunStatus(
        *("r", "starting", experiment, 0.0),
        started_at=0.0,
        finished_at=30.0,
        waiting_for="the devices of local",
        stderr_tail="first\nDid you run your code on all TPU hosts?\n",
    )
    assert phase_words(starting) == (
        "waiting for the devices of local; its process writes: Did you run your code on all TPU hosts?"
    )
    soon = replace(starting, finished_at=3.0)
    assert phase_words(soon) == "waiting for the devices of local"


def test_a_compile_says_its_stage_and_how_long_the_last_one_took():
    step = parse_experiment(DEFAULT_SPEC)
    at = RunStatus("r", "running", step, 0.0, started_at=10.0, finished_at=16.0, phase="schedule")
    assert compile_words(at, None) == (5 / 9, "Stage 5 of 8: scheduling.")
    share, words = compile_words(at, 8.0)
    last = "the last one of this kind took 8 s."
    assert (share, words) == (0.75, f"Stage 5 of 8: scheduling. About 2 s left: {last}")
    longer = compile_words(at, 2.0)  # it takes longer than the last one did
    assert longer == (
        0.95,
        "Stage 5 of 8: scheduling. Longer than the last one of this kind, 2 s.",
    )
    assert compile_words(at, 0.00139) == compile_words(at, None), "it compiled nothing"
    loading = RunStatus("r", "starting", step, 0.0, waiting_for="the TPU compiler to load")
    assert compile_words(loading, None) == (0.0, "Loading the compiler.")


@pytest.mark.usefixtures("read_here", "data_folder")
def test_a_program_is_told_by_what_is_done_and_not_by_a_strategy_of_compare():
    step = as_exported(programs.take(sgd_step(), "step"), "cpu:8")
    at = RunStatus("r", "running", step, 0.0, strategy="auto", compile_only=True)
    assert phase_words(at) == "reading the program"
    assert phase_words(replace(at, phase="first_run")) == "running once"
    assert phase_words(replace(at, phase="price")) == "estimating the time"
    shares = [progress(replace(at, phase=name), Pace(), None)[:2] for name in (None, "compile")]
    assert shares == [(0.0, "compiling: nothing runs"), (0.6, "compiling: nothing runs")]


def test_an_experiment_and_its_devices_in_a_line():
    experiment = parse_experiment(
        {
            "workload": "layer",
            "target": "cpu:8",
            "mesh": {"x": 2, "y": 4},
            "sharding": {"in": ["x", "y"]},
        }
    )
    assert (
        experiment_words(experiment)
        == "Dense layer, in=32 out=4, float32, in sharded over x and y, mesh x=2 y=4 on cpu:8"
    )
    assert (
        environment_words(result({"auto": strategy(1e-5)}).environment)
        == "8 simulated CPU devices sharing 2 cores, JAX 0.10.2"
    )


def test_how_long_ago():
    assert [ago(0, passed) for passed in (5, 300, 7200)] == ["just now", "5 min ago", "2 h ago"]


def test_compiler_flags_of_the_environment_stand_beside_the_result():
    environment = result({"auto": strategy(1e-5)}).environment
    flagged = environment.model_copy(
        update={"xla_flags": "--a=1", "libtpu_init_args": "--xla_tpu_b=true"}
    )
    words = environment_words(flagged)
    assert (
        words
        == f"{environment_words(environment)}, XLA_FLAGS='--a=1', LIBTPU_INIT_ARGS='--xla_tpu_b=true'"
    )


def test_the_floor_of_one_device_stands_beside_that_of_the_mesh():
    both = {
        "single": strategy(5e-6, floor_s=6.4e-6),
        "auto": strategy(2e-4, floor_s=1.2e-4),
        "shard_map": strategy(2e-4, floor_s=1.2e-4),
    }
    assert floor_words(result(both)) == (
        "dispatch floor, a call that only adds 1: 6.4 µs on one device, 120 µs on the mesh"
    )
    assert floor_words(result({"auto": both["auto"]})) == (
        "dispatch floor, a call that only adds 1: 110 µs"
    )


def test_the_samples_say_which_rounds_are_of_the_best_alone():
    taken = {"single": strategy(5e-6, remeasured_s=[5e-6, 5e-6]), "auto": strategy(2e-4)}
    words = samples_words(result(taken))
    assert words.endswith(
        "After round 5 only the best were timed, for their paired ratio; medians are of the first 5."
    )
    assert "After round" not in samples_words(result({"auto": strategy(2e-4)}))
    frame = samples_table(result(taken))
    assert len(frame.rows) == 7
    assert [cell.value for cell in frame.column("Automatic")].count(None) == 2
    assert texts(measuring_table(result(taken)), "Samples") == ["5 + 2", "5"]


def test_values_that_were_not_kept_are_not_called_the_same():
    large = {"y": {"shape": [128, 32], "dtype": "float32"}}
    small = {"y": {"shape": [2], "dtype": "float32", "values": [1.0, 2.0]}}

    def said(outputs, **changes):
        found = result(
            {
                name: strategy(2e-4, outputs=outputs) | changes.get(name, {})
                for name in ("single", "auto")
            }
        )
        return [whose for whose, _ in output_texts(found, "y", outputs_of(found)["y"])]

    assert said(large) == ["within tolerance under every strategy"]
    assert said(large, auto={"correct": None}) == ["under every strategy"]
    assert said(small) == ["the same under every strategy"]


def test_a_foreign_prediction_is_not_said_to_have_run():
    plan, layer = parse_experiment(DEFAULT_SPEC), result({"auto": strategy(1e-5)}).experiment
    for origin in (Origin(EXAMPLES, 0.0), Origin("3f2a", 0.0)):
        compiled = origin_words(origin, plan, "TPU v5 lite")
        assert "compiled" in compiled and compiled.endswith("Nothing was executed.")
        assert "for TPU v5 lite" in compiled
        assert "was run" not in compiled and "that machine" not in compiled
        assert "for that machine alone." in origin_words(origin, layer, "cpu")


def test_of_values_that_differ_the_elements_that_do_are_shown():
    def of(values):
        return {"y": {"shape": [2, 2], "dtype": "float32", "values": values}}

    found = result(
        {
            "single": strategy(2e-4, outputs=of([1.0, 2.0, 3.0, 4.0])),
            "auto": strategy(2e-4, outputs=of([1.0, 2.5, 3.0, "nan"])),
        }
    )
    assert list(output_texts(found, "y", outputs_of(found)["y"])) == [
        ("Single device", "1.0 2.0 3.0 4.0"),
        (
            "Automatic",
            "2 of 4 elements differ from Single device's\n"
            "[0, 1] 2.5, Single device 2.0\n"
            "[1, 1] nan, Single device 4.0",
        ),
    ]


def test_a_point_three_times_off_the_line_is_named():
    def point(nbytes, time_s, predicted_s=None):
        return Point(
            kind="all-reduce",
            axes=("x",),
            devices=8,
            dtype="float32",
            bytes=nbytes,
            time_s=time_s,
            predicted_s=predicted_s,
        )

    near = [point(2**20, 1e-3, 1.1e-3), point(2**22, 2e-3, 1e-3)]
    assert off_line_words(near, ()) == ""
    far = [*near, point(2**24, 9e-3, 2e-3), point(2**25, 1e-3, 3.1e-3)]
    assert off_line_words(far, ()) == (
        "2 points are 3 times off the line or more: all-reduce of 16.0 MiB over x took 9 ms, where "
        "the line has 2 ms."
    )
    line = Fit(
        kind="all-reduce",
        axes=("x",),
        devices=8,
        latency_s=1e-3,
        latency_ci95_s=(1e-3, 1e-3),
        bandwidth=1e12,
        bandwidth_ci95=(1e12, 1e12),
        knee_bytes=1.0,
        worst_error=3.0,
    )
    assert off_line_words([point(1024, 2e-3)], [line]) == ""
    assert off_line_words([point(1024, 4e-3)], [line]).startswith("1 point is 3 times off")
    assert bandwidths(point(8, None, 1.0)) == (8.0, 14.0)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((), "0 collectives"),
        ((1,), "1 collective"),
        ((1, 1), "2 collectives"),
        ((1, 4), "2 collectives (5 runs a step)"),
        ((1, None), "2 collectives"),
    ],
)
def test_collectives_are_counted_as_instructions_and_as_often_as_they_run(counts, words):
    assert counted_words(counts) == words
