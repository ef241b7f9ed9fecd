"""The course through the real worker: what its programs say beyond the numbers that each recipe
expects.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.recipes import RECIPES
from spmd_core.recipes.dot_products import OLD, WAYS
from spmd_core.recipes.recipe import program_spec
from spmd_core.results import StrategyResult
from spmd_core.script import program_text
from spmd_core.workloads import program_sizes
from tests.labs import is_running, until

# What the notebook prints from a TPU for key 42; most likely it rounds inside random.normal
# otherwise than a CPU.
TPU_DOTS = (
    0.51048726,
    -0.7174605,
    -0.20105815,
    -0.26437205,
    -1.3696793,
    2.744793,
    1.7936493,
    -1.1743435,
)
# stands in the command line of the processes that two_processes starts
CHILD = "initialization_timeout=30"


@pytest.fixture
def results(run):
    """Recipe name -> what the program gave."""

    def of(name, again=False, **sizes) -> StrategyResult:
        spec = dict(RECIPES[name].spec)
        return run(spec | {"options": spec["options"] | sizes}, again).strategies["as_written"]

    return of


def values(found, name):
    return np.array(found.outputs[name].values)


@pytest.mark.parametrize("name", ["six_ways", "pmap_add", "convolve", "logistic", "affine"])
def test_computed_numbers_are_those_of_numpy_in_float64(name, results):
    errors = [
        float(number)
        for key, text in results(name).printed.items()
        if "float64" in key or "numpy" in key
        for number in re.findall(r"\d\.?\d*e[+-]\d+", text)
    ]
    assert errors and max(errors) < 2e-6


def test_the_dot_products_are_the_notebooks_up_to_the_rounding_of_a_tpu(results):
    for way in WAYS:
        assert np.abs(values(results("six_ways"), way) - OLD).max() < 2e-6
        assert np.abs(values(results("six_ways"), way) - TPU_DOTS).max() < 4e-5


def test_the_devices_are_those_of_the_target(results):
    found = results("devices")
    assert found.outputs["ids"].values == tuple(range(8))
    assert (
        found.printed["platform"] == "cpu"
        and found.printed["device_count"] == "8, of this process 8"
    )
    assert (
        found.printed["devices"].splitlines()[7]
        == "cpu: id=7, process_index=0, coords=None, core_on_chip=None"
    )


@pytest.mark.parametrize("name", ["linear_gradient", "network_gradient"])
def test_the_parallel_gradient_is_that_of_one_device_and_the_loss_falls(name, results):
    found = results(name)
    for way in ("pmap", "shard_map", "auto"):
        assert float(found.printed[f"{way} against one device"].split()[-1]) < 1e-5
    losses = values(found, "losses")
    assert (np.diff(losses) < 1e-6).all() and losses[-1] < losses[0] / 10


def test_the_regression_finds_the_least_squares_solution(results):
    found = results("linear_gradient")
    assert np.abs(values(found, "weights") - values(found, "least_squares")).max() < 1e-3


def test_the_numbers_are_bit_for_bit_the_same_on_any_number_of_devices(results):
    found = results("numbers_over_devices")
    assert (
        found.outputs["on_1"].values == found.outputs["on_2"].values == found.outputs["on_8"].values
    )
    assert len({shard.index for shard in found.outputs["on_8"].shards or ()}) == 8


def test_timings_come_as_mean_and_as_median_within_its_interval(results):
    found = results("six_timings", runs=3, calls=5)
    for way in WAYS:
        assert "3 runs of 5" in found.printed[way]
        mean, deviation, median, low, high = (
            float(number)
            for number in re.findall(
                r"[\d.]+(?= µs)|(?<=\[)[\d.]+|[\d.]+(?=\])", found.printed[way]
            )
        )
        assert 0 < low <= median <= high and mean > 0 and deviation >= 0


def test_the_first_call_compiles_and_what_is_not_waited_for_looks_fast(results):
    found = results("numpy_against_jit")
    first, then, sent = (
        float(number) for number in re.findall(r"[\d.]+(?= ms)", found.printed["jit on one device"])
    )
    assert first > then > sent


def test_a_program_leaves_the_worker_as_it_was(results):
    today = RECIPES["one_key_twice"].expected.exact["ten_from_split_keys"]
    results("old_random_numbers")
    results("six_ways")
    results("numpy_against_jit")
    assert results("one_key_twice", again=True).outputs["ten_from_split_keys"].values == today


def test_sizes_are_chosen_by_options_and_written_into_the_program(results):
    found = results("many_rows", rows=800, calls=3)
    assert found.printed["vmap: shape"] == "(800,)" and found.printed["pmap: sums"].startswith(
        "NOT the same: 8 sums, each over 300 products"
    )
    text = program_text(
        parse_experiment(program_spec("many_rows", rows=800) | {"target": "cpu:8"}), "as_written"
    )
    assert "ROWS = 800  # 64 to 10_000_000" in text and "CALLS = 9  # 3 to 1_000" in text


def test_a_size_at_its_default_is_no_other_experiment():
    default = program_sizes("many_rows")["rows"].default
    assert (
        parse_experiment(program_spec("many_rows", rows=default)).id
        == parse_experiment(program_spec("many_rows")).id
    )
    assert (
        parse_experiment(program_spec("many_rows", rows=default + 8)).id
        != parse_experiment(program_spec("many_rows")).id
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"rows": 10**12},
            "rows=1000000000000 is not a size of program many_rows: use a whole number from 64 to "
            "10000000",
        ),
        ({"rows": 0}, "rows=0 is not a size"),
        ({"rows": "many"}, "rows='many' is not a size"),
        ({"rows": True}, "rows=True is not a size"),
        (
            {"columns": 3},
            "option 'columns' is not one of program many_rows: use device_order or rows or calls",
        ),
    ],
)
def test_a_size_that_is_not_allowed_is_refused(options, words):
    with pytest.raises(RequestError, match=re.escape(words)):
        parse_experiment(
            {"workload": "program", "mesh": {"x": 8}, "options": {"program": "many_rows"} | options}
        )


def children(worker_pid):
    """Process ids of what two_processes has started in this worker's session, which they stay in
    when the worker is gone.
    """
    return [
        int(entry.name)
        for entry in Path("/proc").glob("[0-9]*")
        if worker_pid and _is_child(entry, worker_pid)
    ]


def _is_child(entry, worker_pid):
    try:
        session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
        return session == worker_pid and CHILD in (entry / "cmdline").read_text(errors="replace")
    except (OSError, IndexError):
        return False


def test_the_processes_that_a_program_starts_end_with_it(lab, results):
    results("two_processes")
    assert lab.worker_pid and children(lab.worker_pid) == []


def test_a_cancelled_program_takes_its_processes_with_it(tmp_path):
    with_children = Lab.open(tmp_path)
    try:
        run_id = with_children.submit(
            parse_experiment(program_spec("two_processes") | {"target": "cpu:8"})
        )
        started = until(
            lambda: children(with_children.worker_pid) or with_children.status(run_id).is_over, 180
        )
        assert isinstance(started, list), with_children.status(run_id)
        worker = with_children.worker_pid
        with_children.cancel(run_id)
        until(lambda: not children(worker) and not any(map(is_running, started)), 60)
        assert with_children.wait(run_id, 60).state == "cancelled"
    finally:
        with_children.close()
